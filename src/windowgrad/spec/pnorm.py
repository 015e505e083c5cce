"""The p-norm of a region: (Σ|x|^p)^(1/p), p ≥ 1. Padded cells are absent, which is the same as zeros; no cell at all gives 0.

All cells are divided by the greatest of them, so nothing overflows unless the result does. A region of zeros has derivatives 0.

The derivative weighs a cell by sign(x)·(|x|/y)^(p−1). How it bends needs quotients of cells and norms that are 0 where the
divisor is 0. They are rules of this operator too, so that they can be differentiated again: over windows of one cell, where the
norm is |x|, the rule of order k multiplies by sign(x)ᵏ·|x|^(1−k), which is 1/|x| for k = 2.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from windowgrad.geometry import Sliding
from windowgrad.params import LpParams, Mask
from windowgrad.spec.op import Op
from windowgrad.spec.powers import magnitude, power, root, sign, times
from windowgrad.spec.scalar import Array, Window, cells, divide, greater, grid, is_infinite, windows, zero_like, zero_of, zeros


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
    total = sum((power(r, params.norm_type) for r in ratios), start=zero_like(ratios[0]))
    return top, root(total, params.norm_type), ratios


def value(params: LpParams, x: Array, window: Window) -> Any:
    if params.norm_type == 1:  # a plain sum needs no care
        return sum((magnitude(x[tap]) for tap in window.taps), start=zero_of(x))
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


# --- how the derivative bends ------------------------------------------------------------------------------------


def curve(rules: Op, params: LpParams, xs: Sequence[Any], dxs: Sequence[Any], exs: Sequence[Any]) -> Any:
    """(p − 1)·(Σ |x|^(p−2)·y^(1−p)·dx·ex − J(dx)·J(ex)/y), where the first sum is J(dx·ex/x)"""
    (x,), (dx,), (ex,), p, both = xs, dxs, exs, params.norm_type, dxs[0] * exs[0]
    if params.order > 1:
        return scaled(x, rules.jvp(replace(params, order=params.order + 1), x, grid(both)), 1 - params.order)
    product = rules.jvp(params, x, dx) * rules.jvp(params, x, ex)
    if p == 2:  # a cell that is 0 counts here: the weight does not depend on it
        return over(rules, rules.forward(params, x), rules.jvp(*plain_sum(params, x), grid(both)) - product)
    straight = rules.jvp(params, x, by_cell(rules, x, grid(both), params.where))
    return scaled(x, straight - over(rules, rules.forward(params, x), product), p - 1)


def curve_back(rules: Op, params: LpParams, xs: Sequence[Any], dxs: Sequence[Any], g: Any) -> tuple[Any]:
    """(p − 1)·(dx·Jᵀ(g)/x − Jᵀ(g·J(dx)/y))"""
    (x,), (dx,), p = xs, dxs, params.norm_type
    if params.order > 1:
        (spread,) = rules.vjp(replace(params, order=params.order + 1), x, g)
        return (scaled(x, spread * dx, 1 - params.order),)
    y = rules.forward(params, x)
    (centre,) = rules.vjp(params, x, over(rules, y, grid(g * rules.jvp(params, x, dx))))
    if p == 2:
        (spread,) = rules.vjp(*plain_sum(params, x), over(rules, y, g))
        return (grid(dx * spread - centre),)
    (spread,) = rules.vjp(params, x, g)
    return (scaled(x, by_cell(rules, x, grid(dx * spread), params.where) - centre, p - 1),)


@np.errstate(all="ignore")
def plain_sum(params: LpParams, x: Any) -> tuple[LpParams, Any]:
    """The norm, and the cells, at which the derivative is a plain sum."""
    return replace(params, norm_type=1), grid(x * 0 + 1)


SIGN, INVERSE = LpParams(Sliding((1,)), 1), LpParams(Sliding((1,)), 1, 2)


def over(rules: Op, y: Any, v: Any) -> Any:
    """v ÷ y for y ≥ 0, 0 where y is 0."""
    return cell_by_cell(rules, INVERSE, y, v)


def by_cell(rules: Op, x: Any, v: Any, where: Mask | None) -> Any:
    """v ÷ x, 0 where x is 0 or the mask leaves it out."""
    signs, inverses = SIGN, INVERSE
    if where is not None:
        there = Mask(where.over(x.shape)[..., None])
        signs, inverses = replace(SIGN, where=there), replace(INVERSE, where=there)
    return cell_by_cell(rules, inverses, x, cell_by_cell(rules, signs, x, v))


def cell_by_cell(rules: Op, params: LpParams, x: Any, v: Any) -> Any:
    """The rule over windows of one cell, along an axis of their own: there may be no other."""
    row = (*x.shape, 1)
    return rules.jvp(params, x.reshape(row), grid(v).reshape(row)).reshape(x.shape)


def scaled(x: Any, values: Any, by: int | float) -> Any:
    """The values times `by`, in the numbers that x is made of."""
    return grid(times(values, by) if x.dtype == object else values * float(by))


OP = Op(name="lp_pool", params=LpParams, forward=forward, jvp=jvp, vjp=vjp, curve=curve, curve_back=curve_back, exact=False)
