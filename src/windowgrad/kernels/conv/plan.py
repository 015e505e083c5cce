"""A convolution as kernels want it: which cells each pixel meets at each tap, and how the work of conv/gemm is blocked.

A `Gather` is what `conv/pieces.py` lists from: the forward pass has one, the input gradient one for each phase of the stride.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from typing import Any

import numpy as np

from windowgrad.geometry import Sliding
from windowgrad.kernels.vector.registers import VECTORS, WIDE_BYTES

Array = np.ndarray[Any, Any]
Shape = tuple[int, ...]

STEPS = 640
"""How many products a tile sums before it is put into the output: a panel of them stays in the second cache. With 384, 3×3
windows of 64 channels, which need 576, took 1.02 of the time, and 512 channels on 7×7 1.05."""
PIXELS = 384
"""How many products a tile of a weight gradient sums."""
PANELS, WEIGHTS = 1 << 18, 1 << 23
"""Bytes of packed pixels, of which every thread has its own, and of packed weights at a time."""
LARGEST_NUMBER = 1 << 30
"""Geometries with larger numbers are left to the exact kernel, whose tables hold any."""


@dataclass(frozen=True)
class Gather:
    """Pixels of one grid, and what they meet: pixel o at tap t the cell o·step + taps[t]; it stands at origin + o·move.

    `places` says where each tap stands in the weight. Where possible all pixels are one row in `axes` and `out_axes`;
    `own_axes` and `move` tell the axes as they are. `in_order`: pixel o meets cell o only, and stands at o.
    """

    pixels: int
    axes: tuple[Array, Array, Array, Array]
    out_axes: tuple[Array, Array, int]
    places: Array
    own_axes: tuple[Array, Array, Array, Array]
    move: Array
    in_order: bool


def strides(sizes: Shape) -> Shape:
    return tuple(math.prod(sizes[axis + 1 :]) for axis in range(len(sizes)))


def gather(
    grid: Shape,
    size: Shape,
    step: Shape,
    offsets: list[list[int]],
    taps: list[list[int]],
    kernel: Shape,
    move: Shape,
    origin: int,
) -> Gather:
    """`offsets` and `taps`: per axis, where each tap that is met lies, and its index in the kernel."""
    places = [sum(t * s for t, s in zip(chosen, strides(kernel), strict=True)) for chosen in product(*taps)]
    pixels, table = math.prod(grid), list(product(*offsets))
    own = axes_of(grid, size, step, table)
    alike = size == grid and set(step) == {1} and len(table) == 1 and not any(table[0])
    axes = axes_of((pixels,), (pixels,), (1,), [(0,)]) if alike else own
    dense = move == strides(grid)
    out = np.array([pixels] if dense else grid, np.int64), np.array([1] if dense else move, np.int64), origin
    return Gather(pixels, axes, out, np.array(places, dtype=np.int64), own, np.array(move, np.int64), alike and dense)


def rows_of(all_pixels: Gather, first: int, last: int) -> Gather:
    """These rows of pixels, along the first axis, with the taps at which one of them may meet a cell."""
    (grid, size, step, table), (_, move, origin) = all_pixels.own_axes, all_pixels.out_axes
    taps = table.reshape(-1, len(grid)) + first * step[0] * (np.arange(len(grid)) == 0)
    met = (taps[:, 0] + (last - first - 1) * step[0] >= 0) & (taps[:, 0] < size[0])
    own = np.array([last - first, *grid[1:]]), size, step, taps[met].reshape(-1)
    pixels, dense = math.prod(own[0].tolist()), len(all_pixels.out_axes[0]) == 1
    out = np.array([pixels]) if dense else own[0], move, origin + first * int(all_pixels.move[0])
    return Gather(pixels, own, out, all_pixels.places[met], own, all_pixels.move, False)


def axes_of(grid: Shape, size: Shape, step: Shape, taps: list[Shape]) -> tuple[Array, Array, Array, Array]:
    grids, sizes, steps, table = (np.array(a, dtype=np.int64) for a in (grid, size, step, taps))
    return grids, sizes, steps, table.reshape(-1)


@lru_cache(maxsize=512)
def forwards(window: Sliding, spatial: Shape, grid: Shape) -> Gather:
    """What each output of a convolution sees of its input."""
    offsets = [
        [t * d - lo for t in range(k)] for k, d, (lo, _) in zip(window.kernel, window.dilation, window.padding, strict=True)
    ]
    taps = [list(range(k)) for k in window.kernel]
    return gather(grid, spatial, window.stride, offsets, taps, window.kernel, strides(grid), 0)


@lru_cache(maxsize=512)
def backwards(window: Sliding, spatial: Shape, grid: Shape) -> tuple[Gather, ...]:
    """Which outputs of a convolution see each cell of its input; cells that lie a stride apart are one grid."""
    found = []
    for phase in product(*(range(min(s, n)) for s, n in zip(window.stride, spatial, strict=True))):
        taps, offsets, cells = [], [], []
        for axis, f in enumerate(phase):
            s, d, (lo, _) = window.stride[axis], window.dilation[axis], window.padding[axis]
            met = [t for t in range(window.kernel[axis]) if (f + lo - t * d) % s == 0]
            taps.append(met)
            offsets.append([(f + lo - t * d) // s for t in met])
            cells.append(-(-(spatial[axis] - f) // s))
        if all(taps):
            step = strides(spatial)
            move = tuple(n * s for n, s in zip(step, window.stride, strict=True))
            origin = sum(f * n for f, n in zip(phase, step, strict=True))
            found.append(gather(tuple(cells), grid, (1,) * len(cells), offsets, taps, window.kernel, move, origin))
    return tuple(found)


def phases(window: Sliding, spatial: Shape) -> int:
    return math.prod(min(s, n) for s, n in zip(window.stride, spatial, strict=True))


def is_regular(window: Sliding, spatial: Shape) -> bool:
    """Whether the packing kernels can tell this geometry, and with a list of taps that is worth its memory."""
    numbers = (*window.kernel, *window.stride, *window.dilation, *(n for pair in window.padding for n in pair))
    return max(numbers) < LARGEST_NUMBER and math.prod(window.kernel) < 1 << 20 and phases(window, spatial) <= 1024


def listed_at_once(taps: int) -> int:
    """How many pixels of a plane are listed at a time: their pieces stay in the second cache."""
    return max(64, (1 << 14) // taps)


def panel(itemsize: int) -> int:
    """Pixels of a panel."""
    return VECTORS * WIDE_BYTES // itemsize


def steps(channels: int, taps: int) -> tuple[int, int]:
    """(channels, taps) that are summed at a time: at most STEPS products, of all taps if there are not more."""
    if taps > STEPS:
        return 1, STEPS
    return -(-channels // max(1, -(-channels * taps // STEPS))), taps
