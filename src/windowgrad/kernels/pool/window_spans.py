"""Windows along one row that stands in a buffer: `y[j]` combines `buffer[j·stride + t·step]` for the taps t.

Few taps are combined one by one. Many are taken as powers of two: the buffer is combined with itself, 1, 2, 4, … taps ahead,
and a window put together from what its binary digits say; so a window of 64 costs seven passes, not 64. Where a cell may be
combined twice, as in a maximum, two overlapping powers make a window. The buffer must have room for vectors that run past
its end.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from windowgrad.kernels.runtime.jit import helper
from windowgrad.kernels.vector.loops import Combine, Emitter
from windowgrad.kernels.vector.types import call, kind, llvm, suffix

DIRECT = 8
"""Up to so many taps are combined one by one."""


def depth_of(taps: int) -> int:
    """How many additions, one after the other, lie between a cell and the sum of its window."""
    return taps - 1 if taps <= DIRECT else taps.bit_length() - 2 + taps.bit_count()


@helper
def uses_up(taps: int) -> Any:
    """Whether the spans leave something else in the buffer."""
    return taps > DIRECT


@helper
def in_pairs(taps: int, step: int, stride: int) -> Any:
    """Whether windows of more than two cells stand side by side and are combined as a tree, neighbours first."""
    return step == 1 and stride == taps and (taps == 4 or taps == 8)


def lanes_from(e: Emitter, a: Any, b: Any, first: int) -> Any:
    """Every second lane of a, b."""
    order = ir.Constant(ir.VectorType(ir.IntType(32), e.n), list(range(first, 2 * e.n, 2)))
    return e.builder.shuffle_vector(a, b, order)


def spanning(combine: Combine, twice: bool) -> Any:
    """`twice` says that combining a cell twice is as good as once: `combine` is `larger`.

    spans(buffer, first, y, at, out, taps, step, stride): y[at:at + out] = the windows of the buffer from `first` on.

    Both are addresses. The buffer is used up if it has y's dtype and there are more than DIRECT taps; see `uses_up`.
    """

    @intrinsic
    def spans(
        typing: Any, buffer: Any, first: Any, y: Any, at: Any, out: Any, taps: Any, step: Any, stride: Any
    ) -> Any:  # fmt: skip
        def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            e = Emitter(context, builder, buffer.dtype)
            source, target = (buffer, builder.gep(args[0], [args[1]])), (y, args[2])
            at, out, taps, step, stride = args[3:]

            def keep(j: Any, total: Any) -> None:
                """Store what is left of a row."""
                left = builder.sub(out, j)
                with builder.if_else(e.less(left, e.n), likely=False) as (last, whole):
                    with last:
                        e.store_first(target, e.add(at, j), total, left)
                    with whole:
                        e.store(target, e.add(at, j), total)

            def entry(i: Any, apart: int) -> Any:
                if apart == 1:
                    return e.load(source, i)
                return lanes_from(e, e.load(source, i), e.load(source, e.add(i, e.n)), 0)

            def three(apart: int) -> None:
                with e.steps(e.int(0), out, e.int(e.n)) as j:
                    i = e.mul(j, apart)
                    total = combine(e, entry(i, apart), entry(e.add(i, step), apart))
                    keep(j, combine(e, total, entry(e.add(i, step, step), apart)))

            def several(apart: int) -> None:
                with e.steps(e.int(0), out, e.int(e.n)) as j:
                    i = e.mul(j, apart)
                    total = e.variable(entry(i, apart))
                    with e.steps(e.add(i, step), e.add(i, e.mul(step, taps)), step) as k:
                        builder.store(combine(e, builder.load(total), entry(k, apart)), total)
                    keep(j, builder.load(total))

            def tree(i: Any, cells: int) -> Any:
                """n windows of 2, 4, 8 cells side by side: neighbours are combined again and again."""
                if cells == 1:
                    return e.load(source, i)
                a, b = tree(i, cells // 2), tree(e.add(i, e.n * cells // 2), cells // 2)
                return combine(e, lanes_from(e, a, b, 0), lanes_from(e, a, b, 1))

            def side_by_side(cells: int) -> None:
                with e.steps(e.int(0), out, e.int(e.n)) as j:
                    keep(j, tree(e.mul(j, cells), cells))

            def apart() -> None:
                """One cell at a time, for the strides that have no shuffle."""
                with e.steps(e.int(0), out, e.int(1)) as j:
                    i = e.mul(j, stride)
                    total = e.variable(e.cell(source, i))
                    with e.steps(e.add(i, step), e.add(i, e.mul(step, taps)), step) as k:
                        builder.store(combine(e, builder.load(total), e.cell(source, k)), total)
                    e.put(target, e.add(at, j), builder.load(total))

            def pick(start: Any) -> None:
                """y[at + j] = buffer[start + j·stride], combined with what stands there unless start is 0."""
                anew = e.equal(start, 0)
                whole = builder.select(e.equal(stride, 1), builder.and_(out, e.int(-e.n)), e.int(0))
                with e.steps(e.int(0), whole, e.int(e.n)) as j:
                    value, where = e.load(source, e.add(start, j)), e.add(at, j)
                    e.store(target, where, builder.select(anew, value, combine(e, e.load(target, where), value)))
                with e.steps(whole, out, e.int(1)) as j:
                    value, where = e.cell(source, e.add(start, e.mul(stride, j))), e.add(at, j)
                    e.put(target, where, builder.select(anew, value, combine(e, e.cell(target, where), value)))

            def doubled() -> None:
                """buffer[i] combines `power` taps from i on, and y the taps before `start`."""
                reach = e.add(e.mul(stride, builder.sub(out, e.int(1))), e.mul(step, builder.sub(taps, e.int(1))), 1)
                start, power = e.variable(e.int(0)), e.variable(step)
                with e.steps(e.int(1), e.add(taps, 1), lambda digit: builder.shl(digit, e.int(1))) as digit:
                    with builder.if_then(builder.icmp_signed("!=", builder.and_(taps, digit), e.int(0))):
                        pick(builder.load(start))
                        builder.store(e.add(builder.load(start), builder.load(power)), start)
                    ahead = builder.load(power)
                    with e.steps(e.int(0), builder.sub(reach, ahead), e.int(e.n)) as i:
                        e.store(source, i, combine(e, e.load(source, i), e.load(source, e.add(i, ahead))))
                    builder.store(builder.shl(ahead, e.int(1)), power)

            def joined(a: Any, b: Any) -> Any:
                """As `combine`, but never a masked store, which is slow. Windows with NaN and with ±0 are looked at again."""
                if kind(e.v) != "f":
                    return combine(e, a, b)
                return call(builder, f"llvm.maxnum.{suffix(e.v)}", llvm(e.v), [a, b])

            def overlapping() -> None:
                """buffer[i] combines the greatest power of two of taps from i on; two of them are a window."""
                reach = e.add(e.mul(stride, builder.sub(out, e.int(1))), e.mul(step, builder.sub(taps, e.int(1))), 1)
                power, half = e.variable(e.int(1)), builder.ashr(taps, e.int(1))
                with e.steps(e.int(1), e.add(half, 1), lambda digit: builder.shl(digit, e.int(1))) as digit:
                    ahead = e.mul(digit, step)
                    with e.steps(e.int(0), builder.sub(reach, ahead), e.int(e.n)) as i:
                        e.store(source, i, joined(e.load(source, i), e.load(source, e.add(i, ahead))))
                    builder.store(builder.shl(digit, e.int(1)), power)
                rest = e.mul(builder.sub(taps, builder.load(power)), step)
                whole = builder.select(e.equal(stride, 1), builder.and_(out, e.int(-e.n)), e.int(0))
                with e.steps(e.int(0), whole, e.int(e.n)) as j:
                    e.store(target, e.add(at, j), combine(e, e.load(source, j), e.load(source, e.add(j, rest))))
                with e.steps(whole, out, e.int(1)) as j:
                    i = e.mul(j, stride)
                    e.put(target, e.add(at, j), combine(e, e.cell(source, i), e.cell(source, e.add(i, rest))))

            def choose(*branches: tuple[Any, Any]) -> None:
                done = builder.append_basic_block("done")
                for test, write in branches:
                    yes, no = builder.append_basic_block("yes"), builder.append_basic_block("no")
                    builder.cbranch(test, yes, no)
                    builder.position_at_end(yes)
                    write()
                    builder.branch(done)
                    builder.position_at_end(no)
                builder.branch(done)
                builder.position_at_end(done)

            def all_of(*tests: Any) -> Any:
                total = tests[0]
                for test in tests[1:]:
                    total = builder.and_(total, test)
                return total

            one, two, of_three, beside = e.equal(stride, 1), e.equal(stride, 2), e.equal(taps, 3), e.equal(step, 1)
            choose(
                (all_of(one, of_three), lambda: three(1)),
                (all_of(two, of_three), lambda: three(2)),
                (all_of(two, e.equal(taps, 2), beside), lambda: side_by_side(2)),
                (all_of(e.equal(stride, 4), e.equal(taps, 4), beside), lambda: side_by_side(4)),
                (all_of(e.equal(stride, 8), e.equal(taps, 8), beside), lambda: side_by_side(8)),
                *([(e.less(e.int(DIRECT), taps), overlapping if twice else doubled)] if buffer.dtype == y.dtype else []),
                (one, lambda: several(1)),
                (two, lambda: several(2)),
                (e.less(e.int(0), stride), apart),
            )
            return context.get_dummy_value()

        whole = types.intp
        return types.void(buffer, whole, y, whole, whole, whole, whole, whole), emit

    return spans
