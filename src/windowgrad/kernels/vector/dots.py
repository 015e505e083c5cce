"""Sums of products along rows: tiles of up to ROWS × VECTORS pairs of rows, each with a vector of sums in registers.

        b: 1 to VECTORS rows      cells →
             ┌──────────────────────────┐      for every vector of cells, each row of a meets each row of b; nothing is
             └──────────────────────────┘      turned around, and no lane is wasted however few rows there are
        a: up to ROWS rows
             ┌──────────────────────────┐      the sums of a pair are a vector; `vector/tiles.py: lane_sum` makes it a
             │                          │      number when all cells are done
             └──────────────────────────┘

Convolution uses it for weight gradients of few channels (conv/gemm/few.py), where the tiles of `vector/tiles.py`, whose columns
are lanes, would be mostly empty.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from numba import types
from numba.extending import intrinsic

from windowgrad.kernels.runtime.jit import helper
from windowgrad.kernels.vector.loops import Emitter
from windowgrad.kernels.vector.masked import INDEX, read_masked, stay_one, write
from windowgrad.kernels.vector.registers import ROWS, VECTORS, wide
from windowgrad.kernels.vector.tiles import Matrix, fields
from windowgrad.kernels.vector.types import call, first_lanes, llvm, read, suffix


def _tile(rows: int, columns: int) -> Any:
    def typed(typing: Any, a: Any, own: Any, b: Any, k: Any, sums: Any, pitch: Any) -> Any:
        v = wide(sums.dtype)

        def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            e, end, last = Emitter(context, builder, sums.dtype), args[3], builder.sub(args[1], INDEX(1))
            (a_cells, a_step), (b_cells, b_step) = fields(builder, args[0], 2), fields(builder, args[2], 2)
            reals = [builder.select(e.less(INDEX(m), last), INDEX(m), last) for m in range(rows)]
            a_rows = [builder.gep(a_cells, [builder.mul(a_step, real)]) for real in reals]
            b_rows = [builder.gep(b_cells, [builder.mul(b_step, INDEX(n))]) for n in range(columns)]
            places = [[e.mul(e.add(e.mul(args[5], n), m), v.lanes) for n in range(columns)] for m in range(rows)]
            totals = [[e.variable(read(context, builder, sums, args[4], at, v)) for at in row] for row in places]

            def add(i: Any, load: Any) -> None:
                others = [load(context, builder, b[0], row, i, v=v) for row in b_rows]
                for row, of_row in zip(a_rows, totals, strict=True):
                    one = load(context, builder, a[0], row, i, v=v)
                    for other, total in zip(others, of_row, strict=True):
                        factors = [one, other, builder.load(total)]
                        builder.store(call(builder, f"llvm.fma.{suffix(v)}", llvm(v), factors), total)

            whole = builder.and_(end, INDEX(-v.lanes))
            with e.steps(INDEX(0), whole, INDEX(v.lanes)) as i:
                add(i, read)
                stay_one(builder)
            with builder.if_then(e.less(whole, end)):
                add(whole, partial(read_masked, mask=first_lanes(builder, v, builder.sub(end, whole))))
            for of_row, row in zip(totals, places, strict=True):
                for total, at in zip(of_row, row, strict=True):
                    write(context, builder, sums, args[4], at, builder.load(total), v)
            return context.get_dummy_value()

        return types.void(a, types.intp, b, types.intp, sums, types.intp), emit

    typed.__name__ = f"dots_{rows}_{columns}"
    return intrinsic(typed)


HALF = ROWS // 2
whole_1, whole_2, whole_3 = (_tile(ROWS, n) for n in range(1, VECTORS + 1))
half_1, half_2, half_3 = (_tile(HALF, n) for n in range(1, VECTORS + 1))


@helper
def add_dots(a: Matrix, rows: int, b: Matrix, columns: int, k: int, sums: Any, pitch: int) -> None:
    """The vector of sums of (m, n) += the products along k of row m of a and row n of b.

    Sums of n stand `pitch` vectors after those of n − 1; there must be room for ROWS of each n. There are 1 to ROWS rows and 1
    to VECTORS columns.
    """
    if rows > HALF:
        if columns == 3:
            whole_3(a, rows, b, k, sums, pitch)
        elif columns == 2:
            whole_2(a, rows, b, k, sums, pitch)
        else:
            whole_1(a, rows, b, k, sums, pitch)
    elif columns == 3:
        half_3(a, rows, b, k, sums, pitch)
    elif columns == 2:
        half_2(a, rows, b, k, sums, pitch)
    else:
        half_1(a, rows, b, k, sums, pitch)
