"""The p-norm of a region: (Σ|x|^p)^(1/p), p ≥ 1. Padded cells are absent, which is the same as zeros; no cell at all gives 0.

All cells are divided by the greatest of them, so nothing overflows unless the result does. A region of zeros has derivatives 0.

The derivative weighs a cell by sign(x)·(|x|/y)^(p−1); `pnorm_curve` says how it bends, by rules of an `order` of this operator.
"""

from __future__ import annotations

from typing import Any

from windowgrad.params import LpParams
from windowgrad.spec.op import Op
from windowgrad.spec.pnorm_curve import curve, curve_back
from windowgrad.spec.powers import magnitude, power, root, sign
from windowgrad.spec.scalar import Array, Window, cells, divide, greater, is_infinite, windows, zero_like, zero_of, zeros
from windowgrad.spec.sums import added


def ratio(size: Any, top: Any) -> Any:
    """size ÷ top, where top by itself is 1, infinities too."""
    return 1 + zero_like(size) if is_infinite(top) and is_infinite(size) else divide(size, top)


def measure(params: LpParams, x: Array, window: Window) -> tuple[Any, Any, list[Any]]:
    """(top, norm, ratios): the greatest magnitude, and the norm and the magnitudes divided by it; of zeros 0."""
    sizes = [magnitude(x[tap]) for tap in window.taps]
    top = zero_of(x)
    for size in sizes:
        top = size if greater(size, top) else top
    if not greater(top, 0):
        return top, top, sizes
    ratios = [ratio(size, top) for size in sizes]
    total = added((power(r, params.norm_type) for r in ratios), zero_like(ratios[0]))
    return top, root(total, params.norm_type), ratios


def value(params: LpParams, x: Array, window: Window) -> Any:
    if params.norm_type == 1:  # a plain sum needs no care
        return added((magnitude(x[tap]) for tap in window.taps), zero_of(x))
    top, norm, _ = measure(params, x, window)
    return top * norm


def weights(params: LpParams, x: Array, window: Window) -> list[Any]:
    """What each cell weighs in the derivative."""
    p, k = params.norm_type, params.order
    top, norm, ratios = measure(params, x, window)
    if not greater(top, 0):
        return [zero_of(x)] * len(ratios)
    if k > 1:  # one cell
        return [divide(sign(x[tap]) if k % 2 else 1, power(top, k - 1)) for tap in window.taps]
    return [sign(x[tap]) * power(divide(r, norm), p - 1) for tap, r in zip(window.taps, ratios, strict=True)]


def forward(params: LpParams, x: Any) -> Array:
    x = cells(x)
    y = zeros(params.out_shape(x.shape), like=x)
    for window in windows(params.geometry, x.shape, params.where):
        y[window.out] = value(params, x, window)
    return y


def jvp(params: LpParams, x: Any, dx: Any) -> Array:
    """The sum of the tangents, each weighted."""
    x, dx = cells(x), cells(dx)
    dy = zeros(params.out_shape(x.shape), like=dx)
    for window in windows(params.geometry, x.shape, params.where):
        for tap, weight in zip(window.taps, weights(params, x, window), strict=True):
            dy[window.out] += weight * dx[tap]
    return dy


def vjp(params: LpParams, x: Any, g: Any) -> tuple[Array]:
    """Each gradient goes to the cells of its window by their weights."""
    x, g = cells(x), cells(g)
    gx = zeros(x.shape, like=g)
    for window in windows(params.geometry, x.shape, params.where):
        for tap, weight in zip(window.taps, weights(params, x, window), strict=True):
            gx[tap] += weight * g[window.out]
    return (gx,)


OP = Op(name="lp_pool", params=LpParams, forward=forward, jvp=jvp, vjp=vjp, curve=curve, curve_back=curve_back, exact=False)
