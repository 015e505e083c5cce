"""Convolution by kernels of one cell, as products of matrices: where that can be done, and how threads share it."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from operator import or_
from typing import Any

from windowgrad.geometry import Sliding
from windowgrad.kernels.conv_plan import Array, Shape, panel, room
from windowgrad.kernels.conv_pointwise import STEPS, by_columns, by_pixels, by_rows
from windowgrad.kernels.microkernel import BYTES, ROWS
from windowgrad.kernels.threads import run

SMALL = 128
"""Cells of a plane: gradients of the weight that sum over many smaller ones are better summed over all of them at once."""
MANY = 8
"""Panels that are enough to share them rather than rows."""

Kernel = Callable[..., Any]


def is_pointwise(window: Sliding, groups: int) -> bool:
    """Whether every output is the product of the weight with the channels of the cell where it stands."""
    return groups == 1 and {1}.issuperset((*window.kernel, *window.stride)) and not any(map(any, window.padding))


def fits(rows: int, columns: int, itemsize: int) -> bool:
    """Whether tiles, the last of which may overlap others, cover so many rows and columns."""
    return rows >= ROWS and (columns >= panel(itemsize) or columns % (BYTES // itemsize) == 0)


def multiply(kernel: Kernel, a: Array, b: Array, y: Array, bias: Array, adds: bool, sizes: Shape, work: int) -> int:
    """y = the product of a and b by one of the kernels, whose `sizes` are images, rows, k and columns; gives strange lanes."""
    _, rows, k, columns = sizes
    tiles, length, strange = -(-rows // ROWS), panel(y.itemsize), [0]
    panels = -(-columns // length)
    by_panels = panels >= MANY
    cells = min(k, STEPS) * length + BYTES if kernel is by_pixels else k + 4 * BYTES

    def task(first: int, last: int) -> None:
        share = (0, tiles, first, last, int(adds)) if by_panels else (first, last, 0, panels, int(adds))
        strange.append(kernel(a, b, y, bias, room.get(cells, y.dtype, 0)[0], sizes, share))

    run(task, panels if by_panels else tiles, work)
    return reduce(or_, strange)


__all__ = ["by_columns", "by_pixels", "by_rows", "fits", "is_pointwise", "multiply"]
