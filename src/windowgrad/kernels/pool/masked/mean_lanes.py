"""Mean of the cells that a mask leaves, of small planes: several at once, one in each lane of a vector.

For planes that `mean/lanes` takes so without a mask (`is_taken`). Cells that the mask leaves out become 0 as planes are turned
around; the sums are those of `mean_lanes`. The bytes of the masks are turned around too, and windows are counted as they are
summed, with a byte for each lane. Planes that have the masks of those before them are not counted again.

    cells    a b c d e f g h   a b …      a vector for each place, a lane for each plane
    masks    1 1 0 1 1 1 0 1   0 1 …      as many bytes

Measured, 64 planes of 28², float32, one thread, calls with windows of 2×2: 14 µs with one mask for all planes, 19 with one for
each, 12 without. As `mean_planes` does them they took 42. Tried: to count plane by plane, 32 columns of bytes at once, and to
divide planes once more in memory; with a mask for each plane that took 22 µs, and twice as long on planes of 14².
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from windowgrad.kernels.arrays import Array
from windowgrad.kernels.pool.lane_groups import groups_of, hand_out
from windowgrad.kernels.pool.layout import planned_for
from windowgrad.kernels.pool.masked import mean_planes
from windowgrad.kernels.pool.masked.counts import sum_of
from windowgrad.kernels.pool.masked.fill import Kind
from windowgrad.kernels.pool.masked.fold import MOST, count_padded
from windowgrad.kernels.pool.mean.entry import sums
from windowgrad.kernels.pool.mean.lanes import add_windows, places_of, takes_lanes
from windowgrad.kernels.pool.packed import Rows, unpacked
from windowgrad.kernels.runtime.jit import helper, kernel
from windowgrad.kernels.vector.masked import one_by_one
from windowgrad.kernels.vector.ops import (
    address,
    alive,
    anywhere,
    either,
    equal,
    lanes,
    later,
    load,
    load_beside,
    not_finite,
    select,
    splat,
    store,
)
from windowgrad.kernels.vector.shuffle import convert
from windowgrad.kernels.vector.transpose import turn_in_kept, turn_in_ones
from windowgrad.params import MeanParams


def averaging(params: MeanParams, x: Kind, mask: Kind) -> Callable[[Array, Array], Array | None] | None:
    """From contiguous x and mask of these kinds to the means, or to None where one is not finite; None if it is not taken."""
    if not is_taken(params, *x):
        return None
    _, planes, read, given = mean_planes.prepared(params, x, mask)
    *_, zero, _ = given
    count, out = groups_of(planes, zero.itemsize), params.geometry.out_shape(x[0])
    return mean_planes.finite(masked_lanes, (*given, planes), count, read, x, out)


def is_taken(params: MeanParams, shape: tuple[int, ...], dtype: np.dtype[Any]) -> bool:
    """Whether planes without a mask are taken several at once, and bytes hold the counts of windows."""
    if not mean_planes.is_taken(params, shape, dtype):
        return False
    p, planes = planned_for(params.geometry, shape)
    itemsize = sums(sum_of(params), *(np.empty(0, dtype),) * 2, p.depth).itemsize
    few = int(p.row_cells.max(initial=0)) * int(p.count.max(initial=0)) <= MOST
    return few and takes_lanes(p, planes, itemsize)


@helper
def count_windows(left_in: Any, rows: Any, line: Any, windows: Any, columns: Any, counts: Any, at: int, like: Any) -> None:
    """counts[at:] = the cells that the windows of an output row have left, as `add_windows` adds cells."""
    n = lanes(like)
    for i in range(0, line.width * n, lanes(columns)):
        one_by_one()
        total = splat(columns, 0)
        for q in range(rows.low, rows.high):
            one_by_one()
            total = total + load(left_in, rows.places[q] + i)
        store(columns, i, total)
    none = splat(load_beside(columns, 0, like), 0)
    for j in range(line.out):
        one_by_one()
        cells, i = none, windows.start[j] * n
        for _ in range(windows.count[j]):
            one_by_one()
            cells = cells + load_beside(columns, i, like)
            i += windows.step * n
        store(counts, at + j * n, cells)


@helper
def same_masks(which: Any, a: int, b: int, n: int) -> Any:
    """Whether the n planes from a on have the masks of those from b on."""
    same = True
    for i in range(n):
        same &= which[a + i] == which[b + i]
    return same


@kernel
def masked_lanes(
    x: Any, mask: Any, y: Any, which: Any, row_inside: Any, col_inside: Any, zero: Any, plan: Any, planes: int, first: int,
    last: int,
) -> int:  # fmt: skip
    """The groups `first` to `last` of planes; sums as `zero`, `which` mask a plane has. Says whether a mean is not finite."""
    line, windows, _ = unpacked(plan)
    n, out, counted = lanes(zero), line.out, -1
    seen, found, places = windows.plane, windows.rows * out, places_of(windows, n)
    space, totals = np.empty(line.width * n, zero.dtype), np.empty(out * n, zero.dtype)
    cells, outputs = np.empty((seen + n) * n, x.dtype), np.empty((found + n) * n, y.dtype)
    apart = np.empty(found * n if planes % n else 0, y.dtype)
    turned, bytes_of = np.empty((seen + n) * n + lanes(mask), np.uint8), np.empty(line.width * n + lanes(mask), np.uint8)
    cells_left, padded = np.empty(found * n, np.uint8), np.empty(found, y.dtype)
    x, y, taken, given, buffer, sums = address(x), address(y), address(cells), address(outputs), address(space), address(totals)
    masks, masked_by, left_in, columns = address(mask), address(which), address(turned), address(bytes_of)
    counts, more, row_inside, col_inside = address(cells_left), address(padded), address(row_inside), address(col_inside)
    for r in range(windows.rows):
        count_padded(r, 0, out, row_inside, col_inside, windows, more, r * out)
    strange = not_finite(splat(zero, 0))
    for group in range(first, last):
        plane = min(group * n, planes - n)
        turn_in_kept(taken, later(x, plane * seen), seen, zero, masks, later(masked_by, plane))
        if counted < 0 or not same_masks(masked_by, counted, plane, n):
            turn_in_ones(left_in, masks, seen, zero, later(masked_by, plane))
            for r in range(windows.rows):
                rows = Rows(address(places), windows.ptr[r], windows.ptr[r + 1])
                count_windows(left_in, rows, line, windows, columns, counts, r * out * n, zero)
            counted = plane
        for r in range(windows.rows):
            rows = Rows(address(places), windows.ptr[r], windows.ptr[r + 1])
            add_windows(taken, rows, line, windows, buffer, sums)
            for j in range(out):
                i = r * out + j
                total = convert(load(sums, j * n), y)
                by = convert(load_beside(counts, i * n, zero), y) + splat(total, more[i])
                quotient = total / select(equal(by, splat(by, 0)), splat(by, 1), by)
                strange = either(strange, not_finite(quotient))
                store(given, i * n, quotient)
        hand_out(y, group, planes, given, found, address(apart), zero)
    alive(places)
    alive(space)
    alive(totals)
    alive(cells)
    alive(outputs)
    alive(apart)
    alive(turned)
    alive(bytes_of)
    alive(cells_left)
    alive(padded)
    return int(anywhere(strange))
