"""Minimum over NumPy numbers: the maximum of the cells with their order reversed, and the result turned back.

~x reverses the order of every integer, the least one and those without a sign too, without overflow, and is `not` for bool;
−x reverses that of floats and leaves NaN what it is, so NaN wins as in a maximum. A derivative only needs the winners, and
those are the same: tangents and gradients are not touched. The copy of x that this takes is read once more than a kernel of
its own would; a window without a real cell is 0 after the order is turned back, not before.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from windowgrad.dtypes import is_float
from windowgrad.geometry import Adaptive, Geometry, Global, Sliding
from windowgrad.kernels.arrays import Array
from windowgrad.kernels.pool.max import entry, long_rows
from windowgrad.kernels.runtime.buffers import empty
from windowgrad.kernels.runtime.threads import run
from windowgrad.params import AT_ONCE, MinParams, PoolParams


def min_forward(params: MinParams, x: Array, out: Array | None = None) -> Array:
    return turned_back(params, x, entry.max_forward(params, reverse(x), out))


def min_with_indices(params: MinParams, x: Array, out: tuple[Array | None, Array | None] = (None, None)) -> tuple[Array, Array]:
    y, index = entry.max_with_indices(params, reverse(x), out)
    return turned_back(params, x, y), index


def min_jvp(params: MinParams, x: Array, dx: Array) -> Array:
    return entry.max_jvp(params, reverse(x), dx)


def min_pushing(params: MinParams, x: Array, dx: Array) -> tuple[Array, Array] | None:
    found = entry.max_pushing(params, reverse(x), dx)
    return found and (turned_back(params, x, found[0]), found[1])


def min_vjp(params: MinParams, x: Array, g: Array, saved: Array | None = None) -> tuple[Array]:
    """What is saved says which cells won; of several winners it matters which cells are equal, not their order."""
    if saved is not None:
        if params.ties == "first" and (gx := long_rows.gradient(params.geometry, x, g, saved)) is not None:
            return (gx,)
        saved = saved if entry.uses_saved(params, x, g) else None
    return entry.max_vjp(params, reverse(x) if saved is None else x, g, saved)


def min_saving(params: MinParams, x: Array) -> tuple[Array, Array]:
    y, saved = entry.max_saving(params, reverse(x))
    return turned_back(params, x, y), saved


def min_saves(params: MinParams, *kinds: entry.Kind) -> entry.Kind | None:
    return entry.max_saves(params, *kinds)


def reverse(x: Array, out: Array | None = None) -> Array:
    """The cells as numbers of the same dtype in the reverse order, in new memory laid out as theirs, or in `out`."""
    change: Any = np.negative if is_float(x.dtype) else np.invert
    if out is None and not x.flags.c_contiguous:
        order = sorted(range(x.ndim), key=lambda axis: -x.strides[axis])
        if (stored := x.transpose(order)).flags.c_contiguous:  # channels last
            return reverse(stored).transpose(np.argsort(order))
    if out is None:
        out = empty(x.shape, x.dtype) if x.flags.c_contiguous else np.empty_like(x)
    if not (x.flags.c_contiguous and out.flags.c_contiguous):
        change(x, out=out)
        return out
    cells, places = x.reshape(-1), out.reshape(-1)
    run(lambda first, last: change(cells[first:last], out=places[first:last]), x.size, x.nbytes)
    return out


def turned_back(params: PoolParams, x: Array, y: Array) -> Array:
    """The result in the order of x, 0 where a window has no real cell."""
    reverse(y, y)
    geometry = params.geometry
    for axis, outputs in without_cells(geometry, x.shape[x.ndim - geometry.rank :]):
        places: Any = (..., outputs, *(slice(None),) * (geometry.rank - 1 - axis))
        y[places] = 0
    return y


def without_cells(geometry: Geometry, spatial: tuple[int, ...]) -> Iterator[tuple[int, Array]]:
    """(axis, outputs on it) whose windows see no real cell. The windows of an axis are looked at only if there may be some."""
    for axis, n in enumerate(spatial):
        if isinstance(geometry, (Adaptive, Global)) or (isinstance(geometry, Sliding) and always_sees(geometry, axis, n)):
            continue
        (outputs,) = geometry.grid(spatial)[axis : axis + 1]
        for first in range(0, outputs, AT_ONCE):
            counts = geometry.table(axis, n, (first, min(first + AT_ONCE, outputs))).count
            if not counts.all():
                yield axis, first + np.flatnonzero(counts == 0)


def always_sees(geometry: Sliding, axis: int, n: int) -> bool:
    """Whether every window on an axis of `n` cells must see one: no side's padding holds a whole window, no step jumps over."""
    reach = geometry.dilation[axis] * (geometry.kernel[axis] - 1)
    return geometry.dilation[axis] <= n and max(geometry.padding[axis]) <= reach
