"""Mean of the cells that a mask leaves: windows are summed as `mean_rows` sums them, and divided by the cells they have left.

For windows over planes that are not large (`is_taken`). Cells that the mask leaves out become 0 as rows are folded, and beside
the sums go the counts, as bytes (`fold`). So every sum is the one that a copy of the array with zeros would have.

    x       a a . a  …    buffer   sums of columns     spans   sums of windows
    mask    1 1 0 1  …    columns  counts of columns   along   counts of windows    y = sum ÷ (count + padded cells that count)
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from windowgrad.kernels.arrays import Array
from windowgrad.kernels.pool.blocks import cut_up
from windowgrad.kernels.pool.layout import planned_for
from windowgrad.kernels.pool.long_rows import is_long
from windowgrad.kernels.pool.masked.counts import NARROW, WIDE, sum_of
from windowgrad.kernels.pool.masked.fill import LARGEST, Kind, whole_mask
from windowgrad.kernels.pool.masked.fold import MOST, count_along, count_padded, masked_folding, tally
from windowgrad.kernels.pool.masked.near import near_means
from windowgrad.kernels.pool.mean.entry import goes_by_axes, sees_all, sums
from windowgrad.kernels.pool.mean.rows import few_spans, spans, unlike
from windowgrad.kernels.pool.near_rows import is_near
from windowgrad.kernels.pool.packed import rows_of, unpacked
from windowgrad.kernels.pool.plan import Plan
from windowgrad.kernels.pool.row_pieces import buffer_size, fill, next_piece, padding_end, piece_at, seen_by
from windowgrad.kernels.pool.row_windows import nominal
from windowgrad.kernels.pool.window_spans import DIRECT, uses_up
from windowgrad.kernels.runtime.buffers import maker
from windowgrad.kernels.runtime.jit import helper, kernel
from windowgrad.kernels.runtime.threads import over
from windowgrad.kernels.vector.loops import plus
from windowgrad.kernels.vector.ops import (
    address,
    alive,
    anywhere,
    either,
    equal,
    lanes,
    load,
    load_beside,
    not_finite,
    select,
    splat,
    store,
    store_part,
)
from windowgrad.kernels.vector.registers import wide_lanes
from windowgrad.kernels.vector.shuffle import convert
from windowgrad.params import MeanParams

fold = masked_folding(plus, False)


def averaging(params: MeanParams, x: Kind, mask: Kind) -> Callable[[Array, Array], Array | None] | None:
    """From contiguous x and mask of these kinds to the means, or to None where a sum is not finite; None if it is not taken."""
    if not is_taken(params, *x):
        return None
    p, planes, read, given = prepared(params, x, mask)
    return finite(mean_planes_for(p), given, planes * p.pieces, read, x, params.geometry.out_shape(x[0]))


def prepared(params: MeanParams, x: Kind, mask: Kind) -> tuple[Plan, int, Callable[[Array], Array], tuple[Any, ...]]:
    """The plan, how many planes there are, how masks become bytes, and what kernels are given after their arrays."""
    (shape, dtype), geometry = x, params.geometry
    (p, planes), (read, which) = planned_for(geometry, shape), whole_mask(*geometry.split(shape), mask[0])
    zero = sums(sum_of(params), *(np.empty(0, dtype),) * 2, p.depth)
    return p, planes, read, (which, *inside(params, p), zero, p.packed)


def finite(
    kernel: Any, given: tuple[Any, ...], count: int, read: Callable[[Array], Array], x: Kind, out: tuple[int, ...]
) -> Callable[[Array, Array], Array | None]:
    """From contiguous x and mask to the result of a kernel, which says whether a part of it is not finite: then it is None."""
    (shape, dtype), new = x, maker(out, x[1])
    work = 2 * math.prod(shape) * dtype.itemsize

    def call(x: Array, mask: Array) -> Array | None:
        y = new(out, dtype)
        strange = over(kernel, (x.ravel(), read(mask), y.ravel(), *given), count, work)
        return None if strange else y

    return call


def is_taken(params: MeanParams, shape: tuple[int, ...], dtype: np.dtype[Any]) -> bool:
    """Whether whole arrays would be summed at once, by `mean_rows` or as it does, and bytes hold the counts of columns."""
    geometry, spatial = params.geometry, params.geometry.split(shape)[1]
    if dtype not in (NARROW, WIDE) or math.prod(shape) == 0 or params.divisor_override is not None:
        return False
    if math.prod(spatial) * dtype.itemsize > LARGEST or math.prod(geometry.grid(spatial)) == 0:
        return False
    far = is_long(geometry, shape) or goes_by_axes(geometry, spatial) or nominal(geometry, spatial[-1]) > 0
    if far or cut_up(geometry, shape, 1, False, False, True) is not None:
        return False
    p = planned_for(geometry, shape)[0]
    return not sees_all(sum_of(params), p) and int(p.row_cells.max(initial=0)) <= MOST


def inside(params: MeanParams, p: Plan) -> tuple[Array, Array]:
    """The cells that a window would have if none were left out, as a product of one number per row and one per column."""
    if params.count_include_pad:
        return p.row_inside, p.col_inside
    return p.row_cells.astype(WIDE), p.count.astype(WIDE)


@helper
def divide_by(sums: Any, counts: Any, more: Any, y: Any, at: int, out: int) -> Any:
    """y[at:] = sums ÷ (counts + more), or ÷ 1 where that is 0; says whether one is not finite.

    Lanes past them are what was there before: if that was not finite, it was said then.
    """
    n, j = lanes(sums), 0
    seen = not_finite(splat(sums, 0))
    while j < out:
        by = load_beside(counts, j, sums) + load_beside(more, j, sums)
        total = convert(load(sums, j) + splat(sums, 0), y)  # a sum begins with 0.0: of −0.0 alone it is no −0.0
        quotient = total / select(equal(by, splat(by, 0)), splat(by, 1), by)
        seen = either(seen, not_finite(quotient))
        if j + n <= out:
            store(y, at + j, quotient)
        else:
            store_part(y, at + j, quotient, out - j)
        j += n
    return anywhere(seen)


def planes_kernel(many: bool) -> Any:
    """For windows of more than DIRECT taps, or for all others."""
    along = spans if many else few_spans

    @kernel
    def mean_planes(
        x: Any, mask: Any, y: Any, which: Any, row_inside: Any, col_inside: Any, zero: Any, plan: Any, first: int, last: int
    ) -> int:
        """Pieces `first` to `last` of the output rows of all planes, as in `mean_rows`; `which` mask a plane has.

        Says whether a mean is not finite.
        """
        line, windows, size = unpacked(plan)
        taps, n, strange, base, start = line.taps, lanes(zero), 0, -1, 0
        space, nothing = np.zeros(buffer_size(line, size, n), zero.dtype), np.zeros(1, zero.dtype)[0]
        bytes_of = buffer_size(line, size, lanes(mask))
        left_in, spare = np.zeros(bytes_of, np.uint8), np.zeros(bytes_of, np.uint8)
        totals, counts, padded = np.zeros(size + n, zero.dtype), np.zeros(bytes_of, y.dtype), np.zeros(size + n, y.dtype)
        x, masks, y, buffer, sums = address(x), address(mask), address(y), address(space), address(totals)
        columns, some, found, more = address(left_in), address(spare), address(counts), address(padded)
        row_inside, col_inside = address(row_inside), address(col_inside)
        refill, padded_like = size < line.out or (many and uses_up(taps)), (-1.0, 0, 0)
        piece = piece_at(first, size, line, windows)
        for _ in range(first, last):
            at, out, rows = piece.at, piece.high - piece.low, rows_of(windows, piece.row)
            left, right, shift = seen_by(line, piece)
            if piece.base != base:
                base, start = piece.base, which[piece.base // windows.plane] * windows.plane
            if rows.low == rows.high or left >= right:
                fill(y, at, at + out, 0)
            else:
                if refill:  # else the padding is as it was made
                    end = padding_end(line, piece, right + shift)
                    fill(buffer, 0, left + shift, 0)
                    fill(buffer, right + shift, end, 0)
                    fill(columns, 0, left + shift, 0)
                    fill(columns, right + shift, end, 0)
                fold(x, base + left, masks, start + left, rows, right - left, buffer, left + shift, nothing)
                tally(masks, start + left, rows, right - left, columns, left + shift, found)
                if taps == 0:
                    unlike(buffer, piece.low, sums, out, windows, nothing)
                else:
                    along(buffer, 0, sums, 0, out, taps, line.step, line.stride)
                count_along(columns, shift, line, windows, piece, rows.high - rows.low, some, found)
                kind = row_inside[piece.row], rows.high - rows.low, piece.low
                if kind != padded_like:
                    padded_like = kind
                    count_padded(piece.row, piece.low, piece.high, row_inside, col_inside, windows, more, 0)
                strange |= divide_by(sums, found, more, y, at, out)
            piece = next_piece(piece, size, line, windows)
        alive(space)
        alive(left_in)
        alive(spare)
        alive(totals)
        alive(counts)
        alive(padded)
        return strange

    return mean_planes


planes_of_few, planes_of_many = planes_kernel(False), planes_kernel(True)


@kernel
def mean_planes_near(
    x: Any, mask: Any, y: Any, which: Any, row_inside: Any, col_inside: Any, zero: Any, plan: Any, first: int, last: int
) -> int:
    """The same for the geometries of `near_rows.is_near`: the output rows `first` to `last` of all planes, without a buffer."""
    line, windows, _ = unpacked(plan)
    width, strange, base, start, padded_like = line.width, 0, -1, 0, (-1.0, 0)
    padded = np.zeros(width + wide_lanes(y), y.dtype)
    x, masks, y, more = address(x), address(mask), address(y), address(padded)
    row_inside, col_inside = address(row_inside), address(col_inside)
    piece = piece_at(first, width, line, windows)
    for _ in range(first, last):
        at, rows = piece.at, rows_of(windows, piece.row)
        if piece.base != base:
            base, start = piece.base, which[piece.base // windows.plane] * windows.plane
        if rows.low == rows.high:
            fill(y, at, at + width, 0)
        else:
            kind = row_inside[piece.row], rows.high - rows.low
            if kind != padded_like:
                padded_like = kind
                count_padded(piece.row, piece.low, piece.high, row_inside, col_inside, windows, more, 0)
            strange |= near_means(x, base, masks, start, rows, width, zero, more, y, at)
        piece = next_piece(piece, width, line, windows)
    alive(padded)
    return strange


def mean_planes_for(p: Plan) -> Any:
    """The kernel for a plan."""
    if is_near(p):
        return mean_planes_near
    return planes_of_many if p.kernel > DIRECT else planes_of_few
