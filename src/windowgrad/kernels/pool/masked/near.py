"""Masked windows of three columns a cell apart: rows in registers, as `near_rows` combines them.

The bytes of the mask are read beside the cells, as in `fold`. A mean counts the cells that are left as it adds them, in vectors
of the same lanes, and divides before it stores, so it has no buffer either.

    sums     p v v v   v v v v   v v v w        each added from left to right, then divided
    counts   0 1 0 1   1 0 1 1   0 1 1 1
"""

from __future__ import annotations

from typing import Any

from numba import types
from numba.extending import intrinsic

from windowgrad.kernels.pool.masked.fold import choosing
from windowgrad.kernels.pool.near_rows import Vectors, Watch, emit_row, put, wide_emitter
from windowgrad.kernels.pool.packed import Rows
from windowgrad.kernels.vector.loops import Emitter, larger, plus
from windowgrad.kernels.vector.shuffle import converted
from windowgrad.kernels.vector.types import Vec, constant, first_lanes, spread


def near_tops(turned: bool) -> Any:
    """tops(x, base, mask, start, rows, width, least, y, at): y[at:at + width] = the maxima of the windows of the `Rows` of x.

    There is at least one row. Places are counted from `base` on, and in the mask from `start` on; where that is 0, a cell is
    `least`. Cells change their sign first if they are to be `turned`. Gives 1 if a NaN was seen, plus 2 if a result is a zero,
    plus 4 if one is `least`. All arrays are addresses.
    """

    @intrinsic
    def tops(typing: Any, x: Any, base: Any, mask: Any, start: Any, rows: Any, width: Any, least: Any, y: Any, at: Any) -> Any:
        def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            e, target = wide_emitter(context, builder, y.dtype), (y, args[7])
            places, low, high = (builder.extract_value(args[4], field) for field in range(len(Rows._fields)))
            seen, loser = Watch(e, 3), spread(builder, args[6], e.n)
            chosen = choosing(e, (x, *args[:2]), (mask, *args[2:4]), (rows.types[0], places), loser, turned)

            def keep(j: Any, totals: Vectors, left: Any) -> None:
                (total,) = totals
                lost = builder.fcmp_ordered("==", total, loser)
                seen.look_at_zero(total)
                seen.note(2, lost if left is None else builder.and_(lost, first_lanes(builder, e.v, left)))
                put(e, target, e.add(args[8], j), total, left)

            emit_row(e, larger, (low, high), args[5], [loser], lambda *place: [chosen(*place)[0]], seen.look, keep)
            return seen.bits()

        whole = types.intp
        return whole(x, whole, mask, whole, rows, whole, x.dtype, y, whole), emit

    return tops


@intrinsic
def near_means(
    typing: Any, x: Any, base: Any, mask: Any, start: Any, rows: Any, width: Any, zero: Any, more: Any, y: Any, at: Any
) -> Any:
    """y[at:at + width] = the sums of the windows of the `Rows` of x, as `zero`, ÷ (the cells they have left + more), or ÷ 1.

    There is at least one row. Places are counted from `base` on, and in the mask from `start` on. Gives whether a mean is not
    finite. All arrays but `zero` are addresses; `more` has room for a vector of a tile behind it.
    """

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        e, target = wide_emitter(context, builder, zero.dtype), (y, args[8])
        out = Emitter(context, builder, y.dtype)
        out.v, out.n = Vec(y.dtype, e.n), e.n
        places, low, high = (builder.extract_value(args[4], field) for field in range(len(Rows._fields)))
        seen, nothing, one = Watch(e, 1), constant(e.v, 0.0), constant(e.v, 1.0)
        chosen = choosing(e, (x, *args[:2]), (mask, *args[2:4]), (rows.types[0], places), nothing, False)

        def read(q: Any, i: Any, left: Any) -> Vectors:
            cells, kept = chosen(q, i, left)
            return [cells, builder.select(kept, one, nothing)]

        def keep(j: Any, totals: Vectors, left: Any) -> None:
            sums = builder.fadd(totals[0], nothing)  # a sum begins with 0.0: of −0.0 alone it is no −0.0
            total, count = (converted(builder, each, e.v, out.v) for each in (sums, totals[1]))
            by = builder.fadd(count, out.load((more, args[7]), j))
            empty = builder.fcmp_ordered("==", by, constant(out.v, 0.0))
            quotient = builder.fdiv(total, builder.select(empty, constant(out.v, 1.0), by))
            seen.note(0, builder.fcmp_unordered("uno", builder.fsub(quotient, quotient), constant(out.v, 0.0)))
            put(out, target, e.add(args[9], j), quotient, left)

        emit_row(e, plus, (low, high), args[5], [nothing, nothing], read, lambda a, b: None, keep)
        return seen.bits()

    whole = types.intp
    return whole(x, whole, mask, whole, rows, whole, zero, more, y, whole), emit
