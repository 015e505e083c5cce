"""One row times a matrix, or a matrix times one column: each number of the matrix is used once, so it is read as it lies.

Computes y[j] = the sum over k of v[k] · matrix(k, j). Chosen for every product in which one factor is a row or a column
(`matrices.py: multiplied`). A tile of sums would have one row of ROWS, or one lane of a vector.

    by_rows       a row of the matrix has all j: TOGETHER rows at a time are added to the sums, which stay in the first cache
    by_columns    a row has all k of one j, so the matrix is turned around: squares of a vector's lanes, in registers

Each sum has the order of `conv/gemm`, whatever the layout is: k one after the other, in blocks of at most `plan.STEPS`, which
are added up. So the bits are those that the row has among others. Threads share j.

Measured beside OpenBLAS, from 512×512 to 4096×4096 float32: `by_rows` takes 1.0 to 1.3 times as long on one thread and 1.0 to
1.7 times on two, `by_columns` 1.0 to 1.9 and 1.1 to 2.0 times: turning squares around takes 64 shuffles for 16 products.
Squares begin on lines of the cache: rows a power of two apart crowd there, and with lines that are read twice 2048×1000
numbers took 1.8 times as long. Rejected: lanes along k for `by_columns`, as a BLAS has them. Sums would have another order than
those of a matrix that lies the other way. Prefetching rows of squares: no gain.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from numba import types
from numba.extending import intrinsic

from windowgrad.kernels.arrays import flat
from windowgrad.kernels.conv import plan
from windowgrad.kernels.conv.plan import Array
from windowgrad.kernels.conv.share import helpers
from windowgrad.kernels.runtime.jit import helper, kernel
from windowgrad.kernels.runtime.threads import over
from windowgrad.kernels.vector.loops import Emitter
from windowgrad.kernels.vector.masked import INDEX, interval, load_some, one_by_one, read_masked, store_some, store_tile
from windowgrad.kernels.vector.ops import address, fma, later, splat
from windowgrad.kernels.vector.registers import WIDE_BYTES, load_wide, wide, wide_lanes, zero_of
from windowgrad.kernels.vector.tiles import Matrix, fields, number
from windowgrad.kernels.vector.transpose import turned
from windowgrad.kernels.vector.types import call, constant, first_lanes, llvm, read, suffix

TOGETHER = 4
"""Rows of the matrix that are added to the sums at a time."""
UNIT = 64
"""Threads have multiples of so many sums, each all of its own at once: with four shares for each thread, pieces of rows are
short, and memory is read at 0.7 of the speed."""


# --- a row of the matrix has all sums ----------------------------------------------------------------------------


@helper
def add_rows(sums: Any, columns: int, v: Any, matrix: Matrix) -> None:
    """sums[j] += v[0] · matrix(0, j), then v[1] · matrix(1, j), … for TOGETHER rows."""
    n, j, none = wide_lanes(sums), 0, load_some(sums, 0, 0)
    a, b = matrix.cells, later(matrix.cells, matrix.step)
    c, d = later(a, 2 * matrix.step), later(b, 2 * matrix.step)
    one, two, three, four = splat(none, v[0]), splat(none, v[1]), splat(none, v[2]), splat(none, v[3])
    while j + n <= columns:
        total = fma(two, load_wide(b, j), fma(one, load_wide(a, j), load_wide(sums, j)))
        store_tile(sums, j, fma(four, load_wide(d, j), fma(three, load_wide(c, j), total)))
        j += n
    if j < columns:
        bits = interval(0, columns - j)
        total = fma(two, load_some(b, j, bits), fma(one, load_some(a, j, bits), load_some(sums, j, bits)))
        store_some(sums, j, fma(four, load_some(d, j, bits), fma(three, load_some(c, j, bits), total)), bits)


@helper
def add_row(sums: Any, columns: int, factor: Any, cells: Any) -> None:
    """sums[j] += factor · cells[j]."""
    n = wide_lanes(sums)
    value = splat(load_some(sums, 0, 0), factor)
    for j in range(0, columns, n):
        bits = interval(0, min(n, columns - j))
        store_some(sums, j, fma(value, load_some(cells, j, bits), load_some(sums, j, bits)), bits)


@kernel
def by_rows(v: Any, matrix: Any, y: Any, sums: Any, steps: int, unit: int, first: int, last: int) -> None:
    """Some units of j, each of `unit` sums. Of k, `steps` are a block; `sums` has a number for each j; of one block it is y."""
    k, width, start, zero = len(v), len(y), first * unit, zero_of(y)
    own = min(width, last * unit) - start
    part, to = later(address(sums), start), later(address(y), start)
    for block in range(0, k, steps):
        for j in range(own):
            part[j] = zero
        i, end = block, min(k, block + steps)
        while i + TOGETHER <= end:
            add_rows(part, own, later(address(v), i), Matrix(later(address(matrix), i * width + start), width))
            i += TOGETHER
        while i < end:
            one_by_one()
            add_row(part, own, v[i], later(address(matrix), i * width + start))
            i += 1
        for j in range(own):
            total = part[j] + zero  # −0 + 0 is 0, as with the bias of a convolution
            to[j] = to[j] + total if block else total


# --- a row of the matrix has all terms of one sum ----------------------------------------------------------------


@intrinsic
def sum_columns(typing: Any, matrix: Any, own: Any, v: Any, k: Any) -> Any:
    """The vector of sums over k of v[k] · matrix(lane, k), of a `Matrix` that has so many rows, 1 to as many as lanes."""
    w = wide(v.dtype)

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        e, (cells, step), (_, own, factors, k) = Emitter(context, builder, v.dtype), fields(builder, args[0], 2), args
        last = builder.sub(own, INDEX(1))
        rows = [builder.mul(step, builder.select(e.less(INDEX(r), last), INDEX(r), last)) for r in range(w.lanes)]
        total = e.variable(constant(w, 0.0))

        def add(i: Any, column: Any) -> None:
            given = [number(builder, factors, i, w), column, builder.load(total)]
            builder.store(call(builder, f"llvm.fma.{suffix(w)}", llvm(w), given), total)

        def square(i: Any, load: Any) -> list[Any]:
            return turned(builder, [load(context, builder, matrix[0], cells, e.add(row, i), v=w) for row in rows], w)

        every, size = INDEX(w.lanes), INDEX(w.dtype.bitwidth // 8)
        past = builder.udiv(builder.ptrtoint(cells, INDEX), size)
        lead = builder.and_(builder.neg(past), INDEX(w.lanes - 1))  # cells until a line of the cache begins

        def some(i: Any) -> Any:
            """How many k are added at once, from i on."""
            most = builder.select(builder.and_(e.equal(i, 0), e.less(INDEX(0), lead)), lead, every)
            return builder.select(e.less(most, builder.sub(k, i)), most, builder.sub(k, i))

        with e.steps(INDEX(0), k, lambda i: e.add(i, some(i))) as i:
            count = some(i)
            with builder.if_else(builder.icmp_signed("==", count, every)) as (whole, part):
                with whole:
                    for n, column in enumerate(square(i, read)):
                        add(e.add(i, INDEX(n)), column)
                with part:
                    columns = square(i, partial(read_masked, mask=first_lanes(builder, w, count)))
                    for n, column in enumerate(columns[:-1]):
                        with builder.if_then(e.less(INDEX(n), count)):
                            add(e.add(i, INDEX(n)), column)
        return builder.load(total)

    return w(matrix, types.intp, v, types.intp), emit


@kernel
def by_columns(v: Any, matrix: Any, y: Any, steps: int, first: int, last: int) -> None:
    """Some vectors of y. Of k, `steps` are a block."""
    k, n = len(v), wide_lanes(y)
    for start in range(first * n, min(len(y), last * n), n):
        own = min(n, len(y) - start)
        bits, to = interval(0, own), later(address(y), start)
        for block in range(0, k, steps):
            some = Matrix(later(address(matrix), start * k + block), k)
            total = sum_columns(some, own, later(address(v), block), min(steps, k - block))
            total = total + splat(total, 0)  # as in `by_rows`
            if block:
                total = load_some(to, 0, bits) + total
            store_some(to, 0, total, bits)


def row_times(v: Array, matrix: Array) -> Array:
    """v · matrix, both not empty."""
    k, width = matrix.shape
    y, lanes, steps = np.empty(width, v.dtype), WIDE_BYTES // v.itemsize, plan.steps(k, 1)[0]
    if matrix.flags.f_contiguous and not matrix.flags.c_contiguous:
        over(by_columns, (flat(v), flat(matrix.T), y, steps), -(-width // lanes), matrix.nbytes)
        return y
    unit = UNIT * -(-width // (UNIT * helpers(matrix.nbytes)))
    sums = y if steps == k else np.empty(width, v.dtype)
    over(by_rows, (flat(v), flat(matrix), y, sums, steps, unit), -(-width // unit), matrix.nbytes)
    return y
