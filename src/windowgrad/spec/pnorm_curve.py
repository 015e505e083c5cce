"""How the derivative of a p-norm bends: by quotients of cells and norms that are 0 where the divisor is 0.

They are rules of the operator itself, over windows of one cell, so they can be differentiated again: there the norm is |x|, and
the rule of order k multiplies by sign(x)ᵏ·|x|^(1−k), which is 1/|x| for k = 2.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from windowgrad.geometry import Sliding
from windowgrad.params import LpParams, Mask
from windowgrad.spec.op import Op
from windowgrad.spec.powers import times
from windowgrad.spec.scalar import grid


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
        there = Mask(where.over(x.shape)[..., None], where.lazy)
        signs, inverses = replace(SIGN, where=there), replace(INVERSE, where=there)
    return cell_by_cell(rules, inverses, x, cell_by_cell(rules, signs, x, v))


def cell_by_cell(rules: Op, params: LpParams, x: Any, v: Any) -> Any:
    """The rule over windows of one cell, along an axis of their own: there may be no other."""
    row = (*x.shape, 1)
    return rules.jvp(params, x.reshape(row), grid(v).reshape(row)).reshape(x.shape)


def scaled(x: Any, values: Any, by: int | float) -> Any:
    """The values times `by`, in the numbers that x is made of."""
    return grid(times(values, by) if x.dtype == object else values * float(by))
