"""Convolution of each channel by itself: no channels to sum over, so each vector of outputs sums its taps in a register.

The pieces of a run of pixels are listed once and serve all planes, four at a time.
"""

from __future__ import annotations

from typing import Any

from windowgrad.kernels.conv.gemm.products import finish
from windowgrad.kernels.conv.gemm.windows import in_pieces, out_pieces
from windowgrad.kernels.runtime.jit import helper, kernel
from windowgrad.kernels.vector.masked import interval, load_even, load_some, peek, put_value, store_tile
from windowgrad.kernels.vector.ops import fma, splat
from windowgrad.kernels.vector.tiles import BYTES, VECTORS

PLANES = 4


def _taps(read: Any) -> Any:
    """A helper that sums the taps of all pieces of a run, for PLANES planes; `read` gets the cells of a piece."""

    @helper
    def taps(
        x: Any, at: int, plane: int, w: Any, per_plane: int, places: Any, lists: Any, pieces: int, y: Any, y_at: int,
        out_plane: int, bias: Any, channel: int, some: int, adds: bool, move: int, tile: Any,
    ) -> int:  # fmt: skip
        length, zero, strange = VECTORS * BYTES // tile.itemsize, load_some(tile, 0, 0), 0
        k0, met = channel * per_plane, len(places)
        for q in range(0, 3 * pieces, 3):
            a, b, c, d = zero, zero, zero, zero
            piece = 3 * pieces + q
            for t in range(met):
                cell, bits, k = at + peek(lists, piece + 1), peek(lists, piece + 2), k0 + peek(places, t)
                a = fma(splat(zero, peek(w, k)), read(x, cell, bits), a)
                b = fma(splat(zero, peek(w, k + per_plane)), read(x, cell + plane, bits), b)
                c = fma(splat(zero, peek(w, k + 2 * per_plane)), read(x, cell + 2 * plane, bits), c)
                d = fma(splat(zero, peek(w, k + 3 * per_plane)), read(x, cell + 3 * plane, bits), d)
                piece += 3 * pieces
            if some == PLANES and move == 1 and not adds:
                to, bits = y_at + peek(lists, q + 1), interval(0, peek(lists, q + 2))
                strange |= put_value(y, to, a, peek(bias, channel), bits)
                strange |= put_value(y, to + out_plane, b, peek(bias, channel + 1), bits)
                strange |= put_value(y, to + 2 * out_plane, c, peek(bias, channel + 2), bits)
                strange |= put_value(y, to + 3 * out_plane, d, peek(bias, channel + 3), bits)
            else:
                store_tile(tile, 0, a)
                store_tile(tile, length, b)
                store_tile(tile, 2 * length, c)
                store_tile(tile, 3 * length, d)
                strange |= finish(y, y_at, out_plane, some, tile, bias, channel, True, not adds, move, lists, q, 1)
        return strange

    return taps


def _tap(read: Any) -> Any:
    """A helper that sums the pixels of a run of all images for one tap of PLANES planes into a tile."""

    @helper
    def tap(
        x: Any, x_at: int, x_plane: int, x_image: int, g: Any, g_at: int, g_plane: int, g_image: int, images: int, lists: Any,
        first: int, out: int, pieces: int, tile: Any,
    ) -> None:  # fmt: skip
        length, zero = VECTORS * BYTES // tile.itemsize, load_some(tile, 0, 0)
        a, b, c, d = zero, zero, zero, zero
        for image in range(images):
            for q in range(0, 3 * pieces, 3):
                cell, bits = x_at + image * x_image + peek(lists, first + q + 1), peek(lists, first + q + 2)
                pixel, on = g_at + image * g_image + peek(lists, out + q + 1), peek(lists, out + q + 2)
                a = fma(load_some(g, pixel, on), read(x, cell, bits), a)
                b = fma(load_some(g, pixel + g_plane, on), read(x, cell + x_plane, bits), b)
                c = fma(load_some(g, pixel + 2 * g_plane, on), read(x, cell + 2 * x_plane, bits), c)
                d = fma(load_some(g, pixel + 3 * g_plane, on), read(x, cell + 3 * x_plane, bits), d)
        store_tile(tile, 0, a)
        store_tile(tile, length, b)
        store_tile(tile, 2 * length, c)
        store_tile(tile, 3 * length, d)

    return tap


taps_in_a_row, taps_apart = _taps(load_some), _taps(load_even)
tap_in_a_row, tap_apart = _tap(load_some), _tap(load_even)


@kernel
def depthwise(
    x: Any, w: Any, y: Any, bias: Any, room: Any, lists: Any, axes: Any, move: Any, origin: int, places: Any, sizes: Any,
    run: int, share: Any,
) -> int:  # fmt: skip
    """y[image, channel, pixel] = bias[channel] + the sum over taps of w · x, for the fours of channels of a share.

    `axes` as in `in_pieces`, `move` and `origin` as in `out_pieces`; `sizes`: images, channels, cells of a plane of x and of y,
    taps of the weight; `run`: pixels at a time. The weight has four channels after the last one that may be read. Says
    whether some sum is zero, denormal or not finite.
    """
    (grid, size, step, taps), (_, channels, plane, out_plane, every), (first, last, adds) = axes, sizes, share
    lanes, rank = BYTES // y.itemsize, len(grid)
    met, pixels, fours, strange = len(places), 1, (channels + PLANES - 1) // PLANES, 0
    for n in grid:
        pixels *= n
    for p0 in range(0, pixels, run):
        count = min(run, pixels - p0)
        each = out_pieces(p0, count, grid, move, 0, lanes, lists, 0)
        for q in range(each):
            lists[3 * q] = 0
        in_pieces(p0, count, grid, size, step, taps, 0, met, 0, lanes, 0, lists, 3 * each)
        for job in range(first, last):
            image = job // fours
            c = (job - image * fours) * PLANES
            left = min(PLANES, channels - c)
            some = PLANES if left == PLANES else 1
            for channel in range(c, c + left, some):
                x_at, y_at = (image * channels + channel) * plane, (image * channels + channel) * out_plane + origin
                x_plane = plane if some == PLANES else 0
                if step[rank - 1] == 1:
                    strange |= taps_in_a_row(
                        x, x_at, x_plane, w, every, places, lists, each, y, y_at, out_plane, bias, channel, some, adds,
                        move[rank - 1], room,
                    )  # fmt: skip
                else:
                    strange |= taps_apart(
                        x, x_at, x_plane, w, every, places, lists, each, y, y_at, out_plane, bias, channel, some, adds,
                        move[rank - 1], room,
                    )  # fmt: skip
    return strange


@kernel
def depthwise_weight(
    x: Any, g: Any, gw: Any, room: Any, lists: Any, axes: Any, move: Any, sizes: Any, run: int, share: Any
) -> None:
    """gw[channel, tap] += the sum over images and pixels of g · x, for the fours of channels of a share."""
    (grid, size, step, taps), (images, channels, plane, out_plane, every), (first, last) = axes, sizes, share
    lanes, rank, length = BYTES // gw.itemsize, len(grid), VECTORS * BYTES // gw.itemsize
    for p0 in range(0, out_plane, run):
        count = min(run, out_plane - p0)
        each = out_pieces(p0, count, grid, move, 0, lanes, lists, 0)
        for q in range(each):
            lists[3 * q + 2] = interval(0, lists[3 * q + 2])
        in_pieces(p0, count, grid, size, step, taps, 0, every, 0, lanes, 0, lists, 3 * each)
        c = first * PLANES
        while c < min(channels, last * PLANES):
            some = PLANES if channels - c >= PLANES else 1
            x_plane, g_plane = (plane, out_plane) if some == PLANES else (0, 0)
            for t in range(every):
                at = 3 * each * (t + 1)
                if step[rank - 1] == 1:
                    tap_in_a_row(
                        x, c * plane, x_plane, channels * plane, g, c * out_plane, g_plane, channels * out_plane, images, lists,
                        at, 0, each, room,
                    )  # fmt: skip
                else:
                    tap_apart(
                        x, c * plane, x_plane, channels * plane, g, c * out_plane, g_plane, channels * out_plane, images, lists,
                        at, 0, each, room,
                    )  # fmt: skip
                for r in range(some):
                    total = gw[(c + r) * every + t]
                    for lane in range(lanes):
                        total += room[r * length + lane]
                    gw[(c + r) * every + t] = total
            c += some
