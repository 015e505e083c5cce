"""The weight gradient of one image of few pixels and many rows: a short sum for each of many numbers, put where it belongs.

Computes what `gemm/weight.py` does, to the bit: gw[row, channel, tap] = the sum over pixels of g[row, pixel] · x(channel, tap,
pixel).

Chosen where `gemm/direct_ways.py: may_sum_direct` holds and there are no more pixels than rows (`sums_few_pixels`): turning
tiles around, as `weight.py` does to put them into gw, then takes longer than turning the input.

How it is blocked: numbers (channel, tap) are lanes, a panel of them at a time. Their cells are packed by the lists of
`conv/pieces.py`, a row for each number, and turned around, a row for each pixel; g is read where it stands.

                          numbers (channel, tap)
                  pixels ┌── panel ──┬── panel ──┐
                     ↓   │  x, packed and turned │
       pixels →          ├───────────┼───────────┤
     ┌──────────────┐    │   tile    │   tile    │   of ROWS rows of gw; the last ones overlap those before, so no cell past
     │ ROWS of g    │    │           │           │   an array is read or written
     └──────────────┘    └───────────┴───────────┘

Threads share panels or, where these are few, tiles.

Measured and rejected: several images, one after the other, with sums that run on. 8 images of 4×4 pixels take 1.2 times the
time of `weight.py`, 4 of 7×7 1.1 times.
"""

from __future__ import annotations

from typing import Any

from windowgrad.kernels.conv.gemm.weight import pack_rows
from windowgrad.kernels.conv.pieces import in_pieces
from windowgrad.kernels.conv.pointwise.products import Sums, put_panel, turn_panel
from windowgrad.kernels.conv.records import InAxes, Range, Sizes
from windowgrad.kernels.conv.share import part_begin
from windowgrad.kernels.runtime.jit import kernel
from windowgrad.kernels.vector.ops import address, later
from windowgrad.kernels.vector.registers import VECTORS, wide_lanes
from windowgrad.kernels.vector.tiles import Factor, Matrix


@kernel
def direct_products(
    x: Any, g: Any, gw: Any, none: Any, scratch: Any, axes: Any, sizes: Any, share: Any, first: int, last: int
) -> int:
    """Some parts of the weight gradient; gives the strange lanes of all sums.

    `none`: a zero for each row; `scratch`: cells and integers; `axes` as in `InAxes`; `sizes` as in `Sizes`; `share`: whether
    (1 or 0) panels or else tiles are shared, the tiles and the panels of a group, the parts they are cut into, and how many
    cells and integers of the scratch each part has.
    """
    size, (room, lists), (by_panels, tiles, panels, parts, own, own_lists) = Sizes(*sizes), scratch, share
    rank, lanes, every, strange = len(axes[0]), wide_lanes(gw), len(axes[3]) // len(axes[0]), 0
    met = InAxes(rank, address(axes[0]), address(axes[1]), address(axes[2]), address(axes[3]), 0)
    length, pitch, columns = VECTORS * lanes, size.out_plane + lanes, size.channels * every
    turned, listed = later(address(room), first * own), later(address(lists), first * own_lists)
    rows = Matrix(later(turned, size.out_plane * length), pitch)
    pieces = in_pieces(Range(0, size.out_plane), met, Range(0, every), lanes, 0, listed)
    some, all_panels = Range(0, tiles), Range(part_begin(panels, parts, first), part_begin(panels, parts, last))
    if not by_panels:
        some, all_panels = Range(part_begin(tiles, parts, first), part_begin(tiles, parts, last)), Range(0, panels)
    for unit in range(size.groups * (all_panels.last - all_panels.first)):
        group, number = unit % size.groups, unit // size.groups + all_panels.first
        panel = Range(number * length, min(columns, (number + 1) * length))
        count = (panel.last - panel.first + lanes - 1) // lanes * lanes
        start = panel.last - count
        cells = Matrix(later(address(x), group * size.channels * size.plane), size.plane)
        pack_rows(cells, Range(start, panel.last), every, met.step[rank - 1], pieces, rows)
        turn_panel(rows, size.out_plane, count, turned)
        factor = Factor(later(address(g), group * size.rows * size.out_plane), size.out_plane, 1)
        to = Sums(Matrix(later(address(gw), group * size.rows * columns), columns), size.rows, address(none), 0)
        strange |= put_panel(factor, Matrix(later(turned, -start), length), size.out_plane, to, some, panel)
    return strange
