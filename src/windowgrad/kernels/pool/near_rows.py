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


def is_near(p: Plan) -> bool:
    """Whether windows are of three columns a cell apart, and there are as many as cells in a row, which is one piece."""
    return p.kernel == 3 and p.stride == p.step == p.before == 1 and p.out == p.width and p.pieces == p.outer and p.run == 1


def combining(combine: Combine, watch: bool) -> Any:
    """near(x, base, rows, width, absent, y, at): y[at:at + width] = the windows of the `Rows` of x.

    There is at least one row. Places are counted from `base` on; a padded cell is `absent`. Arrays are addresses. Gives 0, or
    if `watch`, 1 if a NaN was seen, plus 2 if a result is a zero.
    """

    @intrinsic
    def near(typing: Any, x: Any, base: Any, rows: Any, width: Any, absent: Any, y: Any, at: Any) -> Any:
        def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            e = Emitter(context, builder, y.dtype)
            e.v = wide(y.dtype)
            e.n, old = e.v.lanes, Vec(x.dtype, e.v.lanes)
            source, target, (base, width, at) = (x, args[0]), (y, args[5]), (args[1], args[3], args[6])
            places, low, high = (builder.extract_value(args[2], field) for field in range(len(Rows._fields)))
            padding = spread(builder, context.cast(builder, args[4], absent, y.dtype), e.n)
            nothing = spread(builder, context.cast(builder, args[4], absent, x.dtype), e.n)
            strange, zeros = (e.variable(constant(mask_of(e.v), 0)) for _ in range(2))
            before, now, after = (e.variable(padding) for _ in range(3))

            def place(q: Any, i: Any) -> Any:
                return e.add(base, e.cell((rows.types[0], places), q), i)

            def look(a: Any, b: Any) -> None:
                if watch:
                    builder.store(builder.or_(builder.load(strange), builder.fcmp_unordered("uno", a, b)), strange)

            def fold(i: Any) -> None:
                def some(count: int) -> None:
                    cells = [e.load(source, place(e.add(low, q), i)) for q in range(count)]
                    total = cells[0]
                    for cell in cells[1:]:
                        total = combine(e, total, cell)
                    look(cells[0], cells[1])
                    if count == 3:
                        look(cells[2], cells[2])
                    builder.store(total, after)

                def any_number() -> None:
                    one_by_one(lambda q: e.load(source, place(q, i)))

                e.by_number(builder.sub(high, low), COUNTS, some, any_number)

            def one_by_one(load: Any) -> None:
                first = load(low)
                look(first, first)
                builder.store(first, after)
                with e.steps(e.add(low, 1), high, e.int(1)) as q:
                    cells = load(q)
                    look(cells, cells)
                    builder.store(combine(e, builder.load(after), cells), after)

            def rest(i: Any, left: Any) -> None:
                def load(q: Any) -> Any:
                    part = read_first(context, builder, *source, place(q, i), left, nothing, old)
                    return converted(builder, part, old, e.v)

                one_by_one(load)

            def moved(a: Any, b: Any, by: int) -> Any:
                order = ir.Constant(ir.VectorType(ir.IntType(32), e.n), list(range(by, by + e.n)))
                return builder.shuffle_vector(a, b, order)

            with e.steps(e.int(-e.n), width, e.int(e.n)) as j:
                i = e.add(j, e.n)
                left = builder.sub(width, i)
                builder.store(padding, after)
                with builder.if_else(e.less(left, e.n), likely=False) as (last, whole):
                    with last, builder.if_then(e.less(e.int(0), left)):
                        rest(i, left)
                    with whole:
                        fold(i)
                with builder.if_then(e.less(e.int(-1), j)):
                    a, b, c = (builder.load(each) for each in (before, now, after))
                    total = combine(e, combine(e, moved(a, b, e.n - 1), b), moved(b, c, 1))
                    if watch:
                        zero = builder.fcmp_ordered("==", total, constant(e.v, 0))
                        builder.store(builder.or_(builder.load(zeros), zero), zeros)
                    with builder.if_else(e.less(left, 0), likely=False) as (last, whole):
                        with last:
                            e.store_first(target, e.add(at, j), total, builder.sub(width, j))
                        with whole:
                            e.store(target, e.add(at, j), total)
                builder.store(builder.load(now), before)
                builder.store(builder.load(after), now)

            def seen(mask: Any, bit: int) -> Any:
                whole = builder.bitcast(builder.load(mask), ir.IntType(e.n))
                return builder.select(builder.icmp_signed("!=", whole, ir.Constant(whole.type, 0)), e.int(bit), e.int(0))

            return builder.or_(seen(strange, 1), seen(zeros, 2)) if watch else e.int(0)

        whole = types.intp
        return whole(x, whole, rows, whole, absent, y, whole), emit

    return near
