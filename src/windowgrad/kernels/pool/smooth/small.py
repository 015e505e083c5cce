"""Small smooth maxima, ready to be called, as those of `kernels/pool/small.py`: one kernel call, or two, is left.

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
    SUMS,
    WORK,
    Kind,
    beta_of,
    plane_of,
    saved_kind,
    smooth_forward,
    smooth_saving,
    smooth_vjp,
)
from windowgrad.kernels.runtime import threads
from windowgrad.params import SmoothParams

Ready = Callable[..., Any]


def is_small(params: SmoothParams, kind: Kind) -> bool:
    """Whether one thread computes it at once, as it is: a float32 or float64 with outputs that is not cut."""
    shape, dtype = kind
    if dtype not in NOTHING or not 0 < WORK * math.prod(shape) * dtype.itemsize < threads.LEAST_WORK:
        return False
    return math.prod(params.geometry.out_shape(shape)) > 0 and saved_kind(params.geometry, *kind) is not None


def prepare_smooth(rule: str, params: SmoothParams, *kinds: Kind) -> Ready | None:
    (shape, dtype) = kinds[0]
    if rule not in ("forward", "saving", "vjp") or not is_small(params, kinds[0]) or kinds[-1][1] != dtype:
        return None
    if rule == "vjp":
        return paying(params, shape, dtype)
    return finding(params, shape, dtype) if rule == "forward" else saving(params, shape, dtype)


def finding(params: SmoothParams, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Ready:
    """The smooth maximum."""
    (plane, planes), out, new = plane_of(params, shape), params.geometry.out_shape(shape), np.empty
    (kernel, plan), counted, scale = plane.forward, plane.counted, scale_of(beta_of(params))

    def call(x: Array) -> Array:
        y = new(out, dtype)
        if kernel(x.ravel(), y.ravel(), SUMS, counted, scale, plan, 0, planes):
            return again(smooth_forward, params, x)  # type: ignore[no-any-return]
        return y

    return call


def saving(params: SmoothParams, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Ready:
    """The smooth maximum, and the sums of the weights."""
    (plane, planes), out, new = plane_of(params, shape), params.geometry.out_shape(shape), np.empty
    (kernel, plan), counted, scale = plane.forward, plane.counted, scale_of(beta_of(params))

    def call(x: Array) -> tuple[Array, Array]:
        y, saved = new(out, dtype), new(out)
        if kernel(x.ravel(), y.ravel(), saved.ravel(), counted, scale, plan, 0, planes):
            return again(smooth_saving, params, x)  # type: ignore[no-any-return]
        return y, saved

    return call


def paying(params: SmoothParams, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Ready | None:
    """The gradient from the sums, which are found if they were not saved."""
    (plane, planes), out, new = plane_of(params, shape), params.geometry.out_shape(shape), np.empty
    if plane.backward is None:
        return None
    (forward, seen), (backward, plan), nothing = plane.forward, plane.backward, NOTHING[dtype]
    counted, scale = plane.counted, scale_of(beta_of(params))

    def call(x: Array, g: Array, saved: Array | None = None) -> tuple[Array]:
        line, gx = x.ravel(), new(shape, dtype)
        if saved is None:
            saved = new(out)
            forward(line, nothing, saved.ravel(), counted, scale, seen, 0, planes)
        if backward(line, g.ravel(), gx.ravel(), saved.ravel(), counted, scale, plan, 0, planes):
            return again(smooth_vjp, params, x, g)  # type: ignore[no-any-return]
        return (gx,)

    return call


@np.errstate(all="ignore")
def again(rule: Ready, *given: Any) -> Any:
    """By the rule itself, where NaN and infinity are results, not warnings."""
    return rule(*given)
