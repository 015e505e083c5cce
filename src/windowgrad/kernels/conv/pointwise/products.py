"""The weight gradient of windows of one cell: a product of matrices that are read where they stand.

Computes gw[row, channel] = the sum over images n and pixels of g[n, row, pixel] · x[n, channel, pixel], for one group and no
padding.

Chosen where `pointwise/ways.py: may_multiply_pixels` says that tiles cover the matrices; many small planes are left to
conv/gemm (`sums_long_rows`).

How it is blocked: gw is cut into panels of VECTORS vectors of columns, and a panel into tiles of ROWS rows; a tile goes from
the registers straight into gw (`vector/tiles.py: put_tile`). The last tile of a row or column overlaps the one before it, so
no cell past an array is read, and it writes only what is its own. k are pixels: TURNED of them are turned around at a time,
so that channels lie side by side.

What is summed together, and in which order, depends on the shapes only.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from windowgrad.kernels.conv.records import Range
from windowgrad.kernels.runtime.jit import helper, kernel
from windowgrad.kernels.vector.masked import interval
from windowgrad.kernels.vector.ops import address, later
from windowgrad.kernels.vector.registers import ROWS, VECTORS, wide_lanes
from windowgrad.kernels.vector.tiles import Factor, Matrix, Own, put_tile
from windowgrad.kernels.vector.transpose import turn, turn_some

TURNED = 512
"""Pixels that are turned around at a time: what they make stays in the second cache."""


class Sums(NamedTuple):
    """Where the sums of a product go: a matrix of so many rows, the bias of each, and whether (1 or 0) y is added to."""

    y: Matrix
    rows: int
    bias: Any
    adds: int


@helper
def put_panel(a: Factor, b: Matrix, k: int, to: Sums, tiles: Range, panel: Range) -> Any:
    """The tiles of a panel of columns. Columns past whole vectors are reached by going back: b has that many before."""
    lanes, strange = wide_lanes(to.bias), 0
    vectors = (panel.last - panel.first + lanes - 1) // lanes
    start = panel.last - vectors * lanes
    bits, cells = interval(panel.first - start, vectors * lanes), Matrix(later(b.cells, start), b.step)
    for tile in range(tiles.first, tiles.last):
        row = min(tile * ROWS, to.rows - ROWS)
        factor, own = Factor(later(a.cells, row * a.row), a.row, a.step), Own(tile * ROWS - row, bits)
        y = Matrix(later(to.y.cells, row * to.y.step + start), to.y.step)
        strange |= put_tile(factor, cells, k, vectors, y, later(to.bias, row), own, to.adds)
    return strange


# --- the weight gradient -----------------------------------------------------------------------------------------


@helper
def turn_panel(x: Matrix, pixels: int, channels: int, to: Any) -> None:
    """to[pixel·length + c] = x(c, pixel) for so many pixels and channels."""
    length, c = VECTORS * wide_lanes(to), 0
    while c < channels:
        row, pixel, some = later(x.cells, c * x.step), 0, min(ROWS, channels - c)
        while some == ROWS and pixel + ROWS <= pixels:
            turn(Matrix(later(to, pixel * length + c), length), Matrix(later(row, pixel), x.step))
            pixel += ROWS
        rest = Matrix(later(to, pixel * length + c), length)
        turn_some(rest, Matrix(later(row, pixel), x.step), pixels - pixel, some)
        c += ROWS


@kernel
def by_pixels(a: Any, b: Any, y: Any, bias: Any, room: Any, sizes: Any, share: Any) -> int:
    """y[row, column] = the sum over images and k of a[image, row, k] · b[image, column, k], for a share of the work.

    `sizes`: images, rows, k and columns. `share`: the tiles of rows and the panels of columns to do. The room has a panel of
    columns for each of TURNED of k. Gives the strange lanes of all sums.
    """
    (images, rows, k, columns), (first, last, first_panel, last_panel) = sizes, share
    lanes, turned, strange = wide_lanes(y), address(room), 0
    length = VECTORS * lanes
    for number in range(first_panel, last_panel):
        panel = Range(number * length, min(columns, (number + 1) * length))
        some = (panel.last - panel.first + lanes - 1) // lanes * lanes
        for image in range(images):
            for p in range(0, k, TURNED):
                steps, start = min(TURNED, k - p), panel.last - some
                turn_panel(Matrix(later(address(b), (image * columns + start) * k + p), k), steps, some, turned)
                factor = Factor(later(address(a), image * rows * k + p), k, 1)
                to = Sums(Matrix(address(y), columns), rows, address(bias), 1 if image + p else 0)
                seen = put_panel(factor, Matrix(later(turned, -start), length), steps, to, Range(first, last), panel)
                if image == images - 1 and p + steps == k:
                    strange |= seen
    return strange
