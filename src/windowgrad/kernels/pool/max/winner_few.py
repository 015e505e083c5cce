"""The gradient of windows with stages on planes that have few outputs: column after column of outputs, one addition each.

For what `winner_codes` says that they `are_few`: most places of the grid of `winner_gather` have no output then. The order of
additions is that of its stages: the outputs of a column that were won in one row of cells have one winner, and stand one after
the other, as the winner of a column's next window is in no row before that of the last one. So sums of runs are added to cells:

    column of outputs      a a b c c c        cell a: + (g + g), cell b: + g, cell c: + (g + g + g)

Measured, ns per plane, one thread: 7×7 windows on 9×9 planes 22 (`winner_gather` 100), on 14×14 107 (212), 13×13 on 20×20 96
(567); with more than a third as many outputs as cells it takes longer, 5×5 on 14×14 197 (185), on 20×20 857 (318). Steps along
the first axis must be 1, else the windows of a run do not stand one after the other.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from windowgrad.caches import keep
from windowgrad.geometry import Geometry
from windowgrad.kernels.pool.max.winner_codes import Array, codes_of, outer_sum
from windowgrad.kernels.pool.row_pieces import clear
from windowgrad.kernels.runtime.jit import unrolled_kernel
from windowgrad.kernels.vector.ops import address, later

HEAD = 5
"""Numbers before the list."""


def few_plan(geometry: Geometry, spatial: tuple[int, ...]) -> Array:
    """(1 part of a plane, rows of outputs, outputs of a row, cells of a row, cells), how far each tap is from its window."""
    return kept(math.prod(axis.taps for axis in codes_of(geometry, spatial).axes), geometry, spatial)


def made(geometry: Geometry, spatial: tuple[int, ...]) -> Array:
    rows, columns = codes_of(geometry, spatial).axes
    taps = [np.arange(axis.taps) * axis.step - axis.before for axis in (rows, columns)]
    head = [1, rows.out, columns.out, columns.n, rows.n * columns.n]
    return np.concatenate([head, outer_sum([taps[0] * columns.n, taps[1]])]).astype(np.int64)


kept = keep(made)


@unrolled_kernel
def winner_few(codes: Any, g: Any, gx: Any, plan: Any, first: int, last: int) -> None:
    """gx = each gradient at its winner; planes `first` to `last`."""
    head = address(plan)
    rows, columns, width, plane, taps = head[1], head[2], head[3], head[4], later(head, HEAD)
    codes, g, gx = address(codes), address(g), address(gx)
    for p in range(first, last):
        cells, some, more = later(gx, p * plane), later(codes, p * rows * columns), later(g, p * rows * columns)
        clear(cells, 0, plane)
        for column in range(columns):
            place, before, total = -1, cells[0], cells[0]
            for row in range(rows):
                at = row * columns + column
                won, paid = row * width + column + taps[some[at]], more[at]
                if won != place:
                    place, before, total = won, cells[won], type(paid)(0)
                total += paid
                cells[place] = before + total
