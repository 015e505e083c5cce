"""A window drawn as SVG: the cells of the input with their numbers, the padding around them, what is seen, and who wins."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Any, NamedTuple

from windowgrad.arguments import Pairs
from windowgrad.drawing.numbers import digits
from windowgrad.drawing.places import Place

CELL = 40
GAP = 18
LABEL = 16
MOST_CELLS = 300
"""A drawing with more cells than this explains nothing, and is left out."""


@dataclass(frozen=True)
class View:
    """What one drawing shows: planes of the input by name, the cells that the window covers, and the winners among them."""

    title: str
    planes: Mapping[str, Any]
    """Arrays, or what has a shape and gives the cell at a place."""
    axes: Sequence[range]
    """The places that are drawn on each axis; those that are no index of the plane are padding, or past it."""
    padding: Pairs
    seen: set[Place]
    won: list[Place] = field(default_factory=list)
    masked: set[Place] = field(default_factory=set)
    """Cells that a mask leaves out."""
    notes: Mapping[tuple[str, Place], str] = field(default_factory=dict)
    """What is written under the number of a cell, by the name of its plane and its place."""


class Slice(NamedTuple):
    """Two axes of a plane: the name of the plane, the plane, and the places on the axes before these two."""

    name: str
    plane: Any
    before: Place


class Drawing(NamedTuple):
    """Elements of SVG, and the room that they need."""

    parts: str
    width: int
    height: int


def shown(place: Place) -> str:
    return str(place[0]) if len(place) == 1 else f"({', '.join(map(str, place))})"


def drawn(view: View) -> str:
    """The drawing as SVG, or nothing if it has too many cells."""
    if count(view) > MOST_CELLS:
        return ""
    parts, width, height = cells(view)
    words = escape(described(view), quote=True)
    size = f'width="{width + 4}" height="{height + 4}" viewBox="0 0 {width + 4} {height + 4}"'
    return f'<svg role="img" aria-label="{words}" {size}><g transform="translate(2 2)">{parts}</g></svg>'


def last_two(view: View) -> tuple[list[range], range, range]:
    """(the axes before, rows, columns): one axis is a row."""
    *slicing, rows, columns = [range(1), *view.axes] if len(view.axes) == 1 else view.axes
    return slicing, rows, columns


def slices(view: View) -> list[Slice]:
    slicing, _, _ = last_two(view)
    return [Slice(name, plane, before) for name, plane in view.planes.items() for before in reached(view, slicing)]


def reached(view: View, slicing: Sequence[range]) -> list[Place]:
    """The slices of an input of many axes that the window reaches; all of them if it reaches none."""
    depth = len(slicing)
    wanted = {cell[:depth] for cell in view.seen}
    found = list(itertools.product(*slicing))
    return [before for before in found if before in wanted] or found


def count(view: View) -> int:
    _, rows, columns = last_two(view)
    return len(slices(view)) * len(rows) * len(columns)


def label(view: View, part: Slice) -> str:
    return " ".join(filter(None, (part.name, f"[{', '.join(map(str, part.before))}, :, :]" if part.before else "")))


def at(view: View, part: Slice, row: int, column: int) -> Place:
    return (*part.before, row, column)[-len(view.axes) :]


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


def kind(view: View, plane: Any, place: Place) -> str:
    """r real, p padded, o past the padding; s seen by the window, m left out by the mask, w its winner."""
    if all(0 <= i < n for i, n in zip(place, plane.shape, strict=True)):
        letter = "r"
    else:
        inside = all(-lo <= i < n + hi for i, n, (lo, hi) in zip(place, plane.shape, view.padding, strict=True))
        letter = "p" if inside else "o"
    letter += " s" if place in view.seen else ""
    return letter + (" m" if place in view.masked else "") + (" w" if place in view.won else "")


def boxed(view: View, part: Slice, place: Place, x: int, y: int, cell: int) -> str:
    """One cell: its box, a ring around the winner, its number, and the note under it."""
    sort, note = kind(view, part.plane, place), view.notes.get((part.name, place), "")
    middle, base = x + cell // 2, y + cell // 2 + (-3 if note else 4)
    box = f'<rect class="{sort}" x="{x + 1}" y="{y + 1}" width="{cell - 2}" height="{cell - 2}" rx="3"/>'
    if place in view.won:
        box += f'<circle class="w" cx="{middle}" cy="{y + cell // 2}" r="{cell // 2 - 3}"/>'
    text = digits(held(part.plane, place)) if sort[0] == "r" else "p" if sort[0] == "p" else "·"
    small = " n" if len(text) > 4 else ""
    under = f'<text class="b" x="{middle}" y="{y + cell // 2 + 13}">{escape(note)}</text>' if note else ""
    return f'{box}<text class="{sort}{small}" x="{middle}" y="{base}">{escape(text)}</text>{under}'


def held(plane: Any, place: Place) -> Any:
    """What is at a place; numbers of NumPy as those of Python."""
    found = plane[place]
    return found.item() if hasattr(found, "item") else found


def described(view: View) -> str:
    """The drawing in words, for those who do not see it."""
    found = []
    for plane in view.planes.values():
        inside = (p for p in sorted(view.seen) if all(0 <= i < n for i, n in zip(p, plane.shape, strict=True)))
        found += [digits(held(plane, p)) for p in inside]
    padded = len(view.seen) * len(view.planes) - len(found)
    winner = f"; the winner is at {' and '.join(map(shown, view.won))}" if view.won else ""
    return (
        f"{view.title} sees {', '.join(found) or 'no real cell'}{f' and {padded} outside the input' if padded else ''}{winner}"
    )
