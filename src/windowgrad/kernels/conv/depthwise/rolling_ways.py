"""Square windows that move down planes: when `rolling.py` may be used, and how threads share strips of the planes."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any

from windowgrad.kernels.conv.depthwise.rolling import ROLLING, before, blocks, strips
from windowgrad.kernels.conv.plan import Array
from windowgrad.kernels.conv.shapes import Compute, End, Ending, Packed, Pass, as_they_are
from windowgrad.kernels.conv.share import by_threads, helpers, parts_for, sharing
from windowgrad.kernels.vector.registers import WIDE_BYTES

ROLL_WORK = 2
"""How much longer a product takes than is counted, for the choice of threads: two of them take 0.65 of the time of one for 576
channels of 14×14 with a stride of 2, 24 µs."""
HALF = WIDE_BYTES // 8
"""Pixels of half a vector of float32."""
FULL_COLUMNS = {(3, 1): 0.0, (3, 2): 0.5, (5, 1): 0.47, (5, 2): 0.82, (7, 1): 0.59, (7, 2): 0.85}
"""The part of the products of `rolling` that are needed, by the size of the window and its stride, below which planes in lanes
are faster: on 8×8 cells with a stride of 2 it is 0.46 of 3×3 windows, and lanes take 0.9 of the time, 0.42 of 7×7, and 0.5."""


# --- when --------------------------------------------------------------------------------------------------------


def may_roll(one: Pass, itemsize: int) -> bool:
    """`rolling`: each plane of y comes from one of x, of two axes; a square window of its sizes and strides, without gaps.

    An input gradient with a stride meets other taps in every phase, and is left to others.
    """
    (size, *_), (stride, *_) = one.window.kernel, one.window.stride
    square = one.window.kernel == (size, size) and one.window.stride == (stride, stride) and one.window.dilation == (1, 1)
    return one.by_planes and square and (size, stride) in ROLLING and not (one.back and stride > 1)


def fills_columns(one: Pass) -> bool:
    """Whether enough products of `rolling` are needed: it multiplies whole vectors, every row of x with all rows of taps."""
    (size, *_), (stride, *_), rows = one.window.kernel, one.window.stride, one.size[0]
    firsts = [row * stride - before(one, 0) for row in range(one.grid[0])]
    met = sum(max(0, min(rows, first + size) - max(0, first)) for first in firsts)
    vectors = -(-one.grid[-1] // HALF) * HALF
    return met * one.grid[-1] * stride >= FULL_COLUMNS[size, stride] * rows * size * vectors


# --- how ---------------------------------------------------------------------------------------------------------


def roll(one: Pass, x: Array, w: Array, bias: Array, y: Array, adds: bool, end: End | None = None) -> int:
    return shared_roll(one, y.dtype, helpers(ROLL_WORK * one.work), adds)(x, w, bias, y, (end or as_they_are(y.dtype)).limits)


def shared_roll(one: Pass, dtype: Any, threads: int, adds: bool = False) -> Callable[..., int]:
    """`rolling` on so many threads, as a function of x, the weight, bias, y and limits."""
    (columns, sizes), units = rolled(one, dtype.itemsize), one.images * one.groups * strips(one, dtype.itemsize)
    count = parts_for(units, threads)
    start, share = sharing(ROLLING[one.window.kernel[0], one.window.stride[0]], count, threads), (units, count, int(adds))

    def call(x: Array, w: Array, bias: Array, y: Array, ends: Array) -> int:
        taps = w.reshape(-1, one.taps)[:, ::-1].ravel() if one.back else w
        return start(x, taps, y, bias, ends, columns, sizes, share)

    return call


@lru_cache(maxsize=512)
def rolled(one: Pass, itemsize: int) -> tuple[Array, tuple[int, ...]]:
    """What `rolling` is told of the columns and of the sizes."""
    columns, whole = blocks(one, itemsize), (2 * one.grid[-1] * itemsize + WIDE_BYTES - 1) // (2 * WIDE_BYTES)
    return columns, (one.groups, *one.size, -before(one, 0), *one.grid, strips(one, itemsize), whole)


def ready_to_roll(one: Pass, dtype: Any) -> Compute:
    call, ends = by_threads(ROLL_WORK * one.work, partial(shared_roll, one, dtype)), as_they_are(dtype).limits
    return lambda x, w, bias, y: call(x, w, bias, y, ends)


def keep_rolling(one: Pass, w: Array, bias: Array, packed: Packed) -> Ending:
    call = by_threads(ROLL_WORK * one.work, partial(shared_roll, one, w.dtype))
    return lambda x, y, end: call(x, w, bias, y, end.limits)
