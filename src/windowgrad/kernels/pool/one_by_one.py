"""Maximum one cell at a time, in the order of the meaning: what the vector kernels fall back to.

A row of windows that sees a NaN, or zeros of both signs, is decided here, window by window; and where winners are known, `take`
reads the cells at their places.
"""

from __future__ import annotations

from typing import Any

from windowgrad.kernels.runtime.jit import helper, kernel


@helper
def beats(value: Any, best: Any) -> Any:
    """The order of maximum: NaN before every number, and a tie beats nobody."""
    return value > best or (value != value and best == best)


@helper
def winner(x: Any, base: int, windows: Any, row: int, j: int) -> Any:
    """The place in the plane of the first greatest cell that output j of a row sees, −1 if it sees none."""
    best = -1
    for q in range(windows.ptr[row], windows.ptr[row + 1]):
        cell = windows.places[q] + windows.start[j]
        for _ in range(windows.count[j]):
            if best < 0 or beats(x[base + cell], x[base + best]):
                best = cell
                if x[base + cell] != x[base + cell]:  # nothing beats the first NaN
                    return best
            cell += windows.step
    return best


@kernel
def take(x: Any, found: Any, y: Any, first: int, last: int, outputs: int, plane: int) -> None:
    """y = x at the found cells of planes `first` to `last`, 0 where there is none."""
    for p in range(first, last):
        for o in range(p * outputs, (p + 1) * outputs):
            y[o] = 0  # not in one expression with x: Numba takes a 64-bit unsigned integer or 0 for a float
            if found[o] >= 0:
                y[o] = x[p * plane + found[o]]
