"""Maximum by rows: the rows of a window are folded into one buffer, then come the spans along it.

That order is not the order of the meaning, and comparing by > is not all of it. Where it could tell, a row is looked at
again: NaN, which is seen while the rows are folded; and 0.0 beside −0.0, of which the first wins, in the outputs that are 0.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from windowgrad.kernels.pool.fold_rows import folding
from windowgrad.kernels.pool.one_by_one import winner
from windowgrad.kernels.pool.row_pieces import cut, ends, fill, next_piece, reach, unpacked
from windowgrad.kernels.pool.window_spans import spanning, uses_up
from windowgrad.kernels.runtime.jit import helper, kernel
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
    load_part_as,
    not_equal,
    splat,
    store,
)
from windowgrad.kernels.vector.ops import (
    larger as greater_lanes,
)

fold = folding(larger, True)
spans = spanning(larger, True)


@helper
def unlike(buffer: Any, y: Any, at: int, out: int, start: Any, count: Any, step: int) -> None:
    """Windows that are not all alike, each as its start and its count say."""
    for j in range(out):
        best = buffer[start[j]]
        for t in range(1, count[j]):
            value = buffer[start[j] + t * step]
            best = value if value > best else best
        y[at + j] = best


@helper
def in_place(x: Any, base: int, y: Any, at: int, out: int, start: Any, count: Any, step: int, spare: Any) -> Any:
    """The same, read where the cells are, for a plane that is one row; says whether a cell is NaN."""
    n, strange = lanes(x), False
    for j in range(out):
        first, cells = base + start[j], count[j] if step == 1 else 0
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
        for k in range(i, count[j]):
            value = x[first + k * step]
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
def has_negative_zero(x: Any, base: int, rows: Any, low: int, high: int, width: int) -> Any:
    """Whether a cell of the rows is −0.0."""
    n, seen = lanes(x), is_negative_zero(splat(x, 1))
    for q in range(low, high):
        at = base + rows[q]
        j = 0
        while j < width - n + 1:
            seen = either(seen, is_negative_zero(load(x, at + j)))
            j += n
        seen = either(seen, is_negative_zero(load_part_as(x, at + width // n * n, width % n, x)))
    return anywhere(seen)


@helper
def look_again(
    x: Any, y: Any, at: int, low: int, high: int, everywhere: bool, base: int, row: int, ptr: Any, rows: Any, start: Any,
    count: Any, step: int,
) -> None:  # fmt: skip
    """The outputs `low` to `high` in the order of the meaning: all of them, or those that are a zero."""
    for j in range(low, high):
        if everywhere or y[at + j - low] == 0:
            cell = winner(x, base, row, ptr, rows, start[j], count[j], step)
            y[at + j - low] = 0
            if cell >= 0:
                y[at + j - low] = x[base + cell]


@kernel
def max_rows(x: Any, y: Any, least: Any, plan: Any, first: int, last: int) -> None:
    """Pieces `first` to `last` of the output rows of all planes; a row has `pieces` of `piece` outputs."""
    outer, plane, out, step, width, taps, stride, before, piece, pieces, (ptr, rows, start, count) = unpacked(plan)
    lone = taps == 0 and plane == width
    space = np.full(reach(0 if lone else width, taps, stride, step, piece, lanes(x)), least, x.dtype)
    x, y, buffer = address(x), address(y), address(space)
    refill, direct, holes = pieces > 1 or uses_up(taps), taps == 1 and stride == 1 and before == 0, False
    for j in range(out):
        holes |= count[j] == 0
    line, low = first // pieces, first % pieces * piece
    base, row = line // outer * plane, line % outer
    for _ in range(first, last):
        high, at, top, end = min(low + piece, out), line * out + low, ptr[row], ptr[row + 1]
        left, right, shift = cut(width, taps, stride, step, before, low, high)
        if top == end or left >= right:
            fill(y, at, at + high - low, 0)
        else:
            if refill:  # else the padding is as it was made
                fill(buffer, 0, left + shift, least)
                fill(buffer, right + shift, ends(taps, stride, step, low, high, right + shift), least)
            target, to = (y, at) if direct else (buffer, left + shift)
            if lone:
                strange = in_place(x, base, y, at, out, start, count, step, buffer)
            else:
                strange = anywhere(fold(x, base + left, rows, top, end, right - left, target, to))
                if taps == 0:
                    unlike(buffer, y, at, out, start, count, step)
                elif not direct:
                    spans(buffer, 0, y, at, high - low, taps, step, stride)
            if strange or (has_zero(y, at, high - low) and has_negative_zero(x, base + left, rows, top, end, right - left)):
                look_again(x, y, at, low, high, strange, base, row, ptr, rows, start, count, step)
            for j in range(low, high if holes else low):
                if count[j] == 0:
                    y[at + j - low] = 0
        line, low, row, base = next_piece(line, low, row, base, piece, out, outer, plane)
    alive(space)
