"""Maximum of windows of three columns a cell apart, such as 3×3 with a stride of 1: rows in registers (`near_rows`).

For floats with channels first, and the geometries of `near_rows.is_near`. What could tell the order of comparing is looked at
again, as in `rows`.
"""

from __future__ import annotations

from typing import Any

from windowgrad.kernels.pool.max.rows import has_negative_zero, look_again
from windowgrad.kernels.pool.near_rows import combining
from windowgrad.kernels.pool.packed import rows_of, unpacked
from windowgrad.kernels.pool.row_pieces import fill, next_piece, piece_at
from windowgrad.kernels.runtime.jit import unrolled_kernel
from windowgrad.kernels.vector.half import cells
from windowgrad.kernels.vector.loops import larger

near = combining(larger, True)


@unrolled_kernel
def max_near(x: Any, y: Any, least: Any, plan: Any, first: int, last: int) -> None:
    """The output rows `first` to `last` of all planes."""
    line, windows, _ = unpacked(plan)
    x, y, width = cells(x), cells(y), line.width
    piece = piece_at(first, width, line, windows)
    for _ in range(first, last):
        rows = rows_of(windows, piece.row)
        if rows.low == rows.high:
            fill(y, piece.at, piece.at + width, 0)
        else:
            seen = near(x, piece.base, rows, width, least, y, piece.at)
            strange = seen & 1 != 0
            if strange or (seen != 0 and has_negative_zero(x, piece.base, rows, width)):
                look_again(x, y, piece, strange, windows)
        piece = next_piece(piece, width, line, windows)
