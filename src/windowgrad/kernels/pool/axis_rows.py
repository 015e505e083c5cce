"""One axis at a time, for windows of many rows: a cell costs the same whatever the side of the window.

An array is seen as [lines, n, run]: windows along the middle axis, each of whose cells is a run of numbers. A block of rows
and a piece of the run are copied into a buffer. The rows are cut into segments as long as a window, so every window is
the end of one segment and the beginning of the next: what its rows combine to is the combination of two rows, one from the
segments folded from their ends, one from the segments folded from their beginnings (van Herk, Gil and Werman). Sums
are float64. With the last axis taken first, the first winner in row-major order wins.
"""

from __future__ import annotations

from typing import Any

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
"""Cells of a block, about; it should stay in the second cache."""


@helper
def copy_in(x: Any, at: int, run: int, first: int, n: int, rows: int, width: int, buffer: Any, absent: Any) -> None:
    """Rows of PIECE cells: `width` columns of the rows `first` to `first + rows`; those before 0 and from n on are `absent`.

    So are the cells that fill the last vector of a row: what an earlier block left there must not be seen.
    """
    k = lanes(buffer)
    end = (width + k - 1) // k * k
    for r in range(rows):
        to, i = r * PIECE, first + r
        if 0 <= i < n:
            j, source = 0, at + i * run
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


@helper
def block_of(job: int, blocks: int, block: int, m: int, pieces: int, run: int) -> Any:
    """(line, first output row, end of the rows, first column, how many): which part of the output a job is."""
    line, rest = job // (blocks * pieces), job % (blocks * pieces)
    low, left = rest // pieces * block, rest % pieces * PIECE
    return line, low, min(low + block, m), left, min(PIECE, run - left)


@kernel
def max_axis(x: Any, y: Any, least: Any, shape: Any, count: Any, first: int, last: int) -> None:
    """The jobs `first` to `last` of the greatest cells along one axis; a window with no cell gives 0."""
    n, m, run, taps, stride, step, before, block = shape
    blocks, pieces, room = -(-m // block), -(-run // PIECE), (block * stride + taps * step) * PIECE
    space, beginnings = np.full(room, least, x.dtype), np.empty(room, x.dtype)
    x, y, buffer, ahead, count = address(x), address(y), address(space), address(beginnings), address(count)
    for job in range(first, last):
        line, low, high, left, width = block_of(job, blocks, block, m, pieces, run)
        rows = (high - low - 1) * stride + (taps - 1) * step + 1
        copy_in(x, line * n * run + left, run, low * stride - before, n, rows, width, buffer, least)
        fold_greatest(buffer, ahead, rows, taps, step)
        for r in range(low, high):
            at, i, j = (line * m + r) * run + left, (r - low) * stride * PIECE, 0
            while j < width:
                best = first_greatest(load(buffer, i + j), load(ahead, i + (taps - 1) * step * PIECE + j))
                if j + lanes(y) <= width:
                    store(y, at + j, best)
                else:
                    store_part(y, at + j, best, width - j)
                j += lanes(y)
            if count[r] == 0:
                fill(y, at, at + width, 0)
    alive(space)
    alive(beginnings)


@kernel
def sum_axis(x: Any, y: Any, row_divisor: Any, run_divisor: Any, strange: Any, shape: Any, first: int, last: int) -> None:
    """The jobs `first` to `last` of the sums along one axis, each divided by what its row and its column say.

    `strange` becomes 1 for the lines in which a sum is not finite.
    """
    n, m, run, taps, stride, step, before, block = shape
    blocks, pieces, room = -(-m // block), -(-run // PIECE), (block * stride + taps * step) * PIECE
    space, beginnings, divisors = np.zeros(room), np.empty(room), np.ones(PIECE)
    x, y, buffer, ahead, by = address(x), address(y), address(space), address(beginnings), address(divisors)
    row_divisor, run_divisor = address(row_divisor), address(run_divisor)
    for job in range(first, last):
        line, low, high, left, width = block_of(job, blocks, block, m, pieces, run)
        rows = (high - low - 1) * stride + (taps - 1) * step + 1
        copy_in(x, line * n * run + left, run, low * stride - before, n, rows, width, buffer, 0)
        fold_sums(buffer, ahead, rows, taps, step)
        divided_by, k, seen = 0.0, lanes(by), not_finite(splat(by, 0))
        for r in range(low, high):
            if row_divisor[r] != divided_by:
                divided_by = row_divisor[r]
                for j in range(width):
                    by[j] = divided_by * run_divisor[left + j]
            at, i, j = (line * m + r) * run + left, (r - low) * stride * PIECE, 0
            whole = i % (taps * step * PIECE) < step * PIECE  # the window is a segment, which is not to be added twice
            while j < width:
                value = load(buffer, i + j)
                if not whole:
                    value = value + load(ahead, i + (taps - 1) * step * PIECE + j)
                value = value + splat(by, 0)
                quotient = convert(value / load(by, j), y)
                if j + k <= width:
                    store(y, at + j, quotient)
                else:
                    store_part(y, at + j, quotient, width - j)
                seen = either(seen, not_finite(value))
                j += k
        if anywhere(seen):
            strange[line] = 1
    alive(space)
    alive(beginnings)
    alive(divisors)
