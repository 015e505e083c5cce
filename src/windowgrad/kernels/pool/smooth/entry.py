"""Smooth maximum over NumPy numbers: weights of all cells, sums of them over the windows, and what becomes of the sums.

The sums are those of a mean. Planes that one reference does not do for (the cells lie too far apart, or are not finite) are
done as pairs. Which it is depends on the cells of a strip, and on nothing else.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from windowgrad.dtypes import derivative_of, float_of, machine_float
from windowgrad.kernels.arrays import Array, added, computed, finished, room, summed
from windowgrad.kernels.pool.blocks import Block, blocks
from windowgrad.kernels.pool.layout import out_shape, planned
from windowgrad.kernels.pool.mean.rows import mean_rows, mean_rows_back
from windowgrad.kernels.pool.plan import Plan
from windowgrad.kernels.pool.smooth import cells, chunks, pairs
from windowgrad.kernels.pool.smooth.strips import Scratch, StripPlan, over_cells, over_outputs
from windowgrad.kernels.runtime.buffers import empty
from windowgrad.params import SmoothParams

SUMS = np.empty(0, np.float64)
WORK = 4  # a cell takes as long as so many that are only moved, and threads are worth it for so much less


def box_sums(p: Plan, planes: int, x: Array, y: Array) -> None:
    """y = the sum of each window of all planes, in float64, every term added and none taken away."""
    mean_rows(x, y, *p.ones, SUMS, p.packed, 0, planes * p.pieces)


def box_spread(p: Plan, planes: int, g: Array, gx: Array) -> None:
    """gx = for each cell the sum over the windows that see it, in float64, every term added and none taken away."""
    rows = planes * (p.plane_in // p.width)
    mean_rows_back(g, gx, *p.ones, SUMS, p.packed_back, 0, rows)


class Weights:
    """The strip of the planes first to last: the weights of their cells, and the sum of the weights of each window.

    `spare` is memory for as many cells or windows as asked for.
    """

    def __init__(
        self, x: Array, beta: float, whole: Plan, strip: StripPlan, first: int, last: int, scratch: Scratch, spare: int = 0
    ) -> None:
        self.plan, self.planes, self.pad = strip.plan, last - first, strip.pad
        self.cells = slice(first * whole.plane_in + strip.low, (last - 1) * whole.plane_in + strip.high)
        self.outputs = slice(first * whole.plane_out + strip.out_low, (last - 1) * whole.plane_out + strip.out_high)
        self.x, self.middles, self.by = x[self.cells], np.empty(self.planes), (beta, strip.padded)
        sizes = len(self.x), self.planes * strip.plan.plane_out, self.planes * spare
        self.weights, self.sums, self.spare = scratch.arrays(*sizes)
        cells.weigh(self.x, self.weights, self.middles, *self.by)
        box_sums(self.plan, self.planes, self.weights, self.sums)

    def mend(self, result: Array, by_pairs: Callable[..., Array], *given: Array) -> None:
        """The planes that have no middle."""
        lines = [array.reshape(self.planes, -1) for array in (result, self.x, *given)]
        for q in np.flatnonzero(np.isnan(self.middles)):
            y, *rest = (line[q] for line in lines)
            with np.errstate(over="ignore"):
                y[:] = by_pairs(self.plan, *rest, self.by[0], self.pad)


def prepared(params: SmoothParams, x: Array, dtype: Any) -> tuple[Plan, int, float, Array]:
    """The plan of a plane, in which padding that does not count is no padding; how many planes; β; and the cells as floats."""
    p, planes = planned(params, x)
    if not params.count_include_pad:
        p = replace(p, row_inside=p.row_cells * 1.0, col_inside=p.count * 1.0)
    values = added(x).astype(np.float64, copy=False) if computed(dtype) == np.float64 else added(x)
    return p, planes, machine_float("beta", params.beta), values


def within(params: SmoothParams, block: Block) -> SmoothParams:
    return replace(params, geometry=block.geometry)


def smooth_forward(params: SmoothParams, x: Array, out: Array | None = None) -> Array:
    dtype = float_of(x.dtype)
    if chunks.is_one_large_region(params, x):
        return chunks.forward(params, x, dtype, smooth_forward)
    if (cut := blocks(params.geometry, x, summed(x.dtype), in_place=False, fixed=True)) is not None:
        y = empty(out_shape(params.geometry, x.shape), dtype) if out is None else out
        cut.fill((y,), (x,), lambda block, x, out: (smooth_forward(within(params, block), x, *out),))
        return y
    p, planes, beta, values = prepared(params, x, dtype)
    y = room(out, planes * p.plane_out, computed(dtype))

    def work(strip: StripPlan, first: int, last: int, scratch: Scratch) -> None:
        w = Weights(values, beta, p, strip, first, last, scratch)
        found = y[w.outputs]
        cells.values(w.sums, w.pad, w.middles, *w.by, found)
        w.mend(found, pairs.values)
        outputs, alone = strip.lone
        if len(outputs):  # a window of one cell is that cell exactly; −0.0 becomes 0.0, as where a logarithm is added to it
            found.reshape(w.planes, -1)[:, outputs] = w.x.reshape(w.planes, -1)[:, alone] + 0.0

    over_outputs(p, planes, WORK * x.nbytes, work)
    return finished(y, out_shape(params.geometry, x.shape), dtype)


def smooth_jvp(params: SmoothParams, x: Array, dx: Array) -> Array:
    dtype = derivative_of(float_of(x.dtype), dx.dtype)
    if chunks.is_one_large_region(params, x):
        return chunks.jvp(params, x, dx, dtype, smooth_forward, smooth_jvp)
    by_x, by_dx = (x, summed(x.dtype)), (dx, summed(dx.dtype))
    if (
        cut := blocks(params.geometry, *by_x, in_place=False, fixed=True)
        or blocks(params.geometry, *by_dx, in_place=False, fixed=True)
    ) is not None:
        y = empty(out_shape(params.geometry, x.shape), dtype)
        cut.fill((y,), (x, dx), lambda block, x, dx, out: (smooth_jvp(within(params, block), x, dx),))
        return y
    p, planes, beta, values = prepared(params, x, dtype)
    tangents, y = added(dx), empty((planes * p.plane_out,), computed(dtype))

    def work(strip: StripPlan, first: int, last: int, scratch: Scratch) -> None:
        w = Weights(values, beta, p, strip, first, last, scratch, strip.plan.plane_out)
        found, pushed = y[w.outputs], tangents[w.cells]
        cells.weigh_tangents(w.weights, pushed, w.middles)
        box_sums(w.plan, w.planes, w.weights, w.spare)
        cells.quotients(w.spare, w.sums, w.pad, w.middles, *w.by, found)
        w.mend(found, pairs.tangents, pushed)

    over_outputs(p, planes, WORK * x.nbytes, work)
    return finished(y, out_shape(params.geometry, x.shape), dtype)


def smooth_vjp(params: SmoothParams, x: Array, g: Array) -> tuple[Array]:
    dtype = derivative_of(x.dtype, g.dtype)
    if chunks.is_one_large_region(params, x):
        return (chunks.vjp(params, x, g, dtype, smooth_forward, smooth_vjp),)
    by_x, by_g = (x, summed(x.dtype)), (g, summed(g.dtype), x.shape)
    if (
        cut := blocks(params.geometry, *by_x, in_place=False, fixed=True)
        or blocks(params.geometry, *by_g, in_place=False, fixed=True)
    ) is not None:
        gx = empty(x.shape, dtype)
        cut.gather(gx, x, g, lambda block, x, g: smooth_vjp(within(params, block), x, g)[0])
        return (gx,)
    p, planes, beta, values = prepared(params, x, dtype)
    gradients, gx = added(g), empty((x.size,), computed(dtype))

    def work(strip: StripPlan, first: int, last: int, scratch: Scratch) -> None:
        w = Weights(values, beta, p, strip, first, last, scratch, strip.plan.plane_in)
        found, pulled = gx[w.cells] if strip.plan is p else np.empty(len(w.x), gx.dtype), gradients[w.outputs]
        cells.divide_gradients(pulled, w.sums, w.pad, w.middles, *w.by)
        box_spread(w.plan, w.planes, w.sums, w.spare)
        cells.products(w.weights, w.spare, found)
        w.mend(found, pairs.gradients, pulled)
        if strip.plan is not p:
            at = first * p.plane_in
            gx[at + strip.kept_low : at + strip.kept_high] = found[strip.kept_low - strip.low : strip.kept_high - strip.low]

    over_cells(p, planes, WORK * x.nbytes, work)
    return (finished(gx, x.shape, dtype),)
