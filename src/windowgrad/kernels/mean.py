"""Mean over NumPy numbers: from parameters and arrays to a kernel, its threads and its memory."""

from __future__ import annotations

from typing import Any

import numpy as np

from windowgrad.kernels import mean_rows
from windowgrad.kernels.buffers import empty
from windowgrad.kernels.cells import Array, added, computed, laid_out, room
from windowgrad.kernels.dtypes import derivative_of, float_of, machine_float
from windowgrad.kernels.plan import Plan
from windowgrad.kernels.spans import depth_of
from windowgrad.kernels.threads import run
from windowgrad.params import MeanParams


def divisors(params: MeanParams, p: Plan) -> tuple[Array, Array]:
    """What divides the sum of a window is the product of one number per row and one per column."""
    if params.divisor_override is not None:
        return np.ones(p.outer), np.full(p.out, machine_float("divisor_override", params.divisor_override))
    if params.count_include_pad:
        return p.row_inside, p.col_inside
    return np.maximum(p.row_cells, 1).astype(np.float64), np.maximum(p.count, 1).astype(np.float64)


def averaged(params: MeanParams, x: Array, dtype: Any, out: Array | None = None) -> Array:
    layout = laid_out(params, x)
    p, values = layout.plan, added(layout.stored(x))
    y = room(None if layout.last else out, layout.planes * p.plane_out, computed(dtype))
    by, zero = divisors(params, p), sums(params, values, y, p)

    def task(first: int, last: int) -> None:
        mean_rows.mean_rows(values, y, *by, zero, first, last, p.packed)

    run(task, layout.planes * p.jobs, x.nbytes)
    return layout.finished(y, layout.out_shape, dtype)


def sums(params: MeanParams, x: Array, y: Array, p: Plan) -> Array:
    """An empty array of the dtype in which windows are summed: float32 only where it keeps the stated error.

    Between a cell and the mean lie the additions of rows, those along a row, and one division: each adds 2⁻²⁴ at most.
    A window of n cells may have min(n, 16) of them, and a window of r × c cells has no more than r + c − 1.
    """
    along = depth_of(p.kernel) if p.kernel else int(p.count.max(initial=1)) - 1
    steps = int(p.row_cells.max(initial=1)) - 1 + along + 1
    exact = params.divisor_override is None or params.divisor_override < 1 << 24
    return np.empty(0, np.float32 if x.dtype == y.dtype == np.float32 and steps < 16 and exact else np.float64)


def mean_forward(params: MeanParams, x: Array, out: Array | None = None) -> Array:
    return averaged(params, x, float_of(x.dtype), out)


def mean_jvp(params: MeanParams, x: Array, dx: Array) -> Array:
    return averaged(params, dx, derivative_of(float_of(x.dtype), dx.dtype))


def mean_vjp(params: MeanParams, x: Array, g: Array) -> tuple[Array]:
    layout = laid_out(params, g, x.shape)
    dtype, p = derivative_of(x.dtype, g.dtype), layout.plan
    gradients, gx, by = added(layout.stored(g)), empty((x.size,), computed(dtype)), divisors(params, p)
    zero = np.empty(0, np.float32 if gradients.dtype == gx.dtype == np.float32 else np.float64)

    def task(first: int, last: int) -> None:
        mean_rows.mean_rows_back(gradients, gx, *by, zero, first, last, p.packed, p.back_ptr, p.back_rows)

    run(task, layout.planes * (p.plane_in // p.width), x.nbytes)
    return (layout.finished(gx, x.shape, dtype),)
