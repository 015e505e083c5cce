"""Maximum over a region. Padded cells are absent. Ties go by `ties`; NaN is the greatest value; no cell at all gives 0."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from windowgrad.geometry import Cell
from windowgrad.params import MaxParams
from windowgrad.spec.op import Op
from windowgrad.spec.scalar import Array, cells, divide, greater, windows, zeros


def winner(x: Array, taps: Iterable[Cell]) -> Cell:
    """The tap whose value is the greatest, the first in row-major order among equals."""
    taps = iter(taps)
    best = next(taps)
    for tap in taps:
        if greater(x[tap], x[best]):  # the tie rule is this strict comparison, and nothing else
            best = tap
    return best


def winners(x: Array, taps: list[Cell], ties: str) -> list[Cell]:
    """The taps that stand for the maximum: the first one, or all that equal it."""
    if not taps:
        return []
    best = winner(x, taps)
    return [best] if ties == "first" else [tap for tap in taps if not greater(x[best], x[tap])]


def share(amount: Any, among: list[Cell], ties: str) -> Any:
    """What one winner counts for: all of it, or an even part when ties are split."""
    return divide(amount, len(among)) if ties == "split" else amount


def forward(params: MaxParams, x: Any) -> Array:
    x = cells(x)
    y = zeros(params.out_shape(x.shape), like=x)
    for o, taps, _ in windows(params.geometry, x.shape):
        if taps:
            y[o] = x[winner(x, taps)]
    return y


def with_indices(params: MaxParams, x: Any) -> tuple[Array, Array]:
    """The maximum, and the flat index of its first winner in the spatial plane (−1 if there is no cell)."""
    x = cells(x)
    _, spatial = params.geometry.split(x.shape)
    index = np.full(params.out_shape(x.shape), -1, dtype=np.int64)
    for o, taps, _ in windows(params.geometry, x.shape):
        if taps:
            index[o] = np.ravel_multi_index(winner(x, taps)[-len(spatial) :], spatial)
    return forward(params, x), index


def jvp(params: MaxParams, x: Any, dx: Any) -> Array:
    """The tangent at the winner; with several winners their sum ("all") or their mean ("split")."""
    x, dx = cells(x), cells(dx)
    dy = zeros(params.out_shape(x.shape), like=dx)
    for o, taps, _ in windows(params.geometry, x.shape):
        among = winners(x, taps, params.ties)
        for tap in among:
            dy[o] += share(dx[tap], among, params.ties)
    return dy


def vjp(params: MaxParams, x: Any, g: Any) -> tuple[Array]:
    """The gradient goes to the winner; with several winners all of it to each ("all") or an even part ("split")."""
    x, g = cells(x), cells(g)
    gx = zeros(x.shape, like=g)
    for o, taps, _ in windows(params.geometry, x.shape):
        among = winners(x, taps, params.ties)
        for tap in among:
            gx[tap] += share(g[o], among, params.ties)
    return (gx,)


OP = Op(name="max_pool", params=MaxParams, forward=forward, jvp=jvp, vjp=vjp, with_indices=with_indices, exact=True)
