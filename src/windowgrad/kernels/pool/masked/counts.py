"""How many cells each window has left, and what divides their sum."""

from __future__ import annotations

import math
from functools import lru_cache, reduce

import numpy as np

from windowgrad.dtypes import machine_float
from windowgrad.geometry import Geometry
from windowgrad.kernels.arrays import Array
from windowgrad.kernels.pool.masked.fill import small_mask
from windowgrad.kernels.pool.mean import entry as mean
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
    return mean.averaged(sum_of(params), small_mask(params, shape), dtype)


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
