"""Convolution product by product: for integers, for numbers that are not finite, and for geometries beyond machine integers.

A padded cell has no product here, not even a zero. Along an axis, tap t meets a real cell from output `low[t]` to
`high[t]`, the first of them at `cell[t]`; the tables of all axes stand one after the other.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from windowgrad.kernels.runtime.jit import helper, kernel

FORWARD, INPUT, WEIGHT = 0, 1, 2
"""What is computed: the output, the gradient of the input, or that of the weight."""


@helper
def along(role: int, x: Any, i: int, step: int, w: Any, j: int, y: Any, k: int, count: int) -> None:
    """The products of one weight with a row of cells."""
    if role == FORWARD:
        for n in range(count):
            y[k + n] += w[j] * x[i + n * step]
    elif role == INPUT:
        for n in range(count):
            x[i + n * step] += w[j] * y[k + n]
    else:
        total = w[j]
        for n in range(count):
            total += y[k + n] * x[i + n * step]
        w[j] = total


@helper
def planes(
    role: int, x: Any, x_at: int, w: Any, w_at: int, y: Any, y_at: int, size: Any, grid: Any, kernel: Any, step: Any, low: Any,
    high: Any, cell: Any, place: Any, entry: Any,
) -> None:  # fmt: skip
    """All products of one plane of the input and one of the output."""
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
            along(role, x, x_at + i, step[rank - 1], w, w_at + t, y, y_at + k, high[last] - low[last])
            axis = rank - 2
            while axis >= 0:
                place[axis] += 1
                if place[axis] < high[entry[axis]]:
                    break
                place[axis] = low[entry[axis]]
                axis -= 1
            real = axis >= 0


@kernel
def every_product(
    role: int, x: Any, w: Any, y: Any, sizes: Any, tables: Any, first: int, last: int,
) -> None:  # fmt: skip
    """Adds all products to what `role` computes, for its planes `first` to `last`.

    Planes are those of the output, of the input, or the pairs of channels of the weight.
    """
    (images, groups, outs, ins), (size, grid, kernel, step, low, high, cell) = sizes, tables
    place, entry = np.zeros(len(size), np.int64), np.zeros(len(size), np.int64)
    x_plane, y_plane, taps = 1, 1, 1
    for axis in range(len(size)):
        x_plane, y_plane, taps = x_plane * size[axis], y_plane * grid[axis], taps * kernel[axis]
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
            planes(
                role, x, x_at, w, (o * ins + c) * taps, y, y_at, size, grid, kernel, step, low, high, cell, place, entry
            )  # fmt: skip
            if role == FORWARD:
                c += 1
            elif role == INPUT:
                o += 1
            else:
                image += 1
