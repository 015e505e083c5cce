"""First winners of windows of any kind: which row has the greatest cell of each column, then which column of each window.

For windows that `find.reduces_rows` does not leave to `winner_rows`: not all alike, or more than two cells apart, or long
and along a single row. A strip of a plane at a time (`winner_strips`). Rows are compared by vectors, columns one by one
(`column_tops`): a window takes as many steps as it is wide. Before, the greatest value was found and then its first cell looked
for, row by row; which row that was no CPU could foresee, and 3×3 windows took four times as long.

A plane that is one row is read in place, and windows that overlap much are slid over it, with a queue of the cells that may
still win: a cell enters and leaves it once, whatever the size of the window.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from windowgrad.kernels.pool.max.column_tops import column_tops, first_column, whole
from windowgrad.kernels.pool.max.winner_strips import strip_of
from windowgrad.kernels.pool.one_by_one import beats as comes_first
from windowgrad.kernels.pool.packed import rows_of, unpacked
from windowgrad.kernels.runtime.jit import helper, kernel
from windowgrad.kernels.vector.ops import address, alive, later


@helper
def overlap_much(line: Any, windows: Any) -> Any:
    """Whether windows are to be slid over their row: most cells are in several."""
    total = 0
    for j in range(line.out):
        total += windows.count[j]
    return line.step == 1 and total > 4 * line.width


@helper
def slide(x: Any, base: int, out: int, windows: Any, queue: Any, places: Any) -> None:
    """places = the first greatest cell of each window along one row, −1 if it has none.

    The queue has the cells of a window that no later one beats; the first of them is the winner.
    """
    head, tail, cell = 0, 0, 0
    for j in range(out):
        places[j], start, end = -1, windows.start[j], windows.start[j] + windows.count[j]
        if start < end:
            while cell < end:
                while tail > head and comes_first(x[base + cell], x[base + queue[tail - 1]]):
                    tail -= 1
                queue[tail] = cell
                tail += 1
                cell += 1
            while queue[head] < start:
                head += 1
            places[j] = queue[head]


@helper
def look_in_place(x: Any, base: int, windows: Any, j: int) -> int:
    """The first greatest cell of one window along one row, −1 if it has none."""
    best, start, step = -1, windows.start[j], windows.step
    for c in range(start, start + windows.count[j] * step, step):
        if best < 0 or comes_first(x[base + c], x[base + best]):
            best = c
    return best


@helper
def find_in_place(x: Any, base: int, out: int, windows: Any, queue: Any, places: Any) -> None:
    """The same of all windows along one row; they are slid over it if there is a queue."""
    if len(queue) > 0:
        slide(x, base, out, windows, queue, places)
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


@helper
def name_of(q: int, column: int, j: int, windows: Any, names: Any) -> int:
    """The name of the winner of window j that is in a column of the row that entry q of the plan lists; −1: there is none."""
    if column < 0:
        return names.none  # type: ignore[no-any-return]
    if names.places:
        return windows.places[q] + column  # type: ignore[no-any-return]
    return names.rows[q] + names.skip[j] + (column - windows.start[j]) // windows.step  # type: ignore[no-any-return]


@kernel
def winner_search(
    x: Any, y: Any, found: Any, least: Any, like: Any, packed: Any, strips: Any, plan: Any, first: int, last: int
) -> None:
    """y and found = the value and the name of each winner, 0 and `none` if there is none; y may be empty.

    `like` has the dtype of the names of rows, an integer as wide as x.
    """
    line, windows, _ = unpacked(plan)
    names, wanted = unpacked_names(packed, windows.rows, line.out), len(y) > 0
    count, lone, row_columns = len(strips), windows.plane == line.width, np.empty(line.out, np.int64)
    cells = 0 if lone else whole(line.width, x)
    tops, rows_with = np.empty(cells, x.dtype), np.empty(cells, like.dtype)
    queue = np.empty(line.width if lone and overlap_much(line, windows) else 0, np.int64)
    spaces = tops, rows_with, row_columns
    x, y, found, columns = address(x), address(y), address(found), address(row_columns)
    top, who = address(tops), address(rows_with)
    for job in range(first, last):
        p, strip = job // count, strip_of(address(strips), job % count)
        base = p * windows.plane
        for row in range(strip.low, strip.high):
            rows = rows_of(windows, row)
            at, to, some = p * names.plane + names.starts[row], (p * windows.rows + row) * line.out, rows.low < rows.high
            if lone and some:
                find_in_place(x, base, line.out, windows, queue, columns)
            elif some:
                column_tops(x, base, rows, line.width, least, top, who)
            for j in range(line.out):
                q, column = rows.low, -1
                if lone and some:
                    column = columns[j]
                elif some:
                    column = first_column(top, who, windows, j)
                    q += who[column] if column >= 0 else 0
                found[at + j] = name_of(q, column, j, windows, names)
                if wanted:
                    y[to + j] = 0
                    if column >= 0:
                        y[to + j] = x[base + windows.places[q] + column]
    alive(spaces)
