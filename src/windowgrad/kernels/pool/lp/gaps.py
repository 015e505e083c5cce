"""Cells that no window sees: their gradient is 0, whatever they are."""

from __future__ import annotations

import numpy as np

from windowgrad.caches import keep
from windowgrad.geometry import Geometry
from windowgrad.kernels.arrays import Array
from windowgrad.params import LpParams


def gaps(geometry: Geometry, spatial: tuple[int, ...]) -> tuple[tuple[int, Array], ...]:
    """Of each axis with cells that no window sees: the axis, counted from the last, and those cells."""
    found = []
    for axis, (n, table) in enumerate(zip(spatial, geometry.tables(spatial), strict=True)):
        seen = np.zeros((n // table.step + 2, table.step), np.int64)  # row by row, every `step`-th cell is in the same column
        np.add.at(seen.reshape(-1), table.start, 1)
        np.add.at(seen.reshape(-1), table.start + table.count * table.step, -1)
        unseen = np.flatnonzero(seen.cumsum(axis=0).reshape(-1)[:n] == 0)
        if unseen.size:
            found.append((axis - len(spatial), unseen))
    return tuple(found)


kept_gaps = keep(gaps)


def has_gaps(params: LpParams, shape: tuple[int, ...]) -> bool:
    spatial = shape[len(shape) - params.geometry.rank :]
    return bool(kept_gaps(sum(spatial), params.geometry, spatial))


def without_gaps(params: LpParams, gx: Array) -> Array:
    """A cell that no window sees weighs nothing, were it infinite."""
    spatial = gx.shape[gx.ndim - params.geometry.rank :]
    for axis, unseen in kept_gaps(sum(spatial), params.geometry, spatial):
        gx.swapaxes(axis, 0)[unseen] = 0
    return gx
