"""Pieces of a row: so few outputs at a time that what they see stays in the nearest cache, and threads share a long row.

A piece has the outputs `low` to `high`. In its buffer, entry 0 is the first place that output `low` covers, so cell c of
the row stands at c + shift. Where the windows of a row are not all alike (`taps` is 0) a row is one piece, and shift is 0.
"""

from __future__ import annotations

from typing import Any

from windowgrad.kernels.runtime.jit import helper
from windowgrad.kernels.vector.ops import address, later

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


@helper
def unpacked(plan: Any) -> Any:
    """What `Plan.packed` holds: ten numbers, and the addresses of its lists."""
    head = address(plan)
    outer, plane, out, step, width = head[0], head[1], head[2], head[3], head[4]
    ptr = later(head, 10)
    rows = later(ptr, outer + 1)
    start = later(rows, ptr[outer])
    lists = ptr, rows, start, later(start, out)
    return outer, plane, out, step, width, head[5], head[6], head[7], head[8], head[9], lists


@helper
def reach(width: int, taps: int, stride: int, step: int, piece: int, lanes: int) -> int:
    """How many entries the buffer of a piece has, with room for vectors that run past its end."""
    return (width if taps == 0 else (piece - 1) * stride + (taps - 1) * step + 1) + (stride + 3) * lanes


@helper
def cut(width: int, taps: int, stride: int, step: int, before: int, low: int, high: int) -> Any:
    """(left, right, shift): the cells of the row from left to right are what the piece sees of it."""
    if taps == 0:
        return 0, width, 0
    shift = before - low * stride
    span = (high - 1 - low) * stride + (taps - 1) * step + 1
    return max(0, -shift), min(width, span - shift), shift


@helper
def ends(taps: int, stride: int, step: int, low: int, high: int, filled: int) -> int:
    """The end of the padding behind the cells of a piece, or `filled` if there is none."""
    return filled if taps == 0 else max(filled, (high - 1 - low) * stride + (taps - 1) * step + 1)


@helper
def next_piece(line: int, low: int, row: int, base: int, piece: int, out: int, outer: int, plane: int) -> Any:
    """The place after a piece: in the row, else in the next row of the plane, else in the next plane. No division."""
    low += piece
    if low >= out:
        line, low, row = line + 1, 0, row + 1
        if row == outer:
            row, base = 0, base + plane
    return line, low, row, base


@helper
def fill(a: Any, low: int, high: int, value: Any) -> None:
    """a[low:high] = value."""
    for i in range(low, high):
        a[i] = value
