"""Smooth maximum by rows: each column as a pair (top, Σ exp(β·(x − top))), then the pairs of a window along the row.

Everything is float64. For β < 0 the signs are turned, so that the cell that weighs most is always the greatest.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from windowgrad.kernels.exponential import exponential, logarithm
from windowgrad.kernels.jit import helper, kernel
from windowgrad.kernels.lanes import convert, even
from windowgrad.kernels.simd import anywhere, equal, fma, load, load_as, load_part_as, maximum, select, splat, store, store_part

INFINITY = np.inf


@helper
def weight(value: Any, top: Any, beta: float) -> Any:
    """exp(β·(value − top)), 1 where they are equal, infinities too."""
    return exponential(splat(top, beta) * select(equal(value, top), splat(top, 0.0), value - top))


@helper
def cells_of(x: Any, at: int, left: int, like: Any, sign: float) -> Any:
    """The next cells of a row, turned by `sign`; past its end the lanes are 0."""
    lanes = 32 // like.itemsize
    return (load_as(x, at, like) if left >= lanes else load_part_as(x, at, left, like)) * splat(like, sign)


@helper
def weigh_rows(
    x: Any, base: int, rows: Any, low: int, high: int, width: int, tops: Any, sums: Any, before: int, beta: float, sign: float
) -> None:
    """The pair of each column."""
    lanes = 32 // tops.itemsize
    j = 0
    while j < width:
        top = cells_of(x, base + rows[low] + j, width - j, tops, sign)
        for q in range(low + 1, high):
            top = maximum(top, cells_of(x, base + rows[q] + j, width - j, tops, sign))
        total = splat(tops, 0.0)
        for q in range(low, high):
            total = total + weight(cells_of(x, base + rows[q] + j, width - j, tops, sign), top, beta)
        if j + lanes <= width:
            store(tops, before + j, top)
            store(sums, before + j, total)
        else:
            store_part(tops, before + j, top, width - j)
            store_part(sums, before + j, total, width - j)
        j += lanes


@helper
def entry(buffer: Any, i: int, stride: int) -> Any:
    lanes = 32 // buffer.itemsize
    return load(buffer, i) if stride == 1 else even(load(buffer, i), load(buffer, i + lanes))


@helper
def finish(top: Any, total: Any, padded: Any, beta: float, sign: float) -> Any:
    """The smooth maximum from the pair of a window and the zeros it covers."""
    nothing, most = splat(top, 0.0), top
    if anywhere(padded > nothing):
        most = select(padded > nothing, maximum(top, nothing), top)
        total = total * weight(top, most, beta)
        total = select(padded > nothing, fma(padded, weight(nothing, most, beta), total), total)
    value = fma(most, splat(top, sign), logarithm(total) / splat(top, beta * sign))
    return select(equal(total, nothing), nothing, value)


@kernel
def smooth_rows(
    x: Any, y: Any, beta: float, row_inside: Any, col_inside: Any, first: int, last: int, outer: int, plane: int, ptr: Any,
    rows: Any, start: Any, count: Any, step: int, width: int, taps: int, stride: int, before: int,
) -> None:  # fmt: skip
    """The output rows `first` to `last` of all planes, for windows that are all alike and a stride of 1 or 2."""
    out, lanes, sign = len(start), 4, 1.0 if beta > 0 else -1.0
    size = max(before + width, (out - 1) * stride + (taps - 1) * step + 1) + (stride + 3) * lanes
    tops, sums, padding = np.full(size, -INFINITY), np.zeros(size), np.zeros(out + lanes)
    for job in range(first, last):
        base, row, at = job // outer * plane, job % outer, job * out
        real = ptr[row + 1] - ptr[row]
        for j in range(out):
            padding[j] = row_inside[row] * col_inside[j] - real * count[j]
        if real:
            weigh_rows(x, base, rows, ptr[row], ptr[row + 1], width, tops, sums, before, beta * sign, sign)
        else:
            tops[before : before + width] = -INFINITY
            sums[before : before + width] = 0
        j = 0
        while j < out:
            top = entry(tops, j * stride, stride)
            for t in range(1, taps):
                top = maximum(top, entry(tops, j * stride + t * step, stride))
            total = splat(tops, 0.0)
            for t in range(taps):
                i = j * stride + t * step
                total = fma(entry(sums, i, stride), weight(entry(tops, i, stride), top, beta * sign), total)
            value = convert(finish(top, total, load(padding, j), beta * sign, sign), y)
            if j + lanes <= out:
                store(y, at + j, value)
            else:
                store_part(y, at + j, value, out - j)
            j += lanes
