"""Products of large matrices by the kernels of convolution: windows of one cell, with a channel for each term of a sum.

NumPy gives them to a BLAS that has threads of its own. Those of OpenBLAS watch for more work for 24 ms after a product, on CPUs
that the threads of our kernels then do not get: with a product at its end, ResNet-18 took 40 ms and not 21. So where a BLAS
might use threads, kernels multiply. A sum has the same bits for every number of threads, and whatever rows are beside it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from windowgrad.geometry import Sliding
from windowgrad.kernels.arrays import flat
from windowgrad.kernels.conv.choose import grouped
from windowgrad.kernels.conv.exact import FORWARD, INPUT
from windowgrad.kernels.conv.one_row import row_times
from windowgrad.kernels.conv.plan import Array
from windowgrad.kernels.runtime.buffers import empty
from windowgrad.kernels.runtime.jit import kernel
from windowgrad.kernels.runtime.threads import over
from windowgrad.kernels.vector.ops import address, later
from windowgrad.kernels.vector.registers import ROWS
from windowgrad.kernels.vector.tiles import Matrix
from windowgrad.kernels.vector.transpose import turn, turn_some
from windowgrad.params import ConvParams

ONE_CELL = ConvParams(Sliding((1,)))
LINE = 16
"""Rows of a turned matrix that are made together: of float32, a line of the cache in each row of the other."""


def multiplied(a: Array, b: Array) -> Array:
    """As `numpy.matmul`, of rows or a row with a matrix, or of rows with a column: not empty, all float32 or all float64.

    A row or a column has kernels of its own. With a right factor that is turned around in memory, the product is computed
    turned around, if that copies less.
    """
    rows, columns = a.reshape(-1, a.shape[-1]), b.reshape(len(b), -1)
    (m, k), n = rows.shape, columns.shape[1]
    if m == 1 or n == 1:
        y = row_times(rows[0], columns) if m == 1 else row_times(columns[:, 0], rows.T)
        return y.reshape(*a.shape[:-1], *b.shape[1:])
    turns = not columns.flags.c_contiguous and m * (k + n) < k * n
    y = in_rows(product(columns.T, rows.T).T) if turns else product(rows, columns)
    return y.reshape(*a.shape[:-1], *b.shape[1:])


def product(a: Array, b: Array) -> Array:
    """Of two matrices. Nothing is reviewed: without padding, sums that are not finite are those of the definition.

    A left factor that is turned around in memory is the weight of an input gradient, whose sums have the same order.
    """
    y, none = empty((len(a), b.shape[1]), a.dtype), np.zeros(len(a), a.dtype)
    if a.flags.c_contiguous:
        role, factor, x = FORWARD, a, b
    else:
        role, factor, x = INPUT, a.T, y
    conv, _ = grouped(ONE_CELL, x.shape, (*factor.shape, 1))
    conv.compute(role, flat(in_rows(b)), flat(factor), none, y.reshape(-1), False)
    return y


# --- matrices that are turned around -----------------------------------------------------------------------------


@kernel
def turn_around(x: Any, y: Any, sizes: Any, first: int, last: int) -> None:
    """y(r, c) = x(c, r), for some units of LINE rows of y; `sizes`: rows and columns of y, both in rows in memory."""
    rows, columns = sizes
    for row in range(first * LINE, min(rows, last * LINE), LINE):
        for column in range(0, columns, LINE):  # whole lines at once: rows a power of two apart crowd in the cache
            for r in range(row, min(rows, row + LINE), ROWS):
                for c in range(column, min(columns, column + LINE), ROWS):
                    to = Matrix(later(address(y), r * columns + c), columns)
                    source = Matrix(later(address(x), c * rows + r), rows)
                    if r + ROWS <= rows and c + ROWS <= columns:
                        turn(to, source)
                    else:
                        turn_some(to, source, min(ROWS, rows - r), min(ROWS, columns - c))


def in_rows(a: Array) -> Array:
    """A matrix whose rows lie one after the other: itself, or a copy. NumPy's copy of a turned one jumps in memory."""
    if a.flags.c_contiguous or not a.flags.f_contiguous:
        return np.ascontiguousarray(a)
    y = empty(a.shape, a.dtype)
    over(turn_around, (flat(a.T), y.reshape(-1), a.shape), -(-len(a) // LINE), a.nbytes)
    return y
