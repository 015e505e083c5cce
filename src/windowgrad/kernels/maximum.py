"""Maximum over NumPy numbers: from parameters and arrays to a kernel, its threads and its memory."""

from __future__ import annotations

import math
from functools import cache, partial
from typing import Any

import numpy as np

from windowgrad.geometry import Sliding
from windowgrad.kernels import axes, max_rows, scalar, winner_rows
from windowgrad.kernels.axes import has_many_rows
from windowgrad.kernels.buffers import empty
from windowgrad.kernels.cells import Array, added, along, cells, computed, finished, laid_out, ordered, out_shape, planned, room
from windowgrad.kernels.dtypes import derivative_of, is_float
from windowgrad.kernels.plan import Plan, plan
from windowgrad.kernels.threads import run
from windowgrad.params import MaxParams


@cache
def least(dtype: Any) -> Any:
    """The value that no cell is below: what stands in a row's padding, where it never wins."""
    return dtype.type(-np.inf if is_float(dtype) else np.iinfo(dtype).min)


def places(x: Array, p: Plan) -> Array | None:
    """An empty array of the dtype in which row kernels carry places, or None if x has none."""
    if x.itemsize in (4, 8) and p.plane_in < 1 << 31:
        return np.empty(0, np.int32 if x.itemsize == 4 else np.int64)
    return None


def winners(params: MaxParams, x: Array, out: Array | None = None) -> Array:
    """The place of each window's first winner in its plane, flat; −1 where there is none."""
    p, planes = planned(params, x)
    values, found = ordered(x), room(out, planes * p.plane_out, np.dtype(np.int64))
    like = places(values, p)

    def task(first: int, last: int) -> None:
        if like is None:
            scalar.winners(values, found, first, last, *cells(p))
        else:
            winner_rows.winner_rows(values, found, least(values.dtype), like, first, last, *cells(p), *along(p))

    run(task, planes * p.outer, x.nbytes)
    return found


def taken(params: MaxParams, x: Array, values: Array, found: Array, dtype: Any, out: Array | None = None) -> Array:
    """The values at the found cells."""
    p, planes = planned(params, x)
    y = room(out, found.size, values.dtype)
    run(lambda first, last: scalar.take(values, found, y, first, last, p.plane_out, p.plane_in), planes, y.nbytes)
    return finished(y, out_shape(params.geometry, x.shape), dtype)


def max_forward(params: MaxParams, x: Array, out: Array | None = None) -> Array:
    if has_many_rows(params.geometry):
        return max_by_axes(params, x, out)
    layout = laid_out(params, x)
    p, values = layout.plan, ordered(layout.stored(x))
    y = room(None if layout.last else out, layout.planes * p.plane_out, values.dtype)

    def task(first: int, last: int) -> None:
        max_rows.max_rows(values, y, least(values.dtype), first, last, p.packed)

    run(task, layout.planes * p.jobs, x.nbytes)
    return layout.finished(y, layout.out_shape, x.dtype)


def max_by_axes(params: MaxParams, x: Array, out: Array | None) -> Array:
    """One axis after the other, for windows of many rows."""
    geometry = params.geometry
    assert isinstance(geometry, Sliding)
    (lead, spatial), values, shape = geometry.split(x.shape), ordered(x), out_shape(geometry, x.shape)
    p, y, low = plan(axes.along(geometry, -1), spatial[-1:]), room(out, math.prod(shape), values.dtype), least(values.dtype)
    for slab in axes.slabs(geometry, math.prod(lead), spatial):
        part = values[slab.cells]
        rows = part.size // spatial[-1]
        across = empty((rows * p.out,), values.dtype)
        run(partial(max_task, part, across, low, p.packed), rows * p.jobs, part.nbytes)
        axes.max_axes(geometry, spatial, slab, across, low, y[slab.outputs])
    return finished(y, shape, x.dtype)


def max_task(x: Array, y: Array, low: Any, packed: Array, first: int, last: int) -> None:
    max_rows.max_rows(x, y, low, first, last, packed)


def max_with_indices(params: MaxParams, x: Array, out: tuple[Array | None, Array | None] = (None, None)) -> tuple[Array, Array]:
    found = winners(params, x, out[1])
    return taken(params, x, ordered(x), found, x.dtype, out[0]), found.reshape(out_shape(params.geometry, x.shape))


def max_jvp(params: MaxParams, x: Array, dx: Array) -> Array:
    dtype = derivative_of(x.dtype, dx.dtype)
    if params.ties == "first":
        return taken(params, x, added(dx), winners(params, x), dtype)
    p, planes = planned(params, x)
    values, tangents, y = ordered(x), added(dx), empty((planes * p.plane_out,), computed(dtype))
    split = params.ties == "split"
    run(lambda first, last: scalar.tied_sums(values, tangents, y, split, first, last, *cells(p)), planes * p.outer, x.nbytes)
    return finished(y, out_shape(params.geometry, x.shape), dtype)


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
