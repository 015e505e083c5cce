"""Passes over an array that copy nothing: how small its cells are, whether all are finite, which of them are strange.

`stay_normal` and `magnitudes` are asked of operands when a result is strange (see `conv/entry.py`); `any_strange` looks at a
weight gradient once it is summed. Cells are compared as integers, AT_A_TIME vectors at a time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from windowgrad.kernels.arrays import Array
from windowgrad.kernels.runtime.jit import kernel
from windowgrad.kernels.runtime.threads import is_worth, over, run
from windowgrad.kernels.vector.loops import INT, Emitter
from windowgrad.kernels.vector.masked import interval, strange_lanes
from windowgrad.kernels.vector.ops import address
from windowgrad.kernels.vector.registers import wide_lanes
from windowgrad.kernels.vector.types import call

AT_A_TIME = 4
"""Vectors at a time."""


@intrinsic
def extremes(typing: Any, x: Any, first: Any, last: Any) -> Any:
    """(the least |cell| − 1, the greatest |cell|) of the cells `first` to `last` at an address, as their bits.

    As integers without sign these are in the order of the numbers, NaN last, and 0 − 1 is the greatest.
    """

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        e = Emitter(context, builder, x.dtype)
        whole, width = ir.VectorType(ir.IntType(x.dtype.bitwidth), e.n), x.dtype.bitwidth
        zero, one, size = (ir.Constant(whole, [n] * e.n) for n in (0, 1, (1 << width - 1) - 1))
        lows, highs = ([e.variable(start) for _ in range(AT_A_TIME)] for start in (builder.sub(zero, one), zero))

        def take(low: Any, high: Any, cells: Any) -> None:
            bits = builder.and_(builder.bitcast(cells, whole), size)
            less, was, most = builder.sub(bits, one), builder.load(low), builder.load(high)
            builder.store(builder.select(builder.icmp_unsigned("<", less, was), less, was), low)
            builder.store(builder.select(builder.icmp_unsigned(">", bits, most), bits, most), high)

        source, block = (x, args[0]), e.n * AT_A_TIME
        blocks = e.add(args[1], builder.and_(builder.sub(args[2], args[1]), e.int(-block)))
        with e.steps(args[1], blocks, e.int(block)) as i:
            for k in range(AT_A_TIME):
                take(lows[k], highs[k], e.load(source, e.add(i, k * e.n)))
        with e.steps(blocks, args[2], e.int(e.n)) as i:
            take(lows[0], highs[0], e.load_first(source, i, builder.sub(args[2], i)))
        ends = []
        for found, order, name in ((lows, "<", "umin"), (highs, ">", "umax")):
            total = builder.load(found[0])
            for other in map(builder.load, found[1:]):
                total = builder.select(builder.icmp_unsigned(order, other, total), other, total)
            end = call(builder, f"llvm.vector.reduce.{name}.v{e.n}i{width}", whole.element, [total])
            ends.append(builder.zext(end, INT) if width < 64 else end)
        return context.make_tuple(builder, signature.return_type, ends)

    return types.UniTuple(types.uint64, 2)(x, types.intp, types.intp), emit


@kernel
def any_strange(a: Any, first: int, last: int) -> int:
    """The strange lanes (see HUGE) of the cells `first` to `last`."""
    lanes, strange = wide_lanes(a), 0
    for i in range(first, last, lanes):
        strange |= strange_lanes(a, i, interval(0, min(lanes, last - i)))
    return strange


@kernel
def least_and_most(x: Any, first: int, last: int) -> Any:
    return extremes(address(x), first, last)


@kernel
def may_be_denormal(few: Any, many: Any, first: int, last: int) -> int:
    """Whether (1 or 0) by its exponents a product may be denormal: of a cell, not 0, of one array of float32 with one of the
    cells `first` to `last` of another.
    """
    low, _ = extremes(address(few), 0, len(few))
    least, _ = extremes(address(many), first, last)
    exponent: Any = np.int64(low) + 1 >> 23
    return int(exponent < 1 or np.int64(least) + 1 < max(1, 128 - exponent) << 23)


SMALL = 1 << 16
"""Cells of the smaller array, which every thread looks at."""
LIGHT = 4
"""To look at so many bytes takes as long as other work on one."""


def stay_normal(a: Array, b: Array) -> bool:
    """Whether it is plain that no product of float32 is denormal: by the exponents of two flat arrays.

    A normal number of the exponent e is 2^(e − 127) or more, so a product is 2^−126 or more where exponents add up to 128. No
    thread needs Python for it, as it does for `magnitudes`.
    """
    few, many = (a, b) if a.size <= b.size else (b, a)
    if few.size > SMALL or not few.size:
        return False
    return not over(may_be_denormal, (few, many), many.size, many.nbytes // LIGHT)


def judging(one: int, other: int) -> Callable[[Array, Array], bool]:
    """`stay_normal` for arrays of so many cells, in the shortest time."""
    few, many = sorted((one, other))
    if not 0 < few <= SMALL or is_worth(4 * many // LIGHT):
        return stay_normal
    if one > other:
        return lambda a, b: not may_be_denormal(b, a, 0, many)
    return lambda a, b: not may_be_denormal(a, b, 0, many)


BITS: dict[int, tuple[Any, Any]] = {4: (np.uint32, np.float32), 8: (np.uint64, np.float64)}
INFINITE = {4: 0x7F800000, 8: 0x7FF0000000000000}


def magnitudes(x: Array) -> tuple[float, bool]:
    """(the least |cell| that is not 0, or ∞; whether all cells are finite) of a flat array of floats."""
    found: list[tuple[int, int]] = []
    run(lambda first, last: found.append(least_and_most(x, first, last)), x.size, x.nbytes)
    (whole, kind), infinite = BITS[x.itemsize], INFINITE[x.itemsize]
    least = min(infinite, *(low + 1 for low, _ in found)) if found else infinite
    return float(whole(least).view(kind)), all(high < infinite for _, high in found)
