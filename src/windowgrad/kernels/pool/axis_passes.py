"""Windows of many rows, one axis after the other: the last two together, then each before them, through arrays of their own.

`has_many_rows` chooses it. A 64 × 64 window at every cell of a 4096² image took 427 ms for maximum and 618 for mean where rows
are folded for each output row; `python benchmarks/windows.py` shows what it takes so.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np

from windowgrad.geometry import Geometry, Sliding, Table
from windowgrad.kernels.pool.axis_rows import Axis
from windowgrad.kernels.pool.packed import Line, packed
from windowgrad.kernels.pool.plan import plan
from windowgrad.kernels.pool.sections import SomeWindows

Array = np.ndarray[Any, Any]

MANY = 12
"""From so many rows of a window on, axis by axis is faster, if windows overlap much."""

OVERLAP = 6
"""How many windows a row must be in for that, on average."""

BLOCK = 1 << 22
"""Cells of a block, about."""

KEPT = 1 << 20
"""Cells of the rows of a window that are kept for a piece of a row, about."""

NARROWEST, WIDEST = 128, 1 << 12
"""Outputs of a piece, at least and at most. With 1024, a page, 64 × 64 took 1.3 times as long: rows were no streams."""

FURTHEST = 1 << 12
"""A reach from which on a strip of windows would not stay in the cache."""


@lru_cache(maxsize=1024)
def has_many_rows(geometry: Geometry, many: int = MANY) -> bool:
    """Whether windows have more than so many rows, and share so many of them, that one axis at a time is faster."""
    if not isinstance(geometry, Sliding) or geometry.rank < 2:
        return False
    rows, steps = math.prod(geometry.kernel[:-1]), math.prod(geometry.stride[:-1])
    reach = max((k - 1) * d + max(p) for k, d, p in zip(geometry.kernel, geometry.dilation, geometry.padding, strict=True))
    return rows > many and rows > OVERLAP * steps and reach < FURTHEST


def along(geometry: Sliding, axis: int) -> Sliding:
    """The windows of one axis."""
    one = slice(axis, axis + 1 or None)
    windows = geometry.kernel[one], geometry.stride[one]
    if isinstance(geometry, SomeWindows):
        return SomeWindows(Sliding(*windows, 0, geometry.dilation[one]), geometry.padding[one], geometry.outputs[one])
    return Sliding(*windows, geometry.padding[one], geometry.dilation[one], geometry.ceil_mode[one])


@dataclass(frozen=True)
class AxisBlock:
    """A block of a call: some planes, or some output rows of the first axis of one plane and the `n` input rows they see."""

    lead: int
    n: int
    before: int
    rows: slice
    cells: slice
    outputs: slice

    def plane(self, p: int) -> AxisBlock:
        """One of its planes."""
        cells, outputs = (nth_part(part, p, self.lead) for part in (self.cells, self.outputs))
        return replace(self, lead=1, cells=cells, outputs=outputs)


def nth_part(part: slice, i: int, count: int) -> slice:
    """The i-th of `count` equal parts."""
    size = (part.stop - part.start) // count
    return slice(part.start + i * size, part.start + (i + 1) * size)


def axis_blocks(geometry: Sliding, lead: int, spatial: Sequence[int]) -> Iterator[AxisBlock]:
    """The whole call in blocks whose arrays between two axes stay in the last cache; at once if there are none between.

    A block begins where a segment of the first axis does, so that no sum depends on where blocks are.
    """
    n, row, grid = spatial[0], math.prod(spatial[1:]), geometry.grid(spatial)
    m, row_out, (before, _) = grid[0], math.prod(grid[1:]), geometry.padding[0]
    if geometry.rank == 2 or n * row <= BLOCK:
        group = max(1, lead if geometry.rank == 2 else BLOCK // (n * row))
        for p in range(0, lead, group):
            q = min(p + group, lead)
            yield AxisBlock(
                q - p, n, before, slice(m), slice(p * n * row, q * n * row), slice(p * m * row_out, q * m * row_out)
            )
        return
    stride, halo = geometry.stride[0], (geometry.kernel[0] - 1) * geometry.dilation[0]
    segment = geometry.kernel[0] * geometry.dilation[0]
    step = math.lcm(segment, stride) // stride
    step *= max(BLOCK // row, 4 * halo) // stride // step + 1
    for p, low in itertools.product(range(lead), range(0, m, step)):
        high = min(low + step, m)
        first = min(max(low * stride - before, 0), n - 1)
        last = max(min((high - 1) * stride - before + halo + 1, n), first + 1)
        cells = slice((p * n + first) * row, (p * n + last) * row)
        outputs = slice((p * m + low) * row_out, (p * m + high) * row_out)
        yield AxisBlock(1, last - first, before + first - low * stride, slice(low, high), cells, outputs)


@dataclass(frozen=True)
class Pass:
    """One axis of an array [lines, n, cells], of whose rows `along` is the plan; `done` after the first axis, which is last."""

    table: Table
    lines: int
    run: int
    size: int
    along: Array
    plan: Array
    parts: int
    done: bool


def piece_of(run: int, rows: int, reach: int) -> int:
    """The outputs of a row that are done together: their rows stay in a cache, unless most cells were seen twice.

    All pieces of a row have about as many: rather a few more than a short one at the end.
    """
    piece = max(min(KEPT // rows, WIDEST), min(2 * reach, WIDEST), NARROWEST)
    return -(-run // -(-4 * run // (5 * piece)))


def passes(geometry: Sliding, spatial: tuple[int, ...], block: AxisBlock) -> Iterator[Pass]:
    """All axes of a block, from the last but one, with which the last is done, to the first."""
    grid, last = geometry.grid(spatial), geometry.rank - 2
    for axis in reversed(range(geometry.rank - 1)):
        k, s, d, before = geometry.kernel[axis], geometry.stride[axis], geometry.dilation[axis], geometry.padding[axis][0]
        table, n, behind = geometry.table(axis, spatial[axis]), spatial[axis], math.prod(grid[axis + 1 :])
        lines, m = block.lead * block.n * math.prod(spatial[1:axis]), grid[axis]
        if axis == 0:
            lines, n, m, before = block.lead, block.n, block.rows.stop - (block.rows.start or 0), block.before
        along_row = plan(along(geometry, -1), spatial[-1:]).packed if axis == last else as_it_is(behind)
        piece = piece_of(behind, k * d, (geometry.kernel[-1] - 1) * geometry.dilation[-1] if axis == last else 0)
        parts = lines * -(-((m - 1) * s + 1) // (k * d)) * -(-behind // piece)
        axes = np.array(Axis(n, m, k, s, d, before, piece))
        yield Pass(table, lines, behind, lines * m * behind, along_row, axes, parts, axis == 0)


def as_it_is(cells: int) -> Array:
    """The plan of a row whose every cell is an output. It has no lists: all windows have their cell."""
    none = np.empty(0, np.int64)
    return packed(Line(cells, cells, 1, 1, 0, 1, 1), 1, cells, cells, np.array([0, 1]), np.array([0]), none, none)
