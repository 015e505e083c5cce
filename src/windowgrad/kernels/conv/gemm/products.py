"""Sums over channels and taps: every output channel of a run of pixels, by tiles. The forward pass and the input gradient.

A block of k (channels × taps) of the weight and of the input is packed at a time, straight from where they stand; no array
has a cell for each pixel and each k. The order of every sum depends on the shapes only.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from windowgrad.kernels.conv.gemm.windows import copy_pieces, in_pieces, out_pieces
from windowgrad.kernels.runtime.jit import helper, kernel
from windowgrad.kernels.vector.masked import EVEN, HUGE, add_apart, add_part, interval, peek, put_apart, put_part
from windowgrad.kernels.vector.tiles import BYTES, ROWS, VECTORS, multiply_packed
from windowgrad.kernels.vector.transpose import copy_column, copy_row, turn


@helper
def pack_weight(
    w: Any, base: int, per_row: int, per_channel: int, places: Any, first: int, last: int, c0: int, c1: int, t0: int, t1: int,
    to: Any, at: int,
) -> None:  # fmt: skip
    """Rows `first` to `last` of the weight, for channels and taps of a block, as panels of ROWS numbers per k.

    Rows past the last are zeros. Where taps lie one after the other, ROWS of them are turned around at once. All rows of a
    channel are taken before the next channel: in the weight they lie closer together, or it is all one run.
    """
    taps = t1 - t0
    in_order = places[t1 - 1] - places[t0] == taps - 1
    runs, length = (1, (c1 - c0) * taps) if in_order and per_channel == taps else (c1 - c0, taps if in_order else 1)
    if length < ROWS:
        scatter_weight(w, base, per_row, per_channel, places, first, last, c0, c1, t0, t1, to, at)
        return
    for c in range(c0, c0 + runs):
        for row in range(first, last, ROWS):
            rows, i = min(ROWS, last - row), at + (row - first) * (c1 - c0) * taps
            start, done = base + row * per_row + c * per_channel + places[t0], 0
            if rows < ROWS:
                to[i : i + length * ROWS] = 0
            else:
                while done + ROWS <= length:
                    turn(to, i + done * ROWS, ROWS, w, start + done, per_row)
                    done += ROWS
            for k in range(done, length):
                for r in range(rows):
                    to[i + k * ROWS + r] = w[start + k + r * per_row]
        at += length * ROWS


@helper
def scatter_weight(
    w: Any, base: int, per_row: int, per_channel: int, places: Any, first: int, last: int, c0: int, c1: int, t0: int, t1: int,
    to: Any, at: int,
) -> None:  # fmt: skip
    """The same, one k of all rows after the other."""
    panel, whole = (c1 - c0) * (t1 - t0) * ROWS, first + (last - first) // ROWS * ROWS
    for c in range(c0, c1):
        for t in range(t0, t1):
            i, start = at, base + c * per_channel + places[t]
            if per_row == 1:
                for row in range(first, whole, ROWS):
                    copy_row(to, i, w, start + row)
                    i += panel
            else:
                for row in range(first, whole, ROWS):
                    copy_column(to, i, w, start + row * per_row, per_row)
                    i += panel
            for r in range(ROWS if whole < last else 0):
                to[i + r] = w[start + (whole + r) * per_row] if whole + r < last else 0
            at += ROWS


@helper
def finish(
    y: Any, base: int, plane: int, rows: int, tile: Any, bias: Any, channel: int, first: bool, fresh: bool, move: int,
    lists: Any, at: int, pieces: int,
) -> int:  # fmt: skip
    """Put a tile into the output, or add it if the output is not `fresh`, the bias with the first block of k.

    Gives the strange lanes of all sums.
    """
    strange, extra = 0, y.dtype.type(0)
    length, least = VECTORS * BYTES // tile.itemsize, 2.0**-126 if tile.itemsize == 4 else 2.0**-1022
    for q in range(at, at + 3 * pieces, 3):
        source, to, count = lists[q], base + lists[q + 1], lists[q + 2]
        for r in range(rows):
            if first:
                extra = peek(bias, channel + r)
            if move == 2 and fresh:
                strange |= put_apart(y, to, tile, source, extra, interval(0, 2 * count - 1) & EVEN)
            elif move == 2:
                strange |= add_apart(y, to, tile, source, extra, interval(0, 2 * count - 1) & EVEN)
            elif move > 2:
                for lane in range(count):
                    value = tile[source + lane] + extra
                    if not fresh:
                        value += y[to + lane * move]
                    y[to + lane * move] = value
                    strange |= (1 if abs(value) < least else 0) | (0 if abs(value) < np.inf else 1 << HUGE)
            elif fresh:
                strange |= put_part(y, to, tile, source, extra, interval(0, count))
            else:
                strange |= add_part(y, to, tile, source, extra, interval(0, count))
            to, source = to + plane, source + length
    return strange


@kernel
def products(
    x: Any, w: Any, y: Any, bias: Any, room: Any, lists: Any, axes: Any, out_axes: Any, places: Any, weight: Any, sizes: Any,
    blocks: Any, share: Any,
) -> int:  # fmt: skip
    """y[image, row, pixel] = bias[row] + the sum over channel and tap of w · x, for a share of the work.

    `axes`: grid, size, step and taps, as in `in_pieces`; `out_axes`: grid and move, as in `out_pieces`, with the place of
    pixel 0; `places`: where each tap stands in the weight; `weight`: how far groups, rows and channels are apart there;
    `sizes`: images, groups, rows and channels of a group, cells of a plane of x and of y; `blocks`: channels, taps, rows and
    panels of a block; `share`: the rows of all groups and the panels to do, and whether to add to what stands in y.
    Gives the strange lanes of all sums.
    """
    (grid, size, step, taps), (out_grid, move, origin) = axes, out_axes
    (per_group, per_row, per_channel), (images, groups, rows, channels, plane, out_plane) = weight, sizes
    (some_channels, some_taps, some_rows, some_panels), (first_row, last_row, first_panel, last_panel, adds) = blocks, share
    lanes = BYTES // y.itemsize
    length, stride = VECTORS * lanes, step[len(step) - 1]
    pixels = images
    for n in grid:
        pixels *= n
    b_at = some_channels * some_taps * some_rows
    panel = some_channels * some_taps * length
    tile = room[b_at + some_panels * panel + lanes :]
    in_at = some_panels * (3 * length + 2)
    strange = 0
    # pixels that lie in order need not be packed where few rows would use them
    in_order = len(grid) == 1 and len(places) == 1 and stride == 1 and taps[0] == 0 and grid[0] == size[0]
    in_order = in_order and len(move) == 1 and move[0] == 1 and rows <= 4 * ROWS
    for group in range(first_row // rows, (last_row + rows - 1) // rows):
        low, high = max(0, first_row - group * rows), min(rows, last_row - group * rows)
        x_at, y_at = group * channels * plane, origin + group * rows * out_plane
        for c0 in range(0, channels, some_channels):
            c1 = min(channels, c0 + some_channels)
            for t0 in range(0, len(places), some_taps):
                t1 = min(len(places), t0 + some_taps)
                first, last, k = c0 + t0 == 0, c1 == channels and t1 == len(places), (c1 - c0) * (t1 - t0)
                fresh = first and not adds
                for m0 in range(low, high, some_rows):
                    m1 = min(high, m0 + some_rows)
                    pack_weight(w, group * per_group, per_row, per_channel, places, m0, m1, c0, c1, t0, t1, room, 0)
                    for q0 in range(first_panel, last_panel, some_panels):
                        q1 = min(last_panel, q0 + some_panels)
                        for q in range(q0, q1):
                            start, count = q * length, min(length, pixels - q * length)
                            at = (q - q0) * (3 * length + 2)
                            lists[at] = out_pieces(
                                start, count, out_grid, move, groups * rows * out_plane, lanes, lists, at + 2
                            )
                            image = start // grid[0]
                            lists[at + 1] = x_at + image * (groups * channels * plane - plane) + start
                            if not in_order or start + length > (image + 1) * plane:
                                lists[at + 1] = -1
                            if lists[at + 1] >= 0:
                                continue
                            pieces = in_pieces(
                                start, count, grid, size, step, taps, t0, t1, groups * channels * plane, lanes, length, lists,
                                in_at,
                            )  # fmt: skip
                            copy_pieces(
                                room, b_at + (q - q0) * panel, (t1 - t0) * length, x, x_at + c0 * plane, plane, c1 - c0, stride,
                                lists, in_at, pieces,
                            )  # fmt: skip
                        for m in range(m0, m1, ROWS):
                            for q in range(q0, q1):
                                vectors = (min(length, pixels - q * length) + lanes - 1) // lanes
                                b, at = b_at + (q - q0) * panel, (q - q0) * (3 * length + 2)
                                if lists[at + 1] >= 0:
                                    multiply_packed(room, (m - m0) * k, x, lists[at + 1] + c0 * plane, plane, k, vectors, tile)
                                else:
                                    multiply_packed(room, (m - m0) * k, room, b, length, k, vectors, tile)
                                seen = finish(
                                    y, y_at + m * out_plane, out_plane, min(ROWS, m1 - m), tile, bias, group * rows + m,
                                    first, fresh, move[len(move) - 1], lists, at + 2, lists[at],
                                )  # fmt: skip
                                if last:
                                    strange |= seen
    return strange
