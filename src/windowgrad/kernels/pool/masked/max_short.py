"""Maximum and minimum of the cells that a mask leaves in planes of short rows: a plane at a time.

For planes that `max/short_rows` takes so without a mask, if `max_planes` takes them at all and a plane's rows are not long or
near (`has_masked_rows`). Of a plane there is a copy, with −∞ where a cell is left out, and with signs turned for a minimum; the
rest is that of `max_planes`.

Measured on one thread, 512 planes of 16×16 to 48×48: 0.4 to 1.0 of the time of `max_planes`; 56×56, 1.1 times.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from windowgrad.kernels.arrays import Array
from windowgrad.kernels.pool.layout import planned_for
from windowgrad.kernels.pool.masked.fill import Kind, fill_plane, turn_signs
from windowgrad.kernels.pool.masked.max_planes import is_taken, review, taking
from windowgrad.kernels.pool.max.short_rows import has_short_rows, room_for_tops, top_plane
from windowgrad.kernels.pool.near_rows import is_near
from windowgrad.kernels.pool.packed import Rows, unpacked
from windowgrad.kernels.pool.plan import Plan
from windowgrad.kernels.pool.row_pieces import Piece, clear_holes
from windowgrad.kernels.runtime.jit import kernel
from windowgrad.kernels.vector.ops import address, alive
from windowgrad.params import MaxParams

MOST = 192
"""Bytes of a row, at most."""


def topping(params: MaxParams, x: Kind, mask: Kind, least: bool = False) -> Callable[[Array, Array], tuple[Array, bool]] | None:
    """As `max_planes.topping`."""
    if not is_taken(params, *x):
        return None
    p, planes = planned_for(params.geometry, x[0])
    if not has_masked_rows(p, x[1]):
        return None
    return taking(params, x, mask, (short_of_least if least else short_of_greatest, (p.packed,), planes))


def has_masked_rows(p: Plan, dtype: np.dtype[Any]) -> bool:
    """Whether planes are taken so with a mask too."""
    return has_short_rows(p, dtype) and not is_near(p) and p.width * dtype.itemsize <= MOST


def short_kernel(turned: bool) -> Any:
    """For maxima, or for minima, of which the signs are turned."""

    @kernel
    def masked_max_short(x: Any, mask: Any, y: Any, which: Any, least: Any, plan: Any, first: int, last: int) -> int:
        """The planes `first` to `last`; `which` mask a plane has. Says whether a window has no cell left."""
        line, windows, _ = unpacked(plan)
        (space, tops), zero = room_for_tops(line, windows, least, x, x), np.zeros(1, np.int64)
        seen, out, found, loser, copy = (
            windows.plane,
            line.out,
            0,
            -least if turned else least,
            np.empty(windows.plane, x.dtype),
        )
        x, masks, y, cells, everything = address(x), address(mask), address(y), address(copy), Rows(address(zero), 0, 1)
        for p in range(first, last):
            at, start = p * windows.rows * out, which[p] * seen
            fill_plane(x, p * seen, masks, start, cells, 0, seen, loser)
            if turned:
                turn_signs(cells, 0, seen)
            top_plane(cells, 0, y, at, least, tops, everything, line, windows)
            if turned:
                turn_signs(y, at, windows.rows * out)
            if tops.holes:
                clear_holes(y, at, line, windows)
            for r in range(windows.rows):
                found |= review(y, Piece(at + r * out, 0, out, r, 0), loser, masks, start, windows)
        alive(space)
        alive(zero)
        alive(copy)
        return found

    return masked_max_short


short_of_greatest, short_of_least = short_kernel(False), short_kernel(True)
