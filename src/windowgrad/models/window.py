"""The windows of a layer drawn as cells, the first and the last of them, with the padding that they cover."""

from __future__ import annotations

import itertools
import math
from typing import Any, NamedTuple

import numpy as np

from windowgrad.drawing.places import covers, near, padding_of
from windowgrad.drawing.question import Answer
from windowgrad.drawing.svg import MOST_CELLS, drawn
from windowgrad.drawing.text import in_words
from windowgrad.drawing.views import View, shown
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
    ranges = (windows.geometry.cover(axis, i, n) for axis, (i, n) in enumerate(zip(place, windows.cells, strict=True)))
    return math.prod(map(len, ranges)) <= MOST_CELLS


def caption(windows: Windows, place: Shape, subject: str) -> str:
    answer = Answer(windows.geometry, windows.grid, windows.cells, windows.grid, subject)
    words = " × ".join(in_words(answer, axis, i) for axis, i in enumerate(place))
    return f"{subject} {shown(place)} {'sees' if subject == 'output' else 'adds to'} {words}"


def view(windows: Windows, place: Shape) -> View:
    """The cells that a window covers, and one more on each side where there is one; each shows its index."""
    covered, padding = covers(windows.geometry, place, windows.cells), padding_of(windows.geometry)
    plane: Any = Indices(windows.cells)
    axes, seen = near(covered, windows.cells, padding), set(itertools.product(*covered))
    return View(f"window {place}", {"": plane}, axes, padding, seen)
