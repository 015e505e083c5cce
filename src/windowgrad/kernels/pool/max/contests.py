"""The greatest of several vectors and who has it, along rows in memory: the loops of `winner_rows`, as LLVM instructions.

Comparisons are strict and run in order, so that the first of equals wins; NaN wins against every number. Common numbers of
entries have a loop of their own, in which all addresses stand before it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba import types
from numba.extending import intrinsic

from windowgrad.kernels.vector.loops import Emitter
from windowgrad.kernels.vector.types import Vec, constant, kind, llvm, spread

COUNTS = (1, 2, 3, 5, 7)  # of entries that have a loop of their own

At = Callable[[Any], Callable[[Any], Any]]
"""From the number of an entry to a function from j to its vector there; what does not depend on j stands before the loop."""


def beats(e: Emitter, a: Any, b: Any) -> Any:
    """Where a comes before b in the order of maximum: it is greater, or NaN and b a number."""
    if kind(e.v) == "f":
        return e.builder.and_(e.builder.fcmp_ordered("ord", b, b), e.builder.fcmp_unordered(">", a, b))
    return (e.builder.icmp_signed if kind(e.v) == "i" else e.builder.icmp_unsigned)(">", a, b)


def contest(e: Emitter, count: Any, cells: Any, value: At, name: At, put: Callable[[Any, Any, Any], None]) -> None:
    """put(j, greatest, its name) for each vector of cells; there is at least one entry."""
    builder = e.builder

    def fixed(number: int) -> None:
        entries = [(value(e.int(k)), name(e.int(k))) for k in range(number)]
        with e.steps(e.int(0), cells, e.int(e.n)) as j:
            best, who = (entries[0][0](j), entries[0][1](j))
            for one_value, one_name in entries[1:]:
                other = one_value(j)
                better = beats(e, other, best)
                best, who = builder.select(better, other, best), builder.select(better, one_name(j), who)
            put(j, best, who)

    def many() -> None:
        with e.steps(e.int(0), cells, e.int(e.n)) as j:
            best, who = e.variable(value(e.int(0))(j)), e.variable(name(e.int(0))(j))
            builder.store(value(e.int(0))(j), best)
            builder.store(name(e.int(0))(j), who)
            with e.steps(e.int(1), count, e.int(1)) as k:
                other, old = value(k)(j), builder.load(best)
                better = beats(e, other, old)
                builder.store(builder.select(better, other, old), best)
                builder.store(builder.select(better, name(k)(j), builder.load(who)), who)
            put(j, builder.load(best), builder.load(who))

    done, more = builder.append_basic_block("done"), builder.append_basic_block("more")
    choice = builder.switch(count, more)
    for number in COUNTS:
        block = builder.append_basic_block(f"entries{number}")
        choice.add_case(e.int(number), block)
        builder.position_at_end(block)
        fixed(number)
        builder.branch(done)
    builder.position_at_end(more)
    many()
    builder.branch(done)
    builder.position_at_end(done)


def scalar_as(e: Emitter, scalar: Any) -> Any:
    """A 64-bit integer in every lane, as a name."""
    return spread(e.builder, scalar if e.v.dtype.bitwidth == 64 else e.builder.trunc(scalar, llvm(e.v).element), e.n)


@intrinsic
def first_along(typing: Any, row: Any, taps: Any, count: Any, cells: Any, values: Any, names: Any, to: Any) -> Any:
    """values[to:], names[to:] = the greatest of the taps, whose cells begin at taps.offset[k] of the row, and taps.name[k]."""

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        e, whole = Emitter(context, builder, row.dtype), Emitter(context, builder, names.dtype)
        lists = [(taps.types[k], builder.extract_value(args[1], k)) for k in range(2)]

        def value(k: Any) -> Any:
            start = e.cell(lists[0], k)
            return lambda j: e.load((row, args[0]), e.add(start, j))

        def name(k: Any) -> Any:
            same = scalar_as(whole, e.cell(lists[1], k))
            return lambda j: same

        def put(j: Any, best: Any, who: Any) -> None:
            e.store((values, args[4]), e.add(args[6], j), best)
            whole.store((names, args[5]), e.add(args[6], j), who)

        contest(e, args[2], args[3], value, name, put)
        return context.get_dummy_value()

    index = types.intp
    return types.void(row, taps, index, index, values, names, index), emit


@intrinsic
def first_of_rows(
    typing: Any, values: Any, names: Any, rows: Any, count: Any, cells: Any, y: Any, to: Any, found: Any, at: Any,
    begin: Any, stride: Any,
) -> Any:  # fmt: skip
    """found[at:] = the names of the greatest, and y[to:] the values if `to` ≥ 0; only `cells` of them are written.

    Entry k begins at rows.offset[k] of values and names; rows.name[k] is added to its names, and to 64-bit ones the place of
    the window, j · stride + begin.
    """

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        e, whole = Emitter(context, builder, values.dtype), Emitter(context, builder, names.dtype)
        lists = [(rows.types[k], builder.extract_value(args[2], k)) for k in range(2)]
        cells, to, at = args[4], args[6], args[8]
        wide = Emitter(context, builder, types.int64)
        lanes = Vec(types.int64, e.n)

        def value(k: Any) -> Any:
            start = e.cell(lists[0], k)
            return lambda j: e.load((values, args[0]), e.add(start, j))

        def name(k: Any) -> Any:
            start, more = e.cell(lists[0], k), scalar_as(whole, e.cell(lists[1], k))
            return lambda j: builder.add(whole.load((names, args[1]), e.add(start, j)), more)

        def codes(j: Any, who: Any) -> Any:
            """As wide as `found`."""
            bits = found.dtype.bitwidth
            if bits < names.dtype.bitwidth:
                return builder.trunc(who, llvm(Vec(found.dtype, e.n)))
            if bits > names.dtype.bitwidth:
                who = builder.sext(who, llvm(lanes))
            begins = e.add(args[9], e.mul(j, args[10]))
            apart = builder.mul(steps_of(lanes), spread(builder, args[10], e.n))
            return builder.add(who, builder.add(apart, spread(builder, begins, e.n)))

        def put(j: Any, best: Any, who: Any) -> None:
            left = builder.sub(cells, j)
            some = Vec(found.dtype, e.n)
            names_out = codes(j, who)
            with builder.if_else(e.less(left, e.n), likely=False) as (last, full):
                with last:
                    with builder.if_then(e.less(e.int(-1), to)):
                        e.store_first((y, args[5]), e.add(to, j), best, left)
                    store_first(e, (found, args[7]), e.add(at, j), names_out, left, some)
                with full:
                    with builder.if_then(e.less(e.int(-1), to)):
                        e.store((y, args[5]), e.add(to, j), best)
                    builder.store(names_out, wide.place((found, args[7]), e.add(at, j), some)).align = some.dtype.bitwidth // 8

        contest(e, args[3], cells, value, name, put)
        return context.get_dummy_value()

    index = types.intp
    return types.void(values, names, rows, index, index, y, index, found, index, index, index), emit


def steps_of(v: Vec) -> Any:
    """0, 1, 2, … in the lanes."""
    made = constant(v, 0)
    made.constant = [made.type.element(lane) for lane in range(v.lanes)]
    return made


def store_first(e: Emitter, a: Any, i: Any, x: Any, count: Any, v: Vec) -> None:
    """The first lanes, one by one: few lines of LLVM where a CPU has no masked stores of bytes."""
    for lane in range(v.lanes - 1):
        with e.builder.if_then(e.less(e.int(lane), count)):
            e.builder.store(e.builder.extract_element(x, e.int(lane)), e.builder.gep(a[1], [e.add(i, lane)]))
