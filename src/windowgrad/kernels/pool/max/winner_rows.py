"""The first winner of every window, separably: along each row which tap wins, then which of its rows wins each output.

Both comparisons are strict and run in order, the last axis first, so the winner is the first in row-major order. The gradient
goes back the same way: an input row collects from the outputs that it won, then each of its cells from the windows along the
row that it won. Nothing is scattered, so all of it runs by vectors, and the cost is the sum of the sides.

For windows that are alike along the row and 1 or 2 cells apart. `like` has the dtype of rows and taps, an integer as wide as x;
`strips` is that of `winner_strips`, whose `top` is row 0 of a block; what follows the lists is a `Layout`. A row is kept by
phases: cells a stride apart stand together, so that a tap of all windows is one run of cells.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from windowgrad.kernels.pool.max.winner_steps import first_greatest, winnings
from windowgrad.kernels.runtime.jit import helper, kernel
from windowgrad.kernels.vector.ops import address, alive, lanes, load, load_part, load_part_as, splat, store, store_part
from windowgrad.kernels.vector.shuffle import even, mixed_high, mixed_low, odd


@helper
def copy_run(x: Any, at: int, y: Any, to: int, run: int) -> None:
    """y[to:to + run] = x[at:at + run]; nothing else is read or written."""
    n, c = lanes(x), 0
    while c + n <= run:
        store(y, to + c, load(x, at + c))
        c += n
    if c < run:
        store_part(y, to + c, load_part(x, at + c, run - c, splat(x, 0)), run - c)


@helper
def split_row(x: Any, at: int, row: Any, length: int, least: Any, line: Any) -> None:
    """A row of x into its phases, each `length` long."""
    width, _, _, stride, before, _, run = line
    n, j = lanes(x), 0
    if stride == 1:
        while j + n <= width:
            store(row, before + j, load(x, at + j))
            j += n
        if j < width:
            store(row, before + j, load_part(x, at + j, width - j, splat(row, least)))
    elif run > 1:
        for c in range(width // run):
            place = before // run + c
            copy_run(x, at + c * run, row, place % 2 * length + place // 2 * run, run)
    else:
        evens = before // 2 + before % 2 * length  # where even cells go, and odd ones
        odds = (before + 1) // 2 + (before + 1) % 2 * length
        while j + 2 * n <= width:
            one, two = load(x, at + j), load(x, at + j + n)
            store(row, evens + j // 2, even(one, two))
            store(row, odds + j // 2, odd(one, two))
            j += 2 * n
        if j < width:
            rest = splat(row, least)
            one, two = load_part(x, at + j, width - j, rest), load_part(x, at + j + n, width - j - n, rest)
            store(row, evens + j // 2, even(one, two))
            store(row, odds + j // 2, odd(one, two))


@helper
def join_row(phases: Any, length: int, gx: Any, at: int, line: Any) -> None:
    """A row of gx from its phases, each `length` long."""
    width, stride, run = line[0], line[3], line[6]
    n, j = lanes(gx), 0
    if stride == 1:
        while j + n <= width:
            store(gx, at + j, load(phases, j))
            j += n
        if j < width:
            store_part(gx, at + j, load(phases, j), width - j)
    elif run > 1:
        for c in range(width // run):
            copy_run(phases, c % 2 * length + c // 2 * run, gx, at + c * run, run)
    else:
        while j + 2 * n <= width:
            one, two = load(phases, j // 2), load(phases, length + j // 2)
            store(gx, at + j, mixed_low(one, two))
            store(gx, at + j + n, mixed_high(one, two))
            j += 2 * n
        if j < width:
            one, two = load(phases, j // 2), load(phases, length + j // 2)
            store_part(gx, at + j, mixed_low(one, two), width - j)
            store_part(gx, at + j + n, mixed_high(one, two), width - j - n)


@helper
def block_rows(
    x: Any, base: int, top: int, bottom: int, back_ptr: Any, row: Any, least: Any, best: Any, tap: Any, slack: int,
    line: Any, sizes: Any, offset: Any, name: Any, edges: Any, initial: Any, strange: int,
) -> None:  # fmt: skip
    """best and tap of the windows along the rows `top` to `bottom` of a plane, of those that any window sees."""
    width, taps, pitch, length = line[0], line[2], sizes[0], sizes[1]
    for i in range(top, bottom):
        if back_ptr[i] < back_ptr[i + 1]:
            split_row(x, base + i * width, row, length, least, line)
            to = (i - top) * pitch
            first_greatest(row, offset, name, taps, pitch, best, to, tap, slack + to)
            for e in range(strange):  # where no cell is above the least value, the first wins, and not the padding before
                at = slack + to + edges[e]
                if tap[at] < initial[e] or initial[e] < 0:
                    tap[at] = initial[e]


@helper
def clear(gx: Any, low: int, high: int) -> None:
    n = lanes(gx)
    while low + n <= high:
        store(gx, low, splat(gx, 0))
        low += n
    if low < high:
        store_part(gx, low, splat(gx, 0), high - low)


@helper
def rows_of(numbers: Any, low: int, high: int, top: int, pitch: int, offset: Any, name: Any) -> int:
    """The rows numbers[low:high] as entries of a block: their offsets and their names, and how many they are."""
    for q in range(low, high):
        name[q - low] = numbers[q] - top
        offset[q - low] = name[q - low] * pitch
    return high - low


@helper
def filled(a: Any, value: Any) -> Any:
    for i in range(len(a)):
        a[i] = value
    return a


@helper
def choose_rows(
    best: Any, ptr: Any, numbers: Any, low: int, high: int, top: int, pitch: int, value: Any, who: Any, offset: Any, name: Any
) -> None:
    """value and who = the winners of the output rows `low` to `high` among the rows of a block; who is counted from `top`."""
    for o in range(low, high):
        if ptr[o] < ptr[o + 1]:
            n, to = rows_of(numbers, ptr[o], ptr[o + 1], top, pitch, offset, name), (o - low) * pitch
            first_greatest(best, offset, name, n, pitch, value, to, who, to)


@helper
def pay_rows(
    who: Any, tap: Any, gradient: Any, back_ptr: Any, back_rows: Any, low: int, high: int, first: int, top: int,
    total: Any, phases: Any, row: Any, names: Any, gx: Any, base: int,
    line: Any, sizes: Any, back_phase: Any, back_offset: Any, back_name: Any,
) -> None:  # fmt: skip
    """gx of the rows `low` to `high`; the output rows of the block are counted from `first`, its rows from `top`."""
    width, stride, (pitch, _, slack, part) = line[0], line[3], sizes
    start = low - low  # not 0: for a literal, Numba compiles a helper once more
    for i in range(low, high):
        n = rows_of(back_rows, back_ptr[i], back_ptr[i + 1], first, pitch, row, names)
        if n == 0:
            clear(gx, base + i * width, base + (i + 1) * width)
            continue
        for q in range(n):
            names[q] = i - top
        winnings(who, start, gradient, start, row, names, start, n, pitch, total, pitch + 2 * slack, slack)
        for phase in range(stride):
            winnings(
                tap, slack + (i - top) * pitch, total, slack, back_offset, back_name,
                back_phase[phase], back_phase[phase + 1], part, phases, stride * part, phase * part,
            )  # fmt: skip
        join_row(phases, part, gx, base + i * width, line)


@kernel
def winner_rows(
    x: Any, y: Any, found: Any, least: Any, like: Any, first: int, last: int,
    outer: int, plane: int, strips: Any, most: Any, ptr: Any, numbers: Any, back_ptr: Any, back_rows: Any,
    line: Any, sizes: Any, offset: Any, name: Any, back_phase: Any, back_offset: Any, back_name: Any, edges: Any, initial: Any,
) -> None:  # fmt: skip
    """y and found = the value and the place of each winner in its plane, 0 and −1 if there is none."""
    width, out, _, stride, before, step, _ = line
    pitch, (height, rows, longest) = sizes[0], most
    row = filled(np.empty(stride * sizes[1], x.dtype), least)
    best, tap = np.empty(height * pitch, x.dtype), np.empty(height * pitch, like.dtype)
    value, who = np.empty(rows * pitch, x.dtype), np.empty(rows * pitch, like.dtype)
    at_row, of_row = np.empty(longest, np.int64), np.empty(longest, np.int64)
    strange, spaces = len(edges), (row, best, tap, value, who, at_row, of_row)
    x, y, found = address(x), address(y), address(found)
    ptr, numbers, back_ptr, back_rows = address(ptr), address(numbers), address(back_ptr), address(back_rows)
    offset, name, edges, initial = address(offset), address(name), address(edges), address(initial)
    row, best, tap, value, who = address(row), address(best), address(tap), address(value), address(who)
    at_row, of_row = address(at_row), address(of_row)
    start = first - first  # not 0: for a literal, Numba compiles a helper once more
    for job in range(first, last):
        p, s = job // len(strips), job % len(strips)
        base, top = p * plane, strips[s, 4]
        block_rows(
            x, base, top, strips[s, 5], back_ptr, row, least, best, tap, start, line, sizes, offset, name, edges, initial,
            strange,
        )  # fmt: skip
        low, high = strips[s, 2], strips[s, 3]
        choose_rows(best, ptr, numbers, low, high, top, pitch, value, who, at_row, of_row)
        for o in range(low, high):
            at, to, some = (p * outer + o) * out, (o - low) * pitch, ptr[o] < ptr[o + 1]
            for j in range(out):
                t = tap[who[to + j] * pitch + j] if some else -1
                found[at + j] = (who[to + j] + top) * width + j * stride - before + t * step if t >= 0 else -1
                y[at + j] = value[to + j]
                if t < 0:
                    y[at + j] = 0
    alive(spaces)


@kernel
def winner_rows_back(
    x: Any, g: Any, gx: Any, least: Any, like: Any, first: int, last: int,
    outer: int, plane: int, strips: Any, most: Any, ptr: Any, numbers: Any, back_ptr: Any, back_rows: Any,
    line: Any, sizes: Any, offset: Any, name: Any, back_phase: Any, back_offset: Any, back_name: Any, edges: Any, initial: Any,
) -> None:  # fmt: skip
    """Each gradient to its winner; strips `first` to `last` of all planes, gx is new."""
    out, stride, (pitch, length, slack, part) = line[1], line[3], sizes
    n, (height, rows, longest) = lanes(x), most
    row = filled(np.empty(stride * length, x.dtype), least)
    best, tap = np.empty(height * pitch, x.dtype), np.empty(height * pitch + 2 * slack, like.dtype)
    value, who = np.empty(rows * pitch, x.dtype), np.empty(rows * pitch, like.dtype)
    gradient, total = np.empty(rows * pitch, gx.dtype), filled(np.empty(2 * (pitch + slack), gx.dtype), 0)
    phases = filled(np.empty((stride + 1) * part, gx.dtype), 0)
    at_row, of_row = np.empty(longest, np.int64), np.empty(longest, np.int64)
    strange, spaces = len(edges), (row, best, tap, value, who, gradient, total, phases, at_row, of_row)
    x, g, gx = address(x), address(g), address(gx)
    ptr, numbers, back_ptr, back_rows = address(ptr), address(numbers), address(back_ptr), address(back_rows)
    offset, name, edges, initial = address(offset), address(name), address(edges), address(initial)
    row, best, tap, value, who = address(row), address(best), address(tap), address(value), address(who)
    gradient, total, phases, at_row, of_row = (
        address(gradient),
        address(total),
        address(phases),
        address(at_row),
        address(of_row),
    )
    back_phase, back_offset, back_name = address(back_phase), address(back_offset), address(back_name)
    for job in range(first, last):
        p, s = job // len(strips), job % len(strips)
        base, low, top = p * plane, strips[s, 2], strips[s, 4]
        block_rows(
            x, base, top, strips[s, 5], back_ptr, row, least, best, tap, slack, line, sizes, offset, name, edges, initial,
            strange,
        )  # fmt: skip
        choose_rows(best, ptr, numbers, low, strips[s, 3], top, pitch, value, who, at_row, of_row)
        for o in range(low, strips[s, 3]):
            at, to, j = (p * outer + o) * out, (o - low) * pitch, 0
            while j < out:
                store(gradient, to + j, load_part_as(g, at + j, min(out - j, n), gradient))
                j += n
        pay_rows(
            who, tap, gradient, back_ptr, back_rows, strips[s, 0], strips[s, 1], low, top, total, phases, at_row, of_row,
            gx, base, line, sizes, back_phase, back_offset, back_name,
        )  # fmt: skip
    alive(spaces)
