"""Windows of one cell, as products of matrices: when that may be done, and how threads share it.

The kernel of the weight gradient is in `products.py`; threads share panels of columns, or tiles of rows where there are fewer
than MANY panels. That of the forward pass and the input gradient, for very few rows, is in `thin.py`; threads share strips.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from windowgrad.kernels.conv.gemm.ways import keep_packed, multiply, up_to
from windowgrad.kernels.conv.plan import Array, panel, steps
from windowgrad.kernels.conv.pointwise.products import TURNED, by_pixels
from windowgrad.kernels.conv.pointwise.thin import thin_products
from windowgrad.kernels.conv.shapes import JOINED, Compute, Pass, Way
from windowgrad.kernels.conv.share import by_threads, helpers, parts_for, room, shared, sharing
from windowgrad.kernels.vector.registers import ROWS, WIDE_BYTES

SMALL = 128
"""Cells of a plane: gradients of the weight that sum over many smaller ones are better summed over all of them at once."""
MANY = 8
"""Panels that are enough to share them rather than rows."""
FEW_ROWS, FEW_PIXELS = 3, 256
"""Of `thin_products`: planes of so few pixels, of which panels have parts of two images, may have more than one row, too. One
row takes 0.3 to 0.7 of the time of `products`, on 14×14 pixels three 0.6 to 0.9, on 56×56 1.1 to 1.3."""
STRIP, STRIPS, LEAST_STRIP = 2048, 4, 128
"""Pixels of a strip, at the most; strips of all images, for threads to share, if that leaves so many pixels to each."""


# --- when --------------------------------------------------------------------------------------------------------


def is_pointwise(one: Pass) -> bool:
    """Whether pixel p of each row is the sum over the channels of w · (cell p of the channel), and planes are of one shape.

    There is one group, and the window has one cell, moves by one and is not padded. That the planes of x and y have the same
    shape does not follow: a dilation means nothing to a window of one cell, but it lets the output of a transposed
    convolution be larger than its input (`output_padding`).
    """
    window = one.window
    still = {1}.issuperset((*window.kernel, *window.stride)) and not any(map(any, window.padding))
    return still and one.groups == 1 and one.size == one.grid


def fits(rows: int, columns: int, itemsize: int) -> bool:
    """Whether tiles that begin inside a matrix of so many rows and columns, the last ones overlapping others, end inside it.

    A tile has ROWS rows and up to a panel of columns, in whole vectors. Of rows there must be ROWS. The columns after the
    last whole panel are rounded up to vectors by going back, so there must be a panel before them, or nothing to round.
    """
    return rows >= ROWS and (columns >= panel(itemsize) or columns % (WIDE_BYTES // itemsize) == 0)


def may_multiply_pixels(one: Pass, itemsize: int) -> bool:
    """`by_pixels`: a window of one cell, and tiles that cover the weight (see `is_pointwise`, `fits`)."""
    return is_pointwise(one) and fits(one.rows, one.channels, itemsize)


def may_sum_thin(one: Pass, itemsize: int) -> bool:
    """`thin_products`: a window of one cell (see `is_pointwise`)."""
    return is_pointwise(one)


def is_thin(one: Pass) -> bool:
    return one.rows == 1 or (one.rows <= FEW_ROWS and one.pixels <= FEW_PIXELS)


def sums_long_rows(one: Pass) -> bool:
    return one.images == 1 or one.pixels > SMALL


# --- how ---------------------------------------------------------------------------------------------------------


def multiply_pixels(one: Pass, x: Array, g: Array, bias: Array, gw: Array, adds: bool) -> int:
    tiles, length = -(-one.rows // ROWS), panel(gw.itemsize)
    panels = -(-one.channels // length)
    by_panels, none = panels >= MANY, np.zeros(one.rows, gw.dtype)
    cells, sizes = min(one.pixels, TURNED) * length + WIDE_BYTES, (one.images, one.rows, one.pixels, one.channels)

    def task(first: int, last: int) -> int:
        share = (0, tiles, first, last) if by_panels else (first, last, 0, panels)
        return int(by_pixels(g, x, gw, none, room.get(cells, gw.dtype)[0], sizes, share))

    return shared(task, panels if by_panels else tiles, one.work)


class ThinPlan(NamedTuple):
    """Cells of all parts, and what `thin_products` is told."""

    cells: int
    told: tuple[tuple[int, ...], tuple[int, ...], tuple[int, int]]


def strips(one: Pass) -> int:
    """Of a plane."""
    return max(-(-one.pixels // STRIP), min(-(-STRIPS // one.images), one.pixels // LEAST_STRIP))


@lru_cache(maxsize=512)
def thin_plan(one: Pass, itemsize: int, count: int, some_channels: int) -> ThinPlan:
    number, sizes = strips(one), (one.images, one.rows, one.channels, one.pixels)
    pitch = up_to(-(-one.pixels // number), WIDE_BYTES // itemsize)
    some = number, pitch, some_channels, *one.weight[1:]
    return ThinPlan(count * one.rows * pitch, (sizes, some, (count, one.rows * pitch)))


def sum_thin(one: Pass, x: Array, w: Array, bias: Array, y: Array, adds: bool) -> int:
    if adds:
        return multiply(one, x, w, bias, y, adds)
    return ready_thin(one, y.dtype, helpers(bytes_of(one, y.itemsize)))(x, w, bias, y)


def bytes_of(one: Pass, itemsize: int) -> int:
    """For the choice of threads: reading x takes longer than the products."""
    return max(one.work, itemsize * one.images * one.channels * one.pixels)


def ready_to_sum_thin(one: Pass, dtype: Any) -> Compute:
    return by_threads(bytes_of(one, dtype.itemsize), lambda threads: ready_thin(one, dtype, threads))


def ready_thin(one: Pass, dtype: Any, threads: int) -> Compute:
    """`thin_products` of fresh sums on so many threads."""
    count = parts_for(one.images * strips(one), threads)
    cells, told = thin_plan(one, dtype.itemsize, count, steps(one.channels, 1)[0])
    start = sharing(thin_products, count, threads)

    def call(x: Array, w: Array, bias: Array, y: Array) -> int:
        return start(x, w, y, bias, room.get(cells, dtype)[0], *told)

    return call


THIN = Way("thin", may_sum_thin, sum_thin, is_thin, ready_to_sum_thin, JOINED, keep_packed)
POINTWISE_WEIGHT = Way("pointwise_weight", may_multiply_pixels, multiply_pixels, sums_long_rows)
