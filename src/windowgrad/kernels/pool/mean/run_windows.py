"""Mean of windows that share few cells, where channels stand last: the cells of a window are added and divided in registers.

For arrays and sums of one dtype (`entry.over_runs`), where `adds_in_registers` is true: a buffer of columns would cost more
than it spares. All additions are those of `runs`.

    rows of a window   r r | r r      of each column the rows, one after the other, then the columns: a few vectors of a run
                       r r | r r      of channels at a time, divided and written

Measured on 32×64×112×112, two threads, where moving the bytes takes 3.1 ms: 2×2 windows with a stride of 2 take 3.2 ms, 3×3
windows 3.1. With the sums of a piece in a buffer, divided in a second loop, and no loop for common windows they took 3.6 and
4.4. Fetching memory ahead and writing past the caches did not make them faster.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numba import types
from numba.extending import intrinsic

from windowgrad.kernels.pool.mean.rows import sum_again
from windowgrad.kernels.pool.packed import Rows, unpacked
from windowgrad.kernels.pool.plan import Plan
from windowgrad.kernels.pool.row_pieces import Piece, fill, piece_at
from windowgrad.kernels.pool.window_spans import DIRECT
from windowgrad.kernels.runtime.jit import kernel
from windowgrad.kernels.vector.loops import Emitter, mask_of
from windowgrad.kernels.vector.ops import address, alive, anywhere, either, later, not_finite, splat
from windowgrad.kernels.vector.types import constant, lanes_of, spread, vec

VECTORS = 4
"""Of a run, so many vectors of sums are in registers at a time."""

COMMON = (2, 2), (3, 3)
"""Rows and columns of windows that have a loop of their own."""


def shares_little(taps: int, stride: int, rows: int) -> bool:
    """Whether all loads of windows, of few taps, cost no more than those of columns and of their sums, and a buffer besides."""
    return taps <= DIRECT and rows * taps <= rows * min(stride, taps) + taps + 2


def adds_in_registers(p: Plan, channels: int, itemsize: int) -> bool:
    """Whether runs fill a vector, and windows are alike, share little and have columns that are added one after the other."""
    paired = p.kernel in (4, 8) and p.stride == p.kernel and p.step == 1
    little = p.kernel > 0 and shares_little(p.kernel, p.stride, int(p.row_cells.max(initial=0)))
    return channels >= lanes_of(itemsize) and little and not paired


@intrinsic
def mean_window(typing: Any, x: Any, at: Any, rows: Any, columns: Any, step: Any, run: Any, by: Any, y: Any, to: Any) -> Any:
    """y[to:to + run] = the sum of `columns` columns, `step` numbers apart, the first of them at `at`, ÷ by.

    Gives the mask of lanes in which a sum is not finite. A sum begins with 0, which changes nothing but a −0.0.
    """

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        e = Emitter(context, builder, y.dtype)
        source, target, at, to = (x, args[0]), (y, args[7]), args[1], args[8]
        columns, step, run = args[3:6]
        places, low, high = (builder.extract_value(args[2], field) for field in range(len(Rows._fields)))
        divisor = spread(builder, context.cast(builder, args[6], by, y.dtype), e.n)
        strange, done = e.variable(constant(mask_of(e.v), 0)), e.variable(e.int(0))

        def row(q: Any) -> Any:
            return e.cell((rows.types[0], places), q)

        def add_all(begins: list[Any], columns: int, c: Any) -> list[Any]:
            totals = [constant(e.v, 0)] * VECTORS
            for column in range(columns):
                starts = [e.add(begin, c, e.mul(step, column)) for begin in begins]
                for number in range(VECTORS):
                    cells = [e.load(source, e.add(start, number * e.n)) for start in starts]
                    for cell in cells[1:]:
                        cells[0] = builder.fadd(cells[0], cell)
                    totals[number] = builder.fadd(totals[number], cells[0])
            return totals

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

        def quotient(total: Any) -> Any:
            unlike = builder.fcmp_unordered("uno", builder.fsub(total, total), constant(e.v, 0.0))
            builder.store(builder.or_(builder.load(strange), unlike), strange)
            return builder.fdiv(total, divisor)

        def sweep(vectors: int, add: Callable[[Any], list[Any]]) -> None:
            with e.steps(builder.load(done), e.add(run, 1 - vectors * e.n), e.int(vectors * e.n)) as c:
                for number, total in enumerate(add(c)):
                    e.store(target, e.add(to, c, number * e.n), quotient(total))
                builder.store(e.add(c, vectors * e.n), done)

        def of_any_size(vectors: int) -> None:
            sweep(vectors, lambda c: add_up(e.add(at, c), vectors, lambda i: e.load(source, i)))

        def of_common_size(number: int) -> None:
            begins = [e.add(at, row(e.add(low, q))) for q in range(sizes[number][0])]
            sweep(VECTORS, lambda c: add_all(begins, sizes[number][1], c))

        sizes = {size[0] * (DIRECT + 1) + size[1]: size for size in COMMON}
        number = e.add(e.mul(builder.sub(high, low), DIRECT + 1), columns)
        e.by_number(number, tuple(sizes), of_common_size, lambda: of_any_size(VECTORS))
        of_any_size(1)
        c = builder.load(done)
        left = builder.sub(run, c)
        with builder.if_then(e.less(e.int(0), left)):
            (total,) = add_up(e.add(at, c), 1, lambda i: e.load_first(source, i, left))
            e.store_first(target, e.add(to, c), quotient(total), left)
        return builder.load(strange)

    whole = types.intp
    return mask_of(vec(y.dtype))(x, whole, rows, whole, whole, whole, by, y, whole), emit


@kernel
def mean_run_windows(
    x: Any, y: Any, row_divisor: Any, col_divisor: Any, plan: Any, run: int, size: int, first: int, last: int
) -> None:
    """Pieces `first` to `last` of the output rows of all planes, as in `mean_runs`; sums are as x and y."""
    line, windows, _ = unpacked(plan)
    places = np.empty(windows.ptr[windows.rows], np.int64)
    for q in range(len(places)):
        places[q] = windows.places[q] * run
    x, y, row_divisor, col_divisor = address(x), address(y), address(row_divisor), address(col_divisor)
    for job in range(first, last):
        one = piece_at(job, size, line, windows)
        piece = Piece(one.at * run, one.low, one.high, one.row, one.base * run)
        rows = Rows(address(places), windows.ptr[piece.row], windows.ptr[piece.row + 1])
        at, divisor, strange = piece.at, row_divisor[piece.row], not_finite(splat(y, 0))
        for j in range(piece.low, piece.high):
            if rows.low == rows.high or windows.count[j] == 0:
                fill(y, at, at + run, 0)
            else:
                begin, by = piece.base + windows.start[j] * run, divisor * col_divisor[j]
                some = mean_window(x, begin, rows, windows.count[j], line.step * run, run, by, y, at)
                strange = either(strange, some)
            at += run
        if anywhere(strange):  # divisors are finite and at least 1: a mean is finite exactly where its sum is
            sum_again(x, y, divisor, col_divisor, piece, rows, windows, run, later(y, piece.at))
    alive(places)
