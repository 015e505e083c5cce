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

from windowgrad.geometry import Geometry, Global
from windowgrad.kernels.arrays import Array, computed, summed
from windowgrad.kernels.pool.axis_passes import has_many_rows
from windowgrad.kernels.pool.blocks import cut_up
from windowgrad.kernels.pool.layout import planned_for
from windowgrad.kernels.pool.max.entry import max_saves, payment
from windowgrad.kernels.pool.max.find import carried, comparable, least, way_of
from windowgrad.kernels.pool.max.rows import max_rows
from windowgrad.kernels.pool.max.winner_codes import codes_of
from windowgrad.kernels.pool.max.winner_rows import winner_rows
from windowgrad.kernels.pool.mean.entry import NARROW, WIDE, over_planes, over_planes_back, sums
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
    if rule not in ("forward", "saving", "vjp") or not is_small(geometry, shape, dtype):
        return None
    p, planes = planned_for(geometry, shape)
    if rule == "forward":
        if computed(dtype) != dtype:
            return None
        return ready(max_rows, geometry.out_shape(shape), dtype, least(dtype), p.packed, 0, planes * p.pieces)
    if isinstance(geometry, Global) or (kind := max_saves(params, kinds[0])) is None:
        return None
    if comparable(dtype) != dtype or dtype.kind != "f" or kinds[-1][1] != dtype:
        return None
    save = saving(params, shape, dtype, *kind)
    return save if rule == "saving" or save is None else paying(geometry, shape, dtype, save)


def saving(params: MaxParams, shape: tuple[int, ...], dtype: np.dtype[Any], kept: tuple[int, ...], code: Any) -> Ready | None:
    """The maximum and the codes of its winners."""
    geometry, new, low = params.geometry, np.empty, least(dtype)
    (lead, spatial), out, carry = geometry.split(shape), geometry.out_shape(shape), carried(dtype)
    codes, way = codes_of(geometry, spatial), way_of(geometry, spatial, 1, "first", False, dtype.itemsize)
    if way.by_rows is None:
        return None
    plan, last, none = way.by_rows, math.prod(lead) * len(way.strips), codes.none if codes.padded else None

    def call(x: Array) -> tuple[Array, Array]:
        y, saved = new(out, dtype), new(kept, code)
        if none is not None:
            saved.fill(none)
        winner_rows(x.ravel(), y.ravel(), saved.ravel(), low, carry, plan, 0, last)
        return y, saved

    return call


def paying(geometry: Geometry, shape: tuple[int, ...], dtype: np.dtype[Any], save: Ready) -> Ready:
    """The gradient from the codes of the winners, which are found if they were not saved."""
    (lead, spatial), new = geometry.split(shape), np.empty
    kernel, plan, parts = payment(geometry, spatial, 1)
    last = math.prod(lead) * parts

    def call(x: Array, g: Array, saved: Array | None = None) -> tuple[Array]:
        found, gx = save(x)[1] if saved is None else saved, new(shape, dtype)
        kernel(found.ravel(), g.ravel(), gx.ravel(), plan, 0, last)
        return (gx,)

    return call


def prepare_mean(rule: str, params: MeanParams, *kinds: Kind) -> Ready | None:
    (shape, dtype), geometry = kinds[0], params.geometry
    if dtype.kind != "f" or summed(dtype) != dtype or not is_small(geometry, shape, dtype):
        return None
    p, planes = planned_for(geometry, shape)
    narrow = NARROW if dtype == np.float32 else WIDE
    if rule == "forward":
        zero, out = sums(params, narrow, narrow, p.depth), geometry.out_shape(shape)
        kernel, given, count = over_planes(params, p, zero, planes)
        return ready(kernel, out, dtype, *given, 0, count)
    if rule == "vjp" and kinds[1][1] == dtype:
        kernel, given, count = over_planes_back(params, p, narrow, planes, True)
        back = ready(kernel, shape, dtype, *given, 0, count)
        return lambda x, g: (back(g),)
    return None
