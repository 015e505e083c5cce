"""The windows of a layer drawn as cells, the first and the last of them, with the padding that they cover."""

from __future__ import annotations

import itertools
import math
from typing import Any, NamedTuple

import numpy as np

from windowgrad import explain
from windowgrad.conform.report.html_svg import MOST_CELLS, View, drawn
from windowgrad.geometry import Sliding
from windowgrad.models.layers import Shape, Windows


class Indices(NamedTuple):
    """Stands for an array whose cells are their own indices as text; it may be larger than memory."""

    shape: Shape

    def __getitem__(self, place: Any) -> Any:
        return np.str_(",".join(map(str, place)))


def drawings(windows: Windows, subject: str) -> list[tuple[str, str]]:
    """(caption, SVG) of the first and of the last output; an SVG is empty where the cells are too many to be drawn."""
    places = dict.fromkeys([(0,) * len(windows.grid), tuple(n - 1 for n in windows.grid)])
    return [
        (caption(windows, place, subject), drawn(view(windows, place)) if is_small(windows, place) else "") for place in places
    ]


def is_small(windows: Windows, place: Shape) -> bool:
    covers = (windows.geometry.cover(axis, i, n) for axis, (i, n) in enumerate(zip(place, windows.cells, strict=True)))
    return math.prod(map(len, covers)) <= MOST_CELLS


def caption(windows: Windows, place: Shape, subject: str) -> str:
    where = place[0] if len(place) == 1 else place
    answer = explain.Answer(windows.geometry, windows.grid, windows.cells, windows.grid, subject)
    words = " × ".join(explain.in_words(answer, axis, i) for axis, i in enumerate(place))
    return f"{subject} {where} {'sees' if subject == 'output' else 'adds to'} {words}"


def view(windows: Windows, place: Shape) -> View:
    """The cells that a window covers, and one more on each side where there is one; each shows its index."""
    geometry, cells = windows.geometry, windows.cells
    covers = [list(geometry.cover(axis, i, n)) for axis, (i, n) in enumerate(zip(place, cells, strict=True))]
    padding = geometry.padding if isinstance(geometry, Sliding) else ((0, 0),) * geometry.rank
    axes = [
        range(max(cover[0] - 1, min(-lo, cover[0])), min(cover[-1] + 2, max(n + hi, cover[-1] + 1)))
        for cover, n, (lo, hi) in zip(covers, cells, padding, strict=True)
    ]
    plane: Any = Indices(cells)
    return View(f"window {place}", {"": plane}, axes, padding, set(itertools.product(*covers)))
