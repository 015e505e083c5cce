"""Smooth maxima, ready to be called, as those of `kernels/pool/small.py`: one kernel call, or two, is left.

A plane that has no middle is rare: then the rule computes the call as any other.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from windowgrad.kernels.arrays import Array
from windowgrad.kernels.pool.smooth.cells import scale_of
from windowgrad.kernels.pool.smooth.entry import (
    NOTHING,
    WORK,
    Kind,
    beta_of,
    is_one_piece,
    plane_of,
    smooth_forward,
    smooth_saving,
    smooth_vjp,
)
from windowgrad.kernels.pool.smooth.long_rows import is_tiled
from windowgrad.kernels.pool.smooth.side_by_side import pair_gradients
from windowgrad.kernels.pool.smooth.strips import SUMS
from windowgrad.kernels.runtime.buffers import maker
from windowgrad.kernels.runtime.threads import over
from windowgrad.params import SmoothParams

Ready = Callable[..., Any]


def is_whole(params: SmoothParams, kind: Kind) -> bool:
    """Whether it is computed at once, as it is: a float32 or float64 with outputs that is not cut."""
    shape, dtype = kind
    if dtype not in NOTHING or math.prod(shape) == 0 or math.prod(params.geometry.out_shape(shape)) == 0:
        return False
    return is_one_piece(params.geometry, *kind) and not is_tiled(params.geometry, shape)


def prepare_smooth(rule: str, params: SmoothParams, *kinds: Kind) -> Ready | None:
    (shape, dtype) = kinds[0]
    if rule not in ("forward", "saving", "vjp") or not is_whole(params, kinds[0]) or kinds[-1][1] != dtype:
        return None
    if rule == "vjp":
        return paying(params, shape, dtype)
    return finding(params, shape, dtype) if rule == "forward" else saving(params, shape, dtype)


def finding(params: SmoothParams, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Ready:
    """The smooth maximum, in a new array or the one that is given."""
    (plane, planes), out = plane_of(params, shape), params.geometry.out_shape(shape)
    work, new = WORK * math.prod(shape) * dtype.itemsize, maker(out, dtype)
    kernel, told = plane.values_way(dtype, scale_of(beta_of(params)))

    def call(x: Array, y: Array | None = None) -> Array:
        y = new(out, dtype) if y is None else y
        if over(kernel, (x.ravel(), y.ravel(), *told, None, None), planes, work):
            return again(smooth_forward, params, x, y)  # type: ignore[no-any-return]
        return y

    return call


def saving(params: SmoothParams, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Ready:
    """The smooth maximum, and the sums of the weights."""
    (plane, planes), out = plane_of(params, shape), params.geometry.out_shape(shape)
    (kernel, plan), work = plane.forward, WORK * math.prod(shape) * dtype.itemsize
    new, new_sums = maker(out, dtype), maker(out, SUMS.dtype)
    told = plane.counted, scale_of(beta_of(params)), plan, None, None

    def call(x: Array) -> tuple[Array, Array]:
        y, saved = new(out, dtype), new_sums(out, SUMS.dtype)
        if over(kernel, (x.ravel(), y.ravel(), saved.ravel(), *told), planes, work):
            return again(smooth_saving, params, x)  # type: ignore[no-any-return]
        return y, saved

    return call


def paying(params: SmoothParams, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Ready | None:
    """The gradient from the sums, which are found if they were not saved."""
    (plane, planes), out = plane_of(params, shape), params.geometry.out_shape(shape)
    if plane.in_pairs and dtype == np.float32:
        return paying_at_once(params, shape, dtype)
    if plane.backward is None:
        return None
    (forward, seen), (backward, plan), nothing = plane.forward, plane.backward, NOTHING[dtype]
    told, work = (plane.counted, scale_of(beta_of(params))), WORK * math.prod(shape) * dtype.itemsize
    new, new_sums = maker(shape, dtype), maker(out, SUMS.dtype)

    def call(x: Array, g: Array, saved: Array | None = None) -> tuple[Array]:
        line, gx = x.ravel(), new(shape, dtype)
        if saved is None:
            saved = new_sums(out, SUMS.dtype)
            over(forward, (line, nothing, saved.ravel(), *told, seen, None, None), planes, work)
        if over(backward, (line, g.ravel(), gx.ravel(), saved.ravel(), *told, plan), planes, work):
            return again(smooth_vjp, params, x, g)  # type: ignore[no-any-return]
        return (gx,)

    return call


def paying_at_once(params: SmoothParams, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Ready:
    """The gradient where it needs no sums."""
    plane, planes = plane_of(params, shape)
    told, work, new = (
        (scale_of(beta_of(params)), plane.forward[1]),
        WORK * math.prod(shape) * dtype.itemsize,
        maker(shape, dtype),
    )

    def call(x: Array, g: Array, saved: Array | None = None) -> tuple[Array]:
        gx = new(shape, dtype)
        if over(pair_gradients, (x.ravel(), g.ravel(), gx.ravel(), *told), planes, work):
            return again(smooth_vjp, params, x, g)  # type: ignore[no-any-return]
        return (gx,)

    return call


@np.errstate(all="ignore")
def again(rule: Ready, *given: Any) -> Any:
    """By the rule itself, where NaN and infinity are results, not warnings."""
    return rule(*given)
