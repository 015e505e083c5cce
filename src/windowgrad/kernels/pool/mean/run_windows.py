"""Sums of windows that share few cells, where channels stand last: the cells of a window are added in registers.

For `runs`, where `shares_little` is true: a buffer of columns would cost more than it spares. 2×2 windows with a stride of 2
took 1.25 times as long with one; 3×3 windows with a stride of 1 take as long either way.

    rows of a window   r r | r r      of each column the rows, one after the other, then the columns: a few vectors of a run
                       r r | r r      of channels at a time
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba import types
from numba.extending import intrinsic

from windowgrad.kernels.pool.packed import Rows
from windowgrad.kernels.pool.row_pieces import fill
from windowgrad.kernels.pool.window_spans import DIRECT
from windowgrad.kernels.runtime.jit import helper
from windowgrad.kernels.vector.loops import Emitter
from windowgrad.kernels.vector.types import constant

VECTORS = 4
"""Of a run, so many vectors of sums are in registers at a time."""


@helper
def shares_little(taps: int, stride: int, rows: int) -> Any:
    """Whether all loads of windows, of few taps, cost no more than those of columns and of their sums, and a buffer besides."""
    return taps <= DIRECT and rows * taps <= rows * min(stride, taps) + taps + 2


@intrinsic
def add_window(typing: Any, x: Any, at: Any, rows: Any, columns: Any, step: Any, run: Any, sums: Any, to: Any) -> Any:
    """sums[to:to + run] = the sum of `columns` columns, `step` numbers apart, the first of them at `at`: in registers.

    It begins with 0, which changes nothing but a −0.0, and `divide` does that too.
    """

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        e = Emitter(context, builder, sums.dtype)
        source, target, at, to = (x, args[0]), (sums, args[6]), args[1], args[7]
        columns, step, run = args[3:6]
        places, low, high = (builder.extract_value(args[2], field) for field in range(len(Rows._fields)))

        def row(q: Any) -> Any:
            return e.cell((rows.types[0], places), q)

        def add_up(first: Any, vectors: int, load: Callable[[Any], Any]) -> list[Any]:
            totals = [e.variable(constant(e.v, 0)) for _ in range(vectors)]
            sums_of_column = [e.variable(constant(e.v, 0)) for _ in range(vectors)]
            with e.steps(first, e.add(first, e.mul(columns, step)), step) as place:
                for number, column in enumerate(sums_of_column):
                    builder.store(load(e.add(place, row(low), number * e.n)), column)
                with e.steps(e.add(low, 1), high, e.int(1)) as q:
                    begin = e.add(place, row(q))
                    for number, column in enumerate(sums_of_column):
                        builder.store(builder.fadd(builder.load(column), load(e.add(begin, number * e.n))), column)
                for total, column in zip(totals, sums_of_column, strict=True):
                    builder.store(builder.fadd(builder.load(total), builder.load(column)), total)
            return [builder.load(total) for total in totals]

        done = e.variable(e.int(0))
        for vectors in (VECTORS, 1):
            with e.steps(builder.load(done), e.add(run, 1 - vectors * e.n), e.int(vectors * e.n)) as c:
                for number, total in enumerate(add_up(e.add(at, c), vectors, lambda i: e.load(source, i))):
                    e.store(target, e.add(to, c, number * e.n), total)
                builder.store(e.add(c, vectors * e.n), done)
        c = builder.load(done)
        left = builder.sub(run, c)
        with builder.if_then(e.less(e.int(0), left)):
            (total,) = add_up(e.add(at, c), 1, lambda i: e.load_first(source, i, left))
            e.store_first(target, e.add(to, c), total, left)
        return context.get_dummy_value()

    whole = types.intp
    return types.void(x, whole, rows, whole, whole, whole, sums, whole), emit


@helper
def add_windows(x: Any, piece: Any, rows: Any, line: Any, run: int, sums: Any) -> None:
    """sums = for each output of a piece the sum of its columns, one after the other."""
    for j in range(piece.low, piece.high):
        first, columns, to = j * line.stride - line.before, line.taps, (j - piece.low) * run
        while columns > 0 and first < 0:
            first, columns = first + line.step, columns - 1
        while columns > 0 and first + (columns - 1) * line.step >= line.width:
            columns -= 1
        if columns > 0:
            add_window(x, piece.base + first * run, rows, columns, line.step * run, run, sums, to)
        else:
            fill(sums, to, to + run, 0)
