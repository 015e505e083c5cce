"""Windows of many taps along a row in a buffer: the buffer is combined with itself, and windows are made of powers of two.

Pass q turns entries that combine 4^q taps into entries that combine four times as many: (a + b) + (c + d), which is two
doublings with nothing stored between them. A sum takes its window apart as the binary digits of `taps` say, the lowest first;
pass q adds the parts of two digits while it has their entries in registers. In a maximum a cell may count twice: four
entries that overlap make a window, at the end. So a window of 1001 taps takes five passes.

The passes run in waves. A wave does one stretch of the row in every pass, as far behind that of the pass before as it
needs; so a pass finds its entries in the nearest cache. The order of a sum depends on `taps` alone, not on a stretch or
a place in the row. Measured for a mean over 1001 float32: doublings one by one, over a whole piece, take twice the time; asking
memory early for the next piece made no clear difference.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from llvmlite import ir

from windowgrad.kernels.vector.loops import Combine, Emitter, plus
from windowgrad.kernels.vector.types import call, kind, llvm, spread, suffix

WAVE = 8192
"""Bytes of a row that a pass does in one wave."""

WHOLE_ROW = 1 << 48
"""More entries than a row has."""


@dataclass(frozen=True)
class Spans:
    """The arguments of `spans`: `source` and `target` are (type, value) of addresses of one dtype, the others are integers."""

    e: Emitter
    source: tuple[Any, Any]
    target: tuple[Any, Any]
    at: Any
    out: Any
    taps: Any
    step: Any
    stride: Any

    @property
    def reach(self) -> Any:
        """How many entries the windows see."""
        e, one = self.e, self.e.int(1)
        return e.add(e.mul(self.stride, e.builder.sub(self.out, one)), e.mul(self.step, e.builder.sub(self.taps, one)), 1)

    @property
    def in_vectors(self) -> Any:
        """How many outputs are in whole vectors; none where the windows are further apart than one cell."""
        b = self.e.builder
        return b.select(self.e.equal(self.stride, 1), b.and_(self.out, self.e.int(-self.e.n)), self.e.int(0))

    def entries(self, i: Any, apart: Any, count: int) -> list[Any]:
        """`count` vectors of the buffer."""
        return [self.e.load(self.source, self.e.add(i, self.e.mul(apart, k))) for k in range(count)]


@dataclass(frozen=True)
class Pass:
    """Pass q in one wave: its stretch is `low` to `high`, `power` is step · 4^q, and `left` is taps ÷ 4^q."""

    low: Any
    high: Any
    power: Any
    left: Any
    is_last: Any


def least(e: Emitter, a: Any, b: Any) -> Any:
    return e.builder.select(e.less(a, b), a, b)


def most(e: Emitter, a: Any, b: Any) -> Any:
    return e.builder.select(e.less(a, b), b, a)


def in_waves(s: Spans, begin: Callable[[], Callable[[Pass], None]]) -> None:
    """All passes over all stretches. `begin` is called at the start of a wave, and gives what a pass does.

    A pass reads less than four powers ahead, so its stretch is that much behind. Stretches are multiples of a vector. Where
    windows are further apart than one cell, there is one wave.
    """
    e, builder = s.e, s.e.builder
    stretch = builder.select(e.equal(s.stride, 1), e.int(WAVE * 8 // e.v.dtype.bitwidth), e.int(WHOLE_ROW))
    end, done = e.variable(e.int(0)), e.variable(e.int(0))
    with e.steps(e.int(0), s.out, lambda _: builder.load(done)):
        builder.store(e.add(builder.load(end), stretch), end)
        to, left, work = e.variable(builder.load(end)), e.variable(s.taps), begin()
        with e.steps(s.step, e.add(e.mul(s.step, s.taps), 1), lambda power: e.mul(power, 4)) as power:
            high, parts = builder.load(to), builder.load(left)
            work(Pass(most(e, builder.sub(high, stretch), e.int(0)), high, power, parts, e.less(parts, 4)))
            builder.store(high, done)
            behind = builder.and_(e.add(e.mul(power, 16), e.n - 1), e.int(-e.n))
            builder.store(builder.sub(high, behind), to)
            builder.store(builder.lshr(parts, e.int(2)), left)


# --- sums --------------------------------------------------------------------------------------------------------


def add_long(s: Spans) -> None:
    """y = the sums.

    The parts of a window lie one behind the other, so what comes before a part is not needed after it. Each pass moves the
    entries back by what the pass before has added: entry `first` + j belongs to output j, and what a pass makes is stored
    at j, in line with the vectors of y. Where `power` is a multiple of 4 vectors they are in line already, and entries stay in
    place, so that outputs a power apart can be done together: they read and write the same entries, and no others do. `taken`
    is how much the window has been given in all.
    """
    e, builder = s.e, s.e.builder
    reach, in_vectors, none = s.reach, s.in_vectors, e.int(0)

    def begin() -> Callable[[Pass], None]:
        taken, first = e.variable(none), e.variable(none)

        def work(p: Pass) -> None:
            before, start = builder.load(taken), builder.load(first)
            stays = e.equal(builder.and_(p.power, e.int(4 * e.n - 1)), 0)
            to = builder.select(stays, start, none)
            digits, anew = builder.and_(p.left, e.int(3)), e.equal(before, 0)
            adds = builder.icmp_signed("!=", digits, none)
            whole, out = builder.select(adds, in_vectors, none), builder.select(adds, s.out, none)
            add_vectors(s, p, start, to, stays, digits, anew, least(e, p.high, whole))
            add_cells(s, p, start, digits, anew, most(e, p.low, whole), least(e, p.high, out))
            limit = builder.sub(builder.sub(reach, before), e.mul(p.power, 3))
            stop = least(e, p.high, builder.select(p.is_last, none, limit))
            with e.steps(most(e, p.low, whole), stop, e.int(e.n)) as j:
                e.store(s.source, e.add(j, to), four(e, s.entries(e.add(j, start), p.power, 4)))
            ahead = e.mul(digits, p.power)
            builder.store(e.add(to, ahead), first)
            builder.store(e.add(before, ahead), taken)

        return work

    in_waves(s, begin)


def four(e: Emitter, parts: list[Any]) -> Any:
    a, b, c, d = parts
    return plus(e, plus(e, a, b), plus(e, c, d))


def add_vectors(s: Spans, p: Pass, start: Any, to: Any, stays: Any, digits: Any, anew: Any, stop: Any) -> None:
    """The parts of two digits to the outputs p.low to `stop`, and in every pass but the last the next entries too.

    Four vectors of outputs, a power apart, are done together if they share entries with no others: where entries stay in
    place, or a power is one vector, so that the four are neighbours and all is read before anything is stored.
    """
    e, builder = s.e, s.e.builder
    integer = ir.IntType(e.v.dtype.bitwidth)
    lanes, sign = ir.VectorType(integer, e.n), ir.Constant(integer, 1 << integer.width - 1)
    zero, ones = ir.Constant(integer, 0), ir.Constant(integer, -1)
    mask, bits = (spread(builder, builder.select(anew, *choice), e.n) for choice in ((zero, ones), (sign, zero)))

    def sum_so_far(where: Any) -> Any:
        """What y holds, or −0.0, which changes nothing that is added to it. A select would become a branch."""
        held = builder.bitcast(e.load(s.target, where), lanes)
        return builder.bitcast(builder.or_(builder.and_(held, mask), bits), llvm(e.v))

    shared = builder.or_(stays, e.equal(p.power, e.n))

    def do(j: Any, low: int, high: int, goes_on: int, outputs: int) -> None:
        """`outputs` vectors of outputs, `power` apart: they share entries and sums of two."""
        count = outputs + (3 if goes_on else low + 2 * high - 1)
        parts = s.entries(e.add(j, start), p.power, count)
        pairs = [plus(e, a, b) for a, b in pairwise(parts)]
        for k in range(outputs):
            i = e.add(j, e.mul(p.power, k))
            where = e.add(s.at, i)
            if goes_on:
                e.store(s.source, e.add(i, to), plus(e, pairs[k], pairs[k + 2]))
            total = sum_so_far(where)
            if low:
                total = plus(e, total, parts[k])
            if high:
                total = plus(e, total, pairs[k + low])
            e.store(s.target, where, total)

    def loop(low: int, high: int, goes_on: int) -> None:
        done, four_powers = e.variable(p.low), e.mul(p.power, 4)
        last = builder.select(shared, e.add(builder.sub(stop, four_powers), 1), p.low)
        with e.steps(p.low, last, four_powers) as g:
            with e.steps(g, e.add(g, p.power), e.int(e.n)) as j:
                do(j, low, high, goes_on, 4)
            builder.store(e.add(g, four_powers), done)
        with e.steps(builder.load(done), stop, e.int(e.n)) as j:
            do(j, low, high, goes_on, 1)

    done = builder.append_basic_block("done")
    choice = builder.switch(builder.select(p.is_last, p.left, builder.or_(digits, e.int(4))), done)
    for case in (1, 2, 3, 5, 6, 7):
        block = builder.append_basic_block(f"digits{case}")
        choice.add_case(e.int(case), block)
        builder.position_at_end(block)
        loop(case & 1, case >> 1 & 1, case >> 2)
        builder.branch(done)
    builder.position_at_end(done)


def add_cells(s: Spans, p: Pass, start: Any, digits: Any, anew: Any, low: Any, high: Any) -> None:
    """The same for the outputs `low` to `high`, one by one. The part of a digit that is 0 is read where an entry is."""
    e, builder = s.e, s.e.builder
    has_low, has_high = builder.trunc(digits, ir.IntType(1)), e.less(e.int(1), digits)
    ahead = builder.select(has_high, p.power, e.int(0))
    skip = builder.select(has_low, ahead, e.int(0))
    with e.steps(low, high, e.int(1)) as j:
        i, where = e.add(start, e.mul(s.stride, j)), e.add(s.at, j)
        one, two, three = (e.cell(s.source, place) for place in (i, e.add(i, skip), e.add(i, skip, ahead)))
        total = builder.select(anew, ir.Constant(one.type, -0.0), e.cell(s.target, where))
        total = builder.select(has_low, plus(e, total, one), total)
        e.put(s.target, where, builder.select(has_high, plus(e, total, plus(e, two, three)), total))


# --- maxima ------------------------------------------------------------------------------------------------------


def join_long(s: Spans, combine: Combine) -> None:
    """y = the maxima: with entries of `power` taps, fewer than 4 · power taps are four entries that overlap."""
    e, builder = s.e, s.e.builder
    reach, in_vectors, none = s.reach, s.in_vectors, e.int(0)

    def joined(a: Any, b: Any) -> Any:
        """As `combine`, but never a masked store, which is slow. Windows with NaN and with ±0 are looked at again."""
        if kind(e.v) != "f":
            return combine(e, a, b)
        return call(builder, f"llvm.maxnum.{suffix(e.v)}", llvm(e.v), [a, b])

    def work(p: Pass) -> None:
        stop = least(e, p.high, builder.select(p.is_last, none, builder.sub(reach, e.mul(p.power, 3))))
        with e.steps(p.low, stop, e.int(e.n)) as j:
            a, b, c, d = s.entries(j, p.power, 4)
            e.store(s.source, j, joined(joined(a, b), joined(c, d)))
        with builder.if_then(p.is_last):
            rest = builder.sub(e.mul(s.taps, s.step), p.power)
            second = least(e, p.power, rest)
            places = none, second, builder.sub(rest, second), rest
            with e.steps(p.low, least(e, p.high, in_vectors), e.int(e.n)) as j:
                a, b, c, d = (e.load(s.source, e.add(j, place)) for place in places)
                e.store(s.target, e.add(s.at, j), joined(joined(a, b), joined(c, d)))
            with e.steps(most(e, p.low, in_vectors), least(e, p.high, s.out), e.int(1)) as j:
                a, b, c, d = (e.cell(s.source, e.add(e.mul(j, s.stride), place)) for place in places)
                e.put(s.target, e.add(s.at, j), combine(e, combine(e, a, b), combine(e, c, d)))

    in_waves(s, lambda: work)
