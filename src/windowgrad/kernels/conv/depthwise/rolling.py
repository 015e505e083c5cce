"""Windows of 3×3, 5×5 and 7×7 cells, of each channel by itself, that move one or two cells at a time, on planes as they stand.

Computes y[image, channel] = bias[channel] + the sum over taps of w[channel, tap] · x, the forward pass or the input gradient.

Chosen where `rolling_ways.py: may_roll` holds: two axes, one of these windows, no dilation; with a stride of 2 the forward
pass only. Planes that are so narrow that they fill few lanes are left to `lanes.py`, which adds in the same order.

How it is blocked: a plane is cut into strips of rows that stay in the nearest cache, and a strip into blocks of columns, a
vector wide; the last block is half as wide where that is enough. The window moves down a block row by row, and each row of x
is loaded once for all rows of taps (`vector/window_rows.py`). There is no box: rows of taps in the padding are left out,
columns are masked, and masks are told once for a block (`blocks`).

    x, 14 wide, and the masks of the three columns of taps       0 1 2 3 4 5 6 7 8 9 a b c d
                                                               . # # # # # # # # # # # # #
                                                                 # # # # # # # # # # # # # #
                                                                   # # # # # # # # # # # # # .

Measured and rejected: `three_rows`, which copies planes into boxes and loads a row for four rows of outputs.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from windowgrad.kernels.conv.plan import Array
from windowgrad.kernels.conv.shapes import Pass
from windowgrad.kernels.conv.share import part_begin
from windowgrad.kernels.runtime.jit import kernel
from windowgrad.kernels.vector.ops import address, later
from windowgrad.kernels.vector.registers import WIDE_BYTES
from windowgrad.kernels.vector.window_rows import Ends, Rows, rolled_by

STRIP = 1 << 14
"""Bytes of the rows of x that a strip meets, about."""
FEW, TALL = 8, 4
"""So many strips are enough for several threads; a strip is at least so many times as high as a window, since neighbouring ones
both meet the rows between them."""


def _rolling(size: int, stride: int) -> Any:
    """The kernel of a window of size × size."""
    roll, roll_half = rolled_by(size, stride, 1), rolled_by(size, stride, 2)

    @kernel
    def rolling(
        x: Any, w: Any, y: Any, bias: Any, limits: Any, columns: Any, sizes: Any, share: Any, first: int, last: int
    ) -> int:
        """Some parts of the strips of all planes; gives the strange lanes of all sums.

        `limits` as in `Limits`; `columns`: as in `blocks`; `sizes`: channels, rows and width of x, the row of x that the first
        output meets first, rows and width of y, strips of a plane, and how many of the blocks are whole vectors; `share`: all
        strips, the parts that they are cut into, and whether (1 or 0) to add to what y has.
        """
        (channels, height, width, top, out_rows, out_width, cut, whole), (units, parts, adds) = sizes, share
        unit, end, strange = part_begin(units, parts, first), part_begin(units, parts, last), 0
        least, most = address(limits)[0], address(limits)[1]
        while unit < end:
            job = unit // cut
            strip, channel, number = unit - job * cut, job % channels, 0
            rows = Rows(height, width, top, out_width, out_rows * strip // cut, out_rows * (strip + 1) // cut)
            ends = Ends(address(bias)[channel], adds, least, most)
            to, cells = later(address(y), job * out_rows * out_width), later(address(x), job * height * width)
            taps = later(address(w), channel * size * size)
            while number < len(columns):
                block = later(address(columns), number * columns.shape[1])
                if number < whole:
                    strange |= roll(to, cells, taps, rows, ends, block)
                else:
                    strange |= roll_half(to, cells, taps, rows, ends, block)
                number += 1
            unit += 1
        return strange

    return rolling


ROLLING = {(size, stride): _rolling(size, stride) for size in (3, 5, 7) for stride in (1, 2)}
"""By the size of the window and its stride."""


@lru_cache(maxsize=512)
def blocks(one: Pass, itemsize: int) -> Array:
    """For each block of columns: where it begins in a row of x and of y, and bits: of y, then of each load."""
    (size, *_), (stride, *_), found = one.window.kernel, one.window.stride, []
    lanes, width = WIDE_BYTES // itemsize, one.size[-1]
    for place in range(0, one.grid[-1], lanes):
        outs = min(lanes, one.grid[-1] - place)
        wide, column = lanes if 2 * outs > lanes else lanes // 2, place * stride - before(one, 1)
        if stride == 1:
            starts = [column + u for u in range(size)]
        else:
            starts = [column + u + half * wide for u in range(0, size, 2) for half in (0, 1)]
        found.append([column, place, bits(0, outs), *(bits(max(0, -at), min(wide, width - at)) for at in starts)])
    return np.array(found, np.int64)


def bits(low: int, high: int) -> int:
    return (1 << high) - (1 << low) if low < high else 0


def before(one: Pass, axis: int) -> int:
    """The padding before the first cell of x."""
    low = one.window.padding[axis][0]
    return one.window.kernel[axis] - 1 - low if one.back else low


def strips(one: Pass, itemsize: int) -> int:
    """How many strips a plane is cut into."""
    wanted = max(-(-FEW // (one.images * one.groups)), one.cells * itemsize // STRIP)
    return max(1, min(wanted, one.grid[0] // (TALL * one.window.kernel[0])))
