"""Smooth maximum over NumPy numbers: weights of all cells, sums of them over the windows, and what becomes of the sums.

`planes` does planes, or strips of large ones, as a whole; the sums of a jvp are those of a mean. Planes that one reference does
not do for (the cells lie too far apart, or are not finite) are done as pairs. Which it is depends on the cells of a strip, and
on nothing else. The forward rule may save its sums, which spare the gradient the half of its work.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from windowgrad.caches import SMALL
from windowgrad.dtypes import derivative_of, float_of, machine_float
from windowgrad.geometry import Geometry
from windowgrad.kernels.arrays import Array, added, computed, finished, flat, room, summed
from windowgrad.kernels.pool.blocks import COPIED, OUTPUTS, Block, blocks, cut_up
from windowgrad.kernels.pool.layout import out_shape, planned_for
from windowgrad.kernels.pool.mean.rows import mean_rows_for
from windowgrad.kernels.pool.plan import Plan
from windowgrad.kernels.pool.smooth import cells, chunks, long_rows, pairs, results
from windowgrad.kernels.pool.smooth.side_by_side import is_side_by_side, pair_gradients, pair_values
from windowgrad.kernels.pool.smooth.strips import SUMS, Scratch, StripPlan, groups, is_cut, over_cells, over_outputs, whole
from windowgrad.kernels.runtime.buffers import empty
from windowgrad.params import SmoothParams

Kind = tuple[tuple[int, ...], np.dtype[Any]]

NOTHING = {np.dtype(dtype): np.empty(0, dtype) for dtype in (np.float32, np.float64)}
WORK = 4  # a cell takes as long as so many that are only moved, and threads are worth it for so much less


class Masks(NamedTuple):
    """Cells of planes that are left: their `bytes` are not 0. Some planes may have the same mask: `which` one each has."""

    bytes: Array
    which: Array

    def within(self, strip: StripPlan, plane: StripPlan, first: int, last: int) -> Masks:
        """Those of a strip in the planes first to last."""
        if strip is plane:
            return Masks(self.bytes, self.which[first:last])
        at = self.which[first] * plane.plan.plane_in
        return Masks(self.bytes[at + strip.low : at + strip.high], self.which[:1] * 0)


# --- what a call needs -------------------------------------------------------------------------------------------------


def plane_of(params: SmoothParams, shape: tuple[int, ...]) -> tuple[StripPlan, int]:
    """A plane of the input, in which padding that does not count is no padding; and how many planes there are."""
    given = params.geometry, shape, params.count_include_pad
    return kept_plane(*given) or plane_of_block(*given) or new_plane(*given)


def new_plane(geometry: Geometry, shape: tuple[int, ...], counted: bool) -> tuple[StripPlan, int]:
    p, planes = planned_for(geometry, shape)
    return whole(p if counted else replace(p, row_inside=p.row_cells * 1.0, col_inside=p.count * 1.0)), planes


@lru_cache(maxsize=256)
def kept_plane(geometry: Geometry, shape: tuple[int, ...], counted: bool) -> tuple[StripPlan, int] | None:
    """None if there is too much to keep."""
    found = new_plane(geometry, shape, counted)
    return found if found[0].plan.size + found[0].plan.plane_out < SMALL else None


@lru_cache(maxsize=4)
def plane_of_block(geometry: Geometry, shape: tuple[int, ...], counted: bool) -> tuple[StripPlan, int] | None:
    """That of a block of a long row, which most blocks share. Made anew for each, it took half of the time of 64 taps."""
    if geometry.rank > 1 or not SMALL < math.prod(geometry.out_shape(shape)) <= 2 * OUTPUTS:
        return None
    return new_plane(geometry, shape, counted)


def values_dtype(x: Any, result: Any) -> Any:
    """In which dtype the cells of an array are read for a result."""
    return np.dtype(np.float64) if computed(result) == np.float64 else summed(x)


def values_of(x: Array, result: Any) -> Array:
    """The cells in a row, as floats."""
    return added(x).astype(values_dtype(x.dtype, result), copy=False)


def beta_of(params: SmoothParams) -> float:
    return machine_float("beta", params.beta)


def within(params: SmoothParams, block: Block) -> SmoothParams:
    return replace(params, geometry=block.geometry)


# --- planes, and those of them that have no middle ------------------------------------------------------------------------


def find(strip: StripPlan, x: Array, y: Array, sums: Array, beta: float, planes: int, masks: Masks | None = None) -> None:
    """y = the smooth maxima of some planes, `sums` those of the weights; either may be empty."""
    (kernel, plan), (lone, alone) = strip.forward, strip.lone
    scale, told = cells.scale_of(beta), masks or (None, None)
    in_pairs = strip.in_pairs and len(y) and not len(sums) and x.dtype == y.dtype == np.float32
    if in_pairs and pair_values(x, y, scale, plan, *told, 0, planes) == 0:
        return
    given = x, y, sums, strip.counted, scale, plan, *told
    if kernel(*given, 0, planes) == 0 or not len(y):
        return
    for q, (line, found) in enumerate(zip(x.reshape(planes, -1), y.reshape(planes, -1), strict=True)):
        if not kernel(*given, q, q + 1):
            continue
        left = None if masks is None else masks.bytes.reshape(-1, len(line))[masks.which[q]] != 0
        line = line if left is None else np.where(left, line, line.dtype.type(-math.copysign(math.inf, beta)))
        with np.errstate(all="ignore"):
            found[:] = pairs.values(strip.plan, line, beta, strip.pad)
        found[lone] = line[alone] + 0.0
        if left is not None:
            counts = np.empty(len(found))
            box_sums(strip.plan, 1, left.astype(np.float64), counts)
            found[(counts == 0) & (strip.pad == 0)] = 0


def pay_at_once(strip: StripPlan, x: Array, g: Array, gx: Array, beta: float, planes: int) -> bool:
    """gx = the gradient of some planes, without sums; says whether it is."""
    if not (strip.in_pairs and x.dtype == g.dtype == gx.dtype == np.float32):
        return False
    return bool(pair_gradients(x, g, gx, cells.scale_of(beta), strip.forward[1], 0, planes) == 0)


def pay(strip: StripPlan, x: Array, g: Array, gx: Array, sums: Array, beta: float, planes: int) -> None:
    """gx = the gradient of some planes, from the sums of their weights."""
    if (way := strip.backward) is not None:
        given = x, g, gx, sums, strip.counted, cells.scale_of(beta), way[1]
        if way[0](*given, 0, planes) == 0:
            return
    lines = (array.reshape(planes, -1) for array in (x, g, gx))
    for q, (line, pulled, found) in enumerate(zip(*lines, strict=True)):
        if way is None or way[0](*given, q, q + 1):
            with np.errstate(all="ignore"):
                found[:] = pairs.gradients(strip.plan, line, pulled, beta, strip.pad)


# --- rules -------------------------------------------------------------------------------------------------------------------


def smooth_forward(params: SmoothParams, x: Array, out: Array | None = None) -> Array:
    dtype = float_of(x.dtype)
    if chunks.is_one_large_region(params, x):
        return chunks.forward(params, x, dtype, smooth_forward)
    if long_rows.is_tiled(params.geometry, x.shape):
        return long_rows.forward(smooth_forward, params, x)
    if (cut := blocks(params.geometry, x, summed(x.dtype), in_place=False, fixed=True)) is not None:
        y = empty(out_shape(params.geometry, x.shape), dtype) if out is None else out
        cut.fill((y,), (x,), lambda block, x, out: (smooth_forward(within(params, block), x, *out),))
        return y
    return found(params, x, SUMS, out)


def found(params: SmoothParams, x: Array, saved: Array, out: Array | None = None, masks: Masks | None = None) -> Array:
    """The smooth maximum. `saved` becomes the sums, flat, unless it is empty."""
    dtype, (plane, planes) = float_of(x.dtype), plane_of(params, x.shape)
    values, p, beta = values_of(x, dtype), plane.plan, beta_of(params)
    y = room(out, planes * p.plane_out, computed(dtype))

    def work(strip: StripPlan, first: int, last: int, scratch: Scratch) -> None:
        seen, outputs = strip.places(p, first, last)
        some = None if masks is None else masks.within(strip, plane, first, last)
        find(strip, values[seen], y[outputs], saved[outputs], beta, last - first, some)

    over_outputs(plane, planes, WORK * x.nbytes, work)
    return finished(y, out_shape(params.geometry, x.shape), dtype)


def smooth_saves(params: SmoothParams, *kinds: Kind) -> Kind | None:
    """The shape and the dtype of what `smooth_saving` saves of such an array; None if nothing."""
    return saved_kind(params.geometry, *kinds[0])


@lru_cache(maxsize=1024)
def saved_kind(geometry: Geometry, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Kind | None:
    if long_rows.is_tiled(geometry, shape):
        shape_of_plane = (*shape[:-1], long_rows.Cut(geometry, shape[-1]).cells)
        return None if pays_at_once(geometry, shape_of_plane, dtype) else (geometry.out_shape(shape), np.dtype(np.float64))
    if not is_one_piece(geometry, shape, dtype) or pays_at_once(geometry, shape, dtype):
        return None
    return geometry.out_shape(shape), np.dtype(np.float64)


@lru_cache(maxsize=1024)
def is_one_piece(geometry: Geometry, shape: tuple[int, ...], dtype: np.dtype[Any]) -> bool:
    """Whether an array is not cut, and none of its planes is."""
    copies = math.prod(shape) > COPIED and dtype != summed(dtype)
    cut = cut_up(geometry, shape, 1, copies, False, False, True)
    return cut is None and not is_cut(planned_for(geometry, shape)[0])


def pays_at_once(geometry: Geometry, shape: tuple[int, ...], dtype: np.dtype[Any]) -> bool:
    """Whether a gradient needs no saved sums."""
    return values_dtype(dtype, float_of(dtype)) == np.float32 and is_side_by_side(planned_for(geometry, shape)[0])


def smooth_saving(params: SmoothParams, x: Array) -> tuple[Array, Array]:
    """The smooth maximum, and the sums of the weights of its windows."""
    if long_rows.is_tiled(params.geometry, x.shape):
        return long_rows.saving(smooth_saving, params, x)
    saved = empty(out_shape(params.geometry, x.shape), np.dtype(np.float64))
    return found(params, x, saved.reshape(-1)), saved


def smooth_jvp(params: SmoothParams, x: Array, dx: Array) -> Array:
    dtype = derivative_of(float_of(x.dtype), dx.dtype)
    if chunks.is_one_large_region(params, x):
        return chunks.jvp(params, x, dx, dtype, smooth_forward, smooth_jvp)
    if long_rows.is_tiled(params.geometry, x.shape):
        return long_rows.forward(smooth_jvp, params, x, dx)
    by_x, by_dx = (x, summed(x.dtype)), (dx, summed(dx.dtype))
    if (
        cut := blocks(params.geometry, *by_x, in_place=False, fixed=True)
        or blocks(params.geometry, *by_dx, in_place=False, fixed=True)
    ) is not None:
        y = empty(out_shape(params.geometry, x.shape), dtype)
        cut.fill((y,), (x, dx), lambda block, x, dx, out: (smooth_jvp(within(params, block), x, dx),))
        return y
    (plane, planes), beta = plane_of(params, x.shape), beta_of(params)
    values, tangents, p = values_of(x, dtype), added(dx), plane.plan
    y = empty((planes * p.plane_out,), computed(dtype))

    def work(strip: StripPlan, first: int, last: int, scratch: Scratch) -> None:
        for low, high in groups(p.plane_in, first, last):
            seen, outputs = strip.places(p, low, high)
            push(strip, values[seen], tangents[seen], y[outputs], beta, high - low, scratch)

    over_outputs(plane, planes, WORK * x.nbytes, work)
    return finished(y, out_shape(params.geometry, x.shape), dtype)


def box_sums(p: Plan, planes: int, x: Array, y: Array) -> None:
    """y = the sum of each window of all planes, in float64, every term added and none taken away."""
    mean_rows_for(p)(x, y, *p.ones, SUMS, p.packed, 0, planes * p.pieces)


def push(strip: StripPlan, x: Array, dx: Array, y: Array, beta: float, planes: int, scratch: Scratch) -> None:
    """y = the tangents of some planes."""
    p, middles = strip.plan, np.empty(planes)
    weights, sums, pushed = scratch.arrays(len(x), len(y), len(y))
    cells.weigh(x, weights, middles, cells.scale_of(beta), strip.padded)
    box_sums(p, planes, weights, sums)
    results.weigh_tangents(weights, dx, middles)
    box_sums(p, planes, weights, pushed)
    results.quotients(pushed, sums, strip.pad, middles, beta, strip.padded, y)
    for q in np.flatnonzero(np.isnan(middles)):
        found, line, pushed = (array.reshape(planes, -1)[q] for array in (y, x, dx))
        with np.errstate(all="ignore"):
            found[:] = pairs.tangents(p, line, pushed, beta, strip.pad)


def smooth_vjp(params: SmoothParams, x: Array, g: Array, saved: Array | None = None) -> tuple[Array]:
    dtype = derivative_of(x.dtype, g.dtype)
    if chunks.is_one_large_region(params, x):
        return (chunks.vjp(params, x, g, dtype, smooth_forward, smooth_vjp),)
    if long_rows.is_tiled(params.geometry, x.shape):
        return (long_rows.vjp(smooth_vjp, params, x, g, saved),)
    by_x, by_g = (x, summed(x.dtype)), (g, summed(g.dtype), x.shape)
    if (
        cut := blocks(params.geometry, *by_x, in_place=False, fixed=True)
        or blocks(params.geometry, *by_g, in_place=False, fixed=True)
    ) is not None:
        gx = empty(x.shape, dtype)
        cut.gather(gx, x, g, lambda block, x, g: smooth_vjp(within(params, block), x, g)[0])
        return (gx,)
    (plane, planes), beta = plane_of(params, x.shape), beta_of(params)
    values, gradients, p = values_of(x, dtype), added(g), plane.plan
    gx = empty((x.size,), computed(dtype))
    if saved is not None and (is_cut(p) or values.dtype != values_dtype(x.dtype, float_of(x.dtype))):
        saved = None  # of other weights than those here
    kept = None if saved is None else flat(saved)

    def work(strip: StripPlan, first: int, last: int, scratch: Scratch) -> None:
        for low, high in groups(p.plane_in, first, last) if kept is None and not strip.in_pairs else [(first, last)]:
            seen, outputs = strip.places(p, low, high)
            part = gx[seen] if strip is plane else np.empty(strip.high - strip.low, gx.dtype)
            if not pay_at_once(strip, values[seen], gradients[outputs], part, beta, high - low):
                if kept is None:
                    (sums,) = scratch.arrays(outputs.stop - outputs.start)
                    find(strip, values[seen], NOTHING[part.dtype], sums, beta, high - low)
                else:
                    sums = kept[outputs]
                pay(strip, values[seen], gradients[outputs], part, sums, beta, high - low)
            if strip is not plane:
                at = first * p.plane_in
                gx[at + strip.kept_low : at + strip.kept_high] = part[strip.kept_low - strip.low : strip.kept_high - strip.low]

    over_cells(plane, planes, WORK * x.nbytes, work)
    return (finished(gx, x.shape, dtype),)
