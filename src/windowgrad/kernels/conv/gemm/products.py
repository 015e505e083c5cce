"""The forward pass and the input gradient of any geometry: a product of matrices that are packed block by block.

Computes y[image, row, pixel] = bias[row] + the sum over k = (channel, tap) of w[row, k] · x(k, image and pixel), where
x(k, pixel) is the cell that the pixel meets at the tap, or 0 in the padding. In the input gradient, rows are the channels of
the convolution, and the pixels of one phase of its stride are one call (see `conv/plan.py`).

Chosen for every pass that no other kernel takes (`gemm/ways.py: always`), the last row of `WAYS` in `conv/choose.py`.

How it is blocked, from the outside in. Nothing is as large as all pixels times all k: the cells that pixels meet are
packed from where they stand, by the lists of `conv/pieces.py`.

                                    pixels of all images, as one row
                         ┌── panel ──┬── panel ──┬─────  ─────┬── panel ──┐ ┬
                         │           │           │            │           │ │ k of a block: some channels × some taps,
                         │  packed: at most PANELS bytes      │           │ │ at most STEPS
             k           │           │           │            │           │ │
     ┌───────────────┐   ├───────────┼───────────┼─────  ─────┼───────────┤ ┴
     │ ROWS          │   │   tile    │   tile    │            │           │   a tile: ROWS rows × VECTORS vectors of sums
     ├───────────────┤   ├───────────┼───────────┼─────  ─────┼───────────┤   in registers
     │ ROWS          │   │           │           │            │           │
     ├───────────────┤   ├───────────┼───────────┼─────  ─────┼───────────┤
     │ packed: at    │   │           │    y      │            │           │
     │ most WEIGHTS  │   │           │           │            │           │
     └───────────────┘   └───────────┴───────────┴─────  ─────┴───────────┘
      w: some rows

for each group, block of k, block of rows: pack the weight; for each block of panels: pack the pixels, then all tiles of the
two. The first block of k puts its sums with the bias, the others add theirs. STEPS, PANELS, WEIGHTS and the sizes of
blocks are in `conv/plan.py`: a panel of STEPS stays in the second cache. The order of every sum depends on the shapes only.

Measured and rejected: to pack pixels that already lie in order (windows of one cell) where few rows use them: they are read
where they stand. To pack the weight panel by panel: an input gradient takes a few cells from each of hundreds of rows far
apart; channel by channel they follow each other, and one image of 512 channels takes half the time. To pad each row of
pixels to whole vectors, as the first prototype did: with rows of 56 that is 14 % of the work; here pixels run on over rows
and images. Winograd and FFT change the error bound and spread NaN and infinity to neighbours: not used.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from windowgrad.kernels.conv.pieces import copy_pieces, in_pieces, out_pieces, put_pieces
from windowgrad.kernels.conv.records import InAxes, OutAxes, Pieces, Range, Sizes, Start
from windowgrad.kernels.runtime.jit import helper, kernel
from windowgrad.kernels.vector.masked import one_by_one
from windowgrad.kernels.vector.ops import address, later
from windowgrad.kernels.vector.registers import ROWS, VECTORS, wide_lanes
from windowgrad.kernels.vector.tiles import Factor, Matrix, multiply_tile
from windowgrad.kernels.vector.transpose import copy_column, copy_row, turn


class Weight(NamedTuple):
    """The weight of a group: the number of (row, channel, tap) is cells[row_step·row + channel_step·channel + places[tap]]."""

    cells: Any
    row_step: int
    channel_step: int
    places: Any


class Blocks(NamedTuple):
    """How large blocks are at most: channels, taps, rows, panels; `in_order`: pixels lie so, and are read where they stand."""

    channels: int
    taps: int
    rows: int
    panels: int
    in_order: bool


class Share(NamedTuple):
    """What one thread does: some rows of all groups, some panels; and whether it adds to what y has."""

    first_row: int
    last_row: int
    first_panel: int
    last_panel: int
    adds: bool


class Block(NamedTuple):
    """What is packed at a time: these rows of a group, and k of these channels and taps."""

    rows: Range
    channels: Range
    taps: Range


class Packed(NamedTuple):
    """Scratch memory: the weight of a block, its panels of pixels (`panel` cells each), a tile, lists of pieces.

    For each panel the lists have the number of its pieces in y, then where its cells stand in x if they are not packed, or
    −1, then the pieces; after all panels there is space for those in the input, `pieces`.
    """

    weight: Any
    pixels: Any
    panel: int
    tile: Any
    lists: Any
    pieces: Any


# --- the weight --------------------------------------------------------------------------------------------------


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


# --- the pixels --------------------------------------------------------------------------------------------------


@helper
def pack_pixels(
    x: Matrix, met: InAxes, out: OutAxes, block: Block, panels: Range, pixels: int, in_order: bool, to: Packed
) -> None:
    """The cells that the pixels of some panels meet, for a block, and where the pixels stand in y.

    x has a row for each channel of the group. Where pixels are `in_order`, panels that lie within one image are not packed.
    """
    lanes, stride = wide_lanes(x.cells), met.step[met.rank - 1]
    length, channels = VECTORS * lanes, block.channels.last - block.channels.first
    for q in range(panels.first, panels.last):
        some = Range(q * length, min((q + 1) * length, pixels))
        lists = later(to.lists, (q - panels.first) * (3 * length + 2))
        lists[0] = out_pieces(some, out, lanes, later(lists, 2)).number
        image = some.first // met.grid[0]
        lists[1] = image * (met.image - x.step) + some.first
        if not in_order or some.first + length > (image + 1) * x.step:
            lists[1] = -1
        if lists[1] >= 0:
            continue
        pieces = in_pieces(some, met, block.taps, lanes, length, to.pieces)
        panel = Matrix(later(to.pixels, (q - panels.first) * to.panel), (block.taps.last - block.taps.first) * length)
        copy_pieces(panel, Matrix(later(x.cells, block.channels.first * x.step), x.step), channels, stride, pieces)


# --- the products ------------------------------------------------------------------------------------------------


@helper
def multiply_block(x: Matrix, y: Matrix, move: int, block: Block, panels: Range, pixels: int, start: Start, of: Packed) -> int:
    """All tiles of a packed block, put into y, which has a row for each row of the group; gives the strange lanes."""
    lanes, strange = wide_lanes(of.tile), 0
    length, rows, channels, taps = VECTORS * lanes, block.rows, block.channels, block.taps
    k = (channels.last - channels.first) * (taps.last - taps.first)
    for m in range(rows.first, rows.last, ROWS):
        weight = Factor(later(of.weight, (m - rows.first) * k), 1, ROWS)
        to, first = Matrix(later(y.cells, m * y.step), y.step), Start(later(start.bias, m), start.biased, start.fresh)
        for q in range(panels.first, panels.last):
            vectors = (min(length, pixels - q * length) + lanes - 1) // lanes
            lists = later(of.lists, (q - panels.first) * (3 * length + 2))
            if lists[1] >= 0:
                cells = Matrix(later(x.cells, lists[1] + channels.first * x.step), x.step)
            else:
                cells = Matrix(later(of.pixels, (q - panels.first) * of.panel), length)
            multiply_tile(weight, cells, k, vectors, of.tile)
            strange |= put_pieces(to, min(ROWS, rows.last - m), move, of.tile, first, Pieces(later(lists, 2), lists[0]))
    return strange


@kernel
def products(
    x: Any, w: Any, y: Any, bias: Any, scratch: Any, axes: Any, outs: Any, weight: Any, sizes: Any, blocks: Any, share: Any
) -> int:
    """A share of the forward pass or the input gradient; gives the strange lanes of all sums.

    `scratch`: cells and integers; `axes` as in `InAxes`; `outs`: grid and move as in `OutAxes`, and the place of pixel 0;
    `weight`: where each tap stands in it, and how far groups, rows and channels are apart there; `sizes` as in `Sizes`;
    `blocks` as in `Blocks`; `share` as in `Share`.
    """
    size, (room, lists), (grid, move, origin) = Sizes(*sizes), scratch, outs
    places, per_group, per_row, per_channel = weight
    most, own = Blocks(*blocks), Share(*share)
    met = InAxes(
        len(axes[0]), address(axes[0]), address(axes[1]), address(axes[2]), address(axes[3]),
        size.groups * size.channels * size.plane,
    )  # fmt: skip
    out = OutAxes(len(grid), address(grid), address(move), size.groups * size.rows * size.out_plane)
    lanes, pixels, strange = wide_lanes(y), size.images, 0
    length = VECTORS * lanes
    for axis in range(met.rank):
        pixels *= met.grid[axis]
    weights, panel = most.channels * most.taps * most.rows, most.channels * most.taps * length
    packed = Packed(
        address(room), later(address(room), weights), panel, later(address(room), weights + most.panels * panel + lanes),
        address(lists), later(address(lists), most.panels * (3 * length + 2)),
    )  # fmt: skip
    for group in range(own.first_row // size.rows, (own.last_row + size.rows - 1) // size.rows):
        low, high = max(0, own.first_row - group * size.rows), min(size.rows, own.last_row - group * size.rows)
        cells = Matrix(later(address(x), group * size.channels * size.plane), size.plane)
        sums = Matrix(later(address(y), origin + group * size.rows * size.out_plane), size.out_plane)
        numbers = Weight(later(address(w), group * per_group), per_row, per_channel, address(places))
        for c in range(0, size.channels, most.channels):
            channels = Range(c, min(size.channels, c + most.channels))
            for t in range(0, len(places), most.taps):
                taps = Range(t, min(len(places), t + most.taps))
                start = Start(later(address(bias), group * size.rows), c + t == 0, c + t == 0 and not own.adds)
                last = channels.last == size.channels and taps.last == len(places)
                for m in range(low, high, most.rows):
                    block = Block(Range(m, min(high, m + most.rows)), channels, taps)
                    pack_weight(numbers, block, packed.weight)
                    for q in range(own.first_panel, own.last_panel, most.panels):
                        panels = Range(q, min(own.last_panel, q + most.panels))
                        pack_pixels(cells, met, out, block, panels, pixels, most.in_order, packed)
                        seen = multiply_block(cells, sums, out.move[out.rank - 1], block, panels, pixels, start, packed)
                        if last:
                            strange |= seen
    return strange
