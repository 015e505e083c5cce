"""Strips of a plane: so many rows at a time that what a kernel keeps of them stays in a cache, and threads share a large plane.

A strip of the input owns the rows `first` to `last`. The output rows `low` to `high` see them, and these see the rows `top` to
`bottom`; so a strip is computed by itself, and what it shares with its neighbours is computed again. Strips follow from
the shapes alone.

    input rows    . . . . . . . . . . . . . . . .        output rows    . . . . . . . .
    owned               |first … last|                    seeing            |low … high|
    needed          |top  …   …   bottom|
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from windowgrad.kernels.pool.plan import Array, Plan
from windowgrad.kernels.runtime.jit import helper

UNCUT = 1 << 15
"""Cells of a plane that is not cut."""

SPANS = 4
"""A strip has at least so many times the rows that a window spans, so that little is computed twice."""


class Strip(NamedTuple):
    first: int
    last: int
    low: int
    high: int
    top: int
    bottom: int


@helper
def strip_of(strips: Any, number: int) -> Any:
    """One of the strips; they are an address."""
    at = number * 6
    return Strip(strips[at], strips[at + 1], strips[at + 2], strips[at + 3], strips[at + 4], strips[at + 5])


def input_strips(p: Plan, spatial: tuple[int, ...], uncut: int, spans: int) -> Array:
    """Each strip as a row of an array; the rows it owns are those of the input."""
    height = p.plane_in // p.width
    size = strip_height(p, spatial, uncut, spans)
    if size >= height:
        return np.array([[0, height, 0, p.outer, 0, height]], dtype=np.int64)
    numbers, strips = p.rows // p.width, []
    for first in range(0, height, size):
        last = min(first + size, height)
        seers = p.back_rows[p.back_ptr[first] : p.back_ptr[last]] // p.out
        low, high = (int(seers.min()), int(seers.max()) + 1) if len(seers) else (0, 0)
        strips.append([first, last, low, high, *seen(p, numbers, low, high)])
    return np.array(strips, dtype=np.int64)


def output_strips(p: Plan, spatial: tuple[int, ...], uncut: int, spans: int) -> Array:
    """Each strip as a row of an array; the rows it owns are those of the output."""
    height = p.plane_in // p.width
    size = max(1, strip_height(p, spatial, uncut, spans) * p.outer // height)
    if size >= p.outer:
        return np.array([[0, p.outer, 0, p.outer, 0, height]], dtype=np.int64)
    numbers, strips = p.rows // p.width, []
    for low in range(0, p.outer, size):
        high = min(low + size, p.outer)
        strips.append([low, high, low, high, *seen(p, numbers, low, high)])
    return np.array(strips, dtype=np.int64)


def strip_height(p: Plan, spatial: tuple[int, ...], uncut: int, spans: int) -> int:
    """Rows of a strip: whole steps of the outermost axis."""
    height = p.plane_in // p.width
    if p.plane_in <= uncut:
        return height
    size, step = max(uncut // p.width, spans * window_span(p)), max(1, height // spatial[0])
    return -(-size // step) * step


def window_span(p: Plan) -> int:
    """The most rows of the plane from the first to the last that one output row sees."""
    full = np.flatnonzero(p.row_cells)
    if len(full) == 0:
        return 1
    return int((p.rows[p.ptr[full + 1] - 1] - p.rows[p.ptr[full]]).max()) // p.width + 1


def seen(p: Plan, numbers: Array, low: int, high: int) -> tuple[int, int]:
    """The rows that the output rows `low` to `high` see, from the first to after the last."""
    rows = numbers[p.ptr[low] : p.ptr[high]]
    return (int(rows.min()), int(rows.max()) + 1) if len(rows) else (0, 0)
