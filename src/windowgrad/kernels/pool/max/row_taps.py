"""Maximum of a few taps along a single row, a cell apart: such as 2 or 5 columns of a signal, or 1×3 windows of an image.

For windows of 2 to DIRECT taps with a stride of 1, of which each sees one row (`sees_one_row`), of floats in rows of LEAST
outputs or more. A row is read where it stands, once for each tap:

    cells      c c c c c c c c c …
    output j   the greatest of the cells j, j + step, j + 2·step, …        a vector of outputs at a time

Every cell but the last few is the first tap of some window, and the greatest of NaN and what comes behind it is NaN, so a row
with NaN is seen in its results. Windows that reach into the padding are computed one by one, in the order of the meaning, and
so is a row in which that order could tell.

Measured, two threads, in times of `rows`, which copies a row into a buffer: 2 taps on 3×96×4096 0.39, on 1×64×65536 0.42; on
1×16×65536 3 and 5 taps 0.43, 7 taps 0.57; 1×2 windows on 8×16×64×128 0.44. In times of `near`: 3 taps on rows of 1000 cells
0.87, on rows of 300 1.07, on rows of 128 1.27.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types
from numba.extending import intrinsic

from windowgrad.kernels.pool.max.rows import has_negative_zero, look_again
from windowgrad.kernels.pool.near_rows import Watch, is_near, wide_emitter
from windowgrad.kernels.pool.packed import rows_of, unpacked
from windowgrad.kernels.pool.plan import Plan
from windowgrad.kernels.pool.row_pieces import Piece, next_piece, piece_at
from windowgrad.kernels.pool.window_spans import DIRECT
from windowgrad.kernels.runtime.jit import unrolled_kernel
from windowgrad.kernels.vector.half import cells
from windowgrad.kernels.vector.loops import larger
from windowgrad.kernels.vector.types import constant, first_lanes

COMMON = (2, 3, 5)
"""Numbers of taps that have a loop of their own."""

LEAST, LEAST_NEAR = 64, 512
"""The fewest outputs of a row, and those where `near` could take it, which has no windows one by one at its ends."""


def sees_one_row(p: Plan) -> bool:
    """Whether each window is a row of cells, or a part of one."""
    return bool((p.row_cells == 1).all())


def takes_taps(p: Plan, dtype: Any) -> bool:
    """Whether the windows of a plan are taken here, where channels come first."""
    few = 2 <= p.kernel <= DIRECT and p.stride == 1 and p.out >= (LEAST_NEAR if is_near(p) else LEAST)
    return few and dtype in (np.float32, np.float64) and sees_one_row(p)


@intrinsic
def tops_of_taps(typing: Any, x: Any, at: Any, taps: Any, step: Any, y: Any, to: Any, out: Any) -> Any:
    """y[to:to + out] = the windows from `at` on, a cell apart. Gives 1 if one is NaN, plus 2 if one is a zero."""

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        e = wide_emitter(context, builder, y.dtype)
        source, (at, taps, step), target, (to, out) = (x, args[0]), args[1:4], (y, args[4]), args[5:]
        seen = Watch(e, 2)

        def keep(j: Any, total: Any, left: Any) -> None:
            seen.look(total, total)
            if left is None:
                seen.look_at_zero(total)
                e.store(target, e.add(to, j), total)
            else:
                zero = builder.fcmp_ordered("==", total, constant(e.v, 0))
                seen.note(1, builder.and_(zero, first_lanes(builder, e.v, left)))
                e.store_first(target, e.add(to, j), total, left)

        def window(j: Any, number: int | None, left: Any) -> None:
            def cell(i: Any) -> Any:
                return e.load(source, i) if left is None else e.load_first(source, i, left)

            begin = e.add(at, j)
            total = cell(begin)
            for tap in range(1, number or 1):
                total = larger(e, total, cell(e.add(begin, e.mul(step, tap))))
            if number is None:
                place = e.variable(total)
                with e.steps(e.add(begin, step), e.add(begin, e.mul(step, taps)), step) as k:
                    builder.store(larger(e, builder.load(place), cell(k)), place)
                total = builder.load(place)
            keep(j, total, left)

        def sweep(number: int | None) -> None:
            with e.steps(e.int(0), e.add(out, 1 - e.n), e.int(e.n)) as j:
                window(j, number, None)

        e.by_number(taps, COMMON, sweep, lambda: sweep(None))
        left = builder.and_(out, e.int(e.n - 1))
        with builder.if_then(e.less(e.int(0), left)):
            window(builder.sub(out, left), None, left)
        return seen.bits()

    whole = types.intp
    return whole(x, whole, whole, whole, y, whole, whole), emit


@unrolled_kernel
def max_row_taps(x: Any, y: Any, plan: Any, first: int, last: int) -> None:
    """Pieces `first` to `last` of the output rows of all planes."""
    line, windows, size = unpacked(plan)
    before, reach = line.before, (line.taps - 1) * line.step
    x, y = cells(x), cells(y)
    piece = piece_at(first, size, line, windows)
    for _ in range(first, last):
        rows = rows_of(windows, piece.row)
        low = max(piece.low, min(before, piece.high))  # from here on windows begin in the row, and up to `high` they end in it
        high = max(low, min(piece.high, line.width + before - reach))
        at, strange, zero = piece.at - piece.low, False, False
        if low < high:
            begin = low - before
            row = piece.base + rows.places[rows.low]
            seen = tops_of_taps(x, row + begin, line.taps, line.step, y, at + low, high - low)
            strange, zero = seen & 1 != 0, seen & 2 != 0
            for c in range(high - before, high - before + reach):  # the first taps of no window here
                strange |= x[row + c] != x[row + c]
            if strange or (zero and has_negative_zero(x, piece.base + begin, rows, high - low + reach)):
                look_again(x, y, Piece(at + low, low, high, piece.row, piece.base), strange, windows)
        look_again(x, y, Piece(piece.at, piece.low, low, piece.row, piece.base), True, windows)
        look_again(x, y, Piece(at + high, high, piece.high, piece.row, piece.base), True, windows)
        piece = next_piece(piece, size, line, windows)
