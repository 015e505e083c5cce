"""Max unpooling and its derivatives on NumPy numbers.

The flat place of each cell is computed once. Where no index comes twice, cells are copied there. Otherwise "last" finds for
each place the greatest number of a cell that goes there, which does not depend on the order in which NumPy visits them.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from windowgrad.dtypes import derivative_of, float_of
from windowgrad.geometry import place_of
from windowgrad.kernels.arrays import Array
from windowgrad.params import UnpoolParams, out_of_range


def routes(params: UnpoolParams, indices: Array) -> tuple[tuple[int, ...], Array, Array]:
    """(shape of the output, numbers of the cells that arrive, their flat places), cells in row-major order.

    With `duplicates="last"` no place comes twice.
    """
    out = params.out_shape(indices.shape, indices.shape)
    lead = indices.ndim - params.window.rank
    plane, cells = prod(out[lead:]), prod(indices.shape[lead:])
    flat = np.ascontiguousarray(indices).reshape(-1)
    dropped = flat == -1 if flat.dtype.kind == "i" else np.zeros(flat.shape, bool)
    wrong = (flat >= plane) | ((flat < 0) & ~dropped)
    if wrong.any():
        first = int(wrong.argmax())
        raise out_of_range(place_of(first, indices.shape), int(flat[first]), out[lead:])
    numbers = np.flatnonzero(~dropped)
    places = flat[numbers].astype(np.int64) + numbers // max(cells, 1) * plane
    if params.duplicates == "last":
        owner = np.full(prod(out), -1, np.int64)
        owner[places] = numbers
        if (owner[places] != numbers).any():  # some place comes twice
            np.maximum.at(owner, places, numbers)
        places = np.flatnonzero(owner >= 0)
        numbers = owner[places]
    return out, numbers, places


def placed(params: UnpoolParams, x: Array, indices: Array) -> Array:
    out, numbers, places = routes(params, indices)
    cells = x.reshape(-1)[numbers]
    if params.duplicates == "last":
        y = np.zeros(prod(out), x.dtype)
        y[places] = cells
        return y.reshape(out)
    wide = np.dtype(np.float32) if x.dtype.kind not in "biu" and x.dtype.itemsize == 2 else x.dtype
    y = np.zeros(prod(out), wide)
    np.add.at(y, places, cells.astype(wide))
    return y.astype(x.dtype, copy=False).reshape(out)


def unpool_forward(params: UnpoolParams, x: Array, indices: Array) -> Array:
    return placed(params, x, indices)


def unpool_jvp(params: UnpoolParams, x: Array, indices: Array, dx: Array, dindices: Array) -> Array:
    return placed(params, dx.astype(derivative_of(x.dtype, dx.dtype)), indices)


def unpool_vjp(
    params: UnpoolParams, x: Array, indices: Array, g: Array, needs: Sequence[bool] = (True, True)
) -> tuple[Array | None, Array | None]:
    gx = None
    if needs[0]:
        _, numbers, places = routes(params, indices)
        gx = np.zeros(x.size, derivative_of(x.dtype, g.dtype))
        gx[numbers] = g.reshape(-1)[places]
        gx = gx.reshape(x.shape)
    return gx, np.zeros(indices.shape, float_of(g.dtype)) if needs[1] else None
