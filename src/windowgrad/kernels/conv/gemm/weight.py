"""The weight gradient: sums over pixels, by tiles of (channel, tap) × output channels, in an order that shapes alone decide.

For a block of pixels the gradient is turned around, so that output channels lie side by side; the input is packed as
one row for each channel and tap, as `conv_windows` tells.
"""

from __future__ import annotations

from typing import Any

from windowgrad.kernels.conv.gemm.windows import copy_pieces, in_pieces
from windowgrad.kernels.runtime.jit import helper, kernel
from windowgrad.kernels.vector.masked import interval, strange_lanes
from windowgrad.kernels.vector.tiles import BYTES, ROWS, VECTORS, multiply_rows
from windowgrad.kernels.vector.transpose import turn, turn_add, turn_some


@helper
def turn_gradient(
    g: Any, base: int, plane: int, image: int, first: int, count: int, low: int, high: int, to: Any, at: int, block: int
) -> None:
    """Panels of output channels `low` to `high`, one row of them for each pixel; panels are `block` apart."""
    length, column = VECTORS * BYTES // to.itemsize, low
    while column < high:
        panel = (column - low) // length
        place = column - low - panel * length
        columns, i = min(ROWS, high - column, length - place), at + panel * block + place
        done = 0
        while done < count:
            n = (first + done) // plane
            pixel = first + done - n * plane
            end = min(count, done + plane - pixel)
            j = base + n * image + column * plane + pixel
            if columns == ROWS:
                while done + ROWS <= end:
                    turn(to, i + done * length, length, g, j, plane)
                    done, j = done + ROWS, j + ROWS
            turn_some(to, i + done * length, length, g, j, plane, end - done, columns)
            done = end
        column += columns


@helper
def put_tile(gw: Any, at: int, pitch: int, tile: Any, rows: int, columns: int, fresh: bool) -> None:
    """gw[at + column·pitch + row] = tile[row, column], or that added if the gradient is not `fresh`."""
    length = VECTORS * BYTES // tile.itemsize
    done = 0
    if rows == ROWS and fresh:
        while done + ROWS <= columns:
            turn(gw, at + done * pitch, pitch, tile, done, length)
            done += ROWS
    elif rows == ROWS:
        while done + ROWS <= columns:
            turn_add(gw, at + done * pitch, pitch, tile, done, length)
            done += ROWS
    for column in range(done, columns):
        for row in range(rows):
            value = tile[row * length + column]
            gw[at + column * pitch + row] = value if fresh else gw[at + column * pitch + row] + value


@kernel
def any_strange(a: Any, first: int, last: int) -> int:
    """The strange lanes of all cells."""
    lanes, strange = BYTES // a.itemsize, 0
    for i in range(first, last, lanes):
        strange |= strange_lanes(a, i, interval(0, min(lanes, last - i)))
    return strange


@kernel
def weight_products(x: Any, g: Any, gw: Any, room: Any, lists: Any, axes: Any, sizes: Any, blocks: Any, share: Any) -> None:
    """gw[row, channel, tap] = the sum over images and pixels of g · x, for a share of the rows and channels.

    `axes` and `sizes` as in `conv_products`; `blocks`: taps, rows and pixels at a time; `share`: rows of all groups, and
    channels of each.
    """
    (grid, size, step, taps), (images, groups, rows, channels, plane, out_plane) = axes, sizes
    (some_taps, some_rows, some_pixels), (first_row, last_row, first_channel, last_channel) = blocks, share
    lanes, every = BYTES // gw.itemsize, len(taps) // len(grid)
    length, stride, pixels = VECTORS * lanes, step[len(step) - 1], images * out_plane
    block, pitch = some_pixels * length, some_pixels + lanes
    a_at = (some_rows + length - 1) // length * block
    tile = room[a_at + ROWS * pitch + lanes :]
    for group in range(first_row // rows, (last_row + rows - 1) // rows):
        low, high = max(0, first_row - group * rows), min(rows, last_row - group * rows)
        g_at, x_at = group * rows * out_plane, group * channels * plane
        for p0 in range(0, pixels, some_pixels):
            count = min(some_pixels, pixels - p0)
            for m0 in range(low, high, some_rows):
                m1 = min(high, m0 + some_rows)
                turn_gradient(g, g_at, out_plane, groups * rows * out_plane, p0, count, m0, m1, room, 0, block)
                for t0 in range(0, every, some_taps):
                    met = min(every, t0 + some_taps) - t0
                    pieces = in_pieces(
                        p0, count, grid, size, step, taps, t0, t0 + met, groups * channels * plane, lanes, 0, lists, 0
                    )
                    each = pieces // met
                    run = (last_channel - first_channel) * met if met == every else met
                    for c0 in range(first_channel, last_channel, run // met):
                        for r0 in range(0, run, ROWS):
                            some = min(ROWS, run - r0)
                            for r in range(some):
                                c, t = (r0 + r) // met, (r0 + r) % met
                                copy_pieces(
                                    room,
                                    a_at + r * pitch,
                                    0,
                                    x,
                                    x_at + (c0 + c) * plane,
                                    0,
                                    1,
                                    stride,
                                    lists,
                                    3 * t * each,
                                    each,
                                )
                            for m in range(m0, m1, length):
                                columns = min(length, m1 - m)
                                b, vectors = (m - m0) // length * block, (columns + lanes - 1) // lanes
                                multiply_rows(room, a_at, pitch, room, b, length, count, vectors, tile)
                                at = ((group * rows + m) * channels + c0) * every + t0 + r0
                                put_tile(gw, at, channels * every, tile, some, columns, p0 == 0)
