"""Rows of pixels that meet the same taps, in parts of their own, so that no part multiplies zeros of the padding.

    7 rows of pixels, 3 taps, a padding of 1:    row 0       meets taps 1 and 2      a third of its products is left out
                                                 rows 1 … 5  all taps
                                                 row 6       taps 0 and 1            the same

In a panel of pixels of one image all taps are met by some pixel. Of a batch, the rows of one kind of all images fill panels:
16 images of 512 channels, 3×3 on 7×7, have 0.905 of the products. Rows are cut along the first axis only: pixels of one column
are not in a row of memory.

A sum that leaves out zeros has the same bits, but for the sign of a zero, and results that are zero are reviewed
(`conv/entry.py`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

from windowgrad.kernels.conv import plan
from windowgrad.kernels.conv.gemm.box import box_copies, box_of, box_pixels, is_boxed
from windowgrad.kernels.conv.gemm.times import half, loop_time, pack_time, tile_time
from windowgrad.kernels.conv.plan import Gather, rows_of
from windowgrad.kernels.conv.shapes import Pass
from windowgrad.kernels.vector.registers import ROWS, VECTORS

CALL, WORTH = 30000, 0.98
"""Cycles of all threads that a part of the rows of pixels takes besides its products, and the part of the time of all rows at
once that parts must take less than."""
MOST_EDGES = 16
"""Windows of more rows are not cut: each pair of edges is tried."""


def edges(gather: Gather) -> list[int]:
    """The rows, but the first, that meet other taps than the row before."""
    grid, size, step, table = gather.own_axes
    taps, n = table.reshape(-1, len(grid))[:, 0], int(grid[0])
    found = {*(-(taps // step[0])).tolist(), *((size[0] - 1 - taps) // step[0] + 1).tolist()}
    return sorted(row for row in found if 0 < row < n)


def cut(gather: Gather, time: Callable[[Gather], float]) -> tuple[Gather, ...]:
    """The rows of pixels in the parts that take the least `time` together; all of them, as they are, if that is one."""
    inner = edges(gather) if len(gather.own_axes[0]) > 1 else []
    if not inner or len(inner) > MOST_EDGES:
        return (gather,)
    ends = [0, *inner, int(gather.own_axes[0][0])]
    best: list[tuple[float, tuple[Gather, ...]]] = [(0.0, ())]
    for j, last in enumerate(ends[1:], 1):
        tried = [(best[i], rows_of(gather, ends[i], last)) for i in range(j)]
        best.append(min(((before + time(part), (*parts, part)) for (before, parts), part in tried), key=lambda each: each[0]))
    return best[-1][1] if len(best[-1][1]) > 1 else (gather,)


def packed_time(one: Pass, itemsize: int, gather: Gather) -> float:
    """The cycles of two threads for all that is done with these pixels, if they are packed, and some tap meets them."""
    length, pixels, k = plan.panel(itemsize), one.images * gather.pixels, one.groups * one.channels * len(gather.places)
    if not k:
        return math.inf
    cycles = tile_time(one.rows, pixels, itemsize) + pixels / length * pack_time(gather, length)
    return CALL + k * cycles * larger_half(one, pixels, length) * 2


def larger_half(one: Pass, pixels: int, length: int) -> float:
    """The part of the work that one of two threads has, if they share panels or tiles."""
    panels, tiles = half(-(-pixels // length)) * length / pixels, half(one.groups * -(-one.rows // ROWS)) * ROWS
    return max(0.5, min(panels, tiles / (one.groups * one.rows)))


def whole_time(one: Pass, gather: Gather, itemsize: int) -> float:
    """The same, if they are copied as `layout.copied` says."""
    length, taps = plan.panel(itemsize), len(gather.places)
    box, budget = box_of(gather), plan.PANELS // itemsize // plan.steps(one.channels, taps)[0]
    if not is_boxed(one, gather, box, budget, length):
        return packed_time(one, itemsize, gather)
    panels, copying = box_copies(one, gather, box, budget, length)
    cycles = panels * (loop_time(one.rows, VECTORS) + copying) * larger_half(one, box_pixels(box, one.images), length) * 2
    return CALL + one.groups * one.channels * taps * cycles


def faster_parts(one: Pass, gather: Gather, itemsize: int) -> tuple[Gather, ...]:
    """The parts that all rows of pixels are cut into, if they take less time together than all rows at once; else none."""
    time, limit = partial(packed_time, one, itemsize), WORTH * whole_time(one, gather, itemsize)
    found = cut(gather, time) if limit > 2 * CALL else ()
    return found if len(found) > 1 and sum(map(time, found)) <= limit else ()
