"""Calls that are ready to be made: all that follows from parameters, shapes and dtypes is done, and kernel calls are left.

A call from Python of a few microseconds is mostly Python. What `entry` finds out anew for each call (the layout, the plan, the
dtypes, whether the call is cut up) is the same for every array of a kind, so it is found out once. Which kernel computes a
call, and what it is told, is said by functions that `entry` asks too. What is cut into blocks or computed axis by axis, and
results of another dtype than the kernel's, are left to `entry`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from windowgrad.dtypes import derivative_of, float_of, is_float
from windowgrad.geometry import Geometry, Global
from windowgrad.kernels.arrays import Array, computed, summed
from windowgrad.kernels.pool.axis_passes import has_many_rows
from windowgrad.kernels.pool.blocks import cut_up
from windowgrad.kernels.pool.layout import planned_for
from windowgrad.kernels.pool.max.entry import (
    GRADIENTS_OF_HALVES,
    TOPS_OF_HALVES,
    WINNERS_OF_HALVES,
    max_saves,
    tied,
    tied_back,
    topper,
)
from windowgrad.kernels.pool.max.find import comparable, finder, way_of
from windowgrad.kernels.pool.max.many_rows import goes_by_axes
from windowgrad.kernels.pool.max.pay import payment
from windowgrad.kernels.pool.max.whole_planes import plane_back, plane_winners
from windowgrad.kernels.pool.mean.entry import (
    MEANS_OF_HALVES,
    NARROW,
    WIDE,
    added_in,
    gives_halves,
    over_planes,
    over_planes_back,
    sums,
)
from windowgrad.kernels.pool.one_by_one import take
from windowgrad.kernels.runtime import threads
from windowgrad.kernels.runtime.buffers import maker
from windowgrad.kernels.vector.halves import seen_as
from windowgrad.params import MaxParams, MeanParams

Kind = tuple[tuple[int, ...], np.dtype[Any]]
Ready = Callable[..., Any]
Chosen = tuple[Any, tuple[Any, ...], int]
"""A kernel, what it is told besides its arrays, and how many parts threads can share."""

INDICES = np.dtype(np.int64)


def is_whole(geometry: Geometry, shape: tuple[int, ...], by_axes: bool) -> bool:
    """Whether a call is not cut into blocks; `by_axes` says that the rule takes it axis by axis."""
    if by_axes or math.prod(shape) == 0 or math.prod(geometry.out_shape(shape)) == 0:
        return False
    return cut_up(geometry, shape, 1, False, False, True) is None


def job(chosen: Chosen, work: int) -> Callable[..., object]:
    """The kernel as a function of its arrays alone, on several threads if `work` bytes are worth it."""
    return threads.sharing(*chosen, work)


def ready(chosen: Chosen, work: int, shape: tuple[int, ...], dtype: np.dtype[Any], wide: Any = None) -> Ready:
    """The call of a kernel from one array, whose cells are taken as `wide`, to another, which is new or given."""
    new, (kernel, told, count) = maker(shape, dtype), chosen
    given = *told, 0, count
    if threads.is_worth(work) or wide is not None:
        compute = job(chosen, work)

        def share(x: Array, y: Array | None = None) -> Array:
            if y is None:
                y = new(shape, dtype)
            compute(x.ravel() if wide is None else x.ravel().astype(wide), y.ravel())
            return y

        return share

    def call(x: Array, y: Array | None = None) -> Array:
        if y is None:
            y = new(shape, dtype)
        kernel(x.ravel(), y.ravel(), *given)
        return y

    return call


def held_as(held: np.dtype[Any], dtype: np.dtype[Any], call: Ready) -> Ready:
    """The call for arrays of `dtype`, whose cells and results are held as others: bools as bytes, int16 as int32."""
    if held == dtype:
        return call
    if dtype.kind == "b":

        def on_bytes(x: Array, y: Array | None = None) -> Array:
            found: Array = call(x.view(held)) if y is None else call(x.view(held), y.view(held))
            return found.view(dtype)

        return on_bytes

    def convert(x: Array, y: Array | None = None) -> Array:
        found: Array = call(x.astype(held)).astype(dtype)
        if y is None:
            return found
        np.copyto(y, found)
        return y

    return convert


def named(held: np.dtype[Any], dtype: np.dtype[Any], call: Ready) -> Ready:
    """The same of a call that gives names besides."""
    if held == dtype:
        return call

    def convert(x: Array) -> tuple[Array, Array]:
        y, found = call(x.astype(held))
        return y.astype(dtype), found

    return convert


# --- maximum -----------------------------------------------------------------------------------------------------


def prepare_max(rule: str, params: MaxParams, *kinds: Kind) -> Ready | None:
    (shape, dtype), geometry = kinds[0], params.geometry
    if not is_whole(geometry, shape, by_axes=rule == "forward" and goes_by_axes(geometry, shape)):
        return None
    if rule == "forward":
        (p, planes), held = planned_for(geometry, shape), computed(dtype)
        work = math.prod(shape) * dtype.itemsize
        return held_as(held, dtype, ready(topper(geometry, p, held, planes), work, geometry.out_shape(shape), held))
    if rule == "with_indices":
        return named(
            comparable(dtype), dtype, finding(geometry, shape, comparable(dtype), (geometry.out_shape(shape), INDICES))
        )
    if comparable(dtype) != dtype:
        return None
    if not is_float(dtype) or kinds[-1][1] != dtype:
        return None
    saved = max_saves(params, kinds[0])
    if rule == "saving":
        return None if saved is None else saving(params, shape, dtype, saved)
    if rule == "jvp":
        return pushing(params, shape, dtype)
    if params.ties != "first" and not isinstance(geometry, Global):
        return paying_all(params, shape, dtype)
    return None if saved is None else paying(params, shape, dtype, saved)


def direct_max(rule: str, params: MaxParams, *kinds: Kind) -> Ready | None:
    """A rule for floats of 16 bits that kernels read and write as they are, and compare and add up as float32."""
    (shape, dtype), geometry = kinds[0], params.geometry
    if rule == "jvp" or not is_whole(geometry, shape, rule == "forward" and goes_by_axes(geometry, shape)):
        return None
    if rule != "forward":
        kind = (geometry.out_shape(shape), INDICES) if rule == "with_indices" else max_saves(params, kinds[0])
        if kind is None or isinstance(geometry, Global):
            return None
        if rule == "vjp":
            return paying_saved(geometry, shape, seen_as(dtype))
        fits = found_by(geometry, shape, NARROW.dtype, kind)[0] in WINNERS_OF_HALVES
        return finding(geometry, shape, NARROW.dtype, kind, seen_as(dtype)) if fits else None
    p, planes = planned_for(geometry, shape)
    chosen, work = topper(geometry, p, NARROW.dtype, planes), math.prod(shape) * dtype.itemsize
    return ready(chosen, work, geometry.out_shape(shape), seen_as(dtype)) if chosen[0] in TOPS_OF_HALVES else None


def finding(
    geometry: Geometry, shape: tuple[int, ...], dtype: np.dtype[Any], kind: Kind, seen: np.dtype[Any] | None = None
) -> Ready:
    """The values of the winners and their names, which are of this kind; with `wanted=False`, no values.

    `seen` is the dtype as which a kernel sees floats of 16 bits, which are compared as `dtype`; None if it reads none.
    """
    planes = planned_for(geometry, shape)[1]
    kernel, given, parts = found_by(geometry, shape, dtype, kind)
    dtype = dtype if seen is None else seen
    find, none = job((kernel, given, planes * parts), math.prod(shape) * dtype.itemsize), np.empty(0, dtype)
    out, new, new_names = geometry.out_shape(shape), maker(geometry.out_shape(shape), dtype), maker(*kind)

    def call(x: Array, wanted: bool = True) -> tuple[Array, Array]:
        y, found = new(out, dtype) if wanted else none, new_names(*kind)
        find(x.ravel(), y.ravel(), found.ravel())
        return y, found

    return call


def found_by(geometry: Geometry, shape: tuple[int, ...], dtype: np.dtype[Any], kind: Kind) -> Chosen:
    """The kernel that finds winners, by names of this kind, what it is told besides its arrays, and its parts of a plane."""
    way = way_of(geometry, geometry.split(shape)[1], 1, "first", kind[1] == INDICES, dtype.itemsize)
    return finder(way, planned_for(geometry, shape)[0], dtype)


def paying_saved(geometry: Geometry, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Ready | None:
    """The gradient of floats of 16 bits, which kernels see as `dtype`, from the names of the winners."""
    (lead, spatial), new = geometry.split(shape), maker(shape, dtype)
    kernel, given, parts = payment(geometry, spatial, 1)
    if kernel not in GRADIENTS_OF_HALVES:
        return None
    pay = job((kernel, given, math.prod(lead) * parts), math.prod(shape) * dtype.itemsize)

    def call(x: Array, g: Array, saved: Array) -> tuple[Array]:
        gx = new(shape, dtype)
        pay(saved.ravel(), g.ravel(), gx.ravel())
        return (gx,)

    return call


def saving(params: MaxParams, shape: tuple[int, ...], dtype: np.dtype[Any], kind: Kind) -> Ready:
    """The maximum and its winners, by the names that `winner_codes` or, for whole planes, `whole_planes` give them."""
    geometry = params.geometry
    if not isinstance(geometry, Global):
        return finding(geometry, shape, dtype, kind)
    (lead, spatial), out = geometry.split(shape), geometry.out_shape(shape)
    chosen = plane_winners, (math.prod(spatial), params.ties != "first"), math.prod(lead)
    find, none = job(chosen, math.prod(shape) * dtype.itemsize), np.empty(0, dtype)
    new, new_names = maker(out, dtype), maker(*kind)

    def call(x: Array, wanted: bool = True) -> tuple[Array, Array]:
        y, found = new(out, dtype) if wanted else none, new_names(*kind)
        find(x.ravel(), y.ravel(), found.ravel())
        return y, found

    return call


def paying(params: MaxParams, shape: tuple[int, ...], dtype: np.dtype[Any], kind: Kind) -> Ready:
    """The gradient from the names of the winners, which are found if they were not saved."""
    geometry, save, new = params.geometry, saving(params, shape, dtype, kind), maker(shape, dtype)
    (lead, spatial), work = geometry.split(shape), math.prod(shape) * dtype.itemsize
    if isinstance(geometry, Global):
        pay = job((plane_back, (params.ties == "split", math.prod(spatial)), math.prod(lead)), work)

        def pay_planes(x: Array, g: Array, saved: Array | None = None) -> tuple[Array]:
            found, gx = save(x, False)[1] if saved is None else saved, new(shape, dtype)
            pay(x.ravel(), found.ravel(), g.ravel(), gx.ravel())
            return (gx,)

        return pay_planes
    kernel, given, parts = payment(geometry, spatial, 1)
    pay = job((kernel, given, math.prod(lead) * parts), work)

    def call(x: Array, g: Array, saved: Array | None = None) -> tuple[Array]:
        found, gx = save(x, False)[1] if saved is None else saved, new(shape, dtype)
        pay(found.ravel(), g.ravel(), gx.ravel())
        return (gx,)

    return call


def pushing(params: MaxParams, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Ready:
    """The tangents of the first winners, or of all."""
    geometry, out, work = params.geometry, params.geometry.out_shape(shape), math.prod(shape) * dtype.itemsize
    (p, planes), new = planned_for(geometry, shape), maker(geometry.out_shape(shape), dtype)
    if params.ties != "first":
        kernel, given, parts = tied(params, p, dtype)
        push = job((kernel, given, planes * parts), work)

        def push_all(x: Array, dx: Array) -> Array:
            y = new(out, dtype)
            push(x.ravel(), dx.ravel(), y.ravel())
            return y

        return push_all
    find, outputs, cells = finding(geometry, shape, dtype, (out, INDICES)), p.plane_out, p.plane_in

    def call(x: Array, dx: Array) -> Array:
        (_, found), y = find(x, False), new(out, dtype)
        given = dx.ravel(), found.ravel(), y.ravel()
        threads.run(lambda first, last: take(*given, first, last, outputs, cells), planes, y.nbytes)
        return y

    return call


def paying_all(params: MaxParams, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Ready:
    """The gradient to all winners, or shared among them."""
    (p, planes), spatial = planned_for(params.geometry, shape), params.geometry.split(shape)[1]
    kernel, given, parts = tied_back(params, p, spatial, dtype)
    pay, new = job((kernel, given, planes * parts), math.prod(shape) * dtype.itemsize), maker(shape, dtype)

    def call(x: Array, g: Array) -> tuple[Array]:
        gx = new(shape, dtype)
        pay(x.ravel(), g.ravel(), gx.ravel())
        return (gx,)

    return call


# --- mean --------------------------------------------------------------------------------------------------------


def prepare_mean(rule: str, params: MeanParams, *kinds: Kind) -> Ready | None:
    """The cells that are added are those of the last array: x, its tangent, or the gradient."""
    (shape, dtype), given, geometry = kinds[0], kinds[-1][1], params.geometry
    result = derivative_of(dtype if rule == "vjp" else float_of(dtype), given) if rule != "forward" else float_of(dtype)
    if computed(result) != result or not is_whole(geometry, shape, by_axes=rule != "vjp" and has_many_rows(geometry)):
        return None
    p, planes = planned_for(geometry, shape)
    wide, work = None if given == summed(given) else summed(given), math.prod(shape) * dtype.itemsize
    values, zeros = (NARROW if array == np.float32 else WIDE for array in (summed(given), result))
    if rule == "vjp":
        zero = NARROW if values.dtype == zeros.dtype == np.float32 else WIDE
        same = summed(given) == result == zero.dtype
        pull = ready(over_planes_back(params, p, zero, planes, same), work, shape, result, wide)
        return lambda x, g: (pull(g),)
    zero = sums(params, values, zeros, added_in(params, p))
    forward = over_planes(params, p, zero, planes, summed(given) == result == zero.dtype)
    push = ready(forward, work, geometry.out_shape(shape), result, wide)
    return push if rule == "forward" else lambda x, dx: push(dx)


def direct_mean(rule: str, params: MeanParams, *kinds: Kind) -> Ready | None:
    """The forward rule or the vjp for floats of 16 bits that kernels read as they are, and float32 sums are rounded to."""
    (shape, dtype), geometry = kinds[0], params.geometry
    if rule not in ("forward", "vjp") or not is_whole(geometry, shape, by_axes=rule == "forward" and has_many_rows(geometry)):
        return None
    (p, planes), work = planned_for(geometry, shape), math.prod(shape) * dtype.itemsize
    if rule == "vjp":
        chosen, result = over_planes_back(params, p, NARROW, planes, False), shape
        fits = gives_halves(chosen[0], p)
    else:
        zero = sums(params, NARROW, NARROW, added_in(params, p))
        chosen, result = over_planes(params, p, zero, planes, False), geometry.out_shape(shape)
        fits = chosen[0] in MEANS_OF_HALVES
    if not fits:
        return None
    call = ready(chosen, work, result, seen_as(dtype))
    return call if rule == "forward" else lambda x, g: (call(g),)
