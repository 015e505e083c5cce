"""Pooling over NumPy numbers: from parameters and arrays to a kernel, its threads and its memory."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from windowgrad.kernels import max_rows, mean_rows, scalar, smooth_rows, winner_rows
from windowgrad.kernels.buffers import empty
from windowgrad.kernels.dtypes import derivative_of, float_of, is_float, machine_float
from windowgrad.kernels.pieces import piece_of
from windowgrad.kernels.plan import Plan, plan
from windowgrad.kernels.threads import run
from windowgrad.params import MaxParams, MeanParams, PoolParams, SmoothParams

Array = np.ndarray[Any, Any]


def planned(params: PoolParams, x: Array) -> tuple[Plan, int]:
    """The plan of a plane, and how many planes there are."""
    lead, spatial = params.geometry.split(x.shape)
    return plan(params.geometry, spatial), math.prod(lead)


WIDER = {"int16": np.int32, "uint16": np.int32, "uint32": np.int64, "float16": np.float32, "bfloat16": np.float32}
"""Dtypes that have no kernels of their own, and the one that holds their values in the same order."""


def ordered(x: Array) -> Array:
    """The cells in a row, in a dtype whose order is theirs and that kernels compare; bools are bytes."""
    x = writeable(np.ascontiguousarray(x).reshape(-1))
    if x.dtype == np.bool_:
        return x.view(np.uint8)
    return x.astype(WIDER[x.dtype.name]) if x.dtype.name in WIDER else x


def added(x: Array) -> Array:
    """The cells in a row, as floats that kernels add: float32 if it holds their values, else float64."""
    x = writeable(np.ascontiguousarray(x).reshape(-1))
    return x.astype(np.float64 if x.dtype.itemsize > 2 and x.dtype != np.float32 else np.float32, copy=False)


class Alias:
    """The memory of an array, as if it could be written; it keeps the array alive."""

    def __init__(self, x: Array) -> None:
        self.x = x
        self.__array_interface__ = {**x.__array_interface__, "data": (x.ctypes.data, False)}


def writeable(x: Array) -> Array:
    """A read-only array as one that is not, for kernels that only read: else each would be compiled for both kinds."""
    return x if x.flags.writeable else np.asarray(Alias(x))


def computed(dtype: Any) -> Any:
    """The dtype in which a result of `dtype` is computed."""
    return ordered(np.empty(0, dtype)).dtype


def finished(y: Array, shape: tuple[int, ...], dtype: Any) -> Array:
    """The result in its own dtype and shape."""
    return (y.view(bool) if dtype == np.bool_ else y.astype(dtype, copy=False)).reshape(shape)


def cells(p: Plan) -> tuple[Any, ...]:
    """What every scalar kernel is told of the plan."""
    return p.outer, p.plane_in, p.ptr, p.rows, p.start, p.count, p.step


def along(p: Plan) -> tuple[int, int, int, int]:
    """What a row kernel is told besides: the row and the windows along it."""
    return p.width, p.kernel, p.stride, p.before


# --- maximum -----------------------------------------------------------------------------------------------------


def least(dtype: Any) -> Any:
    """The value that no cell is below: what stands in a row's padding, where it never wins."""
    return dtype.type(-np.inf if is_float(dtype) else np.iinfo(dtype).min)


def places(x: Array, p: Plan) -> Array | None:
    """An empty array of the dtype in which row kernels carry places, or None if x has none."""
    if x.itemsize in (4, 8) and p.plane_in < 1 << 31:
        return np.empty(0, np.int32 if x.itemsize == 4 else np.int64)
    return None


def winners(params: MaxParams, x: Array) -> Array:
    """The place of each window's first winner in its plane, flat; −1 where there is none."""
    p, planes = planned(params, x)
    values, found = ordered(x), empty((planes * p.plane_out,), np.int64)
    like = places(values, p)

    def task(first: int, last: int) -> None:
        if like is None:
            scalar.winners(values, found, first, last, *cells(p))
        else:
            winner_rows.winner_rows(values, found, least(values.dtype), like, first, last, *cells(p), *along(p))

    run(task, planes * p.outer, x.nbytes)
    return found


def taken(params: MaxParams, x: Array, values: Array, found: Array, dtype: Any) -> Array:
    """The values at the found cells."""
    p, planes = planned(params, x)
    y = empty(found.shape, values.dtype)
    run(lambda first, last: scalar.take(values, found, y, first, last, p.plane_out, p.plane_in), planes, y.nbytes)
    return finished(y, params.out_shape(x.shape), dtype)


def max_forward(params: MaxParams, x: Array) -> Array:
    p, planes = planned(params, x)
    values, pieces = ordered(x), piece_of(p.out, p.kernel, p.stride)
    y = empty((planes * p.plane_out,), values.dtype)

    def task(first: int, last: int) -> None:
        max_rows.max_rows(values, y, least(values.dtype), first, last, *cells(p), *along(p), *pieces)

    run(task, planes * p.outer * pieces[1], x.nbytes)
    return finished(y, params.out_shape(x.shape), x.dtype)


def max_with_indices(params: MaxParams, x: Array) -> tuple[Array, Array]:
    found = winners(params, x)
    return taken(params, x, ordered(x), found, x.dtype), found.reshape(params.out_shape(x.shape))


def max_jvp(params: MaxParams, x: Array, dx: Array) -> Array:
    dtype = derivative_of(x.dtype, dx.dtype)
    if params.ties == "first":
        return taken(params, x, added(dx), winners(params, x), dtype)
    p, planes = planned(params, x)
    values, tangents, y = ordered(x), added(dx), empty((planes * p.plane_out,), computed(dtype))
    split = params.ties == "split"
    run(lambda first, last: scalar.tied_sums(values, tangents, y, split, first, last, *cells(p)), planes * p.outer, x.nbytes)
    return finished(y, params.out_shape(x.shape), dtype)


def max_vjp(params: MaxParams, x: Array, g: Array) -> tuple[Array]:
    p, planes = planned(params, x)
    dtype = derivative_of(x.dtype, g.dtype)
    values, gradients, gx = ordered(x), added(g), empty((x.size,), computed(dtype))
    like, split = places(values, p), params.ties == "split"

    def task(first: int, last: int) -> None:
        if params.ties != "first":
            scalar.tied_spread(values, gradients, gx, split, first, last, *cells(p))
        elif like is None:
            scalar.winners_back(values, gradients, gx, first, last, *cells(p))
        else:
            winner_rows.winner_rows_back(values, gradients, gx, least(values.dtype), like, first, last, *cells(p), *along(p))

    run(task, planes, x.nbytes)
    return (finished(gx, x.shape, dtype),)


# --- mean --------------------------------------------------------------------------------------------------------


def divisors(params: MeanParams, p: Plan) -> tuple[Array, Array]:
    """What divides the sum of a window is the product of one number per row and one per column."""
    if params.divisor_override is not None:
        return np.ones(p.outer), np.full(p.out, machine_float("divisor_override", params.divisor_override))
    if params.count_include_pad:
        return p.row_inside, p.col_inside
    return np.maximum(p.row_cells, 1).astype(np.float64), np.maximum(p.count, 1).astype(np.float64)


def averaged(params: MeanParams, x: Array, dtype: Any) -> Array:
    p, planes = planned(params, x)
    values, y = added(x), empty((planes * p.plane_out,), computed(dtype))
    by, zero, pieces = divisors(params, p), sums(values, y, p), piece_of(p.out, p.kernel, p.stride)

    def task(first: int, last: int) -> None:
        mean_rows.mean_rows(values, y, *by, zero, first, last, *cells(p), *along(p), *pieces)

    run(task, planes * p.outer * pieces[1], x.nbytes)
    return finished(y, params.out_shape(x.shape), dtype)


def sums(x: Array, y: Array, p: Plan) -> Array:
    """An empty array of the dtype in which windows are summed: float32 only where few cells keep it exact enough."""
    return np.empty(0, np.float32 if x.dtype == y.dtype == np.float32 and p.most_cells <= 16 else np.float64)


def mean_forward(params: MeanParams, x: Array) -> Array:
    return averaged(params, x, float_of(x.dtype))


def mean_jvp(params: MeanParams, x: Array, dx: Array) -> Array:
    return averaged(params, dx, derivative_of(float_of(x.dtype), dx.dtype))


def mean_vjp(params: MeanParams, x: Array, g: Array) -> tuple[Array]:
    p, planes = planned(params, x)
    dtype = derivative_of(x.dtype, g.dtype)
    gradients, gx = added(g), empty((x.size,), computed(dtype))
    by, height = divisors(params, p), p.plane_in // p.width

    zero = np.empty(0, np.float32 if gradients.dtype == gx.dtype == np.float32 else np.float64)
    seen_by = (p.back_ptr, p.back_rows, p.start, p.count, p.step)

    def task(first: int, last: int) -> None:
        mean_rows.mean_rows_back(gradients, gx, *by, zero, first, last, height, p.plane_out, *seen_by, *along(p))

    run(task, planes * height, x.nbytes)
    return (finished(gx, x.shape, dtype),)


# --- log-sum-exp -------------------------------------------------------------------------------------------------


def counted(params: SmoothParams, p: Plan) -> tuple[float, Array, Array]:
    """β, and the cells that count of each row and each column; their product less the real cells is padding."""
    inside = (p.row_inside, p.col_inside) if params.count_include_pad else (p.row_cells * 1.0, p.count * 1.0)
    return machine_float("beta", params.beta), *inside


def smooth_forward(params: SmoothParams, x: Array) -> Array:
    p, planes = planned(params, x)
    dtype = float_of(x.dtype)
    values, y = added(x), empty((planes * p.plane_out,), computed(dtype))
    by = counted(params, p)

    def task(first: int, last: int) -> None:
        if p.kernel and p.stride <= 2:
            smooth_rows.smooth_rows(values, y, *by, first, last, *cells(p), *along(p))
        else:
            scalar.smooth(values, y, *by, first, last, *cells(p))

    run(task, planes * p.outer, x.nbytes)
    return finished(y, params.out_shape(x.shape), dtype)


def smooth_jvp(params: SmoothParams, x: Array, dx: Array) -> Array:
    p, planes = planned(params, x)
    dtype = derivative_of(float_of(x.dtype), dx.dtype)
    values, tangents, y = added(x), added(dx), empty((planes * p.plane_out,), computed(dtype))
    by = counted(params, p)
    run(lambda first, last: scalar.smooth_sums(values, tangents, y, *by, first, last, *cells(p)), planes * p.outer, x.nbytes)
    return finished(y, params.out_shape(x.shape), dtype)


def smooth_vjp(params: SmoothParams, x: Array, g: Array) -> tuple[Array]:
    p, planes = planned(params, x)
    dtype = derivative_of(x.dtype, g.dtype)
    values, gradients, gx = added(x), added(g), empty((x.size,), computed(dtype))
    by = counted(params, p)
    run(lambda first, last: scalar.smooth_spread(values, gradients, gx, *by, first, last, *cells(p)), planes, x.nbytes)
    return (finished(gx, x.shape, dtype),)
