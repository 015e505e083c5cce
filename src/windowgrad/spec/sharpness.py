"""Smooth maximum whose β is an input with a derivative: one number, or one for each channel (the axis before the windows).

∂y/∂β = (E[x] − y)/β, where E is the mean under the softmax weights, padded zeros included where they count. It is computed
as (E[x − top] − log(total)/β)/β: both terms have the same sign, so nothing cancels. A cell of weight 0 adds nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from windowgrad.params import SharpParams, SmoothParams
from windowgrad.spec import logsumexp
from windowgrad.spec.logsumexp import weigh
from windowgrad.spec.op import Op
from windowgrad.spec.scalar import Array, Window, cells, divide, exp, gap, grid, log, windows, zero_of, zeros


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
    for window in windows(params.geometry, x.shape):
        y[window.out] = logsumexp.value(record_of(found, window)[0], x, window)
    return y


def jvp(params: SharpParams, x: Any, beta: Any, dx: Any, dbeta: Any) -> Array:
    x, beta, dx, dbeta = map(cells, (x, beta, dx, dbeta))
    dy, found = zeros(params.out_shape(x.shape, beta.shape), like=dx), sharpened(params, x, beta)
    for window in windows(params.geometry, x.shape):
        record, channel = record_of(found, window)
        _, weights, total = weigh(record, x, window)
        for tap, weight in zip(window.taps, weights, strict=True):
            dy[window.out] += divide(weight, total) * dx[tap]
        dy[window.out] += slope(record, x, window) * dbeta.reshape(-1)[channel]
    return dy


def vjp(params: SharpParams, x: Any, beta: Any, g: Any) -> tuple[Array, Array]:
    x, beta, g = map(cells, (x, beta, g))
    gx, gbeta, found = zeros(x.shape, like=g), zeros(beta.shape, like=g), sharpened(params, x, beta)
    for window in windows(params.geometry, x.shape):
        record, channel = record_of(found, window)
        _, weights, total = weigh(record, x, window)
        for tap, weight in zip(window.taps, weights, strict=True):
            gx[tap] += divide(weight, total) * g[window.out]
        gbeta.reshape(-1)[channel] += slope(record, x, window) * g[window.out]
    return gx, gbeta


# --- the second derivative ---------------------------------------------------------------------------------------
#
# With s = ∂y/∂β:   ∂²y[dx, ex] = β·Cov(dx, ex)     ∂²y[dx, eβ] = eβ·Cov(x, dx)     ∂²y[dβ, eβ] = dβ·eβ·(Var(x) − 2s)/β


def curve(rules: Op, params: SharpParams, xs: Sequence[Any], dxs: Sequence[Any], exs: Sequence[Any]) -> Any:
    (x, beta), (dx, db), (ex, eb) = xs, dxs, exs
    still = grid(beta * 0)

    def mean(values: Any) -> Any:
        return rules.jvp(params, x, beta, grid(values), still)

    def covariance(a: Any, b: Any) -> Any:
        return mean(a * b) - mean(a) * mean(b)

    def wide(values: Any) -> Any:
        return over_outputs(params, values)

    terms = [wide(beta) * covariance(dx, ex)] if dx is not None and ex is not None else []
    terms += [wide(eb) * covariance(x, dx)] if dx is not None and eb is not None else []
    terms += [wide(db) * covariance(x, ex)] if ex is not None and db is not None else []
    if db is not None and eb is not None:
        terms.append(wide(db * eb) * bend(rules, params, x, beta))
    return grid(sum(terms[1:], start=terms[0]))


def curve_back(
    rules: Op, params: SharpParams, xs: Sequence[Any], dxs: Sequence[Any], g: Any, needs: Sequence[bool] = (True, True)
) -> tuple[Any, Any]:
    (x, beta), (dx, db) = xs, dxs
    still = grid(beta * 0)

    def mean(values: Any) -> Any:
        return rules.jvp(params, x, beta, grid(values), still)

    def pull(values: Any) -> Any:
        return rules.vjp(params, x, beta, grid(values), needs=(True, False))[0]

    by_x, by_beta = [], []
    for moved, amount in ((dx, beta), (None if db is None else x, db)):
        if moved is not None and needs[0]:
            weighted = g * over_outputs(params, amount)
            by_x.append(moved * pull(weighted) - pull(weighted * mean(moved)))
    if dx is not None and needs[1]:
        by_beta.append(mean(x * dx) - mean(x) * mean(dx))
    if db is not None and needs[1]:
        by_beta.append(over_outputs(params, db) * bend(rules, params, x, beta))
    return (
        grid(sum(by_x[1:], start=by_x[0])) if by_x else None,
        grid(over_channels(params, g * sum(by_beta[1:], start=by_beta[0]), beta)) if by_beta else None,
    )


def bend(rules: Op, params: SharpParams, x: Any, beta: Any) -> Any:
    """∂²y/∂β² = (Var(x) − 2s)/β."""
    still = grid(beta * 0)
    mean, slopes = rules.jvp(params, x, beta, x, still), rules.jvp(params, x, beta, grid(x * 0), grid(still + 1))
    variance = rules.jvp(params, x, beta, grid(x * x), still) - mean * mean
    return (variance - 2 * slopes) / over_outputs(params, beta)


def over_outputs(params: SharpParams, beta: Any) -> Any:
    """β, or its tangent, as an array that meets the outputs of its channel."""
    return beta.reshape((*beta.shape, *(1,) * params.kept_axes)) if len(beta.shape) else beta


def over_channels(params: SharpParams, values: Any, beta: Any) -> Any:
    """The sums of an output's values over all that has the same β."""
    if not len(beta.shape):
        return values.sum()
    channel = len(values.shape) - params.kept_axes - 1
    others = tuple(axis for axis in range(len(values.shape)) if axis != channel)
    return values.sum(axis=others) if others else values


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
