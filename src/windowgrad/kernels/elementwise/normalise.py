"""Batch normalisation: sums over each channel, the normalised cells, and the gradient.

Chosen for floats by `autograd/arrays/normalise.py`. An array is images × channels × plane. Sums are taken in float64, with four
vectors per channel, in an order that the shape alone decides; threads share channels. The cells are then computed plane by
plane in the dtype of the array; threads share planes. So a step forward reads x twice, a step back reads x and g twice.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import numpy as np

from windowgrad.kernels.arrays import flat
from windowgrad.kernels.runtime import buffers
from windowgrad.kernels.runtime.jit import kernel
from windowgrad.kernels.runtime.threads import run
from windowgrad.kernels.vector.ops import (
    address,
    alive,
    fma,
    lanes,
    later,
    load,
    load_as,
    load_part,
    splat,
    store,
    store_part,
)
from windowgrad.kernels.vector.types import BYTES

Array = np.ndarray[Any, Any]


class Extent(NamedTuple):
    """An array seen from one of its axes."""

    images: int
    channels: int
    plane: int

    @classmethod
    def of(cls, shape: tuple[int, ...], axis: int) -> Extent:
        before, after = np.prod(shape[:axis], dtype=int), np.prod(shape[axis + 1 :], dtype=int)
        return cls(int(before), shape[axis], int(after))

    @property
    def cells(self) -> int:
        """The cells of a channel."""
        return self.images * self.plane


@kernel
def sum_pairs(
    g: Any, x: Any, low: Any, middle: Any, totals: Any, room: Any, images: int, plane: int, first: int, last: int
) -> None:
    """Σ (g − low) and Σ (g − low)·(x − middle) of each channel of a share; the room has two vectors per channel."""
    channels, n, channel = len(low), lanes(totals), first
    while channel < last:
        under, centre = splat(totals, low[channel]), splat(totals, middle[channel])
        a = splat(totals, 0)
        b, c, d, image = a, a, a, 0
        while image < images:
            start, i = (image * channels + channel) * plane, 0
            gs, xs = later(address(g), start), later(address(x), start)
            while i + 2 * n <= plane:
                one, two = load_as(gs, i, totals) - under, load_as(gs, i + n, totals) - under
                a, b = a + one, b + two
                c = fma(one, load_as(xs, i, totals) - centre, c)
                d = fma(two, load_as(xs, i + n, totals) - centre, d)
                i += 2 * n
            while i + n <= plane:
                one = load_as(gs, i, totals) - under
                a, c = a + one, fma(one, load_as(xs, i, totals) - centre, c)
                i += n
            while i < plane:
                one = g[start + i] - low[channel]
                totals[2 * channel] += one
                totals[2 * channel + 1] += one * (x[start + i] - middle[channel])
                i += 1
            image += 1
        sums = later(address(room), 2 * n * channel)
        store(sums, 0, a + b)
        store(sums, n, c + d)
        lane = 0
        while lane < n:
            totals[2 * channel] += sums[lane]
            totals[2 * channel + 1] += sums[n + lane]
            lane += 1
        channel += 1
    alive(room)


@kernel
def scale_cells(x: Any, middle: Any, scale: Any, shift: Any, out: Any, plane: int, first: int, last: int) -> None:
    """(x − middle)·scale + shift for a share of the planes, with the numbers of each plane's channel."""
    n, channels, p = lanes(x), len(middle), first
    while p < last:
        channel, i = p % channels, 0
        a, b, c = splat(x, middle[channel]), splat(x, scale[channel]), splat(x, shift[channel])
        cells, target = later(address(x), p * plane), later(address(out), p * plane)
        while i + n <= plane:
            store(target, i, fma(load(cells, i) - a, b, c))
            i += n
        if i < plane:
            store_part(target, i, fma(load_part(cells, i, plane - i, a) - a, b, c), plane - i)
        p += 1


@kernel
def pull_cells(
    g: Any, x: Any, low: Any, middle: Any, slope: Any, scale: Any, out: Any, plane: int, first: int, last: int
) -> None:
    """((g − low) − (x − middle)·slope)·scale for a share of the planes."""
    n, channels, p = lanes(x), len(middle), first
    while p < last:
        channel, i = p % channels, 0
        a, b = splat(x, low[channel]), splat(x, middle[channel])
        c, d = splat(x, -slope[channel]), splat(x, scale[channel])
        gs, xs = later(address(g), p * plane), later(address(x), p * plane)
        target = later(address(out), p * plane)
        while i + n <= plane:
            store(target, i, fma(load(xs, i) - b, c, load(gs, i) - a) * d)
            i += n
        if i < plane:
            rest = plane - i
            cells, back = load_part(xs, i, rest, b), load_part(gs, i, rest, a)
            store_part(target, i, fma(cells - b, c, back - a) * d, rest)
        p += 1


# --- arrays ------------------------------------------------------------------------------------------------------


def pair_sums(g: Array, x: Array, low: Array, middle: Array, extent: Extent) -> tuple[Array, Array]:
    """Σ (g − low) and Σ (g − low)·(x − middle) over each channel, in float64."""
    lanes_of_sums = BYTES // 8
    totals, room = np.zeros(2 * extent.channels), np.empty(2 * lanes_of_sums * extent.channels)
    task = partial(sum_pairs, flat(g), flat(x), low, middle, totals, room, extent.images, extent.plane)
    run(task, extent.channels, g.nbytes + x.nbytes)
    return totals[::2], totals[1::2]


def moments(x: Array, extent: Extent) -> tuple[Array, Array]:
    """The mean and the (biased) variance of each channel, in float64.

    Cells are taken relative to the first of their channel, so a mean that is large against the deviation costs no digits.
    """
    near = x.reshape(extent)[0, :, 0].astype(np.float64)
    near[~np.isfinite(near)] = 0
    first, second = pair_sums(x, x, near, near, extent)
    apart = first / extent.cells
    return near + apart, np.maximum(second / extent.cells - apart * apart, 0)  # NaN stays: maximum keeps it


def scaled(x: Array, middle: Array, scale: Array, shift: Array, extent: Extent) -> Array:
    """(x − middle)·scale + shift, with one number per channel."""
    out = buffers.empty(x.shape, x.dtype)
    numbers = (np.ascontiguousarray(each, x.dtype) for each in (middle, scale, shift))
    task = partial(scale_cells, flat(x), *numbers, out.reshape(-1), extent.plane)
    run(task, extent.images * extent.channels, 2 * x.nbytes)
    return out


def pulled(g: Array, x: Array, low: Array, middle: Array, slope: Array, scale: Array, extent: Extent) -> Array:
    """((g − low) − (x − middle)·slope)·scale, with one number per channel."""
    out = buffers.empty(x.shape, x.dtype)
    numbers = (np.ascontiguousarray(each, x.dtype) for each in (low, middle, slope, scale))
    task = partial(pull_cells, flat(g), flat(x), *numbers, out.reshape(-1), extent.plane)
    run(task, extent.images * extent.channels, 3 * x.nbytes)
    return out
