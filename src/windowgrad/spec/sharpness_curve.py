"""The second derivative of a smooth maximum in x and β, written with its own rules.

With s = ∂y/∂β:   ∂²y[dx, ex] = β·Cov(dx, ex)     ∂²y[dx, eβ] = eβ·Cov(x, dx)     ∂²y[dβ, eβ] = dβ·eβ·(Var(x) − 2s)/β
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from windowgrad.params import SharpParams
from windowgrad.spec.op import Op
from windowgrad.spec.scalar import grid


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
