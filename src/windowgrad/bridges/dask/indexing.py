"""x[key] of Dask arrays and its adjoint, axis by axis, so that every step stays lazy and in chunks."""

from __future__ import annotations

from functools import partial
from typing import Any

import dask.array as da
import numpy as np
from dask.base import tokenize

from windowgrad.errors import KindError
from windowgrad.spec import scalar
from windowgrad.spec.op import Op

Array = Any
"""A Dask array; Dask has few types."""
da_: Any = da
Key = tuple[Any, ...]
"""A key as NumPy takes it, with one entry for each axis."""


def indexed(op: Op, params: Any, x: Array) -> Array:
    """First what is basic, then the array of integers, along its axis."""
    place, rows = the_rows(params.raw)
    key = bounded(params.raw, x.shape)
    if rows is None:
        return x[key]
    basic = tuple(slice(None) if entry is rows else entry for entry in key)
    axis = axes_before(params.raw, place)
    return da_.moveaxis(da_.take(x[basic], rows, axis=axis), axis, front_of(params.raw, place))


def scattered(op: Op, params: Any, g: Array) -> Array:
    """Each axis of the key in turn, from the last: an axis of g becomes one of x again, with zeros where the key is not."""
    key = params.index.raw
    place, rows = the_rows(key)
    if rows is not None:
        g = da_.moveaxis(g, front_of(key, place), axes_before(key, place))
    own, axis = g.ndim, len(params.shape)
    for entry in reversed(key):
        if entry is Ellipsis:  # which stands for no axis
            continue
        if entry is None:
            own -= 1
            g = g[(slice(None),) * own + (0,)]
            continue
        axis -= 1
        size = params.shape[axis]
        if isinstance(entry, int):
            g = widened(g[(slice(None),) * own + (None,)], own, [entry % size], size)
            continue
        own -= 1
        is_cut = isinstance(entry, slice)
        g = widened(g, own, list(range(*entry.indices(size))), size) if is_cut else added_at(g, own, entry, size)
    return g


def bounded(key: Key, shape: tuple[int, ...]) -> Key:
    """The key with slices whose ends are cells: Dask takes some that begin outside of the axis for others."""
    sizes, found = iter(shape), []
    for entry in key:
        size = next(sizes) if entry is not None and entry is not Ellipsis else 0
        cells = range(*entry.indices(size)) if isinstance(entry, slice) else None
        if cells is None:
            found.append(entry)
        elif not cells:
            found.append(slice(0, 0))
        else:
            end = cells[-1] + (1 if cells.step > 0 else -1)
            found.append(slice(cells[0], end if end >= 0 else None, cells.step))
    return tuple(found)


def the_rows(key: Key) -> tuple[int, Any]:
    """The one array of integers in a key, and its place; None if there is none."""
    found = [(place, entry) for place, entry in enumerate(key) if isinstance(entry, np.ndarray)]
    if not found:
        return 0, None
    if len(found) > 1 or found[0][1].ndim != 1:
        raise KindError("index: on a Dask array at most one array of integers, with one axis, is supported; index in steps")
    return found[0]


def axes_before(key: Key, place: int) -> int:
    """How many axes of the result come before that of the entry at `place`, if none goes to the front."""
    return sum(not isinstance(entry, int) and entry is not Ellipsis for entry in key[:place])


def front_of(key: Key, place: int) -> int:
    """Where NumPy puts the axis of an array of integers: in front if it is apart from the integers of the key."""
    advanced = [i for i, entry in enumerate(key) if isinstance(entry, (int, np.ndarray))]
    return axes_before(key, place) if advanced[-1] - advanced[0] + 1 == len(advanced) else 0


def widened(g: Array, axis: int, places: list[int], size: int) -> Array:
    """g at `places` of an axis of `size` cells, and zeros elsewhere."""
    if places == list(range(size)):
        return g
    nought = zeros_of(g, (*g.shape[:axis], 1, *g.shape[axis + 1 :]), axis)
    if places and places == list(range(places[0], places[-1] + 1)):
        before, after = places[0], size - places[-1] - 1
        parts = [da_.repeat(nought, n, axis=axis) for n in (before, after)]
        return da_.concatenate([part for part in (parts[0], g, parts[1]) if part.shape[axis]], axis=axis)
    where = np.full(size, len(places))
    where[places] = np.arange(len(places))
    return da_.take(da_.concatenate([g, nought], axis=axis), where, axis=axis)


def zeros_of(g: Array, shape: tuple[int, ...], axis: int) -> Array:
    """Zeros of the same kind as the cells of g, cut as it is on the other axes."""
    chunks = (*g.chunks[:axis], (1,), *g.chunks[axis + 1 :])
    if g.dtype != object or not g.shape[axis]:
        return da_.zeros(shape, chunks=chunks, dtype=g.dtype)
    first = g[(slice(None),) * axis + (slice(0, 1),)]
    return first.map_blocks(np.frompyfunc(scalar.zero_like, 1, 1), dtype=object)


def added_at(g: Array, axis: int, rows: Any, size: int) -> Array:
    """The cells of an axis added up at `rows` of an axis of `size` cells. That axis is one chunk."""
    names = tuple(range(g.ndim))
    return da_.blockwise(
        partial(add_block, axis, rows, size),
        names,
        g.rechunk({axis: -1}),
        names,
        adjust_chunks={axis: size},
        name=f"scatter-{tokenize(g.name, axis, rows, size)}",
        meta=np.empty((0,) * g.ndim, g.dtype),
    )


def add_block(axis: int, rows: Any, size: int, g: Any) -> Any:
    shape = (*g.shape[:axis], size, *g.shape[axis + 1 :])
    y = scalar.zeros(shape, like=g) if g.dtype == object else np.zeros(shape, np.float32 if g.dtype == np.float16 else g.dtype)
    np.add.at(y, (slice(None),) * axis + (rows,), g)
    return y.astype(g.dtype, copy=False)
