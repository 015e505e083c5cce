"""Windows of two or three columns two cells apart: a row of outputs in registers.

For windows along rows, of any padding, that `is_second` accepts. The rows that an output row sees are combined vector by
vector, two at a time, of which one shuffle takes the even lanes and one the odd ones:

    cells     a b | a b | a b | a b | …        even   a a a a      the third column of a window is the even lane after its own:
                                               odd    b b b b      one of this vector, or the first of the next two

Cells that are not there, before the row and behind it, are left out by masked loads, so there is no buffer. The mean divides
in the same loop. Measured on one thread, windows of 3 over 8×16×100003: the maximum takes 2.3 ms and the mean 2.4, where moving
the bytes takes 2.1; with `fold_rows` and `window_spans` they took 5.1 and 6.5. 3×3 windows on planes of 512 columns take 0.7 of
the time; on planes of 112, the maximum took 1.2 times as long.
"""

from __future__ import annotations

from typing import Any

from numba import types
from numba.extending import intrinsic

from windowgrad.kernels.pool.packed import Rows
from windowgrad.kernels.pool.plan import Plan
from windowgrad.kernels.vector.loops import Combine, Emitter, mask_of
from windowgrad.kernels.vector.registers import wide
from windowgrad.kernels.vector.types import constant, first_lanes, lane_order, read_some, spread

COUNTS = (1, 2, 3)  # of rows that have a loop of their own

MANY = 256
"""The least outputs of a row: in shorter rows, the cells at its ends cost as much as a buffer does."""


def is_second(p: Plan) -> bool:
    """Whether windows are of two or three columns side by side, two cells apart, and many in a row."""
    return p.kernel in (2, 3) and p.stride == 2 and p.step == 1 and p.run == 1 and p.out >= MANY


def seconding(combine: Combine, watch: bool) -> Any:
    """second(x, base, rows, width, absent, taps, first, out, by, y, at): y[at:at + out] = the windows of the `Rows` of x.

    The first of them begins with cell `first`, which may be before the row; the rows have cells from 0 to `width`. A cell that
    is not there is `absent`. There is at least one row, and places are counted from `base` on. Results are divided by `by`, one
    number for each, unless that is None. Arrays are addresses, all of one dtype of floats.

    Gives two masks of lanes. If `watch`: where a NaN was seen, and where a result is a zero. Else the first says where a result
    was not finite before it was divided.
    """

    @intrinsic
    def second(
        typing: Any, x: Any, base: Any, rows: Any, width: Any, absent: Any, taps: Any, first: Any, out: Any, by: Any,
        y: Any, at: Any,
    ) -> Any:  # fmt: skip
        v = wide(y.dtype)

        def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            e = Emitter(context, builder, y.dtype)
            e.v, e.n = v, v.lanes
            source, divisors, target = (x, args[0]), (by, args[8]), (y, args[9])
            base, width, (taps, first, out), at = args[1], args[3], args[5:8], args[10]
            places, low, high = (builder.extract_value(args[2], field) for field in range(len(Rows._fields)))
            nothing = spread(builder, context.cast(builder, args[4], absent, v.dtype), e.n)
            strange, zeros = (e.variable(constant(mask_of(v), 0)) for _ in range(2))
            evens, odds, one, other = (e.variable(nothing) for _ in range(4))

            def add_to(mask: Any, seen: Any) -> None:
                builder.store(builder.or_(builder.load(mask), seen), mask)

            def place(q: Any, i: Any) -> Any:
                return e.add(base, e.cell((rows.types[0], places), q), i)

            def whole(q: Any, i: Any) -> tuple[Any, Any]:
                begin = place(q, i)
                return e.load(source, begin), e.load(source, e.add(begin, e.n))

            def some(q: Any, i: Any) -> tuple[Any, Any]:
                begin, found = place(q, i), []
                for number in range(2):
                    cell = e.add(i, number * e.n)
                    missing = first_lanes(builder, v, builder.sub(e.int(0), cell))
                    there = builder.and_(builder.not_(missing), first_lanes(builder, v, builder.sub(width, cell)))
                    found.append(read_some(context, builder, *source, e.add(begin, number * e.n), there, nothing, v))
                return found[0], found[1]

            def look(cells: tuple[Any, Any]) -> tuple[Any, Any]:
                if watch:
                    add_to(strange, builder.fcmp_unordered("uno", *cells))
                return cells

            def keep(cells: tuple[Any, Any]) -> None:
                builder.store(cells[0], one)
                builder.store(cells[1], other)

            def joined(a: tuple[Any, Any], b: tuple[Any, Any]) -> tuple[Any, Any]:
                return combine(e, a[0], b[0]), combine(e, a[1], b[1])

            def fold_some(count: int, i: Any) -> None:
                total = look(whole(low, i))
                for q in range(1, count):
                    total = joined(total, look(whole(e.add(low, q), i)))
                keep(total)

            def fold(i: Any, load: Any) -> None:
                keep(look(load(low, i)))
                with e.steps(e.add(low, 1), high, e.int(1)) as q:
                    keep(joined((builder.load(one), builder.load(other)), look(load(q, i))))

            def each_second(begin: int) -> Any:
                order = lane_order(range(begin, 2 * e.n, 2))
                return builder.shuffle_vector(builder.load(one), builder.load(other), order)

            def finish(j: Any, following: Any) -> None:
                even, left = builder.load(evens), builder.sub(out, j)
                total = e.variable(combine(e, even, builder.load(odds)))
                with builder.if_then(e.equal(taps, 3), likely=True):
                    third = builder.shuffle_vector(even, following, lane_order(range(1, e.n + 1)))
                    builder.store(combine(e, builder.load(total), third), total)
                result = builder.load(total)
                if watch:
                    add_to(zeros, builder.fcmp_ordered("==", result, constant(v, 0)))
                last = e.less(left, e.n)
                if by is not types.none:
                    result = builder.fadd(result, constant(v, 0))  # of −0.0 alone a sum is no −0.0
                    add_to(strange, builder.fcmp_unordered("uno", builder.fsub(result, result), constant(v, 0)))
                    result = builder.fdiv(result, e.load(divisors, j))
                with builder.if_else(last, likely=False) as (part, all_of_it):
                    with part:
                        e.store_first(target, e.add(at, j), result, left)
                    with all_of_it:
                        e.store(target, e.add(at, j), result)

            with e.steps(e.int(-e.n), out, e.int(e.n)) as j:
                i = e.add(first, e.mul(e.add(j, e.n), 2))
                inside = builder.and_(e.less(e.int(-1), i), e.less(e.add(i, 2 * e.n - 1), width))
                with builder.if_else(inside, likely=True) as (all_there, at_an_end):
                    with all_there:
                        e.by_number(builder.sub(high, low), COUNTS, lambda count: fold_some(count, i), lambda: fold(i, whole))
                    with at_an_end:
                        fold(i, some)
                following = each_second(0)
                with builder.if_then(e.less(e.int(-1), j), likely=True):
                    finish(j, following)
                builder.store(following, evens)
                builder.store(each_second(1), odds)
            return context.make_tuple(builder, signature.return_type, [builder.load(strange), builder.load(zeros)])

        number, masks = types.intp, types.UniTuple(mask_of(v), 2)
        return masks(x, number, rows, number, absent, number, number, number, by, y, number), emit

    return second
