"""A window that moves down a plane, for some columns of outputs: each row of the plane is loaded once, for all rows of taps.

Sums of the output rows that meet the row of the plane are held in registers, one vector each; a row of taps is added to each of
them. Then the uppermost is complete, and the others move up. A window of 3 × 3, and one with a stride of 2:

    row of the plane    0   1   2   3   4           0   1   2   3   4
    output row 0        h   m   l                   h   m   l                h, m, l: the products with the high, middle and
               1            h   m   l                       h   m   l        low row of taps
               2                h   m   l

With a stride of 2, two vectors of a row are loaded, and the even and the odd cells of them meet neighbouring columns of taps.
Columns of taps that lie in the padding are masked, rows of taps that do are left out.

Used by conv/depthwise/rolling.py. All places are addresses.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from numba import types
from numba.extending import intrinsic

from windowgrad.kernels.vector.loops import Emitter
from windowgrad.kernels.vector.masked import INDEX, clip, lanes_of, read_masked, stay_one, write_masked
from windowgrad.kernels.vector.registers import wide
from windowgrad.kernels.vector.tiles import Extremes
from windowgrad.kernels.vector.types import Vec, call, constant, lane_order, llvm, spread, suffix

IN_REGISTERS = 9
"""Weights that are held in registers; more of them are read again for every row."""


class Rows(NamedTuple):
    """A plane of x has `height` rows of `width` cells; output row r meets rows from r · stride + top on.

    Output rows `first` to `last`, of `out_width` cells, are computed.
    """

    height: int
    width: int
    top: int
    out_width: int
    first: int
    last: int


class Ends(NamedTuple):
    """What is added to the sums, whether they are added to y (1 or 0), and the limits of what is put there."""

    extra: Any
    adds: int
    least: Any
    most: Any


def loads_of(size: int, stride: int) -> int:
    """How many masks of loads a block of columns has: one for each column of taps, or two for each two of them."""
    return size if stride == 1 else 2 * -(-size // 2)


def rolled_by(size: int, stride: int, parts: int) -> Any:
    """An intrinsic for windows of size × size, whose vectors are a part of the wide ones."""
    held = -(-size // stride)

    def typed(typing: Any, y: Any, x: Any, w: Any, rows: Any, ends: Any, block: Any) -> Any:
        whole = wide(x.dtype)
        v = Vec(x.dtype, whole.lanes // parts)

        def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            e, (into, cells, taps) = Emitter(context, builder, x.dtype), args[:3]
            height, width, top, out_width, first, last = (builder.extract_value(args[3], i) for i in range(6))
            extra, adds, *limits = (builder.extract_value(args[4], i) for i in range(4))
            column, place, out_bits, *bits = (
                builder.load(builder.gep(args[5], [INDEX(i)])) for i in range(3 + loads_of(size, stride))
            )
            out_mask, masks = lanes_of(builder, v, out_bits), [lanes_of(builder, v, each) for each in bits]
            extra, low, high = (spread(builder, each, v.lanes) for each in (extra, *limits))
            more, seen = builder.icmp_signed("!=", adds, INDEX(0)), Extremes(builder, v, 1)

            def weight(t: int) -> Any:
                return spread(builder, builder.load(builder.gep(taps, [INDEX(t)])), v.lanes)

            known = [weight(t) for t in range(size * size)] if size * size <= IN_REGISTERS else []

            def load(at: Any, number: int) -> Any:
                return read_masked(context, builder, x, cells, at, masks[number], v)

            def columns(at: Any) -> list[Any]:
                """What a row of taps meets."""
                if stride == 1:
                    return [load(e.add(at, u), u) for u in range(size)]
                found = []
                for u in range(0, size, 2):
                    pair = [load(e.add(at, u + i * v.lanes), u + i) for i in (0, 1)]
                    for phase in range(min(2, size - u)):
                        found.append(builder.shuffle_vector(*pair, lane_order(range(phase, 2 * v.lanes, 2))))
                return found

            totals = [e.variable(constant(v, 0.0)) for _ in range(held)]
            with e.steps(first, e.add(last, held - 1), INDEX(1)) as q:
                for phase in range(stride):
                    row = builder.add(e.add(e.mul(q, stride), phase), top)
                    with builder.if_then(builder.icmp_unsigned("<", row, height)):
                        met = columns(builder.add(builder.mul(row, width), column))
                        for u, cell in enumerate(met):
                            for back in range(held):
                                t, total = (phase + back * stride) * size + u, totals[held - 1 - back]
                                if t < size * size:
                                    factor = known[t] if known else weight(t)
                                    terms = [factor, cell, builder.load(total)]
                                    builder.store(call(builder, f"llvm.fma.{suffix(v)}", llvm(v), terms), total)
                done = builder.sub(q, INDEX(held - 1))
                with builder.if_then(builder.icmp_signed(">=", done, first)):
                    at = builder.add(builder.mul(done, out_width), place)
                    total = e.variable(builder.fadd(builder.load(totals[0]), extra))
                    with builder.if_then(more):
                        there = read_masked(context, builder, y, into, at, out_mask, v)
                        builder.store(builder.fadd(builder.load(total), there), total)
                    found = builder.load(total)
                    seen.add(0, found)
                    write_masked(context, builder, y, into, at, clip(builder, found, low, high), out_mask, v)
                for i in range(held):
                    builder.store(builder.load(totals[i + 1]) if i + 1 < held else constant(v, 0.0), totals[i])
                stay_one(builder)
            return seen.strange([out_mask])

        return types.int64(y, x, w, rows, ends, block), emit

    typed.__name__ = f"roll_{size}_{stride}_{parts}"
    typed.__doc__ = (
        "Sums of a block of columns: where it begins in a row of x, and of y, the mask of y, and masks of the loads."
    )
    return intrinsic(typed)
