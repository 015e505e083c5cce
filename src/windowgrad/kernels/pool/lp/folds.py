"""The loops of the p-norm over vectors: rows to one row of sums of powers, sums to norms, and both at once window by window.

Each is written for one `Power`. All sums are float64, of the rows of a window first, column by column, then of its columns,
as in `mean.rows`: so every way through the kernels gives the same bits.

A cell is multiplied by `scale`, and a norm by its inverse, where cells are float64 (`told`): a power of two, which rounds
nothing. All of them say whether something is strange: a sum that is not finite, and in float64 one that is less than `limit`,
or a cell whose power is 0.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any, NamedTuple

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from windowgrad.kernels.pool.lp.powers import Power, magnitude
from windowgrad.kernels.pool.packed import Rows
from windowgrad.kernels.vector.exp_log import Value
from windowgrad.kernels.vector.loops import Emitter, mask_of
from windowgrad.kernels.vector.types import Vec, constant, first_lanes, lanes_of, spread

COMMON = (2, 2), (3, 3)
"""Rows and columns of windows that have a loop of their own."""

COUNTS = (1, 2, 3)
"""Rows of a window that have a loop of their own."""

FLOAT, INT = types.float64, types.intp
INFINITY = float("inf")


LANES = 8
"""Numbers of a row that are taken at a time: two vectors of float64, or one of a CPU whose registers are wide."""


class Told(NamedTuple):
    """What cells of float64 are multiplied by, its inverse, and the least sum that has lost nothing."""

    scale: float
    inverse: float
    limit: float


class Writer:
    """Writes what is done with n cells of a dtype at a time, and watches what is strange."""

    def __init__(self, power: Power, context: Any, builder: Any, dtype: Any, told: Any, n: int = LANES) -> None:
        self.power, self.narrow, self.builder = power, dtype == types.float32, builder
        self.e = e = Emitter(context, builder, FLOAT)
        e.n, e.v = n, Vec(FLOAT, n)
        self.scale, self.inverse, self.limit = (spread(builder, builder.extract_value(told, i), e.n) for i in range(3))
        self.strange, self.zeros = (e.variable(constant(mask_of(e.v), 0)) for _ in range(2))

    def note(self, seen: Any, mask: Any) -> None:
        self.builder.store(self.builder.or_(self.builder.load(seen), mask), seen)

    def found(self) -> Any:
        """1 if a sum was strange, and 2 if one was 0."""
        return self.builder.or_(self.bit(self.strange, 1), self.bit(self.zeros, 2))

    def bit(self, seen: Any, value: int) -> Any:
        bits = self.builder.bitcast(self.builder.load(seen), ir.IntType(self.e.n))
        return self.builder.select(self.builder.icmp_unsigned("!=", bits, bits.type(0)), self.e.int(value), self.e.int(0))

    def scaled(self, cell: Any) -> Any:
        return cell if self.narrow or not self.power.least else self.builder.fmul(cell, self.scale)

    def added(self, cell: Any, total: Any) -> Any:
        cell, total = (Value(self.builder, self.e.v, each) for each in (self.scaled(cell), total))
        return self.power.added(cell, total).value

    def rooted(self, total: Any, left: Any) -> Any:
        """Lanes past those that are left are no sums, and nothing about them is strange."""
        b, zero = self.builder, constant(self.e.v, 0.0)
        if left is not None:
            total = b.select(first_lanes(b, self.e.v, left), total, constant(self.e.v, 1.0))
        self.note(self.strange, b.fcmp_unordered(">=", total, constant(self.e.v, INFINITY)))
        found = self.power.rooted(Value(b, self.e.v, total), self.narrow).value
        if self.narrow or not self.power.least:
            return found
        self.note(self.zeros, b.fcmp_ordered("==", total, zero))
        self.note(self.strange, b.and_(b.fcmp_ordered("<", total, self.limit), b.fcmp_ordered(">", total, zero)))
        return b.fmul(found, self.inverse)

    def look(self, cell: Any) -> None:
        """Whether the power of a cell may be 0, and the cell is not."""
        b, size = self.builder, magnitude(Value(self.builder, self.e.v, self.scaled(cell))).value
        small = b.fcmp_ordered("<", size, constant(self.e.v, self.power.least))
        self.note(self.strange, b.and_(small, b.fcmp_ordered("!=", cell, constant(self.e.v, 0.0))))

    def over(self, count: Any, write: Callable[[Any, Any], None]) -> None:
        """`write(i, None)` for i = 0, n, …, and where fewer than n are left, `write(i, how many)`."""
        e, b = self.e, self.builder
        with e.steps(e.int(0), e.add(count, 1 - e.n), e.int(e.n)) as i:
            write(i, None)
        left = b.and_(count, e.int(e.n - 1))
        with b.if_then(b.icmp_signed("!=", left, e.int(0))):
            write(b.sub(count, left), left)

    def load(self, a: tuple[Any, Any], i: Any, left: Any) -> Any:
        return self.e.load(a, i) if left is None else self.e.load_first(a, i, left)

    def store(self, a: tuple[Any, Any], i: Any, value: Any, left: Any) -> None:
        if left is None:
            self.e.store(a, i, value)
        else:
            self.e.store_first(a, i, value, left)

    def parts(self, rows: Any) -> tuple[Any, Any, Any]:
        return tuple(self.builder.extract_value(rows, field) for field in range(len(Rows._fields)))


class Folds(NamedTuple):
    """The intrinsics for a power."""

    columns: Any
    """columns(x, base, rows, width, sums, at, ahead, told): sums[at:] = of each column of the `Rows` of x the sum of powers.

    `ahead` is what `fold_rows.ahead_of` gives.
    """
    roots: Any
    """roots(x, sums, y, at, out, told): y[at:] = the norms of windows by their sums, `out` of them. Says what was `found`."""
    windows: Any
    """windows(x, base, rows, windows, low, high, run, y, at, told): y[at:] = the norms of the windows low to high of a row.

    A cell is a run of `run` numbers, and so is an output; the places of the rows count numbers, as `base` and `at` do.
    Says what was `found`.
    """
    lost: Any
    """lost(x, base, rows, width, told): whether the power of a cell of the `Rows` of x, `width` of each, may be lost."""


def folds(power: Power) -> Folds:
    @intrinsic
    def columns(typing: Any, x: Any, base: Any, rows: Any, width: Any, sums: Any, at: Any, ahead: Any, told: Any) -> Any:
        def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            w = Writer(power, context, builder, x.dtype, args[7])
            e, source, target = w.e, (x, args[0]), (sums, args[4])
            places, low, high = w.parts(args[2])

            def row(q: Any) -> Any:
                return e.add(args[1], e.cell((rows.types[0], places), q))

            def of_known(count: int) -> None:
                starts = [row(e.add(low, q)) for q in range(count)]

                def write(i: Any, left: Any) -> None:
                    total = constant(e.v, 0.0)
                    with builder.if_then(e.less(e.int(0), args[6]), likely=False):
                        for start in starts:
                            e.fetch(source, e.add(start, i, args[6]))
                    for start in starts:
                        total = w.added(w.load(source, e.add(start, i), left), total)
                    w.store(target, e.add(args[5], i), total, left)

                w.over(args[3], write)

            def of_any() -> None:
                def write(i: Any, left: Any) -> None:
                    total = e.variable(constant(e.v, 0.0))
                    with e.steps(low, high, e.int(1)) as q:
                        cell = w.load(source, e.add(row(q), i), left)
                        builder.store(w.added(cell, builder.load(total)), total)
                    w.store(target, e.add(args[5], i), builder.load(total), left)

                w.over(args[3], write)

            e.by_number(builder.sub(high, low), COUNTS, of_known, of_any)
            return context.get_dummy_value()

        return types.void(x, INT, rows, INT, sums, INT, INT, told), emit

    @intrinsic
    def roots(typing: Any, x: Any, sums: Any, y: Any, at: Any, out: Any, told: Any) -> Any:
        def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            args = args[1:]  # the dtype of the cells says how exact a norm is, whatever it is stored as
            w = Writer(power, context, builder, x.dtype, args[4])

            def write(j: Any, left: Any) -> None:
                norm = w.rooted(w.load((sums, args[0]), j, left), left)
                w.store((y, args[1]), w.e.add(args[2], j), norm, left)

            w.over(args[3], write)
            return w.found()

        return INT(x, sums, y, INT, INT, told), emit

    @intrinsic
    def windows(
        typing: Any, x: Any, base: Any, rows: Any, windows: Any, low: Any, high: Any, run: Any, y: Any, at: Any, told: Any
    ) -> Any:
        def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            w = Writer(power, context, builder, x.dtype, args[9], lanes_of(x.dtype.bitwidth // 8))
            e, source, target = w.e, (x, args[0]), (y, args[7])
            places, first, last = w.parts(args[2])
            _, _, _, _, start, count, step = (builder.extract_value(args[3], field) for field in range(7))
            run, kind = args[6], windows.types[4]
            apart = e.mul(run, step)

            def place(q: Any) -> Any:
                return e.cell((rows.types[0], places), q)

            def write(c: Any, left: Any, to: Any, total: Any) -> None:
                w.store(target, e.add(to, c), w.rooted(total, left), left)

            def of_known(begin: Any, to: Any, size: tuple[int, int]) -> None:
                starts = [
                    [e.add(begin, place(e.add(first, q)), e.mul(apart, t)) for q in range(size[0])] for t in range(size[1])
                ]

                def one(c: Any, left: Any) -> None:
                    sums = []
                    for column in starts:
                        sums.append(constant(e.v, 0.0))
                        for each in column:
                            sums[-1] = w.added(w.load(source, e.add(each, c), left), sums[-1])
                    write(c, left, to, reduce(builder.fadd, sums))

                w.over(run, one)

            def of_any(begin: Any, to: Any, columns: Any) -> None:
                def one(c: Any, left: Any) -> None:
                    total, column = e.variable(constant(e.v, 0.0)), e.variable(constant(e.v, 0.0))
                    with e.steps(e.add(begin, c), e.add(begin, c, e.mul(columns, apart)), apart) as i:
                        builder.store(constant(e.v, 0.0), column)
                        with e.steps(first, last, e.int(1)) as q:
                            cell = w.load(source, e.add(i, place(q)), left)
                            builder.store(w.added(cell, builder.load(column)), column)
                        builder.store(builder.fadd(builder.load(total), builder.load(column)), total)
                    write(c, left, to, builder.load(total))

                w.over(run, one)

            to = e.variable(args[8])
            with e.steps(args[4], args[5], e.int(1)) as j:
                begin, columns = e.add(args[1], e.mul(e.cell((kind, start), j), run)), e.cell((kind, count), j)
                sizes = {size[0] * 64 + size[1]: size for size in COMMON}
                short = e.less(columns, 64)
                number = builder.select(short, e.add(e.mul(builder.sub(last, first), 64), columns), e.int(0))
                here = builder.load(to)
                e.by_number(
                    number,
                    tuple(sizes),
                    lambda number: of_known(begin, here, sizes[number]),
                    lambda: of_any(begin, here, columns),
                )
                builder.store(e.add(here, run), to)
            return w.found()

        return INT(x, INT, rows, windows, INT, INT, INT, y, INT, told), emit

    @intrinsic
    def lost(typing: Any, x: Any, base: Any, rows: Any, width: Any, told: Any) -> Any:
        def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            w = Writer(power, context, builder, x.dtype, args[4])
            places, low, high = w.parts(args[2])
            if not w.narrow and power.least:
                with w.e.steps(low, high, w.e.int(1)) as q:
                    begin = w.e.add(args[1], w.e.cell((rows.types[0], places), q))
                    w.over(args[3], lambda i, left: w.look(w.load((x, args[0]), w.e.add(begin, i), left)))
            return w.found()

        return INT(x, INT, rows, INT, told), emit

    return Folds(columns, roots, windows, lost)
