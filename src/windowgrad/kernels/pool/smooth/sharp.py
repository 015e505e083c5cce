"""Smooth maximum with β as an array, on NumPy numbers.

The value and the derivative in x of a channel are those of the kernels for a number β, called once for all channels that have
the same β: bit for bit what a number gives. The derivative in β, and the rules of a higher order, are sums of `moments`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from windowgrad.dtypes import derivative_of, float_of
from windowgrad.errors import OptionError, WindowgradError
from windowgrad.kernels.arrays import Array
from windowgrad.kernels.pool.gather import in_a_row
from windowgrad.kernels.pool.smooth.entry import smooth_forward, smooth_jvp, smooth_vjp
from windowgrad.kernels.pool.smooth.moments import Moments
from windowgrad.params import Mask, SharpParams, SmoothParams

Rule = Callable[..., Any]


def record(params: SharpParams, beta: float, place: tuple[int, ...]) -> SmoothParams:
    try:
        return SmoothParams(params.geometry, beta, params.count_include_pad, where=params.where)
    except WindowgradError as error:  # name the entry
        raise OptionError(str(error).replace("beta=", f"beta{list(place) if place else ''}=", 1)) from None


def by_channel(params: SharpParams, beta: Array, compute: Rule, x: Array, *more: Array) -> Array:
    """`compute(record, x, *more)` of the channels with the same β together."""
    numbers = [float(each) for each in beta.reshape(-1)]
    records = [record(params, number, (i,) * beta.ndim) for i, number in enumerate(numbers)]
    if not records or len(set(numbers)) == 1:
        return np.asarray(compute(records[0] if records else record(params, 1.0, ()), x, *more))
    channel = x.ndim - params.geometry.rank - 1
    parts, order = [], []
    for number in dict.fromkeys(numbers):
        which = [i for i, each in enumerate(numbers) if each == number]
        some = records[which[0]]
        if some.where is not None:
            some = replace(some, where=Mask(some.where.over(x.shape).take(which, channel)))
        parts.append(compute(some, *(array.take(which, channel) for array in (x, *more))))
        order += which
    return np.concatenate(parts, channel).take(np.argsort(order), channel)


def sharp_forward(params: SharpParams, x: Array, beta: Array, smooth: Rule = smooth_forward) -> Array:
    """`smooth` is the rule for a number β."""
    if not params.order:
        return by_channel(params, beta, smooth, x)
    found = Moments(params, x, beta).mean(params.order)
    return found.reshape(params.out_shape(x.shape, beta.shape)).astype(float_of(x.dtype), copy=False)


def sharp_jvp(params: SharpParams, x: Array, beta: Array, dx: Array, dbeta: Array, smooth: Rule = smooth_jvp) -> Array:
    by_beta, k, out = bool(dbeta.any()), params.order, params.out_shape(x.shape, beta.shape)
    if not k and not by_beta:
        return by_channel(params, beta, smooth, x, dx)
    moments = Moments(params, x, beta)
    dy = moments.push(k, dx).reshape(out) if k else by_channel(params, beta, smooth, x, dx).astype(np.float64)
    if by_beta:
        dy += over_outputs(params, dbeta.astype(np.float64)) * moments.slope(k).reshape(out)
    dtype: Any = derivative_of(float_of(x.dtype), dx.dtype)
    return np.asarray(dy, dtype=dtype)


def sharp_vjp(
    params: SharpParams, x: Array, beta: Array, g: Array, needs: Sequence[bool] = (True, True), smooth: Rule = smooth_vjp
) -> tuple[Array | None, Array | None]:
    k, gx = params.order, None
    if needs[0] and not k:
        gx = by_channel(params, beta, lambda *given: smooth(*given)[0], x, g)
    if not needs[1] and not k:
        return gx, None
    moments = Moments(params, x, beta)
    if needs[0] and k:
        gx = moments.pull(k, g.astype(np.float64)).astype(derivative_of(x.dtype, g.dtype))
    if not needs[1]:
        return gx, None
    weighted = g.astype(np.float64) * moments.slope(k).reshape(g.shape)
    channel = weighted.ndim - params.kept_axes - 1
    rows = np.moveaxis(weighted, channel, 0) if beta.ndim else weighted[None]
    sums = in_a_row(np.ascontiguousarray(rows), rows.ndim - 1).sum(-1)
    return gx, sums.reshape(beta.shape).astype(derivative_of(beta.dtype, g.dtype))


def over_outputs(params: SharpParams, beta: Array) -> Array:
    return beta.reshape((*beta.shape, *(1,) * params.kept_axes)) if beta.ndim else beta
