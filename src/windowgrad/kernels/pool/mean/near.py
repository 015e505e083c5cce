"""Mean of windows of three columns a cell apart, such as 3×3 with a stride of 1: rows in registers (`near_rows`).

For channels first and the geometries of `near_rows.is_near`, with the additions of `mean_rows` in the same order. Sums are
divided while they are in registers, so the CPU divides while it adds up the next: with a loop of its own for the division, 64
planes of 56×56 took 1.1 times as long. Tried in that loop: three multiply-adds with the inverse, which give the same bits
(Markstein's theorem) but must look for very small sums; they were no faster.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types
from numba.extending import intrinsic

from windowgrad.kernels.pool.mean.rows import sum_again
from windowgrad.kernels.pool.near_rows import Vectors, Watch, emit_row, put, reading, wide_emitter
from windowgrad.kernels.pool.packed import Rows, rows_of, unpacked
from windowgrad.kernels.pool.row_pieces import fill, next_piece, piece_at
from windowgrad.kernels.runtime.jit import kernel
from windowgrad.kernels.vector.half import cells
from windowgrad.kernels.vector.loops import plus
from windowgrad.kernels.vector.ops import address, alive
from windowgrad.kernels.vector.registers import wide_lanes
from windowgrad.kernels.vector.types import Vec, constant

INT = types.intp


@intrinsic
def near_means(typing: Any, x: Any, base: Any, rows: Any, width: Any, by: Any, sums: Any, y: Any, at: Any) -> Any:
    """sums[:width] = the windows of the `Rows` of x, y[at:] = these ÷ by; gives whether a sum is not finite.

    There is at least one row. Places are counted from `base` on. Arrays are addresses; `by` has room for a vector of a tile.
    """

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        e = wide_emitter(context, builder, sums.dtype)
        places, low, high = (builder.extract_value(args[2], field) for field in range(len(Rows._fields)))
        seen, zero = Watch(e, 1), constant(e.v, 0.0)

        def keep(j: Any, totals: Vectors, left: Any) -> None:
            total = builder.fadd(totals[0], zero)  # a sum begins with 0.0: of −0.0 alone it is no −0.0
            seen.note(0, builder.fcmp_unordered("uno", builder.fsub(total, total), zero))
            put(e, (sums, args[5]), j, total, left)
            put(e, (y, args[6]), e.add(args[7], j), builder.fdiv(total, e.load((by, args[4]), j)), left)

        read = reading(e, (x, args[0]), args[1], (rows.types[0], places), constant(Vec(x.dtype, e.n), 0))
        emit_row(e, plus, (low, high), args[3], [zero], read, lambda a, b: None, keep)
        return seen.bits()

    return INT(x, INT, rows, INT, by, sums, y, INT), emit


@kernel
def mean_near(x: Any, y: Any, row_divisor: Any, col_divisor: Any, zero: Any, plan: Any, first: int, last: int) -> None:
    """The output rows `first` to `last` of all planes; sums as `zero`."""
    line, windows, _ = unpacked(plan)
    n, width, divided_by = wide_lanes(zero), line.width, 0.0
    totals, divisors = np.zeros(width + n, zero.dtype), np.ones(width + n, zero.dtype)
    x, y, sums, by = cells(x), cells(y), address(totals), address(divisors)
    row_divisor, col_divisor = address(row_divisor), address(col_divisor)
    piece = piece_at(first, width, line, windows)
    for _ in range(first, last):
        rows = rows_of(windows, piece.row)
        if rows.low == rows.high:
            fill(y, piece.at, piece.at + width, 0)
        else:
            if row_divisor[piece.row] != divided_by:
                divided_by = row_divisor[piece.row]
                for j in range(width):
                    by[j] = divided_by * col_divisor[j]
            if near_means(x, piece.base, rows, width, by, sums, y, piece.at):
                sum_again(x, y, divided_by, col_divisor, piece, rows, windows, 1, sums)
        piece = next_piece(piece, width, line, windows)
    alive(totals)
    alive(divisors)
