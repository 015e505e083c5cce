"""Mean over NumPy numbers: from parameters and arrays to a kernel, its threads and its memory."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from windowgrad.dtypes import derivative_of, float_of, machine_float
from windowgrad.geometry import Adaptive, Geometry, Global, Sliding, Table
from windowgrad.kernels.arrays import Array, added, computed, finished, flat, room, summed
from windowgrad.kernels.pool import long_rows
from windowgrad.kernels.pool.axis_passes import AxisBlock, axis_blocks, has_many_rows
from windowgrad.kernels.pool.blocks import Block, Blocks, blocks
from windowgrad.kernels.pool.lane_groups import groups_of
from windowgrad.kernels.pool.layout import Layout, is_channels_last, laid_out, new_layout, out_shape, stands_last
from windowgrad.kernels.pool.long_rows import Section, for_cells, for_outputs, is_long, is_plain, over, windows_of
from windowgrad.kernels.pool.mean.lanes import is_small, mean_lanes, mean_lanes_back, takes_lanes, takes_lanes_back
from windowgrad.kernels.pool.mean.many_rows import mean_axes
from windowgrad.kernels.pool.mean.near import mean_near
from windowgrad.kernels.pool.mean.row_windows import mean_row_window_runs, mean_row_windows
from windowgrad.kernels.pool.mean.rows import (
    back_rows_of_few,
    mean_rows_back_for,
    mean_rows_of_few,
    mean_rows_of_many,
)
from windowgrad.kernels.pool.mean.run_windows import adds_in_registers, mean_run_windows
from windowgrad.kernels.pool.mean.runs import fits, mean_runs, mean_runs_back, piece_of_runs
from windowgrad.kernels.pool.mean.second import mean_second, mean_sums_for
from windowgrad.kernels.pool.mean.short_rows import beats_lanes, has_short_means, mean_short
from windowgrad.kernels.pool.mean.whole import (
    is_whole,
    mean_whole,
    mean_whole_back,
    mean_whole_runs_back,
    over_whole_runs,
)
from windowgrad.kernels.pool.near_rows import is_near
from windowgrad.kernels.pool.plan import Plan, regularity
from windowgrad.kernels.pool.row_windows import nominal, shared_out
from windowgrad.kernels.pool.window_spans import DIRECT, depth_of
from windowgrad.kernels.runtime.buffers import empty
from windowgrad.kernels.runtime.threads import run
from windowgrad.params import MeanParams

NARROW, WIDE = np.empty(0, np.float32), np.empty(0, np.float64)

MEANS_OF_HALVES = frozenset({mean_near, mean_second, mean_rows_of_few, mean_rows_of_many, mean_runs, mean_whole})
GRADIENTS_OF_HALVES = frozenset({back_rows_of_few, mean_runs_back})
COPIES_OF_HALVES = frozenset({mean_whole_back, mean_whole_runs_back})
"""Kernels that read and write floats of 16 bits as well."""

DEEP = 15
"""From so many additions one after the other, float32 would not keep the stated error of a mean."""


FULL = 24
"""Cells of a row that fill the vectors of `mean_near`: of 28 they take 0.8, of 32 half as long as several planes at once."""


def divisors(params: MeanParams, p: Plan) -> tuple[Array, Array]:
    """What divides the sum of a window is the product of one number per row and one per column."""
    if params.divisor_override is not None:
        return np.ones(p.outer), np.full(p.out, machine_float("divisor_override", params.divisor_override))
    if params.count_include_pad:
        return p.row_inside, p.col_inside
    return np.maximum(p.row_cells, 1).astype(np.float64), np.maximum(p.count, 1).astype(np.float64)


def averaged(params: MeanParams, x: Array, dtype: Any, out: Array | None = None, depth: int | None = None) -> Array:
    """The means of all windows; `depth` is that of the whole, if x is a block of it."""
    plain = is_plain(x, summed(x.dtype)) and computed(dtype) == dtype and (out is None or is_plain(out, dtype))
    if plain and is_long(params.geometry, x.shape):
        return averaged_long(params, x, dtype, out)
    by_axes = goes_by_axes(params.geometry, params.geometry.split(x.shape)[1])
    if (cut := blocks(params.geometry, x, summed(x.dtype), by_axes=by_axes, fixed=by_axes)) is not None:
        y, deep = empty(out_shape(params.geometry, x.shape), dtype) if out is None else out, depth_in(cut)
        cut.fill((y,), (x,), lambda block, x, out: (averaged(within(params, block), x, dtype, out[0], deep),))
        return y
    if by_axes:
        return averaged_by_axes(params, x, dtype, out)
    layout = mean_layout(params, x, x.shape)
    p, values = layout.plan, added(layout.stored(x))
    y = room(None if layout.last else out, math.prod(layout.out_shape), computed(dtype))
    zero = sums(params, values, y, added_in(params, p) if depth is None else depth)
    same = values.dtype == y.dtype == zero.dtype
    if layout.last:
        kernel, given, count = over_runs(params, p, zero, layout.planes, layout.channels, same)
    else:
        kernel, given, count = over_planes(params, p, zero, layout.planes, same)
    run(partial(kernel, values, y, *given), count, x.nbytes)
    return layout.finished(y, layout.out_shape, dtype)


def averaged_long(params: MeanParams, x: Array, dtype: Any, out: Array | None) -> Array:
    """The means along a long row."""
    geometry, shape = params.geometry, out_shape(params.geometry, x.shape)
    y, n, rows = empty(shape, dtype) if out is None else out, x.shape[-1], math.prod(shape[:-1])
    zero, apart = sums(params, x, y, depth_over(geometry, n, [windows_of(geometry, n).most])), nominal(geometry, n)

    def choose(section: Section) -> Chosen:
        p, size = section.plan, shared_out(apart or 1)
        by, packed = divisors(params, p), section.moved(p.packed)
        if apart:
            return mean_row_windows, (*by, packed, size), -(-p.out // size)
        return mean_sums_for(p, zero), (*by, zero, packed), p.pieces

    over(for_outputs(geometry, n), ((flat(x).reshape(rows, -1), True), (y.reshape(rows, -1), False)), choose)
    return y


Chosen = tuple[Any, tuple[Any, ...], int]
"""A kernel, what it is given after its two arrays, and how much of it there is to share."""


def sees_all(params: MeanParams, p: Plan) -> bool:
    """Whether a window is its plane, and always: sections of a plane, which may have one window, are summed like the plane."""
    return type(params.geometry) in (Global, Adaptive) and is_whole(p)


def over_planes(params: MeanParams, p: Plan, zero: Array, planes: int, same: bool) -> Chosen:
    """The kernel for channels first, whose sums are as `zero`; `same` says whether both arrays have its dtype."""
    if sees_all(params, p):
        return mean_whole, (*divisors(params, p), p.plane_in), planes
    if taps := nominal(params.geometry, p.width):
        size = shared_out(taps)
        return mean_row_windows, (*divisors(params, p), p.packed, size), planes * -(-p.out // size)
    near, short = is_near(p), same and has_short_means(p, zero.dtype)
    if takes_lanes(p, planes, zero.itemsize) and not (beats_lanes(p, zero.dtype) if short else near and p.width >= FULL):
        return mean_lanes, (*divisors(params, p), zero, p.packed, planes), groups_of(planes, zero.itemsize)
    if short:
        return mean_short, (*divisors(params, p), p.packed), planes
    kernel = mean_near if near else mean_sums_for(p, zero)
    return kernel, (*divisors(params, p), zero, p.packed), planes * p.pieces


def over_runs(params: MeanParams, p: Plan, zero: Array, planes: int, channels: int, same: bool) -> Chosen:
    """The kernel for channels last; all additions are those of channels first. `same` as in `over_planes_back`."""
    if sees_all(params, p):
        kernel, told, count = over_whole_runs(p.plane_in, channels, planes)
        return kernel, (*divisors(params, p), *told), count
    if nominal(params.geometry, p.width):
        return mean_row_window_runs, (*divisors(params, p), p.packed, channels), planes * p.out
    piece, pieces = piece_of_runs(p, channels)
    if same and adds_in_registers(p, channels, zero.itemsize):
        return mean_run_windows, (*divisors(params, p), p.packed, channels, piece), planes * p.outer * pieces
    return mean_runs, (*divisors(params, p), zero, p.packed, channels, piece), planes * p.outer * pieces


def over_planes_back(params: MeanParams, p: Plan, zero: Array, planes: int, same: bool) -> Chosen:
    """The kernel for gradients, channels first; `same` says whether both arrays have the dtype of `zero`."""
    if sees_all(params, p):
        return mean_whole_back, (*divisors(params, p), zero, p.plane_in), planes
    if same and takes_lanes_back(p, planes, zero.itemsize):
        return mean_lanes_back, (*divisors(params, p), zero, p.packed_back, planes), groups_of(planes, zero.itemsize)
    return mean_rows_back_for(p), (*divisors(params, p), zero, p.packed_back), planes * (p.plane_in // p.width)


def over_runs_back(params: MeanParams, p: Plan, zero: Array, planes: int, channels: int) -> Chosen:
    rows = planes * (p.plane_in // p.width)
    if sees_all(params, p):
        return mean_whole_runs_back, (*divisors(params, p), zero, p.plane_in, p.width, channels), rows
    return mean_runs_back, (*divisors(params, p), zero, p.packed_back, channels), rows


def gives_halves(kernel: Any, p: Plan) -> bool:
    """Whether a kernel for gradients reads and writes floats of 16 bits: it adds up nothing in the gradient, which would round.

    Windows that are not alike, or have many taps, are added up there.
    """
    return kernel in COPIES_OF_HALVES or (kernel in GRADIENTS_OF_HALVES and 0 < p.kernel <= DIRECT)


def mean_layout(params: MeanParams, x: Array, shape: tuple[int, ...]) -> Layout:
    """Whatever the layout of x, the plan is that of one channel alone, and with it the order and the dtype of all sums."""
    layout = laid_out(params, x, "alone", shape)
    fit = not layout.last or fits(layout.plan, layout.channels)
    return layout if fit else new_layout(params.geometry, shape, "first")


def telling(params: MeanParams, x: Array, g: Array) -> Array:
    """Which of a cell array and its gradients says the layout: a gradient of one cell per plane has every one."""
    channel = x.ndim - params.geometry.rank - 1
    every = g.flags.c_contiguous and g.ndim == x.ndim and is_channels_last(x, params.geometry, x.shape)
    return x if every and stands_last(g, channel) else g


def within(params: MeanParams, block: Block) -> MeanParams:
    return replace(params, geometry=block.geometry)


def depth_in(cut: Blocks) -> int:
    """What `added_in` is for the whole of a call that is cut."""
    if nominal(cut.geometry, cut.sides[-1].n):
        return 0
    return depth_over(cut.geometry, cut.sides[-1].n, [side.most for side in cut.sides])


def added_in(params: MeanParams, p: Plan) -> int:
    """`Plan.depth`, or 0 where windows are taken by themselves: then float32 keeps the error, however many cells they have."""
    return 0 if nominal(params.geometry, p.width) else p.depth


def depth_over(geometry: Geometry, n: int, most: Sequence[int]) -> int:
    """`Plan.depth` without the plan: of windows that have at most so many cells on each axis, the last of which is `n` long."""
    kernel, _, _ = regularity(geometry, n)
    return math.prod(most[:-1]) - 1 + (depth_of(kernel) if kernel else most[-1] - 1)


def goes_by_axes(geometry: Geometry, spatial: Sequence[int]) -> bool:
    """Whether windows are summed one axis after the other: they have many rows, and planes are not small."""
    return has_many_rows(geometry) and not is_small(spatial)


def is_deep(geometry: Geometry, spatial: Sequence[int]) -> bool:
    """Whether means over a plane with these sides are summed in float64 because of the depth of their windows.

    A caller that computes a plane in parts asks for the plane and for each part: a part whose windows are cut shorter must be
    summed like the whole. Windows summed one axis after the other, or each by itself, are the same for a part as for the whole.
    """
    if goes_by_axes(geometry, spatial) or nominal(geometry, spatial[-1]):
        return False
    most = [int(table.count.max(initial=1)) for table in geometry.tables(tuple(spatial))]
    return depth_over(geometry, spatial[-1], most) >= DEEP


def averaged_by_axes(params: MeanParams, x: Array, dtype: Any, out: Array | None) -> Array:
    """One axis after the other, for windows of many rows; in float32 first, and windows with a sum that is not finite again."""
    geometry = params.geometry
    assert isinstance(geometry, Sliding)
    (lead, spatial), values, shape = geometry.split(x.shape), flat(x), out_shape(geometry, x.shape)
    y = room(out, math.prod(shape), computed(dtype))
    steps = depth_of(geometry.kernel[-1]) + 2 * geometry.rank - 1  # roundings: along the row, two for each axis more, the last
    exact = has_exact_divisor(params) and math.prod(geometry.kernel) < 1 << 24
    narrow = summed(x.dtype) == y.dtype == np.float32 and steps < 16 and exact
    by = axis_divisors(params, geometry.tables(spatial))

    def sum_block(block: AxisBlock, zero: Array) -> Array:
        return mean_axes(geometry, spatial, block, added(values[block.cells]), zero, by, y[block.outputs])

    for block in axis_blocks(geometry, math.prod(lead), spatial):
        strange = sum_block(block, NARROW if narrow else WIDE)
        for part in (block.plane(int(plane)) for plane in strange) if narrow else ():
            means = y[part.outputs]
            first = means.copy()
            sum_block(part, WIDE)
            np.copyto(means, first, where=np.isfinite(first))  # a window is summed again by what it sees itself
    return finished(y, shape, dtype)


def axis_divisors(params: MeanParams, tables: Sequence[Table]) -> list[Array]:
    """What divides the sum of a window is the product of one number per axis."""
    if params.divisor_override is not None:
        *others, last = (np.ones(len(table.start)) for table in tables)
        return [*others, last * machine_float("divisor_override", params.divisor_override)]
    if params.count_include_pad:
        return [np.asarray(table.count + table.padded, dtype=np.float64) for table in tables]
    return [np.maximum(np.asarray(table.count, dtype=np.float64), 1) for table in tables]


def has_exact_divisor(params: MeanParams) -> bool:
    """Whether float32 holds the divisor."""
    return params.divisor_override is None or params.divisor_override < 1 << 24


def sums(params: MeanParams, x: Array, y: Array, depth: int) -> Array:
    """An empty array of the dtype in which windows are summed: float32 only where it keeps the stated error.

    Between a cell and the mean lie the additions of rows, those along a row, and one division: each adds 2⁻²⁴ at most.
    A window of n cells may have min(n, 16) of them, and a window of r × c cells has no more than r + c − 1.
    """
    narrow = x.dtype == y.dtype == np.float32 and depth < DEEP and has_exact_divisor(params)
    return NARROW if narrow else WIDE


def mean_forward(params: MeanParams, x: Array, out: Array | None = None) -> Array:
    return averaged(params, x, float_of(x.dtype), out)


def mean_jvp(params: MeanParams, x: Array, dx: Array) -> Array:
    return averaged(params, dx, derivative_of(float_of(x.dtype), dx.dtype))


def long_vjp(params: MeanParams, shape: tuple[int, ...], g: Array, dtype: Any) -> Array:
    """The gradient along a long row. To a section, what windows see outside of it is padding, but not when they are divided."""
    geometry, gx, n, rows = params.geometry, empty(shape, dtype), shape[-1], math.prod(shape[:-1])
    zero = NARROW if g.dtype == dtype == np.float32 else WIDE

    def choose(section: Section) -> Chosen:
        table = geometry.table(0, n, (section.output, section.output + section.outputs))
        p = section.plan
        seen = replace(p, count=np.asarray(table.count), col_inside=np.asarray(table.count + table.padded, dtype=np.float64))
        return mean_rows_back_for(p), (*divisors(params, seen), zero, section.moved(p.packed_back)), 1

    over(for_cells(geometry, n, long_rows.CELLS), ((flat(g).reshape(rows, -1), False), (gx.reshape(rows, -1), True)), choose)
    return gx


def mean_vjp(params: MeanParams, x: Array, g: Array) -> tuple[Array]:
    result = derivative_of(x.dtype, g.dtype)
    if is_plain(g, summed(g.dtype)) and computed(result) == result and is_long(params.geometry, x.shape):
        return (long_vjp(params, x.shape, g, result),)
    by_x, by_g = (x, summed(x.dtype)), (g, summed(g.dtype), x.shape)
    if (cut := blocks(params.geometry, *by_x) or blocks(params.geometry, *by_g)) is not None:
        gx = empty(x.shape, derivative_of(x.dtype, g.dtype))
        cut.gather(gx, x, g, lambda block, x, g: mean_vjp(within(params, block), x, g)[0])
        return (gx,)
    layout = mean_layout(params, telling(params, x, g), x.shape)
    dtype, p = derivative_of(x.dtype, g.dtype), layout.plan
    gradients, gx = added(layout.stored(g)), empty((x.size,), computed(dtype))
    zero = NARROW if gradients.dtype == gx.dtype == np.float32 else WIDE
    if layout.last:
        kernel, given, count = over_runs_back(params, p, zero, layout.planes, layout.channels)
    else:
        kernel, given, count = over_planes_back(params, p, zero, layout.planes, gradients.dtype == gx.dtype == zero.dtype)
    run(partial(kernel, gradients, gx, *given), count, x.nbytes)
    return (layout.finished(gx, x.shape, dtype),)
