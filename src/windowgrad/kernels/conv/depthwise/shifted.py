"""Each channel by itself, where a plane goes into a box (`depthwise/boxes.py`): each tap is a load, shifted.

Computes y[image, channel] = bias[channel] + the sum over taps of w[channel, tap] · x, the forward pass or the input gradient.

Chosen where `depthwise/ways.py: may_shift` holds, for any window, stride and rank, unless `three_rows` takes it.

How it is blocked: a plane of x is copied into its box. There all pixels of a phase are one long row, and SUM_VECTORS vectors of
sums stay in registers while the taps run; no tap needs a mask. Then the rows of y are taken from the sums. A few planes are
filled, summed and put together, because what was just stored cannot be loaded again at once. All places are addresses,
so that nothing counts references.

Measured and rejected: lists of pieces with masks (`depthwise/any_geometry.py`), now for planes that do not go into a box.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from windowgrad.kernels.conv.records import Limits
from windowgrad.kernels.conv.share import part_begin
from windowgrad.kernels.runtime.jit import helper, kernel
from windowgrad.kernels.vector.masked import interval, load_some, put_value, store_some, store_tile
from windowgrad.kernels.vector.ops import address, fma, later, splat
from windowgrad.kernels.vector.registers import load_wide, wide_lanes
from windowgrad.kernels.vector.shuffle import even, mixed_high, mixed_low, odd

SUM_VECTORS = 4
"""Vectors of sums at a time."""


class Rows(NamedTuple):
    """The rows of a plane of x and where they go in the box, as in `Planes`: pairs `ins`, `width` cells each, `apart` there."""

    ins: Any
    number: int
    width: int
    apart: Any
    every: int


class OutRows(NamedTuple):
    """The rows of a plane of y and where their sums are, as in `Planes`: triples `outs`, `width` cells each."""

    outs: Any
    number: int
    width: int


class Phases(NamedTuple):
    """The sums of a plane: so many phases, `pitch` cells each; the cells of a row of y come from `in_row` of them in turns."""

    pitch: int
    number: int
    in_row: int


class Taps(NamedTuple):
    """Some taps: where they are in the box, from the first pixel on, and in the weight."""

    places: Any
    in_weight: Any
    number: int


# --- rows into the box -------------------------------------------------------------------------------------------


@helper
def clear(a: Any, count: int) -> None:
    i = 0
    while i < count:
        a[i] = 0
        i += 1


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
def fill_box(box: Any, x: Any, rows: Rows) -> None:
    """A plane of x into its box."""
    r = 0
    while r < 2 * rows.number:
        source, to = later(x, rows.ins[r]), later(box, rows.ins[r + 1])
        if rows.every == 1:
            copy_cells(later(to, rows.apart[0]), source, rows.width)
        elif rows.every == 2:
            part_cells(later(to, rows.apart[0]), later(to, rows.apart[1]), source, rows.width)
        else:
            k = 0
            while k < rows.every:
                j, place = k, rows.apart[k]
                while j < rows.width:
                    to[place] = source[j]
                    j, place = j + rows.every, place + 1
                k += 1
        r += 2


# --- sums --------------------------------------------------------------------------------------------------------


@helper
def sum_taps(sums: Any, box: Any, count: int, taps: Taps, w: Any) -> None:
    """sums[i] = the sum over the taps of w · box[i + place], for so many of them and up to SUM_VECTORS vectors."""
    n, zero, i = wide_lanes(box), load_some(box, 0, 0), 0
    while i < count:
        a, b, c, d, t, here = zero, zero, zero, zero, 0, later(box, i)
        while t < taps.number:
            weight, at = splat(zero, w[taps.in_weight[t]]), taps.places[t]
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


# --- rows of the output ------------------------------------------------------------------------------------------


@helper
def put(y: Any, at: int, value: Any, extra: Any, limits: Limits, adds: bool, bits: int) -> Any:
    if adds:
        value = value + load_some(y, at, bits)
    return put_value(y, at, value, extra, limits.least, limits.most, bits)


@helper
def put_row(y: Any, sums: Any, width: int, extra: Any, limits: Limits, adds: bool) -> Any:
    n, j, strange = wide_lanes(y), 0, 0
    while j < width:
        strange |= put(y, j, load_wide(sums, j), extra, limits, adds, interval(0, min(n, width - j)))
        j += n
    return strange


@helper
def put_two(y: Any, sums: Any, others: Any, width: int, extra: Any, limits: Limits, adds: bool) -> Any:
    """The cells of two rows in turns."""
    n, j, strange = wide_lanes(y), 0, 0
    while 2 * j < width:
        left, a, b = width - 2 * j, load_wide(sums, j), load_wide(others, j)
        strange |= put(y, 2 * j, mixed_low(a, b), extra, limits, adds, interval(0, min(n, left)))
        strange |= put(y, 2 * j + n, mixed_high(a, b), extra, limits, adds, interval(0, min(n, left - n)))
        j += n
    return strange


@helper
def put_several(y: Any, sums: Any, phases: Phases, width: int, extra: Any, limits: Limits, adds: bool) -> Any:
    """The cells of the phases of a row in turns, one at a time."""
    k, strange, zero = 0, 0, splat(load_some(sums, 0, 0), 0)
    while k < phases.in_row:
        j, place = k, k * phases.pitch
        while j < width:
            strange |= put(y, j, splat(zero, sums[place]), extra, limits, adds, 1)
            j, place = j + phases.in_row, place + 1
        k += 1
    return strange


@helper
def put_plane(y: Any, rows: OutRows, sums: Any, phases: Phases, extra: Any, limits: Limits, adds: bool) -> Any:
    """The sums of all phases into a plane of y; says as `put_value` which are strange."""
    r, strange = 0, 0
    while r < 3 * rows.number:
        source, to = later(sums, rows.outs[r] + rows.outs[r + 2] * phases.pitch), later(y, rows.outs[r + 1])
        if phases.in_row == 1:
            strange |= put_row(to, source, rows.width, extra, limits, adds)
        elif phases.in_row == 2:
            strange |= put_two(to, source, later(source, phases.pitch), rows.width, extra, limits, adds)
        else:
            strange |= put_several(to, source, phases, rows.width, extra, limits, adds)
        r += 3
    return strange


# --- the kernel --------------------------------------------------------------------------------------------------


@helper
def in_rows(ins: Any, width: int, apart: Any) -> Rows:
    return Rows(address(ins), len(ins), width, address(apart), len(apart))


@kernel
def shifted(
    x: Any, w: Any, y: Any, bias: Any, limits: Any, room: Any, tables: Any, sizes: Any, share: Any, first: int, last: int
) -> int:
    """Some parts of the planes of all images; gives the strange lanes of all sums.

    `limits` as in `Limits`; `tables`: apart, ins, outs, starts and lists of `Planes`; `sizes`: channels, cells of a plane of
    x and of y, taps of the weight, then the cells of a box, the pitch of its sums, width, out_width and phases of the plan,
    and how many planes are done together. `share`: all planes, the parts that they are cut into, the cells of the room that
    each has, and whether to add to what y has. A part of the room has a box for each of those together and then, for each of
    them and each phase, `pitch` sums.
    """
    channels, plane, out_plane, every, cells, pitch, width, out_width, in_row, some = sizes
    planes, parts, own, adds = share
    apart, ins, outs, starts, lists = tables
    rows, out_rows = in_rows(ins, width, apart), OutRows(address(outs), len(outs), out_width)
    phases, begins = Phases(pitch, len(starts) - 1, in_row), address(starts)
    places, in_weight = address(lists), later(address(lists), lists.shape[1])
    box, ends = later(address(room), first * own), Limits(address(limits)[0], address(limits)[1])
    sums, strange = later(box, some * cells), 0
    clear(box, some * cells)
    start, after = part_begin(planes, parts, first), part_begin(planes, parts, last)
    while start < after:
        end, job = min(after, start + some), start
        while job < end:
            fill_box(later(box, (job - start) * cells), later(address(x), job * plane), rows)
            job += 1
        job, channel = start, start % channels
        while job < end:
            here, weight, phase = later(box, (job - start) * cells), later(address(w), channel * every), 0
            while phase < phases.number:
                begin = begins[phase]
                taps = Taps(later(places, begin), later(in_weight, begin), begins[phase + 1] - begin)
                sum_taps(later(sums, ((job - start) * phases.number + phase) * pitch), here, pitch, taps, weight)
                phase += 1
            job, channel = job + 1, channel + 1 if channel + 1 < channels else 0
        job, channel = start, start % channels
        while job < end:
            to, source = later(address(y), job * out_plane), later(sums, (job - start) * phases.number * pitch)
            strange |= put_plane(to, out_rows, source, phases, address(bias)[channel], ends, adds)
            job, channel = job + 1, channel + 1 if channel + 1 < channels else 0
        start = end
    return strange
