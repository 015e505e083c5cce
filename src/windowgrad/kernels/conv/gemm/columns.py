"""The input gradient of windows that are nearly as large as a plane: a sum for each output and tap, added to the cell it meets.

`products.py` asks of every cell which outputs see it by which tap, and takes those that are not there for zeros: of 7×7×7
windows with a stride of 2 on 10×10×10, which have 8 outputs, one in 23 is there. Here each output and tap have a sum:

    g                    channels of the output × outputs
    the weight, as rows  (channel, tap) × channels of the output
    columns              (channel, tap) × outputs: their product, by `products.py`
    the gradient         channel × cells: the columns of all taps, added tap by tap, row by row

Chosen where `is_wasteful` says so of the geometry and the channels: a sample is summed in one order, whatever else is in its
batch. Threads share products as those of a 1×1 convolution, then planes.

Measured, two threads: 32 → 337 channels on 10×10×10 as above, 32 images, take 12 ms and not 153; 96 → 96, 5×5 on 7×7, 8 images,
0.30 and not 0.88.
"""

from __future__ import annotations

import math
from functools import lru_cache, partial
from itertools import product
from typing import Any

import numpy as np

from windowgrad.geometry import Sliding
from windowgrad.kernels.conv.gemm.times import tile_time
from windowgrad.kernels.conv.gemm.ways import multiply, ready_to_multiply
from windowgrad.kernels.conv.plan import Array
from windowgrad.kernels.conv.range_check import any_strange
from windowgrad.kernels.conv.shapes import Compute, Pass, Way
from windowgrad.kernels.conv.share import by_threads, shared, sharing
from windowgrad.kernels.runtime.buffers import empty, maker
from windowgrad.kernels.runtime.jit import kernel
from windowgrad.kernels.vector.ops import address, later
from windowgrad.kernels.vector.registers import WIDE_BYTES

MOVED, AROUND = 24, 20000
"""Cycles: to store a vector of columns and to add it; and of a sample, for all that is done besides."""
WASTE = 1.3
"""How many times the cycles of columns those of `products.py` must be. Of 5000 random shapes a fifth is faster by columns if
chosen so, half of them by more than 1.8 times, and 33 are slower than 0.9 times."""
MOST_COLUMNS, MOST_ROWS = 1 << 24, 1 << 14
"""Numbers of the columns of a sample, and rows of a plane of them, at the most."""
AT_ONCE = 1 << 22
"""Numbers of the columns of several samples that are computed together."""


def columns_of(one: Pass) -> int:
    """The numbers of the columns of a sample."""
    return one.groups * one.rows * one.taps * one.cells


def may_add_columns(one: Pass, itemsize: int) -> bool:
    rows = one.taps * math.prod(one.size[:-1])
    return one.back and columns_of(one) <= MOST_COLUMNS and rows <= MOST_ROWS


def is_wasteful(one: Pass) -> bool:
    asked = one.channels * sum(tile_time(one.rows, gather.pixels, 4) * len(gather.places) for gather in one.gathers)
    pairs = one.rows * one.taps
    columns = one.channels * tile_time(pairs, one.cells, 4) + MOVED * pairs * one.cells * 4 // WIDE_BYTES
    return one.groups * asked > WASTE * (one.groups * columns + AROUND)


@lru_cache(maxsize=256)
def rows_of_columns(one: Pass) -> Array:
    """Of a plane: where each row of columns begins, the cell that its first one is added to, and how many there are."""
    window, found, axes = one.window, [], []
    for axis, (n, outputs) in enumerate(zip(one.grid, one.size, strict=True)):
        stride, met = window.stride[axis], []
        for tap in range(window.kernel[axis]):
            cell = tap * window.dilation[axis] - window.padding[axis][0]  # of output 0
            met.append((cell, range(max(0, -(cell // stride)), min(outputs, (n - 1 - cell) // stride + 1))))
        axes.append(met)
    for number, taps in enumerate(product(*axes)):
        *outer, along = (some for _, some in taps)
        for place in product(*outer) if along else ():
            column, to = number, 0
            for axis, o in enumerate((*place, along[0])):
                column = column * one.size[axis] + o
                to = to * one.grid[axis] + taps[axis][0] + o * window.stride[axis]
            found.append((column, to, len(along)))
    return np.array(found, np.int64).reshape(-1)


@lru_cache(maxsize=256)
def as_columns(one: Pass, images: int) -> Pass:
    """The products of so many samples: the input gradient of a 1×1 convolution with the weight as it is."""
    size = (one.cells,)
    return Pass(Sliding((1,)), True, images, one.groups, one.rows * one.taps, one.channels, size, size)


@kernel
def add_columns(columns: Any, bias: Any, y: Any, rows: Any, sizes: Any, adds: int, first: int, last: int) -> None:
    """The planes `first` to `last` of y: the bias, or what they have if it `adds` (1 or 0), and the columns of all taps."""
    column, plane, step = sizes
    for job in range(first, last):
        of, cells = later(address(columns), job * column), later(address(y), job * plane)
        if adds == 0:
            for i in range(plane):
                cells[i] = bias[job % len(bias)]
        for q in range(0, len(rows), 3):
            source, to = later(of, rows[q]), later(cells, rows[q + 1])
            if step == 1:
                for n in range(rows[q + 2]):
                    to[n] += source[n]
            else:
                for n in range(rows[q + 2]):
                    to[n * step] += source[n]


def add_all(one: Pass, g: Array, w: Array, bias: Array, y: Array, adds: bool) -> int:
    """Some samples at a time."""
    most, planes = max(1, AT_ONCE // columns_of(one)), one.groups * one.rows
    none, told = columns_told(one, y.dtype)
    for begin in range(0, one.images, most):
        images = min(most, one.images - begin)
        columns = empty((images * columns_of(one),), y.dtype)
        multiply(as_columns(one, images), g[begin * one.groups * one.channels * one.cells :], w, none, columns, False)
        given = columns, bias, y[begin * planes * one.pixels :], *told, int(adds)
        shared(partial(add_columns, *given), images * planes, columns.nbytes)
    return int(any_strange(y, 0, y.size))


def columns_told(one: Pass, dtype: Any) -> tuple[Array, tuple[Array, tuple[int, int, int]]]:
    """A bias of zeros for the columns, and what `add_columns` is told: rows and sizes."""
    sizes = one.taps * one.cells, one.pixels, one.window.stride[-1]
    return np.zeros(one.groups * one.rows * one.taps, dtype), (rows_of_columns(one), sizes)


def ready_to_add(one: Pass, dtype: Any) -> Compute | None:
    """`add_all` of all samples at once: all but the kernel calls is done."""
    numbers = one.images * columns_of(one)
    products = ready_to_multiply(as_columns(one, one.images), dtype) if numbers <= AT_ONCE else None
    if products is None:
        return None
    make, (none, told), planes = maker((numbers,), dtype), columns_told(one, dtype), one.images * one.groups * one.rows
    add = by_threads(numbers * dtype.itemsize, lambda threads: sharing(add_columns, planes, threads))

    def call(g: Array, w: Array, bias: Array, y: Array) -> int:
        columns = make((numbers,), dtype)
        products(g, w, none, columns)
        add(columns, bias, y, *told, 0)
        return int(any_strange(y, 0, y.size))

    return call


COLUMNS = Way("columns", may_add_columns, add_all, is_wasteful, ready_to_add)
