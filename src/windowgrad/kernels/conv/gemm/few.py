"""The weight gradient of few rows or few channels: sums along pixels, a vector for each number of the gradient.

Computes what `gemm/weight.py` does: gw[row, channel, tap] = the sum over images and pixels of g[image, row, pixel] · x(channel,
tap, image and pixel).

Chosen where `gemm/ways.py: may_sum_few` holds, the vectors of sums are few enough for the caches, and the tiles of `weight.py`
would be partly empty (`leaves_tiles_empty`).

How it is blocked: a block of pixels is some of one plane, or all of the planes of some images. Rows of g are read where they
stand in the first case, else copied so that they follow each other. Rows of x, one for each (channel, tap), are packed by the
lists of `conv/pieces.py`, up to PACKED cells at a time, or read where they stand if pixels lie in order (`in_order`). Then
every row of one meets every row of the other (`vector/dots.py`), and their sums stay vectors until all pixels are done.

                 pixels of a block →
    rows of g   ┌──────────────────┐         lists of pieces are made once for all images
                ├──────────────────┤
    rows of x   ├──────────────────┤         sums: a vector for each pair of rows, in the second cache
                └──────────────────┘

The order of every sum depends on the shapes only. Threads share rows of x or of g, never pixels.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from windowgrad.kernels.conv.gemm.weight import pack_rows
from windowgrad.kernels.conv.pieces import in_pieces
from windowgrad.kernels.conv.records import InAxes, Pieces, Range, Sizes
from windowgrad.kernels.conv.share import part_begin
from windowgrad.kernels.runtime.jit import helper, kernel, separate_helper
from windowgrad.kernels.vector.dots import add_dots
from windowgrad.kernels.vector.masked import interval, load_some, store_some, store_tile, strange_cell
from windowgrad.kernels.vector.ops import address, later
from windowgrad.kernels.vector.registers import ROWS, VECTORS, load_wide, wide_lanes
from windowgrad.kernels.vector.tiles import Matrix, lane_sum

PACKED = 1 << 16
"""Cells of x that are packed at a time, about: they stay in the second cache."""


class Sums(NamedTuple):
    """A vector for each pair of a row and a number (channel, tap). `turned`: tiles have ROWS numbers and VECTORS rows.

    Of what a tile has ROWS, those of one of the others follow each other, `pitch` vectors.
    """

    cells: Any
    pitch: int
    turned: int


@helper
def copy_rows(to: Matrix, g: Matrix, rows: int, image: int, images: int) -> None:
    """The rows of so many images, each `g.step` cells and `image` cells after the one before, to one row each."""
    n, width = wide_lanes(to.cells), g.step
    for r in range(rows):
        for i in range(images):
            source, into, j = later(g.cells, i * image + r * width), later(to.cells, r * to.step + i * width), 0
            while j + n <= width:
                store_tile(into, j, load_wide(source, j))
                j += n
            if j < width:
                bits = interval(0, width - j)
                store_some(into, j, load_some(source, j, bits), bits)


@separate_helper
def add_pairs(g: Matrix, rows: int, x: Matrix, numbers: Range, k: int, sums: Sums) -> None:
    """Adds the products of all rows of g with these numbers, whose rows begin at x, along k pixels."""
    n, some, tall, wide = wide_lanes(sums.cells), numbers.last - numbers.first, rows, numbers.last - numbers.first
    if sums.turned:
        tall, wide = some, rows
    for column in range(0, wide, VECTORS):
        for row in range(0, tall, ROWS):
            high, broad = min(ROWS, tall - row), min(VECTORS, wide - column)
            if sums.turned:
                to = later(sums.cells, (column * sums.pitch + numbers.first + row) * n)
                a, b = Matrix(later(x.cells, row * x.step), x.step), Matrix(later(g.cells, column * g.step), g.step)
            else:
                to = later(sums.cells, ((numbers.first + column) * sums.pitch + row) * n)
                a, b = Matrix(later(g.cells, row * g.step), g.step), Matrix(later(x.cells, column * x.step), x.step)
            add_dots(a, high, b, broad, k, to, sums.pitch)


@helper
def put_pairs(gw: Matrix, rows: int, numbers: int, sums: Sums) -> Any:
    """The sums of the lanes of all vectors; gives their strange lanes."""
    n, strange = wide_lanes(sums.cells), 0
    for r in range(rows):
        for i in range(numbers):
            at = r * sums.pitch + i if sums.turned else i * sums.pitch + r
            total = lane_sum(load_wide(sums.cells, at * n))
            gw.cells[r * gw.step + i] = total
            strange |= strange_cell(total)
    return strange


@kernel
def few_products(
    x: Any, g: Any, gw: Any, scratch: Any, axes: Any, sizes: Any, blocks: Any, share: Any, first: int, last: int
) -> int:
    """Some parts of the weight gradient; gives the strange lanes of all sums.

    `scratch`: cells and integers; `axes` as in `InAxes`; `sizes` as in `Sizes`; `blocks`: images and pixels at a time, numbers
    that are packed at a time or 0 if x is read where it stands, and whether (1 or 0) the sums are turned; `share`: whether
    rows or else numbers (channel, tap) are shared, how many of them are a unit of work, all units, the parts that they are
    cut into, and how many cells and integers of the scratch each part has.
    """
    size, (room, lists), (some_images, some_pixels, some_numbers, turned) = Sizes(*sizes), scratch, blocks
    by_rows, unit, units, parts, own, own_lists = share
    low, high = unit * part_begin(units, parts, first), unit * part_begin(units, parts, last)
    every, rank, lanes = len(axes[3]) // len(axes[0]), len(axes[0]), wide_lanes(gw)
    image, out_image = size.groups * size.channels * size.plane, size.groups * size.rows * size.out_plane
    met = InAxes(rank, address(axes[0]), address(axes[1]), address(axes[2]), address(axes[3]), image)
    stride, pitch = met.step[rank - 1], some_images * some_pixels + lanes
    first_row, rows, first_number, last_number = 0, size.rows, low, min(size.channels * every, high)
    if by_rows:
        first_row, rows, first_number, last_number = low, min(size.rows, high) - low, 0, size.channels * every
    numbers, listed = last_number - first_number, later(address(lists), first * own_lists)
    step = some_numbers if some_numbers > 0 else max(1, numbers)
    tall, wide = (numbers, rows) if turned else (rows, numbers)
    sums = Sums(later(address(room), first * own), (tall + ROWS - 1) // ROWS * ROWS, turned)
    vectors, strange = wide * sums.pitch + ROWS, 0
    packed = Matrix(later(sums.cells, vectors * lanes), pitch)
    copied = Matrix(later(packed.cells, some_numbers * pitch + lanes), pitch)
    for group in range(size.groups):
        zero = load_some(sums.cells, 0, 0)
        for i in range(vectors):
            store_tile(sums.cells, i * lanes, zero)
        cells = later(address(x), group * size.channels * size.plane)
        source = later(address(g), (group * size.rows + first_row) * size.out_plane)
        for p in range(0, size.out_plane, some_pixels):
            end, known, pieces = min(size.out_plane, p + some_pixels), 0, Pieces(listed, 0)
            for n in range(0, size.images, some_images):
                images = min(some_images, size.images - n)
                k = images * (end - p)
                here, there = later(cells, n * image), Matrix(later(source, n * out_image + p), size.out_plane)
                if some_images > 1:
                    copy_rows(copied, there, rows, out_image, images)
                    there = copied
                if some_numbers > 0 and images != known:
                    pieces, known = in_pieces(Range(p, p + k), met, Range(0, every), lanes, 0, listed), images
                for number in range(first_number, last_number, step):
                    met_rows = Matrix(later(here, number * size.plane + p), size.plane)
                    some = Range(number, min(last_number, number + step))
                    if some_numbers > 0:
                        pack_rows(Matrix(here, size.plane), some, every, stride, pieces, packed)
                        met_rows = packed
                    own = Range(some.first - first_number, some.last - first_number)
                    add_pairs(there, rows, met_rows, own, k, sums)
        at = (group * size.rows + first_row) * size.channels * every + first_number
        strange |= put_pairs(Matrix(later(address(gw), at), size.channels * every), rows, numbers, sums)
    return strange
