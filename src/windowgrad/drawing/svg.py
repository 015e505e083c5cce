"""A window drawn as SVG: the cells of the input with their numbers, the padding around them, what is seen, and who wins."""

from __future__ import annotations

from html import escape
from typing import NamedTuple

from windowgrad.drawing.numbers import digits
from windowgrad.drawing.places import Place
from windowgrad.drawing.views import Slice, View, at, count, described, held, kind, label, last_two, slices
from windowgrad.errors import cut

CELL = 40
GAP = 18
LABEL = 16
MOST_CELLS = 300
"""A drawing with more cells than this explains nothing, and is left out."""


class Drawing(NamedTuple):
    """Elements of SVG, and the room that they need."""

    parts: str
    width: int
    height: int


def drawn(view: View) -> str:
    """The drawing as SVG, or nothing if it has too many cells."""
    if count(view) > MOST_CELLS:
        return ""
    parts, width, height = cells(view)
    words = escape(described(view), quote=True)
    size = f'width="{width + 4}" height="{height + 4}" viewBox="0 0 {width + 4} {height + 4}"'
    return f'<svg role="img" aria-label="{words}" {size}><g transform="translate(2 2)">{parts}</g></svg>'


def cells(view: View, cell: int = CELL, room: int | None = None) -> Drawing:
    """The slices side by side, in as many rows as fit the room; all in one if there is no limit."""
    _, rows, columns = last_two(view)
    found = slices(view)
    labelled = LABEL if len(found) > 1 or any(view.planes) else 0
    width, height = len(columns) * cell, len(rows) * cell + labelled
    across = len(found) if room is None else max(1, min(len(found), (room + GAP) // (width + GAP)))
    parts = []
    for number, part in enumerate(found):
        text = f'<text class="l" x="0" y="11">{escape(label(view, part))}</text>' if labelled else ""
        boxes = "".join(
            boxed(view, part, at(view, part, row, column), x * cell, y * cell + labelled, cell)
            for y, row in enumerate(rows)
            for x, column in enumerate(columns)
        )
        line, place = divmod(number, across)
        parts.append(f'<g transform="translate({place * (width + GAP)} {line * (height + GAP)})">{text}{boxes}</g>')
    down = -(-len(found) // across)
    return Drawing("".join(parts), across * (width + GAP) - GAP, down * (height + GAP) - GAP)


def boxed(view: View, part: Slice, place: Place, x: int, y: int, cell: int) -> str:
    """One cell: its box, a ring around the winner, its number, and the note under it."""
    sort, note = kind(view, part.plane, place), view.notes.get((part.name, place), "")
    middle, base = x + cell // 2, y + cell // 2 + (-3 if note else 4)
    box = f'<rect class="{sort}" x="{x + 1}" y="{y + 1}" width="{cell - 2}" height="{cell - 2}" rx="3"/>'
    if place in view.won:
        box += f'<circle class="w" cx="{middle}" cy="{y + cell // 2}" r="{cell // 2 - 3}"/>'
    text = number(held(part.plane, place)) if sort[0] == "r" else "p" if sort[0] == "p" else "·"
    small = " n" if len(text) > 4 else ""
    under = f'<text class="b" x="{middle}" y="{y + cell // 2 + 13}">{escape(note)}</text>' if note else ""
    return f'{box}<text class="{sort}{small}" x="{middle}" y="{base}">{escape(text)}</text>{under}'


def number(cell: object) -> str:
    """The number of a cell, which has room for eight characters."""
    text = digits(cell)
    return text if len(text) <= 7 else cut(digits(cell, 3), 8)
