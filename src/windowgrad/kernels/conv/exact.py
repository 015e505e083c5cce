"""Convolution product by product, each rounded: for what the other kernels do not compute.

Adds all products to the output, the input gradient or the weight gradient, by its role. A padded cell has no product here, not
even a zero. Chosen by `conv/entry.py`, not by `WAYS`: for integers, for geometries that `plan.is_regular` refuses, and where a
padded cell would meet an infinite weight or NaN.

Not blocked: for each pair of planes and each tap, rows of cells. Along an axis, tap t meets a real cell from output `low[t]`
to `high[t]`, the first of them at `cell[t]`; the tables of all axes stand one after the other.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from windowgrad.kernels.runtime.jit import helper, kernel
from windowgrad.kernels.vector.ops import address, later

FORWARD, INPUT, WEIGHT = 0, 1, 2
"""What is computed: the output, the gradient of the input, or that of the weight."""


class Arrays(NamedTuple):
    """The three arrays of a convolution; one of them is added to."""

    x: Any
    w: Any
    y: Any


class Tables(NamedTuple):
    """The geometry: shapes of a plane of x and of y, the window and its steps, and for each tap low, high and cell."""

    size: Any
    grid: Any
    kernel: Any
    step: Any
    low: Any
    high: Any
    cell: Any


@helper
def along(role: int, of: Arrays, step: int, count: int) -> None:
    """The products of one weight with a row of cells."""
    if role == FORWARD:
        for n in range(count):
            of.y[n] += of.w[0] * of.x[n * step]
    elif role == INPUT:
        for n in range(count):
            of.x[n * step] += of.w[0] * of.y[n]
    else:
        total = of.w[0]
        for n in range(count):
            total += of.y[n] * of.x[n * step]
        of.w[0] = total


@helper
def planes(role: int, of: Arrays, tables: Tables, place: Any, entry: Any) -> None:
    """All products of one plane of the input and one of the output. `place` and `entry` have space for a number per axis."""
    size, grid, kernel, step, low, high, cell = tables
    rank = len(size)
    taps = 1
    for n in kernel:
        taps *= n
    for t in range(taps):
        rest, before, real = t, len(low), True
        for axis in range(rank - 1, -1, -1):
            before -= kernel[axis]
            entry[axis] = before + rest % kernel[axis]
            rest //= kernel[axis]
            place[axis] = low[entry[axis]]
            real = real and low[entry[axis]] < high[entry[axis]]
        while real:
            i, k = 0, 0
            for axis in range(rank):
                e = entry[axis]
                i = i * size[axis] + cell[e] + (place[axis] - low[e]) * step[axis]
                k = k * grid[axis] + place[axis]
            last = entry[rank - 1]
            row = Arrays(later(of.x, i), later(of.w, t), later(of.y, k))
            along(role, row, step[rank - 1], high[last] - low[last])
            axis = rank - 2
            while axis >= 0:
                place[axis] += 1
                if place[axis] < high[entry[axis]]:
                    break
                place[axis] = low[entry[axis]]
                axis -= 1
            real = axis >= 0


@kernel
def every_product(role: int, x: Any, w: Any, y: Any, sizes: Any, tables: Any, first: int, last: int) -> None:
    """Adds all products to what `role` computes, for its planes `first` to `last`.

    Planes are those of the output, of the input, or the pairs of channels of the weight. `sizes`: images, groups, and the
    output and input channels of a group; `tables` as in `Tables`.
    """
    (images, groups, outs, ins), all_tables = sizes, Tables(*tables)
    rank = len(all_tables.size)
    place, entry = np.zeros(rank, np.int64), np.zeros(rank, np.int64)
    x_plane, y_plane, taps = 1, 1, 1
    for axis in range(rank):
        x_plane, y_plane = x_plane * all_tables.size[axis], y_plane * all_tables.grid[axis]
        taps *= all_tables.kernel[axis]
    for job in range(first, last):
        if role == FORWARD:
            image, o, c, many = job // (groups * outs), job % (groups * outs), 0, ins
        elif role == INPUT:
            image, c, many = job // (groups * ins), job % ins, outs
            o = job // ins % groups * outs
        else:
            image, o, c, many = 0, job // ins, job % ins, images
        for _ in range(many):
            group = o // outs
            x_at = ((image * groups + group) * ins + c) * x_plane
            y_at = (image * groups * outs + o) * y_plane
            pair = Arrays(later(address(x), x_at), later(address(w), (o * ins + c) * taps), later(address(y), y_at))
            planes(role, pair, all_tables, place, entry)
            if role == FORWARD:
                c += 1
            elif role == INPUT:
                o += 1
            else:
                image += 1
