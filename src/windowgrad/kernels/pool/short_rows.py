"""Planes of short rows: a whole plane at a time, column by column of vectors.

For `max/short_rows` and `mean/short_rows`. First the rows of each window are combined, for many rows of the output, into a
buffer that has the padding of a row beside it; then the columns. Both are loops over rows inside one over vectors, so that
what is special about the last vector of a row is known once for all rows:

    cells         c c c c c c c c | c c c c          buffer    . v v v v v v v v | v v v v .      outputs    w w w w w w
                  c c c c c c c c | c c c c          (`.` is padding)
                  …

Of arrays that stay in no cache, lines are asked for before they are read (`fold_rows.ahead_of`): 2×2 windows with a stride of 2
on 32×1024×28×28 take 2.0 ms, without 4.9.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np
from numba import types
from numba.extending import intrinsic

from windowgrad.kernels.pool.fold_rows import FRESH
from windowgrad.kernels.pool.near_rows import Watch, put, reading, wide_emitter
from windowgrad.kernels.pool.plan import Plan
from windowgrad.kernels.pool.window_spans import DIRECT
from windowgrad.kernels.runtime.jit import helper
from windowgrad.kernels.vector.loops import Combine, Emitter
from windowgrad.kernels.vector.ops import address, later
from windowgrad.kernels.vector.types import lane_order, spread

LEAST = 64
"""The least bytes of a row."""

PLANE, SPACE = 1 << 16, 1 << 14
"""The most bytes of a plane, which one thread computes, and of a row with its padding."""

BLOCK = 1 << 11
"""Bytes of the buffer, about: so many rows at a time that they, what they see and what is made of them stay in the first cache.
With all rows of a plane at a time, 2×2 means of 28×28 and 64×64 planes took 1.15 to 1.3 times as long.
"""

COUNTS = (1, 2, 3)
"""Numbers of rows of a window, and of its columns, that have a loop of their own."""


def is_short(p: Plan, dtype: Any, most: int) -> bool:
    """Whether rows are neither so short that a vector is half empty nor longer than `most` bytes, planes and their padding not
    large, and windows alike, one or two cells apart.
    """
    if dtype not in (np.float32, np.float64) or p.stride not in (1, 2) or not 0 < p.kernel <= DIRECT or p.run > 1:
        return False
    size = max(p.before + p.width, (p.out - 1) * p.stride + (p.kernel - 1) * p.step + 1)
    width, plane, space = (count * int(dtype.itemsize) for count in (p.width, p.plane_in, size))
    return LEAST <= width <= most and plane <= PLANE and space <= SPACE


def fills_vectors(cells: int, dtype: Any) -> bool:
    """Whether two thirds of the vectors of a row are cells; else planes several at once are as fast."""
    size = cells * int(dtype.itemsize)
    return 3 * size >= 2 * (size + -size % LEAST)


def parted(e: Emitter, size: Any, step: Any) -> None:
    """step(i, left) for i = 0, n, … while i < size; `left` is None for whole vectors, else how many lanes are left."""
    whole = e.builder.and_(size, e.int(-e.n))
    with e.steps(e.int(0), whole, e.int(e.n)) as i:
        step(i, None)
    left = e.builder.sub(size, whole)
    with e.builder.if_then(e.less(e.int(0), left)):
        step(whole, left)


def crossing(combine: Combine, watch: bool) -> Any:
    """across(x, base, ptr, places, rows, width, absent, folded, pitch, ahead): row r of `folded` = the rows that output row r
    sees.

    Rows of `folded` are `pitch` numbers apart; where there is no cell, `absent` stands for it. Arrays are addresses. `ahead` is
    what `fold_rows.ahead_of` gives. Gives 0, or if `watch`, whether a cell is NaN.
    """

    @intrinsic
    def across(
        typing: Any, x: Any, base: Any, ptr: Any, places: Any, rows: Any, width: Any, absent: Any, folded: Any, pitch: Any,
        ahead: Any,
    ) -> Any:  # fmt: skip
        def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            e = wide_emitter(context, builder, x.dtype)
            nothing, missing = (spread(builder, context.cast(builder, args[6], absent, t), e.n) for t in (e.v.dtype, x.dtype))
            seen = Watch(e, 1 if watch else 0)
            read = reading(e, (x, args[0]), args[1], (places, args[3]), missing)

            def look(a: Any, b: Any) -> None:
                if watch:
                    seen.look(a, b)

            def step(i: Any, left: Any) -> None:
                with e.steps(e.int(0), args[4], e.int(1)) as r:
                    low, high = e.cell((ptr, args[2]), r), e.cell((ptr, args[2]), e.add(r, 1))
                    to = e.add(e.mul(r, args[8]), i)

                    def ask(numbers: list[Any]) -> None:
                        with builder.if_then(e.less(e.int(0), args[9]), likely=False):
                            for q in numbers:
                                e.fetch((x, args[0]), e.add(args[1], e.cell((places, args[3]), q), i, args[9]))

                    def some(count: int) -> None:
                        ask([e.add(low, q) for q in range(max(count - FRESH, 0), count)])
                        cells = [read(e.add(low, q), i, left)[0] for q in range(count)]
                        for a, b in zip(cells[::2], [*cells[1::2], cells[-1]], strict=False):
                            look(a, b)
                        put(e, (folded, args[7]), to, reduce(lambda a, b: combine(e, a, b), cells), left)

                    def all_of_them() -> None:
                        total = e.variable(nothing)
                        with builder.if_then(e.less(low, high)):
                            ask([e.add(high, -1 - q) for q in range(FRESH)])
                            first = read(low, i, left)[0]
                            look(first, first)
                            builder.store(first, total)
                            with e.steps(e.add(low, 1), high, e.int(1)) as q:
                                cells = read(q, i, left)[0]
                                look(cells, cells)
                                builder.store(combine(e, builder.load(total), cells), total)
                        put(e, (folded, args[7]), to, builder.load(total), left)

                    e.by_number(builder.sub(high, low), COUNTS, some, all_of_them)

            parted(e, args[5], step)
            return seen.bits()

        whole = types.intp
        return whole(x, whole, ptr, places, whole, whole, absent, folded, whole, whole), emit

    return across


def emit_windows(
    e: Emitter,
    combine: Combine,
    stride: int,
    source: tuple[Any, Any],
    sizes: tuple[Any, Any, Any, Any, Any],
    keep: Callable[[Any, Any, Any, Any], None],
) -> None:
    """The windows along all rows of `source`, `stride` cells apart, whose `sizes` are (pitch, rows, taps, step, outputs).

    keep(r, j, result, left) is given the outputs of row r from column j on, of which there are only `left` if that is not None.
    """
    builder, (pitch, rows, taps, step, out) = e.builder, sizes

    def some_windows(j: Any, left: Any) -> None:
        def finish(r: Any, totals: list[Any]) -> None:
            order = lane_order(range(0, stride * e.n, stride))
            keep(r, j, totals[0] if stride == 1 else builder.shuffle_vector(*totals, order), left)

        with e.steps(e.int(0), rows, e.int(1)) as r:
            at = e.add(e.mul(r, pitch), e.mul(j, stride))

            def cells(tap: Any) -> list[Any]:
                begin = e.add(at, e.mul(step, tap))
                return [e.load(source, e.add(begin, k * e.n)) for k in range(stride)]

            def joined(a: list[Any], b: list[Any]) -> list[Any]:
                return [combine(e, one, other) for one, other in zip(a, b, strict=True)]

            def some(count: int) -> None:
                finish(r, reduce(joined, map(cells, range(count))))

            def all_of_them() -> None:
                totals = [e.variable(each) for each in cells(0)]
                with e.steps(e.int(1), taps, e.int(1)) as tap:
                    for total, more in zip(totals, joined([*map(builder.load, totals)], cells(tap)), strict=True):
                        builder.store(more, total)
                finish(r, [*map(builder.load, totals)])

            e.by_number(taps, COUNTS, some, all_of_them)

    parted(e, out, some_windows)


@helper
def room_for_rows(line: Any, windows: Any, n: int, padding: Any, like: Any) -> Any:
    """(memory that must live as long, address, pitch, rows): full of padding; cells of a row begin with a line of the cache.

    In the dtype of the array `like`.
    """
    size = max(line.before + line.width, (line.out - 1) * line.stride + (line.taps - 1) * line.step + 1)
    pitch = (size + n - 1) // n * n
    rows = min(windows.rows, max(1, BLOCK // (pitch * like.itemsize)))
    space = np.full(rows * pitch + (line.stride + 1) * n + size, padding, like.dtype)  # behind the last row, vectors are read
    begin = np.int64(space.ctypes.data) // space.itemsize + line.before
    return space, later(address(space), (n - begin % n) % n), pitch, rows
