"""Windows three cells high, of each channel by itself, that move one row at a time: four rows of outputs share their loads.

Computes y[image, channel] = bias[channel] + the sum over taps of w[channel, tap] · x, the forward pass or the input gradient.

Chosen before `shifted`, where `depthwise/ways.py: may_sum_three` holds: two axes, a box (`depthwise/boxes.py`), one phase, and
taps in three rows of any width that follow each other in the box.

How it is blocked: HIGH rows of outputs, a vector wide, stay in registers. Each of the six rows of the box that they meet is
loaded once for each column of taps, and used by up to three of the four:

    row of the box      r   r+1   r+2   r+3   r+4   r+5
    output row r        h    m     l                         h, m, l: the weight of the high, middle and low row of taps
               r+1           h     m     l
               r+2                 h     m     l             12 products for 6 loads, where `shifted` takes 12 loads
               r+3                       h     m     l
"""

from __future__ import annotations

from typing import Any, NamedTuple

from windowgrad.kernels.conv.depthwise.shifted import Taps, clear, copy_cells, put
from windowgrad.kernels.conv.records import Limits
from windowgrad.kernels.conv.share import part_begin
from windowgrad.kernels.runtime.jit import helper, kernel
from windowgrad.kernels.vector.masked import interval, load_some
from windowgrad.kernels.vector.ops import address, fma, later, splat
from windowgrad.kernels.vector.registers import load_wide, wide_lanes

HIGH = 4
"""Rows of outputs at a time."""


class Plane(NamedTuple):
    """A plane in rows that follow each other without gaps."""

    cells: Any
    rows: int
    width: int


class Box(NamedTuple):
    """The box of a plane of x: its rows are `pitch` apart. Pairs `ins` say where each row of x goes, `apart` further on."""

    cells: Any
    pitch: int
    ins: Any
    rows: int
    width: int
    apart: int


@helper
def put_four(y: Any, width: int, rows: int, sums: Any, extra: Any, limits: Limits, adds: bool, bits: int) -> Any:
    """The first so many of four vectors, one in each row of y; says as `put_value` which are strange."""
    a, b, c, d = sums
    strange = put(y, 0, a, extra, limits, adds, bits)
    if rows > 1:
        strange |= put(y, width, b, extra, limits, adds, bits)
    if rows > 2:
        strange |= put(y, 2 * width, c, extra, limits, adds, bits)
    if rows > 3:
        strange |= put(y, 3 * width, d, extra, limits, adds, bits)
    return strange


@helper
def sum_rows(y: Plane, box: Box, taps: Taps, w: Any, extra: Any, limits: Limits, adds: bool) -> Any:
    """A plane of y from its box. `places` of the taps are those of the first row, `in_weight` those of all three."""
    n, zero, strange, r, pitch = wide_lanes(w), load_some(w, 0, 0), 0, 0, box.pitch
    while r < y.rows:
        i = 0
        while i < y.width:
            a, b, c, d, t = zero, zero, zero, zero, 0
            while t < taps.number:
                here = later(box.cells, r * pitch + i + taps.places[t])
                high, middle, low = (
                    splat(zero, w[taps.in_weight[t]]),
                    splat(zero, w[taps.in_weight[t + taps.number]]),
                    splat(zero, w[taps.in_weight[t + 2 * taps.number]]),
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
            bits, to = interval(0, min(n, y.width - i)), later(y.cells, r * y.width + i)
            strange |= put_four(to, y.width, y.rows - r, (a, b, c, d), extra, limits, adds, bits)
            i += n
        r += HIGH
    return strange


@helper
def fill_rows(box: Box, x: Any) -> None:
    """A plane of x into its box, where no cells lie apart."""
    r = 0
    while r < 2 * box.rows:
        copy_cells(later(box.cells, box.ins[r + 1] + box.apart), later(x, box.ins[r]), box.width)
        r += 2


@kernel
def three_rows(
    x: Any,
    w: Any,
    y: Any,
    bias: Any,
    limits: Any,
    room: Any,
    ins: Any,
    lists: Any,
    sizes: Any,
    share: Any,
    first: int,
    last: int,
) -> int:
    """Some parts of the planes of all images; gives the strange lanes of all sums.

    `limits` as in `Limits`; `ins` and `lists` as in `Planes`; `sizes`: channels, cells of a plane of x, rows and width of y,
    cells and pitch of the box, width of x, and where its rows begin in the box; `share`: all planes, the parts that they are
    cut into, and whether to add to what y has. The room has a box for each part.
    """
    (channels, plane, rows, out_width, cells, pitch, width, apart), (planes, parts, adds) = sizes, share
    box, every = Box(later(address(room), first * cells), pitch, address(ins), len(ins), width, apart), lists.shape[1]
    taps = Taps(address(lists), later(address(lists), every), every // 3)
    job, end, strange = part_begin(planes, parts, first), part_begin(planes, parts, last), 0
    channel = job % channels
    clear(box.cells, cells)
    ends = Limits(address(limits)[0], address(limits)[1])
    while job < end:
        fill_rows(box, later(address(x), job * plane))
        to, weight = Plane(later(address(y), job * rows * out_width), rows, out_width), later(address(w), channel * every)
        strange |= sum_rows(to, box, taps, weight, address(bias)[channel], ends, adds)
        job, channel = job + 1, channel + 1 if channel + 1 < channels else 0
    return strange
