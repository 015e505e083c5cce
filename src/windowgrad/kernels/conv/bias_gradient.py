"""The gradient of the bias: the sum of each channel, in float64 and in an order that the shape alone decides.

Chosen for every bias that needs its gradient (`conv_vjp` in `entry.py`). Threads share channels; a channel is summed over its
images with four vectors, which are added at the end, lane by lane.

Measured and rejected: NumPy's sum in float64, which took a quarter of a depthwise backward pass.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from windowgrad.kernels.arrays import Array, writeable
from windowgrad.kernels.runtime.jit import kernel
from windowgrad.kernels.runtime.threads import over
from windowgrad.kernels.vector.ops import address, alive, lanes, later, load_as, load_part_as, splat, store
from windowgrad.kernels.vector.types import BYTES


@kernel
def sum_channels(g: Any, totals: Any, room: Any, images: int, plane: int, first: int, last: int) -> None:
    """totals[channel] = the sum of its planes of g, for a share of the channels.

    Sums are of the dtype of the room, which has a vector for each channel.
    """
    channels, n, channel = len(totals), lanes(room), first
    sums = later(address(room), first * n)
    while channel < last:
        a = splat(room, 0)
        b, c, d, image = a, a, a, 0
        while image < images:
            cells, i = later(address(g), (image * channels + channel) * plane), 0
            while i + 4 * n <= plane:
                a, b = a + load_as(cells, i, room), b + load_as(cells, i + n, room)
                c, d = c + load_as(cells, i + 2 * n, room), d + load_as(cells, i + 3 * n, room)
                i += 4 * n
            while i < plane:
                a = a + load_part_as(cells, i, min(n, plane - i), room)
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
    return summing(g.shape, axis, np.float64)(writeable(np.ascontiguousarray(g, dtype=held).reshape(-1)))


def summing(shape: tuple[int, ...], axis: int, dtype: Any) -> Callable[[Array], Array]:
    """The same in this dtype, as a function of the flat cells of an array of this shape."""
    channels, images, plane = shape[axis], math.prod(shape[:axis]), math.prod(shape[axis + 1 :])

    def sums(cells: Array) -> Array:
        totals, space = np.empty(channels, dtype), np.empty(channels * BYTES // 8)  # in float64
        over(sum_channels, (cells, totals, space, images, plane), channels, cells.nbytes)
        return totals

    return sums
