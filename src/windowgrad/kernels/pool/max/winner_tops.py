"""First winners of windows side by side: the greatest value of each, then the first cell that equals it.

For windows whose cells are side by side along the row (`finds_tops`), if `find.reduces_rows` does not leave them to
`winner_rows`: adaptive bins, and windows more than two cells apart. A strip of a plane at a time (`winner_strips`):

    rows that it sees    c c c c c c c c c c        fold_rows: the greatest of each column
                         c c c c c c c c c c
    buffer               v v v v v v v v v v        the greatest of each window, by vectors
    winner               = = = =                    which of its cells equal that, row by row; they are in the nearest cache
                         = = = =

`winner_search` carries the row of each column's greatest cell along, and compares columns one by one. Measured on 32×64 planes:
bins of 16×16 of 112×112 take 3.2 to 3.8 ms (`winner_search` 8.1), of 8×8 of 50×50 1.0 (1.8), 3×3 windows with a stride of 3 of
54×54 2.6 (5.3). With a jump after each row, of which no CPU foresees the last, bins of 8×8 took 1.8 and 3×3 windows 6.6.

Where the rows have a NaN, their windows are decided one cell at a time (`one_by_one`).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from windowgrad.kernels.pool.fold_rows import ahead_of
from windowgrad.kernels.pool.max.rows import fold, top_along
from windowgrad.kernels.pool.max.winner_search import are_slid, unpacked_names
from windowgrad.kernels.pool.max.winner_strips import strip_of
from windowgrad.kernels.pool.one_by_one import winner
from windowgrad.kernels.pool.packed import rows_of, unpacked
from windowgrad.kernels.pool.plan import Plan
from windowgrad.kernels.runtime.jit import helper, unrolled_kernel
from windowgrad.kernels.vector.ops import address, alive, anywhere, equal, lanes, load, load_part, splat
from windowgrad.kernels.vector.shuffle import lowest_bit, set_lanes


def finds_tops(p: Plan) -> bool:
    """Whether the cells of a window are side by side, and windows are not slid over a single row."""
    return p.step == 1 and not are_slid(p)


@helper
def first_of_narrow(x: Any, base: int, rows: Any, count: int, top: Any, least: Any) -> Any:
    """(row, tap) of the first of the cells that equals `top`; each row has so many, no more than a vector has lanes.

    As many rows as a number has room for their lanes are compared without a jump. Behind the cells stands the least value: if
    that is `top`, so is the first cell.
    """
    n, wanted, rest, q = lanes(x), splat(x, top), splat(x, least), rows.low
    while q < rows.high:
        seen, end = 0, min(q + 64 // n, rows.high)
        for k in range(q, end):
            seen |= set_lanes(equal(load_part(x, base + rows.places[k], count, rest), wanted)) << (k - q) * n
        if seen:
            place = lowest_bit(seen)
            return q + place // n, place % n
        q = end
    return rows.low, 0  # only if somebody else writes the cells meanwhile


@helper
def first_of_wide(x: Any, base: int, rows: Any, count: int, top: Any) -> Any:
    """The same where each row has at least as many as a vector has lanes."""
    n, wanted = lanes(x), splat(x, top)
    for q in range(rows.low, rows.high):
        at, i = base + rows.places[q], 0
        while i < count:
            i = min(i, count - n)
            seen = set_lanes(equal(load(x, at + i), wanted))
            if seen:
                return q, i + lowest_bit(seen)
            i += n
    return rows.low, 0


@helper
def row_and_tap(place: int, rows: Any, start: int, count: int) -> Any:
    """Which row of a window, and which of its cells, is at a place of the plane."""
    q = rows.low
    while not 0 <= place - rows.places[q] - start < count:  # it is in one of them
        q += 1
    return q, place - rows.places[q] - start


@unrolled_kernel
def winner_tops(x: Any, y: Any, found: Any, least: Any, packed: Any, strips: Any, plan: Any, first: int, last: int) -> None:
    """y and found = the value and the name of each winner, 0 and `none` if there is none; y may be empty."""
    line, windows, _ = unpacked(plan)
    names, wanted, n = unpacked_names(packed, windows.rows, line.out), len(y) > 0, lanes(x)
    space, count, ahead = np.empty(line.width + n, x.dtype), len(strips), ahead_of(x, line, windows)
    x, y, found, buffer, strips = address(x), address(y), address(found), address(space), address(strips)
    for job in range(first, last):
        p, strip = job // count, strip_of(strips, job % count)
        base = p * windows.plane
        for row in range(strip.low, strip.high):
            rows = rows_of(windows, row)
            at, to = p * names.plane + names.starts[row], (p * windows.rows + row) * line.out
            some = rows.low < rows.high
            strange = some and anywhere(fold(x, base, rows, line.width, buffer, 0, ahead))
            for j in range(line.out):
                start, cells = windows.start[j], windows.count[j]
                if not some or cells == 0:
                    found[at + j] = names.none
                    if wanted:
                        y[to + j] = 0
                    continue
                if strange:
                    q, tap = row_and_tap(winner(x, base, windows, row, j), rows, start, cells)
                elif cells <= n:
                    q, tap = first_of_narrow(x, base + start, rows, cells, top_along(buffer, start, cells), least)
                else:
                    q, tap = first_of_wide(x, base + start, rows, cells, top_along(buffer, start, cells))
                place = windows.places[q] + start + tap
                found[at + j] = place if names.places else names.rows[q] + names.skip[j] + tap
                if wanted:
                    y[to + j] = x[base + place]
    alive(space)
