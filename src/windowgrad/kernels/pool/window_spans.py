"""Windows along one row that stands in a buffer: `y[j]` combines `buffer[j·stride + t·step]` for the taps t.

Few taps are combined one by one. Many are taken as powers of two (`long_spans`), so a window of 64 costs four passes, not 64.
The buffer must have room for vectors that run past its end.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from windowgrad.kernels.pool.long_spans import Spans, add_long, join_long
from windowgrad.kernels.runtime.jit import helper
from windowgrad.kernels.vector.loops import Combine, Emitter
from windowgrad.kernels.vector.types import lane_order

UNROLLED = (3, 5, 7)
"""Numbers of taps that have a loop of their own where windows are more than two cells apart."""

DIRECT = 8
"""Up to so many taps are combined one by one."""


def depth_of(taps: int) -> int:
    """How many additions, one after the other, lie between a cell and the sum of its window.

    Of many taps, a part of 2^b cells has b within itself, and one for itself and for each larger part.
    """
    return taps - 1 if taps <= DIRECT else (taps - 1).bit_length()


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


def third_lanes(e: Emitter, vectors: list[Any]) -> Any:
    """Every third lane of three vectors."""
    lanes = [3 * lane for lane in range(e.n)]
    pair = e.builder.shuffle_vector(*vectors[:2], lane_order([lane if lane < 2 * e.n else 0 for lane in lanes]))
    order = lane_order([place if lane < 2 * e.n else lane - e.n for place, lane in enumerate(lanes)])
    return e.builder.shuffle_vector(pair, vectors[2], order)


def spanning(combine: Combine, twice: bool, many: bool = True) -> Any:
    """`twice` says that combining a cell twice is as good as once: `combine` is `larger`.
    `many` says that there may be more than DIRECT taps: without them a kernel compiles in a quarter of a second less.

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

            def few_taps(number: int, apart: int) -> None:
                with e.steps(e.int(0), out, e.int(e.n)) as j:
                    i = e.mul(j, apart)
                    total = entry(i, apart)
                    for tap in range(1, number):
                        total = combine(e, total, entry(e.add(i, e.mul(step, tap)), apart))
                    keep(j, total)

            def several(apart: int) -> None:
                with e.steps(e.int(0), out, e.int(e.n)) as j:
                    i = e.mul(j, apart)
                    total = e.variable(entry(i, apart))
                    with e.steps(e.add(i, step), e.add(i, e.mul(step, taps)), step) as k:
                        builder.store(combine(e, builder.load(total), entry(k, apart)), total)
                    keep(j, builder.load(total))

            def each_third(number: int | None) -> None:
                """Of three vectors that are combined at every cell, every third lane."""
                with e.steps(e.int(0), out, e.int(e.n)) as j:
                    starts = [e.add(e.mul(j, 3), place * e.n) for place in range(3)]
                    totals = [e.variable(e.load(source, start)) for start in starts]

                    def join(k: Any) -> None:
                        for start, total in zip(starts, totals, strict=True):
                            builder.store(combine(e, builder.load(total), e.load(source, e.add(start, k))), total)

                    for tap in range(1, number or 1):
                        join(e.mul(step, tap))
                    if number is None:
                        with e.steps(step, e.mul(step, taps), step) as k:
                            join(k)
                    keep(j, third_lanes(e, [builder.load(total) for total in totals]))

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
                """One output at a time, for the strides that have no shuffles; of few taps, without a loop over them."""

                def few(number: int) -> None:
                    with e.steps(e.int(0), out, e.int(1)) as j:
                        i = e.mul(j, stride)
                        total = e.cell(source, i)
                        for _ in range(number - 1):
                            i = e.add(i, step)
                            total = combine(e, total, e.cell(source, i))
                        e.put(target, e.add(at, j), total)

                def any_number() -> None:
                    with e.steps(e.int(0), out, e.int(1)) as j:
                        i = e.mul(j, stride)
                        total = e.variable(e.cell(source, i))
                        with e.steps(e.add(i, step), e.add(i, e.mul(step, taps)), step) as k:
                            builder.store(combine(e, builder.load(total), e.cell(source, k)), total)
                        e.put(target, e.add(at, j), builder.load(total))

                e.by_number(taps, UNROLLED, few, any_number)

            def long() -> None:
                s = Spans(e, source, target, at, out, taps, step, stride)
                join_long(s, combine) if twice else add_long(s)

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
                (all_of(one, of_three), lambda: few_taps(3, 1)),
                (all_of(one, e.equal(taps, 2)), lambda: few_taps(2, 1)),
                (all_of(two, of_three), lambda: few_taps(3, 2)),
                (all_of(two, e.equal(taps, 2), beside), lambda: side_by_side(2)),
                (all_of(e.equal(stride, 4), e.equal(taps, 4), beside), lambda: side_by_side(4)),
                (all_of(e.equal(stride, 8), e.equal(taps, 8), beside), lambda: side_by_side(8)),
                *([(e.less(e.int(DIRECT), taps), long)] if many and buffer.dtype == y.dtype else []),
                (one, lambda: several(1)),
                (two, lambda: several(2)),
                (all_of(e.equal(stride, 3), of_three), lambda: each_third(3)),
                (e.equal(stride, 3), lambda: each_third(None)),
                (e.less(e.int(0), stride), apart),
            )
            return context.get_dummy_value()

        whole = types.intp
        return types.void(buffer, whole, y, whole, whole, whole, whole, whole), emit

    return spans
