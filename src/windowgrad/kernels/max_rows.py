"""Maximum by rows: the rows of a window are reduced into one buffer, then along it. The cost is the sum of the sides."""

from __future__ import annotations

from typing import Any

import numpy as np

from windowgrad.kernels.jit import helper, kernel
from windowgrad.kernels.lanes import even
from windowgrad.kernels.pieces import cut, ends, next_piece, reach
from windowgrad.kernels.scalar import winner
from windowgrad.kernels.simd import anywhere, either, larger, load, load_part, splat, store, store_part, unusual


@helper
def reduce_three(x: Any, a: int, b: int, c: int, width: int, buffer: Any, before: int, least: Any, on: bool) -> Any:
    """buffer[before:] = the greatest cell of each column of three rows, and of what stands there if `on`."""
    lanes = 32 // buffer.itemsize
    rest = splat(buffer, least)
    seen = unusual(rest)
    j = 0
    while j < width:
        left = width - j
        if left >= lanes:
            first, second, third = load(x, a + j), load(x, b + j), load(x, c + j)
        else:
            first, second, third = (
                load_part(x, a + j, left, rest),
                load_part(x, b + j, left, rest),
                load_part(x, c + j, left, rest),
            )
        seen = either(either(seen, unusual(first)), either(unusual(second), unusual(third)))
        top = larger(larger(first, second), third)
        if on:
            top = larger(load(buffer, before + j), top)
        store(buffer, before + j, top)
        j += lanes
    return anywhere(seen)


@helper
def reduce_rows(x: Any, base: int, rows: Any, low: int, high: int, width: int, buffer: Any, before: int, least: Any) -> Any:
    """buffer[before:] = the greatest cell of each column; says whether a lane was unusual, so that > may not be the order."""
    seen = False
    for q in range(low, high, 3):
        a, b, c = rows[q], rows[min(q + 1, high - 1)], rows[min(q + 2, high - 1)]  # a row twice is no more than once
        seen |= reduce_three(x, base + a, base + b, base + c, width, buffer, before, least, q > low)
    return seen


@helper
def reduce_columns(
    buffer: Any, y: Any, at: int, low: int, high: int, start: Any, count: Any, step: int, taps: int, stride: int
) -> None:
    """y[at:] = the greatest entry of the windows `low` to `high`; where windows are alike, the first starts at buffer[0]."""
    out, lanes = high - low, 32 // buffer.itemsize
    j = 0
    if taps == 0:
        for j in range(out):
            best = buffer[start[low + j]]
            for t in range(1, count[low + j]):
                value = buffer[start[low + j] + t * step]
                best = value if value > best else best
            y[at + j] = best
    elif stride == 1:
        while j < out:
            top = load(buffer, j)
            for t in range(1, taps):
                top = larger(top, load(buffer, j + t * step))
            if j + lanes <= out:
                store(y, at + j, top)
            else:
                store_part(y, at + j, top, out - j)
            j += lanes
    elif stride == 2:
        while j < out:
            top = even(load(buffer, 2 * j), load(buffer, 2 * j + lanes))
            for t in range(1, taps):
                i = 2 * j + t * step
                top = larger(top, even(load(buffer, i), load(buffer, i + lanes)))
            if j + lanes <= out:
                store(y, at + j, top)
            else:
                store_part(y, at + j, top, out - j)
            j += lanes
    else:
        for j in range(out):
            best = buffer[j * stride]
            for t in range(1, taps):
                value = buffer[j * stride + t * step]
                best = value if value > best else best
            y[at + j] = best


@kernel
def max_rows(
    x: Any, y: Any, least: Any, first: int, last: int, outer: int, plane: int, ptr: Any, rows: Any, start: Any, count: Any,
    step: int, width: int, taps: int, stride: int, before: int, piece: int, pieces: int,
) -> None:  # fmt: skip
    """Pieces `first` to `last` of the output rows of all planes; a row has `pieces` of `piece` outputs."""
    out, holes = len(start), count.min() == 0
    buffer = np.full(reach(width, taps, stride, step, piece, 32 // x.itemsize), least, x.dtype)
    line, low = first // pieces, first % pieces * piece
    base, row = line // outer * plane, line % outer
    for _ in range(first, last):
        high, at = min(low + piece, out), line * out + low
        left, right, shift = cut(width, taps, stride, step, before, low, high)
        if ptr[row] == ptr[row + 1] or left >= right:
            y[at : at + high - low] = 0
        else:
            if pieces > 1:  # else the padding is as it was made
                buffer[: left + shift] = least
                buffer[right + shift : ends(taps, stride, step, low, high, right + shift)] = least
            if reduce_rows(x, base + left, rows, ptr[row], ptr[row + 1], right - left, buffer, left + shift, least):
                for j in range(low, high):
                    cell = winner(x, base, row, ptr, rows, start[j], count[j], step)
                    y[at + j - low] = 0
                    if cell >= 0:
                        y[at + j - low] = x[base + cell]
            else:
                reduce_columns(buffer, y, at, low, high, start, count, step, taps, stride)
                for j in range(low, high if holes else low):
                    if count[j] == 0:
                        y[at + j - low] = 0
        line, low, row, base = next_piece(line, low, row, base, piece, out, outer, plane)
