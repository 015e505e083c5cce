"""A tape as a table, as a graph in Graphviz's language, and as a picture."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import Field, fields, is_dataclass
from html import escape
from typing import TYPE_CHECKING, Any

from windowgrad.errors import show

if TYPE_CHECKING:
    from windowgrad.autograd.tape import Node, Tape

WIDTH, HEIGHT, ACROSS, DOWN = 150, 46, 26, 40  # of a box at least, and between boxes, in pixels


def kind(value: Any) -> str:
    return f"{value.dtype}{tuple(value.shape)}"


def described(tape: Tape, node: int) -> str:
    """`3 conv2d: float32(1, 3, 8, 8)`."""
    return f"{node} {tape.nodes[node].name}: {kind(tape.nodes[node].value)}"


def titled(tape: Tape) -> list[Node]:
    """The nodes under the names by which they are shown: one that was named also says its operator, `stem = conv2d`."""
    operators = tape._names.operators
    return [
        node._replace(name=f"{node.name} = {operators[i]}" if not node.name.endswith(f"/{operators[i]}") else node.name)
        if i in operators
        else node
        for i, node in enumerate(tape.nodes)
    ]


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
    for i, node in enumerate(titled(tape)):
        told = options(node.params)
        yield (
            str(i),
            f"{node.name}({told})" if told else node.name,
            str(tuple(node.value.shape)),
            str(node.value.dtype),
            " ".join(map(str, node.parents)),
            f"{node.value.size * node.value.dtype.itemsize:,}",
            "" if node.saved is None else f"{node.saved.nbytes:,}",
            "" if node.seconds is None else f"{node.seconds * 1e6:,.0f} µs",
            "" if node.requires_grad else "constant",
        )


def table(tape: Tape) -> str:
    """One line per node; columns with nothing in them are left out."""
    lines = [("id", "op", "shape", "dtype", "parents", "bytes", "saved", "time", ""), *rows(tape)]
    right = {0, 5, 6, 7}
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
    for i, node in enumerate(titled(tape)):
        label = f"{i} {node.name}\\n{kind(node.value)}".replace('"', "'")
        style = "" if node.requires_grad else ", style=dashed"
        lines.append(f'  {i} [label="{label}"{", shape=ellipse" if not node.parents else ""}{style}];')
        lines += [f"  {parent} -> {i};" for parent in node.parents]
    return "\n".join([*lines, "}"])


# --- the picture -------------------------------------------------------------------------------------------------

Place = tuple[float, float]
Stop = tuple[int, int, int]  # where an edge passes a row: its child, the place of its parent there, and the row


def ranked(nodes: list[Node]) -> list[int]:
    """The row of each node: below all its parents, and otherwise just above its first child."""
    row = [0] * len(nodes)
    for i, node in enumerate(nodes):
        row[i] = max((row[parent] + 1 for parent in node.parents), default=0)
    first = dict.fromkeys(range(len(nodes)), len(nodes))
    for i in reversed(range(len(nodes))):
        if first[i] < len(nodes):
            row[i] = first[i] - 1
        for parent in nodes[i].parents:
            first[parent] = min(first[parent], row[i])
    return row


def placed(nodes: list[Node], row: list[int]) -> dict[int | Stop, Place]:
    """The upper middle of each box, and of each gap that a long edge leaves in the rows it passes.

    A row is ordered by where its parents stand; each keeps right of what it would cover. Leaves come last.
    """
    lines: list[list[tuple[int | Stop, list[int | Stop]]]] = [[] for _ in range(max(row, default=-1) + 1)]
    for i, node in enumerate(nodes):
        above: list[int | Stop] = []
        for place, parent in enumerate(node.parents):
            came: int | Stop = parent
            for passed in range(row[parent] + 1, row[i]):
                stop = (i, place, passed)
                lines[passed].append((stop, [came]))
                came = stop
            above.append(came)
        lines[row[i]].append((i, above))
    places: dict[int | Stop, Place] = {}
    for y, line in enumerate(lines):
        wished = {item: sum(places[a][0] for a in above) / len(above) if above else float("inf") for item, above in line}
        least = 0.0
        for item, above in sorted(line, key=lambda entry: wished[entry[0]]):
            half = width(nodes[item]) / 2 if isinstance(item, int) else 0
            x = max(wished[item] if above else 0, least + half)
            places[item] = (x, y * (HEIGHT + DOWN))
            least = x + half + ACROSS
    return places


def width(node: Node) -> float:
    """So wide that both lines of text fit, in the widest of the usual fonts; digits stand for the number of the node."""
    return max(WIDTH, 9 * len(f"000 {cut(node.name)}") + 12, 7 * len(kind(node.value)) + 24)


def cut(name: str, most: int = 40) -> str:
    return name if len(name) <= most else f"{name[: most - 1]}…"


def svg(tape: Tape) -> str:
    """The graph as a picture: leaves are round, constants dashed, and the options of an operator show under the pointer."""
    nodes, row = titled(tape), ranked(tape.nodes)
    places = placed(nodes, row)
    boxes = [places[i][0] + width(node) / 2 for i, node in enumerate(nodes)]
    right = max((*boxes, *(x for x, _ in places.values())), default=0) + 2 * ACROSS
    height = max((y for _, y in places.values()), default=0) + HEIGHT + DOWN
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{right:.0f}" height="{height:.0f}" '
        f'viewBox="{-ACROSS} {-DOWN / 2:.0f} {right:.0f} {height:.0f}" font-family="Helvetica, Arial, sans-serif">',
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        '<path d="M0 0 8 4 0 8z" fill="#667"/></marker></defs>',
    ]
    paths = edges(nodes, row, places)
    lines += [f'<path d="{path}" fill="none" stroke="#667" marker-end="url(#tip)"/>' for path in paths]
    for i, node in enumerate(nodes):
        lines += _box(i, node, *places[i])
    return "\n".join([*lines, "</svg>"])


def edges(nodes: list[Node], row: list[int], places: dict[int | Stop, Place]) -> Iterator[str]:
    """The path of each edge; at a node they end in the order of its arguments."""
    for i, node in enumerate(nodes):
        x, y = places[i]
        for place, parent in enumerate(node.parents):
            stops = [places[i, place, passed] for passed in range(row[parent] + 1, row[i])]
            aside = (place - (len(node.parents) - 1) / 2) * min(24, WIDTH / 2 / len(node.parents))
            yield _edge(places[parent], stops, (x + aside, y))


def _edge(start: Place, stops: list[Place], end: Place) -> str:
    """From under a box to the top of another: it bends between the rows, and goes straight down where it passes one."""
    (x, y), path = start, f"M{start[0]:.0f} {start[1] + HEIGHT:.0f}"
    for nx, ny in (*stops, end):
        bottom, middle = y + HEIGHT, (y + HEIGHT + ny) / 2
        path += f"{f'V{bottom:.0f}' if y != start[1] else ''}C{x:.0f} {middle:.0f} {nx:.0f} {middle:.0f} {nx:.0f} {ny:.0f}"
        x, y = nx, ny
    return path


def _box(i: int, node: Node, x: float, y: float) -> list[str]:
    fill = "#eef4ff" if node.parents else "#eaf7ea"
    dashes = "" if node.requires_grad else ' stroke-dasharray="4 3"'
    told, wide = escape(options(node.params)), width(node)
    return [
        f"<g><title>{i} {escape(node.name)}{f'({told})' if told else ''}</title>"
        f'<rect x="{x - wide / 2:.0f}" y="{y:.0f}" width="{wide:.0f}" height="{HEIGHT}" '
        f'rx="{6 if node.parents else HEIGHT // 2}" fill="{fill}" stroke="#446"{dashes}/>',
        _text(x, y + 19, f"{i} {cut(node.name)}", 14, "#000"),
        f"{_text(x, y + 36, kind(node.value), 11, '#555')}</g>",
    ]


def _text(x: float, y: float, words: str, size: int, colour: str) -> str:
    return f'<text x="{x:.0f}" y="{y:.0f}" text-anchor="middle" font-size="{size}" fill="{colour}">{escape(words)}</text>'
