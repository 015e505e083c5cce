"""Maximum, mean and log-sum-exp over gathered windows. Sums are taken in float64 and rounded once at the end."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from windowgrad.kernels.dtypes import derivative_of, float_of, is_float, machine_float, wide
from windowgrad.kernels.gather import Array, Block, as_planes, blocks
from windowgrad.params import MaxParams, MeanParams, PoolParams, SmoothParams


def windows_of(params: PoolParams, x: Array) -> Iterator[Block]:
    lead, spatial = params.geometry.split(x.shape)
    return blocks(params.geometry.tables(spatial), spatial, int(np.prod(lead, dtype=np.int64)))


def output(params: PoolParams, x: Array, dtype: Any) -> tuple[Array, Array]:
    """The new output, and the same memory as (planes, outputs)."""
    y = np.zeros(params.out_shape(x.shape), dtype=dtype)
    planes = int(np.prod(params.geometry.split(x.shape)[0], dtype=np.int64))
    return y, y.reshape(planes, y.size // planes if planes else 0)


# --- maximum -----------------------------------------------------------------------------------------------------


def ordered(x: Array) -> Array:
    """x in a dtype that NumPy compares, in the same order."""
    return x.astype(np.float32) if x.dtype.name == "bfloat16" else x


def first_winner(block: Block, cells: Array) -> Any:
    """For each window the column of its first winner. Real cells come first, so a padded column never ties with one.

    NumPy's argmax has our rules: the first of equals, and NaN before every number.
    """
    lowest = -np.inf if is_float(cells.dtype) else (np.iinfo(cells.dtype).min if cells.dtype.kind in "iu" else False)
    return np.where(block.valid, cells, cells.dtype.type(lowest)).argmax(axis=-1)


def winning_cells(params: MaxParams, x: Array) -> Array:
    """The flat index of each window's first winner, (planes, outputs); −1 where there is no cell."""
    _, found = output(params, x, np.int64)
    planes = ordered(as_planes(params.geometry, x))
    for block in windows_of(params, x):
        if block.index.shape[1] == 0:
            found[block.planes, block.outs] = -1
            continue
        best = first_winner(block, block.of(planes))
        cell = block.index[np.arange(len(block.index)), best]
        found[block.planes, block.outs] = np.where(block.valid.any(axis=-1), cell, -1)
    return found


def take(params: MaxParams, x: Array, cells: Array) -> Array:
    """x at the cells of each plane, 0 where the cell is −1."""
    y, flat = output(params, x, x.dtype)
    planes = as_planes(params.geometry, x)
    flat[...] = np.where(cells >= 0, np.take_along_axis(planes, np.maximum(cells, 0), axis=1), x.dtype.type(0))
    return y


def max_forward(params: MaxParams, x: Array) -> Array:
    return take(params, x, winning_cells(params, x))


def max_with_indices(params: MaxParams, x: Array) -> tuple[Array, Array]:
    cells = winning_cells(params, x)
    return take(params, x, cells), cells.reshape(params.out_shape(x.shape))


def standing(params: MaxParams, block: Block, planes: Array) -> tuple[Any, Any, Any]:
    """(which cells stand for the maximum, their weight, by what they are divided)."""
    cells = block.of(planes)
    best = first_winner(block, cells)[..., None]
    if params.ties == "first":
        return (np.arange(cells.shape[-1]) == best) & block.valid, 1, 1
    top = np.take_along_axis(cells, best, axis=-1)
    among = ((cells == top) | ((cells != cells) & (top != top))) & block.valid
    return among, 1, np.maximum(among.sum(axis=-1, keepdims=True), 1) if params.ties == "split" else 1


def max_jvp(params: MaxParams, x: Array, dx: Array) -> Array:
    dtype = derivative_of(x.dtype, dx.dtype)
    if params.ties == "first":
        return take(params, dx.astype(dtype), winning_cells(params, x))
    return weighted_sum(params, x, dx, dtype, standing, ordered(as_planes(params.geometry, x)))


def max_vjp(params: MaxParams, x: Array, g: Array) -> tuple[Array]:
    return spread(params, x, g, standing, ordered(as_planes(params.geometry, x)))


# --- what maximum and smooth maximum share: derivatives by the weight of each cell in its window ------------------


def weighted_sum(params: Any, x: Array, dx: Array, dtype: Any, weigh: Any, planes: Array) -> Array:
    """For each window the sum of its tangents by `weigh`, divided once."""
    y, flat = output(params, x, dtype)
    tangents = wide(as_planes(params.geometry, dx))
    for block in windows_of(params, x):
        if block.index.shape[1]:
            among, weights, divisor = weigh(params, block, planes)
            total = np.where(among, weights * block.of(tangents), 0).sum(axis=-1, keepdims=True)
            flat[block.planes, block.outs] = (total / divisor)[..., 0]
    return y


def spread(params: Any, x: Array, g: Array, weigh: Any, planes: Array) -> tuple[Array]:
    """Each gradient goes to the cells of its window by `weigh`."""
    gx = np.zeros(planes.shape, dtype=np.float64)
    gradients = wide(g).reshape(len(planes), -1) if g.size else wide(g)
    for block in windows_of(params, x):
        if block.index.shape[1]:
            among, weights, divisor = weigh(params, block, planes)
            amounts = gradients[block.planes, block.outs][..., None]
            block.scatter(gx, np.where(among, weights * amounts / divisor, 0))
    return (gx.reshape(x.shape).astype(derivative_of(x.dtype, g.dtype)),)


# --- mean --------------------------------------------------------------------------------------------------------


def divisors(params: MeanParams, block: Block) -> Array:
    real = block.valid.sum(axis=-1)
    if params.divisor_override is not None:
        return np.full(real.shape, machine_float("divisor_override", params.divisor_override))
    return wide(real + block.padded if params.count_include_pad else np.maximum(real, 1))


def mean_forward(params: MeanParams, x: Array) -> Array:
    return _mean(params, x, float_of(x.dtype))


def _mean(params: MeanParams, x: Array, dtype: Any) -> Array:
    y, flat = output(params, x, dtype)
    planes = wide(as_planes(params.geometry, x))
    for block in windows_of(params, x):
        total = np.where(block.valid, block.of(planes), 0).sum(axis=-1)
        flat[block.planes, block.outs] = total / divisors(params, block)
    return y


def mean_jvp(params: MeanParams, x: Array, dx: Array) -> Array:
    return _mean(params, dx, derivative_of(float_of(x.dtype), dx.dtype))


def mean_vjp(params: MeanParams, x: Array, g: Array) -> tuple[Array]:
    gx = np.zeros(as_planes(params.geometry, x).shape, dtype=np.float64)
    gradients = wide(g).reshape(len(gx), -1) if g.size else wide(g)
    for block in windows_of(params, x):
        amounts = gradients[block.planes, block.outs] / divisors(params, block)
        block.scatter(gx, np.where(block.valid, amounts[..., None], 0))
    return (gx.reshape(x.shape).astype(derivative_of(x.dtype, g.dtype)),)


# --- log-sum-exp -------------------------------------------------------------------------------------------------


def exponentials(params: SmoothParams, block: Block, planes: Array) -> tuple[Array, Array, Array]:
    """(top, weights, total) as in the meaning: no exponent is above 0; total also has the padded zeros."""
    beta = machine_float("beta", params.beta)
    outermost, lightest = (np.max, -np.inf) if beta > 0 else (np.min, np.inf)
    cells = np.where(block.valid, block.of(planes), lightest)
    padded = block.padded if params.count_include_pad else np.zeros(len(block.index))
    top = outermost(cells, axis=-1, initial=lightest)
    top = np.where(padded > 0, outermost([top, np.zeros_like(top)], axis=0), top)

    def weight(values: Array, tops: Array) -> Array:
        return np.exp(beta * np.where(values == tops, 0, values - tops))

    weights = np.where(block.valid, weight(cells, top[..., None]), 0)
    zeros = np.where(padded > 0, padded * weight(np.zeros_like(top), top), 0)
    return top, weights, weights.sum(axis=-1) + zeros


def smooth_forward(params: SmoothParams, x: Array) -> Array:
    y, flat = output(params, x, float_of(x.dtype))
    planes = wide(as_planes(params.geometry, x))
    for block in windows_of(params, x):
        top, _, total = exponentials(params, block, planes)
        empty = ~block.valid.any(axis=-1) & ((block.padded == 0) | (not params.count_include_pad))
        flat[block.planes, block.outs] = np.where(empty, 0, top + np.log(total) / machine_float("beta", params.beta))
    return y


def softmax(params: SmoothParams, block: Block, planes: Array) -> tuple[Any, Any, Any]:
    """(the real cells, exp(β·(x − top)), their sum)."""
    _, weights, total = exponentials(params, block, planes)
    return block.valid, weights, np.where(total == 0, 1, total)[..., None]  # 0: no cell at all


def smooth_jvp(params: SmoothParams, x: Array, dx: Array) -> Array:
    dtype = derivative_of(float_of(x.dtype), dx.dtype)
    return weighted_sum(params, x, dx, dtype, softmax, wide(as_planes(params.geometry, x)))


def smooth_vjp(params: SmoothParams, x: Array, g: Array) -> tuple[Array]:
    return spread(params, x, g, softmax, wide(as_planes(params.geometry, x)))
