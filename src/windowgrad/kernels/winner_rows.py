"""The first winner of every window by rows: values and places are carried together, in row-major order, so ties are exact.

For dtypes of 4 and 8 bytes, whose places fit lane by lane into an integer of the same width.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from windowgrad.kernels.jit import helper, kernel
from windowgrad.kernels.lanes import even
from windowgrad.kernels.scalar import winner
from windowgrad.kernels.simd import beats, iota, load, load_part, select, splat, store


@helper
def copy_row(x: Any, at: int, width: int, buffer: Any, before: int, least: Any) -> None:
    lanes = 32 // buffer.itemsize
    j = 0
    while j + lanes <= width:
        store(buffer, before + j, load(x, at + j))
        j += lanes
    if j < width:
        store(buffer, before + j, load_part(x, at + j, width - j, splat(buffer, least)))


@helper
def challenge(
    buffer: Any, top: Any, place: Any, cell: int, start: Any, count: Any, step: int, taps: int, stride: int, before: int
) -> None:
    """The windows along one row against the best so far. `cell` is the place of the row's first cell."""
    out, lanes = len(start), 32 // buffer.itemsize
    if taps == 0 or stride > 2:
        for j in range(out):
            best, where = top[j], place[j]
            for t in range(count[j]):
                value = buffer[before + start[j] + t * step]
                if value > best or (value != value and best == best):
                    best, where = value, cell + start[j] + t * step
            top[j], place[j] = best, where
        return
    cell -= before  # the place of the buffer's first entry
    ramp = iota(place) * splat(place, stride)
    j = 0
    while j < out:
        best, where = load(top, j), load(place, j)
        for t in range(taps):
            i = j * stride + t * step
            value = load(buffer, i) if stride == 1 else even(load(buffer, i), load(buffer, i + lanes))
            better = beats(value, best)
            best, where = select(better, value, best), select(better, ramp + splat(place, cell + i), where)
        store(top, j, best)
        store(place, j, where)
        j += lanes


@helper
def best_of_row(
    x: Any, base: int, row: int, ptr: Any, rows: Any, start: Any, count: Any, step: int,
    width: int, taps: int, stride: int, before: int, least: Any, buffer: Any, top: Any, place: Any,
) -> None:  # fmt: skip
    """top and place of every window of one output row; place is −1 where a window has no cell."""
    out = len(start)
    top[:] = least
    place[:] = -1
    for q in range(ptr[row], ptr[row + 1]):
        copy_row(x, base + rows[q], width, buffer, before, least)
        challenge(buffer, top, place, rows[q], start, count, step, taps, stride, before)
    for j in range(out):
        if place[j] < 0:  # no cell, or none above the least value there is
            place[j] = winner(x, base, row, ptr, rows, start[j], count[j], step)


@helper
def buffers(x: Any, least: Any, like: Any, out: int, step: int, width: int, taps: int, stride: int, before: int) -> Any:
    lanes = 32 // x.itemsize
    cells = max(before + width, (out - 1) * stride + (taps - 1) * step + 1) + (stride + 3) * lanes
    return np.full(cells, least, x.dtype), np.empty(out + lanes, x.dtype), np.empty(out + lanes, like.dtype)


@kernel
def winner_rows(
    x: Any, found: Any, least: Any, like: Any, first: int, last: int, outer: int, plane: int, ptr: Any, rows: Any,
    start: Any, count: Any, step: int, width: int, taps: int, stride: int, before: int,
) -> None:  # fmt: skip
    """found = the place of each winner in its plane; `like` has the dtype of places, an integer as wide as x."""
    out = len(start)
    buffer, top, place = buffers(x, least, like, out, step, width, taps, stride, before)
    for job in range(first, last):
        base, row = job // outer * plane, job % outer
        best_of_row(
            x, base, row, ptr, rows, start, count, step, width, taps, stride, before, least, buffer, top, place
        )  # fmt: skip
        for j in range(out):
            found[job * out + j] = place[j]


@kernel
def winner_rows_back(
    x: Any, g: Any, gx: Any, least: Any, like: Any, first: int, last: int, outer: int, plane: int, ptr: Any, rows: Any,
    start: Any, count: Any, step: int, width: int, taps: int, stride: int, before: int,
) -> None:  # fmt: skip
    """Each gradient to its winner; planes `first` to `last`, gx is new."""
    out = len(start)
    buffer, top, place = buffers(x, least, like, out, step, width, taps, stride, before)
    for p in range(first, last):
        base = p * plane
        gx[base : base + plane] = 0
        for row in range(outer):
            best_of_row(
                x, base, row, ptr, rows, start, count, step, width, taps, stride, before, least, buffer, top, place
            )  # fmt: skip
            at = (p * outer + row) * out
            for j in range(out):
                if place[j] >= 0:
                    gx[base + place[j]] += g[at + j]
