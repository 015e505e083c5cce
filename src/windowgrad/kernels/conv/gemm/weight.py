"""The weight gradient of any geometry: sums over pixels, by tiles of (channel, tap) × output channels.

Computes gw[row, channel, tap] = the sum over images and pixels of g[image, row, pixel] · x(channel, tap, image and pixel),
where x(…) is the cell that the pixel meets at the tap, or 0 in the padding.

Chosen for every weight gradient that no other kernel takes (`gemm/ways.py: always`), the last row of `WAYS` in
`conv/choose.py`.

How it is blocked: the sum runs over pixels, so they are k here, at most PIXELS of all images at a time. For these, the
gradient is turned around, so that output channels lie side by side (at most 8 panels of them); the input is packed as
ROWS rows, one for each (channel, tap), by the lists of `conv/pieces.py`, and used for all panels.

                              rows of gw (output channels)
                     pixels ┌── panel ──┬── panel ──┐
                        ↓   │  g, turned around     │
         pixels →           ├───────────┼───────────┤
     ┌────────────────┐     │   tile    │   tile    │   turned around again when it is put into gw: the first block of pixels
     │ ROWS × (channel│     │           │           │   puts its sums, the others add theirs
     │ and tap)       │     ├───────────┼───────────┤
     └────────────────┘     │           │           │
      x, packed             └───────────┴───────────┘

The order of every sum depends on the shapes only. Threads share rows or channels, never pixels. Where a window has one
cell and planes are large, the kernel of conv/pointwise is faster (`pointwise/ways.py: sums_long_rows`).
"""

from __future__ import annotations

from typing import Any, NamedTuple

from windowgrad.kernels.conv.pieces import copy_pieces, in_pieces
from windowgrad.kernels.conv.records import InAxes, Pieces, Range, Sizes
from windowgrad.kernels.conv.share import part_begin
from windowgrad.kernels.runtime.jit import helper, kernel, separate_helper
from windowgrad.kernels.vector.masked import one_by_one
from windowgrad.kernels.vector.ops import address, later
from windowgrad.kernels.vector.registers import ROWS, VECTORS, wide_lanes
from windowgrad.kernels.vector.tiles import Factor, Matrix, multiply_tile
from windowgrad.kernels.vector.transpose import turn, turn_add, turn_some


class Panels(NamedTuple):
    """The gradient of some pixels, turned around: so many columns (rows of g), in panels of `panel` cells each."""

    cells: Any
    panel: int
    columns: int


@separate_helper
def turn_gradient(g: Matrix, image: int, pixels: Range, rows: Range, to: Any, panel: int) -> None:
    """Panels of rows of g, each `panel` cells: a row of them for each pixel. The next image of g is `image` cells further."""
    length, column, plane = VECTORS * wide_lanes(to), rows.first, g.step
    while column < rows.last:
        number = (column - rows.first) // length
        place = column - rows.first - number * length
        columns, into = min(ROWS, rows.last - column, length - place), later(to, number * panel + place)
        pixel = pixels.first
        while pixel < pixels.last:
            n = pixel // plane
            end = min(pixels.last, (n + 1) * plane)
            source = later(g.cells, n * (image - plane) + column * plane)
            if columns == ROWS:
                while pixel + ROWS <= end:
                    turn(Matrix(later(into, (pixel - pixels.first) * length), length), Matrix(later(source, pixel), plane))
                    pixel += ROWS
            turned = Matrix(later(into, (pixel - pixels.first) * length), length)
            turn_some(turned, Matrix(later(source, pixel), plane), end - pixel, columns)
            pixel = end
        column += columns


@helper
def put_turned(gw: Matrix, tile: Any, rows: int, columns: int, fresh: bool) -> None:
    """gw(column, row) = tile(row, column), or that added if the gradient is not `fresh`."""
    length = VECTORS * wide_lanes(tile)
    done = 0
    if rows == ROWS and fresh:
        while done + ROWS <= columns:
            turn(Matrix(later(gw.cells, done * gw.step), gw.step), Matrix(later(tile, done), length))
            done += ROWS
    elif rows == ROWS:
        while done + ROWS <= columns:
            turn_add(Matrix(later(gw.cells, done * gw.step), gw.step), Matrix(later(tile, done), length))
            done += ROWS
    for column in range(done, columns):
        for row in range(rows):
            one_by_one()
            value, at = tile[row * length + column], column * gw.step + row
            gw.cells[at] = value if fresh else gw.cells[at] + value


@separate_helper
def pack_rows(x: Matrix, numbers: Range, taps: int, stride: int, pieces: Pieces, to: Matrix) -> None:
    """Row i of `to`: the cells of the i-th of these numbers, each of which says a channel, a row of x, and one of its taps."""
    each = pieces.number // taps
    for i in range(numbers.last - numbers.first):
        channel = (numbers.first + i) // taps
        tap = numbers.first + i - channel * taps
        row, plane = Matrix(later(to.cells, i * to.step), 0), Matrix(later(x.cells, channel * x.step), 0)
        copy_pieces(row, plane, 1, stride, Pieces(later(pieces.list, 3 * tap * each), each))


@separate_helper
def multiply_panels(rows: Matrix, gradient: Panels, k: int, gw: Matrix, count: int, fresh: bool, tile: Any) -> None:
    """gw(column, row) = the sum over k of rows · gradient, or that added, for so many rows and all columns of the gradient."""
    lanes = wide_lanes(tile)
    length = VECTORS * lanes
    for column in range(0, gradient.columns, length):
        columns = min(length, gradient.columns - column)
        panel = Matrix(later(gradient.cells, column // length * gradient.panel), length)
        multiply_tile(Factor(rows.cells, rows.step, 1), panel, k, (columns + lanes - 1) // lanes, tile)
        put_turned(Matrix(later(gw.cells, column * gw.step), gw.step), tile, count, columns, fresh)


@kernel
def weight_products(
    x: Any, g: Any, gw: Any, scratch: Any, axes: Any, sizes: Any, blocks: Any, share: Any, first: int, last: int
) -> None:
    """Some parts of the weight gradient.

    `scratch`: cells and integers; `axes` as in `InAxes`; `sizes` as in `Sizes`; `blocks`: taps, rows and pixels at a time;
    `share`: whether (1 or 0) a unit of work is a vector of rows of a group, or else a channel of all groups; all units, the
    parts that they are cut into, and how many cells and integers of the scratch each part has.
    """
    size, (room, lists), (some_taps, some_rows, some_pixels) = Sizes(*sizes), scratch, blocks
    by_rows, units, parts, own, own_lists = share
    start, end = part_begin(units, parts, first), part_begin(units, parts, last)
    first_row, last_row, first_channel, last_channel = 0, size.groups * size.rows, start, end
    if by_rows:
        vectors = units // size.groups
        first_row = start // vectors * size.rows + min(size.rows, start % vectors * wide_lanes(gw))
        last_row = end // vectors * size.rows + min(size.rows, end % vectors * wide_lanes(gw))
        first_channel, last_channel = 0, size.channels
    met = InAxes(
        len(axes[0]), address(axes[0]), address(axes[1]), address(axes[2]), address(axes[3]),
        size.groups * size.channels * size.plane,
    )  # fmt: skip
    lanes, every = wide_lanes(gw), len(axes[3]) // met.rank
    length, stride, pixels = VECTORS * lanes, met.step[met.rank - 1], size.images * size.out_plane
    panel, pitch = some_pixels * length, some_pixels + lanes
    gradient, listed = later(address(room), first * own), later(address(lists), first * own_lists)
    rows = Matrix(later(gradient, (some_rows + length - 1) // length * panel), pitch)
    tile = later(rows.cells, ROWS * pitch + lanes)
    for group in range(first_row // size.rows, (last_row + size.rows - 1) // size.rows):
        low, high = max(0, first_row - group * size.rows), min(size.rows, last_row - group * size.rows)
        source = Matrix(later(address(g), group * size.rows * size.out_plane), size.out_plane)
        cells = later(address(x), group * size.channels * size.plane)
        for p in range(0, pixels, some_pixels):
            some = Range(p, min(pixels, p + some_pixels))
            for m in range(low, high, some_rows):
                block = Range(m, min(high, m + some_rows))
                turn_gradient(source, size.groups * size.rows * size.out_plane, some, block, gradient, panel)
                for t in range(0, every, some_taps):
                    taps = Range(t, min(every, t + some_taps))
                    met_taps = taps.last - taps.first
                    pieces = in_pieces(some, met, taps, lanes, 0, listed)
                    together = last_channel - first_channel if met_taps == every else 1
                    for c in range(first_channel, last_channel, together):
                        for r in range(0, together * met_taps, ROWS):
                            count = min(ROWS, together * met_taps - r)
                            planes = Matrix(later(cells, c * size.plane), size.plane)
                            pack_rows(planes, Range(r, r + count), met_taps, stride, pieces, rows)
                            at = ((group * size.rows + m) * size.channels + c) * every + t + r
                            to = Matrix(later(address(gw), at), size.channels * every)
                            turned = Panels(gradient, panel, block.last - block.first)
                            multiply_panels(rows, turned, some.last - some.first, to, count, p == 0, tile)
