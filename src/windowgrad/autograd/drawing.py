"""A tape as a table, as a graph in Graphviz's language, and as a picture."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import Field, fields, is_dataclass
from html import escape
from typing import TYPE_CHECKING, Any

from windowgrad.errors import show

if TYPE_CHECKING:
    from windowgrad.autograd.tape import Node, Tape

WIDTH, HEIGHT, ACROSS, DOWN = 190, 46, 26, 40  # of a box, and between boxes, in pixels


def kind(value: Any) -> str:
    return f"{value.dtype}{tuple(value.shape)}"


def described(tape: Tape, node: int) -> str:
    """`3 conv2d: float32(1, 3, 8, 8)`."""
    return f"{node} {tape.nodes[node].name}: {kind(tape.nodes[node].value)}"


USUAL = {"padding": 0, "dilation": 1, "ceil_mode": False, "output_padding": 0}  # on every axis, and then not shown


def options(params: Any) -> str:
    """What an operator was told, without what it is told by default: `kernel=(2, 2), stride=(2, 2)`."""
    if not is_dataclass(params):
        return ""
    parts = []
    for field in fields(params):
        value = getattr(params, field.name)
        if is_dataclass(value) and not isinstance(value, type):
            parts.append(options(value))
        elif field.repr and field.init and not hasattr(value, "dtype") and not is_usual(field, value):
            parts.append(f"{field.name}={show(value, 40)}")
    return ", ".join(filter(None, parts))


def is_usual(field: Field[Any], value: Any) -> bool:
    entries = list(value) if isinstance(value, tuple) else [value]
    while entries and isinstance(entries[0], tuple):
        entries = [part for entry in entries for part in entry]
    return bool(value == field.default) or all(entry == USUAL.get(field.name, entries) for entry in entries)


def rows(tape: Tape) -> Iterator[tuple[str, ...]]:
    for i, node in enumerate(tape.nodes):
        told = options(node.params)
        yield (
            str(i),
            f"{node.name}({told})" if told else node.name,
            str(tuple(node.value.shape)),
            str(node.value.dtype),
            " ".join(map(str, node.parents)),
            f"{node.value.size * node.value.dtype.itemsize:,}",
            "" if node.seconds is None else f"{node.seconds * 1e6:,.0f} µs",
            "" if node.requires_grad else "constant",
        )


def table(tape: Tape) -> str:
    """One line per node; columns with nothing in them are left out."""
    lines = [("id", "op", "shape", "dtype", "parents", "bytes", "time", ""), *rows(tape)]
    right = {0, 5, 6}
    columns = [column for column in zip(*lines, strict=True) if any(column[1:])]
    places = [place for place, column in enumerate(zip(*lines, strict=True)) if any(column[1:])]
    widths = [max(map(len, column)) for column in columns]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if place in right else cell.ljust(width)
            for place, cell, width in zip(places, line, widths, strict=True)
        ).rstrip()
        for line in zip(*columns, strict=True)
    )


def dot(tape: Tape) -> str:
    """The graph in Graphviz's language: an edge from each parent to its child."""
    lines = ["digraph tape {", '  node [shape=box, fontname="Helvetica"];']
    for i, node in enumerate(tape.nodes):
        label = f"{i} {node.name}\\n{kind(node.value)}".replace('"', "'")
        style = "" if node.requires_grad else ", style=dashed"
        lines.append(f'  {i} [label="{label}"{", shape=ellipse" if not node.parents else ""}{style}];')
        lines += [f"  {parent} -> {i};" for parent in node.parents]
    return "\n".join([*lines, "}"])


def ranked(nodes: list[Node]) -> list[list[int]]:
    """Nodes by rows: an operator stands below all its parents, a leaf just above its first child."""
    depth = [0] * len(nodes)
    for i, node in enumerate(nodes):
        depth[i] = max((depth[parent] + 1 for parent in node.parents), default=0)
    first = dict.fromkeys(range(len(nodes)), len(nodes))
    for i, node in enumerate(nodes):
        for parent in node.parents:
            first[parent] = min(first[parent], depth[i])
    for i, node in enumerate(nodes):
        if not node.parents and first[i] < len(nodes):
            depth[i] = first[i] - 1
    lines: list[list[int]] = [[] for _ in range(max(depth, default=-1) + 1)]
    for i, row in enumerate(depth):
        lines[row].append(i)
    return lines


def placed(nodes: list[Node]) -> dict[int, tuple[float, float]]:
    """The upper middle of each box. A row is ordered by where its parents stand, and keeps right of what it would cover."""
    places: dict[int, tuple[float, float]] = {}
    for depth, line in enumerate(ranked(nodes)):
        wished = {i: _mean([places[p][0] for p in nodes[i].parents if p in places]) for i in line}
        least = 0.0
        for i in sorted(line, key=lambda i: (wished[i] if nodes[i].parents else float("inf"), i)):
            x = max(wished[i], least + WIDTH / 2)
            places[i] = (x, depth * (HEIGHT + DOWN))
            least = x + WIDTH / 2 + ACROSS
    return places


def _mean(values: list[float]) -> float:
    return sum(values) / len(values) if values else 0.0


def svg(tape: Tape) -> str:
    """The graph as a picture: leaves are round, constants dashed, and the options of an operator show under the pointer."""
    places = placed(tape.nodes)
    width = max((x for x, _ in places.values()), default=0) + WIDTH / 2 + 2 * ACROSS
    height = max((y for _, y in places.values()), default=0) + HEIGHT + DOWN
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
        f'viewBox="{-ACROSS} {-DOWN / 2:.0f} {width:.0f} {height:.0f}" font-family="Helvetica, Arial, sans-serif">',
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        '<path d="M0 0 8 4 0 8z" fill="#667"/></marker></defs>',
    ]
    for i, node in enumerate(tape.nodes):
        for parent in node.parents:
            lines.append(_edge(places[parent], places[i]))
    for i, node in enumerate(tape.nodes):
        lines += _box(i, node, *places[i])
    return "\n".join([*lines, "</svg>"])


def _edge(start: tuple[float, float], end: tuple[float, float]) -> str:
    (x1, y1), (x2, y2) = (start[0], start[1] + HEIGHT), end
    middle = (y1 + y2) / 2
    path = f"M{x1:.0f} {y1:.0f}C{x1:.0f} {middle:.0f} {x2:.0f} {middle:.0f} {x2:.0f} {y2:.0f}"
    return f'<path d="{path}" fill="none" stroke="#667" marker-end="url(#tip)"/>'


def _box(i: int, node: Node, x: float, y: float) -> list[str]:
    fill = "#eef4ff" if node.parents else "#eaf7ea"
    dashes = "" if node.requires_grad else ' stroke-dasharray="4 3"'
    told = escape(options(node.params))
    return [
        f"<g><title>{i} {escape(node.name)}{f'({told})' if told else ''}</title>"
        f'<rect x="{x - WIDTH / 2:.0f}" y="{y:.0f}" width="{WIDTH}" height="{HEIGHT}" '
        f'rx="{6 if node.parents else HEIGHT // 2}" fill="{fill}" stroke="#446"{dashes}/>',
        _text(x, y + 19, f"{i} {node.name}", 14, "#000"),
        f"{_text(x, y + 36, kind(node.value), 11, '#555')}</g>",
    ]


def _text(x: float, y: float, words: str, size: int, colour: str) -> str:
    return f'<text x="{x:.0f}" y="{y:.0f}" text-anchor="middle" font-size="{size}" fill="{colour}">{escape(words)}</text>'
