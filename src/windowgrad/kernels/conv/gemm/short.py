"""The forward pass and the input gradient of few channels: sums of few products, for many rows, along strips of pixels.

Computes what `gemm/products.py` does, to the bit: y[image, row, pixel] = bias[row] + the sum over k = (channel, tap) of
w[row, k] · x(k, image and pixel).

Chosen where `gemm/short_ways.py: may_sum_short` holds, and k is so short that memory would wait for the tiles of
`products.py` (`sums_short`).

How it is blocked: a strip is a part of a plane of y, some panels of VECTORS vectors of pixels. What they meet is copied by the
lists of `conv/pieces.py`, a row for each k, or read where it stands (`in_order`), and stays in the nearest cache while all
rows of y use it: ROWS of them at a time, each written from the first to the last pixel of the strip (`vector/strips.py:
put_strip`).

                 pixels of a strip →
    k rows of x  ┌──────────────────┐        w, packed: ROWS numbers for each k
                 └──────────────────┘
    ROWS rows    ┌──────────────────┐
    of y         │ tile →           │
                 └──────────────────┘

Threads share planes; where there are few of them and pixels are not copied, slices of the rows, else strips: two threads that
write neighbouring strips both need the line of the cache where these meet. No sum depends on how planes and rows are cut.
"""

from __future__ import annotations

from typing import Any

from windowgrad.kernels.conv.pieces import copy_pieces, in_pieces
from windowgrad.kernels.conv.records import InAxes, Pieces, Range, Sizes
from windowgrad.kernels.conv.share import part_begin
from windowgrad.kernels.runtime.jit import kernel
from windowgrad.kernels.vector.ops import address, later
from windowgrad.kernels.vector.registers import ROWS, VECTORS, wide_lanes
from windowgrad.kernels.vector.strips import put_strip
from windowgrad.kernels.vector.tiles import Matrix


@kernel
def short_products(
    x: Any, w: Any, y: Any, bias: Any, scratch: Any, axes: Any, sizes: Any, strips: Any, share: Any, first: int, last: int
) -> int:
    """Some parts of the pass; gives the strange lanes of all sums.

    `w`: packed by `pack_tiles`; `scratch`: cells and integers; `axes` as in `InAxes`; `sizes` as in `Sizes`; `strips`: how many
    a plane has, how many pixels the longest has, in panels, whether (1 or 0) x is read where it stands, and how many slices the
    rows are cut into; `share`: the parts that the strips of all planes and slices are cut into, and how many cells and integers
    of the scratch each part has.
    """
    size, (room, lists), (number, pitch, in_place, slices), (parts, own, own_lists) = Sizes(*sizes), scratch, strips, share
    rank, lanes, every, strange = len(axes[0]), wide_lanes(y), len(axes[3]) // len(axes[0]), 0
    met = InAxes(rank, address(axes[0]), address(axes[1]), address(axes[2]), address(axes[3]), 0)
    stride, k, tiles, known = met.step[rank - 1], size.channels * every, (size.rows + ROWS - 1) // ROWS, -1
    copied, listed = later(address(room), first * own), later(address(lists), first * own_lists)
    planes, pieces, length = size.images * size.groups, Pieces(listed, 0), VECTORS * lanes
    panels, units = (size.out_plane + length - 1) // length, slices * planes * number
    for unit in range(part_begin(units, parts, first), part_begin(units, parts, last)):
        strip, plane, part = unit % number, unit // number % planes, unit // number // planes
        some = Range(panels * strip // number * length, min(size.out_plane, panels * (strip + 1) // number * length))
        cells = Matrix(later(address(x), plane * size.channels * size.plane), size.plane)
        b = Matrix(later(cells.cells, some.first), size.plane)
        if not in_place:
            if strip != known:
                pieces, known = in_pieces(some, met, Range(0, every), lanes, pitch, listed), strip
            b = Matrix(copied, pitch)
            copy_pieces(Matrix(copied, every * pitch), cells, size.channels, stride, pieces)
        group = plane % size.groups
        for tile in range(tiles * part // slices, tiles * (part + 1) // slices):
            row = tile * ROWS
            a = later(address(w), (group * tiles + tile) * k * ROWS)
            to = Matrix(later(address(y), (plane * size.rows + row) * size.out_plane + some.first), size.out_plane)
            extra, rows = later(address(bias), group * size.rows + row), min(ROWS, size.rows - row)
            strange |= put_strip(a, b, k, some.last - some.first, to, extra, rows)
    return strange
