"""Maximum and minimum of the cells that a mask leaves: as `max_rows` finds them, with −∞ where a cell is left out.

For windows of moderate size over planes that are not large (`is_taken`). Cells are replaced as rows are folded (`fold`), so no
copy of them is made; windows of three columns a cell apart need no buffer either (`near`). Where a maximum is −∞ the mask is
looked at, cell by cell, and the result is 0 if it leaves none; there are at most MANY looks per cell. Rows that hold NaN, or
zeros of both signs, are looked at again in a copy of their plane. A minimum is the maximum of cells that change their sign as
they are read; what comes out of a row changes it back.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from windowgrad.geometry import Global
from windowgrad.kernels.arrays import Array
from windowgrad.kernels.pool.axis_passes import has_many_rows
from windowgrad.kernels.pool.blocks import cut_up
from windowgrad.kernels.pool.layout import planned_for
from windowgrad.kernels.pool.long_rows import is_long
from windowgrad.kernels.pool.masked.fill import LARGEST, Kind, fill_plane, turn_signs, whole_mask
from windowgrad.kernels.pool.masked.fold import masked_folding
from windowgrad.kernels.pool.masked.near import near_tops
from windowgrad.kernels.pool.max.rows import has_negative_zero, has_zero, look_again, spans, unlike
from windowgrad.kernels.pool.near_rows import is_near
from windowgrad.kernels.pool.packed import rows_of, unpacked
from windowgrad.kernels.pool.plan import Plan
from windowgrad.kernels.pool.row_pieces import Piece, buffer_size, fill, next_piece, padding_end, piece_at, seen_by
from windowgrad.kernels.pool.window_spans import uses_up
from windowgrad.kernels.runtime.buffers import maker
from windowgrad.kernels.runtime.jit import helper, kernel
from windowgrad.kernels.runtime.threads import over
from windowgrad.kernels.vector.loops import larger
from windowgrad.kernels.vector.ops import address, alive, anywhere, equal, lanes, load, splat
from windowgrad.params import MaxParams

MANY = 64
"""The most windows that see a cell, about."""

FLOATS = np.dtype(np.float32), np.dtype(np.float64)


def topping(params: MaxParams, x: Kind, mask: Kind, least: bool = False) -> Callable[[Array, Array], tuple[Array, bool]] | None:
    """From contiguous x and mask of these kinds to (the maxima, whether a window has no cell left); None if it is not taken.

    The minima, if it is the `least` cells that are wanted.
    """
    if not is_taken(params, *x):
        return None
    p, planes = planned_for(params.geometry, x[0])
    return taking(params, x, mask, (max_planes_for(p, least), (p.packed,), planes * p.pieces))


def taking(
    params: MaxParams, x: Kind, mask: Kind, way: tuple[Any, tuple[Any, ...], int]
) -> Callable[[Array, Array], tuple[Array, bool]]:
    """`topping` by a way: a kernel, what it is told besides arrays, masks and the least value, and how much of it there is."""
    (shape, dtype), geometry, (kernel, told, count) = x, params.geometry, way
    (lead, spatial), out = geometry.split(shape), geometry.out_shape(shape)
    new, (read, which) = maker(out, dtype), whole_mask(lead, spatial, mask[0])
    given, work = (which, dtype.type(-np.inf), *told), 2 * math.prod(shape) * dtype.itemsize

    def call(x: Array, mask: Array) -> tuple[Array, bool]:
        y = new(out, dtype)
        return y, bool(over(kernel, (x.ravel(), read(mask), y.ravel(), *given), count, work))

    return call


def is_taken(params: MaxParams, shape: tuple[int, ...], dtype: np.dtype[Any]) -> bool:
    """Whether whole arrays would be taken by `max_rows` at once."""
    geometry, spatial = params.geometry, params.geometry.split(shape)[1]
    if dtype not in FLOATS or math.prod(shape) == 0 or isinstance(geometry, Global):
        return False
    if math.prod(spatial) * dtype.itemsize > LARGEST or math.prod(geometry.grid(spatial)) == 0:
        return False
    if is_long(geometry, shape) or has_many_rows(geometry) or cut_up(geometry, shape, 1, False, False, True) is not None:
        return False
    p = planned_for(geometry, shape)[0]
    return len(p.rows) * int(p.count.sum()) <= MANY * p.plane_in


@helper
def has_any(mask: Any, at: int, windows: Any, row: int, j: int) -> Any:
    """Whether the mask, of the plane that begins there, leaves a cell that output j of a row sees."""
    for q in range(windows.ptr[row], windows.ptr[row + 1]):
        cell = at + windows.places[q] + windows.start[j]
        for _ in range(windows.count[j]):
            if mask[cell] != 0:
                return True
            cell += windows.step
    return False


@helper
def review(y: Any, piece: Any, loser: Any, mask: Any, start: int, windows: Any) -> int:
    """The outputs of a piece that lose to every other value become 0 if they have no cell; whether one has none."""
    n, wanted, found, size, i = lanes(y), splat(y, loser), 0, piece.high - piece.low, 0
    while i < size:
        if i + n > size or anywhere(equal(load(y, piece.at + i), wanted)):
            for o in range(i, min(i + n, size)):
                if y[piece.at + o] == loser and not has_any(mask, start, windows, piece.row, piece.low + o):
                    y[piece.at + o] = 0
                    found = 1
        i += n
    return found


@helper
def look_at_copy(
    x: Any, mask: Any, start: int, cells: Any, copied: int, loser: Any, turned: bool, y: Any, piece: Any, strange: bool,
    windows: Any,
) -> int:  # fmt: skip
    """`look_again` at a piece in `cells`, a copy of the plane at `copied`, or else a new one; gives which plane it is."""
    if copied != piece.base:
        fill_plane(x, piece.base, mask, start, cells, 0, windows.plane, loser)
        if turned:
            turn_signs(cells, 0, windows.plane)
    look_again(cells, y, Piece(piece.at, piece.low, piece.high, piece.row, 0), strange, windows)
    return piece.base  # type: ignore[no-any-return]


def planes_kernel(turned: bool) -> Any:
    """For maxima, or for minima, of which the signs are turned."""
    fold = masked_folding(larger, True, turned)

    @kernel
    def max_planes(x: Any, mask: Any, y: Any, which: Any, least: Any, plan: Any, first: int, last: int) -> int:
        """Pieces `first` to `last` of the output rows of all planes, as in `max_rows`; `which` mask a plane has.

        Says whether a window has no cell left.
        """
        line, windows, size = unpacked(plan)
        taps, found, holes, base, start, copied = line.taps, 0, False, -1, 0, -1
        loser = -least if turned else least
        space, plane = np.full(buffer_size(line, size, lanes(x)), least, x.dtype), np.empty(windows.plane, x.dtype)
        x, masks, y, buffer, cells = address(x), address(mask), address(y), address(space), address(plane)
        refill = size < line.out or uses_up(taps)
        for j in range(line.out):
            holes |= windows.count[j] == 0
        piece = piece_at(first, size, line, windows)
        for _ in range(first, last):
            at, out, rows = piece.at, piece.high - piece.low, rows_of(windows, piece.row)
            left, right, shift = seen_by(line, piece)
            if piece.base != base:
                base, start = piece.base, which[piece.base // windows.plane] * windows.plane
            if rows.low == rows.high or left >= right:
                fill(y, at, at + out, 0)
            else:
                if refill:  # else the padding is as it was made
                    fill(buffer, 0, left + shift, least)
                    fill(buffer, right + shift, padding_end(line, piece, right + shift), least)
                seen = fold(x, base + left, masks, start + left, rows, right - left, buffer, left + shift, least)
                strange = anywhere(seen)
                if taps == 0:
                    unlike(buffer, y, at, out, windows)
                else:
                    spans(buffer, 0, y, at, out, taps, line.step, line.stride)
                if strange or (has_zero(y, at, out) and has_negative_zero(x, base + left, rows, right - left)):
                    copied = look_at_copy(x, masks, start, cells, copied, loser, turned, y, piece, strange, windows)
                if turned:
                    turn_signs(y, at, out)
                for j in range(out if holes else 0):
                    if windows.count[piece.low + j] == 0:
                        y[at + j] = 0
                found |= review(y, piece, loser, masks, start, windows)
            piece = next_piece(piece, size, line, windows)
        alive(space)
        alive(plane)
        return found

    return max_planes


def near_kernel(turned: bool) -> Any:
    """The same for the geometries of `near_rows.is_near`, where a row needs no buffer."""
    tops = near_tops(turned)

    @kernel
    def max_planes_near(x: Any, mask: Any, y: Any, which: Any, least: Any, plan: Any, first: int, last: int) -> int:
        """The output rows `first` to `last` of all planes; `which` mask a plane has. Says whether a window has no cell left."""
        line, windows, _ = unpacked(plan)
        width, found, base, start, copied = line.width, 0, -1, 0, -1
        loser, plane = -least if turned else least, np.empty(windows.plane, x.dtype)
        x, masks, y, cells = address(x), address(mask), address(y), address(plane)
        piece = piece_at(first, width, line, windows)
        for _ in range(first, last):
            at, rows = piece.at, rows_of(windows, piece.row)
            if piece.base != base:
                base, start = piece.base, which[piece.base // windows.plane] * windows.plane
            if rows.low == rows.high:
                fill(y, at, at + width, 0)
            else:
                seen = tops(x, base, masks, start, rows, width, least, y, at)
                strange = seen & 1 != 0
                if strange or (seen & 2 != 0 and has_negative_zero(x, base, rows, width)):
                    copied = look_at_copy(x, masks, start, cells, copied, loser, turned, y, piece, strange, windows)
                if turned:
                    turn_signs(y, at, width)
                if seen & 4 != 0:
                    found |= review(y, piece, loser, masks, start, windows)
            piece = next_piece(piece, width, line, windows)
        alive(plane)
        return found

    return max_planes_near


planes_of_greatest, planes_of_least = planes_kernel(False), planes_kernel(True)
near_of_greatest, near_of_least = near_kernel(False), near_kernel(True)


def max_planes_for(p: Plan, least: bool) -> Any:
    """The kernel for a plan."""
    if is_near(p):
        return near_of_least if least else near_of_greatest
    return planes_of_least if least else planes_of_greatest
