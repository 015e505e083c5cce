"""Mean of windows of three columns a cell apart, such as 3×3 with a stride of 1: rows in registers (`near_rows`).

For channels first and the geometries of `near_rows.is_near`, with the additions of `mean_rows` in the same order.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from windowgrad.kernels.pool.mean.rows import divide, sum_again
from windowgrad.kernels.pool.near_rows import combining
from windowgrad.kernels.pool.packed import rows_of, unpacked
from windowgrad.kernels.pool.row_pieces import fill, next_piece, piece_at
from windowgrad.kernels.runtime.jit import kernel
from windowgrad.kernels.vector.loops import plus
from windowgrad.kernels.vector.ops import address, alive, lanes

near = combining(plus, False)


@kernel
def mean_near(x: Any, y: Any, row_divisor: Any, col_divisor: Any, zero: Any, plan: Any, first: int, last: int) -> None:
    """The output rows `first` to `last` of all planes; sums as `zero`."""
    line, windows, _ = unpacked(plan)
    n, width, divided_by = lanes(zero), line.width, 0.0
    totals, divisors = np.zeros(width + n, zero.dtype), np.ones(width + n, zero.dtype)
    x, y, sums, by = address(x), address(y), address(totals), address(divisors)
    row_divisor, col_divisor = address(row_divisor), address(col_divisor)
    piece = piece_at(first, width, line, windows)
    for _ in range(first, last):
        rows = rows_of(windows, piece.row)
        if rows.low == rows.high:
            fill(y, piece.at, piece.at + width, 0)
        else:
            near(x, piece.base, rows, width, 0.0, sums, 0)
            if row_divisor[piece.row] != divided_by:
                divided_by = row_divisor[piece.row]
                for j in range(width):
                    by[j] = divided_by * col_divisor[j]
            if divide(sums, y, piece.at, width, by):
                sum_again(x, y, divided_by, col_divisor, piece, rows, windows, 1, sums)
        piece = next_piece(piece, width, line, windows)
    alive(totals)
    alive(divisors)
