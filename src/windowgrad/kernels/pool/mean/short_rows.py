"""Mean of planes of short rows: a whole plane, column by column of vectors (`pool/short_rows`).

For channels first, arrays and sums of one dtype, and the windows of `has_short_means`, with the additions of `mean_rows` in the
same order: the rows of a window column by column, then along the row. Sums are divided while they are in registers. Divisors
stand in a table, where rows of the output that follow each other share a row if they have one divisor.

Measured on one thread, 64 planes of float32: 2×2 and 3×3 windows on 16×16 to 64×64 cells take 0.25 to 0.7 of the time of
`rows` and `second`, on 96 columns 0.8 to 0.9; near windows of float32 0.65 to 0.95 of that of `near` up to 56
columns, of float64 1.1 to 1.3 times as long; where vectors are filled, 0.5 to 1.0 of that of `lanes`. Loops that LLVM may
unroll took 1.1 times as long. Tried: to multiply where the divisor is a power of two takes 0.75 of the time for 2×2 windows
with a stride of 1 on up to 32 columns, and as long for all others.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types
from numba.extending import intrinsic

from windowgrad.kernels.pool.fold_rows import ahead_of
from windowgrad.kernels.pool.mean.rows import sum_again
from windowgrad.kernels.pool.near_rows import Watch, is_near, put, wide_emitter
from windowgrad.kernels.pool.packed import rows_of, unpacked
from windowgrad.kernels.pool.plan import Plan
from windowgrad.kernels.pool.row_pieces import Piece
from windowgrad.kernels.pool.short_rows import crossing, emit_windows, fills_vectors, is_short, room_for_rows
from windowgrad.kernels.runtime.jit import helper, kernel
from windowgrad.kernels.vector.loops import plus
from windowgrad.kernels.vector.ops import address, alive, later
from windowgrad.kernels.vector.registers import wide_lanes
from windowgrad.kernels.vector.types import constant, first_lanes

NEXT, NEAR, SECOND = 384, 224, 384
"""The most bytes of a row for windows one cell apart, those of float32 among them that `near` does, and two cells apart."""

WIDTH, TAPS = 14, 3
"""The least cells of a row, and the most columns of a window, of planes that are faster so than several at once."""


def has_short_means(p: Plan, dtype: Any) -> bool:
    """Whether planes are faster as a whole than row by row."""
    if is_near(p):
        return dtype == np.float32 and is_short(p, dtype, NEAR)
    return is_short(p, dtype, SECOND if p.stride == 2 else NEXT)


def beats_lanes(p: Plan, dtype: Any) -> bool:
    """Whether planes of short rows are faster so than several at once: windows have few columns, and vectors are filled."""
    return p.kernel <= TAPS and p.width >= WIDTH and fills_vectors(p.width, dtype)


sums_across = crossing(plus, False)


def averaging(stride: int) -> Any:
    """means_along(sums, pitch, rows, taps, step, by, starts, y, out): the windows along rows, `stride` cells apart, divided.

    Those of row r by the numbers from by[starts[r]] on, which have room for a vector more. Gives whether a sum is not finite.
    """

    @intrinsic
    def means_along(
        typing: Any, sums: Any, pitch: Any, rows: Any, taps: Any, step: Any, by: Any, starts: Any, y: Any, out: Any
    ) -> Any:
        def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            e, target = wide_emitter(context, builder, y.dtype), (y, args[7])
            seen, zero = Watch(e, 1), constant(e.v, 0.0)

            def keep(r: Any, j: Any, result: Any, left: Any) -> None:
                total = builder.fadd(result, zero)  # a sum begins with 0.0: of −0.0 alone it is no −0.0
                strange = builder.fcmp_unordered("uno", builder.fsub(total, total), zero)
                seen.note(0, strange if left is None else builder.and_(strange, first_lanes(builder, e.v, left)))
                divisor = e.load((by, args[5]), e.add(e.cell((starts, args[6]), r), j))
                put(e, target, e.add(e.mul(r, args[8]), j), builder.fdiv(total, divisor), left)

            emit_windows(e, plus, stride, (sums, args[0]), (*args[1:5], args[8]), keep)
            return seen.bits()

        whole = types.intp
        return whole(sums, whole, whole, whole, whole, by, starts, y, whole), emit

    return means_along


side_by_side, each_second = averaging(1), averaging(2)


@helper
def room_for_divisors(row_divisor: Any, col_divisor: Any, rows: int, out: int, n: int, x: Any) -> Any:
    """(the table of divisors, where the divisors of each row of the output begin in it)."""
    starts, used = np.zeros(rows, np.int64), 1
    for r in range(1, rows):
        used += row_divisor[r] != row_divisor[r - 1]
    by, start = np.ones(used * out + n, x.dtype), 0
    for r in range(rows):
        if r > 0 and row_divisor[r] != row_divisor[r - 1]:
            start += out
        starts[r] = start
        if r == 0 or start != starts[r - 1]:
            for j in range(out):
                by[start + j] = row_divisor[r] * col_divisor[j]
    return by, starts


@kernel
def mean_short(x: Any, y: Any, row_divisor: Any, col_divisor: Any, plan: Any, first: int, last: int) -> None:
    """The planes `first` to `last`."""
    line, windows, _ = unpacked(plan)
    n, rows, out = wide_lanes(x), windows.rows, line.out
    space, buffer, pitch, some = room_for_rows(line, windows, n, 0, x)
    divisors, starts = room_for_divisors(row_divisor, col_divisor, rows, out, n, x)
    ahead = ahead_of(x, line, windows)
    x, y, row_divisor, col_divisor = address(x), address(y), address(row_divisor), address(col_divisor)
    by, begins = address(divisors), address(starts)
    for p in range(first, last):
        base, strange = p * windows.plane, 0
        for r in range(0, rows, some):
            many, at = min(some, rows - r), (p * rows + r) * out
            ptr, begin = later(windows.ptr, r), later(begins, r)
            sums_across(x, base, ptr, windows.places, many, line.width, 0.0, later(buffer, line.before), pitch, ahead)
            if line.stride == 1:
                strange |= side_by_side(buffer, pitch, many, line.taps, line.step, by, begin, later(y, at), out)
            else:
                strange |= each_second(buffer, pitch, many, line.taps, line.step, by, begin, later(y, at), out)
        if strange != 0:  # divisors are finite and at least 1: a mean is finite exactly where its sum is
            for r in range(rows):
                piece, seen = Piece((p * rows + r) * out, 0, out, r, base), rows_of(windows, r)
                sum_again(x, y, row_divisor[r], col_divisor, piece, seen, windows, 1, later(y, piece.at))
    alive(space)
    alive(divisors)
    alive(starts)
