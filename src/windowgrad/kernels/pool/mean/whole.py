"""Mean of whole planes: global pooling, and adaptive pooling to one bin.

For planes of LEAST cells and more (`is_whole`, `entry.sees_all`). The cells of a plane are one run of memory, and are read as
such. Up to NEAR cells, vectors are added one after the other, in their own dtype; the lanes of their sum are added at last, the
second half to the first, again and again: 11 additions and 3, which float32 may round. Several such planes are taken together
(`row_windows.grouping`). Of more cells, vectors are added as trees of eight in their own dtype, and trees in float64, lane by
lane:

    cells   0 … 7 | 8 … 15 | … | 56 … 63     ((v0 + v1) + (v2 + v3)) + ((v4 + v5) + (v6 + v7))     →  sums of 8 lanes
    …                                                                                              →  + the next tree
    rest    vectors one by one, and the last cells with zeros behind them

So a cell passes three roundings of float32, and one at the end. Where channels are last, the same sums are made with a vector
of channels for each lane, all in registers. A plane whose sum is not finite is summed again, in float64 from the first cell on.

Measured: with rows folded first, and a row added cell by cell, planes of 56×56 took 1.8 times as long. Asking memory early for
what comes 1 to 16 KB later made no clear difference. On AVX-512, two threads, 8×256 planes of 7×7 take 7.5 µs, channels last
8.7; eight planes turned around at once took 16.9, and columns of runs 14.0. The gradient of channels last, whose every cell
is a copy of a run, takes 14.6 µs; spread out cell by cell, and found anew in each call, it took 55.7.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from windowgrad.kernels.pool.mean.channel_blocks import CHANNELS, LEAST_CHANNELS, sum_blocks, total_of
from windowgrad.kernels.pool.mean.channels import sum_far_runs, sum_near_runs
from windowgrad.kernels.pool.plan import Plan
from windowgrad.kernels.pool.row_windows import grouping
from windowgrad.kernels.runtime.jit import helper, kernel
from windowgrad.kernels.vector.half import cells
from windowgrad.kernels.vector.loops import plus
from windowgrad.kernels.vector.ops import (
    address,
    alive,
    anywhere,
    lanes,
    load,
    load_as,
    load_part_as,
    not_finite,
    splat,
    store,
    store_part,
)
from windowgrad.kernels.vector.registers import load_wide_part, wide_lanes
from windowgrad.kernels.vector.shuffle import convert, sum_of_lanes

LEAST = 9
"""Smaller planes are done as their rows say, several at once."""

NEAR = 96
"""The most cells that float32 may add up alone."""

TREE = 8

PIECE = 32
"""Channels that are a share of a plane of runs."""

group = grouping(plus, False)


def is_whole(p: Plan) -> bool:
    """Whether the one window of a plane sees all its cells."""
    return p.plane_out == 1 and LEAST <= p.plane_in == int(p.row_cells[0]) * int(p.count[0])


@helper
def some(x: Any, i: int, count: int) -> Any:
    """A vector, or its first lanes with zeros behind them."""
    if count < lanes(x):
        return load_part_as(x, i, count, x)
    return load(x, i)


@helper
def tree(x: Any, i: int, n: int) -> Any:
    """The sum of TREE vectors of n lanes."""
    a, b = load(x, i) + load(x, i + n), load(x, i + 2 * n) + load(x, i + 3 * n)
    i += 4 * n
    c, d = load(x, i) + load(x, i + n), load(x, i + 2 * n) + load(x, i + 3 * n)
    return (a + b) + (c + d)


@helper
def sum_in_turn(x: Any, base: int, size: int, apart: int) -> Any:
    """The sum of cells that are `apart`, in float64, from the first on."""
    total = 0.0
    for i in range(size):
        total += x[base + i * apart]
    return total


@helper
def sum_near(x: Any, at: int, count: int, like: Any) -> Any:
    """The sum of so many cells from `at` on, in the dtype of `like`, as `group` adds them."""
    n, total, i = lanes(like), splat(like, 0), 0
    while i + n <= count:
        total = total + load_as(x, at + i, like)
        i += n
    if i < count:
        total = total + load_part_as(x, at + i, count - i, like)
    return sum_of_lanes(total)


@helper
def sum_plane(x: Any, at: int, size: int, sums: Any) -> Any:
    """The sum of the cells from `at` on; `sums` is an address of float64."""
    n, i, end = lanes(x), at, at + size
    found = 0.0
    if size <= NEAR:
        found += sum_near(x, at, size, x)
    else:
        total = convert(splat(x, 0), sums)
        while i + TREE * n <= end:
            total = total + convert(tree(x, i, n), sums)
            i += TREE * n
        while i < end:
            total = total + convert(some(x, i, end - i), sums)
            i += n
        found = sum_of_lanes(total)
    return found if found - found == 0 else sum_in_turn(x, at, size, 1)


@helper
def store_mean(y: Any, to: int, total: Any, by: float, count: int) -> Any:
    """y[to:] = the first lanes of float64 sums ÷ by; says whether one is not finite. A mean of −0.0 alone is 0.0."""
    mean = convert((total + splat(total, 0)) / splat(total, by), y)
    if count < lanes(total):
        store_part(y, to, mean, count)
    else:
        store(y, to, mean)
    return anywhere(not_finite(total))


@helper
def mean_group(x: Any, at: int, apart: int, size: int, by: float, wide: Any, y: Any, to: int) -> None:
    """y[to:] = a vector of means of NEAR cells at most, each `apart` from the one before it."""
    total = group(x, at, apart, size, x)
    if store_mean(y, to, convert(total, wide), by, lanes(x)):
        for i in range(lanes(x)):
            y[to + i] = sum_plane(x, at + i * apart, size, wide) / by


@kernel
def mean_whole(x: Any, y: Any, row_divisor: Any, col_divisor: Any, size: int, first: int, last: int) -> None:
    """The planes `first` to `last`, of `size` cells each."""
    divisor, sums = row_divisor[0] * col_divisor[0], address(row_divisor)  # sums are float64 too
    x, y, plane = cells(x), cells(y), first
    n = lanes(x)
    while plane < last:
        if n <= size <= NEAR and plane + n <= last:
            mean_group(x, plane * size, size, size, divisor, sums, y, plane)
            plane += n
        else:
            y[plane] = sum_plane(x, plane * size, size, sums) / divisor
            plane += 1


@helper
def mean_channels(x: Any, at: int, size: int, run: int, low: int, high: int, by: float, wide: Any, y: Any, to: int) -> None:
    """y[to + c] = the mean of channel c of `size` runs from `at` on, from `low` to `high`; `wide` is an address of float64."""
    step = wide_lanes(x)
    for c in range(low, high, step):
        left = min(step, high - c)
        if size <= NEAR:
            strange = store_mean(y, to + c, convert(sum_near_runs(x, at + c, size, run, left), wide), by, left)
        else:
            strange = store_mean(y, to + c, sum_far_runs(x, at + c, size, run, left), by, left)
        for k in range(c, c + left if strange else c):
            if y[to + k] - y[to + k] != 0:
                y[to + k] = sum_in_turn(x, at + k, size, run) / by


@kernel
def mean_whole_runs(x: Any, y: Any, row_divisor: Any, col_divisor: Any, size: int, run: int, first: int, last: int) -> None:
    """The pieces `first` to `last` of the channels of all planes, which have `size` cells, each a run of channels."""
    divisor, pieces = row_divisor[0] * col_divisor[0], (run + PIECE - 1) // PIECE
    x, y, wide = address(x), address(y), address(row_divisor)
    for piece in range(first, last):
        plane, low = piece // pieces, piece % pieces * PIECE
        mean_channels(x, plane * size * run, size, run, low, min(low + PIECE, run), divisor, wide, y, plane * run)


@helper
def mean_blocks(x: Any, at: int, size: int, run: int, channels: int, by: float, sums: Any, y: Any, to: int) -> None:
    """The same for so many channels of a large plane, a block of cells at a time."""
    step = wide_lanes(x)
    sum_blocks(x, at, size, run, channels, sums)
    for c in range(0, channels, step):
        left = min(step, channels - c)
        if store_mean(y, to + c, total_of(x, sums, c * lanes(x)), by, left):
            for k in range(c, c + left):
                if y[to + k] - y[to + k] != 0:
                    y[to + k] = sum_in_turn(x, at + k, size, run) / by


@kernel
def mean_run_blocks(
    x: Any, y: Any, row_divisor: Any, col_divisor: Any, size: int, run: int, some: int, first: int, last: int
) -> None:
    """Shares `first` to `last` of the channels of all large planes, as `mean_whole_runs`; `some` channels are a share."""
    divisor, shares = row_divisor[0] * col_divisor[0], (run + some - 1) // some
    space = np.empty((some + wide_lanes(x)) * lanes(x), row_divisor.dtype)  # float64
    x, y, sums = address(x), address(y), address(space)
    for share in range(first, last):
        plane, low = share // shares, share % shares * some
        channels = min(some, run - low)
        mean_blocks(x, plane * size * run + low, size, run, channels, divisor, sums, y, plane * run + low)
    alive(space)


def over_whole_runs(size: int, channels: int, planes: int) -> tuple[Any, tuple[int, ...], int]:
    """The kernel for planes of so many cells, each a run of channels, what it is told of that, and how many shares."""
    if size <= NEAR or channels < LEAST_CHANNELS:
        return mean_whole_runs, (size, channels), planes * -(-channels // PIECE)
    many, few = CHANNELS
    some = many if planes > 1 or channels > many else few
    return mean_run_blocks, (size, channels, some), planes * -(-channels // some)


@kernel
def mean_whole_back(g: Any, gx: Any, row_divisor: Any, col_divisor: Any, zero: Any, size: int, first: int, last: int) -> None:
    """The planes `first` to `last` of the gradient; it is divided as `zero`."""
    work = np.zeros(2, zero.dtype)
    work[0], work[1] = col_divisor[0], row_divisor[0]
    work[0] *= work[1]
    g, gx = cells(g), cells(gx)
    n, many, zeros = lanes(gx), wide_lanes(gx), load_wide_part(gx, 0, 0)
    for plane in range(first, last):
        work[1] = g[plane]
        share, i, end = work[1] / work[0] + work.dtype.type(0), plane * size, (plane + 1) * size
        value, more = splat(gx, share), splat(zeros, share)
        while i + 4 * many <= end:
            store(gx, i, more)
            store(gx, i + many, more)
            store(gx, i + 2 * many, more)
            store(gx, i + 3 * many, more)
            i += 4 * many
        while i + n <= end:
            store(gx, i, value)
            i += n
        if i < end:
            store_part(gx, i, value, end - i)


@kernel
def mean_whole_runs_back(
    g: Any, gx: Any, row_divisor: Any, col_divisor: Any, zero: Any, size: int, width: int, run: int, first: int, last: int
) -> None:
    """The rows `first` to `last` of all planes of the gradient, of `width` cells, each a run of channels; divided as `zero`."""
    work, values = np.zeros(2, zero.dtype), np.zeros(run + lanes(gx), gx.dtype)
    work[0], work[1] = col_divisor[0], row_divisor[0]
    work[0] *= work[1]
    filled, g, gx, value = -1, cells(g), cells(gx), cells(values)
    n = lanes(gx)
    for row in range(first, last):
        plane = row * width // size
        if plane != filled:
            filled = plane
            for c in range(run):
                work[1] = g[plane * run + c]
                value[c] = work[1] / work[0] + work.dtype.type(0)
        for at in range(row * width * run, (row + 1) * width * run, run):
            c = 0
            while c + n <= run:
                store(gx, at + c, load(value, c))
                c += n
            if c < run:
                store_part(gx, at + c, load(value, c), run - c)
    alive(values)
