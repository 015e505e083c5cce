"""Cells let through where another array is positive: relu and its derivative, on several threads, into memory used before."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from windowgrad.kernels.arrays import writeable
from windowgrad.kernels.runtime import buffers
from windowgrad.kernels.runtime.jit import kernel
from windowgrad.kernels.runtime.threads import run
from windowgrad.kernels.vector.ops import address, beats, lanes, load, load_part, select, splat, store, store_part

Array = np.ndarray[Any, Any]

FLOATS = frozenset({np.dtype(np.float32), np.dtype(np.float64)})


@kernel
def gate_cells(x: Any, values: Any, out: Any, first: int, last: int) -> None:
    """out = values where x is greater than 0 or NaN, else 0, for a share of the cells."""
    n, i, nought = lanes(x), first, splat(x, 0)
    signs, cells, target = address(x), address(values), address(out)
    while i + n <= last:
        store(target, i, select(beats(load(signs, i), nought), load(cells, i), nought))
        i += n
    if i < last:
        rest = last - i
        mask = beats(load_part(signs, i, rest, nought), nought)
        store_part(target, i, select(mask, load_part(cells, i, rest, nought), nought), rest)


def fits(x: Array, values: Array) -> bool:
    """Whether the kernel is for arrays like these."""
    same = x.dtype == values.dtype and x.shape == values.shape
    return same and x.dtype in FLOATS and x.flags.c_contiguous and values.flags.c_contiguous


def gated(x: Array, values: Array) -> Array:
    """`values` where x is greater than 0 or NaN, else 0."""
    out = buffers.empty(x.shape, x.dtype)
    arrays = (writeable(x.reshape(-1)), writeable(values.reshape(-1)), out.reshape(-1))
    run(partial(gate_cells, *arrays), x.size, 3 * x.nbytes)
    return out
