"""The plan of a convolution of planes that stand side by side: where their cells go, and which runs of pixels are summed.

The box of `lanes.py` has a vector for each cell: cell c of as many planes as a vector has lanes. Only rows are padded: a tap
that lies in the padding above, below or beside the rows that a run of pixels meets is left out of its list.

    a row of 5 cells, window of 3, padding 1          with a stride of 2, what lies a stride apart stands side by side
    box     . a b c d e .                             . b d . | a c e .
    run     5 pixels, from the 0th vector on          3 pixels; taps from vectors 0, 4 and 1 on

Planes are cut into chunks of whole rows along their first axis, so that a box and its sums stay in the second cache.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum
from itertools import product

import numpy as np

from windowgrad.kernels.conv.plan import Array, Gather, strides
from windowgrad.kernels.conv.shapes import Pass

CHUNK = 4096
"""Vectors of the box and the sums of a chunk, about."""
LARGEST_CHUNK = 1 << 15
"""Vectors of the box and the sums of a chunk, at the most."""
LARGEST_TABLE = 1 << 16
"""Cells of a plane: the table of their places is read for every block of planes."""


class Order(Enum):
    """The order of the products of a sum."""

    BOX = "as their cells stand in the box of a plane"
    COLUMNS = "the same, by columns: as `three_rows` adds them"
    CELLS = "as their cells stand in a plane: as `rolling` adds them"


@dataclass(frozen=True, eq=False)
class Side:
    """`places`: where each cell of a plane goes. `runs`: (place, pixel, step, count, first tap, taps) of pixels in a row.

    `taps`: (place, place in the weight) of the taps of all runs. `chunks`: (first cell, cells, place of the first, first
    run, last run, first pixel, pixels). A chunk needs up to `box` vectors of cells and `sums` of pixels. `numbers`: 0, 1, …,
    one for each tap of the weight and each pixel of a chunk, whose places they are.
    """

    places: Array
    runs: Array
    taps: Array
    chunks: Array
    box: int
    sums: int
    numbers: Array


@dataclass(frozen=True)
class Row:
    """The last axis in the box: `pitch` vectors, `every` of which belong to each phase of the stride; cell 0 is `low` later."""

    low: int
    step: int
    every: int

    @property
    def pitch(self) -> int:
        return self.step * self.every

    def place(self, cell: int) -> int:
        index, phase = divmod(cell + self.low, self.step)
        return phase * self.every + index


def row_of(gathers: tuple[Gather, ...], width: int) -> Row:
    step, low, high = int(gathers[0].own_axes[2][-1]), 0, width - 1
    for one in gathers:
        grid, _, _, taps = one.own_axes
        last = taps[len(grid) - 1 :: len(grid)]
        low, high = min(low, int(last.min())), max(high, int(last.max()) + (int(grid[-1]) - 1) * step)
    return Row(-low, step, -(-(high - low + 1) // step))


def side_by_side(one: Pass, how: Order) -> Side | None:
    """The plan; None where a row would be too long, or a plane too large."""
    row = row_of(one.gathers, one.size[-1]) if one.gathers else None
    if row is None or one.cells > LARGEST_TABLE or one.pixels > LARGEST_TABLE or row.pitch > LARGEST_CHUNK // 4:
        return None
    taps: list[tuple[int, int]] = []
    orders = [in_order(one, gather, how) for gather in one.gathers]
    runs = [run for gather, order in zip(one.gathers, orders, strict=True) for run in runs_of(gather, order, row, taps)]
    runs.sort(key=lambda run: run[0][1])
    chunks = list(chunks_of(one, row, runs))
    box, sums = max(c[1] // one.size[-1] * row.pitch for c in chunks), max(c[6] for c in chunks)
    if box + sums > LARGEST_CHUNK:
        return None
    columns = np.array([row.place(cell) for cell in range(one.size[-1])], np.int64)
    rows = np.arange(one.cells // one.size[-1], dtype=np.int64) * row.pitch
    return Side(
        (rows[:, None] + columns).reshape(-1),
        np.array([run for run, _ in runs], np.int64),
        np.array(taps, np.int64).reshape(-1, 2),
        np.array(chunks, np.int64),
        box,
        sums,
        np.arange(max(one.taps, sums)),
    )


Run = tuple[tuple[int, int, int, int, int, int], tuple[int, int]]


def runs_of(gather: Gather, order: Array, row: Row, taps: list[tuple[int, int]]) -> list[Run]:
    """The runs of a grid of pixels, each with the first and the last cell along the first axis that it meets.

    The taps that they meet are added to `taps`, in this order, once for all runs that meet the same.
    """
    lists: dict[bytes, tuple[int, int]] = {}
    grid, size, step, table = gather.own_axes
    rank, found = len(grid), []
    table, outer = table.reshape(-1, rank), strides(tuple(int(n) for n in size[:-1]))
    for o in product(*(range(int(n)) for n in grid[:-1])):
        cells = np.array(o, np.int64) * step[:-1] + table[order, :-1]
        real = ((cells >= 0) & (cells < size[:-1])).all(axis=1)
        key = real.tobytes()
        if key not in lists:
            start = len(taps)
            for t in order[real]:
                at = int(sum(int(q) * s for q, s in zip(table[t, :-1], outer, strict=True))) * row.pitch
                taps.append((at + row.place(int(table[t, -1])), int(gather.places[t])))
            lists[key] = start, len(taps) - start
        place = sum(i * int(s) * far for i, s, far in zip(o, step[:-1], outer, strict=True)) * row.pitch
        pixel = gather.out_axes[2] + sum(i * int(m) for i, m in zip(o, gather.move[:-1], strict=True))
        met = cells[real, 0] if rank > 1 and real.any() else np.zeros(1, np.int64)
        span = (int(met.min()), int(met.max()) + 1) if real.any() else (0, 0)
        found.append(((place, pixel, int(gather.move[-1]), int(grid[-1]), *lists[key]), span))
    return found


def in_order(one: Pass, gather: Gather, how: Order) -> Array:
    """The taps of a grid in the order in which other kernels of the pass add them, so that all of these give the same bits."""
    taps, plan = np.arange(len(gather.places)), one.planes
    if how is Order.CELLS:
        return np.lexsort(gather.own_axes[3].reshape(len(taps), -1).T[::-1])
    if plan is None:
        return taps
    listed = {int(place): i for i, place in enumerate(plan.lists[1])}
    order = np.array(sorted(taps, key=lambda t: listed[int(gather.places[t])]), np.int64)
    return order.reshape(3, -1).T.reshape(-1) if how is Order.COLUMNS else order


def chunks_of(one: Pass, row: Row, runs: list[Run]) -> list[tuple[int, ...]]:
    """Whole rows of the output along its first axis, as many as fit, each with the cells that they meet."""
    rank, out = len(one.grid), math.prod(one.grid[1:])
    if rank == 1:
        return [(0, one.cells, 0, 0, len(runs), 0, one.pixels)]
    inner = math.prod(one.size[1:])
    found: list[tuple[int, ...]] = []
    a_row = inner // one.size[-1] * row.pitch * max(1, one.size[0] // one.grid[0]) + out
    several = one.window.stride[0] if one.back else 1
    some = max(1, CHUNK // a_row // several) * several
    number = -(-one.grid[0] // some)
    some = -(-one.grid[0] // number // several) * several
    begin = 0
    for first in range(0, one.grid[0], some):
        last, end = min(one.grid[0], first + some), begin
        while end < len(runs) and runs[end][0][1] < last * out:
            end += 1
        spans = [span for _, span in runs[begin:end] if span[1] > span[0]]
        low, high = (min(s[0] for s in spans), max(s[1] for s in spans)) if spans else (0, 1)
        place = low * inner // one.size[-1] * row.pitch
        found.append((low * inner, (high - low) * inner, place, begin, end, first * out, (last - first) * out))
        begin = end
    return found
