"""Pieces of a row: so few outputs at a time that what they see stays in the nearest cache, and threads share a long row.

    row      . . [ c c c c c c c c c c c c c c c ] . .      cells, and the padding on both sides
    pieces   |  low … high  |  low … high  |                 neighbours see some cells twice

In the buffer of a piece, entry 0 is the first place that output `low` covers, so cell c of the row stands at c + shift. Where
the windows of a row are not all alike (`taps` is 0) a row is one piece, and shift is 0.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from windowgrad.kernels.runtime.jit import helper
from windowgrad.kernels.vector.ops import lanes, splat, store, store_part

CELLS = 4096
"""How many cells of a row the outputs of a piece step over."""

LONG, LONGEST = 512, 4
"""Pieces grow by CELLS for every LONG taps, up to LONGEST times CELLS: what two pieces both see is computed twice."""

MOST = 1 << 21
"""More than so many only if one window does."""


def piece_of(out: int, taps: int, stride: int) -> tuple[int, int]:
    """(outputs in a piece, pieces of a row)."""
    cells = CELLS * min(1 + taps // LONG, LONGEST)
    piece = min(max(64, cells // stride), max(1, MOST // stride)) if taps else out
    return min(piece, out), -(-out // piece)


class Piece(NamedTuple):
    """The outputs `low` to `high` of output row `row`. In the result they begin at `at`, the cells of their plane at `base`."""

    at: int
    low: int
    high: int
    row: int
    base: int


@helper
def piece_at(number: int, size: int, line: Any, windows: Any) -> Any:
    """A piece of all rows of all planes, by its number; it has `size` outputs, or is the last of its row."""
    pieces = (line.out + size - 1) // size
    row, low = number // pieces, number % pieces * size
    base = row // windows.rows * windows.plane
    return Piece(row * line.out + low, low, min(low + size, line.out), row % windows.rows, base)


@helper
def next_piece(piece: Any, size: int, line: Any, windows: Any) -> Any:
    """The piece after another: in its row, else in the next row of the plane, else in the next plane. No division."""
    at, low, row, base = piece.at + piece.high - piece.low, piece.high, piece.row, piece.base
    if low == line.out:
        low, row = 0, row + 1
        if row == windows.rows:
            row, base = 0, base + windows.plane
    return Piece(at, low, min(low + size, line.out), row, base)


@helper
def is_unchanged(line: Any) -> Any:
    """Whether the windows along a row are its cells: they have one tap, and none lies in the padding."""
    return line.taps == 1 and line.stride == 1 and line.before == 0 and line.out == line.width


@helper
def span(line: Any, outputs: int) -> int:
    """The cells from the first to the last that so many windows side by side cover."""
    return (outputs - 1) * line.stride + (line.taps - 1) * line.step + 1  # type: ignore[no-any-return]


@helper
def buffer_size(line: Any, outputs: int, lanes: int) -> int:
    """How many entries the buffer of a piece has, with room for vectors that run past its end."""
    return (line.width if line.taps == 0 else span(line, outputs)) + (line.stride + 3) * lanes  # type: ignore[no-any-return]


@helper
def seen_by(line: Any, piece: Any) -> Any:
    """(left, right, shift): the cells of the row from left to right are what the piece sees of it."""
    if line.taps == 0:
        return 0, line.width, 0
    shift = line.before - piece.low * line.stride
    return max(0, -shift), min(line.width, span(line, piece.high - piece.low) - shift), shift


@helper
def padding_end(line: Any, piece: Any, filled: int) -> int:
    """The end of the padding behind the cells of a piece, or `filled` if there is none."""
    return filled if line.taps == 0 else max(filled, span(line, piece.high - piece.low))


@helper
def fill(a: Any, low: int, high: int, value: Any) -> None:
    """a[low:high] = value."""
    for i in range(low, high):
        a[i] = value


@helper
def clear_holes(y: Any, at: int, line: Any, windows: Any) -> None:
    """The outputs of a plane that see no cell are 0; the first of all stands at `at`."""
    for r in range(windows.rows):
        if windows.ptr[r] == windows.ptr[r + 1]:
            fill(y, at + r * line.out, at + (r + 1) * line.out, 0)
        for j in range(line.out):
            if windows.count[j] == 0:
                y[at + r * line.out + j] = 0


@intrinsic
def wipe(typing: Any, a: Any, low: Any, high: Any) -> Any:
    """a[low:high] = 0 by the C library, which writes much memory past the caches."""

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        size = builder.mul(builder.sub(args[2], args[1]), context.get_constant(types.intp, a.dtype.bitwidth // 8))
        cgutils.memset(builder, builder.gep(args[0], [args[1]]), size, 0)
        return context.get_dummy_value()

    return types.void(a, types.intp, types.intp), emit


@helper
def clear(gx: Any, low: int, high: int) -> None:
    """gx[low:high] = 0, by vectors."""
    n = lanes(gx)
    while low + n <= high:
        store(gx, low, splat(gx, 0))
        low += n
    if low < high:
        store_part(gx, low, splat(gx, 0), high - low)
