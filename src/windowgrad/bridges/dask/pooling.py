"""Pooling on Dask arrays: what each chunk of a result needs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import dask.array as da
import numpy as np

from windowgrad.bridges.dask import tree
from windowgrad.bridges.dask.blocks import averaged, masked, pooled, pulled
from windowgrad.bridges.dask.cuts import bounds, for_cells, for_outputs, line, shared_out
from windowgrad.bridges.dask.graph import Job, Operand, blocks, item
from windowgrad.bridges.dask.graph import kept as as_it_was
from windowgrad.bridges.dask.kinds import derivative, pushed
from windowgrad.errors import OptionError
from windowgrad.geometry import Adaptive, Global
from windowgrad.kernels.pool.mean.entry import is_deep
from windowgrad.params import PoolParams
from windowgrad.routes import facts_of
from windowgrad.spec.op import Op

da_: Any = da  # Dask has few types

LARGEST, MANY = 1 << 20, 4
"""A block that needs more cells than this, and than so many of the largest chunks have, is reduced chunk by chunk."""


def compute(op: Op, rule: str, params: PoolParams, arrays: Sequence[Any]) -> Any:
    geometry = params.geometry
    if not isinstance(geometry, Global):
        return compute_kept(op, rule, params, arrays)
    rank, whole = geometry.rank, replace(params, geometry=Adaptive((1,) * geometry.rank))
    if geometry.keepdims:
        return compute_kept(op, rule, whole, arrays)
    if rule == "vjp":
        x, g = arrays
        return compute_kept(op, rule, whole, [x, g[(..., *(None,) * rank)]])
    result, one = compute_kept(op, rule, whole, arrays), (..., *(0,) * rank)
    return tuple(each[one] for each in result) if rule == "with_indices" else result[one]


def compute_kept(op: Op, rule: str, params: PoolParams, arrays: Sequence[Any]) -> Any:
    """The same for geometries that keep the number of axes."""
    if rule == "vjp":
        return (gradient(op, params, *arrays),)
    return outputs(op, rule, params, arrays)


def lines(params: PoolParams, x: Any) -> list[Any]:
    spatial = x.shape[x.ndim - params.geometry.rank :]
    return [line(params.geometry, axis, n) for axis, n in enumerate(spatial)]


def lead_axes(params: PoolParams, x: Any, operands: int) -> list[list[Job]]:
    return [as_it_was(sizes, operands) for sizes in x.chunks[: x.ndim - params.geometry.rank]]


def outputs(op: Op, rule: str, params: PoolParams, arrays: Sequence[Any]) -> Any:
    x, rank, dtype, ordered = arrays[0], params.geometry.rank, pushed(op, rule, arrays), facts_of(op).rounds_by_order
    spatial, axes = x.shape[x.ndim - rank :], lead_axes(params, x, 1)
    for each, sizes in zip(lines(params, x), x.chunks[x.ndim - rank :], strict=True):
        cuts = [for_outputs(each, some, ordered) for some in shared_out(each, sizes)]
        axes.append([Job(cut.keep[1] - cut.keep[0], (cut.cells,), cut) for cut in cuts])
    plain, mask = apart(params, x)
    if not mask and needs_much(axes, x):
        return tree.outputs(op, rule, params, arrays, dtype)
    function, needed, told = partial(pooled, rule), arrays, (op.name, rule, plain, dtype, x.chunks, len(mask))
    if ordered:
        function, needed = partial(averaged, is_deep(params.geometry, spatial), dtype), arrays[-1:]
    function = partial(masked, function, op.name, plain, spatial) if mask else partial(function, op.name, plain, spatial)
    found = blocks(op.label or op.name, function, axes, [*(Operand(each, 0) for each in needed), *mask], dtype, told)
    return (item(found, 0, dtype), item(found, 1, np.dtype(np.int64))) if rule == "with_indices" else found


def gradient(op: Op, params: PoolParams, x: Any, g: Any) -> Any:
    rank, dtype = params.geometry.rank, derivative(x.dtype, g.dtype)
    spatial, axes = x.shape[x.ndim - rank :], lead_axes(params, x, 2)
    for each, sizes in zip(lines(params, x), x.chunks[x.ndim - rank :], strict=True):
        cuts = [for_cells(each, some) for some in bounds(sizes)]
        axes.append([Job(cut.keep[1] - cut.keep[0], (cut.cells, cut.outputs), cut) for cut in cuts])
    plain, mask = apart(params, x)
    if not mask and needs_much(axes, x):
        return tree.gradient(op, params, x, g, dtype)
    function = partial(pulled, x.dtype)
    function = partial(masked, function, op.name, plain, spatial) if mask else partial(function, op.name, plain, spatial)
    operands = [*([Operand(x, 0)] if facts_of(op).derivative_reads else []), Operand(g, 1), *mask]
    told = op.name, "vjp", plain, x.dtype, x.chunks, len(mask)
    return blocks(f"{op.label or op.name}-vjp", function, axes, operands, dtype, told)


def apart(params: PoolParams, x: Any) -> tuple[PoolParams, list[Operand]]:
    """(the parameters without their mask, the mask as an operand in the chunks of x, if there is one).

    With a mask, all that a block needs is brought together, however much it is.
    """
    if params.where is None:
        return params, []
    if getattr(params, "empty", "zero") == "raise":
        raise OptionError('empty="raise": not supported with a mask on Dask arrays, whose cells are not known yet')
    mask = da_.broadcast_to(da_.asarray(params.where.array), x.shape).rechunk(x.chunks)
    return replace(params, where=None), [Operand(mask, 0)]


def needs_much(axes: Sequence[Sequence[Job]], x: Any) -> bool:
    """Whether some block needs too much of the input to bring it together. Objects always are: they are exact."""
    most = math.prod(max(job.ranges[0][1] - job.ranges[0][0] for job in jobs) for jobs in axes)
    chunk = math.prod(max(sizes) for sizes in x.chunks)
    return bool(x.dtype != object and most > max(LARGEST, MANY * chunk))
