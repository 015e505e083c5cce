"""Maximum of planes of short rows: a whole plane at a time, column by column of vectors.

For floats with channels first, and the windows of `has_short_rows`. First the rows of each window are compared, for all rows of
the output, into a buffer that has the padding of a row beside it; then the columns. Both are loops over rows inside one over
vectors, so that what is special about the last vector of a row is known once for all rows:

    cells         c c c c c c c c | c c c c          buffer    . v v v v v v v v | v v v v .      outputs    w w w w w w
                  c c c c c c c c | c c c c          (`.` is padding, the least value)
                  …

What could tell the order of comparing is looked at again, as in `rows`, a plane at a time.

Measured on one thread, float32: planes of 16×16 to 32×32 take 0.2 to 0.6 of the time of `rows`, 48×48 and 56×56 0.4 to 0.9,
3×3 windows with a stride of 1 on up to 32×32 0.7 to 0.95 of that of `near`; where vectors are filled, 0.6 to 1.0 of that of
`lanes`, which is faster on smaller planes. Rows of the buffer that did not begin with a line of the cache took 1.1 to 1.4 times
as long.
"""

from __future__ import annotations

from functools import reduce
from typing import Any, NamedTuple

import numpy as np
from numba import types
from numba.extending import intrinsic

from windowgrad.kernels.pool.max.rows import has_negative_zero, look_again
from windowgrad.kernels.pool.near_rows import Watch, is_near, put, reading, wide_emitter
from windowgrad.kernels.pool.packed import Rows, unpacked
from windowgrad.kernels.pool.plan import Plan
from windowgrad.kernels.pool.row_pieces import Piece, clear_holes
from windowgrad.kernels.pool.window_spans import DIRECT
from windowgrad.kernels.runtime.jit import helper, unrolled_kernel
from windowgrad.kernels.vector.loops import Emitter, larger
from windowgrad.kernels.vector.ops import address, alive, later
from windowgrad.kernels.vector.registers import wide_lanes
from windowgrad.kernels.vector.types import first_lanes, lane_order, spread

LEAST, NEXT, NEAR, SECOND = 64, 192, 128, 224
"""The least bytes of a row, and the most for windows one cell apart, those among them that `near` does, and two cells apart."""

PLANE, SPACE = 1 << 16, 1 << 14
"""The most bytes of a plane, which one thread computes, and of a buffer."""

COUNTS = (1, 2, 3)
"""Numbers of rows of a window, and of its columns, that have a loop of their own."""


def parted(e: Emitter, size: Any, step: Any) -> None:
    """step(i, left) for i = 0, n, … while i < size; `left` is None for whole vectors, else how many lanes are left."""
    whole = e.builder.and_(size, e.int(-e.n))
    with e.steps(e.int(0), whole, e.int(e.n)) as i:
        step(i, None)
    left = e.builder.sub(size, whole)
    with e.builder.if_then(e.less(e.int(0), left)):
        step(whole, left)


@intrinsic
def tops_across(
    typing: Any, x: Any, base: Any, ptr: Any, places: Any, rows: Any, width: Any, absent: Any, tops: Any, pitch: Any
) -> Any:
    """Row r of tops = the greatest of the rows that row r of the output sees; whether one has a NaN. Rows that see none stay.

    Rows of `tops` are `pitch` numbers apart; arrays are addresses.
    """

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        e = wide_emitter(context, builder, x.dtype)
        nothing, seen = spread(builder, context.cast(builder, args[6], absent, x.dtype), e.n), Watch(e, 1)
        read = reading(e, (x, args[0]), args[1], (places, args[3]), nothing)

        def step(i: Any, left: Any) -> None:
            with e.steps(e.int(0), args[4], e.int(1)) as r:
                low, high = e.cell((ptr, args[2]), r), e.cell((ptr, args[2]), e.add(r, 1))
                to = e.add(e.mul(r, args[8]), i)

                def some(count: int) -> None:
                    cells = [read(e.add(low, q), i, left)[0] for q in range(count)]
                    for a, b in zip(cells[::2], [*cells[1::2], cells[-1]], strict=False):
                        seen.look(a, b)
                    put(e, (tops, args[7]), to, reduce(lambda a, b: larger(e, a, b), cells), left)

                def all_of_them() -> None:
                    total = e.variable(nothing)
                    with e.steps(low, high, e.int(1)) as q:
                        cells = read(q, i, left)[0]
                        seen.look(cells, cells)
                        builder.store(larger(e, builder.load(total), cells), total)
                    with builder.if_then(e.less(low, high)):
                        put(e, (tops, args[7]), to, builder.load(total), left)

                e.by_number(builder.sub(high, low), COUNTS, some, all_of_them)

        parted(e, args[5], step)
        return seen.bits()

    whole = types.intp
    return whole(x, whole, ptr, places, whole, whole, absent, tops, whole), emit


def spanning(stride: int) -> Any:
    """tops_along(tops, pitch, rows, taps, step, y, out): the windows along the rows, `stride` cells apart; whether one is 0."""

    @intrinsic
    def tops_along(typing: Any, tops: Any, pitch: Any, rows: Any, taps: Any, step: Any, y: Any, out: Any) -> Any:
        def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            e, source, target = wide_emitter(context, builder, y.dtype), (tops, args[0]), (y, args[5])
            seen = Watch(e, 1)

            def some_windows(j: Any, left: Any) -> None:
                mask = None if left is None else first_lanes(builder, e.v, left)

                def keep(r: Any, totals: list[Any]) -> None:
                    order = lane_order(range(0, stride * e.n, stride))
                    result = totals[0] if stride == 1 else builder.shuffle_vector(*totals, order)
                    zero = builder.fcmp_ordered("==", result, spread(builder, y_zero, e.n))
                    seen.note(0, zero if mask is None else builder.and_(zero, mask))
                    put(e, target, e.add(e.mul(r, args[6]), j), result, left)

                with e.steps(e.int(0), args[2], e.int(1)) as r:
                    at = e.add(e.mul(r, args[1]), e.mul(j, stride))

                    def cells(tap: Any) -> list[Any]:
                        begin = e.add(at, e.mul(args[4], tap))
                        return [e.load(source, e.add(begin, k * e.n)) for k in range(stride)]

                    def joined(a: list[Any], b: list[Any]) -> list[Any]:
                        return [larger(e, one, other) for one, other in zip(a, b, strict=True)]

                    def some(count: int) -> None:
                        keep(r, reduce(joined, map(cells, range(count))))

                    def all_of_them() -> None:
                        totals = [e.variable(each) for each in cells(0)]
                        with e.steps(e.int(1), args[3], e.int(1)) as tap:
                            for total, more in zip(totals, joined([*map(builder.load, totals)], cells(tap)), strict=True):
                                builder.store(more, total)
                        keep(r, [*map(builder.load, totals)])

                    e.by_number(args[3], COUNTS, some, all_of_them)

            y_zero = context.get_constant(y.dtype, 0)
            parted(e, args[6], some_windows)
            return seen.bits()

        whole = types.intp
        return whole(tops, whole, whole, whole, whole, y, whole), emit

    return tops_along


side_by_side, each_second = spanning(1), spanning(2)


def has_short_rows(p: Plan, dtype: Any) -> bool:
    """Whether rows are neither so short that a vector is half empty nor long, and the buffer stays in the first cache."""
    if dtype not in (np.float32, np.float64) or p.stride not in (1, 2) or not 0 < p.kernel <= DIRECT or p.run > 1:
        return False
    most = SECOND if p.stride == 2 else NEAR if is_near(p) else NEXT
    size = max(p.before + p.width, (p.out - 1) * p.stride + (p.kernel - 1) * p.step + 1)
    width, plane, space = (count * int(dtype.itemsize) for count in (p.width, p.plane_in, p.outer * size))
    return LEAST <= width <= most and plane <= PLANE and space <= SPACE


def fills_vectors(p: Plan, dtype: Any) -> bool:
    """Whether three quarters of the vectors of a row are cells; else planes several at once are as fast."""
    cells = p.width * int(dtype.itemsize)
    return 4 * cells >= 3 * (cells + -cells % LEAST)


@helper
def look_at_plane(x: Any, y: Any, base: int, at: int, everywhere: bool, line: Any, windows: Any) -> None:
    """The outputs of a plane in the order of the meaning: all of them, or those that are a zero."""
    for r in range(windows.rows):
        look_again(x, y, Piece(at + r * line.out, 0, line.out, r, base), everywhere, windows)


class Tops(NamedTuple):
    """Rows of a plane that were compared, `pitch` numbers apart, with padding beside them; `holes` as `has_holes`."""

    rows: Any
    pitch: int
    holes: bool


@helper
def has_holes(line: Any, windows: Any) -> Any:
    """Whether a window has no cell."""
    holes = False
    for r in range(windows.rows):
        holes |= windows.ptr[r] == windows.ptr[r + 1]
    for j in range(line.out):
        holes |= windows.count[j] == 0
    return holes


@helper
def room_for_tops(line: Any, windows: Any, n: int, least: Any, x: Any) -> Any:
    """(memory that must live as long, `Tops`): full of padding. The cells of a row begin with a line of the cache."""
    size = max(line.before + line.width, (line.out - 1) * line.stride + (line.taps - 1) * line.step + 1)
    pitch = (size + n - 1) // n * n
    space = np.full(
        windows.rows * pitch + (line.stride + 1) * n + size, least, x.dtype
    )  # behind the last row, vectors are read
    begin = np.int64(space.ctypes.data) // space.itemsize + line.before
    return space, Tops(later(address(space), (n - begin % n) % n), pitch, has_holes(line, windows))


@helper
def top_plane(x: Any, base: int, y: Any, at: int, least: Any, tops: Any, everything: Any, line: Any, windows: Any) -> None:
    """The outputs of one plane; `everything` is all of it as one row."""
    rows, out, pitch = windows.rows, line.out, tops.pitch
    nan = tops_across(x, base, windows.ptr, windows.places, rows, line.width, least, later(tops.rows, line.before), pitch)
    if line.stride == 1:
        zeros = side_by_side(tops.rows, pitch, rows, line.taps, line.step, later(y, at), out)
    else:
        zeros = each_second(tops.rows, pitch, rows, line.taps, line.step, later(y, at), out)
    if nan != 0 or (zeros != 0 and has_negative_zero(x, base, everything, windows.plane)):
        look_at_plane(x, y, base, at, nan != 0, line, windows)


@unrolled_kernel
def max_short(x: Any, y: Any, least: Any, plan: Any, first: int, last: int) -> None:
    """The planes `first` to `last`."""
    line, windows, _ = unpacked(plan)
    (space, tops), zero = room_for_tops(line, windows, wide_lanes(x), least, x), np.zeros(1, np.int64)
    x, y, everything = address(x), address(y), Rows(address(zero), 0, 1)
    for p in range(first, last):
        at = p * windows.rows * line.out
        top_plane(x, p * windows.plane, y, at, least, tops, everything, line, windows)
        if tops.holes:
            clear_holes(y, at, line, windows)
    alive(space)
    alive(zero)
