"""Maximum of windows of many rows: `axis_rows`, with the order of the meaning.

For windows of many rows in planes that are not small (`goes_by_axes`). A row is combined along itself as `rows` does it, and
looked at again where that could tell: NaN, and 0.0 beside −0.0. Rows are combined by the order of the meaning, in which the
first of equals wins.

First it is tried without an order, four output rows at once (`four_rows`), columns before rows: a stint in which NaN, or a zero
beside −0.0, is seen is left to the way above, and so are windows whose rows are apart. Measured, 64 × 64 at every cell of
4096² in times of 3 × 3: 2.7 in one order, 1.7 without; 2.0 if the results of a row are written 1024 at a time, for half of the
time is their way to memory, which wants long rows. Asking memory early for the next rows made no difference.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np

from windowgrad.geometry import Geometry, Sliding
from windowgrad.kernels.arrays import Array
from windowgrad.kernels.pool.axis_passes import MANY, AxisBlock, has_many_rows, passes
from windowgrad.kernels.pool.axis_rows import Axis, pitch_of, stint_from, sweeping, unpacked_axis
from windowgrad.kernels.pool.max.four_rows import (
    MINUS_ZERO,
    NAN,
    PARTS,
    ZERO,
    double,
    fold_four,
    four_windows,
    greater_row,
    join,
    levels_of,
)
from windowgrad.kernels.pool.max.rows import fold, has_negative_zero, has_zero, look_again, spans
from windowgrad.kernels.pool.packed import rows_of, unpacked
from windowgrad.kernels.pool.row_pieces import Piece, buffer_size, fill, is_unchanged, padding_end, seen_by, span
from windowgrad.kernels.pool.window_spans import uses_up
from windowgrad.kernels.runtime.buffers import empty
from windowgrad.kernels.runtime.jit import helper, unrolled_kernel
from windowgrad.kernels.runtime.threads import run
from windowgrad.kernels.vector.ops import address, alive, anywhere, beats, lanes, later, load, select, store, store_part
from windowgrad.kernels.vector.registers import wide_lanes

FEWEST = 7
"""Rows of windows of which four neighbours have four rows in common."""

WIDE, LARGE = 128, 1 << 18
"""Cells of a row, and of all planes, from which on windows of so few rows are faster axis by axis.

7 × 7 on 64 planes of 56×56 took 1.6 times as long so, on 112×112 the same time, on 224×224 and more 0.6 to 0.7 times.
"""


def max_axes(geometry: Sliding, spatial: tuple[int, ...], block: AxisBlock, x: Array, least: Any, y: Array) -> None:
    """y = the greatest cell of each window of a block; both are flat."""
    for each in passes(geometry, spatial, block):
        target = y if each.done else empty((each.size,), x.dtype)
        count = np.asarray(each.table.count, dtype=np.int64)[block.rows if each.done else slice(None)]
        strange = np.ones(each.parts, np.uint8)
        given = x, target, least, each.along, each.plan, count, strange
        if goes_by_fours(Axis(*map(int, each.plan))):
            run(partial(max_fours, *given), each.parts, x.nbytes)
        if strange.any():
            run(partial(max_axis, *given), each.parts, x.nbytes)
        x = target


NARROW = 32
"""The fewest columns of a plane, and the fewest rows, that are worth an array for each axis.

A 13 × 13 window on planes of 13×13 took 4.5 times as long so, on 24×24 1.6 times, with channels last 5.9 and 2.7 times.
"""

HUGE = 64
"""Rows of a window that are too many in any plane: 300 rows in planes of 2000×8 took 0.01 of the time axis by axis."""

LAST = 3 / 2
"""So many times the rows of a window are many if channels stand last, which are copied to stand first."""


def goes_by_axes(geometry: Geometry, shape: tuple[int, ...], last: bool = False) -> bool:
    """Whether windows are compared one axis after the other: they have many rows, or several, in wide and large planes.

    Each axis costs a pass, so with one axis more, more rows are many. `last` says that channels stand last.
    """
    spatial = shape[len(shape) - geometry.rank :]
    if has_many_rows(geometry, int(MANY * (geometry.rank - 1) * (LAST if last else 1))):
        return is_large(spatial) or rows_seen(geometry, spatial) > HUGE
    if last or geometry.rank != 2 or shape[-1] < WIDE or math.prod(shape) < LARGE:
        return False
    return isinstance(geometry, Sliding) and geometry.dilation[0] == 1 and has_many_rows(geometry, FEWEST - 1)


def is_large(spatial: tuple[int, ...]) -> bool:
    """Whether a plane has many columns and many rows."""
    return spatial[-1] >= NARROW and math.prod(spatial[:-1]) >= NARROW


def rows_seen(geometry: Geometry, spatial: tuple[int, ...]) -> int:
    """How many rows of a plane a window has, at most."""
    assert isinstance(geometry, Sliding)
    return math.prod(map(min, geometry.kernel[:-1], spatial[:-1]))


def goes_by_fours(axis: Axis) -> bool:
    """Whether four output rows can be done at once: the rows of a window are beside each other, and four are in all of them."""
    return axis.step == 1 and axis.taps >= FEWEST


@helper
def first_greatest(a: Any, b: Any) -> Any:
    return select(beats(b, a), b, a)


sweep = sweeping(first_greatest)


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
    elif is_unchanged(line):
        fold(x, base + left, rows_of(windows, 0), out, to, at, -1)
    else:
        fill(buffer, 0, left + shift, least)
        fill(buffer, right + shift, padding_end(line, piece, right + shift), least)
        strange = anywhere(fold(x, base + left, rows_of(windows, 0), right - left, buffer, left + shift, -1))
        spans(buffer, 0, to, at, out, line.taps, line.step, line.stride)
        if strange or (has_zero(to, at, out) and has_negative_zero(x, base + left, rows_of(windows, 0), right - left)):
            look_again(x, to, piece, strange, windows)


@helper
def has_holes(line: Any, windows: Any) -> Any:
    """Whether a window along a row has no cell."""
    holes = False
    for j in range(0 if is_unchanged(line) else line.out):
        holes |= windows.count[j] == 0
    return holes


@helper
def clear_empty(y: Any, at: int, width: int, stint: Any, windows: Any, empty: bool) -> None:
    """0 for the windows of an output row that have no cell; all of them if `empty`."""
    for j in range(width):
        if empty or windows.count[stint.low + j] == 0:
            y[at + j] = 0


@unrolled_kernel
def max_axis(x: Any, y: Any, least: Any, along: Any, plan: Any, count: Any, strange: Any, first: int, last: int) -> None:
    """The `strange` ones of the parts `first` to `last` of the greatest cells; a window with no cell gives 0.

    `along` is the plan of a row.
    """
    (line, windows, _), axis = unpacked(along), unpacked_axis(plan)
    n, rows, step, pitch = lanes(x), axis.taps * axis.step, axis.step, pitch_of(axis, lanes(x))
    space, ends, beginnings = (
        np.empty(buffer_size(line, axis.piece, n), x.dtype),
        np.zeros(rows * pitch, x.dtype),
        np.zeros(step * pitch, x.dtype),
    )
    x, y, buffer, kept, ahead = address(x), address(y), address(space), address(ends), address(beginnings)
    holes, number = has_holes(line, windows), first
    while number < last:
        end = number
        while end < last and strange[end]:
            end += 1
        if end == number:
            number += 1
            continue
        stint = stint_from(number, end, axis, line.out)
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
                clear_empty(y, at, width, stint, windows, count[r] == 0)
            t += 1
            if t == rows:
                t = 0
                sweep(kept, ahead, rows, step, pitch, width)
    alive(space)
    alive(ends)
    alive(beginnings)


# --- four rows at once -------------------------------------------------------------------------------------------


@helper
def row_at(x: Any, blank: Any, stint: Any, axis: Any, width: int, row: int, left: int) -> Any:
    """The cells of a row of a stint from `left` on; one that is not there has the least value everywhere."""
    place = row - axis.before
    if row < stint.top or place < 0 or place >= axis.n:
        return blank
    return later(x, (stint.line * axis.n + place) * width + left)


@helper
def kept_row(ring: Any, level: int, power: int, lag: int, number: int, pitch: int) -> Any:
    """Where the greatest of 2^level fours, the last of them `number`, are kept: as many of each level as are needed."""
    size = lag + 2 if level == power else (1 << level) + 1
    return later(ring, ((1 << level) - 1 + level + number % size) * pitch)


@helper
def pad(rows: Any, pitch: int, low: int, high: int, end: int, least: Any) -> None:
    """The padding of four rows, before `low` and from `high` to `end`."""
    for f in range(4):
        fill(rows, f * pitch, f * pitch + low, least)
        fill(rows, f * pitch + high, f * pitch + end, least)


@helper
def stint_by_fours(
    x: Any, y: Any, least: Any, stint: Any, axis: Any, line: Any, windows: Any, count: Any, space: Any, pitch: int
) -> Any:
    """The outputs of a stint; False if something was seen in which the order of comparing tells."""
    taps, n, out, top = axis.taps, wide_lanes(x), stint.high - stint.low, stint.top
    left, right, shift = seen_by(line, Piece(0, stint.low, stint.high, 0, 0))
    cells, edge, holes = right - left, left + shift, has_holes(line, windows)
    if cells < n:
        return False
    beside, levels = line.stride == 1 and line.step == 1 and line.taps <= PARTS * n, levels_of(x, line.taps)
    fours, between, power = (taps - 3) // 4, (taps - 3) % 4, 0
    while 2 << power <= fours:
        power += 1
    lag = fours - (1 << power)
    blank, rows, buffer, ring = space, later(space, pitch), later(space, 5 * pitch), later(space, 6 * pitch)
    fill(blank, 0, cells, least)
    pad(rows, pitch, edge, edge + cells, span(line, out), least)
    seen = 0
    for group in range(-fours - 2, (stint.bottom - taps - top) // 4 + 1):
        number, at = group + fours + 2, top + 4 * group
        new = (
            row_at(x, blank, stint, axis, line.width, at + taps, left),
            row_at(x, blank, stint, axis, line.width, at + taps + 1, left),
            row_at(x, blank, stint, axis, line.width, at + taps + 2, left),
            row_at(x, blank, stint, axis, line.width, at + taps + 3, left),
        )
        four = kept_row(ring, 0, power, lag, number, pitch)
        if group < 0:
            seen |= fold_four(new, cells, four)
        else:
            old = (
                row_at(x, blank, stint, axis, line.width, at, left),
                row_at(x, blank, stint, axis, line.width, at + 1, left),
                row_at(x, blank, stint, axis, line.width, at + 2, left),
                row_at(x, blank, stint, axis, line.width, at + 3, left),
                row_at(x, blank, stint, axis, line.width, at + 4, left),
                row_at(x, blank, stint, axis, line.width, at + 5, left),
            )
            core = (
                kept_row(ring, power, power, lag, number - 1, pitch),
                kept_row(ring, power, power, lag, number - 1 - lag, pitch),
            )
            seen |= four_windows(old, between, core, new, cells, later(rows, edge), pitch, four)
        for level in range(power):
            last = kept_row(ring, level, power, lag, number, pitch)
            before = kept_row(ring, level, power, lag, number - (1 << level), pitch)
            greater_row(last, before, cells, kept_row(ring, level + 1, power, lag, number, pitch))
        for f in range(4 if group >= 0 else 0):
            o = at + f
            if o % axis.stride == 0 and o <= stint.bottom - taps:
                r = o // axis.stride
                to = (stint.line * axis.out + r) * line.out + stint.low
                if beside:
                    double(later(rows, f * pitch), out + line.taps - (1 << levels), levels, buffer)
                    seen |= join(buffer, 1 << levels, line.taps, out, y, to)
                else:
                    spans(rows, f * pitch, y, to, out, line.taps, line.step, line.stride)
                    seen |= ZERO  # perhaps
                if holes or count[r] == 0:
                    clear_empty(y, to, out, stint, windows, count[r] == 0)
        if seen & NAN or seen == MINUS_ZERO + ZERO:
            return False
        if uses_up(line.taps) and not beside:
            pad(rows, pitch, edge, edge + cells, span(line, out), least)
    return True


@unrolled_kernel
def max_fours(x: Any, y: Any, least: Any, along: Any, plan: Any, count: Any, strange: Any, first: int, last: int) -> None:
    """The parts `first` to `last` of the greatest cells, and whether they are `strange`: those must be computed otherwise."""
    (line, windows, _), axis = unpacked(along), unpacked_axis(plan)
    pitch, number = span(line, axis.piece) + (line.stride + 8) * wide_lanes(x), first
    space = np.empty((axis.taps // 2 + 8) * pitch, x.dtype)
    x, y, room = address(x), address(y), address(space)
    while number < last:
        stint = stint_from(number, last, axis, line.out)
        done = stint_by_fours(x, y, least, stint, axis, line, windows, count, room, pitch)
        for part in range(number, number + stint.parts):
            strange[part] = not done
        number += stint.parts
    alive(space)
