"""Mean of the cells that a mask leaves, some planes at a time, so that what is made on the way stays in the cache.

Of each group of planes the cells are copied, with zeros where one is left out. Their windows are summed as `mean_rows` sums
them, so every sum is the one that whole arrays would have, and divided by the count of cells that are left. Where each plane
has its own mask, those of a group are summed together: they are the digits of the cells of one more plane, to a base above all
counts.

    x       a a . a      cells   a a 0 a     sums    s s
    mask    1 1 0 1      packed  1 1 8 9     counts  digits of n n     y = s ÷ count
    others  0 0 1 1 · 8
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np

from windowgrad.kernels.arrays import Array, flat
from windowgrad.kernels.pool.blocks import blocks
from windowgrad.kernels.pool.layout import planned_for
from windowgrad.kernels.pool.long_rows import is_long
from windowgrad.kernels.pool.masked.counts import NARROW, WIDE, divisor, padded_in, sum_of
from windowgrad.kernels.pool.masked.fill import LARGEST, fill_plane, small_mask, which_of
from windowgrad.kernels.pool.mean.entry import goes_by_axes, sees_all, sums
from windowgrad.kernels.pool.mean.lanes import takes_lanes
from windowgrad.kernels.pool.mean.rows import mean_rows_of_many
from windowgrad.kernels.runtime.buffers import empty
from windowgrad.kernels.runtime.jit import helper, kernel
from windowgrad.kernels.runtime.threads import run
from windowgrad.kernels.vector.ops import (
    address,
    alive,
    anywhere,
    either,
    equal,
    lanes,
    load,
    load_as,
    not_finite,
    select,
    splat,
    store,
)
from windowgrad.kernels.vector.shuffle import convert
from windowgrad.params import MeanParams

GROUP = 1 << 17
"""The bytes of the planes that are taken at once."""

WHOLE = {4: 24, 8: 53}
"""The bits of integers that a float holds, by its bytes."""


def averaged_by_planes(params: MeanParams, x: Array, dtype: Any) -> Array | None:
    """The means; None where another way must be taken, also where a sum is not finite."""
    if x.dtype != dtype or not is_taken(params, x):
        return None
    geometry, (lead, spatial) = params.geometry, params.geometry.split(x.shape)
    (p, planes), plane, mask = planned_for(geometry, x.shape), math.prod(spatial), small_mask(params, x.shape)
    zero, y = sums(sum_of(params), x, x, p.depth), empty((*lead, *geometry.grid(spatial)), x.dtype)
    if sees_all(sum_of(params), p) or takes_lanes(p, planes, zero.itemsize):
        return None
    count, which = math.prod(mask.shape[: len(lead)]), which_of(mask, lead)
    own, digits = count == planes > 1, max(1, int(p.row_cells.max() * p.count.max()).bit_length())
    by = added_to(params, spatial, p.plane_out) if own else divisor(params, x.shape)
    group = max(1, min(GROUP // (plane * x.itemsize), WHOLE[x.itemsize] // digits if own else planes))
    strange = np.zeros(-(-planes // group), np.uint8)
    arrays = x.reshape(-1), flat(mask).view(np.uint8), y.reshape(-1), which, np.asarray(by, x.dtype).reshape(-1), strange
    given = *p.ones, zero, p.packed, np.empty(0, f"i{x.itemsize}"), own << digits, group, planes, plane, p.plane_out, p.pieces
    run(partial(mean_planes, *arrays, *given), len(strange), 2 * x.nbytes)
    return None if x.dtype == NARROW and strange.any() else y


def is_taken(params: MeanParams, x: Array) -> bool:
    """Whether cells can be read as they are, and whole arrays would be summed by `mean_rows` at once."""
    geometry, spatial = params.geometry, params.geometry.split(x.shape)[1]
    if x.dtype not in (NARROW, WIDE) or not x.flags.c_contiguous or not x.size or params.divisor_override is not None:
        return False
    small = math.prod(spatial) * x.itemsize <= LARGEST and math.prod(geometry.grid(spatial)) > 0
    far = is_long(geometry, x.shape) or goes_by_axes(geometry, spatial) or blocks(geometry, x, x.dtype) is not None
    return small and not far


def added_to(params: MeanParams, spatial: tuple[int, ...], size: int) -> Array:
    """What is added to the counts of a plane: the padded cells, if they count."""
    more = padded_in(params.geometry, spatial) if params.count_include_pad else 0.0
    return np.asarray(more).reshape(-1) if np.ndim(more) else np.zeros(size)


@helper
def packed(mask: Any, at: int, cells: Any, to: int, weight: float, plane: int) -> None:
    """cells[to:] += weight · mask, of a plane; the first one, of weight 1, is not added."""
    n, by = lanes(cells), splat(cells, weight)
    size = plane - plane % n
    for i in range(0, size, n):
        there = load_as(mask, at + i, cells)
        store(cells, to + i, there if weight == 1 else load(cells, to + i) + there * by)
    for i in range(size, plane):
        cells[to + i] = mask[at + i] * weight + (0 if weight == 1 else cells[to + i])


@helper
def divide_by(sums: Any, first: int, by: Any, at: int, y: Any, to: int, size: int) -> Any:
    """y[to:] = sums ÷ by, of a plane. Says whether a sum is not finite."""
    n = lanes(y)
    seen, whole, strange = not_finite(splat(y, 0)), size - size % n, False
    for i in range(0, whole, n):
        total = load(sums, first + i)
        seen = either(seen, not_finite(total))
        store(y, to + i, total / load(by, at + i))
    for i in range(whole, size):
        total = sums[first + i]
        strange = strange or total - total != 0
        y[to + i] = total / by[at + i]
    return strange or anywhere(seen)


@helper
def unpacked(counts: Any, at: int, low: float, base: float, more: Any, by: Any, size: int, ints: Any) -> None:
    """by = the digit of `counts` that stands for `low`, in numbers to `base`, and `more`; 1 for 0."""
    n = lanes(by)
    down, last, width, one, zero = splat(by, 1 / low), splat(by, 1 / (low * base)), splat(by, base), splat(by, 1), splat(by, 0)
    for i in range(0, size - size % n, n):
        value = load(counts, at + i)
        above = convert(convert(value * last, ints), by)
        count = convert(convert(value * down, ints), by) - above * width + load(more, i)
        store(by, i, select(equal(count, zero), one, count))
    for i in range(size - size % n, size):
        by[i] = max(counts[at + i] // low % base + more[i], 1)


@kernel
def mean_planes(
    x: Any,
    mask: Any,
    y: Any,
    which: Any,
    by: Any,
    strange: Any,
    row_ones: Any,
    col_ones: Any,
    zero: Any,
    plan: Any,
    ints: Any,
    base: int,
    group: int,
    planes: int,
    plane: int,
    plane_out: int,
    pieces: int,
    first: int,
    last: int,
) -> None:
    """Groups `first` to `last` of planes. `which` mask a plane has, and `by` divides it.

    If `base` is not 0, every plane has its own mask. Then `by` is added to the counts, which are digits to that base.
    """
    own, nothing = 1 if base else 0, np.zeros(1, x.dtype)[0]
    cells, found = np.empty((group + own) * plane, x.dtype), np.empty((group + own) * plane_out, y.dtype)
    divisor = np.empty(own * plane_out, y.dtype)
    into, made, counts = address(cells), address(found), address(divisor)
    source, masks, target, divisors = address(x), address(mask), address(y), address(by)
    for g in range(first, last):
        low, odd, weight = g * group, False, 1.0
        some = min(planes - low, group)
        for i in range(some):
            at = which[low + i] * plane
            fill_plane(source, (low + i) * plane, masks, at, into, i * plane, plane, nothing)
            if own:
                packed(masks, at, into, some * plane, weight, plane)
                weight *= base
        mean_rows_of_many(cells, found, row_ones, col_ones, zero, plan, 0, (some + own) * pieces)
        weight = 1.0
        for i in range(some):
            to = (low + i) * plane_out
            if own:
                unpacked(made, some * plane_out, weight, float(base), divisors, counts, plane_out, ints)
                odd |= divide_by(made, i * plane_out, counts, 0, target, to, plane_out)
                weight *= base
            else:
                odd |= divide_by(made, i * plane_out, divisors, which[low + i] * plane_out, target, to, plane_out)
        strange[g] = odd
    alive(cells)
    alive(found)
    alive(divisor)
