"""One axis at a time, for windows of many rows: a cell costs the same whatever the side of the window.

For the geometries of `axis_passes.has_many_rows`. An array is seen as [lines, n, run]: windows along the middle axis, each of
whose cells is a run of numbers. A strip of rows and a piece of the run are copied into a buffer. The rows are cut into segments
as long as a window, so every window is the end of one segment and the beginning of the next: what its rows combine to is the
combination of two rows, one from the segments folded from their ends, one from the segments folded from their beginnings
(van Herk, Gil and Werman). With windows of 4 rows:

    rows        0 1 2 3 | 4 5 6 7 | …
    buffer      each segment from each row to its end              the window at row 2 is
    ahead       each segment from its beginning to each row        buffer[2] (rows 2, 3) with ahead[5] (rows 4, 5)

Sums are float64. With the last axis taken first, the first winner in row-major order wins.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from windowgrad.kernels.pool.row_pieces import fill
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
    not_finite,
    select,
    splat,
    store,
    store_part,
)
from windowgrad.kernels.vector.shuffle import convert

PIECE = 128
"""Numbers of a run that are taken together; whole vectors of every dtype."""

CELLS = 1 << 15
"""Cells of a strip, about; it should stay in the second cache."""


class Axis(NamedTuple):
    """The middle axis of an array [lines, n, run]: `out` windows of `taps` taps, `step` apart, over n rows.

    They begin `stride` rows apart, the first of them `before` rows before the array. A strip has `strip` outputs.
    """

    n: int
    out: int
    run: int
    taps: int
    stride: int
    step: int
    before: int
    strip: int


class Box(NamedTuple):
    """What is computed in one buffer: of a line, the outputs `low` to `high`, and of each `width` numbers from `left` on."""

    line: int
    low: int
    high: int
    left: int
    width: int


@helper
def unpacked_axis(plan: Any) -> Any:
    return Axis(plan[0], plan[1], plan[2], plan[3], plan[4], plan[5], plan[6], plan[7])


@helper
def box_of(number: int, axis: Any) -> Any:
    """A box by its number: line after line, strip after strip, piece after piece of a run."""
    strips, pieces = -(-axis.out // axis.strip), -(-axis.run // PIECE)
    line, rest = number // (strips * pieces), number % (strips * pieces)
    low, left = rest // pieces * axis.strip, rest % pieces * PIECE
    return Box(line, low, min(low + axis.strip, axis.out), left, min(PIECE, axis.run - left))


@helper
def rows_seen(axis: Any, outputs: int) -> int:
    """The rows from the first to the last that so many windows side by side cover."""
    return (outputs - 1) * axis.stride + (axis.taps - 1) * axis.step + 1  # type: ignore[no-any-return]


@helper
def copy_in(x: Any, box: Any, axis: Any, buffer: Any, absent: Any) -> None:
    """The rows that a box sees, as rows of PIECE cells; those before the first row of x and after its last are `absent`.

    So are the cells that fill the last vector of a row: what an earlier box left there must not be seen.
    """
    k, width = lanes(buffer), box.width
    end, first = (width + k - 1) // k * k, box.low * axis.stride - axis.before
    for r in range(rows_seen(axis, box.high - box.low)):
        to, i = r * PIECE, first + r
        if 0 <= i < axis.n:
            j, source = 0, (box.line * axis.n + i) * axis.run + box.left
            while j + k <= width:
                store(buffer, to + j, load_as(x, source + j, buffer))
                j += k
            while j < width:
                buffer[to + j] = x[source + j]
                j += 1
            fill(buffer, to + width, to + end, absent)
        else:
            fill(buffer, to, to + end, absent)


@helper
def first_greatest(a: Any, b: Any) -> Any:
    return select(beats(b, a), b, a)


@helper
def total(a: Any, b: Any) -> Any:
    return a + b


def folding(combine: Any) -> Any:
    @helper
    def fold(buffer: Any, ahead: Any, rows: int, taps: int, step: int) -> None:
        """ahead = each segment from its beginning up to each row; buffer = each segment from each row to its end."""
        n, apart, everything = lanes(buffer), step * PIECE, rows * PIECE
        start = 0
        while start < everything:
            end = min(start + taps * apart, everything)
            i = start
            while i < min(start + apart, end):
                store(ahead, i, load(buffer, i))
                i += n
            while i < end:
                store(ahead, i, combine(load(ahead, i - apart), load(buffer, i)))
                i += n
            i = end - apart - n
            while i >= start:
                store(buffer, i, combine(load(buffer, i), load(buffer, i + apart)))
                i -= n
            start = end

    return fold


fold_greatest, fold_sums = folding(first_greatest), folding(total)


@kernel
def max_axis(x: Any, y: Any, least: Any, plan: Any, count: Any, first: int, last: int) -> None:
    """The boxes `first` to `last` of the greatest cells along one axis; a window with no cell gives 0."""
    axis = unpacked_axis(plan)
    taps, apart, room = (
        axis.taps,
        (axis.taps - 1) * axis.step * PIECE,
        (axis.strip * axis.stride + axis.taps * axis.step) * PIECE,
    )
    space, beginnings = np.full(room, least, x.dtype), np.empty(room, x.dtype)
    x, y, buffer, ahead, count = address(x), address(y), address(space), address(beginnings), address(count)
    for number in range(first, last):
        box = box_of(number, axis)
        copy_in(x, box, axis, buffer, least)
        fold_greatest(buffer, ahead, rows_seen(axis, box.high - box.low), taps, axis.step)
        for r in range(box.low, box.high):
            at, i, j = (box.line * axis.out + r) * axis.run + box.left, (r - box.low) * axis.stride * PIECE, 0
            while j < box.width:
                best = first_greatest(load(buffer, i + j), load(ahead, i + apart + j))
                if j + lanes(y) <= box.width:
                    store(y, at + j, best)
                else:
                    store_part(y, at + j, best, box.width - j)
                j += lanes(y)
            if count[r] == 0:
                fill(y, at, at + box.width, 0)
    alive(space)
    alive(beginnings)


@kernel
def sum_axis(x: Any, y: Any, row_divisor: Any, run_divisor: Any, strange: Any, plan: Any, first: int, last: int) -> None:
    """The boxes `first` to `last` of the sums along one axis, each divided by what its row and its column say.

    `strange` becomes 1 for the lines in which a sum is not finite.
    """
    axis = unpacked_axis(plan)
    taps, apart, room = (
        axis.taps,
        (axis.taps - 1) * axis.step * PIECE,
        (axis.strip * axis.stride + axis.taps * axis.step) * PIECE,
    )
    space, beginnings, divisors = np.zeros(room), np.empty(room), np.ones(PIECE)
    x, y, buffer, ahead, by = address(x), address(y), address(space), address(beginnings), address(divisors)
    row_divisor, run_divisor = address(row_divisor), address(run_divisor)
    for number in range(first, last):
        box = box_of(number, axis)
        copy_in(x, box, axis, buffer, 0)
        fold_sums(buffer, ahead, rows_seen(axis, box.high - box.low), taps, axis.step)
        divided_by, k, seen = 0.0, lanes(by), not_finite(splat(by, 0))
        for r in range(box.low, box.high):
            if row_divisor[r] != divided_by:
                divided_by = row_divisor[r]
                for j in range(box.width):
                    by[j] = divided_by * run_divisor[box.left + j]
            at, i, j = (box.line * axis.out + r) * axis.run + box.left, (r - box.low) * axis.stride * PIECE, 0
            whole = i % (taps * axis.step * PIECE) < axis.step * PIECE  # the window is a segment: not to be added twice
            while j < box.width:
                value = load(buffer, i + j)
                if not whole:
                    value = value + load(ahead, i + apart + j)
                value = value + splat(by, 0)
                quotient = convert(value / load(by, j), y)
                if j + k <= box.width:
                    store(y, at + j, quotient)
                else:
                    store_part(y, at + j, quotient, box.width - j)
                seen = either(seen, not_finite(value))
                j += k
        if anywhere(seen):
            strange[box.line] = 1
    alive(space)
    alive(beginnings)
    alive(divisors)
