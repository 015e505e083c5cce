"""Maximum: the rows of a window are folded into one buffer, then come the spans along it.

For every geometry (`entry.max_forward`) but windows of many rows that overlap much, which `axis_rows` does. A piece of an
output row at a time, so that its buffer stays in the nearest cache (`row_pieces`):

    rows that it sees    c c c c c c c c c c        fold_rows: the greatest of each column
                         c c c c c c c c c c
    buffer             . v v v v v v v v v v .      window_spans: the greatest of each window; `.` is padding, the least value
    outputs                w   w   w   w

Windows along the row that are not all alike are taken one by one; of a plane that is one row, where its cells are, without a
buffer.

That order is not the order of the meaning, and comparing by > is not all of it. Where it could tell, a row is looked at
again: NaN, which is seen while the rows are folded; and 0.0 beside −0.0, of which the first wins, in the outputs that are 0.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from windowgrad.kernels.pool.fold_rows import ahead_of, folding
from windowgrad.kernels.pool.one_by_one import winner
from windowgrad.kernels.pool.packed import rows_of, unpacked
from windowgrad.kernels.pool.row_pieces import buffer_size, fill, is_unchanged, next_piece, padding_end, piece_at, seen_by
from windowgrad.kernels.pool.window_spans import spanning, uses_up
from windowgrad.kernels.runtime.jit import helper, unrolled_kernel
from windowgrad.kernels.vector.half import are_alike, cells, one_of
from windowgrad.kernels.vector.loops import larger
from windowgrad.kernels.vector.ops import (
    address,
    alive,
    anywhere,
    either,
    is_negative_zero,
    is_zero,
    lanes,
    load,
    load_part,
    load_part_as,
    not_equal,
    splat,
    store,
)
from windowgrad.kernels.vector.ops import (
    larger as greater_lanes,
)
from windowgrad.kernels.vector.shuffle import top_of_lanes

fold = folding(larger, True)
spans = spanning(larger, True)


@helper
def top_along(buffer: Any, at: int, count: int) -> Any:
    """The greatest of so many cells from `at` on; there is at least one, and none is NaN."""
    n = lanes(buffer)
    if count < n:
        return top_of_lanes(load_part(buffer, at, count, splat(buffer, buffer[at])))
    best, i = load(buffer, at + count - n), 0  # some cells twice
    while i + n < count:
        best = greater_lanes(best, load(buffer, at + i))
        i += n
    return top_of_lanes(best)


@helper
def unlike(buffer: Any, y: Any, at: int, out: int, windows: Any) -> None:
    """Windows that are not all alike, each as its start and its count say."""
    for j in range(out):
        best = buffer[windows.start[j]]
        if windows.step == 1:
            best = top_along(buffer, windows.start[j], windows.count[j])
        for t in range(1, windows.count[j] if windows.step > 1 else 0):
            value = buffer[windows.start[j] + t * windows.step]
            best = value if value > best else best
        y[at + j] = best


@helper
def in_place(x: Any, base: int, y: Any, at: int, out: int, windows: Any, spare: Any) -> Any:
    """The same, read where the cells are, for a plane that is one row; says whether a cell is NaN."""
    n, strange = lanes(x), False
    for j in range(out):
        first, cells = base + windows.start[j], windows.count[j] if windows.step == 1 else 0
        i = 0
        if cells > 0:
            y[at + j] = x[first]
        if cells >= n:
            best = load(x, first)
            seen = not_equal(best, best)
            while i + n <= cells:
                some = load(x, first + i)
                best, seen = greater_lanes(best, some), either(seen, not_equal(some, some))
                i += n
            strange |= anywhere(seen)
            store(spare, 0, best)
            for k in range(n):
                y[at + j] = spare[k] if spare[k] > y[at + j] else y[at + j]
        for k in range(i, windows.count[j]):
            value = x[first + k * windows.step]
            strange |= value != value
            y[at + j] = value if k == 0 or value > y[at + j] else y[at + j]
    return strange


@helper
def has_zero(y: Any, at: int, out: int) -> Any:
    """Whether an output is a zero of either sign."""
    n, seen = lanes(y), is_zero(splat(y, 1))
    j = 0
    while j < out - n + 1:
        seen = either(seen, is_zero(load(y, at + j)))
        j += n
    found = anywhere(seen)
    for j in range(out // n * n, out):
        found |= y[at + j] == 0
    return found


@helper
def has_negative_zero(x: Any, base: int, rows: Any, width: int) -> Any:
    """Whether a cell of the rows is −0.0."""
    n, seen = lanes(x), is_negative_zero(splat(x, 1))
    for q in range(rows.low, rows.high):
        at = base + rows.places[q]
        j = 0
        while j < width - n + 1:
            seen = either(seen, is_negative_zero(load(x, at + j)))
            j += n
        seen = either(seen, is_negative_zero(load_part_as(x, at + width // n * n, width % n, x)))
    return anywhere(seen)


@helper
def look_again(x: Any, y: Any, piece: Any, everywhere: bool, windows: Any) -> None:
    """The outputs of a piece in the order of the meaning: all of them, or those that are a zero."""
    for j in range(piece.low, piece.high):
        at = piece.at + j - piece.low
        if everywhere or y[at] == 0:
            cell = winner(x, piece.base, windows, piece.row, j)
            y[at] = 0
            if cell >= 0:
                y[at] = x[piece.base + cell]


@unrolled_kernel
def max_rows(x: Any, y: Any, least: Any, plan: Any, first: int, last: int) -> None:
    """Pieces `first` to `last` of the output rows of all planes."""
    top_rows(x, y, least, plan, first, last)


@helper
def top_rows(x: Any, y: Any, least: Any, plan: Any, first: int, last: int) -> None:
    """The same, for kernels that make x themselves."""
    line, windows, size = unpacked(plan)
    taps, step, stride = line.taps, line.step, line.stride
    lone, holes = taps == 0 and windows.plane == line.width, False  # of a plane that is one row, cells are read in place
    space = np.full(lanes(x) if lone else buffer_size(line, size, lanes(x)), least)
    ahead = ahead_of(x, line, windows)
    x, y, buffer = cells(x), cells(y), address(space)
    refill, direct = size < line.out or uses_up(taps), is_unchanged(line) and are_alike(y, buffer)
    for j in range(line.out):
        holes |= windows.count[j] == 0
    piece = piece_at(first, size, line, windows)
    for _ in range(first, last):
        at, out, rows = piece.at, piece.high - piece.low, rows_of(windows, piece.row)
        left, right, shift = seen_by(line, piece)
        if rows.low == rows.high or left >= right:
            fill(y, at, at + out, 0)
        else:
            if refill:  # else the padding is as it was made
                fill(buffer, 0, left + shift, least)
                fill(buffer, right + shift, padding_end(line, piece, right + shift), least)
            target, to = one_of(direct, y, at, buffer, left + shift)
            if lone:
                strange = in_place(x, piece.base, y, at, out, windows, buffer)
            else:
                strange = anywhere(fold(x, piece.base + left, rows, right - left, target, to, ahead))
                if taps == 0:
                    unlike(buffer, y, at, out, windows)
                elif not direct:
                    spans(buffer, 0, y, at, out, taps, step, stride)
            if strange or (has_zero(y, at, out) and has_negative_zero(x, piece.base + left, rows, right - left)):
                look_again(x, y, piece, strange, windows)
            for j in range(out if holes else 0):
                if windows.count[piece.low + j] == 0:
                    y[at + j] = 0
        piece = next_piece(piece, size, line, windows)
    alive(space)
