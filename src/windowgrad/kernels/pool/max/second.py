"""Maximum of windows of two or three columns two cells apart: rows in registers (`second_rows`).

For floats with channels first, and the plans of `second_rows.is_second`. What could tell the order of comparing is looked at
again, as in `rows`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from windowgrad.kernels.pool.max.rows import has_negative_zero, look_again, max_rows
from windowgrad.kernels.pool.packed import rows_of, unpacked
from windowgrad.kernels.pool.plan import Plan
from windowgrad.kernels.pool.row_pieces import fill, next_piece, piece_at, seen_by
from windowgrad.kernels.pool.second_rows import is_second, seconding
from windowgrad.kernels.runtime.jit import unrolled_kernel
from windowgrad.kernels.vector.half import cells
from windowgrad.kernels.vector.loops import larger
from windowgrad.kernels.vector.ops import anywhere

second = seconding(larger, True)


def max_rows_for(p: Plan, dtype: Any) -> Any:
    """The kernel for windows that are not near."""
    return max_second if dtype in (np.float32, np.float64) and is_second(p) else max_rows


@unrolled_kernel
def max_second(x: Any, y: Any, least: Any, plan: Any, first: int, last: int) -> None:
    """Pieces `first` to `last` of the output rows of all planes."""
    line, windows, size = unpacked(plan)
    x, y, holes = cells(x), cells(y), False
    for j in range(line.out):
        holes |= windows.count[j] == 0
    piece = piece_at(first, size, line, windows)
    for _ in range(first, last):
        at, out, rows = piece.at, piece.high - piece.low, rows_of(windows, piece.row)
        left, right, shift = seen_by(line, piece)
        if rows.low == rows.high or left >= right:
            fill(y, at, at + out, 0)
        else:
            nan, zero = second(x, piece.base, rows, line.width, least, line.taps, -shift, out, None, y, at)
            strange = anywhere(nan)
            if strange or (anywhere(zero) and has_negative_zero(x, piece.base + left, rows, right - left)):
                look_again(x, y, piece, strange, windows)
            for j in range(out if holes else 0):
                if windows.count[piece.low + j] == 0:
                    y[at + j] = 0
        piece = next_piece(piece, size, line, windows)
