"""All winners of windows of any kind: the rows of an output row are reduced by columns, by vectors, then its windows.

For every rule of ties but the first (`entry.max_jvp`, `entry.max_vjp`). That a cell is among the winners of its window is two
questions: whether it is its column's greatest, and whether that is the window's.

    rows that it sees   c c c c c c c c
                        c c c c c c c c
    top                 v v v v v v v v       the greatest of each column, and how many cells have it
    windows             |  w  |   |  w  |     the columns that equal the window's greatest

The gradient goes back strip by strip (`winner_strips`); a plane that is one row is read in place. `like` has the dtype of names
of rows, an integer as wide as x.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from windowgrad.kernels.pool.max.column_tops import column_tops, first_tap, whole
from windowgrad.kernels.pool.max.winner_search import find_in_place, overlap_much
from windowgrad.kernels.pool.max.winner_strips import strip_of
from windowgrad.kernels.pool.one_by_one import beats as comes_first
from windowgrad.kernels.pool.packed import rows_of, unpacked
from windowgrad.kernels.pool.row_pieces import clear
from windowgrad.kernels.runtime.jit import helper, unrolled_kernel
from windowgrad.kernels.vector.ops import address, beats, lanes, load, load_part, select, splat, store, store_part


@helper
def cells_of(x: Any, at: int, left: int, rest: Any) -> Any:
    """The next cells of a row that has so many left; `rest` past its end."""
    if left >= lanes(x):
        return load(x, at)
    return load_part(x, at, left, rest)


@helper
def column_sums(x: Any, amount: Any, base: int, rows: Any, width: int, top: Any, total: Any) -> None:
    """total = the sum of the amounts of the cells that are the greatest of their column; without amounts, how many they are."""
    for j in range(0, width, lanes(x)):
        best, none, left = load(top, j), splat(total, 0), width - j
        paid, one = none, splat(total, 1)
        for q in range(rows.low, rows.high):
            at = base + rows.places[q] + j
            if len(amount) > 0:
                one = cells_of(amount, at, left, none)
            paid = select(beats(best, cells_of(x, at, left, best)), paid, paid + one)
        store(total, j, paid)


@helper
def pay_columns(x: Any, gx: Any, base: int, rows: Any, strip: Any, width: int, top: Any, amount: Any) -> None:
    """gx += the amount of its column at each cell that is the greatest there, in the rows that a strip owns."""
    for q in range(rows.low, rows.high):
        if strip.first * width <= rows.places[q] < strip.last * width:
            at, j = base + rows.places[q], 0
            while j + lanes(x) <= width:
                paid = load(gx, at + j)
                store(gx, at + j, select(beats(load(top, j), load(x, at + j)), paid, paid + load(amount, j)))
                j += lanes(x)
            if j < width:
                best, left = load(top, j), width - j
                paid, behind = load_part(gx, at + j, left, splat(gx, 0)), beats(best, load_part(x, at + j, left, best))
                store_part(gx, at + j, select(behind, paid, paid + load(amount, j)), left)


@helper
def winners_in(top: Any, best: int, number: Any, windows: Any, j: int) -> Any:
    """The sum of the numbers of the columns of window j that equal the best one."""
    total, start, step = 0.0, windows.start[j], windows.step
    for c in range(start, start + windows.count[j] * step, step):
        if not comes_first(top[best], top[c]):
            total += number[c]
    return total


# --- a plane that is one row: read in place ----------------------------------------------------------------------


@helper
def find_next(x: Any, base: int, width: int, following: Any) -> None:
    """following[i] = the next cell that cell i does not beat. After a window's first winner these are its other winners."""
    for k in range(width):
        i = width - 1 - k
        q = i + 1
        while q < width and comes_first(x[base + i], x[base + q]):
            q = following[q]
        following[i] = q


@helper
def next_winner(x: Any, base: int, c: int, end: int, step: int, following: Any) -> int:
    """The next cell of a window that equals its winner c, `end` or more if there is none."""
    if len(following) > 0:
        return following[c]  # type: ignore[no-any-return]
    k = c + step
    while k < end and comes_first(x[base + c], x[base + k]):
        k += step
    return k


@helper
def find_first(x: Any, base: int, line: Any, windows: Any, following: Any, queue: Any, places: Any) -> None:
    """places = the first winner of each window, −1 if it has no cell; following, if windows overlap much, as in `find_next`."""
    find_in_place(x, base, line.out, windows, queue, places)
    if len(following) > 0:
        find_next(x, base, line.width, following)


@unrolled_kernel
def tied_in_place(x: Any, dx: Any, y: Any, split: bool, plan: Any, first: int, last: int) -> None:
    """As `tied_columns`, of the planes `first` to `last`, each of one row."""
    line, windows, _ = unpacked(plan)
    out, step, places = line.out, line.step, np.empty(line.out, np.int64)
    long = line.width if overlap_much(line, windows) else 0
    following, queue = np.empty(long, np.int64), np.empty(long, np.int64)
    for p in range(first, last):
        base = p * line.width
        find_first(x, base, line, windows, following, queue, places)
        for j in range(out):
            total, winners, c, end = 0.0, 0.0, places[j], windows.start[j] + windows.count[j] * step
            while 0 <= c < end:
                total, winners = total + dx[base + c], winners + 1.0
                c = next_winner(x, base, c, end, step, following)
            y[p * out + j] = total / winners if split and winners > 0 else total


@unrolled_kernel
def tied_in_place_back(x: Any, g: Any, gx: Any, split: bool, plan: Any, first: int, last: int) -> None:
    """As `tied_columns_back`, of the planes `first` to `last`, each of one row."""
    line, windows, _ = unpacked(plan)
    out, step, places = line.out, line.step, np.empty(line.out, np.int64)
    long = line.width if overlap_much(line, windows) else 0
    following, queue = np.empty(long, np.int64), np.empty(long, np.int64)
    for p in range(first, last):
        base = p * line.width
        clear(gx, base, base + line.width)
        find_first(x, base, line, windows, following, queue, places)
        for j in range(out):
            c, end, paid, winners = places[j], windows.start[j] + windows.count[j] * step, g[p * out + j], 0.0
            while split and 0 <= c < end:
                winners += 1.0
                c = next_winner(x, base, c, end, step, following)
            share, c = paid / winners if split else paid, places[j]
            while 0 <= c < end:
                gx[base + c] += share
                c = next_winner(x, base, c, end, step, following)


# --- planes of several rows --------------------------------------------------------------------------------------


@unrolled_kernel
def tied_columns(x: Any, dx: Any, y: Any, split: bool, least: Any, like: Any, plan: Any, first: int, last: int) -> None:
    """The sum of the tangents of all winners, or their mean, of the output rows `first` to `last` of all planes."""
    line, windows, _ = unpacked(plan)
    out, width, cells = line.out, line.width, whole(line.width, x)
    top, who = np.empty(cells, x.dtype), np.empty(cells, like.dtype)
    total, counted = np.empty(cells, y.dtype), np.empty(cells, y.dtype)
    for job in range(first, last):
        base, rows = job // windows.rows * windows.plane, rows_of(windows, job % windows.rows)
        if rows.low < rows.high:
            column_tops(x, base, rows, width, least, top, who)
            column_sums(x, dx, base, rows, width, top, total)
            if split:
                column_sums(x, dx[:0], base, rows, width, top, counted)
        for j in range(out):
            y[job * out + j] = 0
            if rows.low < rows.high and windows.count[j] > 0:
                c = windows.start[j] + first_tap(top, who, windows, j) * windows.step
                among = winners_in(top, c, counted, windows, j) if split else 1.0
                y[job * out + j] = winners_in(top, c, total, windows, j) / among


@unrolled_kernel
def tied_columns_back(
    x: Any, g: Any, gx: Any, split: bool, least: Any, like: Any, strips: Any, plan: Any, first: int, last: int
) -> None:
    """The gradient to every winner, or an even part of it; strips `first` to `last` of all planes, gx is new."""
    line, windows, _ = unpacked(plan)
    out, width, cells, count = line.out, line.width, whole(line.width, x), len(strips)
    top, who = np.empty(cells, x.dtype), np.empty(cells, like.dtype)
    amount, counted = np.empty(cells, gx.dtype), np.empty(cells, gx.dtype)
    for job in range(first, last):
        p, strip = job // count, strip_of(address(strips), job % count)
        base = p * windows.plane
        clear(gx, base + strip.first * width, base + strip.last * width)
        for row in range(strip.low, strip.high):
            rows = rows_of(windows, row)
            if rows.low == rows.high:
                continue
            column_tops(x, base, rows, width, least, top, who)
            if split:
                column_sums(x, gx[:0], base, rows, width, top, counted)
            amount[:] = 0
            for j in range(out):
                c = windows.start[j] + first_tap(top, who, windows, j) * windows.step
                if c < 0:
                    continue
                paid = g[(p * windows.rows + row) * out + j]
                if split:
                    paid = paid / winners_in(top, c, counted, windows, j)
                for k in range(windows.start[j], windows.start[j] + windows.count[j] * line.step, line.step):
                    if not comes_first(top[c], top[k]):
                        amount[k] += paid
            pay_columns(x, gx, base, rows, strip, width, top, amount)
