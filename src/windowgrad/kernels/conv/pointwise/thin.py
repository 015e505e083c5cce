"""The forward pass and the input gradient of windows of one cell, of very few rows: a memory-bound sum.

Computes what `gemm/products.py` does, to the bit: y[image, row, pixel] = bias[row] + the sum over channels of w[row, channel] ·
x[image, channel, pixel].

Chosen where `pointwise/ways.py: may_sum_thin` holds and rows are one or few (`is_thin`). A panel of `products.py` reads
VECTORS vectors of every channel, which are a plane apart, and waits for each of them; here channels are read one after the
other, so that memory is read as it follows.

How it is blocked: a strip is a part of a plane. Its sums stay in the nearest cache, and CHANNELS channels at a time are added
to them (`vector/strips.py: add_rows`), for one row after the other. After at most STEPS channels, as in `products.py`, the
sums are put into y or added there.

Threads share strips. No sum depends on how planes are cut.
"""

from __future__ import annotations

from typing import Any

from windowgrad.kernels.conv.records import Range
from windowgrad.kernels.conv.share import part_begin
from windowgrad.kernels.runtime.jit import helper, kernel
from windowgrad.kernels.vector.masked import Put, interval, put_part
from windowgrad.kernels.vector.ops import address, later
from windowgrad.kernels.vector.registers import least_of, most_of, wide_lanes, zero_of
from windowgrad.kernels.vector.strips import CHANNELS, add_row, add_rows
from windowgrad.kernels.vector.tiles import Factor, Matrix


@helper
def add_channels(x: Matrix, w: Factor, rows: int, channels: Range, cells: int, sums: Matrix) -> None:
    """The products of these channels, of so many cells from x on, for all rows; sums begin with 0."""
    c = channels.first
    while c < channels.last:
        fresh, many = int(c == channels.first), c + CHANNELS <= channels.last
        for r in range(rows):
            to, factor = later(sums.cells, r * sums.step), later(w.cells, r * w.row + c * w.step)
            planes = Matrix(later(x.cells, c * x.step), x.step)
            if many:
                add_rows(to, fresh, factor, w.step, planes, cells)
            else:
                add_row(to, fresh, factor, w.step, planes, cells)
        c += CHANNELS if many else 1


@kernel
def thin_products(
    x: Any, w: Any, y: Any, bias: Any, room: Any, sizes: Any, strips: Any, share: Any, first: int, last: int
) -> int:
    """Some parts of the pass; gives the strange lanes of all sums.

    `sizes`: planes of y for each row, rows and channels, and pixels of a plane; `strips`: how many a plane has, how many pixels
    the longest has, in vectors, channels at a time, and how far rows and channels are apart in the weight; `share`: the parts
    that the strips of all planes are cut into, and how many cells of the room each part has.
    """
    (planes, rows, channels, plane), (number, pitch, some_channels, per_row, per_channel), (parts, own) = sizes, strips, share
    lanes, strange = wide_lanes(y), 0
    sums, weight = Matrix(later(address(room), first * own), pitch), Factor(address(w), per_row, per_channel)
    low, high, none = least_of(y), most_of(y), zero_of(y)
    for unit in range(part_begin(planes * number, parts, first), part_begin(planes * number, parts, last)):
        strip, image = unit % number, unit // number
        some = Range(plane * strip // number, plane * (strip + 1) // number)
        cells = Matrix(later(address(x), image * channels * plane + some.first), plane)
        for c in range(0, channels, some_channels):
            end, seen = min(channels, c + some_channels), 0
            add_channels(cells, weight, rows, Range(c, end), some.last - some.first, sums)
            for r in range(rows):
                to = later(address(y), (image * rows + r) * plane + some.first)
                how = Put(address(bias)[r] if c == 0 else none, c == 0, to, False, low, high)
                for i in range(0, some.last - some.first, lanes):
                    bits = interval(0, min(lanes, some.last - some.first - i))
                    seen |= put_part(later(to, i), later(sums.cells, r * pitch + i), how, bits)
            if end == channels:
                strange |= seen
    return strange
