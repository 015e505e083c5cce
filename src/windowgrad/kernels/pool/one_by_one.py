"""Pooling one cell at a time: every rule for every geometry, in the order of the meaning. The vector kernels are faster cases.

Each kernel computes the output rows `first` to `last` of all planes (`plane · outer + row`), or, where outputs add into shared
cells, whole planes. The arguments after the arrays are those of `Plan`.
"""

from __future__ import annotations

from typing import Any

from windowgrad.kernels.runtime.jit import helper, kernel


@helper
def beats(value: Any, best: Any) -> Any:
    """The order of maximum: NaN before every number, and a tie beats nobody."""
    return value > best or (value != value and best == best)


@helper
def winner(x: Any, base: int, row: int, ptr: Any, rows: Any, start: int, count: int, step: int) -> Any:
    """The place in the plane of the first greatest cell of one window, −1 if it has none."""
    best = -1
    for q in range(ptr[row], ptr[row + 1]):
        cell = rows[q] + start
        for _ in range(count):
            if best < 0 or beats(x[base + cell], x[base + best]):
                best = cell
                if x[base + cell] != x[base + cell]:  # nothing beats the first NaN
                    return best
            cell += step
    return best


@kernel
def take(x: Any, found: Any, y: Any, first: int, last: int, outputs: int, plane: int) -> None:
    """y = x at the found cells of planes `first` to `last`, 0 where there is none."""
    for p in range(first, last):
        for o in range(p * outputs, (p + 1) * outputs):
            y[o] = 0  # not in one expression with x: Numba takes a 64-bit unsigned integer or 0 for a float
            if found[o] >= 0:
                y[o] = x[p * plane + found[o]]


# --- mean --------------------------------------------------------------------------------------------------------


@helper
def wide_means(
    x: Any, y: Any, row_divisor: float, col_divisor: Any, at: int, low: int, high: int, base: int, row: int,
    ptr: Any, rows: Any, start: Any, count: Any, step: int, line: Any,
) -> None:  # fmt: skip
    """y[at:] = those of the outputs `low` to `high` of one row whose sum in `line` is not finite: in float64, divided once.

    A window is summed again by what it sees itself, and not because of its neighbours.
    """
    for j in range(low, high):
        if line[j - low] - line[j - low] == 0:
            continue
        total = 0.0
        for q in range(ptr[row], ptr[row + 1]):
            for t in range(count[j]):
                total += x[base + rows[q] + start[j] + t * step]
        y[at + j - low] = total / (row_divisor * col_divisor[j])
