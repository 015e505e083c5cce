"""Mean of windows of two or three columns two cells apart: rows in registers, divided there (`second_rows`).

For channels first, arrays and sums of one dtype, and the plans of `second_rows.is_second`, with the additions of `mean_rows`
in the same order.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from windowgrad.kernels.pool.mean.rows import mean_rows_for, sum_again
from windowgrad.kernels.pool.packed import rows_of, unpacked
from windowgrad.kernels.pool.plan import Array, Plan
from windowgrad.kernels.pool.row_pieces import fill, next_piece, piece_at, seen_by, span
from windowgrad.kernels.pool.second_rows import is_second, seconding
from windowgrad.kernels.runtime.jit import kernel
from windowgrad.kernels.vector.half import cells
from windowgrad.kernels.vector.loops import plus
from windowgrad.kernels.vector.ops import address, alive, anywhere, later
from windowgrad.kernels.vector.registers import wide_lanes

second = seconding(plus, False)


def mean_sums_for(p: Plan, zero: Array) -> Any:
    """The kernel for windows that are not near, whose sums are as `zero`: float32 only where both arrays are, too."""
    return mean_second if zero.dtype == np.float32 and is_second(p) else mean_rows_for(p)


@kernel
def mean_second(x: Any, y: Any, row_divisor: Any, col_divisor: Any, zero: Any, plan: Any, first: int, last: int) -> None:
    """Pieces `first` to `last` of the output rows of all planes; sums as `zero`, as x and y are in registers."""
    line, windows, size = unpacked(plan)
    divisors, divided_by, divided_from = np.ones(size + wide_lanes(zero), zero.dtype), 0.0, 0
    x, y, by, row_divisor, col_divisor = cells(x), cells(y), address(divisors), address(row_divisor), address(col_divisor)
    piece = piece_at(first, size, line, windows)
    for _ in range(first, last):
        at, out, rows = piece.at, piece.high - piece.low, rows_of(windows, piece.row)
        left, right, shift = seen_by(line, piece)
        if rows.low == rows.high or left >= right:
            fill(y, at, at + out, 0)
        else:
            whole = shift <= 0 and span(line, out) - shift <= line.width  # no window reaches into the padding: one divisor
            begin = -1 if whole else piece.low
            if row_divisor[piece.row] != divided_by or begin != divided_from:
                divided_by, divided_from = row_divisor[piece.row], begin
                if whole:
                    fill(by, 0, size, divided_by * col_divisor[piece.low])
                for j in range(0 if whole else out):
                    by[j] = divided_by * col_divisor[piece.low + j]
            strange, _ = second(x, piece.base, rows, line.width, 0.0, line.taps, -shift, out, by, y, at)
            if anywhere(strange):  # divisors are finite and at least 1: a mean is finite exactly where its sum is
                sum_again(x, y, divided_by, col_divisor, piece, rows, windows, 1, later(y, at))
        piece = next_piece(piece, size, line, windows)
    alive(divisors)
