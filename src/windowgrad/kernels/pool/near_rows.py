"""Windows of three columns a cell apart, on rows that stay as long as they are: a row of outputs in registers.

For 3×3 windows with a stride of 1 and a padding of 1, and others of three columns (`is_near`). The rows that an output row sees
are combined vector by vector, and a vector of outputs is made of three neighbours of them, of which lanes are shifted:

    before   now      after            p p p p | v v v v | w w w w
                                       outputs   p v v v   v v v v   v v v w   combined, from left to right

Padding is the vector before the first and what is behind the last cell, so there is no buffer: with `fold_rows` and
`window_spans`, the maximum of planes of 56×56 took 1.5 times as long, and the mean, which divides as before, 1.3 times.
Tried: to fold several rows into buffers before the first is read; it was not faster.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from windowgrad.kernels.pool.packed import Rows
from windowgrad.kernels.pool.plan import Plan
from windowgrad.kernels.vector.loops import Combine, Emitter, mask_of
from windowgrad.kernels.vector.registers import wide
from windowgrad.kernels.vector.shuffle import converted
from windowgrad.kernels.vector.types import Vec, constant, read_first, spread

COUNTS = (2, 3)  # of rows that have a loop of their own
Vectors = list[Any]
"""Of the same columns, each combined by itself: cells, or cells and what counts them."""


def is_near(p: Plan) -> bool:
    """Whether windows are of three columns a cell apart, and there are as many as cells in a row, which is one piece."""
    return p.kernel == 3 and p.stride == p.step == p.before == 1 and p.out == p.width and p.pieces == p.outer and p.run == 1


def emit_row(
    e: Emitter,
    combine: Combine,
    rows: tuple[Any, Any],
    width: Any,
    padding: Sequence[Any],
    read: Callable[[Any, Any, Any], Vectors],
    look: Callable[[Any, Any], None],
    keep: Callable[[Any, Vectors, Any], None],
) -> None:
    """The windows of the rows from rows[0] to rows[1], of which there is one at least.

    read(q, i, left) gives the vectors of row q from column i on, or the first `left` lanes of them if that is not None, else
    padding. look(a, b) is told all cells, the first of these vectors, in pairs. keep(j, totals, left) is given the outputs from
    column j on, of which there are only `left` if that is not None.
    """
    builder, (low, high) = e.builder, rows
    before, now, after = ([e.variable(each) for each in padding] for _ in range(3))

    def load(places: Vectors) -> Vectors:
        return [builder.load(place) for place in places]

    def store(values: Vectors, places: Vectors) -> None:
        for value, place in zip(values, places, strict=True):
            builder.store(value, place)

    def joined(a: Vectors, b: Vectors) -> Vectors:
        return [combine(e, one, other) for one, other in zip(a, b, strict=True)]

    def fold(i: Any) -> None:
        def some(count: int) -> None:
            cells = [read(e.add(low, q), i, None) for q in range(count)]
            total = reduce(joined, cells)
            look(cells[0][0], cells[1][0])
            if count == 3:
                look(cells[2][0], cells[2][0])
            store(total, after)

        e.by_number(builder.sub(high, low), COUNTS, some, lambda: one_by_one(i, None))

    def one_by_one(i: Any, left: Any) -> None:
        first = read(low, i, left)
        look(first[0], first[0])
        store(first, after)
        with e.steps(e.add(low, 1), high, e.int(1)) as q:
            cells = read(q, i, left)
            look(cells[0], cells[0])
            store(joined(load(after), cells), after)

    def moved(a: Vectors, b: Vectors, by: int) -> Vectors:
        order = ir.Constant(ir.VectorType(ir.IntType(32), e.n), list(range(by, by + e.n)))
        return [builder.shuffle_vector(one, other, order) for one, other in zip(a, b, strict=True)]

    with e.steps(e.int(-e.n), width, e.int(e.n)) as j:
        i = e.add(j, e.n)
        left = builder.sub(width, i)
        store(list(padding), after)
        with builder.if_else(e.less(left, e.n), likely=False) as (last, whole):
            with last, builder.if_then(e.less(e.int(0), left)):
                one_by_one(i, left)
            with whole:
                fold(i)
        with builder.if_then(e.less(e.int(-1), j)):
            a, b, c = load(before), load(now), load(after)
            totals = joined(joined(moved(a, b, e.n - 1), b), moved(b, c, 1))
            with builder.if_else(e.less(left, 0), likely=False) as (last, whole):
                with last:
                    keep(j, totals, builder.sub(width, j))
                with whole:
                    keep(j, totals, None)
        store(load(now), before)
        store(load(after), now)


def put(e: Emitter, a: tuple[Any, Any], i: Any, x: Any, left: Any) -> None:
    """a[i], a[i + 1], … = x, or its first `left` lanes if that is not None."""
    if left is None:
        e.store(a, i, x)
    else:
        e.store_first(a, i, x, left)


class Watch:
    """What is seen while a row is combined: masks of lanes, each of which becomes a bit of a number."""

    def __init__(self, e: Emitter, bits: int) -> None:
        self.e, self.seen = e, [e.variable(constant(mask_of(e.v), 0)) for _ in range(bits)]

    def note(self, bit: int, mask: Any) -> None:
        """Lanes for which the bit 1 << `bit` is set."""
        builder = self.e.builder
        builder.store(builder.or_(builder.load(self.seen[bit]), mask), self.seen[bit])

    def look(self, a: Any, b: Any) -> None:
        """Bit 0: a cell is NaN."""
        self.note(0, self.e.builder.fcmp_unordered("uno", a, b))

    def look_at_zero(self, total: Any) -> None:
        """Bit 1: a result is a zero."""
        self.note(1, self.e.builder.fcmp_ordered("==", total, constant(self.e.v, 0)))

    def bits(self) -> Any:
        e, builder, found = self.e, self.e.builder, self.e.int(0)
        for bit, mask in enumerate(self.seen):
            whole = builder.bitcast(builder.load(mask), ir.IntType(e.n))
            some = builder.icmp_signed("!=", whole, ir.Constant(whole.type, 0))
            found = builder.or_(found, builder.select(some, e.int(1 << bit), e.int(0)))
        return found


def wide_emitter(context: Any, builder: Any, dtype: Any) -> Emitter:
    e = Emitter(context, builder, dtype)
    e.v = wide(dtype)
    e.n = e.v.lanes
    return e


def reading(
    e: Emitter, source: tuple[Any, Any], base: Any, places: tuple[Any, Any], nothing: Any
) -> Callable[[Any, Any, Any], Vectors]:
    """What `emit_row` reads: the rows that begin at `places`, counted from `base` on, and `nothing` behind their cells."""
    old = Vec(source[0].dtype, e.n)

    def read(q: Any, i: Any, left: Any) -> Vectors:
        place = e.add(base, e.cell(places, q), i)
        if left is None:
            return [e.load(source, place)]
        part = read_first(e.context, e.builder, *source, place, left, nothing, old)
        return [converted(e.builder, part, old, e.v)]

    return read


def combining(combine: Combine, watch: bool) -> Any:
    """near(x, base, rows, width, absent, y, at): y[at:at + width] = the windows of the `Rows` of x.

    There is at least one row. Places are counted from `base` on; a padded cell is `absent`. Arrays are addresses. Gives 0, or
    if `watch`, 1 if a NaN was seen, plus 2 if a result is a zero.
    """

    @intrinsic
    def near(typing: Any, x: Any, base: Any, rows: Any, width: Any, absent: Any, y: Any, at: Any) -> Any:
        def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            e = wide_emitter(context, builder, y.dtype)
            target = (y, args[5])
            places, low, high = (builder.extract_value(args[2], field) for field in range(len(Rows._fields)))
            padding = spread(builder, context.cast(builder, args[4], absent, e.v.dtype), e.n)
            nothing = spread(builder, context.cast(builder, args[4], absent, x.dtype), e.n)
            seen = Watch(e, 2 if watch else 0)

            def look(a: Any, b: Any) -> None:
                if watch:
                    seen.look(a, b)

            def keep(j: Any, totals: Vectors, left: Any) -> None:
                if watch:
                    seen.look_at_zero(totals[0])
                put(e, target, e.add(args[6], j), totals[0], left)

            read = reading(e, (x, args[0]), args[1], (rows.types[0], places), nothing)
            emit_row(e, combine, (low, high), args[3], [padding], read, look, keep)
            return seen.bits()

        whole = types.intp
        return whole(x, whole, rows, whole, absent, y, whole), emit

    return near
