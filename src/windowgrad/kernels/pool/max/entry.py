"""Maximum over NumPy numbers: from parameters and arrays to a kernel, its threads and its memory."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import lru_cache, partial
from typing import Any

import numpy as np

from windowgrad.dtypes import derivative_of
from windowgrad.geometry import Geometry, Global, Sliding
from windowgrad.kernels.arrays import Array, added, cast, computed, finished, flat, ordered, room, summed
from windowgrad.kernels.pool.axis_passes import axis_blocks
from windowgrad.kernels.pool.blocks import Block, Blocks, blocks, cut_up, is_cast
from windowgrad.kernels.pool.few_channels import has_few_channels, is_thinned
from windowgrad.kernels.pool.lane_groups import groups_of
from windowgrad.kernels.pool.layout import Form, Layout, is_channels_last, kept_layout, laid_out, out_shape, planned
from windowgrad.kernels.pool.long_rows import is_long, is_plain
from windowgrad.kernels.pool.max import long_rows, winner_near, winner_strips
from windowgrad.kernels.pool.max.few_channels import max_few_channels
from windowgrad.kernels.pool.max.find import comparable, compared, find, laid_out_for, least, sum_dtype
from windowgrad.kernels.pool.max.lanes import max_lanes, takes_lanes
from windowgrad.kernels.pool.max.last_planes import last_gradient, last_plane_winners, last_planes, last_winners_of_planes
from windowgrad.kernels.pool.max.many_rows import goes_by_axes, max_axes
from windowgrad.kernels.pool.max.near import max_near
from windowgrad.kernels.pool.max.pay import payment
from windowgrad.kernels.pool.max.row_taps import max_row_taps, takes_taps
from windowgrad.kernels.pool.max.row_windows import max_row_windows, row_windows_for
from windowgrad.kernels.pool.max.rows import max_rows
from windowgrad.kernels.pool.max.second import max_rows_for, max_second
from windowgrad.kernels.pool.max.short_rows import has_short_rows, max_short
from windowgrad.kernels.pool.max.whole_planes import plane_back, plane_tops, plane_winners
from windowgrad.kernels.pool.max.winner_apart import winner_apart
from windowgrad.kernels.pool.max.winner_codes import codes_of
from windowgrad.kernels.pool.max.winner_columns import tied_columns, tied_columns_back, tied_in_place, tied_in_place_back
from windowgrad.kernels.pool.max.winner_pairs import winner_pairs
from windowgrad.kernels.pool.max.winner_rows import winner_rows
from windowgrad.kernels.pool.max.winner_runs import carried, looks_at_taps, winner_runs
from windowgrad.kernels.pool.max.winner_triples import winner_triples
from windowgrad.kernels.pool.near_rows import is_near
from windowgrad.kernels.pool.one_by_one import take
from windowgrad.kernels.pool.plan import Plan
from windowgrad.kernels.pool.short_rows import fills_vectors
from windowgrad.kernels.runtime.buffers import empty
from windowgrad.kernels.runtime.threads import run
from windowgrad.params import MaxParams

Kind = tuple[tuple[int, ...], np.dtype[Any]]
"""The shape and the dtype of an array."""

TOPS_OF_HALVES = frozenset({max_few_channels, max_near, max_row_taps, max_rows, max_second, max_short})
WINNERS_OF_HALVES = frozenset({last_plane_winners, winner_rows, winner_runs})
GRADIENTS_OF_HALVES = frozenset({winner_apart, winner_near.winner_runs, winner_pairs, winner_triples})
"""Kernels that read and write floats of 16 bits as well."""


def winners(params: MaxParams, x: Array, out: tuple[Array | None, Array | None] = (None, None)) -> tuple[Array, Array]:
    """The value of each window's first winner and its place in its plane, flat; 0 and −1 where there is none."""
    layout, values = laid_out(params, x, "first"), compared(x)
    size = layout.planes * layout.plan.plane_out
    y = room(out[0] if values.dtype == x.dtype else None, size, values.dtype)
    found = room(out[1], size, np.dtype(np.int64))
    find(params, layout, "first", values, params.geometry.split(x.shape)[1], y, found)
    return y, found


def taken(params: MaxParams, x: Array, values: Array, found: Array, dtype: Any, out: Array | None = None) -> Array:
    """The values at the found cells."""
    p, planes = planned(params, x)
    y = room(out, found.size, values.dtype)
    run(lambda first, last: take(values, found, y, first, last, p.plane_out, p.plane_in), planes, y.nbytes)
    return finished(y, out_shape(params.geometry, x.shape), dtype)


def max_forward(params: MaxParams, x: Array, out: Array | None = None) -> Array:
    plain = is_plain(x, computed(x.dtype)) and (out is None or is_plain(out, x.dtype))
    if plain and is_long(params.geometry, x.shape):
        y = empty(out_shape(params.geometry, x.shape), x.dtype) if out is None else out
        long_rows.tops(params.geometry, x, y)
        return y
    by_axes = goes_by_axes(params.geometry, x.shape, is_channels_last(x, params.geometry, x.shape))
    if (cut := blocks(params.geometry, x, computed(x.dtype), by_axes=by_axes)) is not None:
        y = empty(out_shape(params.geometry, x.shape), x.dtype) if out is None else out
        cut.fill((y,), (x,), lambda block, x, out: (max_forward(within(params, block), x, *out),))
        return y
    if by_axes:
        return max_by_axes(params, x, out)
    layout = top_layout(params, x)
    p, values = layout.plan, ordered(layout.stored(x))
    y = room(None if layout.last else out, layout.planes * p.plane_out, values.dtype)
    kernel, given, count = topper(params.geometry, p, values.dtype, layout.planes, layout.last)
    run(partial(kernel, values, y, *given), count, x.nbytes)
    return layout.finished(y, layout.out_shape, x.dtype)


def top_layout(params: MaxParams, x: Array) -> Layout:
    """The layout in which the greatest values are found."""
    return laid_out(params, x, "together" if has_few_channels(params.geometry, x.shape) else "rows")


def topper(geometry: Geometry, p: Plan, dtype: Any, planes: int, last: bool = False) -> tuple[Any, tuple[Any, ...], int]:
    """The kernel for the greatest values, what it is told besides its arrays, and how much of it there is to share.

    `last` says that channels are in the rows of the plan.
    """
    if last:
        kernel, parts = (max_few_channels, p.outer) if is_thinned(p) else (max_rows_for(p, dtype), p.pieces)
        return kernel, (least(dtype), p.packed), planes * parts
    if isinstance(geometry, Global):
        return plane_tops, (p.plane_in,), planes
    short = has_short_rows(p, dtype)
    if takes_lanes(p, planes, dtype) and not (short and fills_vectors(p.width, dtype)):
        return max_lanes, (np.empty(0, dtype), p.packed, planes), groups_of(planes, dtype.itemsize)
    if size := row_windows_for(geometry, p, p.width, dtype):
        return max_row_windows, (p.packed, size), planes * -(-p.out // size)
    if short:
        return max_short, (least(dtype), p.packed), planes
    if takes_taps(p, dtype):
        return max_row_taps, (p.packed,), planes * p.pieces
    near = dtype in (np.float32, np.float64) and is_near(p)
    return max_near if near else max_rows_for(p, dtype), (least(dtype), p.packed), planes * p.pieces


def max_by_axes(params: MaxParams, x: Array, out: Array | None) -> Array:
    """One axis after the other, for windows of many rows."""
    geometry = params.geometry
    assert isinstance(geometry, Sliding)
    (lead, spatial), values, shape = geometry.split(x.shape), ordered(x), out_shape(geometry, x.shape)
    y = room(out, math.prod(shape), values.dtype)
    for block in axis_blocks(geometry, math.prod(lead), spatial):
        max_axes(geometry, spatial, block, values[block.cells], least(values.dtype), y[block.outputs])
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
    if (layout := last_layout(params.geometry, x)) is not None:
        return last_winners(params, layout, x)
    y, found = winners(params, x, out)
    return cast(y, x.dtype).reshape(shape), found.reshape(shape)


def last_layout(geometry: Geometry, x: Array) -> Layout | None:
    """The layout of x, if its channels stand last and winners are found there; else None."""
    if not is_channels_last(x, geometry, x.shape):
        return None
    layout = kept_layout(geometry, x.shape, "alone")
    return layout if layout is not None and looks_at_taps(layout.plan) else None


def last_winners(params: MaxParams, layout: Layout, x: Array) -> tuple[Array, Array]:
    """The winners and their places, channels last."""
    values, size = compared(layout.stored(x)), math.prod(layout.out_shape)
    y, found = empty((size,), values.dtype), empty((size,), np.int64)
    find(params, layout, "alone", values, params.geometry.split(x.shape)[1], y, found)
    y = cast(y, x.dtype)
    return layout.finished(y, layout.out_shape, y.dtype), layout.finished(found, layout.out_shape, found.dtype)


def max_jvp(params: MaxParams, x: Array, dx: Array) -> Array:
    dtype = derivative_of(x.dtype, dx.dtype)
    if (cut := cut_for_tangents(params, x, dx)) is not None:
        y = empty(out_shape(params.geometry, x.shape), dtype)
        cut.fill((y,), (x, dx), lambda block, x, dx, out: (max_jvp(within(params, block), x, dx),))
        return y
    if params.ties == "first":
        return taken(params, x, added(dx), winners(params, x)[1], dtype)
    p, planes = planned(params, x)
    values, tangents = paired(x, dx, dtype)
    y = empty((planes * p.plane_out,), tangents.dtype)
    kernel, given, parts = tied(params, p, values.dtype)
    run(partial(kernel, values, tangents, y, *given), planes * parts, x.nbytes)
    return finished(y, out_shape(params.geometry, x.shape), dtype)


def max_pushing(params: MaxParams, x: Array, dx: Array) -> tuple[Array, Array] | None:
    """Values and tangents of the first winners, which are looked for once."""
    if params.ties != "first" or cut_for_tangents(params, x, dx) is not None:
        return None
    y, found = max_with_indices(params, x)
    return y, taken(params, x, added(dx), found.reshape(-1), derivative_of(x.dtype, dx.dtype))


def cut_for_tangents(params: MaxParams, x: Array, dx: Array) -> Blocks | None:
    return blocks(params.geometry, x, comparable(x.dtype)) or blocks(params.geometry, dx, summed(dx.dtype))


def tied(params: MaxParams, p: Plan, dtype: Any) -> tuple[Any, tuple[Any, ...], int]:
    """The kernel for the tangents of all winners, what it is told besides its arrays, and its parts of a plane."""
    split = params.ties == "split"
    if p.is_one_row:
        return tied_in_place, (split, p.packed), 1
    return tied_columns, (split, least(dtype), carried(dtype), p.packed), p.outer


# --- saved winners -----------------------------------------------------------------------------------------------


def max_saves(params: MaxParams, *kinds: Kind) -> Kind | None:
    """The shape and the dtype of what `max_saving` saves of such an array; None if nothing."""
    return saved_kind(params.geometry, params.ties, *kinds[0])


@lru_cache(maxsize=1024)
def saved_kind(geometry: Geometry, ties: str, shape: tuple[int, ...], dtype: Any) -> Kind | None:
    if ties != "first" and not isinstance(geometry, Global):
        return None
    if is_long(geometry, shape):
        codes = long_rows.code_dtype(geometry)
        return None if codes is None else (out_shape(geometry, shape), codes)
    cut = cut_up(geometry, shape, 1, is_cast(math.prod(shape), dtype, comparable(dtype)), False, True)
    if cut is not None and not cut.has_whole_planes:
        return None
    lead, spatial = geometry.split(shape)
    if isinstance(geometry, Global):
        return lead, np.dtype(np.int64)
    codes = codes_of(geometry, spatial)
    return None if codes.are_places else (out_shape(geometry, shape), codes.dtype)


def max_saving(params: MaxParams, x: Array) -> tuple[Array, Array]:
    """The maximum, and the tap that won each output (`winner_codes`)."""
    if is_plain(x, comparable(x.dtype)) and is_long(params.geometry, x.shape):
        y = empty(out_shape(params.geometry, x.shape), x.dtype)
        return y, long_rows.codes(params.geometry, x, y)
    if (cut := blocks(params.geometry, x, comparable(x.dtype))) is not None:
        kind = saved_kind(params.geometry, params.ties, x.shape, x.dtype)
        assert kind is not None
        if is_long(params.geometry, x.shape):
            y, saved = empty(kind[0], x.dtype), empty(*kind)
            cut.fill((y, saved), (x,), lambda block, x, out: max_saving(within(params, block), x))
            return y, saved
        if not cut.has_whole_planes:  # only because of its layout
            return max_saving(params, np.ascontiguousarray(x))
        lead = x.ndim - params.geometry.rank
        y, saved = empty(out_shape(params.geometry, x.shape), x.dtype), empty(*kind)

        def compute(block: Block, x: Array, out: tuple[Array | None]) -> tuple[Array]:
            part, saved[block.cells[:lead]] = max_saving(within(params, block), x)
            return (part,)

        cut.fill((y,), (x,), compute)
        return y, saved
    if isinstance(params.geometry, Global):
        return of_planes(params, x)
    layout, _ = laid_out_for(params, x, x.shape, is_channels_last(x, params.geometry, x.shape))
    values = compared(layout.stored(x))
    y = empty((math.prod(layout.out_shape),), values.dtype)
    saved = found_codes(params, x, values, y)
    y = cast(y, x.dtype)
    return layout.finished(y, layout.out_shape, x.dtype), layout.finished(saved, layout.out_shape, saved.dtype)


def found_codes(params: MaxParams, x: Array, values: Array, y: Array) -> Array:
    """The codes of the winners of x, flat in the order of memory; its cells, and the values of the winners, are `values`, y."""
    spatial = params.geometry.split(x.shape)[1]
    layout, form = laid_out_for(params, x, x.shape, is_channels_last(x, params.geometry, x.shape))
    found = empty((math.prod(layout.out_shape),), codes_of(params.geometry, spatial).dtype)
    find(params, layout, form, values, spatial, y, found)
    return found


def max_vjp(params: MaxParams, x: Array, g: Array, saved: Array | None = None) -> tuple[Array]:
    if params.ties == "first" and (gx := long_rows.gradient(params.geometry, x, g, saved)) is not None:
        return (gx,)
    if (cut := cut_for_gradients(params, x, g)) is not None:
        leading = x.ndim - params.geometry.rank
        kept = saved if cut.has_whole_planes else None

        def compute(block: Block, x: Array, g: Array) -> Array:
            return max_vjp(within(params, block), x, g, None if kept is None else kept[block.cells[:leading]])[0]

        gx = empty(x.shape, derivative_of(x.dtype, g.dtype))
        cut.gather(gx, x, g, compute)
        return (gx,)
    if isinstance(params.geometry, Global):
        return (plane_vjp(params, x, g, saved),)
    if params.ties != "first":
        return (tied_vjp(params, x, g),)
    spatial = params.geometry.split(x.shape)[1]
    layout, _ = laid_out_for(params, x, x.shape, is_channels_last(x, params.geometry, x.shape))
    dtype = derivative_of(x.dtype, g.dtype)
    found = flat(layout.stored(saved)) if saved is not None else found_codes(params, x, *only(compared(layout.stored(x))))
    gradients = added(layout.stored(g)).astype(sum_dtype(x.dtype, dtype), copy=False)
    gx = empty((x.size,), gradients.dtype)
    kernel, given, parts = payment(params.geometry, spatial, layout.channels)
    run(partial(kernel, found, gradients, gx, *given), layout.planes * parts, gx.nbytes)
    return (layout.finished(gx, x.shape, dtype),)


def cut_for_gradients(params: MaxParams, x: Array, g: Array) -> Blocks | None:
    by_x, by_g = (x, comparable(x.dtype)), (g, summed(g.dtype), x.shape)
    return blocks(params.geometry, *by_x) or blocks(params.geometry, *by_g)


def uses_saved(params: MaxParams, x: Array, g: Array) -> bool:
    """Whether `max_vjp` takes winners that were saved of x; else it looks for them again, as planes are cut."""
    cut = cut_for_gradients(params, x, g)
    return cut is None or cut.has_whole_planes


def only(values: Array) -> tuple[Array, Array]:
    """The cells, and no memory for values."""
    return values, values[:0]


def of_planes(params: MaxParams, x: Array, wanted: bool = True) -> tuple[Array, Array]:
    """The maximum of each plane, if it is wanted, and the winner (`whole_planes`)."""
    lead, spatial = params.geometry.split(x.shape)
    planes, cells, shape = math.prod(lead), math.prod(spatial), out_shape(params.geometry, x.shape)
    if (layout := last_planes(params.geometry, x)) is not None:
        values = compared(layout.stored(x))
        y, found = empty((planes if wanted else 0,), values.dtype), empty((planes,), np.int64)
        last_winners_of_planes(layout, values, y, found, params.ties != "first")
        return cast(y, x.dtype).reshape(shape) if wanted else y, found.reshape(lead)
    values = ordered(x)
    y, found = empty((planes if wanted else 0,), values.dtype), empty((planes,), np.int64)
    run(partial(plane_winners, values, y, found, cells, params.ties != "first"), planes, x.nbytes)
    return finished(y, shape, x.dtype) if wanted else y, found.reshape(lead)


def plane_vjp(params: MaxParams, x: Array, g: Array, saved: Array | None) -> Array:
    """The gradient of the maximum of each plane."""
    found, dtype = flat(of_planes(params, x, False)[1] if saved is None else saved), derivative_of(x.dtype, g.dtype)
    several = params.ties != "first" and (found & 1).any()
    gradients = added(g).astype(sum_dtype(x.dtype, dtype), copy=False)
    if (layout := last_planes(params.geometry, x)) is not None:
        values = compared(layout.stored(x)) if several else np.empty(0, comparable(x.dtype))
        gx = empty((x.size,), gradients.dtype)
        last_gradient(layout, values, found, gradients, gx, params.ties == "split")
        return layout.finished(gx, x.shape, dtype)
    values = ordered(x) if several else np.empty(0, computed(x.dtype))
    gx, cells = empty((x.size,), gradients.dtype), math.prod(params.geometry.split(x.shape)[1])
    run(partial(plane_back, values, found, gradients, gx, params.ties == "split", cells), found.size, gx.nbytes)
    return finished(gx, x.shape, dtype)


def tied_vjp(params: MaxParams, x: Array, g: Array) -> Array:
    """The gradient to all winners, or shared among them."""
    form: Form = "together" if is_channels_last(x, params.geometry, x.shape) else "first"
    layout = laid_out(params, x, form)
    dtype, p = derivative_of(x.dtype, g.dtype), layout.plan
    values, gradients = paired(layout.stored(x), layout.stored(g), dtype)
    gx = empty((x.size,), gradients.dtype)
    kernel, given, parts = tied_back(params, p, params.geometry.split(x.shape)[1], values.dtype)
    run(partial(kernel, values, gradients, gx, *given), layout.planes * parts, x.nbytes)
    return layout.finished(gx, x.shape, dtype)


def tied_back(params: MaxParams, p: Plan, spatial: tuple[int, ...], dtype: Any) -> tuple[Any, tuple[Any, ...], int]:
    """The kernel for the gradients of all winners, what it is told besides its arrays, and its parts of a plane."""
    strips = winner_strips.input_strips(p, spatial, winner_strips.UNCUT, winner_strips.SPANS)
    split = params.ties == "split"
    if p.is_one_row:
        return tied_in_place_back, (split, p.packed), len(strips)
    return tied_columns_back, (split, least(dtype), carried(dtype), strips, p.packed), len(strips)


def paired(x: Array, other: Array, dtype: Any) -> tuple[Array, Array]:
    """The cells, and their tangents or gradients as floats that are as wide, of which a derivative of `dtype` is computed."""
    values = compared(x, computed(dtype).itemsize)
    return values, added(other).astype(np.float32 if values.itemsize == 4 else np.float64, copy=False)
