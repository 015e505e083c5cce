"""Gradients of norms whose powers are products (`back`), of NumPy arrays: the norms they need, and the planes that are strange.

The forward rule can save the norms as float64, for those of float32 may have left its range; else they are found again. A
strange plane goes step by step (`entry.by_steps`). Whether it is follows from its own cells.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from windowgrad.kernels.arrays import Array, flat
from windowgrad.kernels.pool.layout import Layout, planned_for
from windowgrad.kernels.pool.lp.back import over_rows_back
from windowgrad.kernels.pool.lp.kernels import by_rows
from windowgrad.kernels.pool.lp.products import AS_IT_IS, NONE, WORK, is_product, over_runs, run_layout, settle
from windowgrad.kernels.pool.mean.runs import fits
from windowgrad.kernels.pool.plan import Plan
from windowgrad.kernels.pool.small import is_whole
from windowgrad.kernels.pool.smooth import chunks
from windowgrad.kernels.runtime import threads
from windowgrad.kernels.runtime.buffers import empty
from windowgrad.params import LpParams

Kind = tuple[tuple[int, ...], np.dtype[Any]]

WIDE = np.dtype(np.float64)


def is_ready(params: LpParams, shape: tuple[int, ...], dtype: np.dtype[Any]) -> bool:
    """Whether it is computed at once, by kernels for a power that is a product."""
    return (
        is_product(params)
        and dtype in (np.float32, np.float64)
        and not chunks.is_large_region(params, shape)
        and is_whole(params.geometry, shape, by_axes=False)
    )


def lp_saves(params: LpParams, *kinds: Kind) -> Kind | None:
    """The shape and the dtype of what `lp_saving` saves of such an array; None if nothing."""
    (shape, dtype) = kinds[0]
    return (params.geometry.out_shape(shape), WIDE) if is_ready(params, shape, dtype) else None


def run_layout_back(params: LpParams, x: Array) -> Layout | None:
    """The layout of channels last, if there are kernels for it both ways."""
    layout = run_layout(params, x)
    return layout if layout is not None and fits(layout.plan, layout.channels) else None


def wide_norms(p: int, plan: Plan, planes: int, x: Array) -> Array:
    """The norms of all planes, flat, as float64."""
    y, strange = empty((planes * plan.plane_out,), WIDE), np.zeros(planes, np.bool_)
    if threads.over(by_rows(p, plan), (x, y, strange, AS_IT_IS, plan.packed), planes * plan.pieces, WORK * x.nbytes):
        settle(p, plan, x, y, strange)
    return y


def wide_norms_last(p: int, layout: Layout, x: Array) -> Array | None:
    """The same for channels last; None if something is strange."""
    y = empty((math.prod(layout.out_shape),), WIDE)
    kernel, given, count = over_runs(p, layout)
    return None if threads.over(kernel, (x, y, NONE, AS_IT_IS, *given), count, WORK * x.nbytes) else y


def lp_saving(params: LpParams, x: Array) -> tuple[Array, Array]:
    """The norms, and the same as float64."""
    p = int(params.norm_type)
    if (layout := run_layout_back(params, x)) is not None:
        y = wide_norms_last(p, layout, flat(layout.stored(x)))
        if y is not None:
            saved = layout.finished(y, layout.out_shape, WIDE)
            return layout.finished(narrowed(y, x.dtype), layout.out_shape, x.dtype), saved
    plan, planes = planned_for(params.geometry, x.shape)
    saved = wide_norms(p, plan, planes, flat(x)).reshape(params.geometry.out_shape(x.shape))
    return narrowed(saved, x.dtype), saved


def narrowed(saved: Array, dtype: Any) -> Array:
    """What was saved, in a row, as numbers of the dtype."""
    y = empty(saved.shape, dtype)
    cells, places = saved.reshape(-1), y.reshape(-1)

    def change(first: int, last: int) -> None:
        with np.errstate(all="ignore"):
            places[first:last] = cells[first:last]

    threads.run(change, saved.size, saved.nbytes)
    return y


def gradients(params: LpParams, x: Array, g: Array, saved: Array | None) -> tuple[Array, Array]:
    """(the gradient, flat planes; which planes are strange), of arrays of one dtype, channels first."""
    (plan, planes), p = planned_for(params.geometry, x.shape), int(params.norm_type)
    line, gx, strange = flat(x), empty((x.size,), x.dtype), np.zeros(planes, np.bool_)
    y = wide_norms(p, plan, planes, line) if saved is None else flat(saved)
    kernel, given, count = over_rows_back(p, plan, planes, 1, x.dtype)
    threads.over(kernel, (line, flat(g), y, gx, strange, *given), count, WORK * x.nbytes)
    return gx, strange


def gradients_last(params: LpParams, x: Array, g: Array, saved: Array | None) -> Array | None:
    """The gradient for channels last; None if x does not stand so, or if a plane is strange."""
    if (layout := run_layout_back(params, x)) is None:
        return None
    p, line, gx = int(params.norm_type), flat(layout.stored(x)), empty((x.size,), x.dtype)
    y = wide_norms_last(p, layout, line) if saved is None else flat(layout.stored(saved))
    if y is None:
        return None
    strange = np.zeros(layout.planes, np.bool_)
    kernel, given, count = over_rows_back(p, layout.plan, layout.planes, layout.channels, x.dtype)
    if threads.over(kernel, (line, flat(layout.stored(g)), y, gx, strange, *given), count, WORK * x.nbytes):
        return None
    return layout.finished(gx, x.shape, x.dtype)
