"""Calls that are ready to be made, of arrays whose channels stand last: known by strides too, else as in `small`."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from windowgrad.geometry import Global
from windowgrad.kernels.arrays import Array, computed, flat
from windowgrad.kernels.pool.axis_passes import has_many_rows
from windowgrad.kernels.pool.blocks import blocks
from windowgrad.kernels.pool.layout import Layout, is_channels_last
from windowgrad.kernels.pool.max.entry import max_saves, max_vjp, top_layout, topper
from windowgrad.kernels.pool.max.find import laid_out_for
from windowgrad.kernels.pool.max.pay import payment
from windowgrad.kernels.pool.mean.entry import NARROW, WIDE, goes_by_axes, mean_layout, over_runs, over_runs_back, sums
from windowgrad.kernels.pool.small import Chosen, Ready, job, ready
from windowgrad.kernels.runtime.buffers import maker
from windowgrad.params import MaxParams, MeanParams


def moves(layout: Layout, ndim: int) -> tuple[list[int], list[int]]:
    """The axes of an array in the order of memory, where its channels stand last, and back."""
    into = [*(axis for axis in range(ndim) if axis != layout.channel), layout.channel]
    return into, np.argsort(into).tolist()


def restored(chosen: Chosen, layout: Layout, work: int, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Ready:
    """The call of a kernel from arrays whose channels stand last to one of that layout, of this shape and dtype."""
    into, back = moves(layout, len(shape))
    out = tuple(shape[axis] for axis in into)
    call = ready(chosen, work, out, dtype)
    return lambda x: call(x.transpose(into)).transpose(back)


def prepare_max_last(rule: str, params: MaxParams, x: Array, *others: Array) -> Ready | None:
    """The forward rule or the vjp for arrays of these shapes, dtypes and strides, if channels stand last in all of them."""
    geometry = params.geometry
    if rule == "vjp":
        return paying_last(params, x, others[0])
    if (
        rule != "forward"
        or computed(x.dtype) != x.dtype
        or has_many_rows(geometry)
        or blocks(geometry, x, x.dtype) is not None
        or not x.size
    ):
        return None
    layout = top_layout(params, x)
    if not layout.last or math.prod(layout.out_shape) == 0:
        return None
    way = topper(geometry, layout.plan, x.dtype, layout.planes, True)
    return restored(way, layout, x.nbytes, layout.out_shape, x.dtype)


def paying_last(params: MaxParams, x: Array, g: Array) -> Ready | None:
    """The gradient to the first winners from their names; where these were not saved, `entry` finds them."""
    geometry, shape, dtype = params.geometry, x.shape, x.dtype
    last = is_channels_last(x, geometry, shape) and is_channels_last(g, geometry, shape)
    if not last or params.ties != "first" or isinstance(geometry, Global) or max_saves(params, (shape, dtype)) is None:
        return None
    if dtype not in (NARROW.dtype, WIDE.dtype) or g.dtype != dtype or x.size == 0 or g.size == 0:
        return None
    if blocks(geometry, x, dtype) is not None or blocks(geometry, g, dtype, shape) is not None:
        return None
    layout, _ = laid_out_for(params, x, shape, True)
    kernel, given, parts = payment(geometry, geometry.split(shape)[1], layout.channels)
    pay, (into, back) = job((kernel, given, layout.planes * parts), x.nbytes), moves(layout, x.ndim)
    out = tuple(shape[axis] for axis in into)
    new = maker(out, dtype)

    def call(x: Array, g: Array, saved: Array | None = None) -> tuple[Array]:
        if saved is None:
            return max_vjp(params, x, g)
        gx = new(out, dtype)
        pay(flat(saved.transpose(into)), g.transpose(into).ravel(), gx.ravel())
        return (gx.transpose(back),)

    return call


def prepare_mean_last(rule: str, params: MeanParams, x: Array, *others: Array) -> Ready | None:
    """The forward rule or the vjp for arrays of these shapes, dtypes and strides, if the channels of the last stand last."""
    geometry, cells = params.geometry, others[-1] if others else x
    if rule not in ("forward", "vjp") or cells.dtype not in (NARROW.dtype, WIDE.dtype) or x.dtype != cells.dtype or not x.size:
        return None
    if rule == "forward" and goes_by_axes(geometry, geometry.split(x.shape)[1]):
        return None
    if blocks(geometry, x, x.dtype) is not None or blocks(geometry, cells, cells.dtype, x.shape) is not None:
        return None
    layout = mean_layout(params, cells, x.shape)
    if not layout.last or math.prod(layout.out_shape) == 0:
        return None
    if rule == "vjp":
        chosen = over_runs_back(params, layout.plan, cells[:0], layout.planes, layout.channels)
        pull = restored(chosen, layout, x.nbytes, x.shape, x.dtype)
        return lambda x, g: (pull(g),)
    zero = sums(params, x, x, layout.plan.depth)
    chosen = over_runs(params, layout.plan, zero, layout.planes, layout.channels, x.dtype == zero.dtype)
    return restored(chosen, layout, x.nbytes, layout.out_shape, x.dtype)
