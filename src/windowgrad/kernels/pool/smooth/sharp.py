"""Smooth maximum with β as an array, on NumPy numbers.

The value and the derivative in x of a channel are those of the kernels for a number β, called once for all channels that have
the same β: bit for bit what a number gives. The derivative in β is NumPy in float64: over the taps of a window, all windows at
once, or over the windows, all taps at once, whichever is fewer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from windowgrad.dtypes import derivative_of, float_of
from windowgrad.errors import OptionError, WindowgradError
from windowgrad.kernels.arrays import Array
from windowgrad.kernels.pool.gather import by_taps, by_windows, in_a_row, is_shallow, padded_cells, real_cells
from windowgrad.kernels.pool.smooth.entry import smooth_forward, smooth_jvp, smooth_vjp
from windowgrad.params import SharpParams, SmoothParams


def record(params: SharpParams, beta: float, place: tuple[int, ...]) -> SmoothParams:
    try:
        return SmoothParams(params.geometry, beta, params.count_include_pad)
    except WindowgradError as error:  # name the entry
        raise OptionError(str(error).replace("beta=", f"beta{list(place) if place else ''}=", 1)) from None


def by_channel(params: SharpParams, beta: Array, compute: Callable[..., Array], *arrays: Array) -> Array:
    """`compute(record, *arrays)` of the channels with the same β together."""
    numbers = [float(each) for each in beta.reshape(-1)]
    records = [record(params, number, (i,) * beta.ndim) for i, number in enumerate(numbers)]
    if not records or len(set(numbers)) == 1:
        return compute(records[0] if records else record(params, 1.0, ()), *arrays)
    channel = arrays[0].ndim - params.geometry.rank - 1
    parts, order = [], []
    for number in dict.fromkeys(numbers):
        which = [i for i, each in enumerate(numbers) if each == number]
        parts.append(compute(records[which[0]], *(array.take(which, channel) for array in arrays)))
        order += which
    return np.concatenate(parts, channel).take(np.argsort(order), channel)


def sharp_forward(params: SharpParams, x: Array, beta: Array) -> Array:
    return by_channel(params, beta, smooth_forward, x)


def sharp_jvp(params: SharpParams, x: Array, beta: Array, dx: Array, dbeta: Array) -> Array:
    dy = by_channel(params, beta, smooth_jvp, x, dx)
    if not dbeta.any():
        return dy
    wide = dy.astype(np.float64) + over_outputs(params, dbeta.astype(np.float64)) * slopes(params, x, beta)
    dtype: Any = derivative_of(float_of(x.dtype), dx.dtype)
    return np.asarray(wide, dtype=dtype)


def sharp_vjp(
    params: SharpParams, x: Array, beta: Array, g: Array, needs: Sequence[bool] = (True, True)
) -> tuple[Array | None, Array | None]:
    gx = by_channel(params, beta, lambda *given: smooth_vjp(*given)[0], x, g) if needs[0] else None
    if not needs[1]:
        return gx, None
    weighted = g.astype(np.float64) * slopes(params, x, beta)
    channel = weighted.ndim - params.kept_axes - 1
    rows = np.moveaxis(weighted, channel, 0) if beta.ndim else weighted[None]
    sums = in_a_row(np.ascontiguousarray(rows), rows.ndim - 1).sum(-1)
    return gx, sums.reshape(beta.shape).astype(derivative_of(beta.dtype, g.dtype))


def over_outputs(params: SharpParams, beta: Array) -> Array:
    return beta.reshape((*beta.shape, *(1,) * params.kept_axes)) if beta.ndim else beta


# --- the derivative in β -----------------------------------------------------------------------------------------


def slopes(params: SharpParams, x: Array, beta: Array) -> Array:
    """∂y/∂β of every window. With z = ±x the top of a window is its greatest z, and β is positive."""
    geometry, numbers = params.geometry, beta.astype(np.float64)
    _, spatial = geometry.split(x.shape)
    wide = numbers.reshape((*numbers.shape, *(1,) * geometry.rank)) if numbers.ndim else numbers
    z = np.ascontiguousarray(np.sign(wide) * x.astype(np.float64))
    padded = padded_cells(geometry, spatial) * params.count_include_pad
    sums = sums_by_taps if is_shallow(geometry, spatial) else sums_by_windows
    top, total, moment = sums(params, z, abs(wide), np.where(padded > 0, 0.0, -np.inf))
    weight, moved = weighed(np.zeros(()), top, abs(wide))
    total, moment = total + np.where(padded > 0, padded * weight, 0.0), moment + np.where(padded > 0, padded * moved, 0.0)
    found = (moment / total - np.log(total) / abs(wide)) / abs(wide)
    return np.where(padded + real_cells(geometry, spatial) > 0, found, 0.0).reshape(params.out_shape(x.shape, beta.shape))


def sums_by_taps(params: SharpParams, z: Array, beta: Array, zeros: Array) -> tuple[Array, Array, Array]:
    """(top, sum of weights, sum of weights times how far each cell is below the top) of all windows; `zeros` is a cell more."""
    lead, spatial = params.geometry.split(z.shape)
    top = np.broadcast_to(zeros, lead + zeros.shape)
    for cells, there in by_taps(params.geometry, spatial):
        top = np.where(there, np.maximum(top, z[cells]), top)
    total, moment = np.zeros(top.shape), np.zeros(top.shape)
    for cells, there in by_taps(params.geometry, spatial):
        weight, moved = weighed(z[cells], top, beta)
        total, moment = total + np.where(there, weight, 0.0), moment + np.where(there, moved, 0.0)
    return top, total, moment


def sums_by_windows(params: SharpParams, z: Array, beta: Array, zeros: Array) -> tuple[Array, Array, Array]:
    lead, spatial = params.geometry.split(z.shape)
    top, total, moment = (np.empty(lead + zeros.shape) for _ in range(3))
    sharp = beta.reshape(-1, 1) if beta.ndim else beta
    for o, cells in by_windows(params.geometry, spatial):
        block = in_a_row(z[cells], params.geometry.rank)
        at: Any = (..., *o)
        top[at] = np.maximum(block.max(-1, initial=-np.inf), zeros[o])
        weight, moved = weighed(block, top[at][..., None], sharp)
        total[at], moment[at] = weight.sum(-1), moved.sum(-1)
    return top, total, moment


def weighed(z: Array, top: Array, beta: Array) -> tuple[Array, Array]:
    """(the weight of each cell, the weight times how far it is below the top); a weight of 0 times infinity is 0."""
    below = np.where(z == top, 0.0, z - top)
    weight = np.exp(beta * below)
    return weight, np.where(weight == 0, 0.0, weight * below)
