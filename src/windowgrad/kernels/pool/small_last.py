"""Calls that are ready to be made, of arrays whose channels stand last: known by strides too, else as in `small`."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from windowgrad.dtypes import float_of
from windowgrad.geometry import Global
from windowgrad.kernels.arrays import Array, computed, flat, summed
from windowgrad.kernels.pool.blocks import COPIED, blocks
from windowgrad.kernels.pool.layout import Layout, into_memory, is_channels_last, out_of_memory, stands_last
from windowgrad.kernels.pool.long_rows import is_long
from windowgrad.kernels.pool.max.entry import (
    GRADIENTS_OF_HALVES,
    TOPS_OF_HALVES,
    WINNERS_OF_HALVES,
    last_layout,
    max_saves,
    max_vjp,
    top_layout,
    topper,
)
from windowgrad.kernels.pool.max.find import comparable, laid_out_for, search, way_of
from windowgrad.kernels.pool.max.last_planes import TIED, TWICE, gradient_shared, last_planes, winners_shared
from windowgrad.kernels.pool.max.many_rows import goes_by_axes as by_axes
from windowgrad.kernels.pool.max.pay import payment
from windowgrad.kernels.pool.mean.entry import (
    MEANS_OF_HALVES,
    NARROW,
    WIDE,
    added_in,
    gives_halves,
    goes_by_axes,
    mean_layout,
    over_runs,
    over_runs_back,
    sums,
    telling,
)
from windowgrad.kernels.pool.small import INDICES, Chosen, Kind, Ready, held_as, job, named, prepare_max, prepare_mean, ready
from windowgrad.kernels.pool.small_views import way_in
from windowgrad.kernels.runtime.buffers import maker
from windowgrad.kernels.vector.halves import seen_as
from windowgrad.params import MaxParams, MeanParams


def moves(layout: Layout, ndim: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The axes of an array in the order of memory, where its channels stand last, and back."""
    return into_memory(ndim, layout.channel), out_of_memory(ndim, layout.channel)


def restored(
    chosen: Chosen, layout: Layout, work: int, ndim: int, shape: tuple[int, ...], dtype: np.dtype[Any], wide: Any = None
) -> Ready:
    """The call of a kernel from arrays of `ndim` axes whose channels stand last to one of that layout, shape and dtype.

    Cells are taken as `wide`. Pooled axes may be removed, so either has fewer axes than the other.
    """
    (into, _), (order, back) = moves(layout, ndim), moves(layout, len(shape))
    out = tuple(shape[axis] for axis in order)
    call = ready(chosen, work, out, dtype, wide)
    return lambda x: call(x.transpose(into)).transpose(back)


def prepare_max_last(rule: str, params: MaxParams, x: Array, *others: Array) -> Ready | None:
    """Forward, saving or the vjp for arrays of these shapes, dtypes and strides, if channels stand last in all of them."""
    geometry = params.geometry
    if rule == "vjp":
        return paying_last(params, x, others[0])
    if rule == "saving":
        return saving_last(params, x)
    if rule == "with_indices":
        return finding_last(params, x)
    held = computed(x.dtype)
    if rule != "forward" or by_axes(geometry, x.shape, True) or blocks(geometry, x, held) is not None or not x.size:
        return None
    layout = top_layout(params, x)
    if not layout.last or math.prod(layout.out_shape) == 0:
        return None
    way = topper(geometry, layout.plan, held, layout.planes, True)
    return held_as(held, x.dtype, restored(way, layout, x.nbytes, x.ndim, layout.out_shape, held))


def direct_max_last(rule: str, params: MaxParams, x: Array, *others: Array) -> Ready | None:
    """A rule for floats of 16 bits that kernels read and write as they are, and compare and add up as float32."""
    geometry = params.geometry
    if rule == "saving":
        return saving_last(params, x, seen_as(x.dtype))
    if rule == "vjp":
        return paying_last(params, x, others[0], seen_as(x.dtype))
    if rule != "forward" or by_axes(geometry, x.shape, True) or blocks(geometry, x, x.dtype) is not None or not x.size:
        return None
    layout = top_layout(params, x)
    if not layout.last or math.prod(layout.out_shape) == 0:
        return None
    chosen = topper(geometry, layout.plan, NARROW.dtype, layout.planes, True)
    return (
        restored(chosen, layout, x.nbytes, x.ndim, layout.out_shape, seen_as(x.dtype)) if chosen[0] in TOPS_OF_HALVES else None
    )


def finding_last(params: MaxParams, x: Array) -> Ready | None:
    """The winners and their places, where those are found tap by tap."""
    geometry, held = params.geometry, comparable(x.dtype)
    layout = last_layout(geometry, x)
    if layout is None or not x.size or math.prod(layout.out_shape) == 0 or blocks(geometry, x, held) is not None:
        return None
    way = way_of(geometry, geometry.split(x.shape)[1], layout.channels, "alone", True, held.itemsize)
    find = job(search(way, layout, held), x.nbytes)
    (into, _), (order, back) = moves(layout, x.ndim), moves(layout, len(layout.out_shape))
    out = tuple(layout.out_shape[axis] for axis in order)
    new, new_places = maker(out, held), maker(out, INDICES)

    def call(x: Array) -> tuple[Array, Array]:
        y, found = new(out, held), new_places(out, INDICES)
        find(x.ravel(), y.ravel(), found.ravel())
        return y, found

    call = named(held, x.dtype, call)

    def restored(x: Array) -> tuple[Array, Array]:
        y, found = call(x.transpose(into))
        return y.transpose(back), found.transpose(back)

    return restored


def saving_last(params: MaxParams, x: Array, seen: np.dtype[Any] | None = None) -> Ready | None:
    """The maximum and the names of its winners; `seen` is the dtype as which a kernel sees floats of 16 bits."""
    geometry, shape, dtype = params.geometry, x.shape, x.dtype if seen is None else NARROW.dtype
    kind = max_saves(params, (shape, x.dtype))
    if kind is None or not is_channels_last(x, geometry, shape):
        return None
    if isinstance(geometry, Global):
        return None if seen is not None else saving_planes(params, x, kind) or saving_copied(params, x)
    if dtype not in (NARROW.dtype, WIDE.dtype) or is_long(geometry, shape) or blocks(geometry, x, x.dtype) is not None:
        return None
    layout, form = laid_out_for(params, x, shape, True)
    if not layout.last or x.size == 0 or math.prod(layout.out_shape) == 0:
        return None
    way = way_of(geometry, geometry.split(shape)[1], layout.channels, form, False, dtype.itemsize)
    chosen, (into, back) = search(way, layout, dtype), moves(layout, x.ndim)
    if seen is not None and chosen[0] not in WINNERS_OF_HALVES:
        return None
    find, out = job(chosen, x.nbytes), tuple(layout.out_shape[axis] for axis in into)
    dtype = dtype if seen is None else seen
    new, new_names = maker(out, dtype), maker(out, kind[1])

    def call(x: Array) -> tuple[Array, Array]:
        y, found = new(out, dtype), new_names(out, kind[1])
        find(x.transpose(into).ravel(), y.ravel(), found.ravel())
        return y.transpose(back), found.transpose(back)

    return call


def saving_planes(params: MaxParams, x: Array, kind: Kind) -> Ready | None:
    """The maximum of whole planes and the names of its winners, which are of this kind; with `wanted=False`, no values."""
    geometry, dtype = params.geometry, x.dtype
    if dtype not in (NARROW.dtype, WIDE.dtype) or (layout := last_planes(geometry, x)) is None:
        return None
    chosen, (into, _) = winners_shared(layout, dtype, TWICE if params.ties == "first" else TIED), moves(layout, x.ndim)
    find, out, none = job(chosen, x.nbytes), geometry.out_shape(x.shape), np.empty(0, dtype)
    new, new_names = maker(out, dtype), maker(*kind)

    def call(x: Array, wanted: bool = True) -> tuple[Array, Array]:
        y, found = new(out, dtype) if wanted else none, new_names(*kind)
        find(x.transpose(into).ravel(), y.ravel(), found.ravel())
        return y, found

    return call


def paying_planes(params: MaxParams, x: Array, g: Array) -> Ready | None:
    """The gradient of whole planes from the names of the winners, which are found if they were not saved."""
    shape, dtype, kind = x.shape, x.dtype, max_saves(params, (x.shape, x.dtype))
    layout = last_planes(params.geometry, x)
    if layout is None or kind is None or g.dtype != dtype or not g.flags.carray or not g.size:
        return None
    if (save := saving_planes(params, x, kind)) is None:
        return None
    pay, (into, back) = job(gradient_shared(layout, params.ties == "split"), x.nbytes), moves(layout, x.ndim)
    out = tuple(shape[axis] for axis in into)
    new = maker(out, dtype)

    def call(x: Array, g: Array, saved: Array | None = None) -> tuple[Array]:
        found, gx = save(x, False)[1] if saved is None else saved, new(out, dtype)
        pay(x.transpose(into).ravel(), found.ravel(), g.ravel(), gx.ravel())
        return (gx.transpose(back),)

    return call


def saving_copied(params: MaxParams, x: Array) -> Ready | None:
    """The same of few channels, which a kernel copies to stand first."""
    ready, way = prepare_max("saving", params, (x.shape, x.dtype)), way_in(x)
    return None if ready is None or way is None else lambda x: ready(way(x))


def paying_copied(params: MaxParams, x: Array, g: Array) -> Ready | None:
    """The gradient of whole planes of few channels, which stand first in it; cells are copied only if they are looked at."""
    if not g.flags.carray or g.dtype != x.dtype or x.size >= COPIED:
        return None
    ready, way, none = prepare_max("vjp", params, (x.shape, x.dtype), (g.shape, g.dtype)), way_in(x), np.empty(0, x.dtype)
    if ready is None or way is None:
        return None

    def call(x: Array, g: Array, saved: Array | None = None) -> tuple[Array]:
        several = saved is None or (params.ties != "first" and (saved & 1).any())
        gx: tuple[Array] = ready(way(x) if several else none, g, *(() if saved is None else (saved,)))
        return gx

    return call


def paying_last(params: MaxParams, x: Array, g: Array, seen: np.dtype[Any] | None = None) -> Ready | None:
    """The gradient to the first winners from their names; where these were not saved, `entry` finds them. `seen` as before."""
    geometry, shape, dtype = params.geometry, x.shape, x.dtype
    if isinstance(geometry, Global):
        return None if seen is not None else paying_planes(params, x, g) or paying_copied(params, x, g)
    last = is_channels_last(x, geometry, shape) and stands_last(g, len(shape) - geometry.rank - 1)
    if not last or params.ties != "first" or max_saves(params, (shape, dtype)) is None:
        return None
    if (seen is None and dtype not in (NARROW.dtype, WIDE.dtype)) or g.dtype != dtype or x.size == 0 or g.size == 0:
        return None
    if blocks(geometry, x, dtype) is not None or blocks(geometry, g, dtype, shape) is not None:
        return None
    layout, _ = laid_out_for(params, x, shape, True)
    kernel, given, parts = payment(geometry, geometry.split(shape)[1], layout.channels)
    if seen is not None and kernel not in GRADIENTS_OF_HALVES:
        return None
    pay, (into, back) = job((kernel, given, layout.planes * parts), x.nbytes), moves(layout, x.ndim)
    out, dtype = tuple(shape[axis] for axis in into), dtype if seen is None else seen
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
    if rule == "forward" and cells.dtype not in (NARROW.dtype, WIDE.dtype):
        return summing_last(params, x) if x.size and computed(float_of(x.dtype)) == float_of(x.dtype) else None
    if rule not in ("forward", "vjp") or cells.dtype not in (NARROW.dtype, WIDE.dtype) or x.dtype != cells.dtype or not x.size:
        return None
    if rule == "forward" and goes_by_axes(geometry, geometry.split(x.shape)[1]):
        return None
    if blocks(geometry, x, x.dtype) is not None or blocks(geometry, cells, cells.dtype, x.shape) is not None:
        return None
    layout = mean_layout(params, telling(params, x, cells) if rule == "vjp" else x, x.shape)
    if not layout.last and rule == "vjp" and cells.flags.carray:  # the layout of x, which is not read, tells nothing
        return prepare_mean(rule, params, (x.shape, x.dtype), (cells.shape, cells.dtype))
    if not layout.last or math.prod(layout.out_shape) == 0:
        return None
    if rule == "vjp":
        chosen = over_runs_back(params, layout.plan, cells[:0], layout.planes, layout.channels)
        pull = restored(chosen, layout, x.nbytes, cells.ndim, x.shape, x.dtype)
        return lambda x, g: (pull(g),)
    zero = sums(params, x, x, added_in(params, layout.plan))
    chosen = over_runs(params, layout.plan, zero, layout.planes, layout.channels, x.dtype == zero.dtype)
    return restored(chosen, layout, x.nbytes, x.ndim, layout.out_shape, x.dtype)


def direct_mean_last(rule: str, params: MeanParams, x: Array, *others: Array) -> Ready | None:
    """The forward rule or the vjp for floats of 16 bits that kernels read as they are, and float32 sums are rounded to."""
    geometry, array = params.geometry, others[-1] if others else x
    if (
        rule not in ("forward", "vjp")
        or not x.size
        or (rule == "forward" and goes_by_axes(geometry, geometry.split(x.shape)[1]))
    ):
        return None
    if blocks(geometry, x, x.dtype) is not None or blocks(geometry, array, array.dtype, x.shape) is not None:
        return None
    layout = mean_layout(params, telling(params, x, array) if rule == "vjp" else x, x.shape)
    if not layout.last or math.prod(layout.out_shape) == 0:
        return None
    if rule == "vjp":
        chosen = over_runs_back(params, layout.plan, NARROW, layout.planes, layout.channels)
        if not gives_halves(chosen[0], layout.plan):
            return None
        pull = restored(chosen, layout, x.nbytes, array.ndim, x.shape, seen_as(x.dtype))
        return lambda x, g: (pull(g),)
    zero = sums(params, NARROW, NARROW, added_in(params, layout.plan))
    chosen = over_runs(params, layout.plan, zero, layout.planes, layout.channels, False)
    return (
        restored(chosen, layout, x.nbytes, x.ndim, layout.out_shape, seen_as(x.dtype)) if chosen[0] in MEANS_OF_HALVES else None
    )


def summing_last(params: MeanParams, x: Array) -> Ready | None:
    """The forward rule for integers, which are added as floats."""
    geometry, wide, result = params.geometry, summed(x.dtype), float_of(x.dtype)
    if goes_by_axes(geometry, geometry.split(x.shape)[1]) or blocks(geometry, x, wide) is not None:
        return None
    layout = mean_layout(params, x, x.shape)
    if not layout.last or math.prod(layout.out_shape) == 0:
        return None
    values, zeros = (NARROW if dtype == np.float32 else WIDE for dtype in (wide, result))
    zero = sums(params, values, zeros, added_in(params, layout.plan))
    same = values.dtype == zeros.dtype == zero.dtype
    chosen = over_runs(params, layout.plan, zero, layout.planes, layout.channels, same)
    return restored(chosen, layout, x.nbytes, x.ndim, layout.out_shape, result, wide)
