"""Small calls, ready to be made: all that follows from parameters, shapes and dtypes is done, and one kernel call is left.

A call from Python of a few microseconds is mostly Python. What `entry` finds out anew for each call (the layout, the plan, the
dtypes, whether the call is cut up or shared by threads) is the same for every array of a kind, so it is found out once. What
is computed, and in which order, is what `entry` computes.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from windowgrad.geometry import Geometry
from windowgrad.kernels.arrays import Array, computed, summed
from windowgrad.kernels.pool.axis_passes import has_many_rows
from windowgrad.kernels.pool.blocks import cut_up
from windowgrad.kernels.pool.layout import planned_for
from windowgrad.kernels.pool.max.entry import least
from windowgrad.kernels.pool.max.rows import max_rows
from windowgrad.kernels.pool.mean.entry import NARROW, WIDE, divisors, sums
from windowgrad.kernels.pool.mean.rows import mean_rows, mean_rows_back
from windowgrad.kernels.runtime import threads
from windowgrad.params import MaxParams, MeanParams

Kind = tuple[tuple[int, ...], np.dtype[Any]]
Ready = Callable[..., Any]


def is_small(geometry: Geometry, shape: tuple[int, ...], dtype: np.dtype[Any]) -> bool:
    """Whether one thread computes it at once, as it is: not cut into blocks, and not axis by axis."""
    if not 0 < math.prod(shape) * dtype.itemsize < threads.LEAST_WORK or math.prod(geometry.out_shape(shape)) == 0:
        return False
    return not has_many_rows(geometry) and cut_up(geometry, shape, 1, False, False, True) is None


def ready(kernel: Any, out: tuple[int, ...], dtype: np.dtype[Any], *given: Any) -> Ready:
    """The call of a kernel from one array to a new one of the same dtype."""
    new = np.empty

    def call(x: Array) -> Array:
        y = new(out, dtype)
        kernel(x.ravel(), y.ravel(), *given)
        return y

    return call


def prepare_max(rule: str, params: MaxParams, *kinds: Kind) -> Ready | None:
    (shape, dtype), geometry = kinds[0], params.geometry
    if rule != "forward" or computed(dtype) != dtype or not is_small(geometry, shape, dtype):
        return None
    p, planes = planned_for(geometry, shape)
    return ready(max_rows, geometry.out_shape(shape), dtype, least(dtype), p.packed, 0, planes * p.pieces)


def prepare_mean(rule: str, params: MeanParams, *kinds: Kind) -> Ready | None:
    (shape, dtype), geometry = kinds[0], params.geometry
    if dtype.kind != "f" or summed(dtype) != dtype or not is_small(geometry, shape, dtype):
        return None
    p, planes = planned_for(geometry, shape)
    narrow = NARROW if dtype == np.float32 else WIDE
    if rule == "forward":
        zero, out = sums(params, narrow, narrow, p.depth), geometry.out_shape(shape)
        return ready(mean_rows, out, dtype, *divisors(params, p), zero, p.packed, 0, planes * p.pieces)
    if rule == "vjp" and kinds[1][1] == dtype:
        rows = planes * (p.plane_in // p.width)
        back = ready(mean_rows_back, shape, dtype, *divisors(params, p), narrow, p.packed_back, 0, rows)
        return lambda x, g: (back(g),)
    return None
