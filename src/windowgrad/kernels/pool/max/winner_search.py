"""First winners of windows of any kind: the greatest value of a window is found first, then its first cell that equals it.

Finding the value is what the forward kernel does, by vectors; and the search ends at the winner. A row of windows that sees a
NaN is done one cell at a time. A plane that is one row is read in place, and windows that overlap much are slid over it, with
a queue of the cells that may still win: a cell enters and leaves it once, whatever the size of the window.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from windowgrad.kernels.pool.fold_rows import folding
from windowgrad.kernels.pool.max.winner_rows import clear
from windowgrad.kernels.pool.one_by_one import beats as comes_first
from windowgrad.kernels.pool.one_by_one import winner
from windowgrad.kernels.runtime.jit import helper, kernel
from windowgrad.kernels.vector.loops import larger
from windowgrad.kernels.vector.ops import address, alive, anywhere, equal, lanes, load, splat

fold = folding(larger, True)


@helper
def first_equal(x: Any, size: int, base: int, rows: Any, low: int, high: int, start: int, count: int, top: Any) -> int:
    """The place of the first cell of a window that equals `top`, of which there is one; x has `size` cells in all."""
    n, wanted = lanes(x), splat(x, top)
    for q in range(low, high):
        at, c = base + rows[q] + start, 0
        while c < count:
            if at + c + n > size or anywhere(equal(load(x, at + c), wanted)):  # cells past the window may be equal too
                for k in range(c, min(c + n, count)):
                    if x[at + k] == top:
                        return rows[q] + start + k  # type: ignore[no-any-return]
            c += n
    return -1


@helper
def overlap_much(width: int, step: int, start: Any, count: Any) -> Any:
    """Whether windows are to be slid over their row: most cells are in several."""
    total = 0
    for j in range(len(count)):
        total += count[j]
    return step == 1 and total > 4 * width


@helper
def slide(x: Any, base: int, out: int, start: Any, count: Any, queue: Any, places: Any) -> None:
    """places = the first greatest cell of each window along one row, −1 if it has none.

    The queue has the cells of a window that no later one beats; the first of them is the winner.
    """
    head, tail, cell = 0, 0, 0
    for j in range(out):
        places[j] = -1
        if count[j] > 0:
            while cell < start[j] + count[j]:
                while tail > head and comes_first(x[base + cell], x[base + queue[tail - 1]]):
                    tail -= 1
                queue[tail] = cell
                tail += 1
                cell += 1
            while queue[head] < start[j]:
                head += 1
            places[j] = queue[head]


@helper
def look_in_place(x: Any, base: int, start: int, count: int, step: int) -> int:
    """The first greatest cell of one window along one row, −1 if it has none."""
    best = -1
    for c in range(start, start + count * step, step):
        if best < 0 or comes_first(x[base + c], x[base + best]):
            best = c
    return best


@helper
def find_row(
    x: Any, size: int, base: int, row: int, ptr: Any, rows: Any, start: Any, count: Any, step: int, width: int, out: int,
    buffer: Any, places: Any, lone: bool, queue: Any,
) -> None:  # fmt: skip
    """places = where in the plane the first winner of each window of an output row is, −1 if it has no cell."""
    low, high = ptr[row], ptr[row + 1]
    one_by_one = low == high or step != 1
    if lone and low < high:
        if len(queue) > 0:
            slide(x, base, out, start, count, queue, places)
        else:
            for j in range(out):
                places[j] = look_in_place(x, base, start[j], count[j], step)
        return
    if not one_by_one:
        one_by_one = anywhere(fold(x, base, rows, low, high, width, buffer, 0))
    for j in range(out):
        first, cells = start[j], count[j]
        if one_by_one or cells == 0:
            places[j] = winner(x, base, row, ptr, rows, first, cells, step)
        else:
            top = buffer[first]
            for c in range(first + 1, first + cells):
                top = buffer[c] if buffer[c] > top else top
            places[j] = first_equal(x, size, base, rows, low, high, first, cells, top)


@kernel
def winner_search(
    x: Any, y: Any, found: Any, first: int, last: int, strips: Any,
    outer: int, plane: int, ptr: Any, rows: Any, start: Any, count: Any, step: int, width: int,
) -> None:  # fmt: skip
    """y and found = the value and the place of each winner in its plane, 0 and −1 if there is none."""
    out, size, lone, row_places = len(start), len(x), plane == width, np.empty(len(start), np.int64)
    space = np.empty((0 if lone else width) + lanes(x), x.dtype)
    queue = np.empty(width if lone and overlap_much(width, step, start, count) else 0, np.int64)
    x, y, found, buffer, places = address(x), address(y), address(found), address(space), address(row_places)
    ptr, rows, start, count = address(ptr), address(rows), address(start), address(count)
    for job in range(first, last):
        p, s = job // len(strips), job % len(strips)
        base = p * plane
        for row in range(strips[s, 2], strips[s, 3]):
            find_row(x, size, base, row, ptr, rows, start, count, step, width, out, buffer, places, lone, queue)
            at = (p * outer + row) * out
            for j in range(out):
                found[at + j] = places[j]
                y[at + j] = 0
                if places[j] >= 0:
                    y[at + j] = x[base + places[j]]
    alive(space)
    alive(row_places)


@kernel
def winner_search_back(
    x: Any, g: Any, gx: Any, backwards: bool, first: int, last: int, strips: Any,
    outer: int, plane: int, ptr: Any, rows: Any, start: Any, count: Any, step: int, width: int,
) -> None:  # fmt: skip
    """Each gradient to its winner; strips `first` to `last` of all planes, gx is new. `backwards`: the last output first."""
    out, size, lone, row_places = len(start), len(x), plane == width, np.empty(len(start), np.int64)
    space = np.empty((0 if lone else width) + lanes(x), x.dtype)
    queue = np.empty(width if lone and overlap_much(width, step, start, count) else 0, np.int64)
    x, g, gx, buffer, places = address(x), address(g), address(gx), address(space), address(row_places)
    ptr, rows, start, count = address(ptr), address(rows), address(start), address(count)
    for job in range(first, last):
        p, s = job // len(strips), job % len(strips)
        base, own, end = p * plane, strips[s, 0] * width, strips[s, 1] * width
        clear(gx, base + own, base + end)
        for row in range(strips[s, 2], strips[s, 3]):
            find_row(x, size, base, row, ptr, rows, start, count, step, width, out, buffer, places, lone, queue)
            for i in range(out):
                j = out - 1 - i if backwards else i
                if own <= places[j] < end:
                    gx[base + places[j]] += g[(p * outer + row) * out + j]
    alive(space)
    alive(row_places)
