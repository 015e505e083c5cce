"""Padding by a constant or by the cells inside, and its adjoint, on NumPy numbers.

Axis by axis. An axis is cut into runs in which the cells of the input go up, go down, or stay the same: a run is a slice of the
output and a slice of the input, so NumPy copies it, and the adjoint adds it. The adjoint adds the runs in the order of the
output, so sums have one order for every layout. A table of indices per axis was slower: each cell is then looked up by itself.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from windowgrad.dtypes import derivative_of
from windowgrad.kernels.arrays import Array
from windowgrad.params import ExtendParams


class Run(NamedTuple):
    """The outputs from `first` to before `last` see the cells start, start + step, …"""

    first: int
    last: int
    start: int
    step: int

    @property
    def cells(self) -> slice:
        """The cells in the order of the outputs; one cell if they all see the same."""
        stop = self.start + (self.step * (self.last - self.first) if self.step else 1)
        return slice(self.start, None if stop < 0 else stop, self.step or 1)


def runs(mode: str, n: int, lo: int, hi: int) -> list[Run]:
    """The runs of an axis of n cells with lo cells before and hi after it, in the order of the output."""
    if mode == "constant":
        return [Run(lo, lo + n, 0, 1)]
    if mode == "replicate" or n == 1:
        sides = Run(0, lo, 0, 0), Run(lo, lo + n, 0, 1), Run(lo + n, lo + n + hi, n - 1, 0)
        return [side for side in sides if side.first < side.last]
    width = n if mode == "circular" else n - 1  # a reflected run leaves the cell at its end to the next one
    found = []
    for block in range(-lo // width, (n + hi - 1) // width + 1):
        begin, end = max(block * width, -lo), min((block + 1) * width, n + hi)
        down = mode == "reflect" and block % 2 == 1
        inside = begin - block * width
        found.append(Run(begin + lo, end + lo, n - 1 - inside if down else inside, -1 if down else 1))
    return found


def along(axis: int, part: slice) -> tuple[slice, ...]:
    return (*(slice(None),) * axis, part)


def axes(params: ExtendParams, shape: tuple[int, ...]) -> list[tuple[int, int, int, int]]:
    """(axis, its length, cells before, cells after) of each axis that grows, for an input of `shape`."""
    lead = len(shape) - len(params.padding)
    grown = ((lead + i, shape[lead + i], lo, hi) for i, (lo, hi) in enumerate(params.padding))
    return [each for each in grown if each[2] or each[3]]


def extended(params: ExtendParams, x: Array, value: object) -> Array:
    if params.mode == "constant":
        lead = ((0, 0),) * (x.ndim - len(params.padding))
        return np.pad(x, lead + params.padding, constant_values=value)  # type: ignore[call-overload,no-any-return]
    for axis, n, lo, hi in axes(params, x.shape):
        y = np.empty((*x.shape[:axis], n + lo + hi, *x.shape[axis + 1 :]), x.dtype)
        for run in runs(params.mode, n, lo, hi):
            y[along(axis, slice(run.first, run.last))] = x[along(axis, run.cells)]
        x = y
    return x.copy() if not any(map(any, params.padding)) else x


def extend_forward(params: ExtendParams, x: Array) -> Array:
    return extended(params, x, params.machine().value)


def extend_jvp(params: ExtendParams, x: Array, dx: Array) -> Array:
    return extended(params, dx.astype(derivative_of(x.dtype, dx.dtype)), 0)


def extend_vjp(params: ExtendParams, x: Array, g: Array) -> tuple[Array]:
    dtype = derivative_of(x.dtype, g.dtype)
    g = g.astype(np.float32 if dtype.itemsize == 2 else dtype)  # half floats are summed in float32
    for axis, n, lo, hi in reversed(axes(params, x.shape)):
        gx = np.zeros((*g.shape[:axis], n, *g.shape[axis + 1 :]), g.dtype)
        for run in runs(params.mode, n, lo, hi):
            part = g[along(axis, slice(run.first, run.last))]
            if not run.step:  # one after the other: `sum` adds in an order of its own
                part = np.add.accumulate(part, axis=axis)[along(axis, slice(-1, None))]
            gx[along(axis, run.cells)] += part
        g = gx
    return (g.astype(dtype, copy=False),)
