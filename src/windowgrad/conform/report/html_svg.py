"""A window drawn: the cells of the input with their numbers, the padding around them, what the window sees, and who wins."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from html import escape
from typing import Any

from windowgrad.conform.case import Array, Case
from windowgrad.conform.report.html_case import Place
from windowgrad.geometry import Sliding

CELL = 40
GAP = 18
LABEL = 16
MOST_CELLS = 300
"""A drawing with more cells than this explains nothing, and is left out."""


@dataclass(frozen=True)
class View:
    """What one drawing shows: planes of the input by name, the cells that the window covers, and the winners among them."""

    title: str
    planes: dict[str, Array]
    axes: list[range]
    """The places that are drawn on each axis; those that are no index of the plane are padding, or past it."""
    padding: tuple[tuple[int, int], ...]
    seen: set[Place]
    won: list[Place] = field(default_factory=list)


def window(case: Case, place: Place, won: list[Place]) -> View:
    """The window of one output of a pooling or a convolution."""
    spatial, o = case.spatial, place[2:]
    sides = [list(case.geometry.cover(axis, i, n)) for axis, (i, n) in enumerate(zip(o, spatial, strict=True))]
    padding = case.geometry.padding if isinstance(case.geometry, Sliding) else ((0, 0),) * case.rank
    axes = [
        range(min(-lo, *side, 0), max(n + hi, *(cell + 1 for cell in side)))
        for (lo, hi), n, side in zip(padding, spatial, sides, strict=True)
    ]
    return View(f"window {shown(o)}", planes(case, place), axes, padding, set(itertools.product(*sides)), won)


def reach(case: Case, place: Place) -> View:
    """The input cells of a transposed convolution that add to one output."""
    out, o = case.out_shape[2:], place[2:]
    assert isinstance(case.geometry, Sliding)
    cells = itertools.product(*map(range, case.spatial))
    seen = {i for i in cells if o in set(itertools.product(*(case.geometry.cover(a, j, out[a]) for a, j in enumerate(i))))}
    axes = [range(n) for n in case.spatial]
    return View(f"output {shown(o)}", planes(case, place), axes, ((0, 0),) * case.rank, seen)


def planes(case: Case, place: Place) -> dict[str, Array]:
    """The planes of the input that one output is made from: its own, or the channels of its group."""
    if not case.is_convolution:
        name = "" if case.x.shape[:2] == (1, 1) else f"x[{place[0]}, {place[1]}]"
        return {name: case.x[place[:2]]}
    width = case.x.shape[1] // case.groups
    first = place[1] // (case.out_shape[1] // case.groups) * width
    return {"" if case.x.shape[1] == 1 else f"channel {c}": case.x[place[0], c] for c in range(first, first + width)}


def shown(place: Place) -> str:
    return str(place[0]) if len(place) == 1 else f"({', '.join(map(str, place))})"


# --- lines and boxes ---------------------------------------------------------------------------------------------


def drawn(view: View) -> str:
    """The drawing as SVG, or nothing if it has too many cells."""
    *slicing, rows, columns = [range(1), *view.axes] if len(view.axes) == 1 else view.axes
    slices = [(name, plane, before) for name, plane in view.planes.items() for before in reached(view, slicing)]
    if len(slices) * len(rows) * len(columns) > MOST_CELLS:
        return ""
    labelled = LABEL if len(slices) > 1 or any(view.planes) else 0
    width, height = len(columns) * CELL, len(rows) * CELL + labelled
    parts = []
    for number, (name, plane, before) in enumerate(slices):
        label = " ".join(filter(None, (name, f"[{', '.join(map(str, before))}, :, :]" if before else "")))
        text = f'<text class="l" x="0" y="11">{escape(label)}</text>' if labelled else ""
        cells = "".join(
            boxed(view, plane, (*before, row, column)[-len(view.axes) :], x * CELL, y * CELL + labelled)
            for y, row in enumerate(rows)
            for x, column in enumerate(columns)
        )
        parts.append(f'<g transform="translate({2 + number * (width + GAP)} 2)">{text}{cells}</g>')
    total = len(slices) * (width + GAP) - GAP + 4
    words = escape(described(view), quote=True)
    size = f'width="{total}" height="{height + 4}" viewBox="0 0 {total} {height + 4}"'
    return f'<svg role="img" aria-label="{words}" {size}>{"".join(parts)}</svg>'


def reached(view: View, slicing: list[range]) -> list[Place]:
    """The slices of an input of many axes that the window reaches; all of them if it reaches none."""
    slices = list(itertools.product(*slicing))
    depth = len(slicing)
    return [before for before in slices if any(cell[:depth] == before for cell in view.seen)] or slices


def boxed(view: View, plane: Array, place: Place, x: int, y: int) -> str:
    """One cell: r real, p padded, o past the padding; s seen by the window, w its winner."""
    real = all(0 <= i < n for i, n in zip(place, plane.shape, strict=True))
    inside = all(-lo <= i < n + hi for i, n, (lo, hi) in zip(place, plane.shape, view.padding, strict=True))
    kind = ("r" if real else "p" if inside else "o") + (" s" if place in view.seen else "")
    kind += " w" if place in view.won else ""
    box = f'<rect class="{kind}" x="{x + 1}" y="{y + 1}" width="{CELL - 2}" height="{CELL - 2}" rx="3"/>'
    if place in view.won:
        box += f'<circle class="w" cx="{x + CELL // 2}" cy="{y + CELL // 2}" r="{CELL // 2 - 3}"/>'
    text = digits(plane[place].item()) if real else "p" if inside else "·"
    small = " n" if len(text) > 4 else ""
    return f'{box}<text class="{kind}{small}" x="{x + CELL // 2}" y="{y + CELL // 2 + 4}">{escape(text)}</text>'


def digits(cell: Any, most: int = 4) -> str:
    """A number in a few characters; a fraction to so many digits, a whole number to a few more."""
    if isinstance(cell, bool):
        return "T" if cell else "F"
    if isinstance(cell, float):
        whole = cell.is_integer() and abs(cell) < 10**7
        cell = f"{cell:.{7 if whole else most}g}".replace("e+", "e")
    return str(cell).replace("-", "−")


def described(view: View) -> str:
    """The drawing in words, for those who do not see it."""
    cells = []
    for plane in view.planes.values():
        inside = (p for p in sorted(view.seen) if all(0 <= i < n for i, n in zip(p, plane.shape, strict=True)))
        cells += [digits(plane[p].item()) for p in inside]
    padded = len(view.seen) * len(view.planes) - len(cells)
    winner = f"; the winner is at {' and '.join(map(shown, view.won))}" if view.won else ""
    return (
        f"{view.title} sees {', '.join(cells) or 'no real cell'}{f' and {padded} outside the input' if padded else ''}{winner}"
    )
