"""The weight gradient of each channel by itself, where a plane goes into a box (`depthwise/boxes.py`).

Computes gw[channel, tap] = the sum over images and pixels of g[image, channel, pixel] · (the cell that the pixel meets).

Chosen where `depthwise/ways.py: may_shift_weight` holds, unless `three_rows_weight` takes it.

How it is blocked: a plane of x is copied into its box, and a plane of g into the long row of its pixels, where cells that are
no pixels are masked. TAPS vectors of sums, one for each of so many taps, stay in registers while the pixels run, so each
vector of g is loaded once for TAPS taps. A few channels are done together, all images of them one after the other.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from windowgrad.kernels.conv.depthwise.shifted import OutRows, clear, copy_cells, fill_box, in_rows
from windowgrad.kernels.conv.share import part_begin
from windowgrad.kernels.runtime.jit import helper, kernel
from windowgrad.kernels.vector.masked import load_some, store_tile, strange_cell
from windowgrad.kernels.vector.ops import address, fma, later
from windowgrad.kernels.vector.registers import load_wide, wide_lanes

TAPS = 5
"""Taps at a time."""


class Pixels(NamedTuple):
    """The pixels of a plane of g in a long row of so many vectors, and the mask of each."""

    cells: Any
    vectors: int
    bits: Any


@helper
def sum_pixels(sums: Any, box: Any, g: Pixels, places: Any) -> None:
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
    while q < g.vectors:
        pixels, on = load_wide(g.cells, i), g.bits[q]
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


@helper
def take_plane(to: Any, g: Any, rows: OutRows) -> None:
    """A plane of g into the long row of its pixels."""
    r = 0
    while r < 3 * rows.number:
        copy_cells(later(to, rows.outs[r]), later(g, rows.outs[r + 1]), rows.width)
        r += 3


@helper
def put_sums(gw: Any, sums: Any, taps: int) -> Any:
    """The sums of the lanes of each vector; gives their strange lanes."""
    n, t, strange = wide_lanes(sums), 0, 0
    while t < taps:
        total, lane = sums[t * n], 1
        while lane < n:
            total += sums[t * n + lane]
            lane += 1
        gw[t] = total
        strange |= strange_cell(total)
        t += 1
    return strange


@kernel
def shifted_weight(x: Any, g: Any, gw: Any, room: Any, tables: Any, sizes: Any, parts: int, first: int, last: int) -> int:
    """Some of the parts that the channels are cut into; gives the strange lanes of all sums.

    `tables`: apart, ins and outs of `Planes`, then the places of the taps in the box, as many as make a multiple of TAPS, and
    the mask of each vector of pixels; `sizes` as in `shifted`, with the images before them. The room has for each part, and
    there for each of the channels done together, a box, `pitch` pixels, and a vector for each tap.
    """
    images, channels, plane, out_plane, every, cells, pitch, width, out_width, some = sizes
    apart, ins, outs, places, bits = tables
    rows, out_rows = in_rows(ins, width, apart), OutRows(address(outs), len(outs), out_width)
    n, taps, strange = wide_lanes(room), len(places), 0
    start, end = part_begin(channels, parts, first), part_begin(channels, parts, last)
    box = later(address(room), first * some * (cells + pitch + taps * n))
    pixels, sums = later(box, some * cells), later(box, some * (cells + pitch))
    clear(box, some * (cells + pitch))
    while start < end:
        count, image = min(some, end - start), 0
        clear(sums, count * taps * n)
        while image < images:
            c = 0
            while c < count:
                job = image * channels + start + c
                fill_box(later(box, c * cells), later(address(x), job * plane), rows)
                take_plane(later(pixels, c * pitch), later(address(g), job * out_plane), out_rows)
                c += 1
            t = 0
            while t < count * taps:
                c = t // taps
                source, met = Pixels(later(pixels, c * pitch), len(bits), address(bits)), later(address(places), t - c * taps)
                sum_pixels(later(sums, t * n), later(box, c * cells), source, met)
                t += TAPS
            image += 1
        c = 0
        while c < count:
            strange |= put_sums(later(address(gw), (start + c) * every), later(sums, c * taps * n), every)
            c += 1
        start += count
    return strange
