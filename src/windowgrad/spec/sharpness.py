"""Smooth maximum whose β is an input with a derivative: one number, or one for each channel (the axis before the windows).

∂y/∂β = (E[x] − y)/β, where E is the mean under the softmax weights, padded zeros included where they count. It is computed
as (E[x − top] − log(total)/β)/β: both terms have the same sign, so nothing cancels. A cell of weight 0 adds nothing.
"""

from __future__ import annotations

from typing import Any

from windowgrad.params import SharpParams, SmoothParams
from windowgrad.spec import logsumexp
from windowgrad.spec.logsumexp import weigh
from windowgrad.spec.op import Op
from windowgrad.spec.scalar import Array, Window, cells, divide, exp, gap, log, windows, zero_of, zeros
from windowgrad.spec.sharpness_curve import curve, curve_back


def sharpened(params: SharpParams, x: Array, beta: Array) -> tuple[list[SmoothParams], int]:
    """(a record per channel, or one for all; the axis of the channels)."""
    records = [SmoothParams(params.geometry, each, params.count_include_pad) for each in beta.reshape(-1)]
    return records, x.ndim - params.geometry.rank - 1


def record_of(found: tuple[list[SmoothParams], int], window: Window) -> tuple[SmoothParams, int]:
    """The record of a window's channel, and its number."""
    records, axis = found
    channel = 0 if len(records) == 1 else window.out[axis]
    return records[channel], channel


def slope(params: SmoothParams, x: Array, window: Window) -> Any:
    """∂y/∂β of one window; 0 if it has no cell."""
    top, weights, total = weigh(params, x, window)
    if not window.taps and not (params.count_include_pad and window.padded):
        return zero_of(x)
    nought = zero_of(x)
    terms = [weight * gap(x[tap], top) for tap, weight in zip(window.taps, weights, strict=True) if weight != 0]
    if params.count_include_pad and window.padded:
        weight = exp(params.beta * gap(nought, top))
        terms += [window.padded * weight * gap(nought, top)] if weight != 0 else []
    return divide(divide(sum(terms, start=nought), total) - log(total) / params.beta, params.beta)


def forward(params: SharpParams, x: Any, beta: Any) -> Array:
    x, beta = cells(x), cells(beta)
    y, found = zeros(params.out_shape(x.shape, beta.shape), like=x), sharpened(params, x, beta)
    for window in windows(params.geometry, x.shape, params.where):
        y[window.out] = logsumexp.value(record_of(found, window)[0], x, window)
    return y


def jvp(params: SharpParams, x: Any, beta: Any, dx: Any, dbeta: Any) -> Array:
    x, beta, dx, dbeta = map(cells, (x, beta, dx, dbeta))
    dy, found = zeros(params.out_shape(x.shape, beta.shape), like=dx), sharpened(params, x, beta)
    for window in windows(params.geometry, x.shape, params.where):
        record, channel = record_of(found, window)
        _, weights, total = weigh(record, x, window)
        for tap, weight in zip(window.taps, weights, strict=True):
            dy[window.out] += divide(weight, total) * dx[tap]
        dy[window.out] += slope(record, x, window) * dbeta.reshape(-1)[channel]
    return dy


def vjp(params: SharpParams, x: Any, beta: Any, g: Any) -> tuple[Array, Array]:
    x, beta, g = map(cells, (x, beta, g))
    gx, gbeta, found = zeros(x.shape, like=g), zeros(beta.shape, like=g), sharpened(params, x, beta)
    for window in windows(params.geometry, x.shape, params.where):
        record, channel = record_of(found, window)
        _, weights, total = weigh(record, x, window)
        for tap, weight in zip(window.taps, weights, strict=True):
            gx[tap] += divide(weight, total) * g[window.out]
        gbeta.reshape(-1)[channel] += slope(record, x, window) * g[window.out]
    return gx, gbeta


OP = Op(
    name="sharp_smooth_max_pool",
    params=SharpParams,
    forward=forward,
    jvp=jvp,
    vjp=vjp,
    curve=curve,
    curve_back=curve_back,
    exact=False,
    inputs=("x", "beta"),
)
