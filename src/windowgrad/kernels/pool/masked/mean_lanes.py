"""Mean of the cells that a mask leaves, of small planes: several at once, one in each lane of a vector.

For planes that `mean/lanes` takes so without a mask (`is_taken`). Cells that the mask leaves out become 0 as planes are turned
around; the sums are those of `mean_lanes`. They are divided when they are planes again, by counts that are added as bytes, 32
at once: first the rows of all output rows, then along these. Planes that have one mask are counted once.

    mask   1 1 0 1        columns   . 1 2 1 2 .     counts of windows, along the row; `.` is padding
           0 1 1 1

Measured, 64 planes of 28², float32, one thread, calls with windows of 2×2: 15 µs with one mask for all planes, 22 with one for
each, 13 without. As `mean_planes` does them they took 42.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from windowgrad.kernels.arrays import Array
from windowgrad.kernels.pool.layout import planned_for
from windowgrad.kernels.pool.masked import mean_planes
from windowgrad.kernels.pool.masked.counts import sum_of
from windowgrad.kernels.pool.masked.fill import Kind
from windowgrad.kernels.pool.masked.fold import MOST, count_padded, ones
from windowgrad.kernels.pool.mean.entry import sums
from windowgrad.kernels.pool.mean.lanes import add_windows, groups_of, hand_out, places_of, takes_lanes
from windowgrad.kernels.pool.packed import Rows, unpacked
from windowgrad.kernels.pool.row_pieces import span
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
    load_as,
    load_part_as,
    not_finite,
    select,
    splat,
    store,
    store_part,
)
from windowgrad.kernels.vector.shuffle import convert, even
from windowgrad.kernels.vector.transpose import turn_in_kept
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
    """Whether planes without a mask are taken several at once, windows are one or two cells apart, and bytes hold counts."""
    if not mean_planes.is_taken(params, shape, dtype):
        return False
    p, planes = planned_for(params.geometry, shape)
    itemsize = sums(sum_of(params), *(np.empty(0, dtype),) * 2, p.depth).itemsize
    few = p.kernel > 0 and p.stride <= 2 and int(p.row_cells.max(initial=0)) * p.kernel <= MOST
    return few and takes_lanes(p, planes, itemsize)


@helper
def count_columns(mask: Any, start: int, end: int, line: Any, windows: Any, columns: Any, pitch: int) -> None:
    """columns = how many of its rows each output row has left, column by column, `pitch` bytes apart; the mask ends at `end`.

    The zeros behind an output row are up to those before the next one, which is written later.
    """
    n, width, to, places = lanes(mask), line.width, line.before, windows.places
    for r in range(windows.rows):
        low, high = windows.ptr[r], windows.ptr[r + 1]
        for j in range(0, width, n):
            one_by_one()
            if low < high and start + places[high - 1] + j + n <= end:
                total = ones(mask, start + places[low] + j, mask)
                for q in range(low + 1, high):
                    one_by_one()
                    total = total + ones(mask, start + places[q] + j, mask)
                store(columns, to + j, total)
            else:
                for i in range(j, width):
                    one_by_one()
                    cells = 0
                    for q in range(low, high):
                        one_by_one()
                        cells += mask[start + places[q] + i] != 0
                    columns[to + i] = cells
        store(columns, to + width, splat(columns, 0))
        to += pitch


@helper
def count_windows(columns: Any, pitch: int, line: Any, windows: Any, more: Any, spare: Any, by: Any) -> None:
    """by = the cells that windows have left, and `more`; 1 where that is 0."""
    n, out, stride = lanes(columns), line.out, line.stride
    for r in range(windows.rows):
        for j in range(0, out, n):
            one_by_one()
            total, i = splat(columns, 0), r * pitch + j * stride
            for _ in range(line.taps):
                one_by_one()
                total = total + (load(columns, i) if stride == 1 else even(load(columns, i), load(columns, i + n)))
                i += line.step
            store(spare, j, total)
        for j in range(0, out, lanes(by)):
            one_by_one()
            cells = load_as(spare, j, by) + load(more, r * out + j)
            store(by, r * out + j, select(equal(cells, splat(cells, 0)), splat(cells, 1), cells))


@helper
def divide_plane(y: Any, at: int, by: Any, size: int) -> Any:
    """y[at:] = y ÷ by; says whether one is not finite."""
    n, j = lanes(y), 0
    seen = not_finite(splat(y, 0))
    while j + n <= size:
        quotient = load(y, at + j) / load(by, j)
        seen = either(seen, not_finite(quotient))
        store(y, at + j, quotient)
        j += n
    if j < size:
        quotient = load_part_as(y, at + j, size - j, y) / load(by, j)
        seen = either(seen, not_finite(quotient))
        store_part(y, at + j, quotient, size - j)
    return anywhere(seen)


@kernel
def masked_lanes(
    x: Any, mask: Any, y: Any, which: Any, row_inside: Any, col_inside: Any, zero: Any, plan: Any, planes: int, first: int,
    last: int,
) -> int:  # fmt: skip
    """The groups `first` to `last` of planes; sums as `zero`, `which` mask a plane has. Says whether a mean is not finite."""
    line, windows, _ = unpacked(plan)
    n, out, end, strange, counted = lanes(zero), line.out, len(mask), 0, -1
    seen, found, places = windows.plane, windows.rows * out, places_of(windows, n)
    space, totals = np.empty(line.width * n, zero.dtype), np.empty(out * n, zero.dtype)
    cells, outputs = np.empty((seen + n) * n, x.dtype), np.empty((found + n) * n, y.dtype)
    apart = np.empty(found * n if planes % n else 0, y.dtype)
    pitch, beyond = max(line.before + line.width, span(line, out)), 4 * lanes(mask)
    left_in, bytes_of = np.zeros(windows.rows * pitch + beyond, np.uint8), np.empty(out + beyond, np.uint8)
    divisors, padded = np.ones(found + lanes(y), y.dtype), np.zeros(found + lanes(y), y.dtype)
    x, y, taken, given, buffer, sums = address(x), address(y), address(cells), address(outputs), address(space), address(totals)
    masks, masked_by, columns, spare = address(mask), address(which), address(left_in), address(bytes_of)
    by, more, row_inside, col_inside = address(divisors), address(padded), address(row_inside), address(col_inside)
    for r in range(windows.rows):
        count_padded(r, 0, out, row_inside, col_inside, windows, more, r * out)
    for group in range(first, last):
        plane = min(group * n, planes - n)
        turn_in_kept(taken, later(x, plane * seen), seen, zero, masks, later(masked_by, plane))
        for r in range(windows.rows):
            rows = Rows(address(places), windows.ptr[r], windows.ptr[r + 1])
            add_windows(taken, rows, line, windows, buffer, sums)
            for j in range(out):
                store(given, (r * out + j) * n, convert(load(sums, j * n), y))
        hand_out(y, group, planes, given, found, address(apart), zero)
        for p in range(group * n, min((group + 1) * n, planes)):
            if masked_by[p] != counted:
                counted = masked_by[p]
                count_columns(masks, counted * seen, end, line, windows, columns, pitch)
                count_windows(columns, pitch, line, windows, more, spare, by)
            strange |= divide_plane(y, p * found, by, found)
    alive(places)
    alive(space)
    alive(totals)
    alive(cells)
    alive(outputs)
    alive(apart)
    alive(left_in)
    alive(bytes_of)
    alive(divisors)
    alive(padded)
    return strange
