"""The weight gradient of 3 × 3 kernels, of each channel by itself, that move one row at a time: all taps share their loads."""

from __future__ import annotations

from typing import Any

from windowgrad.kernels.conv.depthwise.shifted import clear, load_wide, wide_lanes
from windowgrad.kernels.conv.depthwise.shifted_weight import put_sums
from windowgrad.kernels.conv.depthwise.three_rows import fill_rows
from windowgrad.kernels.runtime.jit import helper, kernel
from windowgrad.kernels.vector.masked import interval, load_some, store_tile
from windowgrad.kernels.vector.ops import address, alive, fma, later

TAPS = 9


@helper
def sum_plane(sums: Any, box: Any, g: Any, rows: int, width: int, pitch: int, places: Any) -> None:
    """Adds the products of a plane to the vector of sums of each tap. Lanes past the row are off in both factors."""
    n, i = wide_lanes(box), 0
    a, b, c = load_wide(sums, 0), load_wide(sums, n), load_wide(sums, 2 * n)
    d, e, f = load_wide(sums, 3 * n), load_wide(sums, 4 * n), load_wide(sums, 5 * n)
    p, q, s = load_wide(sums, 6 * n), load_wide(sums, 7 * n), load_wide(sums, 8 * n)
    zero = load_some(box, 0, 0)
    while i < width:
        bits, r, here, above, two_above = interval(0, min(n, width - i)), 0, zero, zero, zero
        while r < rows + 2:  # a row of the box meets the row of pixels beside it, and the two above that
            cells = later(box, r * pitch + i)
            left, middle, right = (
                load_some(cells, places[0], bits),
                load_some(cells, places[1], bits),
                load_some(cells, places[2], bits),
            )
            if r < rows:
                here = load_some(g, r * width + i, bits)
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
def three_weight(x: Any, g: Any, gw: Any, room: Any, ins: Any, places: Any, sizes: Any, share: Any) -> None:
    """gw[channel, tap] = the sum over images and pixels of g · x, for the channels of a share.

    `sizes`: images, channels, how many of them are done together, cells of a plane of x, rows and width of g, cells and pitch
    of the box, width of x, and where its rows begin in the box. The room has a box and, for each of the channels done
    together, a vector for each tap.
    """
    (images, channels, some, plane, rows, out_width, cells, pitch, width, apart), (first, last) = sizes, share
    n, box, sums, start = wide_lanes(room), address(room), later(address(room), cells), first
    clear(box, cells)
    while start < last:
        count, image = min(some, last - start), 0
        clear(sums, count * TAPS * n)
        while image < images:
            c = 0
            while c < count:
                job = image * channels + start + c
                fill_rows(box, later(address(x), job * plane), width, apart, address(ins), len(ins))
                pixels = later(address(g), job * rows * out_width)
                sum_plane(later(sums, c * TAPS * n), box, pixels, rows, out_width, pitch, address(places))
                c += 1
            image += 1
        c = 0
        while c < count:
            put_sums(later(address(gw), (start + c) * TAPS), later(sums, c * TAPS * n), TAPS)
            c += 1
        start += count
    alive(room)
