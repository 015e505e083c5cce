"""Any reduction over any windows, on NumPy arrays of anything."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np

from windowgrad.arguments import is_masked
from windowgrad.checks import check_array
from windowgrad.errors import KindError, WindowError, WindowgradError, show
from windowgrad.functional.call import show_call
from windowgrad.geometry import Geometry
from windowgrad.kernels.pool.gather import by_taps, by_windows, in_a_row, is_shallow, real_cells

__all__ = ["reduce_windows"]

Array = np.ndarray[Any, Any]


def reduce_windows(x: Any, geometry: Geometry, f: Callable[[Any, Any], Any], init: Any = None) -> Any:
    """The cells of each window folded by f, from the first to the last in row-major order: f(f(f(init, a), b), c).

    Padded cells are absent. It has no derivative. A NumPy function of two arguments (`np.add`, `np.maximum`) is called on whole
    arrays, in the same order, so the bits are those of a fold cell by cell.

    Arguments:
        x: a NumPy array (…, *spatial) of any dtype, objects and strings included; all axes before these are batch.
        geometry: the windows: `Sliding`, `Adaptive` or `Global`, which keeps its axes or removes them (`keepdims`).
        f: a function of what was found so far and the next cell.
        init: what to begin with; None begins with the first cell, and then every window must have one.

    Returns an array (…, *windows): of objects if x is, else of NumPy's dtype for the results. A NumPy function computes in the
    dtype of its own `reduce`: integers of 8 bits are added in int64.

    >>> wg.reduce_windows(np.array([1, 2, 3, 4]), wg.geometry.Sliding((2,)), lambda a, b: 10 * a + b).tolist()
    [12, 34]
    """
    try:
        check(x, geometry, f)
        lead, spatial = geometry.split(x.shape)
        shape = lead + geometry.grid(spatial)
        if init is None:
            check_windows(geometry, spatial)
        if not isinstance(f, np.ufunc):
            found = folded(x, geometry, f, init).reshape(shape)
            return found if x.dtype == object else narrowed(found)
        if x.dtype.kind in "USTmM":  # NumPy would cut longer strings off
            return narrowed(by_ufunc(x.astype(object), geometry, f, init).reshape(shape))
        return by_ufunc(x, geometry, f, init).reshape(shape)
    except WindowgradError as error:
        show_call(error, reduce_windows, locals())
        raise


def check(x: Any, geometry: Any, f: Any) -> None:
    if hasattr(type(x), "__windowgrad__"):
        raise KindError(f"x: reduce_windows has no derivative, so it does not take a {type(x).__name__}; use x.value")
    if not isinstance(x, np.ndarray) or is_masked(x):
        check_array("x", x)
    if not isinstance(geometry, Geometry):
        raise KindError(f"geometry={show(geometry)}: must be Sliding, Adaptive or Global")
    if not callable(f):
        raise KindError(f"f={show(f)}: must be a function of two arguments, not {type(f).__name__}")
    if isinstance(f, np.ufunc) and (f.nin, f.nout, f.signature) != (2, 1, None):
        raise KindError(f"f={show(f)}: must be a function of two arguments with one result")


def check_windows(geometry: Geometry, spatial: tuple[int, ...]) -> None:
    """Refuse windows without a cell: there is nothing to begin with."""
    counts = real_cells(geometry, spatial)
    if counts.size and not counts.all():
        window = tuple(int(i) for i in np.argwhere(counts == 0)[0])
        raise WindowError(f"init=None: window {show(window)} covers no cell of the input; give a value to begin with")


def folded(x: Array, geometry: Geometry, f: Callable[[Any, Any], Any], init: Any) -> Array:
    """Cell by cell, as an array of objects."""
    lead, spatial = geometry.split(x.shape)
    windows = list(by_windows(geometry, spatial))
    found = np.empty((*lead, len(windows)), dtype=object)
    with np.errstate(all="ignore"):
        for number, (_, cells) in enumerate(windows):
            block = in_a_row(x[cells], geometry.rank)
            for n in np.ndindex(*lead):
                found[(*n, number)] = reduce(f, block[n]) if init is None else reduce(f, block[n], init)
    return found


def narrowed(found: Array) -> Array:
    """Objects as an array of NumPy's dtype for them, if they have one; results that are sequences stay objects."""
    try:
        plain = np.array(found.reshape(-1).tolist())
    except ValueError:  # sequences of several lengths
        return found
    return plain.reshape(found.shape) if plain.ndim == 1 and plain.dtype != object and found.size else found


@np.errstate(all="ignore")
def by_ufunc(x: Array, geometry: Geometry, f: np.ufunc, init: Any) -> Array:
    """The same by a NumPy function on whole arrays."""
    try:
        dtype = np.dtype(object) if x.dtype == object else np.asarray(f.reduce(np.zeros(1, x.dtype))).dtype
        given = dtype if init is None or dtype.kind == "O" else np.result_type(dtype, init)
        x = x.astype(given, copy=False)
        return (
            tap_by_tap(x, geometry, f, init)
            if is_shallow(geometry, geometry.split(x.shape)[1])
            else (window_by_window(x, geometry, f, init))
        )
    except TypeError as error:
        raise KindError(f"f={show(f)}: cannot reduce x of dtype {x.dtype}: {error}") from None


def tap_by_tap(x: Array, geometry: Geometry, f: np.ufunc, init: Any) -> Array:
    lead, spatial = geometry.split(x.shape)
    found: Any = None
    if init is not None:
        found = np.empty(lead + real_cells(geometry, spatial).shape, x.dtype)
        found[...] = init
    for cells, there in by_taps(geometry, spatial):
        found = x[cells] if found is None else np.where(there, f(found, x[cells]), found)
    return np.asarray(found)


def window_by_window(x: Array, geometry: Geometry, f: np.ufunc, init: Any) -> Array:
    """`accumulate` goes from the first cell to the last; `reduce` adds in an order of its own."""
    lead, spatial = geometry.split(x.shape)
    found = np.empty(lead + real_cells(geometry, spatial).shape, x.dtype)
    for o, cells in by_windows(geometry, spatial):
        block = in_a_row(x[cells], geometry.rank)
        at: Any = (..., *o)
        if init is not None:
            first = np.empty((*lead, 1), x.dtype)
            first[...] = init
            block = np.concatenate([first, block], -1)
        found[at] = f.accumulate(block, -1)[..., -1]
    return found
