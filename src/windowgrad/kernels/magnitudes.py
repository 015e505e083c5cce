"""How small the cells of an array are, zeros left out, and whether all are finite: one pass, and nothing is copied."""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from windowgrad.kernels.emit import Emitter
from windowgrad.kernels.jit import kernel
from windowgrad.kernels.simd import address
from windowgrad.kernels.threads import run

Array = np.ndarray[Any, Any]

TOGETHER = 4
"""Vectors at a time."""


@intrinsic
def extremes(typing: Any, x: Any, first: Any, last: Any, least: Any, most: Any) -> Any:
    """The least and the greatest of the cells `first` to `last`, per lane, as the bits of |cell| − 1 and |cell|.

    As integers without sign these are in the order of the numbers, NaN last, and 0 − 1 is the greatest. All are addresses.
    """

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        e = Emitter(context, builder, x.dtype)
        whole, width = ir.VectorType(ir.IntType(x.dtype.bitwidth), e.n), x.dtype.bitwidth
        zero, one, size = (ir.Constant(whole, [n] * e.n) for n in (0, 1, (1 << width - 1) - 1))
        lows, highs = ([e.variable(start) for _ in range(TOGETHER)] for start in (builder.sub(zero, one), zero))

        def take(low: Any, high: Any, cells: Any) -> None:
            bits = builder.and_(builder.bitcast(cells, whole), size)
            less, was, most = builder.sub(bits, one), builder.load(low), builder.load(high)
            builder.store(builder.select(builder.icmp_unsigned("<", less, was), less, was), low)
            builder.store(builder.select(builder.icmp_unsigned(">", bits, most), bits, most), high)

        source, block = (x, args[0]), e.n * TOGETHER
        blocks = e.add(args[1], builder.and_(builder.sub(args[2], args[1]), e.int(-block)))
        with e.steps(args[1], blocks, e.int(block)) as i:
            for k in range(TOGETHER):
                take(lows[k], highs[k], e.load(source, e.add(i, k * e.n)))
        with e.steps(blocks, args[2], e.int(e.n)) as i:
            take(lows[0], highs[0], e.load_first(source, i, builder.sub(args[2], i)))
        for to, found, order in ((args[3], lows, "<"), (args[4], highs, ">")):
            total = builder.load(found[0])
            for other in map(builder.load, found[1:]):
                total = builder.select(builder.icmp_unsigned(order, other, total), other, total)
            builder.store(total, builder.bitcast(to, whole.as_pointer())).align = width // 8
        return context.get_dummy_value()

    return types.void(x, types.intp, types.intp, least, most), emit


@kernel
def least_and_most(x: Any, first: int, last: int, least: Any, most: Any) -> None:
    extremes(address(x), first, last, address(least), address(most))


def magnitudes(x: Array) -> tuple[float, bool]:
    """(the least |cell| that is not 0, or ∞; whether all cells are finite) of a flat array of floats."""
    kind = np.uint32 if x.itemsize == 4 else np.uint64
    lows, highs = [], []

    def task(first: int, last: int) -> None:
        least, most = np.empty((2, 32 // x.itemsize), kind)
        least_and_most(x, first, last, least, most)
        lows.append(int(least.min()))
        highs.append(int(most.max()))

    run(task, x.size, x.nbytes)
    infinite = int(np.array(np.inf, x.dtype).view(kind))
    least = min([infinite, *(n + 1 for n in lows)])
    return float(np.array(least, kind).view(x.dtype)), max(highs, default=0) < infinite
