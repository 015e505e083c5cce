"""A network as one page that needs nothing else: its graph, which can be moved and zoomed, and the details of each layer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path
from string import Template
from typing import Any, NamedTuple

import numpy as np

from windowgrad.autograd import drawing
from windowgrad.conform.report.html import digest
from windowgrad.errors import show
from windowgrad.models.layers import Layer, Shape, in_short
from windowgrad.models.window import drawings
from windowgrad.onnx import Network

FOLDER = Path(__file__).parent


class Kind(NamedTuple):
    """What is said of a value in a box."""

    shape: Shape
    dtype: Any


class Box(NamedTuple):
    """A box of the graph: an input or an output of the network, or a layer, which has a number."""

    name: str
    parents: tuple[int, ...]
    value: Kind
    family: str
    number: int | None = None


def as_html(net: Network, layers: Sequence[Layer], in_shapes: Sequence[Shape]) -> str:
    style, script = (FOLDER.joinpath(name).read_text("utf-8") for name in ("page.css", "page.js"))
    given = ", ".join(f"{value.name}: {value.dtype}{shape}" for value, shape in zip(net.inputs, in_shapes, strict=True))
    parameters, products = (sum(getattr(layer.row, name) for layer in layers) for name in ("parameters", "multiply_adds"))
    return Template(FOLDER.joinpath("page.html").read_text("utf-8")).substitute(
        style=style,
        script=script,
        style_hash=digest(style),
        script_hash=digest(script),
        title=escape(net.graph.name or "Network"),
        gist=escape(f"{len(layers)} layers, {parameters:,} parameters, {products:,} multiply-adds for {given}"),
        graph=graph(boxes(net, layers, in_shapes)),
        rows="".join(row(number, layer) for number, layer in enumerate(layers)),
        details="".join(details(number, layer) for number, layer in enumerate(layers)),
    )


# --- the graph -----------------------------------------------------------------------------------------------------


def boxes(net: Network, layers: Sequence[Layer], in_shapes: Sequence[Shape]) -> list[Box]:
    """Inputs, layers and outputs; parameters and constants are not drawn."""
    found: list[Box] = []
    made: dict[str, int] = {}
    for value, shape in zip(net.inputs, in_shapes, strict=True):
        made[value.name] = len(found)
        found.append(Box(value.name, (), Kind(shape, value.dtype), "end"))
    for number, layer in enumerate(layers):
        parents = tuple(made[name] for name in layer.inputs if name in made)
        shape = next(iter(layer.outputs.values()), ())
        made |= dict.fromkeys(layer.outputs, len(found))
        found.append(Box(titled(layer), parents, Kind(shape, layer.dtype), family(layer), number))
    for name in net.outputs:
        if name in made:
            found.append(Box(name, (made[name],), found[made[name]].value, "end"))
    return found


def titled(layer: Layer) -> str:
    return layer.node.op_type if layer.windows is None else f"{layer.node.op_type} {in_short(layer.windows.geometry)}"


def family(layer: Layer) -> str:
    """Which colour: products, windows, or others."""
    return "product" if layer.row.multiply_adds else "pool" if layer.windows else "other"


def graph(nodes: list[Any]) -> str:
    row = drawing.ranked(nodes)
    places = drawing.placed(nodes, row)
    right = max(x + drawing.width(nodes[i]) / 2 if isinstance(i, int) else x for i, (x, _) in places.items())
    left = min(x - drawing.width(nodes[i]) / 2 if isinstance(i, int) else x for i, (x, _) in places.items())
    low = max(y for _, y in places.values()) + drawing.HEIGHT
    paths = "".join(f'<path class="edge" d="{path}"/>' for path in drawing.edges(nodes, row, places))
    drawn = "".join(box(node, *places[i]) for i, node in enumerate(nodes))
    return (
        f'<svg id="graph" role="group" aria-label="The graph of the network" viewBox="{left - 20:.0f} -20 '
        f'{right - left + 40:.0f} {low + 40:.0f}"><defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" '
        f'markerHeight="7" orient="auto"><path d="M0 0 8 4 0 8z"/></marker></defs>{paths}{drawn}</svg>'
    )


def box(node: Box, x: float, y: float) -> str:
    wide, high = drawing.width(node), drawing.HEIGHT  # type: ignore[arg-type]  # a box has what a node is drawn by
    round_ = high // 2 if node.number is None else 6
    text = (
        f'<rect x="{x - wide / 2:.0f}" y="{y:.0f}" width="{wide:.0f}" height="{high}" rx="{round_}"/>'
        f'<text x="{x:.0f}" y="{y + 19:.0f}">{escape(drawing.cut(node.name))}</text>'
        f'<text class="small" x="{x:.0f}" y="{y + 36:.0f}">{escape(drawing.kind(node.value))}</text>'
    )
    if node.number is None:
        return f'<g class="box {node.family}">{text}</g>'
    return f'<a class="box {node.family}" href="#layer-{node.number}" data-layer="{node.number}">{text}</a>'


# --- layers --------------------------------------------------------------------------------------------------------


def row(number: int, layer: Layer) -> str:
    told = layer.row
    costs = "".join(f'<td class="number">{cost:,}</td>' for cost in (told.parameters, told.multiply_adds))
    link = f'<a href="#layer-{number}" data-layer="{number}">{escape(told.place)}</a>'
    return f'<tr><th scope="row">{link}</th><td>{escape(titled(layer))}</td><td>{told.out_shape}</td>{costs}</tr>'


def details(number: int, layer: Layer) -> str:
    node = layer.node
    lines = [*values("input", layer.inputs), *values("output", layer.outputs)]
    lines += [(name, told(value)) for name, value in node.attributes.items()]
    lines += [("parameters", f"{layer.row.parameters:,}")] * bool(layer.row.parameters)
    lines += [("multiply-adds", f"{layer.row.multiply_adds:,}")] * bool(layer.row.multiply_adds)
    listed = "".join(f"<dt>{escape(name)}</dt><dd>{escape(text)}</dd>" for name, text in lines)
    head = f"<h3>{escape(node.name)} <small>{escape(titled(layer))}</small></h3>"
    return f'<section class="layer" id="layer-{number}">{head}<dl>{listed}</dl>{"".join(figures(layer))}</section>'


def values(word: str, shapes: dict[str, Shape]) -> Iterator[tuple[str, str]]:
    for name, shape in shapes.items():
        yield word, f"{name} {shape}"


def told(value: Any) -> str:
    return f"array {value.dtype}{value.shape}" if isinstance(value, np.ndarray) else show(value)


def figures(layer: Layer) -> Iterator[str]:
    if layer.windows is None:
        return
    subject = "input" if layer.node.op_type == "ConvTranspose" else "output"
    for caption, svg in drawings(layer.windows, subject):
        yield f"<figure>{svg}<figcaption>{escape(caption)}</figcaption></figure>"
