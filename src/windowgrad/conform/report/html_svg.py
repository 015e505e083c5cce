"""What is drawn of a case: the window of an output, or the input cells of a transposed convolution that add to it."""

from __future__ import annotations

import itertools

import numpy as np

from windowgrad.conform.case import Array, Case
from windowgrad.drawing.places import Place, covers, padding_of, senders, whole
from windowgrad.drawing.views import View, shown
from windowgrad.geometry import Sliding


def window(case: Case, place: Place, won: list[Place]) -> View:
    """The window of one output of a pooling or a convolution."""
    covered, padding = covers(case.geometry, place[2:], case.spatial), padding_of(case.geometry)
    axes, seen = whole(covered, case.spatial, padding), set(itertools.product(*covered))
    if case.where is not None:
        seen -= {cell for cell in np.ndindex(*case.spatial) if not case.there[place[:2] + cell]}
    return View(f"window {shown(place[2:])}", planes(case, place), axes, padding, seen, won)


def reach(case: Case, place: Place) -> View:
    """The input cells of a transposed convolution that add to one output."""
    assert isinstance(case.geometry, Sliding)
    sides = senders(case.geometry, place[2:], case.spatial)
    seen = set(itertools.product(*([cell for cell, _ in side] for side in sides)))
    axes = [range(n) for n in case.spatial]
    return View(f"output {shown(place[2:])}", planes(case, place), axes, ((0, 0),) * case.rank, seen)


def planes(case: Case, place: Place) -> dict[str, Array]:
    """The planes of the input that one output is made from: its own, or the channels of its group."""
    if not case.is_convolution:
        name = "" if case.x.shape[:2] == (1, 1) else f"x[{place[0]}, {place[1]}]"
        return {name: case.x[place[:2]]}
    width = case.x.shape[1] // case.groups
    first = place[1] // (case.out_shape[1] // case.groups) * width
    return {"" if case.x.shape[1] == 1 else f"channel {c}": case.x[place[0], c] for c in range(first, first + width)}
