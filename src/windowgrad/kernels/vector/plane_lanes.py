"""Planes side by side: one plane in each lane of a wide vector, so that a vector holds one cell of many planes.

    plane 0   a b c d …                       place 0    a e i …
    plane 1   e f g h …     `gather_planes`   place 1    b f j …     a vector for each cell; a product with a vector of
    plane 2   i j k l …     `put_planes`      place 2    c g k …     weights, one of each plane, needs no shuffle
    …                                         …

Used by conv/depthwise/lanes.py and lanes_weight.py. All places are addresses.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from windowgrad.kernels.vector.loops import Emitter
from windowgrad.kernels.vector.masked import INDEX, clip, read_masked, stay_one, write, write_masked
from windowgrad.kernels.vector.registers import wide
from windowgrad.kernels.vector.tiles import Extremes
from windowgrad.kernels.vector.transpose import turned
from windowgrad.kernels.vector.types import call, constant, first_lanes, llvm, read, spread, suffix

RUN = 8
"""Sums that are held in registers: those of a run of pixels, or of taps."""


@intrinsic
def gather_planes(typing: Any, to: Any, table: Any, x: Any, far: Any, planes: Any, count: Any) -> Any:
    """The vector at place table[c] of `to` = cell c of all planes, for c < count.

    Planes begin at x and are `far` apart. There are `planes` of them, at least 1; lanes past the last repeat it.
    """
    v = wide(to.dtype)

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        e, (into, places, cells, distance, number, end) = Emitter(context, builder, to.dtype), args
        last = builder.sub(number, INDEX(1))
        starts = []
        for lane in range(v.lanes):
            real = builder.select(e.less(INDEX(lane), last), INDEX(lane), last)
            starts.append(builder.mul(real, distance))

        def store(c: Any, lane: int, column: Any) -> None:
            place = builder.load(builder.gep(places, [e.add(c, lane)]))
            write(context, builder, to, into, e.mul(place, v.lanes), column, v)

        whole = builder.and_(end, INDEX(-v.lanes))
        with e.steps(INDEX(0), whole, INDEX(v.lanes)) as c:
            rows = [read(context, builder, x, cells, builder.add(c, start), v) for start in starts]
            for lane, column in enumerate(turned(builder, rows, v)):
                store(c, lane, column)
        left = builder.sub(end, whole)
        with builder.if_then(e.less(INDEX(0), left)):
            mask = first_lanes(builder, v, left)
            rows = [read_masked(context, builder, x, cells, builder.add(whole, start), mask, v) for start in starts]
            for lane, column in enumerate(turned(builder, rows, v)):
                with builder.if_then(e.less(INDEX(lane), left)):
                    store(whole, lane, column)
        return context.get_dummy_value()

    return types.void(to, table, x, types.intp, types.intp, types.intp), emit


@intrinsic
def put_planes(typing: Any, y: Any, far: Any, planes: Any, sums: Any, count: Any, adds: Any, least: Any, most: Any) -> Any:
    """Cell c of each plane = its lane of the c-th vector of sums, or that added, for c < count, from `least` to `most`.

    Gives the strange lanes of the sums before they are limited.

    Planes begin at y and are `far` apart; there are `planes` of them. Whole squares of sums are read.
    """
    v = wide(y.dtype)

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        e, (into, distance, number, source, end, adding, *limits) = Emitter(context, builder, y.dtype), args
        low, high = (spread(builder, limit, v.lanes) for limit in limits)
        seen = Extremes(builder, v, 2)
        more = builder.icmp_signed("!=", adding, INDEX(0))

        def square(c: Any, mask: Any, column: int) -> None:
            rows = [read(context, builder, sums, source, e.mul(e.add(c, i), v.lanes), v) for i in range(v.lanes)]
            for lane, row in enumerate(turned(builder, rows, v)):
                with builder.if_then(e.less(INDEX(lane), number)):
                    at, total = builder.add(c, builder.mul(distance, INDEX(lane))), e.variable(row)
                    with builder.if_then(more):
                        there = read_masked(context, builder, y, into, at, mask, v)
                        builder.store(builder.fadd(row, there), total)
                    found = builder.load(total)
                    write_masked(context, builder, y, into, at, clip(builder, found, low, high), mask, v)
                    seen.add(column, found)

        every = ir.Constant(ir.VectorType(ir.IntType(1), v.lanes), [1] * v.lanes)
        whole = builder.and_(end, INDEX(-v.lanes))
        with e.steps(INDEX(0), whole, INDEX(v.lanes)) as c:
            square(c, every, 0)
        left = builder.sub(end, whole)
        rest = first_lanes(builder, v, left)
        with builder.if_then(e.less(INDEX(0), left)):
            square(whole, rest, 1)
        return seen.strange([every, rest])

    return types.int64(y, types.intp, types.intp, sums, types.intp, types.intp, y.dtype, y.dtype), emit


def by_size(builder: Any, count: Any, emit: Any) -> None:
    """Instructions for each count from 1 to RUN, `emit(count)`, of which those of the given one are run."""
    done = builder.append_basic_block("run.done")
    sizes = [builder.append_basic_block(f"run.{size}") for size in range(1, RUN + 1)]
    choice = builder.switch(count, sizes[-1])
    for size, block in enumerate(sizes, 1):
        if size < RUN:
            choice.add_case(INDEX(size), block)
        builder.position_at_end(block)
        emit(size)
        builder.branch(done)
    builder.position_at_end(done)


@intrinsic
def sum_run(typing: Any, to: Any, step: Any, box: Any, taps: Any, number: Any, w: Any, extra: Any, count: Any) -> Any:
    """The i-th vector of `to`, which are `step` apart = extra + the sum over taps of w · box, for i < count ≤ RUN.

    Of `number` pairs at `taps`, the first says which vector of the box the first pixel meets, the i-th one meets the i-th after
    it; the second says which vector of w it is. The vector at `extra` is added last.
    """
    v = wide(to.dtype)

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        e, (into, apart, cells, pairs, many, weight, bias, some) = Emitter(context, builder, to.dtype), args

        def run(size: int) -> None:
            totals = [e.variable(constant(v, 0.0)) for _ in range(size)]
            with e.steps(INDEX(0), many, INDEX(1)) as t:
                place, which = (e.mul(builder.load(builder.gep(pairs, [e.add(e.mul(t, 2), i)])), v.lanes) for i in range(2))
                factor = read(context, builder, w, weight, which, v)
                for i, total in enumerate(totals):
                    met = read(context, builder, box, cells, e.add(place, i * v.lanes), v)
                    added = call(builder, f"llvm.fma.{suffix(v)}", llvm(v), [factor, met, builder.load(total)])
                    builder.store(added, total)
                stay_one(builder)
            last = read(context, builder, w, bias, INDEX(0), v)
            for i, total in enumerate(totals):
                at = builder.mul(apart, INDEX(i * v.lanes))
                write(context, builder, to, into, at, builder.fadd(builder.load(total), last), v)

        by_size(builder, some, run)
        return context.get_dummy_value()

    ints = types.intp
    return types.void(to, ints, box, taps, ints, w, extra, ints), emit


@intrinsic
def add_run(typing: Any, sums: Any, taps: Any, number: Any, box: Any, g: Any, count: Any) -> Any:
    """The vector of sums of each of `number` ≤ RUN taps += the products of the vectors of g and of the box, for `count` pixels.

    Pairs at `taps` as in `sum_run`; the second says which vector of the sums it is.
    """
    v = wide(sums.dtype)

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        e, (into, pairs, many, cells, pixels, some) = Emitter(context, builder, sums.dtype), args

        def run(size: int) -> None:
            read_pair = [
                [e.mul(builder.load(builder.gep(pairs, [INDEX(2 * t + i)])), v.lanes) for i in (0, 1)] for t in range(size)
            ]
            totals = [e.variable(read(context, builder, sums, into, which, v)) for _, which in read_pair]
            with e.steps(INDEX(0), e.mul(some, v.lanes), INDEX(v.lanes)) as i:
                factor = read(context, builder, g, pixels, i, v)
                for (place, _), total in zip(read_pair, totals, strict=True):
                    met = read(context, builder, box, cells, builder.add(place, i), v)
                    added = call(builder, f"llvm.fma.{suffix(v)}", llvm(v), [factor, met, builder.load(total)])
                    builder.store(added, total)
                stay_one(builder)
            for (_, which), total in zip(read_pair, totals, strict=True):
                write(context, builder, sums, into, which, builder.load(total), v)

        by_size(builder, many, run)
        return context.get_dummy_value()

    return types.void(sums, taps, types.intp, box, g, types.intp), emit
