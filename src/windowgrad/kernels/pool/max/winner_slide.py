"""First winners of windows along a single row that overlap much: by vectors, or by a queue.

Of every cell, the first winner of the `size` cells from it on is found by doubling, in place: `size` is the greatest power of
two that is no more than the taps of a window. Comparisons are strict, so the first of equals wins:

    one cell          c c c c c c c c
    two cells         the winner of i and that of i + 1            window    |   size   |
    four cells        that of i and that of i + 2, and so on                    |   size   |

A window is two of these, which may overlap. Cells are compared as `column_tops.ranked` says, a stretch of the row at a time, so
that all of it stays in a cache. Windows of fewer cells, at the ends of a row, and those that are not all alike, are slid over
it with a queue of the cells that may still win: a cell enters and leaves it once, whatever the size of the window.
"""

from __future__ import annotations

from typing import Any

from windowgrad.kernels.pool.max.column_tops import ranked
from windowgrad.kernels.pool.one_by_one import beats as comes_first
from windowgrad.kernels.runtime.jit import helper
from windowgrad.kernels.vector.ops import lanes, load, load_part, select, splat, store

STRETCH = 1 << 11
"""Cells of a row that are doubled at a time, besides those of two windows."""


@helper
def slide(x: Any, base: int, low: int, high: int, cell: int, windows: Any, queue: Any, places: Any) -> None:
    """places = the first greatest cell of the windows `low` to `high` along one row, −1 if it has none.

    The queue has the cells of a window, from `cell` on, that no later one beats; the first of them is the winner.
    """
    head, tail = 0, 0
    for j in range(low, high):
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
def size_of(taps: int) -> int:
    """The greatest power of two that is no more."""
    size = 1
    while 2 * size <= taps:
        size *= 2
    return size


@helper
def stretch_of(line: Any) -> int:
    """The most cells that are doubled at a time."""
    return min(line.width, STRETCH + 2 * line.taps)  # type: ignore[no-any-return]


@helper
def room_of(line: Any, n: int) -> int:
    """How many entries `double_winners` needs: it reads `size` and a vector past the cells."""
    return stretch_of(line) + size_of(line.taps) + 2 * n  # type: ignore[no-any-return]


@helper
def double_winners(x: Any, at: int, cells: int, size: int, least: Any, top: Any, who: Any) -> None:
    """top[i] = the greatest of `size` cells from i on, as `ranked`, who[i] = the first of them that has it; counted from `at`.

    That is so of as many as there are such cells.
    """
    n, i, power = lanes(x), 0, 1
    while i + n <= cells:
        store(top, i, ranked(load(x, at + i), top))
        i += n
    if i < cells:
        store(top, i, ranked(load_part(x, at + i, cells - i, splat(x, least)), top))
    for i in range(cells):
        who[i] = i
    while 2 * power <= size:
        for i in range(0, cells, n):
            here, there = load(top, i), load(top, i + power)
            better = there > here
            store(top, i, select(better, there, here))
            store(who, i, select(better, load(who, i + power), load(who, i)))
        power *= 2


@helper
def slide_by_vectors(
    x: Any, base: int, line: Any, windows: Any, least: Any, queue: Any, top: Any, who: Any, places: Any
) -> None:
    """As `slide`, of all windows; they are alike."""
    size, low, high = size_of(line.taps), 0, line.out
    while low < high and windows.count[low] < size:
        low += 1
    while low < high and windows.count[high - 1] < size:
        high -= 1
    slide(x, base, 0, low, 0, windows, queue, places)
    slide(x, base, high, line.out, windows.start[high - 1] if low < high else 0, windows, queue, places)
    j, room = low, stretch_of(line)
    while j < high:
        begin, end = windows.start[j], j
        while end < high and windows.start[end] + windows.count[end] - begin <= room:
            end += 1
        double_winners(x, base + begin, windows.start[end - 1] + windows.count[end - 1] - begin, size, least, top, who)
        for k in range(j, end):
            one = windows.start[k] - begin
            other = one + windows.count[k] - size
            places[k] = begin + (who[other] if top[other] > top[one] else who[one])
        j = end
