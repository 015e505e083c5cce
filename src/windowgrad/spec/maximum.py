"""Maximum over a region. Padded cells are absent. Ties go by `ties`; NaN is the greatest value; no cell at all gives 0."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from windowgrad.geometry import Cell
from windowgrad.params import MaxParams
from windowgrad.spec.op import Op
from windowgrad.spec.order import check_order, extreme
from windowgrad.spec.scalar import Array, cells, divide, greater, same, windows, zero_of, zeros


def winner(x: Array, taps: Iterable[Cell]) -> Cell | None:
    """The tap whose value is the greatest, the first in row-major order among equals; None if there is no tap."""
    taps = list(taps)
    if not taps:
        return None
    best = taps[0]
    for tap in taps[1:]:
        if greater(x[tap], x[best]):  # the tie rule is this strict comparison, and nothing else
            best = tap
    check_order(x[best], (x[tap] for tap in taps))
    return best


def value(x: Array, taps: Iterable[Cell]) -> Any:
    """The greatest value; 0 if there is no tap. Cells without a winner may have a maximum of their own."""
    among = [x[tap] for tap in taps]
    return extreme(among, greater, "max") if among else zero_of(x)


def winners(x: Array, taps: list[Cell], ties: str) -> list[Cell]:
    """The taps that stand for the maximum: the first one, or all that equal it."""
    best = winner(x, taps)
    if best is None:
        return []
    return [best] if ties == "first" else [tap for tap in taps if same(x[tap], x[best])]


def share(amount: Any, among: list[Cell], ties: str) -> Any:
    """What one winner counts for: all of it, or an even part when ties are split."""
    return divide(amount, len(among)) if ties == "split" else amount


def forward(params: MaxParams, x: Any) -> Array:
    x = cells(x)
    params.check(x.shape)  # empty="raise" refuses here
    y = zeros(params.out_shape(x.shape), like=x)
    for window in windows(params.geometry, x.shape):
        y[window.out] = value(x, window.taps)
    return y


def with_indices(params: MaxParams, x: Any) -> tuple[Array, Array]:
    """The maximum, and the flat index of its first winner in the spatial plane (−1 if there is no cell)."""
    x = cells(x)
    lead, spatial = params.geometry.split(x.shape)
    index = np.full(params.out_shape(x.shape), -1, dtype=np.int64)
    for window in windows(params.geometry, x.shape):
        best = winner(x, window.taps)
        if best is not None:
            index[window.out] = np.ravel_multi_index(best[len(lead) :], spatial)
    return forward(params, x), index


def jvp(params: MaxParams, x: Any, dx: Any) -> Array:
    """The tangent at the winner; with several winners their sum ("all") or their mean ("split")."""
    x, dx = cells(x), cells(dx)
    params.check(x.shape)
    dy = zeros(params.out_shape(x.shape), like=dx)
    for window in windows(params.geometry, x.shape):
        among = winners(x, window.taps, params.ties)
        for tap in among:
            dy[window.out] += share(dx[tap], among, params.ties)
    return dy


def vjp(params: MaxParams, x: Any, g: Any) -> tuple[Array]:
    """The gradient goes to the winner; with several winners all of it to each ("all") or an even part ("split")."""
    x, g = cells(x), cells(g)
    params.check(x.shape)
    gx = zeros(x.shape, like=g)
    for window in windows(params.geometry, x.shape):
        among = winners(x, window.taps, params.ties)
        for tap in among:
            gx[tap] += share(g[window.out], among, params.ties)
    return (gx,)


OP = Op(name="max_pool", params=MaxParams, forward=forward, jvp=jvp, vjp=vjp, with_indices=with_indices, exact=True)
