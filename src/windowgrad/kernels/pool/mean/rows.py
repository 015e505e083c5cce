"""Mean by rows: the rows of a window are added into one buffer, then along it, and divided once.

The dtype of the buffer is that of the sums: float32 where few additions follow each other, which keeps the stated error,
else float64. The gradient runs the same way backwards: output rows are added, divided, spread out by the stride, and
added along.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from windowgrad.kernels.pool.fold_rows import folding
from windowgrad.kernels.pool.one_by_one import wide_means
from windowgrad.kernels.pool.row_pieces import cut, ends, fill, next_piece, reach, unpacked
from windowgrad.kernels.pool.window_spans import spanning, uses_up
from windowgrad.kernels.runtime.jit import helper, kernel
from windowgrad.kernels.vector.loops import plus
from windowgrad.kernels.vector.ops import address, alive, anywhere, either, lanes, load, not_finite, splat, store, store_part
from windowgrad.kernels.vector.shuffle import convert, mixed_high, mixed_low

fold = folding(plus, False)
spans = spanning(plus, False)


@helper
def unlike(buffer: Any, base: int, line: Any, out: int, start: Any, count: Any, step: int, zero: Any) -> None:
    """Windows that are not all alike, each as its start and its count say; in the dtype of `zero`."""
    for j in range(out):
        total = zero
        for t in range(count[j]):
            total += buffer[base + start[j] + t * step]
        line[j] = total


@helper
def divide(line: Any, y: Any, at: int, out: int, by: Any) -> Any:
    """y[at:] = line ÷ by, `out` of them; says whether a sum is not finite."""
    n, j = lanes(line), 0
    seen = not_finite(splat(line, 0))
    while j < out:
        total = load(line, j) + splat(line, 0)  # a sum begins with 0.0: of −0.0 alone it is no −0.0
        quotient = convert(total / load(by, j), y)
        if j + n <= out:
            seen = either(seen, not_finite(total))
            store(y, at + j, quotient)
        else:
            for i in range(j, out):
                seen = either(seen, not_finite(splat(line, line[i])))
            store_part(y, at + j, quotient, out - j)
        j += n
    return anywhere(seen)


@kernel
def mean_rows(x: Any, y: Any, row_divisor: Any, col_divisor: Any, zero: Any, plan: Any, first: int, last: int) -> None:
    """Pieces `first` to `last` of the output rows of all planes, as in `max_rows`; sums as `zero`.

    A sum that is not finite is added again in float64, which a sum of float32 does not overflow.
    """
    outer, plane, out, step, width, taps, stride, before, piece, pieces, (ptr, rows, start, count) = unpacked(plan)
    n, divided_by, lone = lanes(zero), 0.0, taps == 0 and plane == width  # of a plane that is one row, cells are read in place
    space, nothing = np.zeros(reach(0 if lone else width, taps, stride, step, piece, n), zero.dtype), np.zeros(1, zero.dtype)[0]
    sums, divisors, divided_from = np.zeros(piece + n, zero.dtype), np.ones(piece + n, zero.dtype), 0
    x, y, buffer, line, by = address(x), address(y), address(space), address(sums), address(divisors)
    row_divisor, col_divisor = address(row_divisor), address(col_divisor)
    refill, direct = pieces > 1 or uses_up(taps), taps == 1 and stride == 1 and before == 0
    at_line, low = first // pieces, first % pieces * piece
    base, row = at_line // outer * plane, at_line % outer
    for _ in range(first, last):
        high, at, top, end = min(low + piece, out), at_line * out + low, ptr[row], ptr[row + 1]
        left, right, shift = cut(width, taps, stride, step, before, low, high)
        if top == end or left >= right:
            fill(y, at, at + high - low, 0)
        else:
            if refill:  # else the padding is as it was made
                fill(buffer, 0, left + shift, 0)
                fill(buffer, right + shift, ends(taps, stride, step, low, high, right + shift), 0)
            target, to = (line, 0) if direct else (buffer, left + shift)
            if lone:
                unlike(x, base, line, out, start, count, step, nothing)
            else:
                fold(x, base + left, rows, top, end, right - left, target, to)
            if taps == 0 and not lone:
                unlike(buffer, low, line, out, start, count, step, nothing)
            elif not direct and not lone:
                spans(buffer, 0, line, 0, high - low, taps, step, stride)
            if row_divisor[row] != divided_by or low != divided_from:
                divided_by, divided_from = row_divisor[row], low
                for j in range(low, high):
                    by[j - low] = divided_by * col_divisor[j]
            if divide(line, y, at, high - low, by):
                wide_means(x, y, divided_by, col_divisor, at, low, high, base, row, ptr, rows, start, count, step, line)
        at_line, low, row, base = next_piece(at_line, low, row, base, piece, out, outer, plane)
    alive(space)
    alive(sums)
    alive(divisors)


# --- backwards ---------------------------------------------------------------------------------------------------


@helper
def add_outputs(
    g: Any, base: int, outs: Any, low: int, high: int, row_divisor: Any, by: Any, out: int, buffer: Any, total: Any
) -> None:
    """total = the sum of the output rows that see an input row, each divided; at once where all have one divisor."""
    n = lanes(total)
    fill(total, 0, out, 0)
    while low < high:
        divisor, alike = row_divisor[outs[low] // out], low + 1
        while alike < high and row_divisor[outs[alike] // out] == divisor:
            alike += 1
        fold(g, base, outs, low, alike, out, buffer, 0)
        j = 0
        while j < out:
            store(total, j, load(total, j) + load(buffer, j) / (load(by, j) * splat(total, divisor)))
            j += n
        low = alike


@helper
def spread_unlike(total: Any, out: int, gx: Any, at: int, width: int, start: Any, count: Any, step: int) -> None:
    """Each total to the cells of its window, where the windows along a row are not all alike."""
    fill(gx, at, at + width, 0)
    for j in range(out):
        for i in range(count[j]):
            gx[at + start[j] + i * step] += total[j]


@helper
def spread_out(total: Any, out: int, buffer: Any, at: int, stride: int) -> None:
    """buffer[at + j·stride] = total[j]; what lies between is 0 and stays so."""
    n, j = lanes(total), 0
    if stride > 2:
        for j in range(out):
            buffer[at + j * stride] = total[j]
    elif stride == 2:
        nothing = splat(total, 0)
        while j < out:
            store(buffer, at + 2 * j, mixed_low(load(total, j), nothing))
            store(buffer, at + 2 * j + n, mixed_high(load(total, j), nothing))
            j += n
    else:
        while j < out:
            store(buffer, at + j, load(total, j))
            j += n


@helper
def same_list(ptr: Any, outs: Any, i: int) -> Any:
    """Whether the rows i − 1 and i of the input are in the same windows."""
    low, high = ptr[i], ptr[i + 1]
    same = low - ptr[i - 1] == high - low
    for q in range(low, high if same else low):
        same &= outs[q] == outs[q - (high - low)]
    return same


@helper
def copy_row(gx: Any, at: int, width: int) -> None:
    """The row at `at` is the row before it."""
    n, c = lanes(gx), 0
    while c + n <= width:
        store(gx, at + c, load(gx, at + c - width))
        c += n
    while c < width:
        gx[at + c] = gx[at + c - width]
        c += 1


@kernel
def mean_rows_back(
    g: Any, gx: Any, row_divisor: Any, col_divisor: Any, zero: Any, plan: Any, ptr: Any, outs: Any, first: int, last: int
) -> None:  # fmt: skip
    """The rows `first` to `last` of all planes of the gradient. Input row i is in the windows of rows outs[ptr[i]:ptr[i + 1]].

    Cell c of a row gets the sum over t of spread[c + before − t·step], where spread[j·stride] holds output j. In the
    buffer everything is moved right by (taps − 1)·step, so that no index is negative and the taps run forwards.
    """
    outer, plane, out, step, width, taps, stride, before, _, _, (_, _, start, count) = unpacked(plan)
    n, ahead, height = lanes(zero), max(taps - 1, 0) * step, plane // width
    space = np.zeros(ahead + (max(before + width, out * stride) if taps else 0) + (stride + 3) * n, zero.dtype)
    sums, added, divisors = np.zeros(out + n, zero.dtype), np.zeros(out + n, zero.dtype), np.ones(out + n, zero.dtype)
    for j in range(out):
        divisors[j] = col_divisor[j]
    buffer, total, rows, by = address(space), address(sums), address(added), address(divisors)
    g, gx, ptr, outs, row_divisor = address(g), address(gx), address(ptr), address(outs), address(row_divisor)
    base, i = first // height * outer * out, first % height
    for job in range(first, last):
        at = job * width
        if job > first and i > 0 and same_list(ptr, outs, i):
            copy_row(gx, at, width)
        else:
            add_outputs(g, base, outs, ptr[i], ptr[i + 1], row_divisor, by, out, rows, total)
            if taps == 0:
                spread_unlike(total, out, gx, at, width, start, count, step)
            else:
                if uses_up(taps):
                    fill(buffer, 0, len(space), 0)
                spread_out(total, out, buffer, ahead, stride)
                spans(buffer, before, gx, at, width, taps, step, 1)
        i += 1
        if i == height:
            i, base = 0, base + outer * out
    alive(space)
    alive(sums)
    alive(added)
    alive(divisors)
