"""Max unpooling: each cell goes to the place its index says, all other places are 0. It undoes a maximum with indices.

An index counts the cells of an output plane in row-major order; −1 is dropped. Of several cells with the same index the last
in row-major order is kept and alone gets the gradient (`duplicates="last"`), or they are added ("add"), which is the adjoint
of taking.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import Any

import numpy as np

from windowgrad.geometry import Cell, place_of
from windowgrad.params import UnpoolParams, out_of_range
from windowgrad.spec.op import Op
from windowgrad.spec.scalar import Array, cells, zeros


def sent(params: UnpoolParams, indices: Array) -> Iterator[tuple[Cell, Cell]]:
    """(cell of the input, its place in the output) for every cell that arrives, in row-major order."""
    out = params.out_shape(indices.shape, indices.shape)
    lead = len(out) - params.window.rank
    arrived: dict[Cell, Cell] = {}
    for cell in np.ndindex(*indices.shape):
        index = int(indices[cell])
        if index == -1:
            continue
        if not 0 <= index < prod(out[lead:]):
            raise out_of_range(cell, index, out[lead:])
        target = cell[:lead] + place_of(index, out[lead:])
        if params.duplicates == "add":
            yield cell, target
        arrived[target] = cell
    if params.duplicates == "last":
        yield from ((cell, target) for target, cell in arrived.items())


def forward(params: UnpoolParams, x: Any, indices: Any) -> Array:
    x = cells(x)
    y = zeros(params.out_shape(x.shape, indices.shape), like=x)
    for cell, target in sent(params, np.asarray(indices)):
        y[target] += x[cell]
    return y


def jvp(params: UnpoolParams, x: Any, indices: Any, dx: Any, dindices: Any) -> Array:
    """It is linear in x: the tangents go where the cells go. An index does not move."""
    return forward(params, dx, indices)


def vjp(params: UnpoolParams, x: Any, indices: Any, g: Any) -> tuple[Array, Array]:
    """Each cell gets the gradient of its place; one that was dropped or replaced gets 0."""
    g = cells(g)
    gx = zeros(cells(x).shape, like=g)
    for cell, target in sent(params, np.asarray(indices)):
        gx[cell] += g[target]
    return gx, zeros(gx.shape, like=g)


OP = Op(name="max_unpool", params=UnpoolParams, forward=forward, jvp=jvp, vjp=vjp, exact=True, inputs=("x", "indices"))
