"""Convolution of each channel by itself, where a plane fits in a box: each tap is a load, shifted (see `conv_planes`).

A few vectors of sums stay in registers while the taps run. All places are addresses, so that nothing counts references.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from windowgrad.kernels.runtime.jit import helper, kernel
from windowgrad.kernels.vector.masked import interval, lanes_of, load_some, put_value, store_tile, write_masked
from windowgrad.kernels.vector.ops import address, alive, fma, later, splat
from windowgrad.kernels.vector.shuffle import even, mixed_high, mixed_low, odd
from windowgrad.kernels.vector.tiles import wide
from windowgrad.kernels.vector.types import read

BLOCK = 4
"""Vectors of sums at a time."""


@intrinsic
def wide_lanes(typing: Any, a: Any) -> Any:
    """How many cells of `a` a vector of a tile has."""
    n = wide(a.dtype).lanes
    return types.intp(a), lambda context, builder, signature, args: ir.Constant(ir.IntType(64), n)


@intrinsic
def load_wide(typing: Any, a: Any, i: Any) -> Any:
    """The vector of a tile a[i], a[i + 1], …"""
    v = wide(a.dtype)

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return read(context, builder, a, args[0], args[1], v)

    return v(a, types.intp), emit


@intrinsic
def store_some(typing: Any, a: Any, i: Any, value: Any, bits: Any) -> Any:
    """a[i], a[i + 1], … = the vector where the bit is set."""

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        write_masked(context, builder, a, args[0], args[1], args[2], lanes_of(builder, value, args[3]), value)
        return context.get_dummy_value()

    return types.void(a, types.intp, value, types.int64), emit


# --- rows --------------------------------------------------------------------------------------------------------


@helper
def copy_cells(to: Any, x: Any, width: int) -> None:
    n, j = wide_lanes(to), 0
    while j + n <= width:
        store_tile(to, j, load_wide(x, j))
        j += n
    if j < width:
        bits = interval(0, width - j)
        store_some(to, j, load_some(x, j, bits), bits)


@helper
def part_cells(to: Any, other: Any, x: Any, width: int) -> None:
    """The cells of a row in turns to one place and the other."""
    n, j, zero = wide_lanes(to), 0, load_some(x, 0, 0)
    while 2 * (j + n) <= width:
        low, high = load_wide(x, 2 * j), load_wide(x, 2 * j + n)
        store_tile(to, j, even(low, high))
        store_tile(other, j, odd(low, high))
        j += n
    left = width - 2 * j
    if left > n:
        low, high = load_wide(x, 2 * j), load_some(x, 2 * j + n, interval(0, left - n))
        store_some(to, j, even(low, high), interval(0, (left + 1) // 2))
        store_some(other, j, odd(low, high), interval(0, left // 2))
    elif left > 0:
        low = load_some(x, 2 * j, interval(0, left))
        store_some(to, j, even(low, zero), interval(0, (left + 1) // 2))
        store_some(other, j, odd(low, zero), interval(0, left // 2))


@helper
def fill_box(box: Any, x: Any, width: int, apart: Any, every: int, ins: Any, rows: int) -> None:
    """A plane of x into its box."""
    r = 0
    while r < 2 * rows:
        source, to = later(x, ins[r]), ins[r + 1]
        if every == 1:
            copy_cells(later(box, to + apart[0]), source, width)
        elif every == 2:
            part_cells(later(box, to + apart[0]), later(box, to + apart[1]), source, width)
        else:
            k = 0
            while k < every:
                j, place = k, to + apart[k]
                while j < width:
                    box[place] = source[j]
                    j, place = j + every, place + 1
                k += 1
        r += 2


@helper
def put(y: Any, at: int, value: Any, extra: Any, adds: bool, bits: int) -> Any:
    if adds:
        value = value + load_some(y, at, bits)
    return put_value(y, at, value, extra, bits)


@helper
def put_row(y: Any, sums: Any, width: int, extra: Any, adds: bool) -> Any:
    n, j, strange = wide_lanes(y), 0, 0
    while j < width:
        strange |= put(y, j, load_wide(sums, j), extra, adds, interval(0, min(n, width - j)))
        j += n
    return strange


@helper
def put_two(y: Any, sums: Any, others: Any, width: int, extra: Any, adds: bool) -> Any:
    """The cells of two rows in turns."""
    n, j, strange = wide_lanes(y), 0, 0
    while 2 * j < width:
        left, a, b = width - 2 * j, load_wide(sums, j), load_wide(others, j)
        strange |= put(y, 2 * j, mixed_low(a, b), extra, adds, interval(0, min(n, left)))
        strange |= put(y, 2 * j + n, mixed_high(a, b), extra, adds, interval(0, min(n, left - n)))
        j += n
    return strange


@helper
def put_several(y: Any, sums: Any, pitch: int, phases: int, width: int, extra: Any, adds: bool) -> Any:
    """The cells of so many rows in turns, one at a time."""
    k, strange, zero = 0, 0, splat(load_some(sums, 0, 0), 0)
    while k < phases:
        j, place = k, k * pitch
        while j < width:
            strange |= put(y, j, splat(zero, sums[place]), extra, adds, 1)
            j, place = j + phases, place + 1
        k += 1
    return strange


@helper
def put_plane(y: Any, sums: Any, pitch: int, phases: int, width: int, outs: Any, rows: int, extra: Any, adds: bool) -> Any:
    """The sums of all phases into a plane of y; says as `put_value` which are strange."""
    r, strange = 0, 0
    while r < 3 * rows:
        source, to = later(sums, outs[r] + outs[r + 2] * pitch), later(y, outs[r + 1])
        if phases == 1:
            strange |= put_row(to, source, width, extra, adds)
        elif phases == 2:
            strange |= put_two(to, source, later(source, pitch), width, extra, adds)
        else:
            strange |= put_several(to, source, pitch, phases, width, extra, adds)
        r += 3
    return strange


# --- sums --------------------------------------------------------------------------------------------------------


@helper
def sum_taps(sums: Any, box: Any, flat: int, places: Any, taps: Any, first: int, last: int, w: Any) -> None:
    """sums[i] = the sum over the taps of w · box[i + place], for `flat` of them and up to BLOCK vectors."""
    n, zero, i = wide_lanes(box), load_some(box, 0, 0), 0
    while i < flat:
        a, b, c, d, t, here = zero, zero, zero, zero, first, later(box, i)
        while t < last:
            weight, at = splat(zero, w[taps[t]]), places[t]
            a = fma(weight, load_wide(here, at), a)
            b = fma(weight, load_wide(here, at + n), b)
            c = fma(weight, load_wide(here, at + 2 * n), c)
            d = fma(weight, load_wide(here, at + 3 * n), d)
            t += 1
        store_tile(sums, i, a)
        store_tile(sums, i + n, b)
        store_tile(sums, i + 2 * n, c)
        store_tile(sums, i + 3 * n, d)
        i += 4 * n


@helper
def clear(a: Any, count: int) -> None:
    i = 0
    while i < count:
        a[i] = 0
        i += 1


@kernel
def shifted(
    x: Any, w: Any, y: Any, bias: Any, room: Any, apart: Any, ins: Any, outs: Any, starts: Any, lists: Any, sizes: Any,
    share: Any,
) -> int:  # fmt: skip
    """y[image, channel] = bias[channel] + the sum over taps of w · x, for the planes of a share.

    Tables as in `Planes`; `sizes`: channels, cells of a plane of x and of y, taps of the weight, then the cells, pitch, width,
    out_width and phases of the plan, and how many planes are done together: what was just stored cannot be loaded again at
    once. The room has a box for each of them and then, for each of them and each phase, `pitch` sums. Gives the
    strange lanes of all sums.
    """
    (channels, plane, out_plane, every, cells, pitch, width, out_width, phases, some), (first, last, adds) = sizes, share
    box, sums = address(room), later(address(room), some * cells)
    strange, all_phases, taps = 0, len(starts) - 1, lists.shape[1]
    clear(box, some * cells)
    start = first
    while start < last:
        end, job = min(last, start + some), start
        while job < end:
            to, source = later(box, (job - start) * cells), later(address(x), job * plane)
            fill_box(to, source, width, address(apart), len(apart), address(ins), len(ins))
            job += 1
        job, channel = start, start % channels
        while job < end:
            phase = 0
            while phase < all_phases:
                sum_taps(
                    later(sums, ((job - start) * all_phases + phase) * pitch), later(box, (job - start) * cells), pitch,
                    address(lists), later(address(lists), taps), address(starts)[phase], address(starts)[phase + 1],
                    later(address(w), channel * every),
                )  # fmt: skip
                phase += 1
            job, channel = job + 1, channel + 1 if channel + 1 < channels else 0
        job, channel = start, start % channels
        while job < end:
            to, source = later(address(y), job * out_plane), later(sums, (job - start) * all_phases * pitch)
            extra = address(bias)[channel]
            strange |= put_plane(to, source, pitch, phases, out_width, address(outs), len(outs), extra, adds)
            job, channel = job + 1, channel + 1 if channel + 1 < channels else 0
        start = end
    alive(room)
    return strange
