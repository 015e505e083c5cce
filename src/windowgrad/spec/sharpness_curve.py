"""How the derivative of a smooth maximum in x and β bends.

All of it is moments about y (`sharpness_moments`), which move by rules of the same operator: it can be differentiated again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from windowgrad.params import SharpParams
from windowgrad.spec.op import Op
from windowgrad.spec.scalar import grid
from windowgrad.spec.sharpness_moments import Moments


class Bending(NamedTuple):
    """What moves in J·(dx, dβ): Σ factor·A_k(dx) + Σ factor·B_k, by their orders, and beside them β itself."""

    cells: dict[int, Any]
    totals: dict[int, Any]
    beta: list[Any]


def bending(m: Moments, dx: Any, db: Any) -> Bending:
    k, beta, found = m.params.order, m.over(m.beta), Bending({}, {}, [])

    def add(to: dict[int, Any], order: int, factor: Any) -> None:
        to[order] = to[order] + factor if order in to else factor

    if dx is not None and not k:
        add(found.cells, 0, 1)
    elif dx is not None:
        mean = m.of(0, dx)
        for order, factor in ((k, beta), (k - 1, k)):
            add(found.cells, order, factor)
            add(found.cells, 0, -factor * m.total(order))
            add(found.totals, order, -factor * mean)
        found.beta.append(m.of(k, dx) - m.total(k) * mean)
    if db is not None and not k:
        add(found.totals, 1, m.over(db) / beta)
        found.beta.append(-m.over(db) * m.total(1) / beta / beta)
    elif db is not None:
        mean, turn = m.total(1), m.over(db)
        add(found.totals, k + 1, turn)
        add(found.totals, 1, -turn * (m.total(k) + k * m.total(k - 1) / beta))
        add(found.totals, k, -turn * mean)
        add(found.totals, k - 1, -turn * k * mean / beta)
        found.beta.append(turn * k * mean * m.total(k - 1) / beta / beta)
    found.totals.pop(0, None)  # it is 1
    return found


def curve(rules: Op, params: SharpParams, xs: Sequence[Any], dxs: Sequence[Any], exs: Sequence[Any]) -> Any:
    (dx, db), (ex, eb), m = dxs, exs, Moments(rules, params, *xs)
    parts = bending(m, dx, db)
    terms = []
    if ex is not None:
        terms += [factor * m.moves(k, dx, ex) for k, factor in parts.cells.items()]
        terms += [factor * m.total_moves(k, ex) for k, factor in parts.totals.items()]
    if eb is not None:
        terms += [m.over(eb) * term for term in by_beta(m, dx, parts)]
    return grid(sum(terms[1:], start=terms[0]))


def curve_back(
    rules: Op, params: SharpParams, xs: Sequence[Any], dxs: Sequence[Any], g: Any, needs: Sequence[bool] = (True, True)
) -> tuple[Any, Any]:
    (dx, db), m, gx, gb = dxs, Moments(rules, params, *xs), None, None
    parts = bending(m, dx, db)
    if needs[0]:
        terms = [m.moves_back(k, dx, g * factor) for k, factor in parts.cells.items()]
        terms += [m.total_back(k, g * factor) for k, factor in parts.totals.items()]
        gx = grid(sum(terms[1:], start=terms[0]))
    if needs[1]:
        terms = by_beta(m, dx, parts)
        gb = grid(over_channels(params, g * sum(terms[1:], start=terms[0]), m.beta))
    return gx, gb


def by_beta(m: Moments, dx: Any, parts: Bending) -> list[Any]:
    """How J·(dx, dβ) moves with β."""
    found = [factor * m.turned(k, lambda order: m.of(order, dx)) for k, factor in parts.cells.items()]
    return found + [factor * m.turned(k, m.total) for k, factor in parts.totals.items()] + parts.beta


def over_channels(params: SharpParams, values: Any, beta: Any) -> Any:
    """The sums of an output's values over all that has the same β."""
    if not len(beta.shape):
        return values.sum()
    channel = len(values.shape) - params.kept_axes - 1
    others = tuple(axis for axis in range(len(values.shape)) if axis != channel)
    return values.sum(axis=others) if others else values
