"""A geometry as kernels want it: rows of the input for each row of the output, and the cells of a row for each of its outputs.

Whatever the rank, all axes but the last are one list of rows: output row `r` sees the input rows
`rows[ptr[r]:ptr[r + 1]]`, each the place of its first cell in the plane, in row-major order. Along the last axis output
`j` sees `count[j]` cells from `start[j]`, `step` apart. So a kernel is written once, for every rank and every geometry.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from windowgrad.caches import keep
from windowgrad.geometry import Adaptive, Geometry, Global, Sliding, Table
from windowgrad.kernels.pool.packed import Line, packed
from windowgrad.kernels.pool.row_pieces import piece_of
from windowgrad.kernels.pool.sections import SomeBins
from windowgrad.kernels.pool.window_spans import depth_of
from windowgrad.kernels.runtime.last_cache import least_past
from windowgrad.memory import refuse_unallocatable

Array = np.ndarray[Any, Any]


MANY = 1 << 17
"""The most rows that a region over a whole plane has a list of."""

ROW_BYTES = 32
"""What one row takes in a list of rows, with what is needed to make it."""

LONGEST = 1 << 20
"""Longer windows along a row are not taken as regular: a row of them would not stay in a cache."""


@dataclass(frozen=True)
class Plan:
    """One plane of the input and one of the output."""

    outer: int
    ptr: Array
    rows: Array
    width: int
    out: int
    start: Array
    count: Array
    step: int
    kernel: int
    stride: int
    before: int
    row_cells: Array
    row_inside: Array
    col_inside: Array
    plane_in: int
    run: int = 1

    @property
    def plane_out(self) -> int:
        return self.outer * self.out

    @property
    def is_one_row(self) -> bool:
        """Whether a plane is one row, and so are its outputs."""
        return self.outer == len(self.rows) == 1 and self.plane_in == self.width

    @cached_property
    def packed(self) -> Array:
        """The plan as one array, for kernels that compute outputs."""
        return packed(self.line, self.outer, self.plane_in, self.piece, self.ptr, self.rows, self.start, self.count)

    @cached_property
    def packed_back(self) -> Array:
        """The same for kernels that compute cells: of the rows of a gradient, what each cell row of the plane sees."""
        height, lists = self.plane_in // self.width, (self.back_ptr, self.back_rows, self.start, self.count)
        return packed(self.line, height, self.plane_out, self.piece, *lists, np.array([least_past()]))

    @property
    def line(self) -> Line:
        return Line(self.width, self.out, self.kernel, self.stride, self.before, self.step, self.run)

    @property
    def piece(self) -> int:
        """The outputs in a piece of a row."""
        return piece_of(self.out, self.kernel, self.stride)[0]

    @cached_property
    def ones(self) -> tuple[Array, Array]:
        """Divisors that leave sums as they are: one per row, one per column."""
        return np.ones(self.outer), np.ones(self.out)

    @property
    def size(self) -> int:
        """How many entries its lists have, about."""
        return len(self.rows) + self.outer + self.out

    @cached_property
    def pieces(self) -> int:
        """How many pieces of rows a plane of the output has."""
        return self.outer * piece_of(self.out, self.kernel, self.stride)[1]

    @cached_property
    def back_ptr(self) -> Array:
        """Input row i is seen by the output rows that start at back_rows[back_ptr[i]:back_ptr[i + 1]] in their plane."""
        height = self.plane_in // self.width
        ptr = np.zeros(height + 1, dtype=np.int64)
        np.cumsum(np.bincount(self.rows // self.width, minlength=height), out=ptr[1:])
        return ptr

    @cached_property
    def back_rows(self) -> Array:
        return np.repeat(np.arange(self.outer) * self.out, self.row_cells)[np.argsort(self.rows, kind="stable")]

    @cached_property
    def depth(self) -> int:
        """How many additions, one after the other, lie between a cell and the sum of its window."""
        along = depth_of(self.kernel) if self.kernel else int(self.count.max(initial=1)) - 1
        return int(self.row_cells.max(initial=1)) - 1 + along


def plan(geometry: Geometry, spatial: tuple[int, ...], channels: int = 1, together: bool = False) -> Plan:
    """The plan of a geometry over a plane whose every cell is a run of `channels` numbers; small ones are kept.

    Runs stay `together` in their rows, or every cell becomes a row of its own where its row would not be regular.
    """
    *outer, last = geometry.tables(spatial)
    rows = min(math.prod(list_shape(outer)), MANY) if isinstance(geometry, Global) else math.prod(list_shape(outer))
    return kept(rows + len(last.start) * channels, geometry, spatial, channels, together)


def made(geometry: Geometry, spatial: tuple[int, ...], channels: int, together: bool) -> Plan:
    if isinstance(geometry, Global) and math.prod(spatial[:-1]) > MANY:  # as one row, which needs no list of rows
        geometry, spatial = Global(1), (math.prod(spatial),)
    *outer, last = geometry.tables(spatial)
    kernel, stride, before = regularity(geometry, spatial[-1])
    run = channels if together or (kernel and stride == 1) else 1
    if run > 1:  # a row with runs for cells is a longer row whose taps are a run apart
        last, before, spatial = stretched(last, channels), before * channels, (*spatial[:-1], spatial[-1] * channels)
    elif channels > 1:  # every cell is a row of its own
        outer, last, spatial = [*outer, last], one_cell_each(channels), (*spatial, channels)
        kernel, stride, before = 1, 1, 0
    ptr, rows = row_lists(outer, spatial[:-1], spatial[-1])
    inside = [t.count + t.padded for t in (*outer, last)]
    return Plan(
        outer=len(ptr) - 1,
        ptr=ptr,
        rows=rows,
        width=spatial[-1],
        out=len(last.start),
        start=np.asarray(last.start, dtype=np.int64),
        count=np.asarray(last.count, dtype=np.int64),
        step=int(last.step) if last.step < 2**62 else 1,
        kernel=kernel,
        stride=stride,
        before=before,
        row_cells=np.diff(ptr),
        row_inside=product([np.asarray(i, dtype=np.float64) for i in inside[:-1]]),
        col_inside=np.asarray(inside[-1], dtype=np.float64),
        plane_in=math.prod(spatial),
        run=run,
    )


kept = keep(made)


def stretched(table: Table, channels: int) -> Table:
    """The table of an axis whose every cell is a run of `channels`."""
    start = (np.asarray(table.start)[:, None] * channels + np.arange(channels)).ravel()
    count, padded, skip = (np.repeat(column, channels) for column in (table.count, table.padded, table.skip))
    return Table(start, count, table.step * channels, padded, skip)


def one_cell_each(n: int) -> Table:
    """The table of an axis on which output i sees cell i."""
    none = np.zeros(n, dtype=np.int64)
    return Table(np.arange(n), none + 1, 1, none, none)


def list_shape(tables: Sequence[Table]) -> tuple[int, int]:
    """(outputs, rows that the fullest of them sees)."""
    return math.prod(len(t.start) for t in tables), math.prod(int(t.count.max(initial=0)) for t in tables)


def product(factors: Sequence[Array]) -> Array:
    """The outer product of the factors, flat."""
    total = np.ones(1)
    for factor in factors:
        total = np.multiply.outer(total, factor).ravel()
    return total


def row_lists(tables: Sequence[Table], sizes: Sequence[int], width: int) -> tuple[Array, Array]:
    """(ptr, rows) of the outer axes."""
    refuse_unallocatable(list_shape(tables), ROW_BYTES, "the list of rows (outputs, rows of a window)")
    index, valid = np.zeros((1, 1), dtype=np.int64), np.ones((1, 1), dtype=bool)
    for table, n in zip(tables, sizes, strict=True):
        j = np.arange(int(table.count.max(initial=0)))
        real = j < np.asarray(table.count, dtype=np.int64)[:, None]
        cell = np.where(real, np.asarray(table.start, dtype=np.int64)[:, None] + j * (table.step if table.step < n else 0), 0)
        shape = (len(index) * len(cell), index.shape[1] * len(j))
        index = (index[:, None, :, None] * n + cell[None, :, None, :]).reshape(shape)
        valid = (valid[:, None, :, None] & real[None, :, None, :]).reshape(shape)
    ptr = np.zeros(len(index) + 1, dtype=np.int64)
    np.cumsum(valid.sum(axis=1), out=ptr[1:])
    return ptr, index[valid] * width


def regularity(geometry: Geometry, n: int) -> tuple[int, int, int]:
    """(kernel, stride, padding before) of the last axis, or (0, 0, 0) if its windows are of several kinds."""
    if isinstance(geometry, Sliding):
        k, s, (lo, hi) = geometry.kernel[-1], geometry.stride[-1], geometry.padding[-1]
        small = max(k * geometry.dilation[-1], s, lo, hi) < LONGEST
        return (k, s, lo) if small else (0, 0, 0)
    if isinstance(geometry, (SomeBins, Adaptive)):
        n, m = (geometry.sizes[-1], geometry.bins[-1]) if isinstance(geometry, SomeBins) else (n, geometry.output_size[-1] or n)
        return (n // m, n // m, 0) if n % m == 0 and m > 1 and n // m < LONGEST else (0, 0, 0)
    last = geometry.table(geometry.rank - 1, n)
    k, m = int(last.count[0]), len(last.start)
    return (k, k, 0) if k * m == n and m > 1 and (last.count == k).all() else (0, 0, 0)
