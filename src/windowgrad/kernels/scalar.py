"""Pooling one cell at a time: every rule for every geometry, in the order of the meaning. The vector kernels are faster cases.

Each kernel computes the output rows `first` to `last` of all planes (`plane · outer + row`), or, where outputs add into shared
cells, whole planes. The arguments after the arrays are those of `Plan`.
"""

from __future__ import annotations

import math
from typing import Any

from windowgrad.kernels.jit import helper, kernel


@helper
def beats(value: Any, best: Any) -> Any:
    """The order of maximum: NaN before every number, and a tie beats nobody."""
    return value > best or (value != value and best == best)


@helper
def winner(x: Any, base: int, row: int, ptr: Any, rows: Any, start: int, count: int, step: int) -> int:
    """The place in the plane of the first greatest cell of one window, −1 if it has none."""
    best = -1
    for q in range(ptr[row], ptr[row + 1]):
        cell = rows[q] + start
        for _ in range(count):
            if best < 0 or beats(x[base + cell], x[base + best]):
                best = cell
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
    x: Any, y: Any, row_divisor: float, col_divisor: Any, line: int, low: int, high: int,
    outer: int, plane: int, ptr: Any, rows: Any, start: Any, count: Any, step: int,
) -> None:  # fmt: skip
    """The outputs `low` to `high` of one row, each summed in float64 and divided once."""
    base, row = line // outer * plane, line % outer
    for j in range(low, high):
        total = 0.0
        for q in range(ptr[row], ptr[row + 1]):
            for t in range(count[j]):
                total += x[base + rows[q] + start[j] + t * step]
        y[line * len(start) + j] = total / (row_divisor * col_divisor[j])


# --- log-sum-exp -------------------------------------------------------------------------------------------------


@helper
def gap(value: Any, top: Any) -> Any:
    return 0.0 if value == top else value - top


@helper
def weigh(
    x: Any, beta: float, padded: float, base: int, row: int, ptr: Any, rows: Any, start: int, count: int, step: int
) -> Any:
    """(top, total): the cell that weighs most, padded zeros too, and Σ exp(β·(x − top))."""
    top, any_cell = 0.0, padded > 0
    for q in range(ptr[row], ptr[row + 1]):
        for t in range(count):
            value = float(x[base + rows[q] + start + t * step])
            if not any_cell or (value != value and top == top) or (value > top if beta > 0 else value < top):
                top, any_cell = value, True
    total = padded * math.exp(beta * gap(0.0, top)) if padded > 0 else 0.0
    for q in range(ptr[row], ptr[row + 1]):
        for t in range(count):
            total += math.exp(beta * gap(float(x[base + rows[q] + start + t * step]), top))
    return top, total


@kernel
def smooth(
    x: Any, y: Any, beta: float, row_padded: Any, col_padded: Any, first: int, last: int,
    outer: int, plane: int, ptr: Any, rows: Any, start: Any, count: Any, step: int,
) -> None:  # fmt: skip
    out = len(start)
    for job in range(first, last):
        base, row = job // outer * plane, job % outer
        for j in range(out):
            padded = row_padded[row] * col_padded[j] - (ptr[row + 1] - ptr[row]) * count[j]
            top, total = weigh(x, beta, padded, base, row, ptr, rows, start[j], count[j], step)
            y[job * out + j] = top + math.log(total) / beta if total != 0 else 0.0


@kernel
def smooth_sums(
    x: Any, dx: Any, y: Any, beta: float, row_padded: Any, col_padded: Any, first: int, last: int,
    outer: int, plane: int, ptr: Any, rows: Any, start: Any, count: Any, step: int,
) -> None:  # fmt: skip
    """The sum of the tangents by softmax(β·x)."""
    out = len(start)
    for job in range(first, last):
        base, row = job // outer * plane, job % outer
        for j in range(out):
            padded = row_padded[row] * col_padded[j] - (ptr[row + 1] - ptr[row]) * count[j]
            top, total = weigh(x, beta, padded, base, row, ptr, rows, start[j], count[j], step)
            tangent = 0.0
            for q in range(ptr[row], ptr[row + 1]):
                for t in range(count[j]):
                    cell = base + rows[q] + start[j] + t * step
                    tangent += math.exp(beta * gap(float(x[cell]), top)) * dx[cell]
            y[job * out + j] = tangent / total if total != 0 else 0.0


@kernel
def smooth_spread(
    x: Any, g: Any, gx: Any, beta: float, row_padded: Any, col_padded: Any, first: int, last: int,
    outer: int, plane: int, ptr: Any, rows: Any, start: Any, count: Any, step: int,
) -> None:  # fmt: skip
    """Each gradient to its cells by softmax(β·x); planes `first` to `last`, gx is new."""
    out = len(start)
    for p in range(first, last):
        base = p * plane
        gx[base : base + plane] = 0
        for row in range(outer):
            for j in range(out):
                padded = row_padded[row] * col_padded[j] - (ptr[row + 1] - ptr[row]) * count[j]
                top, total = weigh(x, beta, padded, base, row, ptr, rows, start[j], count[j], step)
                for q in range(ptr[row], ptr[row + 1]):
                    for t in range(count[j]):
                        cell = base + rows[q] + start[j] + t * step
                        gx[cell] += math.exp(beta * gap(float(x[cell]), top)) * g[(p * outer + row) * out + j] / total
