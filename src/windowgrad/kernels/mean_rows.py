"""Mean by rows: the rows of a window are added into one buffer, then along it, and divided once.

The dtype of the buffer is that of the sums: float32 where a window has at most 16 cells, which keeps the stated error,
else float64. The gradient runs the same way backwards: output rows are added, spread out by the stride, and added along.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from windowgrad.kernels.jit import helper, kernel
from windowgrad.kernels.lanes import convert, even, mixed_high, mixed_low
from windowgrad.kernels.pieces import cut, ends, next_piece, reach
from windowgrad.kernels.scalar import wide_means
from windowgrad.kernels.simd import add, anywhere, either, load, load_as, load_part_as, not_finite, splat, store, store_part


@helper
def add_three(x: Any, a: int, b: int, c: int, width: int, buffer: Any, before: int, on: bool) -> None:
    """buffer[before:] = the sum of each column of three rows, and of what stands there if `on`."""
    lanes = 32 // buffer.itemsize
    j = 0
    while j < width:
        left = width - j
        if left >= lanes:
            total = load_as(x, a + j, buffer) + load_as(x, b + j, buffer) + load_as(x, c + j, buffer)
        else:
            total = load_part_as(x, a + j, left, buffer) + load_part_as(x, b + j, left, buffer)
            total = total + load_part_as(x, c + j, left, buffer)
        if on:
            total = load(buffer, before + j) + total
        store(buffer, before + j, total)
        j += lanes


@helper
def add_one(x: Any, a: int, width: int, buffer: Any, before: int, on: bool) -> None:
    """buffer[before:] = a row, and what stands there if `on`."""
    lanes = 32 // buffer.itemsize
    j = 0
    while j < width:
        total = load_as(x, a + j, buffer) if width - j >= lanes else load_part_as(x, a + j, width - j, buffer)
        if on:
            total = load(buffer, before + j) + total
        store(buffer, before + j, total)
        j += lanes


@helper
def add_rows(x: Any, base: int, rows: Any, low: int, high: int, width: int, buffer: Any, before: int) -> None:
    """buffer[before:] = the sum of each column."""
    q = low
    while q < high:
        if q + 3 <= high:
            add_three(x, base + rows[q], base + rows[q + 1], base + rows[q + 2], width, buffer, before, q > low)
            q += 3
        else:
            add_one(x, base + rows[q], width, buffer, before, q > low)
            q += 1


@helper
def divide_store(total: Any, y: Any, at: int, left: int, by: Any, j: int) -> Any:
    """y[at:] = total ÷ by[j:], as many as are left; gives the mask of what is not finite."""
    quotient = convert(total / load(by, j), y)
    if left >= 32 // by.itemsize:
        store(y, at, quotient)
    else:
        store_part(y, at, quotient, left)
    return not_finite(total)


@helper
def divide_columns(
    buffer: Any, y: Any, at: int, low: int, high: int, start: Any, count: Any, step: int, taps: int, stride: int, by: Any
) -> Any:
    """y[at:] = the sums of the windows `low` to `high` along the buffer ÷ by; says whether one is not finite."""
    out, lanes = high - low, 32 // buffer.itemsize
    if taps == 0 or stride > 2:
        strange = False
        for j in range(out):
            total = buffer[0] * 0
            for t in range(count[low + j] if taps == 0 else taps):
                total += buffer[(start[low + j] if taps == 0 else j * stride) + t * step]
            y[at + j] = total / by[low + j]
            strange |= not abs(total) < np.inf
        return strange
    j, seen = 0, not_finite(splat(buffer, 0))
    if stride == 1:
        while j < out:
            total = load(buffer, j)
            for t in range(1, taps):
                total = total + load(buffer, j + t * step)
            seen = either(seen, divide_store(total, y, at + j, out - j, by, low + j))
            j += lanes
    else:
        while j < out:
            total = even(load(buffer, 2 * j), load(buffer, 2 * j + lanes))
            for t in range(1, taps):
                i = 2 * j + t * step
                total = total + even(load(buffer, i), load(buffer, i + lanes))
            seen = either(seen, divide_store(total, y, at + j, out - j, by, low + j))
            j += lanes
    return anywhere(seen)


@kernel
def mean_rows(
    x: Any, y: Any, row_divisor: Any, col_divisor: Any, zero: Any, first: int, last: int,
    outer: int, plane: int, ptr: Any, rows: Any, start: Any, count: Any, step: int, width: int, taps: int, stride: int,
    before: int, piece: int, pieces: int,
) -> None:  # fmt: skip
    """Pieces `first` to `last` of the output rows of all planes, as in `max_rows`; sums as `zero`.

    A piece with a sum that is not finite is added again in float64, which a sum of float32 does not overflow.
    """
    out, lanes = len(start), 32 // zero.itemsize
    buffer = np.zeros(reach(width, taps, stride, step, piece, lanes), zero.dtype)
    by, divided_by = np.ones(out + lanes, zero.dtype), 0.0
    line, low = first // pieces, first % pieces * piece
    base, row = line // outer * plane, line % outer
    for _ in range(first, last):
        high, at = min(low + piece, out), line * out + low
        left, right, shift = cut(width, taps, stride, step, before, low, high)
        if ptr[row] == ptr[row + 1] or left >= right:
            y[at : at + high - low] = 0
        else:
            if pieces > 1:  # else the padding is as it was made
                buffer[: left + shift] = 0
                buffer[right + shift : ends(taps, stride, step, low, high, right + shift)] = 0
            add_rows(x, base + left, rows, ptr[row], ptr[row + 1], right - left, buffer, left + shift)
            if row_divisor[row] != divided_by:
                divided_by = row_divisor[row]
                for j in range(out):
                    by[j] = divided_by * col_divisor[j]
            if divide_columns(buffer, y, at, low, high, start, count, step, taps, stride, by):
                wide_means(x, y, divided_by, col_divisor, line, low, high, outer, plane, ptr, rows, start, count, step)
        line, low, row, base = next_piece(line, low, row, base, piece, out, outer, plane)


@helper
def add_outputs(g: Any, base: int, outs: Any, low: int, high: int, row_divisor: Any, by: Any, out: int, total: Any) -> None:
    """total = the sum of the output rows that see an input row, each divided."""
    lanes = 32 // total.itemsize
    j = 0
    while j < out:
        amount = splat(total, 0)
        for q in range(low, high):
            at, divisor = base + outs[q] * out + j, load(by, j) * splat(total, row_divisor[outs[q]])
            if j + lanes <= out:
                amount = add(amount, load_as(g, at, total) / divisor)
            else:
                amount = add(amount, load_part_as(g, at, out - j, total) / divisor)
        store(total, j, amount)
        j += lanes


@helper
def spread_unlike(total: Any, gx: Any, at: int, width: int, start: Any, count: Any, step: int) -> None:
    """Each total to the cells of its window, where the windows along a row are not all alike."""
    gx[at : at + width] = 0
    for j in range(len(start)):
        for t in range(count[j]):
            gx[at + start[j] + t * step] += total[j]


@helper
def spread_out(total: Any, out: int, buffer: Any, at: int, stride: int) -> None:
    """buffer[at + j·stride] = total[j]; what lies between is 0 and stays so."""
    lanes = 32 // total.itemsize
    if stride > 2:
        for j in range(out):
            buffer[at + j * stride] = total[j]
        return
    nothing = splat(total, 0)
    j = 0
    while j < out:
        amount = load(total, j)
        if stride == 1:
            store(buffer, at + j, amount)
        else:
            store(buffer, at + 2 * j, mixed_low(amount, nothing))
            store(buffer, at + 2 * j + lanes, mixed_high(amount, nothing))
        j += lanes


@kernel
def mean_rows_back(
    g: Any, gx: Any, row_divisor: Any, col_divisor: Any, zero: Any, first: int, last: int,
    height: int, plane_out: int, ptr: Any, outs: Any, start: Any, count: Any, step: int,
    width: int, taps: int, stride: int, before: int,
) -> None:  # fmt: skip
    """The rows `first` to `last` of all planes of the gradient. Input row i is in the windows of rows outs[ptr[i]:ptr[i + 1]].

    Cell c of a row gets the sum over t of spread[c + before − t·step], where spread[j·stride] holds output j; in the
    buffer everything is moved right by (taps − 1)·step, so that no index is negative.
    """
    out, lanes = len(start), 32 // zero.itemsize
    reach = max(taps - 1, 0) * step
    buffer = np.zeros(reach + max(before + width, out * stride) + (stride + 3) * lanes, zero.dtype)
    by, total = np.ones(out + lanes, zero.dtype), np.zeros(out + lanes, zero.dtype)
    for j in range(out):
        by[j] = col_divisor[j]
    for job in range(first, last):
        base, i, at = job // height * plane_out, job % height, job * width
        add_outputs(g, base, outs, ptr[i], ptr[i + 1], row_divisor, by, out, total)
        if taps == 0:
            spread_unlike(total, gx, at, width, start, count, step)
            continue
        spread_out(total, out, buffer, reach, stride)
        c = 0
        while c < width:
            cells = load(buffer, c + before + reach)
            for t in range(1, taps):
                cells = add(cells, load(buffer, c + before + reach - t * step))
            if c + lanes <= width:
                store(gx, at + c, convert(cells, gx))
            else:
                store_part(gx, at + c, convert(cells, gx), width - c)
            c += lanes
