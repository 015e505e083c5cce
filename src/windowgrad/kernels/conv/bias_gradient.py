"""The gradient of the bias: the sum of each channel, in float64 and in an order that the shape alone decides.

Chosen for every bias that needs its gradient (`conv_vjp` in `entry.py`). Threads share channels; a channel is summed over its
images with four vectors, which are added at the end, lane by lane.

Measured and rejected: NumPy's sum in float64, which took a quarter of a depthwise backward pass.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from windowgrad.kernels.arrays import Array, writeable
from windowgrad.kernels.runtime.jit import kernel
from windowgrad.kernels.runtime.threads import over
from windowgrad.kernels.vector.ops import address, alive, lanes, later, load_as, load_part_as, splat, store
from windowgrad.kernels.vector.types import BYTES


@kernel
def sum_channels(g: Any, totals: Any, room: Any, images: int, plane: int, first: int, last: int) -> None:
    """totals[channel] = the sum of its planes of g, for a share of the channels; the room has a vector for each channel."""
    channels, n, channel = len(totals), lanes(totals), first
    sums = later(address(room), first * n)
    while channel < last:
        a = splat(totals, 0)
        b, c, d, image = a, a, a, 0
        while image < images:
            cells, i = later(address(g), (image * channels + channel) * plane), 0
            while i + 4 * n <= plane:
                a, b = a + load_as(cells, i, totals), b + load_as(cells, i + n, totals)
                c, d = c + load_as(cells, i + 2 * n, totals), d + load_as(cells, i + 3 * n, totals)
                i += 4 * n
            while i < plane:
                a = a + load_part_as(cells, i, min(n, plane - i), totals)
                i += n
            image += 1
        store(sums, 0, (a + b) + (c + d))
        total, lane = sums[0], 1
        while lane < n:
            total += sums[lane]
            lane += 1
        totals[channel] = total
        channel += 1
    alive(room)


def channel_sums(g: Array, axis: int) -> Array:
    """The sum of g over all axes but one. Its order is that of the cells, whatever their layout in memory."""
    held = np.float32 if g.dtype == np.float32 or g.dtype.itemsize <= 2 else np.float64
    totals, cells = np.empty(g.shape[axis], np.float64), writeable(np.ascontiguousarray(g, dtype=held).reshape(-1))
    images, plane = math.prod(g.shape[:axis]), math.prod(g.shape[axis + 1 :])
    sums = np.empty(len(totals) * BYTES // totals.itemsize)
    over(sum_channels, (cells, totals, sums, images, plane), len(totals), cells.nbytes)
    return totals
