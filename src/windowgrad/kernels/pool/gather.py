"""The cells of windows as NumPy arrays, for what has no kernel of its own: tap by tap for all windows, or window by window.

Which takes fewer steps depends on the geometry (`is_shallow`); both visit the cells of a window in row-major order.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce
from itertools import product
from math import prod
from typing import Any

import numpy as np

from windowgrad.geometry import Cell, Geometry
from windowgrad.kernels.arrays import Array

Spatial = tuple[int, ...]


def windows_of(geometry: Geometry, spatial: Spatial) -> tuple[int, ...]:
    """How many windows there are along each axis, 1 along those that are removed."""
    return tuple(len(table.count) for table in geometry.tables(spatial))


def is_shallow(geometry: Geometry, spatial: Spatial) -> bool:
    """Whether there are at least as many windows as taps in the largest of them."""
    tables = geometry.tables(spatial)
    return prod(int(t.count.max()) for t in tables) <= prod(len(t.count) for t in tables)


def by_taps(geometry: Geometry, spatial: Spatial) -> Iterator[tuple[Any, Array]]:
    """For each tap (where its cell is in the plane, for every window; for which windows it is there)."""
    tables = geometry.tables(spatial)
    for tap in product(*(range(int(t.count.max())) for t in tables)):
        index = [t.start + t.step * np.clip(i, 0, np.maximum(t.count - 1, 0)) for i, t in zip(tap, tables, strict=True)]
        there = [i < t.count for i, t in zip(tap, tables, strict=True)]
        yield (..., *np.ix_(*index)), outer(np.logical_and, there)


def by_windows(geometry: Geometry, spatial: Spatial) -> Iterator[tuple[Cell, Any]]:
    """For each window (its place, where its cells are in the plane)."""
    tables = geometry.tables(spatial)
    for o in np.ndindex(*windows_of(geometry, spatial)):
        rows = [(int(t.start[i]), int(t.count[i]), t.step) for i, t in zip(o, tables, strict=True)]
        yield o, (..., *(slice(start, start + step * count, step) for start, count, step in rows))


def in_a_row(block: Array, rank: int) -> Array:
    """The cells of a window along one axis, also where there are none."""
    lead = block.ndim - rank
    return block.reshape(*block.shape[:lead], prod(block.shape[lead:]))


def real_cells(geometry: Geometry, spatial: Spatial) -> Array:
    """How many real cells each window has."""
    return outer(np.multiply, [t.count for t in geometry.tables(spatial)])


def padded_cells(geometry: Geometry, spatial: Spatial) -> Array:
    """How many padded cells each window covers besides."""
    covered = outer(np.multiply, [t.count + t.padded for t in geometry.tables(spatial)])
    return np.asarray(covered - real_cells(geometry, spatial))


def outer(function: np.ufunc, sides: list[Array]) -> Array:
    return np.asarray(reduce(function.outer, sides))
