"""Windows of one cell that move one cell at a time: products of matrices that are read where they stand.

Computes, for one group and no padding,
    by_rows      forward          y[n, row, pixel] = bias[row] + the sum over channels of w[row, channel] · x[n, channel, pixel]
    by_columns   input gradient   gx[n, row, pixel] = bias[row] + the sum over k of w[k, row] · g[n, k, pixel]
    by_pixels    weight gradient  gw[row, channel] = the sum over images n and pixels of g[n, row, pixel] · x[n, channel, pixel]

Chosen where `pointwise/ways.py: may_multiply` (the first two) or `may_multiply_pixels` says that tiles cover the matrices;
the weight gradient of many small planes is left to conv/gemm (`sums_long_rows`).

How it is blocked: y of an image is cut into panels of VECTORS vectors of columns, and a panel into tiles of ROWS rows; a tile
goes from the registers straight into y (`vector/tiles.py: put_tile`). The last tile of a row or column overlaps the one
before it, so no cell past an array is read, and it writes only what is its own:

    columns →   ┌── panel ──┬── panel ──┬──┐       WEIGHT_BLOCK numbers of the weight are used for all images before others.
    rows    ↓   │ tile ROWS │           │  │       A rest of at most FEW columns is no panel: its columns are summed one
                ├───────────┼───────────┤  │       by one, along k (`dots`) or along rows (`column`).
                │           │        ┌──┼──┤       In the weight gradient k are pixels: TURNED of them are turned around
                └───────────┴────────┴──┴──┘       at a time, so that channels lie side by side.

What is summed together, and in which order, depends on the shapes only.

Measured and rejected: conv/gemm for these shapes. One image of 7 × 7 packed its weight to use it once, summed the 49th pixel
with a whole vector, and took each tile through memory on its way out: the input gradient took two to three times as long,
the others 1.2 to 1.8 times.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from windowgrad.kernels.conv.records import Range
from windowgrad.kernels.runtime.jit import helper, kernel
from windowgrad.kernels.vector.masked import interval, load_some, store_tile, strange_cell
from windowgrad.kernels.vector.ops import address, fma, later, splat
from windowgrad.kernels.vector.registers import ROWS, VECTORS, wide_lanes
from windowgrad.kernels.vector.tiles import Factor, Matrix, Own, lane_sum, put_tile
from windowgrad.kernels.vector.transpose import turn, turn_some

TURNED = 512
"""Pixels that are turned around at a time: what they make stays in the second cache."""
WEIGHT_BLOCK = 1 << 16
"""Numbers of the weight that are used for all images before others are: they stay in the second cache."""
FEW = 2
"""Columns that are summed one by one."""


class Sums(NamedTuple):
    """Where the sums of a product go: a matrix of so many rows, the bias of each, and whether (1 or 0) y is added to."""

    y: Matrix
    rows: int
    bias: Any
    adds: int


@helper
def put_cell(to: Sums, row: int, value: Any) -> Any:
    """The value and its bias into the first column; gives its strange lane."""
    value, at = value + to.bias[row], row * to.y.step
    if to.adds:
        value += to.y.cells[at]
    to.y.cells[at] = value
    return strange_cell(value)


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


# --- the forward pass --------------------------------------------------------------------------------------------


@helper
def dots(a: Matrix, b: Any, k: int, to: Sums, rows: Range) -> Any:
    """The first column of y: the sum over k of a(row, k) · b[k], four rows at a time."""
    n, strange, r, last = wide_lanes(b), 0, rows.first, rows.last - 1
    while r < rows.last:
        p, q = later(a.cells, r * a.step), later(a.cells, min(r + 1, last) * a.step)
        s, t = later(a.cells, min(r + 2, last) * a.step), later(a.cells, min(r + 3, last) * a.step)
        zero, i = load_some(b, 0, 0), 0
        c, d, e, f = zero, zero, zero, zero
        while i < k:
            on = interval(0, min(n, k - i))
            cells = load_some(b, i, on)
            c, d = fma(load_some(p, i, on), cells, c), fma(load_some(q, i, on), cells, d)
            e, f = fma(load_some(s, i, on), cells, e), fma(load_some(t, i, on), cells, f)
            i += n
        strange |= put_cell(to, r, lane_sum(c))
        if r + 1 < rows.last:
            strange |= put_cell(to, r + 1, lane_sum(d))
        if r + 2 < rows.last:
            strange |= put_cell(to, r + 2, lane_sum(e))
        if r + 3 < rows.last:
            strange |= put_cell(to, r + 3, lane_sum(f))
        r += 4
    return strange


@kernel
def by_rows(a: Any, b: Any, y: Any, bias: Any, room: Any, sizes: Any, share: Any) -> int:
    """y[image, row, column] = bias[row] + the sum over k of a[row, k] · b[image, k, column], for a share of the work.

    `sizes`: images, rows, k and columns. `share`: the tiles of rows and the panels of columns to do, and whether (1 or 0) it
    is added to what y has. The room has k numbers. Gives the strange lanes of all sums.
    """
    (images, rows, k, columns), (first, last, first_panel, last_panel, adds) = sizes, share
    length, strange, some = VECTORS * wide_lanes(y), 0, max(1, WEIGHT_BLOCK // (ROWS * k))
    factor, numbers = Factor(address(a), k, 1), address(room)
    for low in range(first, last, some):
        high = min(last, low + some)
        for image in range(images):
            cells = Matrix(later(address(b), image * k * columns), columns)
            plane = later(address(y), image * rows * columns)
            to = Sums(Matrix(plane, columns), rows, address(bias), adds)
            for panel in range(first_panel, last_panel):
                some_columns = Range(panel * length, min(columns, (panel + 1) * length))
                if some_columns.last - some_columns.first > FEW:
                    strange |= put_panel(factor, cells, k, to, Range(low, high), some_columns)
                    continue
                for j in range(some_columns.first, columns):
                    for i in range(k):
                        numbers[i] = cells.cells[i * columns + j]
                    column = Sums(Matrix(later(plane, j), columns), rows, address(bias), adds)
                    strange |= dots(Matrix(address(a), k), numbers, k, column, Range(low * ROWS, min(rows, high * ROWS)))
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
    """y[row, column] = the sum over images and k of a[image, row, k] · b[image, column, k], as `by_rows`, which see.

    The room has a panel of columns for each of TURNED of k.
    """
    (images, rows, k, columns), (first, last, first_panel, last_panel, _) = sizes, share
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


# --- the input gradient ------------------------------------------------------------------------------------------


@helper
def column(a: Matrix, b: Matrix, k: int, to: Sums, rows: Range, room: Any) -> Any:
    """The first column of y: the sum over k of a(k, row) · b(k, 0), four vectors of rows at a time."""
    n, strange, r, last, zero = wide_lanes(room), 0, rows.first, rows.last, load_some(room, 0, 0)
    while r < last:
        one, two, three, four = (
            interval(0, min(n, last - r)),
            interval(0, min(n, last - r - n)),
            interval(0, min(n, last - r - 2 * n)),
            interval(0, min(n, last - r - 3 * n)),
        )
        c, d, e, f = zero, zero, zero, zero
        for i in range(k):
            factor, at = splat(zero, b.cells[i * b.step]), i * a.step + r
            c, d = fma(load_some(a.cells, at, one), factor, c), fma(load_some(a.cells, at + n, two), factor, d)
            e, f = fma(load_some(a.cells, at + 2 * n, three), factor, e), fma(load_some(a.cells, at + 3 * n, four), factor, f)
        store_tile(room, 0, c)
        store_tile(room, n, d)
        store_tile(room, 2 * n, e)
        store_tile(room, 3 * n, f)
        for i in range(min(4 * n, last - r)):
            strange |= put_cell(to, r + i, room[i])
        r += 4 * n
    return strange


@kernel
def by_columns(a: Any, b: Any, y: Any, bias: Any, room: Any, sizes: Any, share: Any) -> int:
    """y[image, row, column] = bias[row] + the sum over k of a[k, row] · b[image, k, column], as `by_rows`, which see.

    The room has four vectors.
    """
    (images, rows, k, columns), (first, last, first_panel, last_panel, adds) = sizes, share
    length, strange, some = VECTORS * wide_lanes(y), 0, max(1, WEIGHT_BLOCK // (ROWS * k))
    factor = Factor(address(a), 1, rows)
    for low in range(first, last, some):
        high = min(last, low + some)
        for image in range(images):
            cells = Matrix(later(address(b), image * k * columns), columns)
            plane = later(address(y), image * rows * columns)
            to = Sums(Matrix(plane, columns), rows, address(bias), adds)
            for panel in range(first_panel, last_panel):
                some_columns = Range(panel * length, min(columns, (panel + 1) * length))
                if some_columns.last - some_columns.first > FEW:
                    strange |= put_panel(factor, cells, k, to, Range(low, high), some_columns)
                    continue
                for j in range(some_columns.first, columns):
                    one = Sums(Matrix(later(plane, j), columns), rows, address(bias), adds)
                    met, some_rows = Matrix(later(cells.cells, j), columns), Range(low * ROWS, min(rows, high * ROWS))
                    strange |= column(Matrix(address(a), rows), met, k, one, some_rows, address(room))
    return strange
