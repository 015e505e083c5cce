"""How many cells each window has left, and what divides their sum."""

from __future__ import annotations

import math
from functools import lru_cache, partial, reduce
from typing import Any

import numpy as np

from windowgrad.dtypes import machine_float
from windowgrad.geometry import Geometry
from windowgrad.kernels.arrays import Array, flat
from windowgrad.kernels.pool.axis_passes import has_many_rows
from windowgrad.kernels.pool.blocks import cut_up
from windowgrad.kernels.pool.layout import planned_for
from windowgrad.kernels.pool.long_rows import is_long
from windowgrad.kernels.pool.masked.fill import LARGEST, small_mask
from windowgrad.kernels.pool.masked.fold import MOST, count_along, tally
from windowgrad.kernels.pool.mean import entry as mean
from windowgrad.kernels.pool.packed import rows_of, unpacked
from windowgrad.kernels.pool.row_pieces import buffer_size, fill, next_piece, padding_end, piece_at, seen_by
from windowgrad.kernels.runtime.buffers import empty
from windowgrad.kernels.runtime.jit import kernel
from windowgrad.kernels.runtime.threads import run
from windowgrad.kernels.vector.ops import address, alive, lanes
from windowgrad.params import MeanParams, PoolParams

SMALL = 1 << 14
"""The most windows of a plane whose padding is kept."""

NARROW, WIDE = np.dtype(np.float32), np.dtype(np.float64)


def sum_of(params: PoolParams) -> MeanParams:
    return MeanParams(params.geometry, True, 1)


def left_in(params: PoolParams, shape: tuple[int, ...]) -> Array:
    """How many cells each window has left, with leading axes of length 1 where the mask is the same along them.

    As float32 where that holds every count, else as float64.
    """
    dtype = NARROW if math.prod(params.geometry.split(shape)[1]) < 1 << 24 else WIDE
    mask = small_mask(params, shape)
    if not is_counted(params.geometry, mask.shape):
        return mean.averaged(sum_of(params), mask, dtype)
    p, planes = planned_for(params.geometry, mask.shape)
    counts = empty(params.geometry.out_shape(mask.shape), NARROW)
    run(partial(count_planes, flat(mask).view(np.uint8), counts.reshape(-1), p.packed), planes * p.pieces, 4 * mask.nbytes)
    return counts


def is_counted(geometry: Geometry, shape: tuple[int, ...]) -> bool:
    """Whether the cells of a mask are counted as bytes: its planes are not large, and bytes hold the counts of columns."""
    spatial = geometry.split(shape)[1]
    if not 0 < math.prod(spatial) <= LARGEST or math.prod(shape) == 0 or math.prod(geometry.grid(spatial)) == 0:
        return False
    if is_long(geometry, shape) or has_many_rows(geometry) or cut_up(geometry, shape, 1, False, False, True) is not None:
        return False
    return int(planned_for(geometry, shape)[0].row_cells.max(initial=0)) <= MOST


@kernel
def count_planes(mask: Any, counts: Any, plan: Any, first: int, last: int) -> None:
    """The cells that windows have left, of the pieces `first` to `last` of the output rows of all planes."""
    line, windows, size = unpacked(plan)
    room = buffer_size(line, size, lanes(mask))
    left_in, spare, found = np.zeros(room, np.uint8), np.zeros(room, np.uint8), np.zeros(room, counts.dtype)
    mask, counts, columns, some, sums = address(mask), address(counts), address(left_in), address(spare), address(found)
    piece = piece_at(first, size, line, windows)
    for _ in range(first, last):
        at, out, rows = piece.at, piece.high - piece.low, rows_of(windows, piece.row)
        left, right, shift = seen_by(line, piece)
        if rows.low == rows.high or left >= right:
            fill(counts, at, at + out, 0)
        else:
            if size < line.out:  # else the padding is as it was made
                fill(columns, 0, left + shift, 0)
                fill(columns, right + shift, padding_end(line, piece, right + shift), 0)
            tally(mask, piece.base + left, rows, right - left, columns, left + shift, sums)
            count_along(columns, shift, line, windows, piece, rows.high - rows.low, some, sums)
            for j in range(out):
                counts[at + j] = sums[j]
        piece = next_piece(piece, size, line, windows)
    alive(left_in)
    alive(spare)
    alive(found)


def padded_in(geometry: Geometry, spatial: tuple[int, ...]) -> Array | float:
    """How many padded cells each window covers. It may be kept: do not write into it."""
    count = kept_padding if math.prod(geometry.grid(spatial)) <= SMALL else kept_padding.__wrapped__
    return count(geometry, spatial)


@lru_cache(maxsize=64)
def kept_padding(geometry: Geometry, spatial: tuple[int, ...]) -> Array | float:
    grid, tables = geometry.grid(spatial), geometry.tables(spatial)
    if not grid:
        return 0.0
    inside = reduce(np.multiply.outer, [np.asarray(t.count + t.padded, WIDE) for t in tables])
    padded: Array = inside - reduce(np.multiply.outer, [np.asarray(t.count, WIDE) for t in tables])
    return padded if padded.any() else 0.0


def divisor(params: MeanParams, shape: tuple[int, ...]) -> Array | float:
    if params.divisor_override is not None:
        return machine_float("divisor_override", params.divisor_override)
    count = left_in(params, shape)
    if params.count_include_pad:
        count += np.asarray(padded_in(params.geometry, params.geometry.split(shape)[1]), count.dtype)
    return np.maximum(count, 1.0, out=count)
