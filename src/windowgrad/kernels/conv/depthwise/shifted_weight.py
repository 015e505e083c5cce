"""The weight gradient of each channel by itself, where a plane fits in a box (see `conv_planes`): taps share their loads."""

from __future__ import annotations

from typing import Any

from windowgrad.kernels.conv.depthwise.shifted import clear, copy_cells, fill_box, load_wide, wide_lanes
from windowgrad.kernels.runtime.jit import helper, kernel
from windowgrad.kernels.vector.masked import load_some, store_tile
from windowgrad.kernels.vector.ops import address, alive, fma, later

TAPS = 5
"""Taps at a time."""


@helper
def sum_pixels(sums: Any, box: Any, g: Any, vectors: int, bits: Any, places: Any) -> None:
    """Adds g[i] · box[i + place] to the vector of sums of each of TAPS taps, for the lanes whose bit is set."""
    n, i, q = wide_lanes(box), 0, 0
    a, b, c, d, e = (
        load_wide(sums, 0),
        load_wide(sums, n),
        load_wide(sums, 2 * n),
        load_wide(sums, 3 * n),
        load_wide(sums, 4 * n),
    )
    at, bt, ct, dt, et = places[0], places[1], places[2], places[3], places[4]
    while q < vectors:
        pixels, on = load_wide(g, i), bits[q]
        a = fma(pixels, load_some(box, i + at, on), a)
        b = fma(pixels, load_some(box, i + bt, on), b)
        c = fma(pixels, load_some(box, i + ct, on), c)
        d = fma(pixels, load_some(box, i + dt, on), d)
        e = fma(pixels, load_some(box, i + et, on), e)
        i, q = i + n, q + 1
    store_tile(sums, 0, a)
    store_tile(sums, n, b)
    store_tile(sums, 2 * n, c)
    store_tile(sums, 3 * n, d)
    store_tile(sums, 4 * n, e)


@kernel
def shifted_weight(
    x: Any, g: Any, gw: Any, room: Any, apart: Any, ins: Any, outs: Any, places: Any, bits: Any, sizes: Any, share: Any
) -> None:
    """gw[channel, tap] = the sum over images and pixels of g · x, for the channels of a share.

    As `shifted`; `places` has as many taps as make it a multiple of TAPS, and `bits` the mask of each vector of pixels. The
    room has for each of `some` channels a box, `pitch` pixels, and a vector for each tap.
    """
    (images, channels, plane, out_plane, every, cells, pitch, width, out_width, some), (first, last) = sizes, share
    n, box, taps = wide_lanes(room), address(room), len(places)
    pixels, sums = later(box, some * cells), later(box, some * (cells + pitch))
    clear(box, some * (cells + pitch))
    start = first
    while start < last:
        count, image = min(some, last - start), 0
        clear(sums, count * taps * n)
        while image < images:
            c = 0
            while c < count:
                job = image * channels + start + c
                source = later(address(x), job * plane)
                fill_box(later(box, c * cells), source, width, address(apart), len(apart), address(ins), len(ins))
                take_plane(later(pixels, c * pitch), later(address(g), job * out_plane), out_width, address(outs), len(outs))
                c += 1
            t = 0
            while t < count * taps:
                c = t // taps
                to, here, met = later(sums, t * n), later(box, c * cells), later(address(places), t - c * taps)
                sum_pixels(to, here, later(pixels, c * pitch), len(bits), address(bits), met)
                t += TAPS
            image += 1
        c = 0
        while c < count:
            put_sums(later(address(gw), (start + c) * every), later(sums, c * taps * n), every)
            c += 1
        start += count
    alive(room)


@helper
def take_plane(to: Any, g: Any, width: int, outs: Any, rows: int) -> None:
    """A plane of g into the flat row of its pixels."""
    r = 0
    while r < 3 * rows:
        copy_cells(later(to, outs[r]), later(g, outs[r + 1]), width)
        r += 3


@helper
def put_sums(gw: Any, sums: Any, taps: int) -> None:
    """The sums of the lanes of each vector."""
    n, t = wide_lanes(sums), 0
    while t < taps:
        total, lane = sums[t * n], 1
        while lane < n:
            total += sums[t * n + lane]
            lane += 1
        gw[t] = total
        t += 1
