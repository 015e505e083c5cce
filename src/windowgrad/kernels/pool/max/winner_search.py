"""First winners of windows of any kind: which row has the greatest cell of each column, then which column of each window.

For windows that neither `winner_rows` nor `winner_tops` does: cells of which are apart along the row, where windows are more
than two cells apart, and long ones along a single row. A strip of a plane at a time (`winner_strips`). Rows are compared by
vectors, columns one by one (`column_tops`): a window takes as many steps as it is wide.

Windows along a single row that overlap much are slid over it (`winner_slide`).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from windowgrad.kernels.pool.max.column_tops import column_tops, first_tap, whole
from windowgrad.kernels.pool.max.winner_slide import room_of, slide, slide_by_vectors
from windowgrad.kernels.pool.max.winner_strips import strip_of
from windowgrad.kernels.pool.packed import rows_of, unpacked
from windowgrad.kernels.pool.plan import Plan
from windowgrad.kernels.runtime.jit import helper, unrolled_kernel
from windowgrad.kernels.vector.ops import address, alive, lanes, later

OVERLAP = 4
"""From so many windows over a cell on, they are slid over their row."""


def are_slid(p: Plan) -> bool:
    """Whether windows are slid over the one row that they see, as `winner_search` decides it."""
    return p.outer == len(p.rows) == p.step == 1 and int(p.count.sum()) > OVERLAP * p.width


@helper
def overlap_much(line: Any, windows: Any) -> Any:
    """Whether windows are to be slid over their row: most cells are in several."""
    total = 0
    for j in range(line.out):
        total += windows.count[j]
    return line.step == 1 and total > OVERLAP * line.width


@helper
def look_in_place(x: Any, base: int, windows: Any, j: int) -> int:
    """The first greatest cell of one window along one row, −1 if it has none."""
    if windows.count[j] == 0:
        return -1
    c, step = base + windows.start[j], windows.step
    best, value = c, x[c]
    for _ in range(1, windows.count[j]):
        c += step
        v = x[c]
        better = (v > value) | ((v != v) & (value == value))  # no jump that nobody foresees
        best, value = (c if better else best), (v if better else value)
    return best - base  # type: ignore[no-any-return]


@helper
def find_in_place(x: Any, base: int, out: int, windows: Any, queue: Any, places: Any) -> None:
    """The same of all windows along one row; they are slid over it if there is a queue."""
    if len(queue) > 0:
        slide(x, base, 0, out, 0, windows, queue, places)
    else:
        for j in range(out):
            places[j] = look_in_place(x, base, windows, j)


class Names(NamedTuple):
    """What winners are called, see `winner_codes`. A plane has `plane` names, row r begins at starts[r].

    The name of a winner is that of its row, rows[q] for entry q of the plan, and the number of its tap along it: skip[j] is the
    first tap of window j that is a cell. Where `places` is set, the name is the place.
    """

    plane: int
    none: int
    places: int
    starts: Any
    skip: Any
    rows: Any


HEAD = 3
"""Numbers before the lists of names."""


@helper
def unpacked_names(packed: Any, rows: int, out: int) -> Any:
    head = address(packed)
    starts = later(head, HEAD)
    skip = later(starts, rows)
    return Names(head[0], head[1], head[2], starts, skip, later(skip, out))


@unrolled_kernel
def winner_search(
    x: Any, y: Any, found: Any, least: Any, like: Any, packed: Any, strips: Any, plan: Any, first: int, last: int
) -> None:
    """y and found = the value and the name of each winner, 0 and `none` if there is none; y may be empty.

    `like` has the dtype of the names of rows, an integer as wide as x.
    """
    line, windows, _ = unpacked(plan)
    names, wanted = unpacked_names(packed, windows.rows, line.out), len(y) > 0
    count, slid = len(strips), windows.rows == 1 and windows.ptr[1] == 1 and overlap_much(line, windows)
    by_vectors, queue = slid and line.taps > 0, np.empty(line.width if slid else 0, np.int64)
    cells = room_of(line, lanes(x)) if by_vectors else 0 if slid else whole(line.width, x)
    tops, rows_with, row_columns = np.empty(cells, like.dtype), np.empty(cells, like.dtype), np.empty(line.out, np.int64)
    spaces = tops, rows_with, row_columns
    x, y, found, columns = address(x), address(y), address(found), address(row_columns)
    top, who = address(tops), address(rows_with)
    for job in range(first, last):
        p, strip = job // count, strip_of(address(strips), job % count)
        base = p * windows.plane
        for row in range(strip.low, strip.high):
            rows = rows_of(windows, row)
            at, to, some = p * names.plane + names.starts[row], (p * windows.rows + row) * line.out, rows.low < rows.high
            begin = base + windows.places[rows.low] if some else base
            if by_vectors and some:
                slide_by_vectors(x, begin, line, windows, least, queue, top, who, columns)
            elif slid and some:
                slide(x, begin, 0, line.out, 0, windows, queue, columns)
            elif some:
                column_tops(x, base, rows, line.width, least, top, who)
            for j in range(line.out):
                tap = -1
                if slid and some:
                    tap = columns[j] - windows.start[j] if columns[j] >= 0 else -1  # its taps are side by side
                elif some:
                    tap = first_tap(top, who, windows, j)
                if tap < 0:
                    found[at + j] = names.none
                    if wanted:
                        y[to + j] = 0
                    continue
                column = windows.start[j] + tap * windows.step
                q = rows.low if slid else rows.low + who[column]
                place = windows.places[q] + column
                found[at + j] = place if names.places else names.rows[q] + names.skip[j] + tap
                if wanted:
                    y[to + j] = x[base + place]
    alive(spaces)
