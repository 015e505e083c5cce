"""Products of large matrices by the kernels of convolution: windows of one cell, with a channel for each term of a sum.

NumPy gives them to a BLAS that has threads of its own. Those of OpenBLAS watch for more work for 24 ms after a product, on CPUs
that the threads of our kernels then do not get: with a product at its end, ResNet-18 took 40 ms and not 21. So where a BLAS
might use threads, kernels multiply. A sum has the same bits for every number of threads, and whatever rows are beside it.
"""

from __future__ import annotations

import numpy as np

from windowgrad.geometry import Sliding
from windowgrad.kernels.arrays import flat
from windowgrad.kernels.conv.choose import grouped
from windowgrad.kernels.conv.exact import FORWARD, INPUT
from windowgrad.kernels.conv.plan import Array
from windowgrad.kernels.runtime.buffers import empty
from windowgrad.params import ConvParams

ONE_CELL = ConvParams(Sliding((1,)))


def multiplied(a: Array, b: Array) -> Array:
    """As `numpy.matmul`, of rows or a row with a matrix, or of rows with a column: not empty, all float32 or all float64.

    With a right factor that is turned around in memory, the product is computed turned around, if that copies less.
    """
    rows, columns = a.reshape(-1, a.shape[-1]), b.reshape(len(b), -1)
    (m, k), n = rows.shape, columns.shape[1]
    turns = not columns.flags.c_contiguous and m * (k + n) < k * n
    y = np.ascontiguousarray(product(columns.T, rows.T).T) if turns else product(rows, columns)
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
    conv.compute(role, flat(b), flat(factor), none, y.reshape(-1), False)
    return y
