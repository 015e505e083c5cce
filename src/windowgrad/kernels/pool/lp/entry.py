"""The p-norm over NumPy numbers: powers of all cells, sums of them over the windows, and their roots.

Norms of p = 1, 2, 3 and 4, whose powers are products, are computed by `products`: one kernel, with nothing kept between; and
their gradients by `gradients`, one kernel too. All others, the tangents of all, and the gradients of planes that are strange go
step by step. One power for each cell, not one for each window that sees it; a few planes
at a time, or strips of large ones, so that what is computed on the way stays in a cache. The derivatives are those of a sum,
with weights that a cell and its windows share:

    J·v = (Σ c·v)·f        c = sign(x)·|x|^(p−1) of each cell        f = S^((1−p)/p) of each window

All sums are float64. A float32 norm is within 2⁻²⁴·(1 + 2⁻⁷) of itself (`cells`). A float64 norm over n cells is within
(n + 100)·2⁻⁵³ of itself: those of `powers` are within 10 units, NumPy's `power` is within 4, the rounding of 1/p costs
|log S|/p ≤ 35 of them (p = 1 and 2 have neither). A plane has one scale, its greatest magnitude, and windows down to 10⁻¹⁵ of
that are as exact as all others (fewer where powers of them would underflow: `Power.limit`). Planes with smaller ones, and those
with cells that are not finite, are done by `windows`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from windowgrad.dtypes import derivative_of, float_of
from windowgrad.kernels.arrays import Array, added, computed, finished, flat, room, summed
from windowgrad.kernels.pool.blocks import Block, blocks
from windowgrad.kernels.pool.layout import out_shape, planned_for
from windowgrad.kernels.pool.lp import cells, steps
from windowgrad.kernels.pool.lp.gaps import without_gaps
from windowgrad.kernels.pool.lp.gradients import WIDE, gradients, gradients_last
from windowgrad.kernels.pool.lp.powers import POWERS
from windowgrad.kernels.pool.lp.products import AS_IT_IS, NONE, WORK, is_product, norms, over_runs, run_layout
from windowgrad.kernels.pool.lp.steps import SUMS
from windowgrad.kernels.pool.lp.windows import window_gradients, window_norms, window_tangents
from windowgrad.kernels.pool.mean.rows import mean_rows_back_for, mean_rows_for
from windowgrad.kernels.pool.smooth import chunks
from windowgrad.kernels.pool.smooth.strips import CELLS, Scratch, StripPlan, groups, over_cells, over_outputs, whole
from windowgrad.kernels.runtime.buffers import empty
from windowgrad.kernels.runtime.threads import over
from windowgrad.params import LpParams

WIDEST = 6  # powers up to here of float32 numbers are normal numbers of float64, and so are their inverses


class Power:
    """What is done with p, for cells of one dtype: p is 1 or 2, or the cells are float32 and p is small."""

    def __init__(self, params: LpParams, narrow: bool, derives: bool) -> None:
        self.p, self.narrow = params.norm_type, narrow
        self.limit = 0.0 if narrow else 10.0 ** -min(15 * self.p, 100 if derives else 250)
        """A plane with a window whose sum is smaller is strange: what counts may be lost, or weights be too large."""

    def norms(self, strip: StripPlan, x: Array, y: Array, planes: int, scratch: Scratch) -> Array:
        """y = the norms of some planes. Returns whether they are strange."""
        told, strange, few = self.told(x, planes), np.empty(planes, np.bool_), self.at_once(x, planes)
        e, sums = scratch.arrays(few * (len(x) // planes), few * (len(y) // planes))
        steps.norms(x, y, e, sums, told, strange, self.limit, float(self.p), steps.forward_sums(strip.plan))
        return strange

    def tangents(self, strip: StripPlan, x: Array, v: Array, y: Array, planes: int, scratch: Scratch) -> Array:
        told, strange, few = self.told(x, planes), np.empty(planes, np.bool_), self.at_once(x, planes)
        cells_, outputs = few * (len(x) // planes), few * (len(y) // planes)
        arrays = scratch.arrays(cells_, cells_ if self.p not in (1, 2) else 0, outputs, outputs)
        rules, windows = steps.rules_for(self.p), steps.forward_sums(strip.plan)
        rules.tangents(x, v, y, *arrays, told, strange, self.limit, float(self.p), windows)
        return strange

    def gradients(self, strip: StripPlan, x: Array, g: Array, gx: Array, planes: int, scratch: Scratch) -> Array:
        told, strange, few = self.told(x, planes), np.empty(planes, np.bool_), self.at_once(x, planes)
        cells_, p = few * (len(x) // planes), strip.plan
        arrays = scratch.arrays(cells_, cells_ if self.p not in (1, 2) else 0, few * (len(g) // planes))
        rules, windows, back = steps.rules_for(self.p), steps.forward_sums(p), steps.backward_sums(p)
        rules.gradients(x, g, gx, *arrays, told, strange, self.limit, float(self.p), windows, back)
        return strange

    def told(self, x: Array, planes: int) -> Array:
        return cells.scales_of(x, planes, self.narrow)

    def at_once(self, x: Array, planes: int) -> int:
        """How many planes are done at a time."""
        return min(planes, max(1, CELLS * planes // max(len(x), 1)))


class Wide(Power):
    """Any p, by NumPy's `power`, step by step."""

    def sums(self, strip: StripPlan, x: Array, scales: Array, e: Array, factors: Array, sums: Array) -> Array:
        """sums = those of the powers of all windows, factors = the powers of p − 1 of the cells, if there are any."""
        strange, p = np.empty(len(scales), np.bool_), strip.plan
        cells.sizes(x, e, scales)
        if len(factors):
            np.multiply(e, np.power(e, self.p - 1, out=factors), out=e)
        else:
            np.power(e, self.p, out=e)
        mean_rows_for(p)(e, sums, *p.ones, SUMS, p.packed, 0, len(scales) * p.pieces)
        cells.judge(x, e, sums, strange, self.limit)
        return strange

    def norms(self, strip: StripPlan, x: Array, y: Array, planes: int, scratch: Scratch) -> Array:
        scales = self.told(x, planes)
        e, sums = scratch.arrays(len(x), len(y))
        strange = self.sums(strip, x, scales, e, SUMS, sums)
        cells.divided(np.power(sums, 1 / self.p, out=sums), y, scales)
        return strange

    def fractions(self, sums: Array) -> None:
        """S^((1−p)/p) in place of the sums, 0 where the sum is 0."""
        nothing = sums == 0
        np.power(sums, (1 - self.p) / self.p, out=sums)
        sums[nothing] = 0

    def tangents(self, strip: StripPlan, x: Array, v: Array, y: Array, planes: int, scratch: Scratch) -> Array:
        scales, p = self.told(x, planes), strip.plan
        e, factors, fractions, sums = scratch.arrays(len(x), len(x), len(y), len(y))
        strange = self.sums(strip, x, scales, e, factors, fractions)
        self.fractions(fractions)
        cells.by_factors(x, factors, v, e)
        mean_rows_for(p)(e, sums, *p.ones, SUMS, p.packed, 0, planes * p.pieces)
        cells.products(sums, fractions, y)
        return strange

    def gradients(self, strip: StripPlan, x: Array, g: Array, gx: Array, planes: int, scratch: Scratch) -> Array:
        scales, p = self.told(x, planes), strip.plan
        e, factors, fractions = scratch.arrays(len(x), len(x), len(g))
        strange = self.sums(strip, x, scales, e, factors, fractions)
        self.fractions(fractions)
        cells.products(fractions, g, fractions)
        mean_rows_back_for(p)(fractions, e, *p.ones, SUMS, p.packed_back, 0, planes * (p.plane_in // p.width))
        cells.by_factors(x, factors, e, gx)
        return strange


def power_of(params: LpParams, dtype: np.dtype[Any], derives: bool) -> Power:
    """What computes with cells of a dtype."""
    narrow = params.norm_type == 1 or (dtype == np.float32 and params.norm_type <= WIDEST)
    return (Power if narrow or params.norm_type == 2 else Wide)(params, narrow, derives)


def parts_of(power: Power, plane: int, first: int, last: int) -> Iterator[tuple[int, int]]:
    """The planes first to last: all at once, or a few at a time where all of what is between must be kept."""
    return groups(plane, first, last) if isinstance(power, Wide) else iter([(first, last)])


def plane_of(params: LpParams, shape: tuple[int, ...]) -> tuple[StripPlan, int]:
    p, planes = planned_for(params.geometry, shape)
    return whole(p), planes


def values_of(x: Array, result: Any) -> Array:
    """The cells in a row, as floats."""
    return added(x).astype(np.float64 if computed(result) == np.float64 else summed(x.dtype), copy=False)


def within(params: LpParams, block: Block) -> LpParams:
    return replace(params, geometry=block.geometry)


def lp_forward(params: LpParams, x: Array, out: Array | None = None) -> Array:
    dtype = float_of(x.dtype)
    if chunks.is_one_large_region(params, x):
        return chunks.forward(params, x, dtype, lp_forward)
    if (cut := blocks(params.geometry, x, summed(x.dtype), in_place=False, fixed=True)) is not None:
        y = empty(out_shape(params.geometry, x.shape), dtype) if out is None else out
        cut.fill((y,), (x,), lambda block, x, out: (lp_forward(within(params, block), x, *out),))
        return y
    if params.norm_type in POWERS:
        return by_products(params, x, dtype, out)
    (plane, planes), values = plane_of(params, x.shape), values_of(x, dtype)
    p, power = plane.plan, power_of(params, values.dtype, False)
    y = room(out, planes * p.plane_out, computed(dtype))

    def work(strip: StripPlan, first: int, last: int, scratch: Scratch) -> None:
        for low, high in parts_of(power, p.plane_in, first, last):
            seen, outputs = strip.places(p, low, high)
            given = values[seen], y[outputs]
            for lines in strange_lines(power.norms(strip, *given, high - low, scratch), *given):
                window_norms(*lines, float(power.p), strip.plan.packed)

    over_outputs(plane, planes, WORK * x.nbytes, silent(work))
    return finished(y, out_shape(params.geometry, x.shape), dtype)


def by_products(params: LpParams, x: Array, dtype: Any, out: Array | None) -> Array:
    """The norms for a p whose powers are products."""
    if x.dtype == computed(dtype) == dtype and (layout := run_layout(params, x)) is not None and x.size:
        values, y = flat(layout.stored(x)), empty((math.prod(layout.out_shape),), dtype)
        kernel, given, count = over_runs(int(params.norm_type), layout)
        if not over(kernel, (values, y, NONE, AS_IT_IS, *given), count, WORK * x.nbytes):
            return layout.finished(y, layout.out_shape, dtype)
    (plan, planes), values = planned_for(params.geometry, x.shape), values_of(x, dtype)
    y = room(out, planes * plan.plane_out, computed(dtype))
    norms(int(params.norm_type), plan, planes, values.astype(y.dtype, copy=False), y)
    return finished(y, out_shape(params.geometry, x.shape), dtype)


def silent(work: Any) -> Any:
    """NaN and infinity are results, not warnings, on every thread."""

    def quiet(*given: Any) -> None:
        with np.errstate(all="ignore"):
            work(*given)

    return quiet


def lp_jvp(params: LpParams, x: Array, dx: Array) -> Array:
    dtype = derivative_of(float_of(x.dtype), dx.dtype)
    if params.order > 1:
        return cell_by_cell(params, x, dx, dtype)
    if chunks.is_one_large_region(params, x):
        return chunks.jvp(params, x, dx, dtype, lp_forward, lp_jvp)
    by_x, by_dx = (x, summed(x.dtype)), (dx, summed(dx.dtype))
    if (
        cut := blocks(params.geometry, *by_x, in_place=False, fixed=True)
        or blocks(params.geometry, *by_dx, in_place=False, fixed=True)
    ) is not None:
        y = empty(out_shape(params.geometry, x.shape), dtype)
        cut.fill((y,), (x, dx), lambda block, x, dx, out: (lp_jvp(within(params, block), x, dx),))
        return y
    (plane, planes), values, tangents = plane_of(params, x.shape), values_of(x, dtype), added(dx)
    p, power = plane.plan, power_of(params, values.dtype, True)
    y = empty((planes * p.plane_out,), computed(dtype))

    def work(strip: StripPlan, first: int, last: int, scratch: Scratch) -> None:
        for low, high in parts_of(power, p.plane_in, first, last):
            seen, outputs = strip.places(p, low, high)
            given = values[seen], tangents[seen], y[outputs]
            for lines in strange_lines(power.tangents(strip, *given, high - low, scratch), *given):
                window_tangents(*lines, float(power.p), strip.plan.packed)

    over_outputs(plane, planes, WORK * x.nbytes, silent(work))
    return finished(y, out_shape(params.geometry, x.shape), dtype)


def lp_vjp(params: LpParams, x: Array, g: Array, saved: Array | None = None) -> tuple[Array]:
    dtype = derivative_of(x.dtype, g.dtype)
    if params.order > 1:
        return (cell_by_cell(params, x, g, dtype),)
    if chunks.is_one_large_region(params, x):
        return (chunks.vjp(params, x, g, dtype, lp_forward, lp_vjp),)
    by_x, by_g = (x, summed(x.dtype)), (g, summed(g.dtype), x.shape)
    if (
        cut := blocks(params.geometry, *by_x, in_place=False, fixed=True)
        or blocks(params.geometry, *by_g, in_place=False, fixed=True)
    ) is not None:
        gx = empty(x.shape, dtype)
        cut.gather(gx, x, g, lambda block, x, g: lp_vjp(within(params, block), x, g)[0])
        return (gx,)
    found = by_products_back(params, x, g, dtype, saved) if is_product(params) and x.size and g.size else None
    return (without_gaps(params, by_steps(params, x, g, dtype) if found is None else found),)


def by_products_back(params: LpParams, x: Array, g: Array, dtype: Any, saved: Array | None) -> Array:
    """The gradient for a p whose powers are products. Cells of any dtype are taken as those of a result."""
    same = x.dtype == g.dtype == dtype and dtype in (np.float32, np.float64)
    held = dtype if same else np.dtype(np.float64 if WIDE in (values_of(x[:0], dtype).dtype, summed(g.dtype)) else np.float32)
    saved = saved if held == x.dtype else None
    cells_, given = x.astype(held, copy=False), g.astype(held, copy=False)
    if (gx := gradients_last(params, cells_, given, saved)) is None:
        gx, strange = gradients(params, cells_, given, saved)
        gx = settled(params, cells_, given, gx, strange).reshape(x.shape)
    with np.errstate(all="ignore"):
        return gx.astype(dtype, copy=False)


def settled(params: LpParams, x: Array, g: Array, gx: Array, strange: Array) -> Array:
    """The planes that are strange, again."""
    if strange.any():
        spatial = x.shape[x.ndim - params.geometry.rank :]
        some = x.reshape(len(strange), *spatial)[strange], g.reshape(len(strange), -1)[strange]
        gx.reshape(len(strange), *spatial)[strange] = by_steps(params, *some, gx.dtype)
    return gx


def by_steps(params: LpParams, x: Array, g: Array, dtype: Any) -> Array:
    (plane, planes), values, gradients = plane_of(params, x.shape), values_of(x, dtype), added(g)
    p, power = plane.plan, power_of(params, values.dtype, True)
    gx = empty((x.size,), computed(dtype))

    def work(strip: StripPlan, first: int, last: int, scratch: Scratch) -> None:
        for low, high in parts_of(power, p.plane_in, first, last):
            seen, outputs = strip.places(p, low, high)
            part = gx[seen] if strip is plane else np.empty(strip.high - strip.low, gx.dtype)
            given = values[seen], gradients[outputs], part
            for lines in strange_lines(power.gradients(strip, *given, high - low, scratch), *given):
                window_gradients(*lines, float(power.p), strip.plan.packed)
            if strip is not plane:
                at = first * p.plane_in
                gx[at + strip.kept_low : at + strip.kept_high] = part[strip.kept_low - strip.low : strip.kept_high - strip.low]

    over_cells(plane, planes, WORK * x.nbytes, silent(work))
    return finished(gx, x.shape, dtype)


def cell_by_cell(params: LpParams, x: Array, v: Array, dtype: Any) -> Array:
    """v·sign(x)ᵏ·|x|^(1−k), 0 where x is 0: the rules over windows of one cell, of an order k > 1."""
    cells_, k = x.astype(np.float64), params.order
    found: Array = np.divide(v, np.abs(cells_) ** (k - 1), out=np.zeros(x.shape), where=cells_ != 0)
    return (found * np.sign(cells_) if k % 2 else found).astype(dtype)


def strange_lines(strange: Array, *arrays: Array) -> Iterator[list[Array]]:
    """The arrays of each plane that is strange."""
    for plane in np.flatnonzero(strange):
        yield [array.reshape(len(strange), -1)[plane] for array in arrays]
