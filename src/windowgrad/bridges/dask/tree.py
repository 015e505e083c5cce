"""Regions that reach over many chunks: each chunk is reduced by itself, and what is found is combined in a tree.

No task holds more than one chunk of the input, or a few of the small results. Maxima, their indices and tangents are those of
the whole, bit for bit. Means, smooth maxima and norms are combined in float64 and rounded once.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import product
from typing import Any

import numpy as np

from windowgrad.bridges.dask.cuts import Cut, bounds, clipped, line, seen_by, shared_out
from windowgrad.bridges.dask.graph import Block, Job, Key, Layer, Operand, blocks, item, tree
from windowgrad.bridges.dask.graph import kept as as_it_was
from windowgrad.bridges.dask.states import finished, found_in, joint, reduction, shared_back
from windowgrad.params import PoolParams
from windowgrad.routes import facts_of
from windowgrad.spec.op import Op


def states(op: Op, rule: str, params: PoolParams, x: Any, arrays: Sequence[Any]) -> Any:
    """The array whose blocks are the states (see `states`) of the outputs, in the chunks of x that their middles are in."""
    rank = params.geometry.rank
    spatial, lead = x.shape[x.ndim - rank :], x.ndim - rank
    operands = [Operand(each, 0) for each in arrays]
    layer = Layer(f"{op.label or op.name}-tree", operands, op.name, rule, params, x.chunks)
    partly = partial(found_in, op.name, rule, params, spatial)
    combine = partial(joint, op.name, params)
    axes: list[list[tuple[int, list[Job]]]] = [[(job.size, [job]) for job in as_it_was(sizes, 1)] for sizes in x.chunks[:lead]]
    for axis, (n, sizes) in enumerate(zip(spatial, x.chunks[lead:], strict=True)):
        each = line(params.geometry, axis, n)
        groups = [(outputs, [clipped(each, outputs, cells) for cells in bounds(sizes)]) for outputs in shared_out(each, sizes)]
        axes.append([(high - low, jobs_of(cuts, (low, high))) for (low, high), cuts in groups])
    for place in product(*(range(len(some)) for some in axes)):
        found: list[Key] = []
        for number, jobs in enumerate(product(*(some[i][1] for some, i in zip(axes, place, strict=True)))):
            found.append((f"{layer.name}-part", *place, number))
            layer.tasks[found[-1]] = (partly, Block(jobs), *layer.gathered(jobs))
        tree(layer, found, place, combine, as_found)
    return layer.array(tuple(tuple(size for size, _ in some) for some in axes), object)


def as_found(state: Any) -> Any:
    return state


def jobs_of(cuts: Sequence[Cut | None], outputs: tuple[int, int]) -> list[Job]:
    """A job for each chunk that the outputs see something of; if there is none, one with nothing in it."""
    seen = [Job(0, (cut.cells,), cut) for cut in cuts if cut is not None]
    none = Cut(outputs, (0, 0), (0, 0), False, (0, outputs[1] - outputs[0]))
    return seen or [Job(0, ((0, 0),), none)]


def output_axes(params: PoolParams, x: Any) -> list[list[Job]]:
    """The jobs of outputs that are there already: each needs itself, and is told which it is."""
    lead = x.ndim - params.geometry.rank
    axes = [as_it_was(sizes, 1) for sizes in x.chunks[:lead]]
    for axis, (n, sizes) in enumerate(zip(x.shape[lead:], x.chunks[lead:], strict=True)):
        some = shared_out(line(params.geometry, axis, n), sizes)
        axes.append(
            [Job(high - low, ((low, high),), Cut((low, high), (0, 0), (0, 0), False, (0, high - low))) for low, high in some]
        )
    return axes


def outputs(op: Op, rule: str, params: PoolParams, arrays: Sequence[Any], dtype: Any) -> Any:
    x = arrays[0]
    needed = arrays if facts_of(op).derivative_reads or rule != "jvp" else arrays[1:]
    state = states(op, rule, params, x, needed)
    spatial = x.shape[x.ndim - params.geometry.rank :]
    function = partial(finished, op.name, rule, params, spatial, dtype)
    told = op.name, rule, params, dtype, x.chunks
    found = blocks(op.label or op.name, function, output_axes(params, x), [Operand(state, same=True)], dtype, told)
    return (item(found, 0, dtype), item(found, 1, np.dtype(np.int64))) if rule == "with_indices" else found


def gradient(op: Op, params: PoolParams, x: Any, g: Any, dtype: Any) -> Any:
    """Each chunk shares out what its cells get of each gradient; for that it needs to know of the whole regions."""
    rank = params.geometry.rank
    spatial, lead = x.shape[x.ndim - rank :], x.ndim - rank
    axes = [as_it_was(sizes, 2) for sizes in x.chunks[:lead]]
    for axis, (n, sizes) in enumerate(zip(spatial, x.chunks[lead:], strict=True)):
        each, jobs = line(params.geometry, axis, n), []
        for cells in bounds(sizes):
            some = seen_by(each, cells)
            cut = clipped(each, some, cells) if some[0] < some[1] else None
            cut = cut or Cut((0, 0), (cells[0], cells[0]), (0, 0), False, (0, 0))
            jobs.append(Job(cells[1] - cells[0], (cells, cut.outputs), cut))
        axes.append(jobs)
    totals = []
    if facts_of(op).derivative_reads:
        state = states(op, "vjp", params, x, [x])
        whole = blocks(
            f"{state.name}-whole", partial(finished, op.name, "vjp", params, spatial, None), output_axes(params, x),
            [Operand(state, same=True)], object, "whole",
        )  # fmt: skip
        totals = [item(whole, i, kind) for i, kind in enumerate(reduction(op.name).totals(params, x.dtype))]
    function = partial(shared_back, op.name, params, spatial, dtype)
    operands = [Operand(x, 0), Operand(g, 1), *(Operand(each, 1) for each in totals)]
    return blocks(f"{op.label or op.name}-vjp", function, axes, operands, dtype, (op.name, params, dtype))
