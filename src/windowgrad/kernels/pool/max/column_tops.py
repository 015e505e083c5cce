"""The columns of the rows that an output row sees: the greatest cell of each, by vectors, and of those the winner of a window.

A cell is the first winner of its window in row-major order if no column has a greater one, none that equals it in an earlier
row, and none before it that equals it in the same row.
"""

from __future__ import annotations

from typing import Any

from windowgrad.kernels.runtime.jit import helper
from windowgrad.kernels.vector.ops import beats, lanes, load, load_part, select, splat, store


@helper
def whole(cells: int, a: Any) -> Any:
    """The cells of a row in whole vectors."""
    return (cells + lanes(a) - 1) // lanes(a) * lanes(a)


@helper
def column_tops(x: Any, base: int, rows: Any, width: int, least: Any, top: Any, who: Any) -> None:
    """top = the greatest cell of each column of the rows, who = the first of them that has it, counted from 0."""
    low, high, places, n = rows.low, rows.high, rows.places, lanes(x)
    j, rest = 0, splat(top, least)
    while j + 2 * n <= width:  # two columns of vectors: each comparison waits for the one before
        at = base + places[low] + j
        best, other, name, second = load(x, at), load(x, at + n), splat(who, 0), splat(who, 0)
        for q in range(low + 1, high):
            at, this = base + places[q] + j, splat(who, q - low)
            value, more = load(x, at), load(x, at + n)
            better, also = beats(value, best), beats(more, other)
            best, name = select(better, value, best), select(better, this, name)
            other, second = select(also, more, other), select(also, this, second)
        store(top, j, best)
        store(who, j, name)
        store(top, j + n, other)
        store(who, j + n, second)
        j += 2 * n
    while j < width:
        best, name = load_part(x, base + places[low] + j, width - j, rest), splat(who, 0)
        for q in range(low + 1, high):
            value = load_part(x, base + places[q] + j, width - j, rest)
            better = beats(value, best)
            best, name = select(better, value, best), select(better, splat(who, q - low), name)
        store(top, j, best)
        store(who, j, name)
        j += n


@helper
def first_column(top: Any, who: Any, windows: Any, j: int) -> int:
    """The column of the first winner of window j in row-major order, −1 if it has no cell."""
    if windows.count[j] == 0:
        return -1
    start, step = windows.start[j], windows.step
    best, value, name = start, top[start], who[start]
    for c in range(start + step, start + windows.count[j] * step, step):
        v, n = top[c], who[c]
        nan, before = v != v, n < name
        better = (v > value) | ((v == value) & before) | (nan & ((value == value) | before))  # no jump that nobody foresees
        best, value, name = (c if better else best), (v if better else value), (n if better else name)
    return best  # type: ignore[no-any-return]
