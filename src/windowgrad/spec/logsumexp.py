"""Smooth maximum over a region: (1/β)·log Σ exp(β·x). A padded cell is a zero, or absent; no cell at all gives 0."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from windowgrad.params import SmoothParams
from windowgrad.spec.op import Op
from windowgrad.spec.order import extreme
from windowgrad.spec.scalar import Array, Window, cells, divide, exp, gap, grid, is_nan, log, windows, zero_of, zeros
from windowgrad.spec.sums import added


def heavier(a: Any, b: Any, beta: Any) -> bool:
    """Whether a cell a weighs more than b: the greater one, the lesser one if β < 0, and NaN before every number."""
    if is_nan(a) or is_nan(b):
        return is_nan(a) and not is_nan(b)
    return bool(a > b if beta > 0 else a < b)


def weigh(params: SmoothParams, x: Array, window: Window) -> tuple[Any, list[Any], Any]:
    """(top, weights, total): each cell weighs exp(β·(x − top)), where top is the cell that weighs most; padded zeros too.

    No exponent is above 0, so nothing overflows, and the top cell weighs 1, so the total is 0 only where there is no cell.
    """
    nought = zero_of(x)
    zeros_seen = window.padded if params.count_include_pad else 0
    among = [nought] * bool(zeros_seen) + [x[tap] for tap in window.taps]
    if not among:
        return nought, [], 0
    top = extreme(among, lambda a, b: heavier(a, b, params.beta), "max" if params.beta > 0 else "min")
    weights = [exp(params.beta * gap(x[tap], top)) for tap in window.taps]
    total = added(weights, zeros_seen * exp(params.beta * gap(nought, top)) if zeros_seen else 0)
    return top, weights, total


def value(params: SmoothParams, x: Array, window: Window) -> Any:
    """The smooth maximum of the cells; 0 if there is none."""
    if not window.taps and not (params.count_include_pad and window.padded):
        return zero_of(x)
    top, _, total = weigh(params, x, window)
    return top + log(total) / params.beta


def forward(params: SmoothParams, x: Any) -> Array:
    x = cells(x)
    y = zeros(params.out_shape(x.shape), like=x)
    for window in windows(params.geometry, x.shape, params.where):
        y[window.out] = value(params, x, window)
    return y


def jvp(params: SmoothParams, x: Any, dx: Any) -> Array:
    """The sum of the tangents, each weighted by softmax(β·x)."""
    x, dx = cells(x), cells(dx)
    dy = zeros(params.out_shape(x.shape), like=dx)
    for window in windows(params.geometry, x.shape, params.where):
        if window.taps:
            _, weights, total = weigh(params, x, window)
            for tap, weight in zip(window.taps, weights, strict=True):
                dy[window.out] += divide(weight, total) * dx[tap]
    return dy


def vjp(params: SmoothParams, x: Any, g: Any) -> tuple[Array]:
    """Each gradient is spread in proportion to exp(β·x)."""
    x, g = cells(x), cells(g)
    gx = zeros(x.shape, like=g)
    for window in windows(params.geometry, x.shape, params.where):
        if window.taps:
            _, weights, total = weigh(params, x, window)
            for tap, weight in zip(window.taps, weights, strict=True):
                gx[tap] += divide(weight, total) * g[window.out]
    return (gx,)


def curve(rules: Op, params: SmoothParams, xs: Sequence[Any], dxs: Sequence[Any], exs: Sequence[Any]) -> Any:
    """β times the covariance of dx and ex under the softmax weights: β·(E[dx·ex] − E[dx]·E[ex])."""
    (x,), (dx,), (ex,) = xs, dxs, exs
    mean = rules.jvp
    return sharpened(params, x, mean(params, x, dx * ex) - mean(params, x, dx) * mean(params, x, ex))


def curve_back(rules: Op, params: SmoothParams, xs: Sequence[Any], dxs: Sequence[Any], g: Any) -> tuple[Any]:
    """β times what each cell departs from the mean of its window: β·(dx·Jᵀg − Jᵀ(g·E[dx]))."""
    (x,), (dx,) = xs, dxs
    (spread,), (centre,) = rules.vjp(params, x, g), rules.vjp(params, x, grid(g * rules.jvp(params, x, dx)))
    return (sharpened(params, x, dx * spread - centre),)


def sharpened(params: SmoothParams, x: Any, values: Any) -> Any:
    """β times the values, in the numbers that x is made of."""
    return grid(values * (params.beta if x.dtype == object else float(params.beta)))


OP = Op(
    name="smooth_max_pool",
    params=SmoothParams,
    forward=forward,
    jvp=jvp,
    vjp=vjp,
    curve=curve,
    curve_back=curve_back,
    exact=False,
)
