"""The smooth maximum, or the p-norm, of one region that is a whole large plane: of its chunks, and then of what these gave.

The smooth maximum of smooth maxima is that of all their cells, and the norm of norms likewise, so both steps are the operator
itself, in float64, and the derivatives follow by the chain rule. Weights are kept for a chunk at a time. `is_one_large_region`
chooses it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from windowgrad.geometry import Adaptive, Global
from windowgrad.kernels.arrays import Array
from windowgrad.kernels.pool.layout import out_shape
from windowgrad.kernels.pool.sections import SomeBins
from windowgrad.kernels.runtime.buffers import empty
from windowgrad.kernels.runtime.threads import run
from windowgrad.params import LpParams, SmoothParams

LARGE = 1 << 20
"""Cells of a plane that is cut into chunks."""

CHUNK = 1 << 17
"""Cells of a chunk."""

Rule = Callable[..., Any]
Either = SmoothParams | LpParams


def is_one_large_region(params: Either, x: Array) -> bool:
    """Whether the one output of each plane sees all of it, and that is much."""
    return is_large_region(params, x.shape)


def is_large_region(params: Either, shape: tuple[int, ...]) -> bool:
    """The same for an array of this shape."""
    geometry = params.geometry
    if math.prod(shape) < LARGE or not isinstance(geometry, (Global, Adaptive, SomeBins)):
        return False
    _, spatial = geometry.split(shape)
    return math.prod(geometry.grid(spatial)) == 1 and math.prod(spatial) >= LARGE


def planes(params: Either, x: Array) -> Array:
    """x as [planes, cells]."""
    return x.reshape(-1, math.prod(params.geometry.split(x.shape)[1]))


def over_chunks(shape: tuple[int, ...], work: Callable[[int, int, slice], None]) -> None:
    """`work(plane, number of the chunk, its cells)` for every chunk, on several threads."""
    count = -(-shape[1] // CHUNK)

    def task(first: int, last: int) -> None:
        for job in range(first, last):
            plane, number = divmod(job, count)
            work(plane, number, slice(number * CHUNK, min((number + 1) * CHUNK, shape[1])))

    run(task, shape[0] * count, 8 * math.prod(shape))


def wide(cells: Array) -> Array:
    return cells.astype(np.float64)


def tops_of(params: Either, cells: Array, rule: Rule) -> Array:
    """The smooth maximum of each chunk of each plane."""
    tops = np.empty((len(cells), -(-cells.shape[1] // CHUNK)))

    def work(plane: int, number: int, part: slice) -> None:
        tops[plane, number] = rule(params, wide(cells[plane, part]))[0]

    over_chunks(cells.shape, work)
    return tops


def of_row(params: Either) -> Either:
    return replace(params, geometry=Global(1))


def forward(params: Either, x: Array, dtype: Any, rule: Rule) -> Array:
    row = of_row(params)
    y: Array = rule(row, tops_of(row, planes(params, x), rule))
    return y.astype(dtype).reshape(out_shape(params.geometry, x.shape))


def jvp(params: Either, x: Array, dx: Array, dtype: Any, rule: Rule, push: Rule) -> Array:
    row, cells, tangents = of_row(params), planes(params, x), planes(params, dx)
    tops = tops_of(row, cells, rule)
    pushed = np.empty_like(tops)

    def work(plane: int, number: int, part: slice) -> None:
        pushed[plane, number] = push(row, wide(cells[plane, part]), wide(tangents[plane, part]))[0]

    over_chunks(cells.shape, work)
    y: Array = push(row, tops, pushed)
    return y.astype(dtype).reshape(out_shape(params.geometry, x.shape))


def vjp(params: Either, x: Array, g: Array, dtype: Any, rule: Rule, pull: Rule) -> Array:
    row, cells = of_row(params), planes(params, x)
    tops = tops_of(row, cells, rule)
    (gradients,) = pull(row, tops, wide(g.reshape(-1, 1)))
    gx = empty(cells.shape, dtype)

    def work(plane: int, number: int, part: slice) -> None:
        gx[plane, part] = pull(row, wide(cells[plane, part]), gradients[plane, number : number + 1])[0]

    over_chunks(cells.shape, work)
    return gx.reshape(x.shape)
