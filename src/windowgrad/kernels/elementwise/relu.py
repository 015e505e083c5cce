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


@kernel
def finish_cells(y: Any, beside: Any, rectifies: bool, top: float, first: int, last: int) -> None:
    """y += beside (if there is one), then at least 0 (if it `rectifies`) and at most `top`, in place. NaN stays.

    What ends a layer of a compiled network, in one pass.
    """
    n, i, nought, most = lanes(y), first, splat(y, 0), splat(y, top)
    cells, others, adds = address(y), address(beside), len(beside) > 0
    while i < last:
        rest = min(n, last - i)
        v = load(cells, i) if rest == n else load_part(cells, i, rest, nought)
        if adds:
            v = v + (load(others, i) if rest == n else load_part(others, i, rest, nought))
        if rectifies:
            v = select(beats(v, nought), v, nought)
            v = select(v > most, most, v)
        if rest == n:
            store(cells, i, v)
        else:
            store_part(cells, i, v, rest)
        i += n


def fits(x: Array, values: Array) -> bool:
    """Whether the kernel is for arrays like these."""
    same = x.dtype == values.dtype and x.shape == values.shape
    return same and x.dtype in FLOATS and x.flags.c_contiguous and values.flags.c_contiguous


def finish(y: Array, beside: Array | None, rectifies: bool, top: float) -> None:
    """The end of a layer in the memory of its output: `finish_cells`. Both arrays are contiguous, of one dtype."""
    other = y.reshape(-1)[:0] if beside is None else writeable(beside.reshape(-1))
    run(partial(finish_cells, y.reshape(-1), other, rectifies, top), y.size, (2 if beside is None else 3) * y.nbytes)


def gated(x: Array, values: Array) -> Array:
    """`values` where x is greater than 0 or NaN, else 0."""
    out = buffers.empty(x.shape, x.dtype)
    arrays = (writeable(x.reshape(-1)), writeable(values.reshape(-1)), out.reshape(-1))
    run(partial(gate_cells, *arrays), x.size, 3 * x.nbytes)
    return out
