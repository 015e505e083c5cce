"""The law of second derivatives, as a function from an operator and a case to sides that must be equal."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import windowgrad as wg
from support.laws import Sides, dot, each
from windowgrad.spec import Dual, Op


def tangent(cell: Any) -> Any:
    """What is no dual number is a constant."""
    return cell.tangent if isinstance(cell, Dual) else 0


def by_duals(f: Any, xs: Any, dxs: Any, es: Any) -> Any:
    """D²f[dx, e] as the mixed tangent of f on duals of duals: (x + ε·e) + δ·dx. Indices, machine integers, do not move."""

    def moved(x: Any, e: Any, dx: Any) -> Any:
        return each(lambda a, b, c: Dual(Dual(a, b), Dual(c, 0)), x, e, dx) if x.dtype == object else x

    return each(lambda cell: tangent(tangent(cell)), f(*map(moved, xs, es, dxs)))


def nestings(f: Any, xs: Any, dxs: Any, es: Any, g: Any) -> Iterator[Any]:
    """⟨g, D²f[dx, e]⟩ by forward over forward, forward over backward, backward over forward, backward over backward."""

    def pushed(*xs: Any) -> Any:
        return wg.jvp(f, xs, dxs)[1]

    def pulled(*xs: Any) -> Any:
        return wg.vjp(f, *xs)[1](g)

    def total(parts: Any, others: Any) -> Any:
        return sum(dot(part, other) for part, other in zip(parts, others, strict=True))

    yield dot(g, wg.jvp(pushed, xs, es)[1])
    yield total(wg.jvp(pulled, xs, es)[1], dxs)
    yield total(wg.vjp(pushed, *xs)[1](g), es)
    yield total(wg.vjp(pulled, *xs)[1](tuple(dxs)), es)


def all_nestings_are_duals_of_duals(op: Op, params: Any, xs: Any, dxs: Any, es: Any, g: Any) -> Sides:
    """The four ways to nest forward and backward mode give the mixed tangent of the forward rule."""

    def f(*xs: Any) -> Any:
        return op.forward(params, *xs)

    return list(nestings(f, xs, dxs, es, g)), [dot(g, by_duals(f, xs, dxs, es))] * 4
