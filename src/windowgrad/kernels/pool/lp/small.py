"""Norms and their gradients, ready to be called, as those of `kernels/pool/small.py`: a kernel call is left, and a look at what
it says.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from windowgrad.kernels.arrays import Array, flat
from windowgrad.kernels.pool.blocks import blocks
from windowgrad.kernels.pool.layout import planned_for, stands_last
from windowgrad.kernels.pool.lp.back import over_rows_back
from windowgrad.kernels.pool.lp.entry import lp_forward, lp_vjp, settled
from windowgrad.kernels.pool.lp.gaps import has_gaps, without_gaps
from windowgrad.kernels.pool.lp.gradients import WIDE, Kind, is_ready, lp_saving, narrowed, run_layout_back
from windowgrad.kernels.pool.lp.kernels import by_rows, over_planes
from windowgrad.kernels.pool.lp.products import (
    AS_IT_IS,
    NONE,
    WORK,
    over_runs,
    packed_apart,
    run_layout,
    settle,
)
from windowgrad.kernels.pool.small_last import moves
from windowgrad.kernels.runtime import threads
from windowgrad.kernels.runtime.buffers import maker
from windowgrad.params import LpParams

Ready = Callable[..., Any]


def prepare_lp(rule: str, params: LpParams, *kinds: Kind) -> Ready | None:
    (shape, dtype) = kinds[0]
    if rule not in ("forward", "saving", "vjp") or not is_ready(params, shape, dtype) or kinds[-1][1] != dtype:
        return None
    if rule != "forward":
        return finding(params, shape, dtype) if rule == "saving" else paying(params, shape, dtype)
    (plan, planes), out, p = planned_for(params.geometry, shape), params.geometry.out_shape(shape), int(params.norm_type)
    kernel, given, count = over_planes(p, plan, planes, dtype.itemsize)
    compute = threads.sharing(kernel, (AS_IT_IS, *given), count, WORK * math.prod(shape) * dtype.itemsize)
    new = maker(out, dtype)

    def call(x: Array, y: Array | None = None) -> Array:
        y, strange = new(out, dtype) if y is None else y, np.zeros(planes, np.bool_)
        line, norms = x.ravel(), y.ravel()
        if compute(line, norms, strange):
            settle(p, plan, line, norms, strange)
        return y

    return call


def finding(params: LpParams, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Ready:
    """The norms, and the same as float64."""
    (plan, planes), out, p = planned_for(params.geometry, shape), params.geometry.out_shape(shape), int(params.norm_type)
    work = WORK * math.prod(shape) * dtype.itemsize
    compute, new = threads.sharing(by_rows(p, plan), (AS_IT_IS, plan.packed), planes * plan.pieces, work), maker(out, WIDE)

    def call(x: Array) -> tuple[Array, Array]:
        saved, strange = new(out, WIDE), np.zeros(planes, np.bool_)
        line, norms = x.ravel(), saved.ravel()
        if compute(line, norms, strange):
            settle(p, plan, line, norms, strange)
        return narrowed(saved, dtype), saved

    return call


def paying(params: LpParams, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Ready:
    """The gradient from the norms, which are found if they were not saved."""
    (plan, planes), p, work = (
        planned_for(params.geometry, shape),
        int(params.norm_type),
        WORK * math.prod(shape) * dtype.itemsize,
    )
    kernel, given, count = over_rows_back(p, plan, planes, 1, dtype)
    pay, find, new = threads.sharing(kernel, given, count, work), finding(params, shape, dtype), maker(shape, dtype)
    gaps = has_gaps(params, shape)

    def call(x: Array, g: Array, saved: Array | None = None) -> tuple[Array]:
        if saved is None:
            saved = find(x)[1]
        gx, strange = new(shape, dtype), np.zeros(planes, np.bool_)
        if pay(x.ravel(), g.ravel(), saved.ravel(), gx.ravel(), strange):
            settled(params, x, g, gx, strange)
        return (without_gaps(params, gx) if gaps else gx,)

    return call


def prepare_lp_last(rule: str, params: LpParams, x: Array, *others: Array) -> Ready | None:
    """The rule for arrays of these shapes, dtypes and strides: channels last, or, forward, rows that stand apart."""
    if not is_ready(params, x.shape, x.dtype) or blocks(params.geometry, x, x.dtype, fixed=True):
        return None
    if rule != "forward":
        return finding_last(params, x) if rule == "saving" else paying_last(params, x, *others) if rule == "vjp" else None
    return last(params, x) or apart(params, x)


def last(params: LpParams, x: Array) -> Ready | None:
    layout, dtype = run_layout(params, x), x.dtype
    if layout is None or len(layout.out_shape) < x.ndim:  # axes that are pooled away have no place to be moved to
        return None
    kernel, given, count = over_runs(int(params.norm_type), layout)
    compute = threads.sharing(kernel, (AS_IT_IS, *given), count, WORK * x.nbytes)
    into, back = moves(layout, x.ndim)
    out = tuple(layout.out_shape[axis] for axis in into)
    new = maker(out, dtype)

    def call(x: Array) -> Array:
        y = new(out, dtype)
        if compute(x.transpose(into).ravel(), y.ravel(), NONE):
            return again(params, x)
        return y.transpose(back)

    return call


def finding_last(params: LpParams, x: Array) -> Ready | None:
    layout, dtype = run_layout_back(params, x), x.dtype
    if layout is None or len(layout.out_shape) < x.ndim:  # axes that are pooled away have no place to be moved to
        return None
    kernel, given, count = over_runs(int(params.norm_type), layout)
    compute = threads.sharing(kernel, (AS_IT_IS, *given), count, WORK * x.nbytes)
    into, back = moves(layout, x.ndim)
    out = tuple(layout.out_shape[axis] for axis in into)
    new = maker(out, WIDE)

    def call(x: Array) -> tuple[Array, Array]:
        saved = new(out, WIDE)
        if compute(x.transpose(into).ravel(), saved.ravel(), NONE):
            return lp_saving(params, x)
        return narrowed(saved, dtype).transpose(back), saved.transpose(back)

    return call


def paying_last(params: LpParams, x: Array, g: Array) -> Ready | None:
    layout, shape, dtype = run_layout_back(params, x), x.shape, x.dtype
    if layout is None or g.ndim < x.ndim or g.dtype != dtype or not stands_last(g, layout.channel):
        return None
    kernel, given, count = over_rows_back(int(params.norm_type), layout.plan, layout.planes, layout.channels, dtype)
    pay = threads.sharing(kernel, given, count, WORK * x.nbytes)
    into, back = moves(layout, x.ndim)
    out = tuple(shape[axis] for axis in into)
    new, gaps = maker(out, dtype), has_gaps(params, shape)

    def call(x: Array, g: Array, saved: Array | None = None) -> tuple[Array]:
        if saved is None:
            return lp_vjp(params, x, g)
        gx, strange = new(out, dtype), np.zeros(layout.planes, np.bool_)
        norms = flat(saved.transpose(into))
        if pay(x.transpose(into).ravel(), g.transpose(into).ravel(), norms, gx.ravel(), strange):
            return lp_vjp(params, x, g)
        found = gx.transpose(back)
        return (without_gaps(params, found) if gaps else found,)

    return call


def apart(params: LpParams, x: Array) -> Ready | None:
    (plan, planes), out = planned_for(params.geometry, x.shape), params.geometry.out_shape(x.shape)
    packed, p, dtype = packed_apart(plan, params.geometry.rank, x), int(params.norm_type), x.dtype
    if packed is None:
        return None
    compute = threads.sharing(by_rows(p, plan), (AS_IT_IS, packed), planes * plan.pieces, WORK * x.nbytes)
    new, first = maker(out, dtype), (0,) * (x.ndim - 1)

    def call(x: Array) -> Array:
        y = new(out, dtype)
        if compute(x[first], y.ravel(), np.zeros(planes, np.bool_)):  # kernels are told where an array begins, not its size
            return again(params, x)
        return y

    return call


@np.errstate(all="ignore")
def again(params: LpParams, x: Array) -> Array:
    """By the rule itself, which looks at each plane."""
    return lp_forward(params, np.ascontiguousarray(x))
