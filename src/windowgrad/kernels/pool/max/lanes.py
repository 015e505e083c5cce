"""Maximum of small planes: several at once, one in each lane of a vector (`lane_groups`).

For floats with channels first and rows so short that they would fill vectors badly (`takes_lanes`). The windows along all rows
come first, from left to right, then the rows of a window from above:

    cells   c c c c c     tops   t t t t      outputs   o o o o
            c c c c c            t t t t                o o o o
            c c c c c            t t t t

Of equal cells the first stays, so that is the order of the meaning, for zeros of both signs too. Only NaN is looked for, and
then all outputs of these planes are looked at again.

Measured, on 1152 planes: 7×7 to 16×16 take a sixth to a half of the time of `max_rows`, 28×28 two thirds; of `max_near`, 7×7 a
half and 14×14 0.8. `short_rows` is faster where its vectors are filled, from 16 cells on.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from windowgrad.kernels.pool.lane_groups import CELLS, hand_out
from windowgrad.kernels.pool.max.rows import look_again
from windowgrad.kernels.pool.near_rows import is_near
from windowgrad.kernels.pool.packed import unpacked
from windowgrad.kernels.pool.plan import Plan
from windowgrad.kernels.pool.row_pieces import Piece, fill
from windowgrad.kernels.runtime.jit import helper, kernel
from windowgrad.kernels.vector.ops import address, alive, anywhere, either, lanes, larger, later, load, not_equal, splat, store
from windowgrad.kernels.vector.transpose import turn_in
from windowgrad.kernels.vector.types import lanes_of

WIDTH, NEAR_WIDTH, APART_WIDTH = 112, 80, 64
"""The most bytes of a row: of windows along it that share cells or have at most three, of those of `max_near`, of others."""


def takes_lanes(p: Plan, planes: int, dtype: Any) -> bool:
    """Whether planes are taken several at once."""
    if dtype not in (np.float32, np.float64) or planes < lanes_of(dtype.itemsize) or max(p.plane_in, p.plane_out) > CELLS:
        return False
    apart = p.kernel == 0 or (p.kernel > 3 and p.stride >= p.kernel)
    most = NEAR_WIDTH if is_near(p) else APART_WIDTH if apart else WIDTH
    return bool(p.width * dtype.itemsize <= most)


@helper
def has_nan(taken: Any, size: int) -> Any:
    """Whether one of so many vectors has a NaN."""
    n, seen = lanes(taken), not_equal(splat(taken, 0), splat(taken, 0))
    for i in range(0, size * n, n):
        cells = load(taken, i)
        seen = either(seen, not_equal(cells, cells))
    return anywhere(seen)


@helper
def whole_windows(line: Any, windows: Any) -> Any:
    """(low, high): the windows of a row from low to high have all their taps, where these are two or three."""
    low, high = 0, line.out if 2 <= line.taps <= 3 else 0
    while low < high and windows.count[low] < line.taps:
        low += 1
    while high > low and windows.count[high - 1] < line.taps:
        high -= 1
    return low, high


@helper
def top_windows(taken: Any, line: Any, windows: Any, whole: Any, tops: Any) -> None:
    """tops = the windows along every row of the planes that were turned around; those of `whole_windows` are `whole`."""
    n, (low, high) = lanes(tops), whole
    step, stride, to = windows.step * n, line.stride * n, 0
    for base in range(0, windows.plane * n, line.width * n):
        i = base + windows.start[low] * n if low < high else 0
        for at in range(to + low * n, to + (high if line.taps == 2 else low) * n, n):
            store(tops, at, larger(load(taken, i), load(taken, i + step)))
            i += stride
        for at in range(to + low * n, to + (high if line.taps == 3 else low) * n, n):
            store(tops, at, larger(larger(load(taken, i), load(taken, i + step)), load(taken, i + 2 * step)))
            i += stride
        for j in range(line.out):
            if low <= j < high:
                continue
            best, i = splat(tops, 0), base + windows.start[j] * n
            for t in range(windows.count[j]):
                cells = load(taken, i + t * step)
                best = larger(best, cells) if t > 0 else cells
            store(tops, to + j * n, best)
        to += line.out * n


@helper
def top_rows(tops: Any, places: Any, line: Any, windows: Any, given: Any) -> None:
    """given = the greatest of the tops in the rows that each output sees, which begin at `places`; 0 where it sees no row."""
    n, to = lanes(given), 0
    for r in range(windows.rows):
        low, high, end = windows.ptr[r], windows.ptr[r + 1], to + line.out * n
        if low == high:
            fill(given, to, end, 0)
        elif high - low < 3:
            above, below = places[low] - to, places[high - 1] - to
            for i in range(to, end, n):
                store(given, i, larger(load(tops, above + i), load(tops, below + i)))
        else:
            first, second, third = places[low] - to, places[low + 1] - to, places[low + 2] - to
            for i in range(to, end, n):
                best = larger(larger(load(tops, first + i), load(tops, second + i)), load(tops, third + i))
                for q in range(low + 3, high):
                    best = larger(best, load(tops, places[q] - to + i))
                store(given, i, best)
        to = end


@helper
def row_places(line: Any, windows: Any, n: int) -> Any:
    """Where the tops of the rows that windows see begin, where a cell has n numbers."""
    places = np.empty(windows.ptr[windows.rows], np.int64)
    for q in range(len(places)):
        places[q] = windows.places[q] // line.width * line.out * n
    return places


@helper
def look_at_planes(x: Any, y: Any, base: int, low: int, high: int, windows: Any, out: int) -> None:
    """`look_again` at all outputs of the planes from `low` to `high`; x begins with plane `base`."""
    for row in range(low * windows.rows, high * windows.rows):
        piece = Piece(row * out, 0, out, row % windows.rows, (row // windows.rows - base) * windows.plane)
        look_again(x, y, piece, True, windows)


@kernel
def max_lanes(x: Any, y: Any, zero: Any, plan: Any, planes: int, first: int, last: int) -> None:
    """The groups `first` to `last` of planes; `zero` is an empty array of their dtype."""
    line, windows, _ = unpacked(plan)
    n, out, whole = lanes(zero), line.out, whole_windows(line, windows)
    seen, found, places = windows.plane, windows.rows * out, row_places(line, windows, n)
    cells, outputs = np.empty((seen + n) * n, zero.dtype), np.empty((found + n) * n, zero.dtype)
    between, apart = np.empty(seen // line.width * out * n, zero.dtype), np.empty(found * n if planes % n else 0, zero.dtype)
    x, y, taken, tops, given = address(x), address(y), address(cells), address(between), address(outputs)
    for group in range(first, last):
        plane = min(group * n, planes - n)
        turn_in(taken, later(x, plane * seen), seen, zero)
        top_windows(taken, line, windows, whole, tops)
        top_rows(tops, address(places), line, windows, given)
        hand_out(y, group, planes, given, found, address(apart), zero)
        if has_nan(taken, seen):
            look_at_planes(x, y, 0, group * n, plane + n, windows, out)
    alive(places)
    alive(cells)
    alive(outputs)
    alive(between)
    alive(apart)
