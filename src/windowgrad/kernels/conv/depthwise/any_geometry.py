"""Each channel by itself, where a plane does not go into a box: pieces of planes, from lists.

Computes y[image, channel, pixel] = bias[channel] + the sum over taps of w[channel, tap] · (the cell that the pixel meets), and
the weight gradient gw[channel, tap] = the sum over images and pixels of g · (the cell).

Chosen where `depthwise/ways.py: may_list_planes` holds and no box does: planes too large for one, and padding that is larger
than its plane.

How it is blocked: there are no channels to sum over, so each vector of outputs sums its taps in a register, with no tile.
The pieces of a range of pixels (`conv/pieces.py`) are listed once, masks and all, and serve all planes, PLANES at a time:
each piece and tap is read from the list once and meets four planes. Channels past the last four are done one by one.

                    pieces of y │ pieces of tap 0 │ pieces of tap 1 │ …      one list, `count` triples for each of them
    planes c … c + 3:    a vector of sums each = Σ over taps of w · (a masked vector of x)

Measured and rejected: the packed panels of conv/gemm, where with one channel to sum over packing costs more than the products;
lists where a plane goes into a box (see `depthwise/boxes.py`), where no tap needs a mask.
"""

from __future__ import annotations

from typing import Any

from windowgrad.kernels.conv.pieces import out_pieces, put_pieces, row_pieces
from windowgrad.kernels.conv.records import Finish, InAxes, OutAxes, Pieces, Range, Sizes, Start
from windowgrad.kernels.runtime.jit import helper, kernel
from windowgrad.kernels.vector.masked import interval, load_even, load_some, put_value, store_tile
from windowgrad.kernels.vector.ops import address, fma, later, splat
from windowgrad.kernels.vector.registers import VECTORS, least_of, most_of, wide_lanes
from windowgrad.kernels.vector.tiles import Matrix

PLANES = 4
"""Planes at a time."""


def _sum_taps(read: Any) -> Any:
    """A helper that sums the taps of all pieces, for PLANES planes; `read` gets the cells of a piece."""

    @helper
    def sum_taps(
        x: Matrix, w: Matrix, places: Any, taps: int, pieces: Pieces, y: Matrix, some: int, move: int, start: Start, tile: Any
    ) -> int:
        """Each row of x, w and y is a plane. `some` of PLANES are put into y; the pieces are those of y, then of each tap."""
        end = Finish(y.cells, False, least_of(tile), most_of(tile))
        listed, all_pieces, length, strange = pieces.list, 3 * pieces.number, VECTORS * wide_lanes(tile), 0
        zero = load_some(tile, 0, 0)
        for q in range(0, all_pieces, 3):
            a, b, c, d = zero, zero, zero, zero
            piece = all_pieces + q
            for t in range(taps):
                cell, bits, k = listed[piece + 1], listed[piece + 2], places[t]
                a = fma(splat(zero, w.cells[k]), read(x.cells, cell, bits), a)
                b = fma(splat(zero, w.cells[k + w.step]), read(x.cells, cell + x.step, bits), b)
                c = fma(splat(zero, w.cells[k + 2 * w.step]), read(x.cells, cell + 2 * x.step, bits), c)
                d = fma(splat(zero, w.cells[k + 3 * w.step]), read(x.cells, cell + 3 * x.step, bits), d)
                piece += all_pieces
            if some == PLANES and move == 1 and start.fresh:
                to, bits = listed[q + 1], interval(0, listed[q + 2])
                strange |= put_value(y.cells, to, a, start.bias[0], end.least, end.most, bits)
                strange |= put_value(y.cells, to + y.step, b, start.bias[1], end.least, end.most, bits)
                strange |= put_value(y.cells, to + 2 * y.step, c, start.bias[2], end.least, end.most, bits)
                strange |= put_value(y.cells, to + 3 * y.step, d, start.bias[3], end.least, end.most, bits)
            else:
                store_tile(tile, 0, a)
                store_tile(tile, length, b)
                store_tile(tile, 2 * length, c)
                store_tile(tile, 3 * length, d)
                strange |= put_pieces(y, some, move, tile, start, end, Pieces(later(listed, q), 1))
        return strange

    return sum_taps


def _sum_pixels(read: Any) -> Any:
    """A helper that sums the pixels of all pieces and images for one tap of PLANES planes, into the rows of a tile."""

    @helper
    def sum_pixels(x: Matrix, x_image: int, g: Matrix, g_image: int, images: int, pieces: Pieces, tap: Any, tile: Any) -> None:
        """The pieces are those of g, with masks in place of lengths; `tap` lists as many of x."""
        listed, length, zero = pieces.list, VECTORS * wide_lanes(tile), load_some(tile, 0, 0)
        a, b, c, d = zero, zero, zero, zero
        for image in range(images):
            for q in range(0, 3 * pieces.number, 3):
                cell, bits = image * x_image + tap[q + 1], tap[q + 2]
                pixel, on = image * g_image + listed[q + 1], listed[q + 2]
                a = fma(load_some(g.cells, pixel, on), read(x.cells, cell, bits), a)
                b = fma(load_some(g.cells, pixel + g.step, on), read(x.cells, cell + x.step, bits), b)
                c = fma(load_some(g.cells, pixel + 2 * g.step, on), read(x.cells, cell + 2 * x.step, bits), c)
                d = fma(load_some(g.cells, pixel + 3 * g.step, on), read(x.cells, cell + 3 * x.step, bits), d)
        store_tile(tile, 0, a)
        store_tile(tile, length, b)
        store_tile(tile, 2 * length, c)
        store_tile(tile, 3 * length, d)

    return sum_pixels


taps_in_a_row, taps_apart = _sum_taps(load_some), _sum_taps(load_even)
pixels_in_a_row, pixels_apart = _sum_pixels(load_some), _sum_pixels(load_even)


@kernel
def depthwise(
    x: Any, w: Any, y: Any, bias: Any, scratch: Any, axes: Any, outs: Any, places: Any, sizes: Any, at_once: int, share: Any
) -> int:
    """A share of the forward pass or the input gradient: some fours of channels of all images; gives the strange lanes.

    `scratch`: cells and integers; `axes` as in `InAxes`; `outs`: move as in `OutAxes`, and the place of pixel 0; `places`: of
    the taps stand in the weight; `sizes` as in `Sizes`, every group a channel; `at_once`: how many pixels are listed at a time;
    `share`: the fours to do, and whether to add to what y has. The weight has four channels after its last that may be read.
    """
    size, (room, lists), (move, origin), (first, last, adds) = Sizes(*sizes), scratch, outs, share
    met = InAxes(len(axes[0]), address(axes[0]), address(axes[1]), address(axes[2]), address(axes[3]), 0)
    out, tile, listed = OutAxes(met.rank, met.grid, address(move), 0), address(room), address(lists)
    channels, plane, out_plane, taps = size.groups, size.plane, size.out_plane, len(w) // (size.groups + PLANES)
    lanes, pixels, fours, strange = wide_lanes(y), 1, (channels + PLANES - 1) // PLANES, 0
    for axis in range(met.rank):
        pixels *= met.grid[axis]
    for p in range(0, pixels, at_once):
        some_pixels = Range(p, min(pixels, p + at_once))
        pieces = out_pieces(some_pixels, out, lanes, listed)
        for q in range(pieces.number):
            listed[3 * q] = 0  # each piece is put from the first vector of a tile
        row_pieces(some_pixels, met, Range(0, len(places)), lanes, 0, later(listed, 3 * pieces.number))
        for job in range(first, last):
            image = job // fours
            c = (job - image * fours) * PLANES
            some = PLANES if channels - c >= PLANES else 1
            for channel in range(c, min(channels, c + PLANES), some):
                number = image * channels + channel
                cells = Matrix(later(address(x), number * plane), plane if some == PLANES else 0)
                to = Matrix(later(address(y), number * out_plane + origin), out_plane)
                weight = Matrix(later(address(w), channel * taps), taps)
                start = Start(later(address(bias), channel), True, not adds)
                if met.step[met.rank - 1] == 1:
                    strange |= taps_in_a_row(
                        cells, weight, address(places), len(places), pieces, to, some, out.move[met.rank - 1], start, tile
                    )
                else:
                    strange |= taps_apart(
                        cells, weight, address(places), len(places), pieces, to, some, out.move[met.rank - 1], start, tile
                    )
    return strange


@kernel
def depthwise_weight(x: Any, g: Any, gw: Any, scratch: Any, axes: Any, move: Any, sizes: Any, at_once: int, share: Any) -> None:
    """A share of the weight gradient, added to gw: some fours of channels. Arguments as in `depthwise`."""
    size, (room, lists), (first, last) = Sizes(*sizes), scratch, share
    met = InAxes(len(axes[0]), address(axes[0]), address(axes[1]), address(axes[2]), address(axes[3]), 0)
    out, tile, listed = OutAxes(met.rank, met.grid, address(move), 0), address(room), address(lists)
    channels, plane, out_plane, taps = size.groups, size.plane, size.out_plane, len(gw) // size.groups
    lanes, end = wide_lanes(gw), min(channels, last * PLANES)
    for p in range(0, out_plane, at_once):
        some_pixels = Range(p, min(out_plane, p + at_once))
        pieces = out_pieces(some_pixels, out, lanes, listed)
        for q in range(pieces.number):
            listed[3 * q + 2] = interval(0, listed[3 * q + 2])
        row_pieces(some_pixels, met, Range(0, taps), lanes, 0, later(listed, 3 * pieces.number))
        c = first * PLANES
        while c < end:
            some = PLANES if channels - c >= PLANES else 1
            cells = Matrix(later(address(x), c * plane), plane if some == PLANES else 0)
            gradient = Matrix(later(address(g), c * out_plane), out_plane if some == PLANES else 0)
            for t in range(taps):
                tap = later(listed, 3 * pieces.number * (t + 1))
                if met.step[met.rank - 1] == 1:
                    pixels_in_a_row(cells, channels * plane, gradient, channels * out_plane, size.images, pieces, tap, tile)
                else:
                    pixels_apart(cells, channels * plane, gradient, channels * out_plane, size.images, pieces, tap, tile)
                for r in range(some):
                    total = gw[(c + r) * taps + t]
                    for lane in range(lanes):
                        total += tile[r * VECTORS * lanes + lane]
                    gw[(c + r) * taps + t] = total
            c += some
