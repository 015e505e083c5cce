"""Windows by gathering: for a block of outputs, the flat index of every cell each of them sees."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from windowgrad.geometry import Geometry, Table
from windowgrad.kernels.dtypes import wide

Array = np.ndarray[Any, Any]

BLOCK = 1 << 21
"""How many cells are gathered at a time, so that memory stays bounded."""


@dataclass(frozen=True)
class Block:
    """Some outputs of some planes. `index` and `valid` are (outputs, cells): where each cell is, and whether it is real.

    `padded` counts the padded cells of each output, in floats: a window may cover more of them than an integer can count.
    """

    planes: slice
    outs: slice
    index: Array
    valid: Array
    padded: Array

    def of(self, planes: Array) -> Array:
        """The gathered cells, (planes, outputs, cells); what stands where `valid` is false has no meaning."""
        gathered: Array = planes[self.planes][:, self.index]
        return gathered

    def scatter(self, into: Array, amounts: Array) -> None:
        """Add each amount to its cell; amounts are 0 where `valid` is false."""
        where: Any = (slice(None), self.index)
        np.add.at(into[self.planes], where, amounts)


def as_planes(geometry: Geometry, x: Array) -> Array:
    """x as (planes, cells of a plane)."""
    lead, spatial = geometry.split(x.shape)
    return np.ascontiguousarray(x).reshape(math.prod(lead), math.prod(spatial))


def blocks(
    tables: Sequence[Table], spatial: Sequence[int], planes: int, taps: Sequence[int] | None = None, room: int = BLOCK
) -> Iterator[Block]:
    """All outputs of all planes, `room` cells at a time. With `taps` each place of a kernel of that size has its column."""
    grid = tuple(len(t.start) for t in tables)
    sizes = taps if taps is not None else tuple(int(t.count.max()) for t in tables)
    width, total = max(1, math.prod(sizes)), math.prod(grid)
    step = max(1, min(total, room // width))
    share = max(1, room // (width * step))
    for low in range(0, total, step):
        outs = slice(low, min(low + step, total))
        where = np.unravel_index(np.arange(outs.start, outs.stop), grid)
        index = np.zeros((len(where[0]), *(1,) * len(grid)), dtype=np.int64)
        valid = np.ones_like(index, dtype=bool)
        for axis, (o, table, size) in enumerate(zip(where, tables, sizes, strict=True)):
            j = np.arange(size) - (table.skip[o][:, None] if taps is not None else 0)
            real = (j >= 0) & (j < table.count[o][:, None])
            cell = np.where(real, table.start[o][:, None] + table.step * j, 0).astype(np.int64)
            shape = [len(o), *(1,) * len(grid)]
            shape[axis + 1] = size
            index = index * spatial[axis] + cell.reshape(shape)
            valid = valid & real.reshape(shape)
        flat = (len(index), math.prod(sizes))
        counts = [(wide(t.count[o]), wide(t.padded[o])) for o, t in zip(where, tables, strict=True)]
        padded = math.prod(c + p for c, p in counts) - math.prod(c for c, _ in counts)
        for first in range(0, planes, share):
            some = slice(first, min(first + share, planes))
            yield Block(some, outs, index.reshape(flat), valid.reshape(flat), padded)
