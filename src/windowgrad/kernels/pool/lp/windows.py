"""The p-norm window by window, each divided by its own greatest magnitude, as the specification has it.

For planes with cells that are not finite, or whose magnitudes lie too far apart for one scale (`cells.judge`). A cell is raised
to a power once for each window that sees it, which takes several times as long as one power for all of them.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from windowgrad.kernels.pool.packed import unpacked
from windowgrad.kernels.runtime.jit import helper, kernel


class Norm(NamedTuple):
    """The greatest magnitude of a window, and its norm divided by it."""

    top: float
    norm: float


@helper
def ratio(value: float, top: float) -> Any:
    size = abs(value)
    return 1.0 if size == top else size / top  # infinities too


@helper
def measured(x: Any, windows: Any, row: int, j: int, p: float) -> Any:
    top = 0.0
    for q in range(windows.ptr[row], windows.ptr[row + 1]):
        for t in range(windows.count[j]):
            size = abs(np.float64(x[windows.places[q] + windows.start[j] + t * windows.step]))
            if size > top or size != size:
                top = size
            if top != top:
                return Norm(top, top)
    if top == 0.0:
        return Norm(0.0, 0.0)
    total = 0.0
    for q in range(windows.ptr[row], windows.ptr[row + 1]):
        for t in range(windows.count[j]):
            total += ratio(np.float64(x[windows.places[q] + windows.start[j] + t * windows.step]), top) ** p
    return Norm(top, np.sqrt(total) if p == 2.0 else total ** (1.0 / p))


@helper
def weight(value: float, by: Any, p: float) -> Any:
    """sign(x)·(|x|/y)^(p−1), 0 of a window of zeros."""
    if by.top == 0.0:
        return 0.0
    return np.sign(value) * (ratio(value, by.top) / by.norm) ** (p - 1.0)


@kernel
def window_norms(x: Any, y: Any, p: float, plan: Any) -> None:
    """y = the norms of one plane."""
    line, windows, _ = unpacked(plan)
    for row in range(windows.rows):
        for j in range(line.out):
            found = measured(x, windows, row, j, p)
            y[row * line.out + j] = found.top * found.norm


@kernel
def window_tangents(x: Any, dx: Any, y: Any, p: float, plan: Any) -> None:
    """y = the tangents of one plane."""
    line, windows, _ = unpacked(plan)
    for row in range(windows.rows):
        for j in range(line.out):
            by, total = measured(x, windows, row, j, p), 0.0
            for q in range(windows.ptr[row], windows.ptr[row + 1]):
                for t in range(windows.count[j]):
                    cell = windows.places[q] + windows.start[j] + t * windows.step
                    total += weight(np.float64(x[cell]), by, p) * dx[cell]
            y[row * line.out + j] = total


@kernel
def window_gradients(x: Any, g: Any, gx: Any, p: float, plan: Any) -> None:
    """gx = the gradients of one plane; summed in float64, as the other sums are."""
    line, windows, _ = unpacked(plan)
    sums = np.zeros(len(gx))
    for row in range(windows.rows):
        for j in range(line.out):
            by, given = measured(x, windows, row, j, p), np.float64(g[row * line.out + j])
            for q in range(windows.ptr[row], windows.ptr[row + 1]):
                for t in range(windows.count[j]):
                    cell = windows.places[q] + windows.start[j] + t * windows.step
                    sums[cell] += weight(np.float64(x[cell]), by, p) * given
    gx[:] = sums
