"""Floats of 16 bits as float32, and back: what kernels read and write for float16 and bfloat16.

Numba has neither of them, and LLVM's own conversions of float16 are calls of a library on a CPU without an instruction for it.
So cells are read as integers of 16 bits, and what a float32 of the same value looks like follows from a few operations on
integers, which every CPU has as vectors:

    float16 → float32    the fields of exponent and fraction stand 13 bits higher, the exponent counts from 127 and not from 15;
                         a subnormal number is found as (2⁻¹⁴ + itself) − 2⁻¹⁴, which is exact
    float32 → float16    half of a last place is added before the last 13 bits are cut off, which rounds to nearest, ties to
                         even; what becomes subnormal is rounded by an addition to 0.5, whose last place is that of a subnormal
    bfloat16             the upper half of a float32

All bits are those of `astype`, NaN's too. Measured, two threads, 2²⁰ cells: float16 to float32 takes 0.04 of the time of
NumPy's `astype`, back 0.03; bfloat16, of that of ml_dtypes, as much.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache, partial
from typing import Any

import numpy as np

from windowgrad.kernels.runtime.buffers import empty, maker
from windowgrad.kernels.runtime.jit import helper, kernel
from windowgrad.kernels.runtime.threads import run, sharing
from windowgrad.kernels.vector.ops import address, maximum, select, splat, store, store_part
from windowgrad.kernels.vector.registers import load_wide, load_wide_as, load_wide_part, load_wide_part_as, wide_lanes
from windowgrad.kernels.vector.shuffle import bits, convert, floats, masked, shift_left, shift_right

Array = np.ndarray[Any, Any]

SINGLE, WORD, HALF = np.dtype(np.float32), np.dtype(np.int32), np.dtype(np.uint16)

FRACTION = 13
"""Bits of a fraction that float32 has more than float16."""

LEAST_NORMAL = (127 - 14) << 23
"""2⁻¹⁴ as a float32, the least normal float16."""

TOO_LARGE = (127 + 16) << 23
"""2¹⁶, beyond every float16."""

INFINITE = 255 << 23
ONE_HALF = 126 << 23
REBASED = (127 - 15) << 23


@helper
def wide_of_half(h: Any) -> Any:
    """The bits of the float32 that equal float16 given by their bits."""
    o = shift_left(masked(h, 0x7FFF), FRACTION)
    field = masked(o, 31 << 23)
    least = splat(o, LEAST_NORMAL)
    small = bits(floats(o + least) - floats(least))
    big = o + select(field == splat(o, 31 << 23), splat(o, 2 * REBASED), splat(o, REBASED))
    return select(field == splat(o, 0), small, big) + shift_left(masked(h, 0x8000), 16)


@helper
def half_of_wide(f: Any) -> Any:
    """The bits of the nearest float16, of float32 given by their bits."""
    a = masked(f, 0x7FFFFFFF)
    odd = masked(shift_right(a, FRACTION), 1)
    near = shift_right(a + odd + splat(a, (1 << FRACTION - 1) - 1 - REBASED), FRACTION)
    small = bits(floats(a) + floats(splat(a, ONE_HALF))) - splat(a, ONE_HALF)
    found = select(a < splat(a, LEAST_NORMAL), small, near)
    found = select(a < splat(a, TOO_LARGE), found, splat(a, 0x7C00))
    nan = maximum(shift_right(masked(a, 0x7FFFFF), FRACTION), splat(a, 1)) + splat(a, 0x7C00)
    return select(a > splat(a, INFINITE), nan, found) + shift_right(masked(f, 1 << 31), 16)


@helper
def brain_of_wide(f: Any) -> Any:
    """The bits of the nearest bfloat16, of float32 given by their bits; of NaN, the quiet one of its sign."""
    a = masked(f, 0x7FFFFFFF)
    near = shift_right(a + masked(shift_right(a, 16), 1) + splat(a, 0x7FFF), 16)
    return select(a > splat(a, INFINITE), splat(a, 0x7FC0), near) + shift_right(masked(f, 1 << 31), 16)


@helper
def wide_of(h: Any, brain: bool) -> Any:
    return shift_left(h, 16) if brain else wide_of_half(h)


@helper
def narrow_of(f: Any, brain: bool) -> Any:
    return brain_of_wide(f) if brain else half_of_wide(f)


@kernel
def widen_cells(x: Any, y: Any, brain: bool, first: int, last: int) -> None:
    """y = the cells `first` to `last` of x, 16 bits each, as float32; both arrays hold bits."""
    x, y, n, i = address(x), address(y), wide_lanes(y), first
    while i + n <= last:
        store(y, i, wide_of(load_wide_as(x, i, y), brain))
        i += n
    if i < last:
        store_part(y, i, wide_of(load_wide_part_as(x, i, last - i, y), brain), last - i)


@kernel
def narrow_cells(x: Any, y: Any, brain: bool, first: int, last: int) -> None:
    """y = the cells `first` to `last` of x, float32, as 16 bits each; both arrays hold bits."""
    x, y, n, i = address(x), address(y), wide_lanes(x), first
    while i + n <= last:
        store(y, i, convert(narrow_of(load_wide(x, i), brain), y))
        i += n
    if i < last:
        store_part(y, i, convert(narrow_of(load_wide_part(x, i, last - i), brain), y), last - i)


def chosen(old: np.dtype[Any], new: np.dtype[Any]) -> tuple[Any, tuple[bool], np.dtype[Any], np.dtype[Any]]:
    """The kernel, what it is told besides its arrays, and the dtypes as which it sees them."""
    if new == SINGLE:
        return widen_cells, (old.kind != "f",), HALF, WORD
    return narrow_cells, (new.kind != "f",), WORD, HALF


def changed(x: Array, dtype: np.dtype[Any]) -> Array:
    """The cells of an array of float32 as floats of 16 bits, or the other way, at the same places of memory."""
    return changer(x.dtype, dtype)(x)


@cache
def changer(old: np.dtype[Any], dtype: np.dtype[Any]) -> Callable[..., Array]:
    """`changed` for arrays of one dtype; the result may have a place, with its axes in the same order."""
    kernel, told, seen, made = chosen(old, dtype)
    size = old.itemsize + dtype.itemsize

    def change(x: Array, y: Array | None = None) -> Array:
        if not x.flags.c_contiguous:
            order = sorted(range(x.ndim), key=lambda axis: -x.strides[axis])
            stored = np.ascontiguousarray(x.transpose(order))
            return change(stored, None if y is None else y.transpose(order)).transpose(np.argsort(order))
        if y is None:
            y = empty(x.shape, dtype)
        run(partial(kernel, x.reshape(-1).view(seen), y.reshape(-1).view(made), *told), x.size, x.size * size)
        return y

    return change


def ready_changer(shape: tuple[int, ...], old: np.dtype[Any], dtype: np.dtype[Any]) -> Callable[..., Array]:
    """The same for arrays of one shape whose cells are in a row, with everything done that follows from it."""
    kernel, told, seen, made = chosen(old, dtype)
    count, new = math.prod(shape), maker(shape, dtype)
    change = sharing(kernel, told, count, count * (old.itemsize + dtype.itemsize))

    def call(x: Array, y: Array | None = None) -> Array:
        if y is None:
            y = new(shape, dtype)
        change(x.ravel().view(seen), y.ravel().view(made))
        return y

    return call
