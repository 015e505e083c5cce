"""Rows into one, of the cells that a mask leaves: the first step of masked windows.

As `fold_rows`, with a second vector for each: bytes of the mask, and another value where they are 0. So no copy of the cells is
made, and memory is read as without a mask. The counts of the cells that are left are folded and added along a row as bytes,
four times as many at once as cells.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba import types
from numba.extending import intrinsic

from windowgrad.kernels.pool.packed import Rows
from windowgrad.kernels.pool.window_spans import DIRECT
from windowgrad.kernels.runtime.jit import helper
from windowgrad.kernels.vector.loops import Combine, Emitter, mask_of
from windowgrad.kernels.vector.ops import equal, lanes, load, load_as, load_beside, select, splat, store
from windowgrad.kernels.vector.shuffle import even
from windowgrad.kernels.vector.types import Vec, constant, kind, read, read_first, spread, vec

COUNTS = (2, 3)
"""Numbers of rows that have a loop of their own."""

MOST = 255
"""The greatest count that a byte holds."""


def choosing(
    e: Emitter, x: tuple[Any, ...], mask: tuple[Any, ...], places: tuple[Any, Any], other: Any, turned: bool
) -> Callable[[Any, Any, Any], tuple[Any, Any]]:
    """chosen(q, j, left): the vector of row q from column j on, `other` where the mask is 0, and the lanes where it is not.

    If `left` is not None, only so many lanes are read, and the mask is 0 in all others. x and mask are (type, value, begin) of
    addresses; row q is places[q] cells after their begin. Cells change their sign first if they are to be `turned`.
    """
    (cell, source, base), (byte, masks, start), builder = x, mask, e.builder
    bytes_of = Vec(byte.dtype, e.n)
    none = constant(bytes_of, 0)

    def chosen(q: Any, j: Any, left: Any) -> tuple[Any, Any]:
        place = e.add(e.cell(places, q), j)
        at = e.add(start, place)
        if left is None:
            there = read(e.context, builder, byte, masks, at, bytes_of)
            cells = e.load((cell, source), e.add(base, place))
        else:
            there = read_first(e.context, builder, byte, masks, at, left, none, bytes_of)
            cells = e.load_first((cell, source), e.add(base, place), left)
        kept = builder.icmp_unsigned("!=", there, none)
        return builder.select(kept, builder.fneg(cells) if turned else cells, other), kept

    return chosen


def masked_folding(combine: Combine, watch: bool, turned: bool = False) -> Any:
    """fold(x, base, mask, start, rows, width, buffer, at, other): buffer[at:] = the `Rows` of x combined, `width` cells each.

    Places are counted from `base` on, and in the mask from `start` on; where that is 0, a cell is `other`. There is at least
    one row. Cells change their sign first if they are to be `turned`. Gives the mask of lanes in which a NaN was seen, if
    `watch` says to look. All arrays are addresses.
    """

    @intrinsic
    def fold(
        typing: Any, x: Any, base: Any, mask: Any, start: Any, rows: Any, width: Any, buffer: Any, at: Any, other: Any
    ) -> Any:
        v = vec(buffer.dtype)
        looks = watch and kind(v) == "f"

        def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            e = Emitter(context, builder, buffer.dtype)
            target, width, at = (buffer, args[6]), args[5], args[7]
            places, low, high = (builder.extract_value(args[4], field) for field in range(len(Rows._fields)))
            seen, instead = e.variable(constant(mask_of(v), 0)), spread(builder, args[8], e.n)
            chosen = choosing(e, (x, *args[:2]), (mask, *args[2:4]), (rows.types[0], places), instead, turned)

            def cells(q: Any, j: Any, left: Any = None) -> Any:
                found = chosen(q, j, left)[0]
                if looks:
                    builder.store(builder.or_(builder.load(seen), builder.fcmp_unordered("uno", found, found)), seen)
                return found

            def any_number(j: Any, left: Any = None) -> Any:
                total = e.variable(cells(low, j, left))
                with e.steps(e.add(low, 1), high, e.int(1)) as q:
                    builder.store(combine(e, builder.load(total), cells(q, j, left)), total)
                return builder.load(total)

            def known(count: int) -> None:
                with e.steps(e.int(0), e.add(width, 1 - e.n), e.int(e.n)) as j:
                    total = cells(low, j)
                    for q in range(1, count):
                        total = combine(e, total, cells(e.add(low, q), j))
                    e.store(target, e.add(at, j), total)

            def others() -> None:
                with e.steps(e.int(0), e.add(width, 1 - e.n), e.int(e.n)) as j:
                    e.store(target, e.add(at, j), any_number(j))

            e.by_number(builder.sub(high, low), COUNTS, known, others)
            left = builder.and_(width, e.int(e.n - 1))
            with builder.if_then(builder.icmp_signed("!=", left, e.int(0))):
                j = builder.sub(width, left)
                e.store_first(target, e.add(at, j), any_number(j, left), left)
            return builder.load(seen)

        whole = types.intp
        return mask_of(v)(x, whole, mask, whole, rows, whole, buffer, whole, buffer.dtype), emit

    return fold


# --- counts ------------------------------------------------------------------------------------------------------


@helper
def ones(mask: Any, i: int, like: Any) -> Any:
    """1 where a byte of the mask is not 0, as many as a vector of `like` has lanes."""
    there = load_beside(mask, i, like)
    return select(equal(there, splat(there, 0)), splat(there, 0), splat(there, 1))


@helper
def tally_vectors(mask: Any, start: int, rows: Any, width: int, into: Any, at: int, like: Any) -> None:
    """`tally` by vectors with the lanes of `like`, of which a row fills one at least."""
    n = lanes(like)
    for j in range(0, width, n):
        i = min(j, width - n)  # once more some of what is done, and nothing past the row
        sums = ones(mask, start + rows.places[rows.low] + i, like)
        for q in range(rows.low + 1, rows.high):
            sums = sums + ones(mask, start + rows.places[q] + i, like)
        store(into, at + i, sums)


@helper
def tally(mask: Any, start: int, rows: Any, width: int, into: Any, at: int, like: Any) -> None:
    """into[at:] = how many of the rows the mask leaves a cell of, column by column; there are at most MOST rows.

    `like` has fewer lanes than the mask: those of rows that do not fill a vector of bytes.
    """
    if width >= lanes(mask):
        tally_vectors(mask, start, rows, width, into, at, mask)
    elif width >= lanes(like):
        tally_vectors(mask, start, rows, width, into, at, like)
    else:
        for i in range(width):
            total = 0
            for q in range(rows.low, rows.high):
                total += mask[start + rows.places[q] + i] != 0
            into[at + i] = total


@helper
def count_padded(row: int, low: int, high: int, row_inside: Any, col_inside: Any, windows: Any, more: Any, at: int) -> None:
    """more[at:] = how many padded cells count, of the windows `low` to `high` of an output row."""
    rows = windows.ptr[row + 1] - windows.ptr[row]
    for j in range(low, high):
        more[at + j - low] = row_inside[row] * col_inside[j] - rows * windows.count[j]


@helper
def count_along(columns: Any, shift: int, line: Any, windows: Any, piece: Any, rows: int, spare: Any, counts: Any) -> None:
    """counts = the cells that each window of a piece has left; cell c of its row is columns[c + shift]."""
    out, taps, stride, step = piece.high - piece.low, line.taps, line.stride, line.step
    if 0 < taps <= DIRECT and stride <= 2 and rows * taps <= MOST:
        n = lanes(columns)
        for j in range(0, out, n):
            total = splat(columns, 0)
            for t in range(taps):
                i = j * stride + t * step
                total = total + (load(columns, i) if stride == 1 else even(load(columns, i), load(columns, i + n)))
            store(spare, j, total)
        for j in range(0, out, lanes(counts)):
            store(counts, j, load_as(spare, j, counts))
        return
    low, high, total = 0, 0, 0
    for j in range(out):
        begin, cells = windows.start[piece.low + j] + shift, windows.count[piece.low + j]
        if step > 1 or cells == 0:
            total = 0
            for t in range(cells):
                total += columns[begin + t * step]
            counts[j], low, high, total = total, 0, 0, 0
            continue
        if begin >= high:
            low, high, total = begin, begin, 0
        for i in range(low, begin):
            total -= columns[i]
        for i in range(high, begin + cells):
            total += columns[i]
        low, high = begin, begin + cells
        counts[j] = total
