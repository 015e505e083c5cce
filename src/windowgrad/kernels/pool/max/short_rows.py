"""Maximum of planes of short rows: a whole plane at a time, column by column of vectors.

For floats with channels first, and the windows of `has_short_rows` (`pool/short_rows`). Padding is the least value.
What could tell the order of comparing is looked at again, as in `rows`, a plane at a time.

Measured on one thread, float32: planes of 16×16 to 32×32 take 0.2 to 0.6 of the time of `rows`, 48×48 and 64×64 0.4 to 0.9,
rows of 96 to 128 columns 0.8 to 0.95, near windows on up to 56 columns 0.7 to 0.95 of that of `near`; where vectors
are filled, 0.6 to 1.0 of that of `lanes`, which is faster on smaller planes. Rows of the buffer that did not begin with a line
of the cache took 1.1 to 1.4 times as long. With loops that LLVM may unroll it took 1.1 times as long, and to compile 1.3 times.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import types
from numba.extending import intrinsic

from windowgrad.kernels.pool.fold_rows import ahead_of
from windowgrad.kernels.pool.max.rows import has_negative_zero, look_again
from windowgrad.kernels.pool.near_rows import Watch, is_near, put, wide_emitter
from windowgrad.kernels.pool.packed import Rows, unpacked
from windowgrad.kernels.pool.plan import Plan
from windowgrad.kernels.pool.row_pieces import Piece, clear_holes
from windowgrad.kernels.pool.short_rows import crossing, emit_windows, is_short, room_for_rows
from windowgrad.kernels.runtime.jit import helper, kernel
from windowgrad.kernels.vector.half import cells
from windowgrad.kernels.vector.loops import larger
from windowgrad.kernels.vector.ops import address, alive, later
from windowgrad.kernels.vector.registers import wide_lanes
from windowgrad.kernels.vector.types import constant, first_lanes

NEXT, NEAR, SECOND = 384, 224, 512
"""The most bytes of a row for windows one cell apart, those among them that `near` does, and two cells apart."""

tops_across = crossing(larger, True)


def spanning(stride: int) -> Any:
    """tops_along(tops, pitch, rows, taps, step, y, out): the windows along the rows, `stride` cells apart; whether one is 0."""

    @intrinsic
    def tops_along(typing: Any, tops: Any, pitch: Any, rows: Any, taps: Any, step: Any, y: Any, out: Any) -> Any:
        def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            e, target = wide_emitter(context, builder, y.dtype), (y, args[5])
            seen, y_zero = Watch(e, 1), constant(e.v, 0)

            def keep(r: Any, j: Any, result: Any, left: Any) -> None:
                zero = builder.fcmp_ordered("==", result, y_zero)
                seen.note(0, zero if left is None else builder.and_(zero, first_lanes(builder, e.v, left)))
                put(e, target, e.add(e.mul(r, args[6]), j), result, left)

            emit_windows(e, larger, stride, (tops, args[0]), (*args[1:5], args[6]), keep)
            return seen.bits()

        whole = types.intp
        return whole(tops, whole, whole, whole, whole, y, whole), emit

    return tops_along


side_by_side, each_second = spanning(1), spanning(2)


def has_short_rows(p: Plan, dtype: Any) -> bool:
    """Whether planes are faster as a whole than row by row."""
    return is_short(p, dtype, SECOND if p.stride == 2 else NEAR if is_near(p) else NEXT)


@helper
def look_at_plane(x: Any, y: Any, base: int, at: int, everywhere: bool, line: Any, windows: Any) -> None:
    """The outputs of a plane in the order of the meaning: all of them, or those that are a zero."""
    for r in range(windows.rows):
        look_again(x, y, Piece(at + r * line.out, 0, line.out, r, base), everywhere, windows)


class Tops(NamedTuple):
    """Rows of a plane that were compared, `some` at a time and `pitch` numbers apart, with padding beside them; `holes` as
    `has_holes`, `ahead` as `ahead_of`.
    """

    rows: Any
    pitch: int
    some: int
    holes: bool
    ahead: int


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
def room_for_tops(line: Any, windows: Any, least: Any, x: Any, like: Any) -> Any:
    """(memory that must live as long, `Tops`): full of padding, in the dtype of the array `like`."""
    space, rows, pitch, some = room_for_rows(line, windows, wide_lanes(like), least, like)
    return space, Tops(rows, pitch, some, has_holes(line, windows), ahead_of(x, line, windows))


@helper
def top_plane(x: Any, base: int, y: Any, at: int, least: Any, tops: Any, everything: Any, line: Any, windows: Any) -> None:
    """The outputs of one plane; `everything` is all of it as one row."""
    out, pitch, nan, zeros = line.out, tops.pitch, 0, 0
    for r in range(0, windows.rows, tops.some):
        rows, ptr, to = min(tops.some, windows.rows - r), later(windows.ptr, r), later(y, at + r * out)
        folded = later(tops.rows, line.before)
        nan |= tops_across(x, base, ptr, windows.places, rows, line.width, least, folded, pitch, tops.ahead)
        if line.stride == 1:
            zeros |= side_by_side(tops.rows, pitch, rows, line.taps, line.step, to, out)
        else:
            zeros |= each_second(tops.rows, pitch, rows, line.taps, line.step, to, out)
    if nan != 0 or (zeros != 0 and has_negative_zero(x, base, everything, windows.plane)):
        look_at_plane(x, y, base, at, nan != 0, line, windows)


@kernel
def max_short(x: Any, y: Any, least: Any, plan: Any, first: int, last: int) -> None:
    """The planes `first` to `last`."""
    line, windows, _ = unpacked(plan)
    (space, tops), zero = room_for_tops(line, windows, least, x, np.full(1, least)), np.zeros(1, np.int64)
    x, y, everything = cells(x), cells(y), Rows(address(zero), 0, 1)
    for p in range(first, last):
        at = p * windows.rows * line.out
        top_plane(x, p * windows.plane, y, at, least, tops, everything, line, windows)
        if tops.holes:
            clear_holes(y, at, line, windows)
    alive(space)
    alive(zero)
