"""Padding and its adjoint on Dask arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import dask.array as da
import numpy as np

from windowgrad.bridges.dask.kinds import derivative
from windowgrad.kernels.elementwise.extend import Run, along, axes, runs
from windowgrad.params import ExtendParams
from windowgrad.routes import facts_of
from windowgrad.spec.op import Op


def compute(op: Op, rule: str, params: Any, arrays: Sequence[Any]) -> Any:
    x, changed = arrays[0], arrays[-1]
    if rule != "forward":
        changed = changed.astype(derivative(x.dtype, changed.dtype))
    if isinstance(params, ExtendParams) and params.mode != "constant":
        changed = changed.rechunk(tuple(tuple(filter(None, sizes)) or (0,) for sizes in changed.chunks))  # no empty chunks
        return (folded(params, x.shape, changed),) if rule == "vjp" else extended(params, changed)
    grows = facts_of(op).grows == (rule != "vjp")
    widths = ((0, 0),) * (x.ndim - len(params.padding)) + params.padding
    value = getattr(params, "value", 0) if rule == "forward" else 0
    result = (
        da.pad(changed, widths, constant_values=value)
        if grows
        else changed[tuple(slice(lo, n - hi) for n, (lo, hi) in zip(changed.shape, widths, strict=True))]
    )
    return (result,) if rule == "vjp" else result


def extended(params: ExtendParams, x: Any) -> Any:
    """x with cells of its own around it, axis by axis."""
    for axis, n, lo, hi in axes(params, x.shape):
        parts = []
        for run in runs(params.mode, n, lo, hi):
            parts.append(seen(x, axis, run))
        x = da.concatenate(parts, axis)  # type: ignore[no-untyped-call]
    return x


def seen(x: Any, axis: int, run: Run) -> Any:
    """The cells that a run of outputs sees."""
    count = run.last - run.first
    if not run.step:
        return da.repeat(x[along(axis, run.cells)], count, axis)
    if run.step > 0:
        return x[along(axis, run.cells)]
    part = x[along(axis, slice(run.start + 1 - count, run.start + 1))]  # a slice of Dask's that goes down may lose cells
    return part[along(axis, slice(None, None, -1))]


def folded(params: ExtendParams, shape: Sequence[int], g: Any) -> Any:
    """The adjoint: each part of g added to the cells it shows, in the order of the kernel."""
    wide, dtype = np.dtype(np.float32) if g.dtype.itemsize == 2 else g.dtype, g.dtype
    g = g.astype(wide)
    for axis, n, lo, hi in reversed(axes(params, tuple(shape))):
        total = da.zeros((*g.shape[:axis], n, *g.shape[axis + 1 :]), dtype=wide, chunks=-1)
        for run in runs(params.mode, n, lo, hi):
            total = total + placed(g, axis, n, run)
        g = total
    return g.astype(dtype)


def placed(g: Any, axis: int, n: int, run: Run) -> Any:
    """The part of g that a run is of, at the places of its cells, and zeros elsewhere."""
    part = g[along(axis, slice(run.first, run.last))]
    if not run.step:
        whole = part.rechunk({axis: -1})  # so that one is added after the other
        part = da.cumsum(whole, axis, dtype=g.dtype)[along(axis, slice(-1, None))]
    elif run.step < 0:
        part = part[along(axis, slice(None, None, -1))]
    before = min(run.start, run.start + run.step * (run.last - run.first - 1))
    widths = [(0, 0)] * g.ndim
    widths[axis] = before, n - before - part.shape[axis]
    return da.pad(part, widths)
