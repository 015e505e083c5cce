"""First winners of windows of any kind: the greatest value of a window is found first, then its first cell that equals it.

For windows that `find.reduces_rows` does not leave to `winner_rows`: not all alike, or more than two cells apart, or long
and along a single row. A strip of a plane at a time (`winner_strips`). Finding the value is what the forward kernel does, by
vectors; and the search ends at the winner. Before, a place was carried beside every value through all taps.

A row of windows that sees a NaN is done one cell at a time. A plane that is one row is read in place, and windows that overlap
much are slid over it, with a queue of the cells that may still win: a cell enters and leaves it once, whatever the size of the
window.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from windowgrad.kernels.pool.fold_rows import folding
from windowgrad.kernels.pool.max.winner_strips import strip_of
from windowgrad.kernels.pool.one_by_one import beats as comes_first
from windowgrad.kernels.pool.one_by_one import winner
from windowgrad.kernels.pool.packed import rows_of, unpacked
from windowgrad.kernels.runtime.jit import helper, kernel
from windowgrad.kernels.vector.loops import larger
from windowgrad.kernels.vector.ops import address, alive, anywhere, equal, lanes, later, load, splat

fold = folding(larger, True)


@helper
def first_equal(x: Any, size: int, base: int, rows: Any, start: int, count: int, top: Any) -> int:
    """The place of the first cell of a window that equals `top`, of which there is one; x has `size` cells in all."""
    n, wanted = lanes(x), splat(x, top)
    for q in range(rows.low, rows.high):
        at, c = base + rows.places[q] + start, 0
        while c < count:
            if at + c + n > size or anywhere(equal(load(x, at + c), wanted)):  # cells past the window may be equal too
                for k in range(c, min(c + n, count)):
                    if x[at + k] == top:
                        return rows.places[q] + start + k  # type: ignore[no-any-return]
            c += n
    return -1


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


@helper
def find_row(x: Any, size: int, base: int, row: int, line: Any, windows: Any, buffer: Any, queue: Any, places: Any) -> None:
    """places = where in the plane the first winner of each window of an output row is, −1 if it has no cell."""
    rows = rows_of(windows, row)
    one_by_one = rows.low == rows.high or line.step != 1
    if windows.plane == line.width and rows.low < rows.high:
        find_in_place(x, base, line.out, windows, queue, places)
        return
    if not one_by_one:
        one_by_one = anywhere(fold(x, base, rows, line.width, buffer, 0))
    for j in range(line.out):
        first, cells = windows.start[j], windows.count[j]
        if one_by_one or cells == 0:
            places[j] = winner(x, base, windows, row, j)
        else:
            top = buffer[first]
            for c in range(first + 1, first + cells):
                top = buffer[c] if buffer[c] > top else top
            places[j] = first_equal(x, size, base, rows, first, cells, top)


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
def name_of(place: int, row: int, j: int, windows: Any, names: Any) -> int:
    """The name of the winner of window j of a row."""
    if names.places or place < 0:
        return place if place >= 0 else names.none
    for q in range(windows.ptr[row], windows.ptr[row + 1]):
        after = place - windows.places[q] - windows.start[j]
        if 0 <= after <= (windows.count[j] - 1) * windows.step:  # beyond its last cell, the window may reach into the next row
            return names.rows[q] + names.skip[j] + after // windows.step  # type: ignore[no-any-return]
    return names.none  # type: ignore[no-any-return]


@kernel
def winner_search(x: Any, y: Any, found: Any, packed: Any, strips: Any, plan: Any, first: int, last: int) -> None:
    """y and found = the value and the name of each winner, 0 and `none` if there is none; y may be empty."""
    line, windows, _ = unpacked(plan)
    names, wanted = unpacked_names(packed, windows.rows, line.out), len(y) > 0
    size, count, lone, row_places = len(x), len(strips), windows.plane == line.width, np.empty(line.out, np.int64)
    space = np.empty((0 if lone else line.width) + lanes(x), x.dtype)
    queue = np.empty(line.width if lone and overlap_much(line, windows) else 0, np.int64)
    x, y, found, buffer, places = address(x), address(y), address(found), address(space), address(row_places)
    for job in range(first, last):
        p, strip = job // count, strip_of(address(strips), job % count)
        base = p * windows.plane
        for row in range(strip.low, strip.high):
            find_row(x, size, base, row, line, windows, buffer, queue, places)
            at, to = p * names.plane + names.starts[row], (p * windows.rows + row) * line.out
            for j in range(line.out):
                found[at + j] = name_of(places[j], row, j, windows, names)
                if wanted:
                    y[to + j] = 0
                    if places[j] >= 0:
                        y[to + j] = x[base + places[j]]
    alive(space)
    alive(row_places)
