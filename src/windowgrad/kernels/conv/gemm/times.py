"""How long products and copies take, about, in products of vectors or cycles of one thread: by that, ways are chosen."""

from __future__ import annotations

from windowgrad.kernels.conv import plan
from windowgrad.kernels.conv.plan import Gather
from windowgrad.kernels.vector.registers import ROWS, VECTORS, WIDE_BYTES

PIECE = 4.0
"""Copying a vector takes as long as so many products of vectors."""
LATENCY, SAVED = 4, ROWS // 4
"""Cycles until the result of a product can be added to, and what half a vector of ROWS rows takes less than a whole one."""


def tile_time(rows: int, columns: int, itemsize: int) -> int:
    """The cycles that the tiles of a product take for each k, if one product of vectors does: loops of few of them wait."""
    whole, rest = divmod(columns, plan.panel(itemsize))
    halves = -(-2 * rest * itemsize // WIDE_BYTES)
    return whole * loop_time(rows, VECTORS) + -(-halves // 2) * loop_time(rows, 1) - halves % 2 * (rows // ROWS) * SAVED


def loop_time(rows: int, vectors: int) -> int:
    """The same for so many vectors in a row: a loop for each power of two in the number of rows (`multiply_rows`)."""
    sizes = [ROWS] * (rows // ROWS) + [1 << bit for bit in range(ROWS.bit_length() - 1) if rows >> bit & 1]
    return sum(max(LATENCY, size * vectors + (vectors == 1)) for size in sizes)


def pack_time(gather: Gather, length: int) -> float:
    """How long packing a panel takes for each k, in products of vectors."""
    return PIECE * (VECTORS + length / int(gather.own_axes[0][-1]))


def half(count: int) -> int:
    """The larger part of so many things."""
    return -(-count // 2)
