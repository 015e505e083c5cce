"""All winners of windows of any kind: the rows of an output row are reduced by columns, by vectors, then its windows.

For every rule of ties but the first. That a cell is among the winners of its
window is two questions: whether it is its column's greatest, and whether that is the window's. Here `rows` and `cells` are
counted in cells of a plane; `like` has the dtype of names of rows, an integer as wide as x.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from windowgrad.kernels.pool.max.winner_rows import clear
from windowgrad.kernels.pool.max.winner_search import look_in_place, overlap_much, slide
from windowgrad.kernels.pool.one_by_one import beats as comes_first
from windowgrad.kernels.runtime.jit import helper, kernel
from windowgrad.kernels.vector.ops import beats, lanes, load, load_part, select, splat, store, store_part


@helper
def whole(cells: int, a: Any) -> Any:
    """The cells of a row in whole vectors."""
    return (cells + lanes(a) - 1) // lanes(a) * lanes(a)


@helper
def cells_of(x: Any, at: int, left: int, rest: Any) -> Any:
    """The next cells of a row that has so many left; `rest` past its end."""
    if left >= lanes(x):
        return load(x, at)
    return load_part(x, at, left, rest)


@helper
def column_tops(x: Any, base: int, rows: Any, low: int, high: int, width: int, least: Any, top: Any, who: Any) -> None:
    """top = the greatest cell of each column of rows[low:high], who = the first of them that has it, counted from 0."""
    j, rest = 0, splat(top, least)
    while j + lanes(x) <= width:
        best, name = load(x, base + rows[low] + j), splat(who, 0)
        for q in range(low + 1, high):
            value = load(x, base + rows[q] + j)
            better = beats(value, best)
            best, name = select(better, value, best), select(better, splat(who, q - low), name)
        store(top, j, best)
        store(who, j, name)
        j += lanes(x)
    if j < width:
        best, name = load_part(x, base + rows[low] + j, width - j, rest), splat(who, 0)
        for q in range(low + 1, high):
            value = load_part(x, base + rows[q] + j, width - j, rest)
            better = beats(value, best)
            best, name = select(better, value, best), select(better, splat(who, q - low), name)
        store(top, j, best)
        store(who, j, name)


@helper
def column_sums(x: Any, amount: Any, base: int, rows: Any, low: int, high: int, width: int, top: Any, total: Any) -> None:
    """total = the sum of the amounts of the cells that are the greatest of their column; without amounts, how many they are."""
    for j in range(0, width, lanes(x)):
        best, none, left = load(top, j), splat(total, 0), width - j
        paid, one = none, splat(total, 1)
        for q in range(low, high):
            at = base + rows[q] + j
            if len(amount) > 0:
                one = cells_of(amount, at, left, none)
            paid = select(beats(best, cells_of(x, at, left, best)), paid, paid + one)
        store(total, j, paid)


@helper
def pay_columns(
    x: Any, gx: Any, base: int, rows: Any, low: int, high: int, first: int, last: int, width: int, top: Any, amount: Any
) -> None:
    """gx += the amount of its column at each cell that is the greatest there, in rows from the cell `first` to `last`."""
    for q in range(low, high):
        if first <= rows[q] < last:
            at, j = base + rows[q], 0
            while j + lanes(x) <= width:
                paid = load(gx, at + j)
                store(gx, at + j, select(beats(load(top, j), load(x, at + j)), paid, paid + load(amount, j)))
                j += lanes(x)
            if j < width:
                best, left = load(top, j), width - j
                paid, behind = load_part(gx, at + j, left, splat(gx, 0)), beats(best, load_part(x, at + j, left, best))
                store_part(gx, at + j, select(behind, paid, paid + load(amount, j)), left)


@helper
def first_column(top: Any, who: Any, start: int, count: int, step: int) -> int:
    """The column of the first winner of one window in row-major order, −1 if it has no cell."""
    if count == 0:
        return -1
    best, value, name = start, top[start], who[start]
    for c in range(start + step, start + count * step, step):
        v, n = top[c], who[c]
        nan, before = v != v, n < name
        better = (v > value) | ((v == value) & before) | (nan & ((value == value) | before))  # no jump that nobody foresees
        best, value, name = (c if better else best), (v if better else value), (n if better else name)
    return best


@helper
def winners_in(top: Any, best: int, number: Any, start: int, count: int, step: int) -> Any:
    """The sum of the numbers of the columns that equal the best one."""
    total = 0.0
    for c in range(start, start + count * step, step):
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
def find_first(
    x: Any, base: int, out: int, start: Any, count: Any, step: int, width: int, following: Any, queue: Any, places: Any
) -> None:
    """places = the first winner of each window, −1 if it has no cell."""
    if len(following) > 0:
        slide(x, base, out, start, count, queue, places)
        find_next(x, base, width, following)
    else:
        for j in range(out):
            places[j] = look_in_place(x, base, start[j], count[j], step)


@kernel
def tied_in_place(
    x: Any, dx: Any, y: Any, split: bool, first: int, last: int, plane: int, start: Any, count: Any, step: int
) -> None:
    """As `tied_columns`, of the planes `first` to `last`, each of one row."""
    out, places = len(start), np.empty(len(start), np.int64)
    long = plane if overlap_much(plane, step, start, count) else 0
    following, queue = np.empty(long, np.int64), np.empty(long, np.int64)
    for p in range(first, last):
        base = p * plane
        find_first(x, base, out, start, count, step, plane, following, queue, places)
        for j in range(out):
            total, winners, c, end = 0.0, 0.0, places[j], start[j] + count[j] * step
            while 0 <= c < end:
                total, winners = total + dx[base + c], winners + 1.0
                c = next_winner(x, base, c, end, step, following)
            y[p * out + j] = total / winners if split and winners > 0 else total


@kernel
def tied_in_place_back(
    x: Any, g: Any, gx: Any, split: bool, first: int, last: int, plane: int, start: Any, count: Any, step: int
) -> None:
    """As `tied_columns_back`, of the planes `first` to `last`, each of one row."""
    out, places = len(start), np.empty(len(start), np.int64)
    long = plane if overlap_much(plane, step, start, count) else 0
    following, queue = np.empty(long, np.int64), np.empty(long, np.int64)
    for p in range(first, last):
        base = p * plane
        clear(gx, base, base + plane)
        find_first(x, base, out, start, count, step, plane, following, queue, places)
        for j in range(out):
            c, end, paid, winners = places[j], start[j] + count[j] * step, g[p * out + j], 0.0
            while split and 0 <= c < end:
                winners += 1.0
                c = next_winner(x, base, c, end, step, following)
            share, c = paid / winners if split else paid, places[j]
            while 0 <= c < end:
                gx[base + c] += share
                c = next_winner(x, base, c, end, step, following)


# --- planes of several rows --------------------------------------------------------------------------------------


@kernel
def tied_columns(
    x: Any, dx: Any, y: Any, split: bool, least: Any, like: Any, first: int, last: int,
    outer: int, plane: int, ptr: Any, rows: Any, start: Any, count: Any, step: int, width: int,
) -> None:  # fmt: skip
    """The sum of the tangents of all winners, or their mean, of the output rows `first` to `last` of all planes."""
    out, cells = len(start), whole(width, x)
    top, who = np.empty(cells, x.dtype), np.empty(cells, like.dtype)
    total, counted = np.empty(cells, y.dtype), np.empty(cells, y.dtype)
    for job in range(first, last):
        base, row = job // outer * plane, job % outer
        low, high = ptr[row], ptr[row + 1]
        if low < high:
            column_tops(x, base, rows, low, high, width, least, top, who)
            column_sums(x, dx, base, rows, low, high, width, top, total)
            if split:
                column_sums(x, dx[:0], base, rows, low, high, width, top, counted)
        for j in range(out):
            y[job * out + j] = 0
            if low < high and count[j] > 0:
                c = first_column(top, who, start[j], count[j], step)
                among = winners_in(top, c, counted, start[j], count[j], step) if split else 1.0
                y[job * out + j] = winners_in(top, c, total, start[j], count[j], step) / among


@kernel
def tied_columns_back(
    x: Any, g: Any, gx: Any, split: bool, least: Any, like: Any, first: int, last: int, strips: Any,
    outer: int, plane: int, ptr: Any, rows: Any, start: Any, count: Any, step: int, width: int,
) -> None:  # fmt: skip
    """The gradient to every winner, or an even part of it; strips `first` to `last` of all planes, gx is new."""
    out, cells = len(start), whole(width, x)
    top, who = np.empty(cells, x.dtype), np.empty(cells, like.dtype)
    amount, counted = np.empty(cells, gx.dtype), np.empty(cells, gx.dtype)
    for job in range(first, last):
        p, s = job // len(strips), job % len(strips)
        base, own, end = p * plane, strips[s, 0] * width, strips[s, 1] * width
        clear(gx, base + own, base + end)
        for row in range(strips[s, 2], strips[s, 3]):
            low, high = ptr[row], ptr[row + 1]
            if low == high:
                continue
            column_tops(x, base, rows, low, high, width, least, top, who)
            if split:
                column_sums(x, gx[:0], base, rows, low, high, width, top, counted)
            amount[:] = 0
            for j in range(out):
                c = first_column(top, who, start[j], count[j], step)
                if c < 0:
                    continue
                paid = g[(p * outer + row) * out + j]
                if split:
                    paid = paid / winners_in(top, c, counted, start[j], count[j], step)
                for k in range(start[j], start[j] + count[j] * step, step):
                    if not comes_first(top[c], top[k]):
                        amount[k] += paid
            pay_columns(x, gx, base, rows, low, high, own, end, width, top, amount)
