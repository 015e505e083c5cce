"""Kernels of one cell that move one cell at a time, over small planes: products of matrices that are read where they stand.

A tile of sums goes from the registers straight into the output. The last tile of a row or column overlaps the one before
it, so no cell past an array is read; the few columns that would be a tile of little use are summed one by one. What is
summed together, and in which order, depends on the shapes only.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba.extending import intrinsic

from windowgrad.kernels.conv.depthwise.shifted import wide_lanes
from windowgrad.kernels.conv.pointwise.tiles import columns_1, columns_2, columns_3, rows_1, rows_2, rows_3
from windowgrad.kernels.runtime.jit import helper, kernel
from windowgrad.kernels.vector.masked import HUGE, interval, load_some, peek, store_tile
from windowgrad.kernels.vector.ops import fma, splat
from windowgrad.kernels.vector.tiles import BYTES, ROWS, VECTORS
from windowgrad.kernels.vector.transpose import turn, turn_some

STEPS = 512
"""Pixels that are turned around at a time: what they make stays in the second cache."""
BLOCK = 1 << 16
"""Numbers of the weight that are used for all images before others are: they stay in the second cache."""
FEW = 2
"""Columns that are summed one by one."""


@intrinsic
def lane_sum(typing: Any, value: Any) -> Any:
    """The sum of the lanes, halves first."""

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        total, lanes = args[0], value.lanes
        while lanes > 1:
            lanes //= 2
            order = ir.Constant(
                ir.VectorType(ir.IntType(32), value.lanes), [(i + lanes) % value.lanes for i in range(value.lanes)]
            )
            total = builder.fadd(total, builder.shuffle_vector(total, total, order))
        return builder.extract_element(total, ir.IntType(32)(0))

    return value.dtype(value), emit


@helper
def put_cell(y: Any, i: int, value: Any, adds: int) -> Any:
    """y[i] = value, or that added; gives its strange lane."""
    if adds:
        value += y[i]
    y[i] = value
    least = 2.0**-126 if y.itemsize == 4 else 2.0**-1022
    return (1 if abs(value) < least else 0) | (0 if abs(value) < np.inf else 1 << HUGE)


# --- the forward pass and the weight gradient --------------------------------------------------------------------


@helper
def dots(
    a: Any, ao: int, lda: int, b: Any, k: int, rows: int, y: Any, yo: int, ldy: int, bias: Any, channel: int, adds: int
) -> Any:
    """y[yo + r·ldy] = bias[channel + r] + the sum over k of a[ao + r·lda + k] · b[k]."""
    n, strange, r = wide_lanes(b), 0, 0
    while r < rows:
        p, q = ao + r * lda, ao + min(r + 1, rows - 1) * lda
        s, t = ao + min(r + 2, rows - 1) * lda, ao + min(r + 3, rows - 1) * lda
        zero, i = load_some(b, 0, 0), 0
        c, d, e, f = zero, zero, zero, zero
        while i < k:
            on = interval(0, min(n, k - i))
            cells = load_some(b, i, on)
            c, d = fma(load_some(a, p + i, on), cells, c), fma(load_some(a, q + i, on), cells, d)
            e, f = fma(load_some(a, s + i, on), cells, e), fma(load_some(a, t + i, on), cells, f)
            i += n
        strange |= put_cell(y, yo + r * ldy, lane_sum(c) + peek(bias, channel + r), adds)
        if r + 1 < rows:
            strange |= put_cell(y, yo + (r + 1) * ldy, lane_sum(d) + peek(bias, channel + r + 1), adds)
        if r + 2 < rows:
            strange |= put_cell(y, yo + (r + 2) * ldy, lane_sum(e) + peek(bias, channel + r + 2), adds)
        if r + 3 < rows:
            strange |= put_cell(y, yo + (r + 3) * ldy, lane_sum(f) + peek(bias, channel + r + 3), adds)
        r += 4
    return strange


@helper
def turn_panel(x: Any, at: int, plane: int, pixels: int, channels: int, to: Any) -> None:
    """to[pixel·length + c] = x[at + c·plane + pixel] for so many pixels and channels."""
    length, c = VECTORS * BYTES // to.itemsize, 0
    while c < channels:
        j, pixel, some = at + c * plane, 0, min(ROWS, channels - c)
        while some == ROWS and pixel + ROWS <= pixels:
            turn(to, pixel * length + c, length, x, j + pixel, plane)
            pixel += ROWS
        turn_some(to, pixel * length + c, length, x, j + pixel, plane, pixels - pixel, some)
        c += ROWS


@kernel
def by_rows(a: Any, b: Any, y: Any, bias: Any, room: Any, sizes: Any, share: Any) -> int:
    """y[image, row, column] = bias[row] + the sum over k of a[row, k] · b[image, k, column], for a share of the work.

    `sizes`: images, rows, k and columns. `share`: the tiles of rows and the panels of columns to do, and whether (1 or 0) it
    is added to what stands in y. The room has k numbers. Gives the strange lanes of all sums.
    """
    (images, rows, k, columns), (first, last, first_panel, last_panel, adds) = sizes, share
    lanes, strange, some = BYTES // y.itemsize, 0, max(1, BLOCK // (ROWS * k))
    length = VECTORS * lanes
    for low in range(first, last, some):
        high, row = min(last, low + some), low * ROWS
        count = min(rows, high * ROWS) - row
        for image in range(images):
            at, to = image * k * columns, image * rows * columns
            for panel in range(first_panel, last_panel):
                q = panel * length
                left = min(length, columns - q)
                if left > FEW:
                    strange |= tiles(a, 0, k, b, at, columns, k, y, to, rows, columns, bias, low, high, q, left, adds)
                    continue
                for j in range(q, columns):
                    for i in range(k):
                        room[i] = b[at + i * columns + j]
                    strange |= dots(a, row * k, k, room, k, count, y, to + row * columns + j, columns, bias, row, adds)
    return strange


@kernel
def by_pixels(a: Any, b: Any, y: Any, bias: Any, room: Any, sizes: Any, share: Any) -> int:
    """y[row, column] = the sum over images and k of a[image, row, k] · b[image, column, k], as `by_rows`, which see.

    The room has a panel of columns for each of STEPS of k.
    """
    (images, rows, k, columns), (first, last, first_panel, last_panel, _) = sizes, share
    lanes = BYTES // y.itemsize
    length, strange = VECTORS * lanes, 0
    for panel in range(first_panel, last_panel):
        q = panel * length
        left = min(length, columns - q)
        some = (left + lanes - 1) // lanes * lanes
        start = q + left - some
        for image in range(images):
            for p in range(0, k, STEPS):
                steps = min(STEPS, k - p)
                turn_panel(b, (image * columns + start) * k + p, k, steps, some, room)
                adds, at = 1 if image + p else 0, image * rows * k + p
                seen = tiles(a, at, k, room, -start, length, steps, y, 0, rows, columns, bias, first, last, q, left, adds)
                if image == images - 1 and p + steps == k:
                    strange |= seen
    return strange


@helper
def tiles(
    a: Any, a_at: int, lda: int, b: Any, at: int, ldb: int, k: int, y: Any, to: int, rows: int, columns: int, bias: Any,
    first: int, last: int, q: int, left: int, adds: int,
) -> Any:  # fmt: skip
    """Tiles of rows `first` to `last`, of the `left` columns from q on."""
    lanes, strange = BYTES // y.itemsize, 0
    vectors = (left + lanes - 1) // lanes
    start = q + left - vectors * lanes
    bits = interval(q - start, vectors * lanes)
    for tile in range(first, last):
        row = min(tile * ROWS, rows - ROWS)
        skip, source, place = tile * ROWS - row, a_at + row * lda, to + row * columns + start
        if vectors == 3:
            strange |= rows_3(a, source, lda, b, at + start, ldb, k, y, place, columns, bias, row, skip, bits, adds)
        elif vectors == 2:
            strange |= rows_2(a, source, lda, b, at + start, ldb, k, y, place, columns, bias, row, skip, bits, adds)
        else:
            strange |= rows_1(a, source, lda, b, at + start, ldb, k, y, place, columns, bias, row, skip, bits, adds)
    return strange


# --- the input gradient ------------------------------------------------------------------------------------------


@helper
def column(
    a: Any, lda: int, b: Any, bo: int, ldb: int, k: int, first: int, last: int, y: Any, yo: int, ldy: int, bias: Any, room: Any,
    adds: int,
) -> Any:  # fmt: skip
    """y[yo + r·ldy] = bias[r] + the sum over k of a[k·lda + r] · b[bo + k·ldb], for the rows from first to last."""
    n, strange, r, zero = wide_lanes(y), 0, first, load_some(y, 0, 0)
    while r < last:
        one, two, three, four = (
            interval(0, min(n, last - r)),
            interval(0, min(n, last - r - n)),
            interval(0, min(n, last - r - 2 * n)),
            interval(0, min(n, last - r - 3 * n)),
        )
        c, d, e, f = zero, zero, zero, zero
        for i in range(k):
            factor, at = splat(zero, peek(b, bo + i * ldb)), i * lda + r
            c, d = fma(load_some(a, at, one), factor, c), fma(load_some(a, at + n, two), factor, d)
            e, f = fma(load_some(a, at + 2 * n, three), factor, e), fma(load_some(a, at + 3 * n, four), factor, f)
        store_tile(room, 0, c)
        store_tile(room, n, d)
        store_tile(room, 2 * n, e)
        store_tile(room, 3 * n, f)
        for i in range(min(4 * n, last - r)):
            strange |= put_cell(y, yo + (r + i) * ldy, peek(room, i) + peek(bias, r + i), adds)
        r += 4 * n
    return strange


@kernel
def by_columns(a: Any, b: Any, y: Any, bias: Any, room: Any, sizes: Any, share: Any) -> int:
    """y[image, row, column] = bias[row] + the sum over k of a[k, row] · b[image, k, column], as `by_rows`, which see.

    The room has four vectors.
    """
    (images, rows, k, columns), (first, last, first_panel, last_panel, adds) = sizes, share
    lanes, strange, some = BYTES // y.itemsize, 0, max(1, BLOCK // (ROWS * k))
    length = VECTORS * lanes
    for low in range(first, last, some):
        high = min(last, low + some)
        for image in range(images):
            at, to = image * k * columns, image * rows * columns
            for panel in range(first_panel, last_panel):
                q = panel * length
                left = min(length, columns - q)
                if left > FEW:
                    strange |= tiles_across(a, b, at, k, y, to, rows, columns, bias, low, high, q, left, adds)
                    continue
                end = min(rows, high * ROWS)
                for j in range(q, columns):
                    strange |= column(a, rows, b, at + j, columns, k, low * ROWS, end, y, to + j, columns, bias, room, adds)
    return strange


@helper
def tiles_across(
    a: Any, b: Any, at: int, k: int, y: Any, to: int, rows: int, columns: int, bias: Any, first: int, last: int, q: int,
    left: int, adds: int,
) -> Any:  # fmt: skip
    """As `tiles`."""
    lanes, strange = BYTES // y.itemsize, 0
    vectors = (left + lanes - 1) // lanes
    start = q + left - vectors * lanes
    bits = interval(q - start, vectors * lanes)
    for tile in range(first, last):
        row = min(tile * ROWS, rows - ROWS)
        skip, place = tile * ROWS - row, to + row * columns + start
        if vectors == 3:
            strange |= columns_3(a, row, rows, b, at + start, columns, k, y, place, columns, bias, row, skip, bits, adds)
        elif vectors == 2:
            strange |= columns_2(a, row, rows, b, at + start, columns, k, y, place, columns, bias, row, skip, bits, adds)
        else:
            strange |= columns_1(a, row, rows, b, at + start, columns, k, y, place, columns, bias, row, skip, bits, adds)
    return strange
