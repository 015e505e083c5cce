"""One axis at a time, for windows of many rows: a cell costs the same whatever the side of the window.

For the geometries of `axis_passes.has_many_rows`. An array is seen as [lines, n, cells]: windows along the middle axis, of rows
whose own windows, those of the last axis, are combined first, while they are in the nearest cache. Rows are cut into segments
as long as a window, so every window is the end of one segment and the beginning of the next: what its rows combine to is the
combination of two rows, one of a segment combined from its end, one of a segment combined from its beginning (van Herk, Gil
and Werman). With windows of 4 rows:

    rows        0 1 2 3 | 4 5 6 7 | …
    kept        each row of a segment with all rows behind it      the window at row 2 is
    ahead       the rows of the next segment so far                kept[2] (rows 2, 3) with ahead (rows 4, 5)

A piece of a row goes down the lines: each row is combined along itself, joined to `ahead`, and takes the place of a row of
`kept` that was used last; at the end of a segment `kept` is combined from its end on. So a cell is read once and an output is
written once, and what lies between stays in a cache. A share that begins in the middle of a line does one segment
more; segments are counted from the first window on, so the order of a sum does not depend on shares.

Sums are added up in float64. `kept` has the dtype of the sums along a row. With the last axis taken first, the first winner in
row-major order wins. Measured, 64 × 64 at every cell of 4096²: with arrays between the axes, in blocks for the last cache, it
took 2.5 times as long.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from windowgrad.kernels.pool.max.rows import fold as fold_greatest
from windowgrad.kernels.pool.max.rows import has_negative_zero, has_zero, look_again
from windowgrad.kernels.pool.max.rows import spans as span_greatest
from windowgrad.kernels.pool.mean.rows import fold as fold_sums
from windowgrad.kernels.pool.mean.rows import spans as span_sums
from windowgrad.kernels.pool.packed import rows_of, unpacked
from windowgrad.kernels.pool.row_pieces import Piece, buffer_size, fill, padding_end, seen_by
from windowgrad.kernels.runtime.jit import helper, kernel
from windowgrad.kernels.vector.ops import (
    address,
    alive,
    anywhere,
    beats,
    either,
    lanes,
    load,
    load_as,
    load_beside,
    not_finite,
    select,
    splat,
    store,
    store_part,
)
from windowgrad.kernels.vector.shuffle import convert

CHUNK = 4
"""Vectors of `ahead` that are combined side by side in `sweep`: a line of the cache for all dtypes."""


class Axis(NamedTuple):
    """The middle axis of an array [lines, n, cells]: `out` windows of `taps` taps, `step` apart, over n rows.

    They begin `stride` rows apart, the first of them `before` rows before the array. A piece of a row has `piece` outputs.
    """

    n: int
    out: int
    taps: int
    stride: int
    step: int
    before: int
    piece: int


class Stint(NamedTuple):
    """Of a line, the rows `top` to `bottom`, counted from the first window on, and of each the outputs from `low` to `high`.

    Windows that begin before row `end` are computed. `parts` is how many parts it is of the work to be shared: a part is the
    windows that begin in one segment.
    """

    line: int
    top: int
    bottom: int
    end: int
    low: int
    high: int
    parts: int


@helper
def unpacked_axis(plan: Any) -> Any:
    return Axis(plan[0], plan[1], plan[2], plan[3], plan[4], plan[5], plan[6])


@helper
def stint_from(number: int, last: int, axis: Any, run: int) -> Any:
    """The parts from `number` on that lie below each other: line after line, piece after piece, segment after segment."""
    rows, pieces, every = axis.taps * axis.step, -(-run // axis.piece), (axis.out - 1) * axis.stride + 1
    segments = -(-every // rows)
    top, low = number % segments, number // segments % pieces * axis.piece
    parts = min(last - number, segments - top)
    end = min((top + parts) * rows, every)
    bottom, high = end + rows - axis.step, min(low + axis.piece, run)
    return Stint(number // (segments * pieces), top * rows, bottom, end, low, high, parts)


@helper
def pitch_of(axis: Any, lanes: int) -> int:
    """From one row of a piece to the next: whole chunks, and not a power of two, whose rows would share places of the cache."""
    return (-(-axis.piece // (CHUNK * lanes)) + 1) * CHUNK * lanes  # type: ignore[no-any-return]


@helper
def first_greatest(a: Any, b: Any) -> Any:
    return select(beats(b, a), b, a)


@helper
def total(a: Any, b: Any) -> Any:
    return a + b


def sweeping(combine: Any) -> Any:
    @helper
    def sweep(kept: Any, ahead: Any, rows: int, step: int, pitch: int, width: int) -> None:
        """Each row of a segment is combined with those behind it, in the dtype of `ahead`."""
        n, apart = lanes(ahead), step * pitch
        for phase in range(step):
            for j in range(0, width, CHUNK * n):
                i = (rows - step + phase) * pitch + j
                a, b = load_as(kept, i, ahead), load_as(kept, i + n, ahead)
                c, d = load_as(kept, i + 2 * n, ahead), load_as(kept, i + 3 * n, ahead)
                i -= apart
                while i >= 0:
                    a, b = combine(load_as(kept, i, ahead), a), combine(load_as(kept, i + n, ahead), b)
                    c, d = combine(load_as(kept, i + 2 * n, ahead), c), combine(load_as(kept, i + 3 * n, ahead), d)
                    store(kept, i, convert(a, kept))
                    store(kept, i + n, convert(b, kept))
                    store(kept, i + 2 * n, convert(c, kept))
                    store(kept, i + 3 * n, convert(d, kept))
                    i -= apart

    return sweep


sweep_greatest, sweep_sums = sweeping(first_greatest), sweeping(total)


@helper
def clear_edge(kept: Any, ahead: Any, axis: Any, pitch: int, width: int) -> None:
    """What lies behind the outputs of a piece, up to a whole chunk, is 0: an earlier piece may have been longer."""
    for row in range(axis.taps * axis.step):
        fill(kept, row * pitch + width, (row + 1) * pitch, 0)
    for row in range(axis.step):
        fill(ahead, row * pitch + width, (row + 1) * pitch, 0)


# --- maxima ------------------------------------------------------------------------------------------------------


@helper
def greatest_along(
    x: Any, row: int, stint: Any, axis: Any, line: Any, windows: Any, least: Any, buffer: Any, to: Any, at: int
) -> None:
    """to[at:] = the greatest cells of a stint's windows along row `row` of its line; a row that is not there has none."""
    base = (stint.line * axis.n + row) * line.width
    piece, out = Piece(at, stint.low, stint.high, 0, base), stint.high - stint.low
    left, right, shift = seen_by(line, piece)
    if row < 0 or row >= axis.n or left >= right:
        fill(to, at, at + out, least)
    elif line.taps == 1 and line.stride == 1 and line.before == 0:
        fold_greatest(x, base + left, rows_of(windows, 0), out, to, at)
    else:
        fill(buffer, 0, left + shift, least)
        fill(buffer, right + shift, padding_end(line, piece, right + shift), least)
        strange = anywhere(fold_greatest(x, base + left, rows_of(windows, 0), right - left, buffer, left + shift))
        span_greatest(buffer, 0, to, at, out, line.taps, line.step, line.stride)
        if strange or (has_zero(to, at, out) and has_negative_zero(x, base + left, rows_of(windows, 0), right - left)):
            look_again(x, to, piece, strange, windows)


@kernel
def max_axis(x: Any, y: Any, least: Any, along: Any, plan: Any, count: Any, first: int, last: int) -> None:
    """The parts `first` to `last` of the greatest cells; a window with no cell gives 0. `along` is the plan of a row."""
    (line, windows, _), axis = unpacked(along), unpacked_axis(plan)
    n, rows, step, pitch = lanes(x), axis.taps * axis.step, axis.step, pitch_of(axis, lanes(x))
    space, ends, beginnings = (
        np.empty(buffer_size(line, axis.piece, n), x.dtype),
        np.zeros(rows * pitch, x.dtype),
        np.zeros(step * pitch, x.dtype),
    )
    x, y, buffer, kept, ahead = address(x), address(y), address(space), address(ends), address(beginnings)
    holes, number = False, first
    for j in range(line.out if line.taps > 1 or line.before > 0 else 0):
        holes |= windows.count[j] == 0
    while number < last:
        stint = stint_from(number, last, axis, line.out)
        number, width, t = number + stint.parts, stint.high - stint.low, 0
        for row in range(stint.top, stint.bottom):
            here, so_far, o = t * pitch, t % step * pitch, row - rows + step
            greatest_along(x, row - axis.before, stint, axis, line, windows, least, buffer, kept, here)
            gives, whole = o >= stint.top and o % axis.stride == 0, t + step >= rows
            r, other = o // axis.stride, here + step * pitch
            at, j = (stint.line * axis.out + r) * line.out + stint.low, 0
            while j < width:
                best = load(kept, here + j)
                if t >= step:
                    best = first_greatest(load(ahead, so_far + j), best)
                store(ahead, so_far + j, best)
                if gives:
                    if not whole:
                        best = first_greatest(load(kept, other + j), best)
                    if j + n <= width:
                        store(y, at + j, best)
                    else:
                        store_part(y, at + j, best, width - j)
                j += n
            if gives and (holes or count[r] == 0):
                for j in range(width):
                    if count[r] == 0 or windows.count[stint.low + j] == 0:
                        y[at + j] = 0
            t += 1
            if t == rows:
                t = 0
                sweep_greatest(kept, ahead, rows, step, pitch, width)
    alive(space)
    alive(ends)
    alive(beginnings)


# --- sums --------------------------------------------------------------------------------------------------------


@helper
def sums_along(x: Any, row: int, stint: Any, axis: Any, line: Any, windows: Any, buffer: Any, to: Any, at: int) -> None:
    """to[at:] = the sums of a stint's windows along row `row` of its line; a row that is not there has none."""
    base = (stint.line * axis.n + row) * line.width
    piece, out = Piece(at, stint.low, stint.high, 0, base), stint.high - stint.low
    left, right, shift = seen_by(line, piece)
    if row < 0 or row >= axis.n or left >= right:
        fill(to, at, at + out, 0)
    elif line.taps == 1 and line.stride == 1 and line.before == 0:
        fold_sums(x, base + left, rows_of(windows, 0), out, to, at)
    else:
        fill(buffer, 0, left + shift, 0)
        fill(buffer, right + shift, padding_end(line, piece, right + shift), 0)
        fold_sums(x, base + left, rows_of(windows, 0), right - left, buffer, left + shift)
        span_sums(buffer, 0, to, at, out, line.taps, line.step, line.stride)


@kernel
def sum_axis(
    x: Any, y: Any, zero: Any, row_divisor: Any, run_divisor: Any, strange: Any, along: Any, plan: Any, first: int, last: int
) -> None:
    """The parts `first` to `last` of the sums, each divided by what its row and its column say; along a row, as `zero`.

    `strange` becomes 1 for the lines in which a sum is not finite.
    """
    (line, windows, _), axis = unpacked(along), unpacked_axis(plan)
    rows, step, pitch = axis.taps * axis.step, axis.step, pitch_of(axis, lanes(zero))
    space, ends = np.empty(buffer_size(line, axis.piece, lanes(zero)), zero.dtype), np.zeros(rows * pitch, zero.dtype)
    beginnings, divisors, number = np.zeros(step * pitch), np.ones(pitch, zero.dtype), first
    x, y, buffer, kept, ahead, by = (
        address(x), address(y), address(space), address(ends), address(beginnings), address(divisors)
    )  # fmt: skip
    row_divisor, run_divisor, n, none = address(row_divisor), address(run_divisor), lanes(ahead), splat(ahead, 0)
    while number < last:
        stint = stint_from(number, last, axis, line.out)
        number, width, t = number + stint.parts, stint.high - stint.low, 0
        divided_by, seen = 0.0, not_finite(convert(none, by))
        clear_edge(kept, ahead, axis, pitch, width)
        for row in range(stint.top, stint.bottom):
            here, so_far, o = t * pitch, t % step * pitch, row - rows + step
            sums_along(x, row - axis.before, stint, axis, line, windows, buffer, kept, here)
            gives, whole = o >= stint.top and o % axis.stride == 0, t + step >= rows
            r, other = o // axis.stride, here + step * pitch
            if gives and row_divisor[r] != divided_by:
                divided_by = row_divisor[r]
                for j in range(width):
                    by[j] = divided_by * run_divisor[stint.low + j]
            at, j = (stint.line * axis.out + r) * line.out + stint.low, 0
            while j < width:
                value = load_as(kept, here + j, ahead) + none
                if t >= step:
                    value = load(ahead, so_far + j) + value
                store(ahead, so_far + j, value)
                if gives:
                    if not whole:
                        value = load_as(kept, other + j, ahead) + value
                    mean = convert(value, by) / load_beside(by, j, ahead)
                    seen = either(seen, not_finite(mean))
                    if j + n <= width:
                        store(y, at + j, convert(mean, y))
                    else:
                        store_part(y, at + j, convert(mean, y), width - j)
                j += n
            t += 1
            if t == rows:
                t = 0
                sweep_sums(kept, ahead, rows, step, pitch, width)
        if anywhere(seen):
            strange[stint.line] = 1
    alive(space)
    alive(ends)
    alive(beginnings)
    alive(divisors)
