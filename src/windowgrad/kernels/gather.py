"""Windows by gathering: for a block of outputs and each place of the kernel, the flat index of the cell it meets."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from windowgrad.geometry import Table

Array = np.ndarray[Any, Any]

BLOCK = 1 << 21
"""How many cells are gathered at a time, so that memory stays bounded."""


def taps(
    tables: Sequence[Table], spatial: Sequence[int], kernel: Sequence[int], room: int
) -> Iterator[tuple[int, Array, Array]]:
    """(place of the kernel, outputs whose tap there is a real cell, those cells), flat, `room` cells of a block at a time."""
    grid, width = tuple(len(t.start) for t in tables), max(1, math.prod(kernel))
    total, step = math.prod(grid), max(1, room // width)
    for low in range(0, total, step):
        where = np.unravel_index(np.arange(low, min(low + step, total)), grid)
        index, valid = np.zeros((len(where[0]), 1), dtype=np.int64), np.ones((len(where[0]), 1), dtype=bool)
        for o, table, size, n in zip(where, tables, kernel, spatial, strict=True):
            j = np.arange(size) - table.skip[o][:, None]
            real = (j >= 0) & (j < table.count[o][:, None])
            cell = np.where(real, table.start[o][:, None] + table.step * j, 0).astype(np.int64)
            index = (index[:, :, None] * n + cell[:, None, :]).reshape(len(o), -1)
            valid = (valid[:, :, None] & real[:, None, :]).reshape(len(o), -1)
        for place in range(width):
            outs = np.flatnonzero(valid[:, place])
            yield place, outs + low, index[outs, place]
