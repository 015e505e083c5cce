"""A plan as kernels take it: one array of integers, of which a kernel makes a few named records.

Every argument of a call costs, and a tuple of arrays most (two arrays 0.24 µs, a tuple of three arrays and three integers 1.0),
so a plan crosses from Python as one array:

    rows plane width out taps stride before step run piece | ptr | places | start | count

Records that a kernel makes and hands to its helpers cost nothing: LLVM takes them apart again.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from windowgrad.kernels.runtime.jit import helper
from windowgrad.kernels.vector.ops import address, later

Array = np.ndarray[Any, Any]

HEAD = 10
"""Numbers before the lists."""


class Line(NamedTuple):
    """The windows along one row: `out` of them over `width` cells.

    A window has `taps` taps, `step` apart, and begins `stride` cells after the one before it; the first begins `before` cells
    before the row. Where windows are not all alike, `taps` is 0, and only `Windows` says where they are. Where channels stand
    last, a cell is a run of `run` numbers; then all lengths but `taps` and `stride` count numbers.
    """

    width: int
    out: int
    taps: int
    stride: int
    before: int
    step: int
    run: int


class Windows(NamedTuple):
    """What the results of a plane see.

    A plane of the result has `rows` rows, and a plane of what they see has `plane` cells. Row r sees the rows that begin at
    places[ptr[r]:ptr[r + 1]]. Along a row, output j sees count[j] cells from start[j] on, `step` apart.
    """

    rows: int
    plane: int
    ptr: Any
    places: Any
    start: Any
    count: Any
    step: int


class Rows(NamedTuple):
    """The rows that begin at places[low:high] of a plane."""

    places: Any
    low: int
    high: int


def packed(line: Line, rows: int, plane: int, piece: int, *lists: Array) -> Array:
    """The array for `unpacked`; the lists are ptr, places, start and count."""
    return np.concatenate([[rows, plane, *line, piece], *lists])


@helper
def unpacked(plan: Any) -> Any:
    """(line, windows, outputs in a piece of a row); the lists of the windows are addresses in the plan."""
    head = address(plan)
    line = Line(head[2], head[3], head[4], head[5], head[6], head[7], head[8])
    ptr = later(head, HEAD)
    places = later(ptr, head[0] + 1)
    start = later(places, ptr[head[0]])
    return line, Windows(head[0], head[1], ptr, places, start, later(start, line.out), line.step), head[9]


@helper
def least_past_of(plan: Any) -> int:
    """From how many bytes on gradients are written past the caches: the last number of a plan that computes cells."""
    return plan[len(plan) - 1]  # type: ignore[no-any-return]


@helper
def rows_of(windows: Any, row: int) -> Any:
    """The rows that one row of the result sees."""
    return Rows(windows.places, windows.ptr[row], windows.ptr[row + 1])
