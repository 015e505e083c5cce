"""What a drawing of one window shows: planes of the input, the places that are drawn, and what each of them is."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from windowgrad.arguments import Pairs
from windowgrad.drawing.numbers import digits
from windowgrad.drawing.places import Place


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


def shown(place: Place) -> str:
    return str(place[0]) if len(place) == 1 else f"({', '.join(map(str, place))})"


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


def kind(view: View, plane: Any, place: Place) -> str:
    """r real, p padded, o past the padding; s seen by the window, m left out by the mask, w its winner."""
    if all(0 <= i < n for i, n in zip(place, plane.shape, strict=True)):
        letter = "r"
    else:
        inside = all(-lo <= i < n + hi for i, n, (lo, hi) in zip(place, plane.shape, view.padding, strict=True))
        letter = "p" if inside else "o"
    letter += " s" if place in view.seen else ""
    return letter + (" m" if place in view.masked else "") + (" w" if place in view.won else "")


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
