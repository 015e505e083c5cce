"""Mean of large windows a cell apart, four output rows at once: columns first, then along rows (`four_rows`).

For the geometries of `goes_by_fours`, where sums may be float32. Shares are those of `axis_rows`; fours are counted from the
first window on, so that no sum depends on shares. A row of x is read when it is new, and again when windows leave it.

Measured at every cell of 4096², two threads, in times of 3 × 3: 15 × 15 takes 1.6, 63 × 63 1.9 and 64 × 64 1.6; one row after
the other, added in float64, they took 2.0, 2.5 and 2.4. With the parts of windows that are less than a vector in buffers of
their own, not in registers, 63 × 63 took 2.2; along whole rows, which do not stay in the nearest cache, 64 × 64 took 1.8.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from windowgrad.geometry import Sliding
from windowgrad.kernels.pool.axis_rows import stint_from, unpacked_axis
from windowgrad.kernels.pool.mean.four_rows import LANES, LEVELS, MOST, double, four_sums, grow, join, roundings
from windowgrad.kernels.pool.packed import unpacked
from windowgrad.kernels.pool.row_pieces import Piece, fill, seen_by, span
from windowgrad.kernels.runtime.jit import helper, kernel
from windowgrad.kernels.vector.ops import address, alive, later

FEWEST = 11
"""Rows of windows of which two fours are in all of four neighbours."""

STRETCH = 1024
"""Outputs of a row whose sums of columns stay in the nearest cache."""

STAGED = 10
"""Rows of x that are read at a time."""


def goes_by_fours(geometry: Sliding) -> bool:
    """Whether windows are summed four rows at once: of planes, a cell apart, neither small nor so large that errors add up."""
    if geometry.rank != 2 or {*geometry.stride, *geometry.dilation} != {1}:
        return False
    rows, columns = geometry.kernel
    return rows >= FEWEST and max(rows, columns) <= MOST and roundings(rows, columns) + 1 < 16  # and the division


@helper
def row_at(
    x: Any, blank: Any, stage: Any, slot: int, stint: Any, axis: Any, width: int, row: int, left: int, cells: int
) -> Any:
    """The cells of a row of a stint from `left` on; zeros if it is not there, and a copy if they do not fill a vector."""
    place = row - axis.before
    if row < stint.top or place < 0 or place >= axis.n or cells <= 0:
        return blank
    start = later(x, (stint.line * axis.n + place) * width + left)
    if cells >= LANES:
        return start
    copy = later(stage, slot * LANES)
    for c in range(cells):
        copy[c] = start[c]
    return copy


@helper
def kept(ring: Any, power: int, number: int, pitch: int) -> Any:
    """Where the sum of 2^power fours, the last of them `number`, is kept: as many of each power as are needed."""
    return later(ring, ((1 << power) - 1 + power + number % ((1 << power) + 1)) * pitch)


@helper
def part(ring: Any, blank: Any, power: int, fours: int, number: int, pitch: int) -> Any:
    """The sum of 2^power fours that is a part of so many, the last of them `number`."""
    if fours >> power & 1:
        return kept(ring, power, number - (fours & ((1 << power) - 1)), pitch)
    return blank


@helper
def power_of(number: int) -> int:
    """The greatest power of two that is no more."""
    power = 0
    while 2 << power <= number:
        power += 1
    return power


@helper
def rows_kept(taps: int) -> int:
    """How many rows `kept` has."""
    power = power_of((taps - 3) // 4)
    return (2 << power) + power  # type: ignore[no-any-return]


@helper
def means_along(row: Any, blank: Any, top: Any, low: Any, taps: int, out: int, by: Any, y: Any, at: int) -> Any:
    """y[at:at + out] = the windows of `taps` columns along a row, ÷ by. Says whether one is not finite."""
    rest = taps % LANES
    double(row, out + max(taps - LANES, 0), rest, top, low)
    return join(low if rest else blank, later(top, rest), taps // LANES, by, out, y, at)


@helper
def stint_by_fours(
    x: Any, y: Any, row_divisor: Any, run_divisor: Any, stint: Any, axis: Any, line: Any, by: Any, space: Any, pitch: int
) -> Any:
    """The outputs of a stint. Says whether one is not finite."""
    taps, out, width = axis.taps, stint.high - stint.low, line.width
    left, right, shift = seen_by(line, Piece(0, stint.low, stint.high, 0, 0))
    cells, edge = right - left, left + shift if left < right else 0
    fours, between, power = (taps - 3) // 4, (taps - 3) % 4, power_of((taps - 3) // 4)
    blank, rows, cores = space, later(space, pitch), later(space, 5 * pitch)
    ahead, ring = LEVELS * LANES, later(space, 9 * pitch)
    top, low, stage = later(space, 7 * pitch + ahead), later(space, 8 * pitch + ahead), later(ring, rows_kept(taps) * pitch)
    fill(blank, 0, 5 * pitch, 0)
    fill(stage, 0, STAGED * LANES, 0)
    begin, divided_by, seen = stint.top - stint.top % 4, 0.0, 0
    for group in range(-fours, (stint.bottom - taps - begin) // 4 + 1):
        number, at = group + fours, begin + 4 * group
        four, core = kept(ring, 0, number, pitch), later(cores, number % 2 * pitch)
        new = (
            row_at(x, blank, stage, 0, stint, axis, width, at + taps, left, cells),
            row_at(x, blank, stage, 1, stint, axis, width, at + taps + 1, left, cells),
            row_at(x, blank, stage, 2, stint, axis, width, at + taps + 2, left, cells),
            row_at(x, blank, stage, 3, stint, axis, width, at + taps + 3, left, cells),
        )
        old = (
            row_at(x, blank, stage, 4, stint, axis, width, at, left, cells),
            row_at(x, blank, stage, 5, stint, axis, width, at + 1, left, cells),
            row_at(x, blank, stage, 6, stint, axis, width, at + 2, left, cells),
            row_at(x, blank, stage, 7, stint, axis, width, at + 3, left, cells if between > 0 else 0),
            row_at(x, blank, stage, 8, stint, axis, width, at + 4, left, cells if between > 1 else 0),
            row_at(x, blank, stage, 9, stint, axis, width, at + 5, left, cells if between > 2 else 0),
        )
        four_sums(old, core, new, max(cells, LANES), later(rows, edge), pitch, four)
        before = (
            kept(ring, 0, number - 1, pitch),
            kept(ring, 1, number - 2, pitch),
            kept(ring, 2, number - 4, pitch),
            kept(ring, 3, number - 8, pitch),
        )
        to = (
            kept(ring, 1, number, pitch),
            kept(ring, 2, number, pitch),
            kept(ring, 3, number, pitch),
            kept(ring, 4, number, pitch),
        )
        parts = (
            part(ring, blank, 0, fours, number, pitch),
            part(ring, blank, 1, fours, number, pitch),
            part(ring, blank, 2, fours, number, pitch),
            part(ring, blank, 3, fours, number, pitch),
            part(ring, blank, 4, fours, number, pitch),
        )
        grow(four, power + 1, before, to, parts, max(cells, LANES), later(cores, (number + 1) % 2 * pitch))
        for r in range(max(at, stint.top) if group >= 0 else at + 4, min(at + 4, stint.bottom - taps + 1)):
            if row_divisor[r] != divided_by:
                divided_by = row_divisor[r]
                for j in range(out):
                    by[j] = divided_by * run_divisor[stint.low + j]
            place = (stint.line * axis.out + r) * line.out + stint.low
            for c in range(0, out, STRETCH):
                row, some = later(rows, (r - at) * pitch + c), min(STRETCH, out - c)
                seen |= means_along(row, blank, top, low, line.taps, some, later(by, c), y, place + c)
    return seen != 0


@kernel
def mean_fours(
    x: Any, y: Any, row_divisor: Any, run_divisor: Any, strange: Any, along: Any, plan: Any, first: int, last: int
) -> None:
    """The parts `first` to `last` of the means, each divided by what its row and its column say; all are float32.

    `strange` becomes 1 for the lines in which a mean is not finite.
    """
    (line, _, _), axis = unpacked(along), unpacked_axis(plan)
    vectors, number = span(line, axis.piece) // LANES + 8, first
    pitch = (vectors + 1 - vectors % 2) * LANES  # an odd number of vectors: rows do not share places of the cache
    space = np.empty((9 + rows_kept(axis.taps)) * pitch + STAGED * LANES, x.dtype)
    divisors = np.ones(pitch, x.dtype)
    x, y, row_divisor, run_divisor = address(x), address(y), address(row_divisor), address(run_divisor)
    while number < last:
        stint = stint_from(number, last, axis, line.out)
        if stint_by_fours(x, y, row_divisor, run_divisor, stint, axis, line, address(divisors), address(space), pitch):
            strange[stint.line] = 1
        number += stint.parts
    alive(space)
    alive(divisors)
