"""Maximum of the cells that a mask leaves, some planes at a time, so that what is made on the way stays in the cache.

For windows of moderate size over planes that are not large (`is_taken`). Of each group of planes the cells are copied, with −∞
where one is left out. The maxima of their windows are found as `max_rows` finds them. Where one is −∞ the mask is looked at,
cell by cell, and the result is 0 if it leaves none; there are at most MANY looks per cell.

Measured, float32, two threads, 8×64 planes of 56×56 with 30 % of the cells left out, in times of the call without a mask: 3×3
1.9 to 2.1, with a stride of 2 1.8 to 2.1, 2×2 2.5. By a copy of the whole array, and a search of the result for −∞ by NumPy,
3.5, 3.0 and 4.0. Groups of 16 KB to 128 KB made no difference; with bytes of the mask widened to floats, 2.8 instead of 2.1.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from windowgrad.geometry import Global
from windowgrad.kernels.arrays import Array, flat
from windowgrad.kernels.pool.axis_passes import has_many_rows
from windowgrad.kernels.pool.blocks import blocks
from windowgrad.kernels.pool.layout import planned_for
from windowgrad.kernels.pool.long_rows import is_long
from windowgrad.kernels.pool.masked.fill import LARGEST, fill_plane, small_mask, which_of
from windowgrad.kernels.pool.max.rows import top_rows
from windowgrad.kernels.pool.packed import unpacked
from windowgrad.kernels.runtime.buffers import empty
from windowgrad.kernels.runtime.jit import helper, kernel
from windowgrad.kernels.runtime.threads import over
from windowgrad.kernels.vector.ops import address, alive, anywhere, equal, lanes, load, splat
from windowgrad.params import MaxParams

GROUP = 1 << 16
"""The bytes of the planes that are taken at once."""

MANY = 64
"""The most windows that see a cell, about."""

FLOATS = np.dtype(np.float32), np.dtype(np.float64)


def max_by_planes(params: MaxParams, x: Array) -> tuple[Array, bool] | None:
    """(the maxima, whether a window has no cell left); None where another way must be taken."""
    if not is_taken(params, x):
        return None
    geometry, (lead, spatial) = params.geometry, params.geometry.split(x.shape)
    (p, planes), mask = planned_for(geometry, x.shape), small_mask(params, x.shape)
    y, least = empty((*lead, *geometry.grid(spatial)), x.dtype), x.dtype.type(-np.inf)
    group = max(1, GROUP // (p.plane_in * x.itemsize))
    arrays = x.reshape(-1), flat(mask).view(np.uint8), y.reshape(-1), which_of(mask, lead)
    given = *arrays, least, p.packed, group, planes, p.plane_in, p.plane_out, p.pieces
    return y, bool(over(max_planes, given, -(-planes // group), 2 * x.nbytes))


def is_taken(params: MaxParams, x: Array) -> bool:
    """Whether cells can be read as they are, and whole arrays would be taken by `max_rows` at once."""
    geometry, spatial = params.geometry, params.geometry.split(x.shape)[1]
    if x.dtype not in FLOATS or not x.flags.c_contiguous or not x.size or isinstance(geometry, Global):
        return False
    small = math.prod(spatial) * x.itemsize <= LARGEST and math.prod(geometry.grid(spatial)) > 0
    if not small or is_long(geometry, x.shape) or has_many_rows(geometry) or blocks(geometry, x, x.dtype) is not None:
        return False
    p = planned_for(geometry, x.shape)[0]
    return len(p.rows) * int(p.count.sum()) <= MANY * p.plane_in


@helper
def has_any(mask: Any, at: int, windows: Any, row: int, j: int) -> Any:
    """Whether the mask, of the plane that begins there, leaves a cell that output j of a row sees."""
    for q in range(windows.ptr[row], windows.ptr[row + 1]):
        cell = at + windows.places[q] + windows.start[j]
        for _ in range(windows.count[j]):
            if mask[cell] != 0:
                return True
            cell += windows.step
    return False


@helper
def review(y: Any, to: int, size: int, least: Any, mask: Any, at: int, out: int, windows: Any) -> int:
    """The outputs of a plane that are the least value become 0 if they have no cell; whether one has none."""
    n, wanted, found, i = lanes(y), splat(y, least), 0, 0
    while i < size:
        if i + n <= size and not anywhere(equal(load(y, to + i), wanted)):
            i += n
            continue
        for o in range(i, min(i + n, size)):
            if y[to + o] == least and not has_any(mask, at, windows, o // out, o % out):
                y[to + o] = 0
                found = 1
        i += n
    return found


@kernel
def max_planes(
    x: Any,
    mask: Any,
    y: Any,
    which: Any,
    least: Any,
    plan: Any,
    group: int,
    planes: int,
    plane: int,
    plane_out: int,
    pieces: int,
    first: int,
    last: int,
) -> int:
    """Groups `first` to `last` of planes, of which each has one of the masks; whether a window has no cell left."""
    line, windows, _ = unpacked(plan)
    cells, found = np.empty(group * plane, x.dtype), 0
    into, source, masks, target = address(cells), address(x), address(mask), address(y)
    for g in range(first, last):
        low = g * group
        some = min(planes - low, group)
        for i in range(some):
            fill_plane(source, (low + i) * plane, masks, which[low + i] * plane, into, i * plane, plane, least)
        top_rows(cells, y[low * plane_out : (low + some) * plane_out], least, plan, 0, some * pieces)
        for q in range(low, low + some):
            found |= review(target, q * plane_out, plane_out, least, masks, which[q] * plane, line.out, windows)
    alive(cells)
    return found
