"""Mean of whole planes: global pooling, and adaptive pooling to one bin.

For planes of LEAST cells and more (`is_whole`, `entry.sees_all`). The cells of a plane are one run of memory, and are read as
such. Vectors are added as trees of eight in their own dtype, and trees in float64, lane by lane; the lanes are added at last:

    cells   0 … 7 | 8 … 15 | … | 56 … 63     ((v0 + v1) + (v2 + v3)) + ((v4 + v5) + (v6 + v7))     →  sums of 8 lanes
    …                                                                                              →  + the next tree
    rest    vectors one by one, and the last cells with zeros behind them

So a cell passes three roundings of float32, and one at the end. Where channels are last, the same sums are made with a vector
of channels for each lane. A plane whose sum is not finite is summed again, in float64 from the first cell on.

Measured: with rows folded first, and a row added cell by cell, planes of 56×56 took 1.8 times as long. Asking
memory early for what comes 1 to 16 KB later made no clear difference.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from windowgrad.kernels.pool.plan import Plan
from windowgrad.kernels.pool.row_pieces import clear
from windowgrad.kernels.runtime.jit import helper, kernel
from windowgrad.kernels.vector.ops import address, alive, lanes, load, load_beside, load_part_as, splat, store, store_part
from windowgrad.kernels.vector.shuffle import convert, sum_of_lanes

LEAST = 128
"""Smaller planes are done as their rows say, several at once."""

TREE = 8


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
def tree(x: Any, i: int, apart: int, count: int) -> Any:
    """The sum of TREE vectors, `apart` from each other, of which `count` lanes are read."""
    a, b = some(x, i, count) + some(x, i + apart, count), some(x, i + 2 * apart, count) + some(x, i + 3 * apart, count)
    i += 4 * apart
    c, d = some(x, i, count) + some(x, i + apart, count), some(x, i + 2 * apart, count) + some(x, i + 3 * apart, count)
    return (a + b) + (c + d)


@helper
def sum_in_turn(x: Any, base: int, size: int, apart: int) -> Any:
    """The sum of cells that are `apart`, in float64, from the first on."""
    total = 0.0
    for i in range(size):
        total += x[base + i * apart]
    return total


@kernel
def mean_whole(x: Any, y: Any, row_divisor: Any, col_divisor: Any, size: int, first: int, last: int) -> None:
    """The planes `first` to `last`, of `size` cells each."""
    divisor, sums = row_divisor[0] * col_divisor[0], address(row_divisor)  # sums are float64 too
    x, y = address(x), address(y)
    for plane in range(first, last):
        y[plane] = sum_plane(x, plane * size, size, sums) / divisor


@helper
def sum_plane(x: Any, at: int, size: int, sums: Any) -> Any:
    """The sum of the cells from `at` on; `sums` is an address of float64."""
    n, i, end = lanes(x), at, at + size
    total = convert(splat(x, 0), sums)
    while i + TREE * n <= end:
        total = total + convert(tree(x, i, n, n), sums)
        i += TREE * n
    while i < end:
        total = total + convert(some(x, i, end - i), sums)
        i += n
    found = sum_of_lanes(total)
    return found if found - found == 0 else sum_in_turn(x, at, size, 1)


@helper
def add_run(sums: Any, at: int, value: Any, x: Any) -> None:
    store(sums, at, load_beside(sums, at, x) + value)


@kernel
def mean_whole_runs(x: Any, y: Any, row_divisor: Any, col_divisor: Any, size: int, run: int, first: int, last: int) -> None:
    """The planes `first` to `last`, of `size` cells each, every one of which is a run of channels."""
    n, divisor = lanes(x), row_divisor[0] * col_divisor[0]
    pitch, whole = (run + n - 1) // n * n, size // (TREE * n) * (TREE * n)
    spare = np.zeros(n * pitch)
    x, y, sums = address(x), address(y), address(spare)
    for plane in range(first, last):
        base = plane * size * run
        clear(sums, 0, n * pitch)
        for cell in range(0, whole, TREE * n):
            for c in range(0, run, n):
                for lane in range(n):
                    value = tree(x, base + (cell + lane) * run + c, n * run, run - c)
                    add_run(sums, lane * pitch + c, convert(value, sums), x)
        for cell in range(whole, size):
            for c in range(0, run, n):
                add_run(sums, cell % n * pitch + c, convert(some(x, base + cell * run + c, run - c), sums), x)
        for c in range(0, run, n):
            step = n // 2
            while step > 0:
                for lane in range(step):
                    add_run(sums, lane * pitch + c, load_beside(sums, (lane + step) * pitch + c, x), x)
                step //= 2
        for c in range(run):
            found = sums[c]
            if found - found != 0:
                found = sum_in_turn(x, base + c, size, run)
            y[plane * run + c] = found / divisor
    alive(spare)


@kernel
def mean_whole_back(g: Any, gx: Any, row_divisor: Any, col_divisor: Any, zero: Any, size: int, first: int, last: int) -> None:
    """The planes `first` to `last` of the gradient; it is divided as `zero`."""
    n, work = lanes(gx), np.zeros(2, zero.dtype)
    work[0], work[1] = col_divisor[0], row_divisor[0]
    work[0] *= work[1]
    for plane in range(first, last):
        work[1] = g[plane]
        value, i, end = splat(gx, work[1] / work[0] + work.dtype.type(0)), plane * size, (plane + 1) * size
        while i + n <= end:
            store(gx, i, value)
            i += n
        if i < end:
            store_part(gx, i, value, end - i)
