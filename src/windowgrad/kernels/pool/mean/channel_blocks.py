"""Sums of large planes whose cells are runs of many channels: a block of cells at a time, so that memory is read in order.

`channels` takes a vector of channels through the whole plane, which reads a line of memory from each cell and jumps over the
others: no CPU foresees that. Here the cells of one tree of `whole.sum_plane` are added for some vectors of channels, one after
the other, and the sums of its lanes stand in memory:

    cells 0 … 63     v0 v1 v2 v3 | …      a tree of each vector of channels, added to its sums
    cells 64 … 127   v0 v1 v2 v3 | …
    rest             cells one by one

All additions are those of a plane that stands alone. Measured, two threads, against `channels`: 1×256×128×128 0.5 of the time,
1×256×56×56 and 4×256×56×56 0.6, 1×128×112×112 0.7; with fewer channels than LEAST_CHANNELS, 1.0 to 1.7. Shares of 64 channels
took 1.1 times as long as those of 128, but for one image of 128, which would be one share.
"""

from __future__ import annotations

from typing import Any

from numba import types
from numba.extending import intrinsic

from windowgrad.kernels.runtime.jit import helper
from windowgrad.kernels.vector.loops import Emitter, plus
from windowgrad.kernels.vector.ops import lanes
from windowgrad.kernels.vector.registers import wide, wide_lanes
from windowgrad.kernels.vector.types import Vec, constant, vec

LEAST_CHANNELS = 128
"""Of a run from which on cells are taken in blocks."""

CHANNELS = (128, 64)
"""That are a share of a plane, and if that would be the only one."""

TREE = 8
"""Vectors that a tree adds, as in `whole`."""


class Adder:
    """Writes the additions of cells to the sums of their lanes, which stand in memory as float64."""

    def __init__(self, context: Any, builder: Any, x: Any, sums: Any, args: Any) -> None:
        cells, self.at, self.run, self.left, values, self.to = args
        self.e, self.into = Emitter(context, builder, x.dtype), Emitter(context, builder, types.float64)
        self.e.v = wide(x.dtype)
        self.e.n = self.into.n = self.e.v.lanes
        self.into.v = Vec(types.float64, self.e.n)
        self.lanes, self.source, self.target = vec(x.dtype).lanes, (x, cells), (sums, values)

    def cell(self, i: Any, whole: bool) -> Any:
        place = self.e.add(self.at, self.e.mul(self.run, i))
        return self.e.load(self.source, place) if whole else self.e.load_first(self.source, place, self.left)

    def add(self, lane: int, value: Any) -> None:
        builder, place = self.e.builder, self.e.add(self.to, lane * self.e.n)
        if self.e.v.dtype != types.float64:
            value = builder.fpext(value, constant(self.into.v, 0).type)
        self.into.store(self.target, place, builder.fadd(self.into.load(self.target, place), value))

    def either(self, write: Any) -> None:
        """`write(whole)` for a whole vector of channels, or for the first of them."""
        with self.e.builder.if_else(self.e.less(self.left, self.e.n), likely=False) as (part, all_of_it):
            with part:
                write(False)
            with all_of_it:
                write(True)


@intrinsic
def add_tree(typing: Any, x: Any, at: Any, run: Any, left: Any, sums: Any, to: Any) -> Any:
    """sums[to:] += for each lane the tree of its TREE cells, of a vector of channels that stand at `at` and every `run` on.

    If only `left` channels are left, no others are read.
    """

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        adder = Adder(context, builder, x, sums, args)

        def write(whole: bool) -> None:
            for lane in range(adder.lanes):
                values = [adder.cell(adder.e.int(lane + q * adder.lanes), whole) for q in range(TREE)]
                while len(values) > 1:
                    values = [plus(adder.e, a, b) for a, b in zip(values[::2], values[1::2], strict=True)]
                adder.add(lane, values[0])

        adder.either(write)
        return context.get_dummy_value()

    whole = types.intp
    return types.void(x, whole, whole, whole, sums, whole), emit


@intrinsic
def add_cells(typing: Any, x: Any, at: Any, run: Any, left: Any, sums: Any, to: Any, count: Any) -> Any:
    """sums[to:] += `count` cells, one for each lane."""

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        adder = Adder(context, builder, x, sums, args[:-1])

        def write(whole: bool) -> None:
            for lane in range(adder.lanes):
                with builder.if_then(builder.icmp_signed("<", adder.e.int(lane), args[-1])):
                    adder.add(lane, adder.cell(adder.e.int(lane), whole))

        adder.either(write)
        return context.get_dummy_value()

    whole = types.intp
    return types.void(x, whole, whole, whole, sums, whole, whole), emit


@intrinsic
def total_of(typing: Any, x: Any, sums: Any, at: Any) -> Any:
    """The sums of the lanes from `at` on as those of a vector of channels of x: the second half is added to the first, again
    and again.
    """
    v = Vec(types.float64, wide(x.dtype).lanes)

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        e = Emitter(context, builder, types.float64)
        e.v, e.n = v, v.lanes
        totals = [e.load((sums, args[1]), e.add(args[2], lane * e.n)) for lane in range(vec(x.dtype).lanes)]
        while len(totals) > 1:
            half = len(totals) // 2
            totals = [builder.fadd(totals[lane], totals[lane + half]) for lane in range(half)]
        return totals[0]

    return v(x, sums, types.intp), emit


@helper
def sum_blocks(x: Any, at: int, size: int, run: int, channels: int, sums: Any) -> None:
    """sums = for each lane those of so many channels of `size` runs from `at` on, a vector of channels after the other."""
    n, each = lanes(x), wide_lanes(x)
    tree = TREE * n
    for i in range((channels + each - 1) // each * each * n):
        sums[i] = 0
    for i in range(0, size - size % tree, tree):
        for c in range(0, channels, each):
            add_tree(x, at + i * run + c, run, channels - c, sums, c * n)
    for i in range(size - size % tree, size, n):
        for c in range(0, channels, each):
            add_cells(x, at + i * run + c, run, channels - c, sums, c * n, size - i)
