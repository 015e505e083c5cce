"""Rules of operators whose value is that of one cell of the window, its winner. `wins(a, b)` is the order: whether a beats b.

Padded cells are absent. Equal cells go by `ties`. No cell at all gives 0, and has no winner.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from windowgrad.geometry import Cell
from windowgrad.params import MaxParams, no_cell
from windowgrad.spec.order import check_order
from windowgrad.spec.scalar import Array, cells, divide, same, windows, zeros

Wins = Callable[[Any, Any], bool]
Winner = Callable[[Array, Iterable[Cell]], Cell | None]


def winner(x: Array, taps: Iterable[Cell], wins: Wins, own: str) -> Cell | None:
    """The tap whose value none beats, the first in row-major order among equals; None if there is no tap."""
    taps = list(taps)
    if not taps:
        return None
    best = taps[0]
    for tap in taps[1:]:
        if wins(x[tap], x[best]):  # the tie rule is this strict comparison, and nothing else
            best = tap
    check_order(x[best], (x[tap] for tap in taps), own)
    return best


def winners(x: Array, taps: list[Cell], ties: str, winner: Winner) -> list[Cell]:
    """The taps that get the derivative: the first winner, or all that equal it."""
    best = winner(x, taps)
    if best is None:
        return []
    return [best] if ties == "first" else [tap for tap in taps if same(x[tap], x[best])]


def share(amount: Any, among: list[Cell], ties: str) -> Any:
    """What one winner counts for: all of it, or an even part when ties are split."""
    return divide(amount, len(among)) if ties == "split" else amount


def forward(params: MaxParams, x: Any, value: Callable[[Array, list[Cell]], Any]) -> Array:
    x = cells(x)
    params.check(x.shape)  # empty="raise" refuses here
    y = zeros(params.out_shape(x.shape), like=x)
    for window in windows(params.geometry, x.shape, params.where):
        if not window.taps and params.empty == "raise":
            raise no_cell(window.out)
        y[window.out] = value(x, window.taps)
    return y


def indices(params: MaxParams, x: Any, winner: Winner) -> Array:
    """The flat index of each window's first winner in the spatial plane (−1 if there is no cell)."""
    x = cells(x)
    lead, spatial = params.geometry.split(x.shape)
    index = np.full(params.out_shape(x.shape), -1, dtype=np.int64)
    for window in windows(params.geometry, x.shape, params.where):
        best = winner(x, window.taps)
        if best is not None:
            index[window.out] = np.ravel_multi_index(best[len(lead) :], spatial)
    return index


def jvp(params: MaxParams, x: Any, dx: Any, winner: Winner) -> Array:
    """The tangent at the winner; with several winners their sum ("all") or their mean ("split")."""
    x, dx = cells(x), cells(dx)
    params.check(x.shape)
    dy = zeros(params.out_shape(x.shape), like=dx)
    for window in windows(params.geometry, x.shape, params.where):
        among = winners(x, window.taps, params.ties, winner)
        for tap in among:
            dy[window.out] += share(dx[tap], among, params.ties)
    return dy


def vjp(params: MaxParams, x: Any, g: Any, winner: Winner) -> tuple[Array]:
    """The gradient goes to the winner; with several winners all of it to each ("all") or an even part ("split")."""
    x, g = cells(x), cells(g)
    params.check(x.shape)
    gx = zeros(x.shape, like=g)
    for window in windows(params.geometry, x.shape, params.where):
        among = winners(x, window.taps, params.ties, winner)
        for tap in among:
            gx[tap] += share(g[window.out], among, params.ties)
    return (gx,)
