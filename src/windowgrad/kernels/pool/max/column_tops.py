"""The columns of the rows that an output row sees: the greatest cell of each, by vectors, and of those the winner of a window.

A cell is the first winner of its window in row-major order if no column has a greater one, none that equals it in an earlier
row, and none before it that equals it in the same row.
"""

from __future__ import annotations

from typing import Any

from numba import types
from numba.extending import intrinsic

from windowgrad.kernels.runtime.jit import helper
from windowgrad.kernels.vector.ops import beats, lanes, load, load_part, select, splat, store
from windowgrad.kernels.vector.types import Vec, constant, kind, llvm


@helper
def whole(cells: int, a: Any) -> Any:
    """The cells of a row in whole vectors."""
    return (cells + lanes(a) - 1) // lanes(a) * lanes(a)


@intrinsic
def ranked(typing: Any, x: Any, like: Any) -> Any:
    """The lanes themselves, or if `like` has integers as integers in the same order: NaN the greatest, zeros equal.

    A scalar comparison of floats in which NaN wins takes five instructions more.
    """
    if x.dtype == like.dtype:
        return x(x, like), lambda context, builder, signature, args: args[0]
    bits = x.dtype.bitwidth
    v = Vec(types.Integer.from_bitwidth(bits, True), x.lanes)

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        whole, sign = llvm(v), 1 << bits - 1
        if kind(x) == "u":
            return builder.xor(args[0], constant(v, -sign))
        number = builder.bitcast(builder.fadd(args[0], constant(x, 0.0)), whole)  # −0.0 is 0.0
        flipped = builder.and_(builder.ashr(number, constant(v, bits - 1)), constant(v, sign - 1))
        nan = builder.fcmp_unordered("uno", args[0], args[0])
        return builder.select(nan, constant(v, sign - 1), builder.xor(number, flipped))

    return v(x, like), emit


@helper
def column_tops(x: Any, base: int, rows: Any, width: int, least: Any, top: Any, who: Any) -> None:
    """top = the greatest cell of each column of the rows, as `ranked`, who = the first of them that has it, counted from 0."""
    low, high, places, n = rows.low, rows.high, rows.places, lanes(x)
    j, rest = 0, splat(x, least)
    while j + 4 * n <= width:  # four vectors: each comparison waits for the one before it in its column
        at, here = base + places[low] + j, splat(who, 0)
        a, b, c, d = load(x, at), load(x, at + n), load(x, at + 2 * n), load(x, at + 3 * n)
        k, p, m, o = here, here, here, here
        for q in range(low + 1, high):
            at, here = base + places[q] + j, splat(who, q - low)
            e, f, g, h = load(x, at), load(x, at + n), load(x, at + 2 * n), load(x, at + 3 * n)
            first, second, third, fourth = beats(e, a), beats(f, b), beats(g, c), beats(h, d)
            a, b, c, d = select(first, e, a), select(second, f, b), select(third, g, c), select(fourth, h, d)
            k, p, m, o = select(first, here, k), select(second, here, p), select(third, here, m), select(fourth, here, o)
        store(top, j, ranked(a, top))
        store(top, j + n, ranked(b, top))
        store(top, j + 2 * n, ranked(c, top))
        store(top, j + 3 * n, ranked(d, top))
        store(who, j, k)
        store(who, j + n, p)
        store(who, j + 2 * n, m)
        store(who, j + 3 * n, o)
        j += 4 * n
    while j < width:
        best, name = load_part(x, base + places[low] + j, width - j, rest), splat(who, 0)
        for q in range(low + 1, high):
            value = load_part(x, base + places[q] + j, width - j, rest)
            better = beats(value, best)
            best, name = select(better, value, best), select(better, splat(who, q - low), name)
        store(top, j, ranked(best, top))
        store(who, j, name)
        j += n


@helper
def first_tap(top: Any, who: Any, windows: Any, j: int) -> int:
    """Which tap along the row of window j is in the column of its first winner in row-major order, −1 if it has no cell."""
    if windows.count[j] == 0:
        return -1
    c, step, best = windows.start[j], windows.step, 0
    value, name = top[c], who[c]
    for t in range(1, windows.count[j]):
        c += step
        v, n = top[c], who[c]
        nan, before = v != v, n < name
        better = (v > value) | ((v == value) & before) | (nan & ((value == value) | before))  # no jump that nobody foresees
        best, value, name = (t if better else best), (v if better else value), (n if better else name)
    return best
