"""The first winner of every window, separably: along each row which tap wins, then which of its rows wins each output.

Both comparisons are strict and run in order, the last axis first, so the winner is the first in row-major order. The gradient
goes back the same way: an input row collects from the outputs that it won, then each of its cells from the windows along the
row that it won. Nothing is scattered, so all of it runs by vectors, and the cost is the sum of the sides.

For windows that are alike along the row and 1 or 2 cells apart. `line` is (width, out, taps, stride, before, step); `like` has
the dtype of rows and taps, an integer as wide as x; `strips` is that of `winner_strips`, whose `top` is row 0 of a block. A
row is kept by phases: cells a stride apart stand together, so that a tap of all windows is one run of cells.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from windowgrad.kernels.jit import helper, inlined, kernel
from windowgrad.kernels.lanes import even, lanes_of, mixed_high, mixed_low, odd
from windowgrad.kernels.simd import load, load_part, load_part_as, splat, store, store_part
from windowgrad.kernels.winner_steps import first_greatest, winnings


@helper
def whole(cells: int, a: Any) -> Any:
    """The cells of a row in whole vectors."""
    return (cells + lanes_of(a) - 1) // lanes_of(a) * lanes_of(a)


@helper
def phase_length(line: Any, a: Any) -> Any:
    """Cells of one phase of a padded row, and room for vectors that run past its end."""
    width, out, taps, stride, before, step = line
    return whole(max(before + width, (out - 1) * stride + (taps - 1) * step + 1) // stride + 1, a) + 2 * lanes_of(a)


@inlined
def split_row(x: Any, at: int, row: Any, length: int, least: Any, line: Any) -> None:
    """A row of x into its phases, each `length` long."""
    width, _, _, stride, before, _ = line
    lanes, j = lanes_of(x), 0
    if stride == 1:
        while j + lanes <= width:
            store(row, before + j, load(x, at + j))
            j += lanes
        if j < width:
            store(row, before + j, load_part(x, at + j, width - j, splat(row, least)))
    else:
        evens = before // 2 + before % 2 * length  # where even cells go, and odd ones
        odds = (before + 1) // 2 + (before + 1) % 2 * length
        while j + 2 * lanes <= width:
            one, two = load(x, at + j), load(x, at + j + lanes)
            store(row, evens + j // 2, even(one, two))
            store(row, odds + j // 2, odd(one, two))
            j += 2 * lanes
        if j < width:
            rest = splat(row, least)
            one, two = load_part(x, at + j, width - j, rest), load_part(x, at + j + lanes, width - j - lanes, rest)
            store(row, evens + j // 2, even(one, two))
            store(row, odds + j // 2, odd(one, two))


@inlined
def join_row(phases: Any, length: int, gx: Any, at: int, line: Any) -> None:
    """A row of gx from its phases, each `length` long."""
    width, stride = line[0], line[3]
    lanes, j = lanes_of(gx), 0
    if stride == 1:
        while j + lanes <= width:
            store(gx, at + j, load(phases, j))
            j += lanes
        if j < width:
            store_part(gx, at + j, load(phases, j), width - j)
    else:
        while j + 2 * lanes <= width:
            one, two = load(phases, j // 2), load(phases, length + j // 2)
            store(gx, at + j, mixed_low(one, two))
            store(gx, at + j + lanes, mixed_high(one, two))
            j += 2 * lanes
        if j < width:
            one, two = load(phases, j // 2), load(phases, length + j // 2)
            store_part(gx, at + j, mixed_low(one, two), width - j)
            store_part(gx, at + j + lanes, mixed_high(one, two), width - j - lanes)


@helper
def forward_taps(length: int, line: Any) -> Any:
    """(offset, name) of each tap: where its cells start in a split row."""
    taps, stride, step = line[2], line[3], line[5]
    name = np.arange(taps)
    return name * step % stride * length + name * step // stride, name


@helper
def backward_taps(line: Any) -> Any:
    """(ptr, offset, name): the taps that cells of each phase can be, and how far from the cell their window stands."""
    _, _, taps, stride, before, step = line
    ptr, offset, name = np.zeros(stride + 1, np.int64), np.empty(taps, np.int64), np.empty(taps, np.int64)
    q = 0
    for phase in range(stride):
        for t in range(taps):
            if (phase + before - t * step) % stride == 0:
                offset[q], name[q] = (phase + before - t * step) // stride, t
                q += 1
        ptr[phase + 1] = q
    return ptr, offset, name


@helper
def first_taps(start: Any, count: Any, line: Any) -> Any:
    """(the first tap of each window that is a cell, −1 if none is; the windows whose first tap is none)."""
    _, out, _, stride, before, step = line
    taps, edges, n = np.full(out, -1, np.int64), np.empty(out, np.int64), 0
    for j in range(out):
        if count[j] > 0:
            taps[j] = (start[j] + before - j * stride) // step
        if taps[j] != 0:
            edges[n] = j
            n += 1
    return taps, edges[:n]


@inlined
def block_rows(
    x: Any, base: int, top: int, bottom: int, back_ptr: Any, row: Any, length: int, least: Any, offset: Any, name: Any,
    best: Any, pitch: int, tap: Any, slack: int, initial: Any, edges: Any, line: Any,
) -> None:  # fmt: skip
    """best and tap of the windows along the rows `top` to `bottom` of a plane, of those that any window sees."""
    width, taps = line[0], line[2]
    for i in range(top, bottom):
        if back_ptr[i] < back_ptr[i + 1]:
            split_row(x, base + i * width, row, length, least, line)
            to = (i - top) * pitch
            first_greatest(row, offset, name, taps, pitch, best, to, tap, slack + to)
            for j in edges:  # where no cell is above the least value, the first cell wins, and not the padding before it
                if tap[slack + to + j] < initial[j] or initial[j] < 0:
                    tap[slack + to + j] = initial[j]


@inlined
def clear(gx: Any, low: int, high: int) -> None:
    lanes = lanes_of(gx)
    while low + lanes <= high:
        store(gx, low, splat(gx, 0))
        low += lanes
    if low < high:
        store_part(gx, low, splat(gx, 0), high - low)


@inlined
def most(strips: Any, low: int, high: int) -> int:
    """The longest range of all strips."""
    rows = 0
    for s in range(len(strips)):
        rows = max(rows, strips[s, high] - strips[s, low])
    return rows


@inlined
def rows_of(numbers: Any, low: int, high: int, top: int, pitch: int, offset: Any, name: Any) -> int:
    """The rows numbers[low:high] as entries of a block: their offsets and their names, and how many they are."""
    for q in range(low, high):
        name[q - low] = numbers[q] - top
        offset[q - low] = name[q - low] * pitch
    return high - low


@kernel
def winner_rows(
    x: Any, y: Any, found: Any, least: Any, like: Any, first: int, last: int, outer: int, plane: int, strips: Any, longest: int,
    ptr: Any, numbers: Any, back_ptr: Any, back_rows: Any, start: Any, count: Any, line: Any,
) -> None:  # fmt: skip
    """y and found = the value and the place of each winner in its plane, 0 and −1 if there is none."""
    width, out, _, stride, before, step = line
    pitch, length, height = whole(out, x), phase_length(line, x), most(strips, 4, 5)
    row, (offset, name) = np.full(stride * length, least, x.dtype), forward_taps(length, line)
    initial, edges = first_taps(start, count, line)
    best, tap = np.empty(height * pitch, x.dtype), np.empty(height * pitch, like.dtype)
    value, who = np.empty(pitch, x.dtype), np.empty(pitch, like.dtype)
    at_row, of_row = np.empty(longest, np.int64), np.empty(longest, np.int64)
    for job in range(first, last):
        p, s = divmod(job, len(strips))
        base, top = p * plane, strips[s, 4]
        block_rows(
            x, base, top, strips[s, 5], back_ptr, row, length, least, offset, name, best, pitch, tap, 0, initial, edges, line
        )
        for o in range(strips[s, 2], strips[s, 3]):
            at, n = (p * outer + o) * out, rows_of(numbers, ptr[o], ptr[o + 1], top, pitch, at_row, of_row)
            if n > 0:
                first_greatest(best, at_row, of_row, n, pitch, value, 0, who, 0)
            for j in range(out):
                t = tap[who[j] * pitch + j] if n > 0 else -1
                found[at + j] = (who[j] + top) * width + j * stride - before + t * step if t >= 0 else -1
                y[at + j] = value[j]
                if t < 0:
                    y[at + j] = 0


@kernel
def winner_rows_back(
    x: Any, g: Any, gx: Any, least: Any, like: Any, first: int, last: int, outer: int, plane: int, strips: Any, longest: int,
    ptr: Any, numbers: Any, back_ptr: Any, back_rows: Any, start: Any, count: Any, line: Any,
) -> None:  # fmt: skip
    """Each gradient to its winner; strips `first` to `last` of all planes, gx is new."""
    width, out, taps, stride, before, step = line
    lanes, pitch, length = lanes_of(x), whole(out, x), phase_length(line, x)
    height, rows = most(strips, 4, 5), most(strips, 2, 3)
    slack = ((taps - 1) * step + before + width) // stride + 2 * lanes
    row, (offset, name) = np.full(stride * length, least, x.dtype), forward_taps(length, line)
    back_phase, back_offset, back_name = backward_taps(line)
    initial, edges = first_taps(start, count, line)
    best, tap = np.empty(height * pitch, x.dtype), np.empty(height * pitch + 2 * slack, like.dtype)
    value, who = np.empty(pitch, x.dtype), np.empty(rows * pitch, like.dtype)
    gradient, total = np.empty(rows * pitch, gx.dtype), np.zeros(2 * (pitch + slack), gx.dtype)
    part = whole((width + stride - 1) // stride, x)
    phases, zeros = np.zeros((stride + 1) * part, gx.dtype), pitch + 2 * slack
    at_row, of_row = np.empty(longest, np.int64), np.empty(longest, np.int64)
    for job in range(first, last):
        p, s = divmod(job, len(strips))
        base, low, top = p * plane, strips[s, 2], strips[s, 4]
        block_rows(
            x, base, top, strips[s, 5], back_ptr, row, length, least,
            offset, name, best, pitch, tap, slack, initial, edges, line,
        )  # fmt: skip
        for o in range(low, strips[s, 3]):
            at, to = (p * outer + o) * out, (o - low) * pitch
            n = rows_of(numbers, ptr[o], ptr[o + 1], top, pitch, at_row, of_row)
            if n > 0:
                first_greatest(best, at_row, of_row, n, pitch, value, 0, who, to)
                for j in range(0, out, lanes):
                    store(gradient, to + j, load_part_as(g, at + j, min(out - j, lanes), gradient))
        for i in range(strips[s, 0], strips[s, 1]):
            n = rows_of(back_rows, back_ptr[i], back_ptr[i + 1], low, pitch, at_row, of_row)
            if n == 0:
                clear(gx, base + i * width, base + (i + 1) * width)
                continue
            of_row[:n] = i - top
            winnings(who, 0, gradient, 0, at_row, of_row, 0, n, pitch, total, zeros, slack)
            for phase in range(stride):
                winnings(
                    tap, slack + (i - top) * pitch, total, slack, back_offset, back_name,
                    back_phase[phase], back_phase[phase + 1], part, phases, stride * part, phase * part,
                )  # fmt: skip
            join_row(phases, part, gx, base + i * width, line)
