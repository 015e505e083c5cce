"""Smooth maximum over NumPy numbers: from parameters and arrays to a kernel, its threads and its memory."""

from __future__ import annotations

from windowgrad.kernels import scalar, smooth_rows
from windowgrad.kernels.buffers import empty
from windowgrad.kernels.cells import Array, added, along, cells, computed, finished, out_shape, planned, room
from windowgrad.kernels.dtypes import derivative_of, float_of, machine_float
from windowgrad.kernels.plan import Plan
from windowgrad.kernels.threads import run
from windowgrad.params import SmoothParams


def counted(params: SmoothParams, p: Plan) -> tuple[float, Array, Array]:
    """β, and the cells that count of each row and each column; their product less the real cells is padding."""
    inside = (p.row_inside, p.col_inside) if params.count_include_pad else (p.row_cells * 1.0, p.count * 1.0)
    return machine_float("beta", params.beta), *inside


def smooth_forward(params: SmoothParams, x: Array, out: Array | None = None) -> Array:
    p, planes = planned(params, x)
    dtype = float_of(x.dtype)
    values, y = added(x), room(out, planes * p.plane_out, computed(dtype))
    by = counted(params, p)

    def task(first: int, last: int) -> None:
        if p.kernel and p.stride <= 2:
            smooth_rows.smooth_rows(values, y, *by, first, last, *cells(p), *along(p))
        else:
            scalar.smooth(values, y, *by, first, last, *cells(p))

    run(task, planes * p.outer, x.nbytes)
    return finished(y, out_shape(params.geometry, x.shape), dtype)


def smooth_jvp(params: SmoothParams, x: Array, dx: Array) -> Array:
    p, planes = planned(params, x)
    dtype = derivative_of(float_of(x.dtype), dx.dtype)
    values, tangents, y = added(x), added(dx), empty((planes * p.plane_out,), computed(dtype))
    by = counted(params, p)
    run(lambda first, last: scalar.smooth_sums(values, tangents, y, *by, first, last, *cells(p)), planes * p.outer, x.nbytes)
    return finished(y, out_shape(params.geometry, x.shape), dtype)


def smooth_vjp(params: SmoothParams, x: Array, g: Array) -> tuple[Array]:
    p, planes = planned(params, x)
    dtype = derivative_of(x.dtype, g.dtype)
    values, gradients, gx = added(x), added(g), empty((x.size,), computed(dtype))
    by = counted(params, p)
    run(lambda first, last: scalar.smooth_spread(values, gradients, gx, *by, first, last, *cells(p)), planes, x.nbytes)
    return (finished(gx, x.shape, dtype),)
