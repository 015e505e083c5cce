"""Maximum over NumPy numbers: from parameters and arrays to a kernel, its threads and its memory."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, lru_cache, partial
from typing import Any

import numpy as np

from windowgrad.caches import keep
from windowgrad.dtypes import derivative_of, is_float
from windowgrad.geometry import Geometry, Sliding
from windowgrad.kernels.arrays import Array, added, computed, finished, ordered, room, summed
from windowgrad.kernels.pool.axis_passes import along, axis_blocks, has_many_rows, max_axes
from windowgrad.kernels.pool.blocks import Block, blocks
from windowgrad.kernels.pool.layout import Form, is_channels_last, laid_out, out_shape, planned
from windowgrad.kernels.pool.max import winner_strips
from windowgrad.kernels.pool.max.rows import max_rows
from windowgrad.kernels.pool.max.winner_columns import tied_columns, tied_columns_back, tied_in_place, tied_in_place_back
from windowgrad.kernels.pool.max.winner_plan import packed_rows
from windowgrad.kernels.pool.max.winner_rows import winner_rows, winner_rows_back
from windowgrad.kernels.pool.max.winner_search import winner_search, winner_search_back
from windowgrad.kernels.pool.one_by_one import take
from windowgrad.kernels.pool.plan import Plan, plan
from windowgrad.kernels.runtime.buffers import empty
from windowgrad.kernels.runtime.threads import run
from windowgrad.kernels.vector.types import lanes_of
from windowgrad.params import MaxParams

Cut = Callable[[Plan, tuple[int, ...], int, int], Array]

LONG = 16
"""The most taps of a window along the one row of a plane that are compared one after the other."""

LARGEST_SPAN = 1 << 26
"""The most outputs along the rows that one window spans, when rows are reduced before columns."""


@cache
def least(dtype: Any) -> Any:
    """The value that no cell is below: what stands in a row's padding, where it never wins."""
    return dtype.type(-np.inf if is_float(dtype) else np.iinfo(dtype).min)


def compared(x: Array, itemsize: int = 4) -> Array:
    """The cells in a row, as numbers of at least `itemsize` bytes, in a dtype whose order is theirs."""
    return ordered(x).astype(comparable(x.dtype, itemsize), copy=False)


@cache
def comparable(dtype: Any, itemsize: int = 4) -> Any:
    """The dtype of at least `itemsize` bytes in which winners are looked for."""
    found = computed(dtype)
    return found if found.itemsize >= itemsize else np.dtype(f"{'f' if is_float(found) else 'i'}{itemsize}")


def places(x: Array) -> Array:
    """An empty array of the dtype in which kernels carry rows and taps: an integer as wide as x."""
    return np.empty(0, np.int32 if x.itemsize == 4 else np.int64)


@dataclass(frozen=True)
class Strips:
    """How the planes are cut, and the plan of kernels that reduce rows first; None where columns come first."""

    places: Array
    by_rows: Array | None


def strips_of(params: MaxParams, shape: tuple[int, ...], p: Plan, channels: int, form: Form, itemsize: int, cut: Cut) -> Strips:
    """`cut` tells whose rows a strip owns. What follows from the shapes is kept with small plans."""
    spatial, limits = params.geometry.split(shape)[1], (winner_strips.UNCUT, winner_strips.SPANS)
    return kept_strips(p.size, params.geometry, spatial, channels, form == "together", lanes_of(itemsize), cut, *limits)


def made_strips(
    geometry: Geometry, spatial: tuple[int, ...], channels: int, together: bool, lanes: int, cut: Cut, uncut: int, spans: int
) -> Strips:
    p = plan(geometry, spatial, channels, together)
    strips = cut(p, spatial, uncut, spans)
    return Strips(strips, packed_rows(p, strips, lanes) if reduces_rows(p) else None)


kept_strips = keep(made_strips)


def reduces_rows(p: Plan, channels: int = 1) -> bool:
    """Whether the first winners are found rows first, by `winner_rows`; else window by window, by `winner_search`."""
    small = winner_strips.window_span(p) * p.out * channels <= LARGEST_SPAN
    return p.kernel > 0 and p.stride <= 2 and small and not slides(p)


def slides(p: Plan) -> bool:
    """Whether the winners of long windows along a single row are found by a queue."""
    return p.is_one_row and p.kernel > LONG and p.step == 1


@lru_cache(maxsize=256)
def form_back(geometry: Geometry, shape: tuple[int, ...], first: bool) -> Form:
    """How a gradient sees channels that stand last, so that a cell adds up its windows in the order of channels first.

    For the `first` winners of windows of several kinds, or far apart: window after window, which every form does. Of others:
    rows first, as `winner_rows` does it, if the runs are not too long. For all winners: those of a row of windows first.
    """
    lead, spatial = geometry.split(shape)
    p = plan(geometry, spatial)
    if first and (p.kernel == 0 or p.stride > 2):
        return "rows"
    return "together" if not first or reduces_rows(p, lead[-1]) else "first"


def winners(params: MaxParams, x: Array, out: tuple[Array | None, Array | None] = (None, None)) -> tuple[Array, Array]:
    """The value of each window's first winner and its place in its plane, flat; 0 and −1 where there is none."""
    p, planes = planned(params, x)
    values = compared(x)
    y = room(out[0] if values.dtype == x.dtype else None, planes * p.plane_out, values.dtype)
    found = room(out[1], planes * p.plane_out, np.dtype(np.int64))
    given = values, y, found, least(values.dtype), places(values)
    cut_up = strips_of(params, x.shape, p, 1, "first", values.itemsize, winner_strips.output_strips)

    def task(first: int, last: int) -> None:
        if cut_up.by_rows is not None:
            winner_rows(*given, cut_up.by_rows, first, last)
        else:
            winner_search(values, y, found, cut_up.places, p.packed, first, last)

    run(task, planes * len(cut_up.places), x.nbytes)
    return y, found


def taken(params: MaxParams, x: Array, values: Array, found: Array, dtype: Any, out: Array | None = None) -> Array:
    """The values at the found cells."""
    p, planes = planned(params, x)
    y = room(out, found.size, values.dtype)
    run(lambda first, last: take(values, found, y, first, last, p.plane_out, p.plane_in), planes, y.nbytes)
    return finished(y, out_shape(params.geometry, x.shape), dtype)


def max_forward(params: MaxParams, x: Array, out: Array | None = None) -> Array:
    by_axes = has_many_rows(params.geometry)
    if (cut := blocks(params.geometry, x, computed(x.dtype), by_axes=by_axes)) is not None:
        y = empty(out_shape(params.geometry, x.shape), x.dtype) if out is None else out
        cut.fill((y,), (x,), lambda block, x, out: (max_forward(within(params, block), x, *out),))
        return y
    if by_axes:
        return max_by_axes(params, x, out)
    layout = laid_out(params, x)
    p, values = layout.plan, ordered(layout.stored(x))
    y = room(None if layout.last else out, layout.planes * p.plane_out, values.dtype)
    run(partial(max_rows, values, y, least(values.dtype), p.packed), layout.planes * p.pieces, x.nbytes)
    return layout.finished(y, layout.out_shape, x.dtype)


def max_by_axes(params: MaxParams, x: Array, out: Array | None) -> Array:
    """One axis after the other, for windows of many rows."""
    geometry = params.geometry
    assert isinstance(geometry, Sliding)
    (lead, spatial), values, shape = geometry.split(x.shape), ordered(x), out_shape(geometry, x.shape)
    p, y, low = plan(along(geometry, -1), spatial[-1:]), room(out, math.prod(shape), values.dtype), least(values.dtype)
    for block in axis_blocks(geometry, math.prod(lead), spatial):
        part = values[block.cells]
        rows = part.size // spatial[-1]
        across = empty((rows * p.out,), values.dtype)
        run(partial(max_rows, part, across, low, p.packed), rows * p.pieces, part.nbytes)
        max_axes(geometry, spatial, block, across, low, y[block.outputs])
    return finished(y, shape, x.dtype)


def within(params: MaxParams, block: Block) -> MaxParams:
    return replace(params, geometry=block.geometry)


def max_with_indices(params: MaxParams, x: Array, out: tuple[Array | None, Array | None] = (None, None)) -> tuple[Array, Array]:
    shape = out_shape(params.geometry, x.shape)
    if (cut := blocks(params.geometry, x, comparable(x.dtype))) is not None:
        y, found = (empty(shape, dtype) if a is None else a for a, dtype in zip(out, (x.dtype, np.int64), strict=True))

        def compute(block: Block, x: Array, out: tuple[Array | None, Array | None]) -> tuple[Array, Array]:
            values, places = max_with_indices(within(params, block), x, out)
            cut.relocate(places, block)
            return values, places

        cut.fill((y, found), (x,), compute)
        return y, found
    y, found = winners(params, x, out)
    return y.astype(x.dtype, copy=False).reshape(shape), found.reshape(shape)


def max_jvp(params: MaxParams, x: Array, dx: Array) -> Array:
    dtype = derivative_of(x.dtype, dx.dtype)
    if (cut := blocks(params.geometry, x, comparable(x.dtype)) or blocks(params.geometry, dx, summed(dx.dtype))) is not None:
        y = empty(out_shape(params.geometry, x.shape), dtype)
        cut.fill((y,), (x, dx), lambda block, x, dx, out: (max_jvp(within(params, block), x, dx),))
        return y
    if params.ties == "first":
        return taken(params, x, added(dx), winners(params, x)[1], dtype)
    p, planes = planned(params, x)
    values, tangents = paired(x, dx, dtype)
    y = empty((planes * p.plane_out,), tangents.dtype)
    given, bound = (values, tangents, y, params.ties == "split"), (least(values.dtype), places(values))
    if p.is_one_row:
        run(partial(tied_in_place, *given, p.packed), planes, x.nbytes)
    else:
        run(partial(tied_columns, *given, *bound, p.packed), planes * p.outer, x.nbytes)
    return finished(y, out_shape(params.geometry, x.shape), dtype)


def max_vjp(params: MaxParams, x: Array, g: Array) -> tuple[Array]:
    by_x, by_g = (x, comparable(x.dtype)), (g, summed(g.dtype), x.shape)
    if (cut := blocks(params.geometry, *by_x) or blocks(params.geometry, *by_g)) is not None:
        gx = empty(x.shape, derivative_of(x.dtype, g.dtype))
        cut.gather(gx, x, g, lambda block, x, g: max_vjp(within(params, block), x, g)[0])
        return (gx,)
    last = is_channels_last(x, params.geometry, x.shape)
    form: Form = form_back(params.geometry, x.shape, params.ties == "first") if last else "first"
    layout = laid_out(params, x, form)
    dtype, p = derivative_of(x.dtype, g.dtype), layout.plan
    values, gradients = paired(layout.stored(x), layout.stored(g), dtype)
    gx = empty((x.size,), gradients.dtype)
    cut_up = strips_of(params, x.shape, p, layout.channels, form, values.itemsize, winner_strips.input_strips)
    bound, split, rest = (least(values.dtype), places(values)), params.ties == "split", (cut_up.places, p.packed)

    def task(first: int, last: int) -> None:
        if params.ties != "first" and p.is_one_row:
            tied_in_place_back(values, gradients, gx, split, p.packed, first, last)
        elif params.ties != "first":
            tied_columns_back(values, gradients, gx, split, *bound, *rest, first, last)
        elif cut_up.by_rows is not None:
            winner_rows_back(values, gradients, gx, *bound, cut_up.by_rows, first, last)
        else:
            backwards = p.kernel > 0 and p.stride <= 2  # the order in which the kernel by rows adds
            winner_search_back(values, gradients, gx, backwards, *rest, first, last)

    run(task, layout.planes * len(cut_up.places), x.nbytes)
    return (layout.finished(gx, x.shape, dtype),)


def paired(x: Array, other: Array, dtype: Any) -> tuple[Array, Array]:
    """The cells, and their tangents or gradients as floats that are as wide, of which a derivative of `dtype` is computed."""
    values = compared(x, computed(dtype).itemsize)
    return values, added(other).astype(np.float32 if values.itemsize == 4 else np.float64, copy=False)
