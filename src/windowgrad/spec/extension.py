"""Cells around the last axes: a constant, or the cells inside, reflected, repeated from the edge, or continued periodically."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np

from windowgrad.geometry import Cell
from windowgrad.params import ExtendParams
from windowgrad.spec.op import Op
from windowgrad.spec.scalar import Array, cells, zero_of, zeros


def source(mode: str, n: int, place: int) -> int | None:
    """Which of n cells is seen at a place, where the cells have the places 0 to n − 1; None: no cell, but the constant."""
    if 0 <= place < n:
        return place
    if mode == "circular":
        return place % n
    if mode == "replicate" or (mode == "reflect" and n == 1):  # as NumPy has it: one cell reflects to itself
        return 0 if place < 0 else n - 1
    if mode == "reflect":  # the cell at the edge is not seen twice
        place %= 2 * (n - 1)
        return min(place, 2 * (n - 1) - place)
    return None


def seen(params: ExtendParams, shape: tuple[int, ...]) -> Iterator[tuple[Cell, Cell | None]]:
    """Every cell of the output in row-major order, with the cell of an input of `shape` that is seen there."""
    lead = len(shape) - len(params.padding)
    sides: list[list[int | None]] = [list(range(n)) for n in shape[:lead]]
    for n, (lo, hi) in zip(shape[lead:], params.padding, strict=True):
        sides.append([source(params.mode, n, place) for place in range(-lo, n + hi)])
    for out, cell in zip(np.ndindex(*map(len, sides)), product(*sides), strict=True):
        yield out, None if None in cell else cell  # type: ignore[misc]  # mypy cannot see that none is None


def extended(params: ExtendParams, x: Array, around: Any) -> Array:
    """x with its border; where no cell of x is seen, `around`."""
    y = np.empty(params.out_shape(x.shape), dtype=object)
    for out, cell in seen(params, x.shape):
        y[out] = around if cell is None else x[cell]
    return y


def forward(params: ExtendParams, x: Any) -> Array:
    x = cells(x)
    return extended(params, x, zero_of(x) + params.value)


def jvp(params: ExtendParams, x: Any, dx: Any) -> Array:
    """The border of the tangent; a constant does not move."""
    dx = cells(dx)
    return extended(params, dx, zero_of(dx))


def vjp(params: ExtendParams, x: Any, g: Any) -> tuple[Array]:
    """Each cell gets the sum of the gradients of all places it is seen at."""
    g = cells(g)
    gx = zeros(cells(x).shape, like=g)
    for out, cell in seen(params, gx.shape):
        if cell is not None:
            gx[cell] += g[out]
    return (gx,)


OP = Op(name="extend", params=ExtendParams, forward=forward, jvp=jvp, vjp=vjp, exact=True)
