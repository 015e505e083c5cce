"""The first winner of every window, separably: along each row which tap wins, then which of its rows wins each output.

For windows that are alike along the row and 1 or 2 cells apart; `find.reduces_rows` chooses it, else `winner_search` does it.
Both comparisons are strict and run in order, the last axis first, so the winner is the first in row-major order. All of it
runs by vectors, and the cost is the sum of the sides.

A strip of a plane at a time, each row whole (`winner_strips`); how a row stands in memory is said in `winner_plan`. So many
rows are kept as one window spans:

    rows of the strip      along: the best of the taps, and which       output rows: the best of its rows, and which tap
    c c c c c c c c   →    v v v v  t t t t                         →    v v v v  t t t t
    c c c c c c c c   →    v v v v  t t t t

A winner's name is that of its row and that of its tap, added (`Names`): the number of a tap of the window (`winner_codes`),
or a place in the plane. `like` has the dtype in which names are carried, an integer as wide as x.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from windowgrad.kernels.pool.max.contests import first_along, first_of_rows
from windowgrad.kernels.pool.max.winner_plan import Entries, split_row, unpacked_rows
from windowgrad.kernels.pool.max.winner_strips import strip_of
from windowgrad.kernels.pool.row_pieces import fill
from windowgrad.kernels.runtime.jit import helper, unrolled_kernel
from windowgrad.kernels.vector.half import cells
from windowgrad.kernels.vector.ops import address, alive, later


@helper
def mend_edges(y: Any, to: int, found: Any, at: int, name: int, plan: Any) -> None:
    """Where no cell is above the least value, the first wins, not the padding before it; without cells, nobody."""
    begin, stride, none = plan.found.before, plan.found.stride, plan.found.none
    for e in range(plan.edges.number):
        j, tap = plan.edges.window[e], plan.edges.tap[e]
        if tap < 0:
            found[at + j] = none
            if to >= 0:
                y[to + j] = 0
        else:
            least = name + plan.taps.name[tap] + begin + j * stride
            if found[at + j] < least:
                found[at + j] = least


@unrolled_kernel
def winner_rows(x: Any, y: Any, found: Any, least: Any, like: Any, packed: Any, first: int, last: int) -> None:
    """y and found = the value and the name of each winner, 0 and `none` if there is none; y may be empty.

    Strips `first` to `last` of all planes.
    """
    plan = unpacked_rows(packed)
    line, pitch, out = plan.line, plan.pitch, plan.line.out
    row = np.full(line.stride * plan.phase, least)
    values, taps = np.empty(plan.ring * pitch, row.dtype), np.empty(plan.ring * pitch, like.dtype)
    offsets, wanted = np.empty(plan.listed, np.int64), len(y) > 0
    spaces = row, values, taps, offsets
    x, y, found, phases = cells(x), cells(y), address(found), address(row)
    best, names, starts = address(values), address(taps), address(offsets)
    for job in range(first, last):
        p, strip = job // plan.strip_count, strip_of(plan.strips, job % plan.strip_count)
        ready, base = strip.top, p * plan.plane
        for o in range(strip.low, strip.high):
            low, high = plan.ptr[o], plan.ptr[o + 1]
            at, to = p * plan.found.plane + plan.found.rows[o], (p * plan.rows + o) * out if wanted else -1
            if low == high:
                fill(found, at, at + out, plan.found.none)
                if wanted:
                    fill(y, to, to + out, 0)
                continue
            while ready <= plan.number[high - 1]:
                if plan.used[ready]:
                    split_row(x, base + ready * line.width, phases, plan, least)
                    first_along(phases, plan.taps, line.taps, pitch, best, names, (ready & (plan.ring - 1)) * pitch)
                ready += 1
            for q in range(low, high):
                starts[q - low] = (plan.number[q] & (plan.ring - 1)) * pitch
            rows = Entries(starts, later(plan.name, low))
            first_of_rows(best, names, rows, high - low, out, y, to, found, at, plan.found.before, plan.found.stride)
            mend_edges(y, to, found, at, plan.name[low], plan)
    alive(spaces)
