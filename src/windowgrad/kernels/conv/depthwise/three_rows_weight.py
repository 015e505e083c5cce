"""The weight gradient of 3 × 3 windows, of each channel by itself, that move one row at a time: all taps share their loads.

Computes gw[channel, tap] = the sum over images and pixels of g[image, channel, pixel] · (the cell that the pixel meets).

Chosen before `shifted_weight`, where `depthwise/ways.py: may_sum_nine` holds.

How it is blocked: the sums of all NINE taps, a vector each, stay in registers. Each row of the box (`depthwise/boxes.py`) is
loaded once for each of three columns of taps, and meets three rows of g, the two last of which are still in registers:

    row of the box   …  r   …       taps of the first row   +=  row r of the box · row r of g       (here)
    rows of g     r-2  r-1  r       taps of the second row  +=  row r of the box · row r − 1 of g   (above)
                                    taps of the third row   +=  row r of the box · row r − 2 of g   (two above)

g is read where it stands.
"""

from __future__ import annotations

from typing import Any

from windowgrad.kernels.conv.depthwise.shifted import clear
from windowgrad.kernels.conv.depthwise.shifted_weight import put_sums
from windowgrad.kernels.conv.depthwise.three_rows import Box, Plane, fill_rows
from windowgrad.kernels.conv.share import part_begin
from windowgrad.kernels.runtime.jit import helper, kernel
from windowgrad.kernels.vector.masked import interval, load_some, store_tile
from windowgrad.kernels.vector.ops import address, fma, later
from windowgrad.kernels.vector.registers import load_wide, wide_lanes

NINE = 9
"""Taps of a window, all at a time."""


@helper
def sum_plane(sums: Any, box: Box, g: Plane, places: Any) -> None:
    """Adds the products of a plane to the vector of sums of each tap. Lanes past the row are off in both factors."""
    n, i, rows, width = wide_lanes(sums), 0, g.rows, g.width
    a, b, c = load_wide(sums, 0), load_wide(sums, n), load_wide(sums, 2 * n)
    d, e, f = load_wide(sums, 3 * n), load_wide(sums, 4 * n), load_wide(sums, 5 * n)
    p, q, s = load_wide(sums, 6 * n), load_wide(sums, 7 * n), load_wide(sums, 8 * n)
    zero = load_some(sums, 0, 0)
    while i < width:
        bits, r, here, above, two_above = interval(0, min(n, width - i)), 0, zero, zero, zero
        while r < rows + 2:  # a row of the box meets the row of pixels beside it, and the two above that
            cells = later(box.cells, r * box.pitch + i)
            left, middle, right = (
                load_some(cells, places[0], bits),
                load_some(cells, places[1], bits),
                load_some(cells, places[2], bits),
            )
            if r < rows:
                here = load_some(g.cells, r * width + i, bits)
                a, b, c = fma(here, left, a), fma(here, middle, b), fma(here, right, c)
            if r >= 1 and r <= rows:
                d, e, f = fma(above, left, d), fma(above, middle, e), fma(above, right, f)
            if r >= 2:
                p, q, s = fma(two_above, left, p), fma(two_above, middle, q), fma(two_above, right, s)
            two_above, above, r = above, here, r + 1
        i += n
    store_tile(sums, 0, a)
    store_tile(sums, n, b)
    store_tile(sums, 2 * n, c)
    store_tile(sums, 3 * n, d)
    store_tile(sums, 4 * n, e)
    store_tile(sums, 5 * n, f)
    store_tile(sums, 6 * n, p)
    store_tile(sums, 7 * n, q)
    store_tile(sums, 8 * n, s)


@kernel
def three_weight(
    x: Any, g: Any, gw: Any, room: Any, ins: Any, places: Any, sizes: Any, parts: int, first: int, last: int
) -> int:
    """Some of the parts that the channels are cut into; gives the strange lanes of all sums.

    `ins` as in `Planes`, `places`: where the taps are in the box; `sizes`: images, channels, how many of them are done at once,
    cells of a plane of x, rows and width of g, cells and pitch of the box, width of x, and where its rows begin in the
    box. The room has for each part a box and, for each of the channels done together, a vector for each tap.
    """
    images, channels, some, plane, rows, out_width, cells, pitch, width, apart = sizes
    n, start, end, strange = wide_lanes(room), part_begin(channels, parts, first), part_begin(channels, parts, last), 0
    own = later(address(room), first * (cells + some * NINE * n))
    box, sums = Box(own, pitch, address(ins), len(ins), width, apart), later(own, cells)
    clear(box.cells, cells)
    while start < end:
        count, image = min(some, end - start), 0
        clear(sums, count * NINE * n)
        while image < images:
            c = 0
            while c < count:
                job = image * channels + start + c
                fill_rows(box, later(address(x), job * plane))
                pixels = Plane(later(address(g), job * rows * out_width), rows, out_width)
                sum_plane(later(sums, c * NINE * n), box, pixels, address(places))
                c += 1
            image += 1
        c = 0
        while c < count:
            strange |= put_sums(later(address(gw), (start + c) * NINE), later(sums, c * NINE * n), NINE)
            c += 1
        start += count
    return strange
