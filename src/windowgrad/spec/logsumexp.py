"""Smooth maximum over a region: (1/β)·log Σ exp(β·x). A padded cell is a zero, or absent; no cell at all gives 0."""

from __future__ import annotations

from typing import Any

from windowgrad.params import SmoothParams
from windowgrad.spec.op import Op
from windowgrad.spec.scalar import Array, Window, cells, divide, exp, gap, is_nan, log, windows, zero_like, zeros


def heavier(a: Any, b: Any, beta: Any) -> bool:
    """Whether a cell a weighs more than b: the greater one, the lesser one if β < 0, and NaN before every number."""
    if is_nan(a) or is_nan(b):
        return is_nan(a) and not is_nan(b)
    return bool(a > b if beta > 0 else a < b)


def weigh(params: SmoothParams, x: Array, window: Window) -> tuple[Any, list[Any], Any]:
    """(top, weights, total): each cell weighs exp(β·(x − top)), where top is the cell that weighs most; padded zeros too.

    No exponent is above 0, so nothing overflows, and the top cell weighs 1, so the total is never 0.
    """
    nought = zero_like(x.flat[0])
    zeros_seen = window.padded if params.count_include_pad else 0
    top = nought if zeros_seen else x[window.taps[0]]
    for tap in window.taps:
        if heavier(x[tap], top, params.beta):
            top = x[tap]
    weights = [exp(params.beta * gap(x[tap], top)) for tap in window.taps]
    total = sum(weights, start=zeros_seen * exp(params.beta * gap(nought, top)) if zeros_seen else 0)
    return top, weights, total


def has_cells(params: SmoothParams, window: Window) -> bool:
    return bool(window.taps) or (params.count_include_pad and window.padded > 0)


def forward(params: SmoothParams, x: Any) -> Array:
    x = cells(x)
    y = zeros(params.out_shape(x.shape), like=x)
    for window in windows(params.geometry, x.shape):
        if has_cells(params, window):
            top, _, total = weigh(params, x, window)
            y[window.out] = top + log(total) / params.beta
    return y


def jvp(params: SmoothParams, x: Any, dx: Any) -> Array:
    """The sum of the tangents, each weighted by softmax(β·x)."""
    x, dx = cells(x), cells(dx)
    dy = zeros(params.out_shape(x.shape), like=dx)
    for window in windows(params.geometry, x.shape):
        if window.taps:
            _, weights, total = weigh(params, x, window)
            for tap, weight in zip(window.taps, weights, strict=True):
                dy[window.out] += divide(weight, total) * dx[tap]
    return dy


def vjp(params: SmoothParams, x: Any, g: Any) -> tuple[Array]:
    """Each gradient is spread in proportion to exp(β·x)."""
    x, g = cells(x), cells(g)
    gx = zeros(x.shape, like=g)
    for window in windows(params.geometry, x.shape):
        if window.taps:
            _, weights, total = weigh(params, x, window)
            for tap, weight in zip(window.taps, weights, strict=True):
                gx[tap] += divide(weight, total) * g[window.out]
    return (gx,)


def curve(rules: Op, params: SmoothParams, xs: Any, dxs: Any, exs: Any) -> Any:
    """β times the covariance of the two tangents under the weights."""
    (x,), (dx,), (ex,) = xs, dxs, exs
    return params.beta * (rules.jvp(params, x, dx * ex) - rules.jvp(params, x, dx) * rules.jvp(params, x, ex))


def curve_back(rules: Op, params: SmoothParams, xs: Any, dxs: Any, g: Any) -> tuple[Any]:
    (x,), (dx,) = xs, dxs
    (spread,), (moved,) = rules.vjp(params, x, g), rules.vjp(params, x, g * rules.jvp(params, x, dx))
    return (params.beta * (dx * spread - moved),)


OP = Op(
    name="smooth_max_pool",
    params=SmoothParams,
    forward=forward,
    jvp=jvp,
    vjp=vjp,
    exact=False,
    curve=curve,
    curve_back=curve_back,
)
