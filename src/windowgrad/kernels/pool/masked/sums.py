"""Mean, smooth maximum and p-norm of the cells that a mask leaves: those left out become what adds nothing to a sum.

A mean divides by how many cells are left, which is the sum of the mask; where the mask is the same along leading axes, that is
summed once.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from windowgrad.dtypes import derivative_of, float_of, is_float
from windowgrad.kernels.arrays import Array, computed, summed, writeable
from windowgrad.kernels.pool.lp import entry as lp
from windowgrad.kernels.pool.masked import mean_lanes, mean_planes, smooth_planes, whole_planes
from windowgrad.kernels.pool.masked.counts import NARROW, WIDE, divisor, left_in, padded_in, sum_of
from windowgrad.kernels.pool.masked.fill import Kind, filled
from windowgrad.kernels.pool.mean import entry as mean
from windowgrad.kernels.pool.smooth import entry as smooth
from windowgrad.params import LpParams, Mask, MeanParams, PoolParams, SmoothParams

# --- mean --------------------------------------------------------------------------------------------------------


def averaging(params: MeanParams, x: Kind, mask: Kind) -> Callable[[Array, Array], Array | None] | None:
    """The way that takes contiguous arrays of these kinds, x and its mask, plane by plane; None if there is none."""
    ways = whole_planes.averaging, mean_lanes.averaging, mean_planes.averaging
    return next(filter(None, (way(params, x, mask) for way in ways)), None)


def prepare_mean(rule: str, params: MeanParams, *kinds: Kind) -> Callable[..., Array] | None:
    """The mean of contiguous arrays of these kinds, or its tangent, if it is taken so; the last kind is that of the mask."""
    result = float_of(kinds[0][1]) if rule == "forward" else derivative_of(float_of(kinds[0][1]), kinds[-2][1])
    own = rule != "vjp" and kinds[-2][1] == result
    take = averaging(params, *kinds[-2:]) if own else None
    if take is None:
        return None

    def call(mask: Array, *arrays: Array) -> Array:
        y = take(arrays[-1], mask)
        return averaged_in_copies(params.masked_by(Mask(mask)), arrays[-1], result) if y is None else y

    return call


def averaged(params: MeanParams, x: Array, dtype: Any) -> Array:
    assert params.where is not None
    mask = params.where.array
    if x.dtype == dtype and x.flags.c_contiguous:
        ready = prepare_mean("forward", params.plain, (x.shape, x.dtype), (mask.shape, mask.dtype))
        if ready is not None:
            return ready(mask, writeable(x))
    return averaged_in_copies(params, x, dtype)


def averaged_in_copies(params: MeanParams, x: Array, dtype: Any) -> Array:
    """Sums in the dtype of the result, and those that it cannot hold again in float64; divided once."""
    cells, by = filled(params, x, 0), divisor(params, x.shape)
    total = mean.averaged(sum_of(params), cells, NARROW if computed(dtype) == NARROW else WIDE)
    finite = np.isfinite(total) if total.dtype == NARROW else np.True_
    y: Array = np.divide(total, by, out=total, casting="same_kind").astype(dtype, copy=False)
    if not finite.all():
        again = mean.averaged(sum_of(params), cells, WIDE) / by
        np.copyto(y, again, casting="same_kind", where=~finite)  # a window is summed again by what it sees itself
    return y


def mean_forward(params: MeanParams, x: Array, out: Array | None = None) -> Array:
    return averaged(params, x, float_of(x.dtype))


def mean_jvp(params: MeanParams, x: Array, dx: Array) -> Array:
    return averaged(params, dx, derivative_of(float_of(x.dtype), dx.dtype))


def mean_vjp(params: MeanParams, x: Array, g: Array, saved: None = None) -> tuple[Array]:
    shares = np.divide(g, divisor(params, x.shape), dtype=WIDE)
    (gx,) = mean.mean_vjp(sum_of(params), x, shares)
    return (cleared(params, gx.astype(derivative_of(x.dtype, g.dtype), copy=False)),)


def cleared(params: PoolParams, gx: Array) -> Array:
    """No gradient where the mask leaves a cell out."""
    return filled(params, gx, 0)


# --- p-norm ------------------------------------------------------------------------------------------------------


def lp_forward(params: LpParams, x: Array, out: Array | None = None) -> Array:
    return lp.lp_forward(params.plain, filled(params, x, 0), out)


def lp_jvp(params: LpParams, x: Array, dx: Array) -> Array:
    return lp.lp_jvp(params.plain, filled(params, x, 0), filled(params, dx, 0))


def lp_vjp(params: LpParams, x: Array, g: Array, saved: None = None) -> tuple[Array]:
    (gx,) = lp.lp_vjp(params.plain, filled(params, x, 0), g)
    return (cleared(params, gx),)


# --- smooth maximum ----------------------------------------------------------------------------------------------


def weightless(params: SmoothParams, x: Array, dtype: Any) -> tuple[Array, Array]:
    """(the cells, with others that weigh nothing where one is left out; in which planes these are infinite), for a `dtype`.

    Infinite ones make a plane slow. So, where all cells of a plane that are left are finite, they are numbers of the plane that
    weigh less than 2⁻²⁴, or 2⁻⁵³, of its lightest cell, all of them together. They are rounded away from it: far from 0, the
    nearest number may be the cell itself.
    """
    kind = computed(x.dtype) if is_float(x.dtype) else np.promote_types(summed(x.dtype), summed(dtype))
    cells = x.astype(kind, copy=False)
    beta, (lead, spatial) = smooth.beta_of(params), params.geometry.split(x.shape)
    lines = filled(params, cells, 0).reshape(math.prod(lead), math.prod(spatial))
    losers = np.full(len(lines), -math.copysign(math.inf, beta), cells.dtype)
    if x.size:
        gap = ((28 if cells.dtype == NARROW else 40) + math.log(lines.shape[1])) / beta
        least = (lines.min(axis=1) if beta > 0 else lines.max(axis=1)) - cells.dtype.type(gap)
        least = np.nextafter(least, losers)
        np.copyto(losers, least, where=np.isfinite(least) & np.isfinite(lines).all(axis=1))
    return filled(params, cells, losers), np.isinf(losers)


def without_weight(params: SmoothParams, cells: Array, infinite: Array) -> Array | None:
    """Which windows have no cell of any weight: none left, or infinite ones alone, which weigh the same; None if it is none."""
    if not infinite.any():
        return None
    y = smooth.smooth_forward(params.plain, cells)
    found: Array = y == (-math.inf if params.beta > 0 else math.inf)
    return found if found.any() else None


def prepare_smooth(rule: str, params: SmoothParams, *kinds: Kind) -> Callable[[Array, Array], Array] | None:
    """The forward rule for contiguous arrays of these kinds, if one kernel does it; the last kind is that of the mask."""
    return smooth_planes.finding(params, *kinds) if rule == "forward" else None


def smooth_forward(params: SmoothParams, x: Array, out: Array | None = None) -> Array:
    if smooth_planes.is_taken(params, x):
        return smooth_planes.smooth_planes(params, x)
    y = smooth.smooth_forward(params.plain, weightless(params, x, float_of(x.dtype))[0])
    nothing = left_in(params, x.shape) == 0
    if nothing.any():
        padded = padded_in(params.geometry, params.geometry.split(x.shape)[1]) if params.count_include_pad else 0.0
        y[np.broadcast_to(nothing & (np.asarray(padded) == 0), y.shape)] = 0
    return y.astype(float_of(x.dtype), copy=False)


def of_left(params: SmoothParams) -> MeanParams:
    return MeanParams(params.geometry, False, where=params.where)


def smooth_jvp(params: SmoothParams, x: Array, dx: Array) -> Array:
    dtype = derivative_of(float_of(x.dtype), dx.dtype)
    cells, infinite = weightless(params, x, dtype)
    dy = smooth.smooth_jvp(params.plain, cells, filled(params, dx, 0))
    if (alike := without_weight(params, cells, infinite)) is not None:
        dy[alike] = mean_jvp(of_left(params), x, dx)[alike]
    return dy.astype(dtype, copy=False)


def smooth_vjp(params: SmoothParams, x: Array, g: Array, saved: None = None) -> tuple[Array]:
    dtype = derivative_of(x.dtype, g.dtype)
    cells, infinite = weightless(params, x, dtype)
    if (alike := without_weight(params, cells, infinite)) is None:
        (gx,) = smooth.smooth_vjp(params.plain, cells, g)
    else:
        nothing = np.zeros((), g.dtype)
        (gx,) = smooth.smooth_vjp(params.plain, cells, np.where(alike, nothing, g))
        more, planes = mean_vjp(of_left(params), x, np.where(alike, g, nothing))[0], len(infinite)
        some = alike.reshape(planes, -1).any(axis=1, keepdims=True)  # to add 0 would change the zeros of the other planes
        gx = np.where(some, (gx + more).reshape(planes, -1), gx.reshape(planes, -1)).reshape(x.shape)
    return (cleared(params, gx.astype(dtype, copy=False)),)
