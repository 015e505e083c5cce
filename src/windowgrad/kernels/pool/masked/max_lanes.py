"""Maximum and minimum of the cells that a mask leaves in small planes: several at once, one in each lane of a vector.

For planes that `max/lanes` takes so without a mask, if `max_planes` takes them at all. Of the planes of a group there is a
copy, with −∞ where a cell is left out, and with signs turned for a minimum. The rest is that of `max_planes`: planes with NaN
are looked at again in the copy, and where a maximum is −∞ the mask is looked at.

Measured: 512 planes of 7×7 to 16×16 take 0.25 to 0.6 of the time of `max_planes`, and 1.2 to 1.7 times that of `max_lanes`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from windowgrad.kernels.arrays import Array
from windowgrad.kernels.pool.lane_groups import groups_of, hand_out
from windowgrad.kernels.pool.layout import planned_for
from windowgrad.kernels.pool.masked.fill import Kind, fill_plane, turn_signs
from windowgrad.kernels.pool.masked.max_planes import is_taken, review, taking
from windowgrad.kernels.pool.max.lanes import (
    has_nan,
    look_at_planes,
    row_places,
    takes_lanes,
    top_rows,
    top_windows,
    whole_windows,
)
from windowgrad.kernels.pool.packed import unpacked
from windowgrad.kernels.pool.row_pieces import Piece, clear_holes
from windowgrad.kernels.runtime.jit import helper, kernel
from windowgrad.kernels.vector.ops import address, alive, anywhere, either, equal, lanes, load, splat
from windowgrad.kernels.vector.transpose import turn_in
from windowgrad.params import MaxParams


def topping(params: MaxParams, x: Kind, mask: Kind, least: bool = False) -> Callable[[Array, Array], tuple[Array, bool]] | None:
    """As `max_planes.topping`."""
    if not is_taken(params, *x):
        return None
    (p, planes), dtype = planned_for(params.geometry, x[0]), x[1]
    if not takes_lanes(p, planes, dtype):
        return None
    by = lanes_of_least if least else lanes_of_greatest
    return taking(params, x, mask, (by, (np.empty(0, dtype), p.packed, planes), groups_of(planes, dtype.itemsize)))


@helper
def has_value(given: Any, size: int, value: Any) -> Any:
    """Whether one of so many vectors has the value."""
    n, wanted = lanes(given), splat(given, value)
    seen = equal(wanted, splat(given, 0))
    for i in range(0, size * n, n):
        seen = either(seen, equal(load(given, i), wanted))
    return anywhere(seen)


def lanes_kernel(turned: bool) -> Any:
    """For maxima, or for minima, of which the signs are turned."""

    @kernel
    def masked_max_lanes(
        x: Any, mask: Any, y: Any, which: Any, least: Any, zero: Any, plan: Any, planes: int, first: int, last: int
    ) -> int:
        """The groups `first` to `last` of planes; `which` mask a plane has. Says whether a window has no cell left."""
        line, windows, _ = unpacked(plan)
        n, out, whole, some = lanes(zero), line.out, whole_windows(line, windows), 0
        seen, found, places = windows.plane, windows.rows * out, row_places(line, windows, n)
        loser = -least if turned else least
        cells, outputs = np.empty((seen + n) * n, zero.dtype), np.empty((found + n) * n, zero.dtype)
        copies, between = np.empty(seen * n, zero.dtype), np.empty(seen // line.width * out * n, zero.dtype)
        apart = np.empty(found * n if planes % n else 0, zero.dtype)
        x, masks, y, copy = address(x), address(mask), address(y), address(copies)
        taken, tops, given = address(cells), address(between), address(outputs)
        for group in range(first, last):
            plane = min(group * n, planes - n)
            for lane in range(n):
                fill_plane(x, (plane + lane) * seen, masks, which[plane + lane] * seen, copy, lane * seen, seen, loser)
            if turned:
                turn_signs(copy, 0, n * seen)
            turn_in(taken, copy, seen, zero)
            top_windows(taken, line, windows, whole, tops)
            top_rows(tops, address(places), line, windows, given)
            hand_out(y, group, planes, given, found, address(apart), zero)
            if has_nan(taken, seen):
                look_at_planes(copy, y, plane, group * n, plane + n, windows, out)
            if turned:
                turn_signs(y, group * n * found, (plane + n - group * n) * found)
            for each in range(group * n, plane + n if turned else 0):
                clear_holes(y, each * found, line, windows)
            if has_value(given, found, least):
                for row in range(group * n * windows.rows, (plane + n) * windows.rows):
                    piece = Piece(row * out, 0, out, row % windows.rows, 0)
                    some |= review(y, piece, loser, masks, which[row // windows.rows] * seen, windows)
        alive(places)
        alive(copies)
        alive(cells)
        alive(outputs)
        alive(between)
        alive(apart)
        return some

    return masked_max_lanes


lanes_of_greatest, lanes_of_least = lanes_kernel(False), lanes_kernel(True)
