"""Four output rows of large windows at once, by vectors of a tile: the loops of `many_rows` where no order tells.

Windows of k rows that begin in rows 0 to 3 all see rows 3 to k − 1, their core; each of them sees at most three rows besides:

    rows        0 1 2 | 3 … k − 1 | k k+1 k+2 k+3        old rows, core, new rows
    window 1      x x   x x x x x   x                    the end of the old rows, the core, the beginning of the new ones

The core of the next four windows has the four new rows in it, so each four is combined to one row, which is kept. A core is
made of several fours, doubled again and again, and of up to three rows before them. Then come the windows along a row, in
registers: of vectors of combined columns,

    now, after                          v v v v | w w w w
    with themselves, a lane further     v v v w   combined: the greatest of 2 neighbours
    and that, two lanes further on      of 4, and so on up to a whole vector

so a window of 64 columns is four shuffles, four comparisons and four loads. Comparisons are those of the CPU. They know nothing
of NaN, nor which of 0.0 and −0.0 was first, so the loops say whether such a cell was seen.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from numba import types
from numba.extending import intrinsic

from windowgrad.kernels.pool.near_rows import Watch, wide_emitter
from windowgrad.kernels.vector.loops import Emitter, larger
from windowgrad.kernels.vector.types import Vec, constant, first_lanes, kind, lane_order, llvm

NAN, MINUS_ZERO, ZERO = 1, 2, 4
"""What loops have seen, bits 0 to 2 of a `Watch`: NaN or −0.0 in a cell, a zero in a result."""

PARTS = 8
"""Of how many parts that are a vector long a window may be made."""

INT = types.intp


class Cells(Watch):
    """Notes what could tell the order of comparing; of integers nothing can."""

    def look_at_cells(self, vectors: Sequence[Any]) -> None:
        """NaN, in two of them by one comparison, and −0.0."""
        e, builder = self.e, self.e.builder
        if kind(e.v) != "f":
            return
        whole = Vec(types.Integer.from_bitwidth(e.v.dtype.bitwidth, True), e.n)
        sign = constant(whole, -(1 << e.v.dtype.bitwidth - 1))
        for a, b in zip(vectors[::2], vectors[1::2], strict=True):
            self.look(a, b)
        for a in vectors:
            self.note(1, builder.icmp_signed("==", builder.bitcast(a, llvm(whole)), sign))

    def look_at_results(self, y: Any) -> None:
        if kind(self.e.v) == "f":
            self.note(2, self.e.builder.fcmp_ordered("==", y, constant(self.e.v, 0)))


@intrinsic
def fold_four(typing: Any, rows: Any, cells: Any, four: Any) -> Any:
    """four = the greatest of four rows; gives what was seen."""

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        e = wide_emitter(context, builder, four.dtype)
        watch = Cells(e, 2)
        with e.whole_steps(args[1], e.n) as j:
            vectors = [e.load(row, j) for row in rows_in(builder, rows, args[0])]
            watch.look_at_cells(vectors)
            e.store((four, args[2]), j, greatest(e, vectors))
        return watch.bits()

    return INT(rows, INT, four), emit


def rows_in(builder: Any, rows: Any, value: Any) -> list[Any]:
    """(type, value) of each address of a tuple."""
    return [(rows.dtype, builder.extract_value(value, i)) for i in range(len(rows))]


def greatest(e: Emitter, vectors: Sequence[Any]) -> Any:
    total = vectors[0]
    for each in vectors[1:]:
        total = larger(e, total, each)
    return total


@intrinsic
def greater_row(typing: Any, a: Any, b: Any, cells: Any, to: Any) -> Any:
    """to = the greater of two rows."""

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        e = wide_emitter(context, builder, a.dtype)
        with e.whole_steps(args[2], e.n) as j:
            e.store((to, args[3]), j, larger(e, e.load((a, args[0]), j), e.load((a, args[1]), j)))
        return context.get_dummy_value()

    return types.void(a, a, INT, a), emit


@intrinsic
def four_windows(typing: Any, old: Any, between: Any, core: Any, new: Any, cells: Any, to: Any, pitch: Any, four: Any) -> Any:
    """to = the columns of four windows, `pitch` apart: those that begin in the first three `old` rows and the one after them.

    The core is the two rows of `core` and the first `between` of the rows after these three. Of the four `new` rows, three are
    the ends of windows; `four` is all of them combined. Gives what was seen in the new rows.
    """

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        e = wide_emitter(context, builder, four.dtype)
        olds, cores, news = (rows_in(builder, *rows) for rows in ((old, args[0]), (core, args[2]), (new, args[3])))
        watch = Cells(e, 2)

        def loop(count: int) -> None:
            with e.whole_steps(args[4], e.n) as j:
                begin = greatest(e, [e.load(row, j) for row in (*cores, *olds[3 : 3 + count])])
                vectors = [e.load(row, j) for row in news]
                watch.look_at_cells(vectors)
                ends = [greatest(e, vectors[: i + 1]) for i in range(4)]
                for i in (3, 2, 1, 0):  # the core grows by an old row each time
                    begin = begin if i == 3 else larger(e, begin, e.load(olds[i], j))
                    e.store((to, args[5]), e.add(j, e.mul(args[6], i)), larger(e, begin, ends[i - 1]) if i else begin)
                e.store((four, args[7]), j, ends[3])

        e.by_number(args[1], (0, 1, 2), loop, lambda: loop(3))
        return watch.bits()

    return INT(old, INT, core, new, INT, to, INT, four), emit


@intrinsic
def levels_of(typing: Any, a: Any, taps: Any) -> Any:
    """How often neighbours are doubled for a window of `taps` cells: up to a whole vector."""

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        e = wide_emitter(context, builder, a.dtype)
        total, level = e.int(0), 1
        while 1 << level <= e.n:
            total = builder.add(total, builder.zext(e.less(e.int((1 << level) - 1), args[1]), total.type))
            level += 1
        return total

    return INT(a, INT), emit


@intrinsic
def double(typing: Any, a: Any, cells: Any, levels: Any, buffer: Any) -> Any:
    """buffer[j] = the greatest of a[j:j + 2^levels] for j < cells. Both have room for `levels` and one vectors more."""

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        e = wide_emitter(context, builder, a.dtype)
        source, target = (a, args[0]), (buffer, args[3])

        def loop(count: int) -> None:
            """Each level is a vector behind the one before it."""
            befores = [e.variable(constant(e.v, 0)) for _ in range(count)]

            def step(j: Any) -> Any:
                now = e.load(source, j)
                for level, before in enumerate(befores):
                    last = builder.load(before)
                    builder.store(now, before)
                    moved = builder.shuffle_vector(last, now, lane_order(range(1 << level, (1 << level) + e.n)))
                    now = larger(e, last, moved)
                return now

            for ahead in range(count):
                step(e.int(ahead * e.n))
            with e.steps(e.int(0), args[1], e.int(e.n)) as j:
                e.store(target, j, step(e.add(j, count * e.n)))

        most = e.n.bit_length() - 1
        e.by_number(args[2], range(most), loop, lambda: loop(most))
        return context.get_dummy_value()

    return types.void(a, INT, INT, a), emit


@intrinsic
def join(typing: Any, buffer: Any, size: Any, taps: Any, out: Any, y: Any, at: Any) -> Any:
    """y[at + j] = the greatest of the entries that make window j, each of `size` columns; they may overlap.

    Says whether a result is a zero.
    """

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        e = wide_emitter(context, builder, buffer.dtype)
        source, target, (size, taps, out, at) = (buffer, args[0]), (y, args[4]), (args[1], args[2], args[3], args[5])
        watch, last = Cells(e, 3), builder.sub(taps, size)

        def loop(count: int) -> None:
            parts = [e.mul(size, part) for part in range(count)]
            places = [builder.select(e.less(place, last), place, last) for place in parts]

            def tops(j: Any) -> Any:
                return greatest(e, [e.load(source, e.add(j, place)) for place in places])

            with e.steps(e.int(0), e.add(out, 1 - e.n), e.int(e.n)) as j:
                total = tops(j)
                watch.look_at_results(total)
                e.store(target, e.add(at, j), total)
            left = builder.and_(out, e.int(e.n - 1))
            with builder.if_then(e.less(e.int(0), left)):
                j = builder.sub(out, left)
                total = tops(j)
                watch.look_at_results(builder.select(first_lanes(builder, e.v, left), total, constant(e.v, 1)))
                e.store_first(target, e.add(at, j), total, left)

        parts = builder.sdiv(e.add(taps, size, -1), size)
        power = builder.select(e.less(parts, 5), builder.select(e.less(parts, 3), e.int(2), e.int(4)), e.int(PARTS))
        e.by_number(power, (2, 4), loop, lambda: loop(PARTS))
        return watch.bits()

    return INT(buffer, INT, INT, INT, y, INT), emit
