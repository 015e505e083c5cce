"""The weight gradient of windows of one cell, as a product of matrices: when that may be done, and how threads share it.

The kernel is in `products.py`. Threads share panels of columns, or tiles of rows where there are fewer than MANY panels.
"""

from __future__ import annotations

import numpy as np

from windowgrad.kernels.conv.plan import Array, panel
from windowgrad.kernels.conv.pointwise.products import TURNED, by_pixels
from windowgrad.kernels.conv.shapes import Pass, Way
from windowgrad.kernels.conv.share import room, shared
from windowgrad.kernels.vector.registers import ROWS, WIDE_BYTES

SMALL = 128
"""Cells of a plane: gradients of the weight that sum over many smaller ones are better summed over all of them at once."""
MANY = 8
"""Panels that are enough to share them rather than rows."""


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


POINTWISE_WEIGHT = Way("pointwise_weight", may_multiply_pixels, multiply_pixels, sums_long_rows)
