"""The weight of conv/gemm as its tiles read it: ROWS numbers for each k, so that they lie side by side.

    w: rows × k  ┌───────────────┐          packed: for each tile   k ┌──┐        rows past the last are zeros
                 │ tile of ROWS  │                                  ↓ │  │ ROWS
                 ├───────────────┤                                    └──┘

Measured and rejected: to pack it panel by panel: an input gradient takes a few cells from each of hundreds of rows far
apart; channel by channel they follow each other, and one image of 512 channels takes half the time. To pack it in every call:
with few pixels that takes as long as a third of the products, with many nothing is saved (`layout.reads_in_place`). 16 images
of 512 channels, 3×3 on 7×7, take 0.85 of the time with the weight in its place, 64 channels to 384, 1×1 on 14×14, 0.87.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from windowgrad.kernels.conv.records import Range
from windowgrad.kernels.runtime.jit import helper, kernel
from windowgrad.kernels.vector.masked import one_by_one
from windowgrad.kernels.vector.ops import address, later
from windowgrad.kernels.vector.registers import ROWS
from windowgrad.kernels.vector.tiles import Matrix
from windowgrad.kernels.vector.transpose import copy_column, copy_row, turn


class Weight(NamedTuple):
    """The weight of a group: the number of (row, channel, tap) is cells[row_step·row + channel_step·channel + places[tap]]."""

    cells: Any
    row_step: int
    channel_step: int
    places: Any


class Block(NamedTuple):
    """What is packed at a time: these rows of a group, and k of these channels and taps."""

    rows: Range
    channels: Range
    taps: Range


@helper
def pack_weight(w: Weight, block: Block, to: Any) -> None:
    """The weight of a block as panels of ROWS numbers for each k. Rows past the last are zeros.

    Where taps lie one after the other, ROWS of them are turned around at once. All rows of a channel are taken before the
    next channel: in the weight they lie closer together, or it is all one row.
    """
    rows, channels, taps = block.rows, block.channels.last - block.channels.first, block.taps.last - block.taps.first
    in_order = w.places[block.taps.last - 1] - w.places[block.taps.first] == taps - 1
    times, length = (1, channels * taps) if in_order and w.channel_step == taps else (channels, taps if in_order else 1)
    if length < ROWS:
        scatter_weight(w, block, to)
        return
    for c in range(block.channels.first, block.channels.first + times):
        for row in range(rows.first, rows.last, ROWS):
            some, panel, done = min(ROWS, rows.last - row), later(to, (row - rows.first) * channels * taps), 0
            source = later(w.cells, row * w.row_step + c * w.channel_step + w.places[block.taps.first])
            if some < ROWS:
                for i in range(length * ROWS):
                    panel[i] = 0
            else:
                while done + ROWS <= length:
                    turn(Matrix(later(panel, done * ROWS), ROWS), Matrix(later(source, done), w.row_step))
                    done += ROWS
            for k in range(done, length):
                for r in range(some):
                    one_by_one()
                    panel[k * ROWS + r] = source[k + r * w.row_step]
        to = later(to, length * ROWS)


@helper
def scatter_weight(w: Weight, block: Block, to: Any) -> None:
    """The same, one k of all rows after the other."""
    rows, channels, taps = block.rows, block.channels, block.taps
    panel = (channels.last - channels.first) * (taps.last - taps.first) * ROWS
    whole = rows.first + (rows.last - rows.first) // ROWS * ROWS
    for c in range(channels.first, channels.last):
        for t in range(taps.first, taps.last):
            i, source = 0, later(w.cells, c * w.channel_step + w.places[t])
            if w.row_step == 1:
                for row in range(rows.first, whole, ROWS):
                    copy_row(later(to, i), later(source, row))
                    i += panel
            else:
                for row in range(rows.first, whole, ROWS):
                    copy_column(later(to, i), later(source, row * w.row_step), w.row_step)
                    i += panel
            for r in range(ROWS if whole < rows.last else 0):
                one_by_one()
                to[i + r] = source[(whole + r) * w.row_step] if whole + r < rows.last else 0
            to = later(to, ROWS)


@kernel
def pack_tiles(w: Any, packed: Any, places: Any, weight: Any, sizes: Any, first: int, last: int) -> None:
    """Packs a share of the tiles of all groups. `weight`: how far groups, rows and channels are apart in it.

    `sizes`: rows and channels of a group, and the first tile that is packed.
    """
    (per_group, per_row, per_channel), (rows, channels, start) = weight, sizes
    tiles, taps = (rows + ROWS - 1) // ROWS, len(places)
    first, last = first + start, last + start
    for group in range(first // tiles, (last + tiles - 1) // tiles):
        low, high = max(0, first - group * tiles), min(tiles, last - group * tiles)
        numbers = Weight(later(address(w), group * per_group), per_row, per_channel, address(places))
        block = Block(Range(low * ROWS, min(rows, high * ROWS)), Range(0, channels), Range(0, taps))
        pack_weight(numbers, block, later(address(packed), (group * tiles + low - start) * channels * taps * ROWS))
