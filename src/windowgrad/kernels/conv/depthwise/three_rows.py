"""Kernels three cells high, of each channel by itself, that move one row at a time: four rows of outputs share their loads."""

from __future__ import annotations

from typing import Any

from windowgrad.kernels.conv.depthwise.shifted import clear, copy_cells, load_wide, put, wide_lanes
from windowgrad.kernels.runtime.jit import helper, kernel
from windowgrad.kernels.vector.masked import interval, load_some
from windowgrad.kernels.vector.ops import address, alive, fma, later, splat

HIGH = 4
"""Rows of outputs at a time."""


@helper
def put_four(
    y: Any, width: int, rows: int, a: Any, b: Any, c: Any, d: Any, extra: Any, adds: bool, bits: int
) -> Any:  # fmt: skip
    """The first so many of four vectors, one in each row of y; says as `put_value` which are strange."""
    strange = put(y, 0, a, extra, adds, bits)
    if rows > 1:
        strange |= put(y, width, b, extra, adds, bits)
    if rows > 2:
        strange |= put(y, 2 * width, c, extra, adds, bits)
    if rows > 3:
        strange |= put(y, 3 * width, d, extra, adds, bits)
    return strange


@helper
def sum_rows(
    y: Any, box: Any, rows: int, width: int, pitch: int, places: Any, taps: Any, columns: int, w: Any, extra: Any, adds: bool
) -> Any:  # fmt: skip
    """A plane of y from its box. `places`: where the taps of the first row are; `taps`: where all are in the weight."""
    n, zero, strange, r = wide_lanes(box), load_some(box, 0, 0), 0, 0
    while r < rows:
        i = 0
        while i < width:
            a, b, c, d, t = zero, zero, zero, zero, 0
            while t < columns:
                here = later(box, r * pitch + i + places[t])
                high, middle, low = (
                    splat(zero, w[taps[t]]),
                    splat(zero, w[taps[t + columns]]),
                    splat(zero, w[taps[t + 2 * columns]]),
                )
                cells = load_wide(here, 0)
                a = fma(high, cells, a)
                cells = load_wide(here, pitch)
                a, b = fma(middle, cells, a), fma(high, cells, b)
                cells = load_wide(here, 2 * pitch)
                a, b, c = fma(low, cells, a), fma(middle, cells, b), fma(high, cells, c)
                cells = load_wide(here, 3 * pitch)
                b, c, d = fma(low, cells, b), fma(middle, cells, c), fma(high, cells, d)
                cells = load_wide(here, 4 * pitch)
                c, d = fma(low, cells, c), fma(middle, cells, d)
                d = fma(low, load_wide(here, 5 * pitch), d)
                t += 1
            bits = interval(0, min(n, width - i))
            strange |= put_four(later(y, r * width + i), width, rows - r, a, b, c, d, extra, adds, bits)
            i += n
        r += HIGH
    return strange


@helper
def fill_rows(box: Any, x: Any, width: int, apart: int, ins: Any, rows: int) -> None:
    """A plane of x into its box, where no cells lie apart."""
    r = 0
    while r < 2 * rows:
        copy_cells(later(box, ins[r + 1] + apart), later(x, ins[r]), width)
        r += 2


@kernel
def three_rows(x: Any, w: Any, y: Any, bias: Any, room: Any, ins: Any, lists: Any, sizes: Any, share: Any) -> int:
    """y[image, channel] = bias[channel] + the sum over taps of w · x, for the planes of a share.

    `ins` and `lists` as in `Planes`, of a plan that `may_sum_three`; `sizes`: channels, cells of a plane of x, rows and width
    of y, cells and pitch of the box, width of x, and where its rows begin in the box. Gives the strange lanes of all sums.
    """
    (channels, plane, rows, out_width, cells, pitch, width, apart), (first, last, adds) = sizes, share
    box, places, taps = address(room), address(lists), lists.shape[1]
    job, channel, strange = first, first % channels, 0
    clear(box, cells)
    while job < last:
        fill_rows(box, later(address(x), job * plane), width, apart, address(ins), len(ins))
        strange |= sum_rows(
            later(address(y), job * rows * out_width), box, rows, out_width, pitch, places, later(places, taps), taps // 3,
            later(address(w), channel * taps), address(bias)[channel], adds,
        )  # fmt: skip
        job, channel = job + 1, channel + 1 if channel + 1 < channels else 0
    alive(room)
    return strange
