"""Smooth maximum of whole planes, in one kernel: weights, sums of the windows, logarithms. And its gradient from saved sums.

For every plane, or strip of a plane, after the other:

    forward    x → weights w → rows of a window added → along the row: sums S → y = middle + log(S)/β
    backward   x → weights w;  g/S → spread along the rows → the rows that see a cell added → times w

What is between stays in the nearest cache: the weights of a plane, a few rows (`ROWS` entries) of what follows. Each step is
done for several rows before the next one begins: a load that needs two stores of a moment ago waits for both. Logarithms are
taken of the sums of several small planes together.

`Box` is what a kernel knows of a plane. A plane that one reference does not do for (`cells`), or whose gradients are not
sound, is counted in what a kernel returns; then its result is not to be used.

Measured and rejected: three kernels, one for each step over 2¹⁶ cells, with the sums of a mean (9×9 planes took twice as long).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from windowgrad.kernels.pool.fold_rows import folding
from windowgrad.kernels.pool.packed import packed, rows_of, unpacked
from windowgrad.kernels.pool.plan import Array, Plan
from windowgrad.kernels.pool.row_pieces import clear, span
from windowgrad.kernels.pool.smooth.cells import (
    divide_plane,
    logarithms,
    put,
    some,
    weigh_around,
    zero,
)
from windowgrad.kernels.pool.window_spans import spanning, uses_up
from windowgrad.kernels.runtime.jit import helper, kernel
from windowgrad.kernels.vector.loops import plus
from windowgrad.kernels.vector.ops import address, alive, equal, fma, lanes, later, load, select, splat, store
from windowgrad.kernels.vector.shuffle import mixed_high, mixed_low
from windowgrad.kernels.vector.tiles import lane_sum

ROWS = 2048
"""Entries of the rows that a step does before the next step."""

OUTPUTS = 256
"""Sums of small planes whose logarithms are taken together, about."""

WASTE = 4
"""How much larger than a plane the spread gradients of its windows may be; else rows are added before they are spread."""

fold = folding(plus, False)
spans = spanning(plus, False)


# --- what a kernel is told -------------------------------------------------------------------------------------------


def is_whole(p: Plan) -> bool:
    """Whether the one output of a plane sees all its cells."""
    return p.plane_out == 1 and len(p.rows) * p.width == p.plane_in and int(p.count[0]) == p.width


def as_row(p: Plan) -> Plan:
    """The same plane as one row, if its one output sees all of it."""
    if not is_whole(p) or p.outer == len(p.rows) == 1:
        return p
    size, one = p.plane_in, np.ones(1, np.int64)
    return replace(p, ptr=np.array([0, 1]), rows=np.zeros(1, np.int64), width=size, count=one * size, row_cells=one, kernel=0)


def packed_forward(p: Plan, lone: tuple[Array, Array]) -> Array:
    """The plan as one array, and behind it the windows of one cell, as (output, cell)."""
    p = as_row(p)
    lists = p.ptr, p.rows, p.start, p.count, [len(lone[0])], *lone
    return packed(p.line, p.outer, p.plane_in, p.piece, *lists)


def packed_backward(p: Plan) -> Array:
    """The rows of the gradient that each row of cells sees. Rows are spread first, if that takes little memory."""
    p = as_row(p)
    height, first = p.plane_in // p.width, spreads_first(p)
    places = p.back_rows // p.out * spread_width(p) if first else p.back_rows
    return packed(p.line, height, p.plane_out, int(first), p.back_ptr, places, p.start, p.count)


def spreads_first(p: Plan) -> bool:
    return p.outer * spread_width(p) <= WASTE * p.plane_in + ROWS


def spread_width(p: Plan) -> int:
    """The entries of an output row spread along it; with the padding, if cells of windows side by side are written there."""
    return max(p.before + p.width, p.out * p.stride) if is_tiled(p.kernel, p.stride, p.step) else p.width


def is_tiled(taps: int, stride: int, step: int) -> bool:
    """Whether windows along a row are side by side, so that a cell is in one of them."""
    return taps > 1 and stride == taps and step == 1


tiled = helper(is_tiled)


class Box(NamedTuple):
    """The memory of a kernel: weights of a plane, rows added up (`wide` entries each, `many` at a time), sums."""

    weights: Any
    rows: Any
    wide: int
    many: int
    sums: Any


# --- forward -----------------------------------------------------------------------------------------------------------


@helper
def total_of(buffer: Any, low: int, count: int) -> float:
    """The sum of a run of entries, by vectors."""
    n, total, more = lanes(buffer), 0.0, splat(buffer, 0.0)
    if count >= 4 * n:
        others, j = more, 0
        while j + 2 * n <= count:
            more, others = more + load(buffer, low + j), others + load(buffer, low + j + n)
            j += 2 * n
        more, low, count = more + others, low + j, count - j
        total = lane_sum(more)
    for i in range(low, low + count):
        total += buffer[i]
    return total


@helper
def unlike(buffer: Any, base: int, sums: Any, to: int, windows: Any, out: int) -> None:
    """Windows that are not all alike."""
    for j in range(out):
        if windows.step == 1:
            sums[to + j] = total_of(buffer, base + windows.start[j], windows.count[j])
        else:
            total = 0.0
            for t in range(windows.count[j]):
                total += buffer[base + windows.start[j] + t * windows.step]
            sums[to + j] = total


@helper
def sum_windows(line: Any, windows: Any, box: Any, at: int) -> None:
    """The sums of the windows of a plane, from its weights; to `sums` from `at` on."""
    out, taps = line.out, line.taps
    seen = line.width if taps == 0 else min(line.width, span(line, out) - line.before)
    lone = taps == 0 and windows.plane == line.width
    before = 0 if taps == 0 else line.before
    for low in range(0, windows.rows, box.many):
        high = min(low + box.many, windows.rows)
        for row in range(low, high):
            rows, to = rows_of(windows, row), (row - low) * box.wide
            if rows.low == rows.high or seen <= 0:
                clear(box.rows, to, to + box.wide)
            elif not lone:
                if uses_up(taps):
                    clear(box.rows, to, to + box.wide)
                fold(box.weights, 0, rows, seen, box.rows, to + before)
        for row in range(low, high):
            to = (row - low) * box.wide
            if lone:
                unlike(box.weights, 0, box.sums, at, windows, out)
            elif taps == 0:
                unlike(box.rows, to, box.sums, at + row * out, windows, out)
            else:
                spans(box.rows, to, box.sums, at + row * out, out, taps, line.step, line.stride)


@helper
def values(sums: Any, low: int, high: int, middle: float, beta: float, y: Any, at: int) -> None:
    """y[at:] = middle + log(sum)/β for the sums low to high, 0 where nothing was added."""
    center, nothing = splat(sums, middle), splat(sums, 0.0)
    for i in range(low, high, lanes(sums)):
        total = load(sums, i)
        value = center + logarithms(y, total, beta)
        put(y, at + i - low, select(equal(total, nothing), nothing, value), high - i)


@helper
def add_padding(sums: Any, low: int, pad: Any, count: int, weight: float) -> None:
    """The padded zeros of the windows of a plane."""
    for i in range(0, count, lanes(sums)):
        put(sums, low + i, fma(some(pad, i, count - i, sums), splat(sums, weight), load(sums, low + i)), count - i)


@kernel
def smooth_planes(x: Any, result: Any, saved: Any, pad: Any, beta: float, plan: Any, first: int, last: int) -> int:
    """The planes first to last; gives how many have no middle. `saved` becomes the sums of the windows with their padded zeros.

    `pad` tells how many padded zeros each window of a plane counts; it is empty if there are none. `result` or `saved` is empty if it
    is not wanted.
    """
    line, windows, _ = unpacked(plan)
    size, plane, n = windows.plane, windows.rows * line.out, lanes(pad)
    wide = line.width if line.taps == 0 else span(line, line.out) + ((line.stride + 3) * n if uses_up(line.taps) else 0)
    many, group = max(1, min(ROWS // wide, windows.rows)), max(1, OUTPUTS // plane)
    behind = (min(line.stride, 8) + 3) * n
    part = (size + 2 * n, many * wide + behind, group * plane + 2 * n)
    space, middles = np.empty(part[0] + part[1] + part[2]), np.empty(group)
    start = address(space)
    clear(start, part[0], part[0] + part[1])
    box = Box(start, later(start, part[0]), wide, many, later(start, part[0] + part[1]))
    x, y, keep, counted = address(x), address(result), address(saved), address(pad)
    lone = later(windows.count, line.out)
    alone, padded, hard, begun = lone[0], len(pad) > 0, 0, first
    wanted = len(result) > 0
    for p in range(first, last):
        at = (p - begun) * plane
        middle = weigh_around(later(x, p * size), box.weights, size, beta, padded)
        middles[p - begun] = middle
        hard += middle != middle
        sum_windows(line, windows, box, at)
        if padded:
            add_padding(box.sums, at, counted, plane, zero(middle, beta, True))
        if p + 1 < last and p + 1 - begun < group:
            continue
        flat = True
        for q in range(p + 1 - begun):
            flat &= middles[q] == 0
        if flat and wanted:
            values(box.sums, 0, at + plane, 0.0, beta, y, begun * plane)
        elif wanted:
            for q in range(p + 1 - begun):
                values(box.sums, q * plane, (q + 1) * plane, middles[q], beta, y, (begun + q) * plane)
        for q in range(begun, p + 1 if alone and wanted else begun):
            for i in range(1, alone + 1):  # it is that cell exactly; −0.0 becomes 0.0, as where a logarithm is added to it
                y[q * plane + lone[i]] = x[q * size + lone[alone + i]] + 0.0
        if len(saved):
            copy(box.sums, keep, begun * plane, at + plane)
        begun = p + 1
    alive(space)
    return hard


@helper
def copy(a: Any, b: Any, at: int, count: int) -> None:
    """b[at:] = the first entries of a."""
    for i in range(0, count, lanes(a)):
        put(b, at + i, load(a, i), count - i)


# --- backward ----------------------------------------------------------------------------------------------------------


@helper
def spread_tiles(q: Any, low: int, out: int, stride: int, u: Any, to: int) -> None:
    """Each entry to all cells of its window, where windows are side by side."""
    n, j = lanes(q), 0
    if stride == 2:
        while j + n <= out:
            share = load(q, low + j)
            store(u, to + 2 * j, mixed_low(share, share))
            store(u, to + 2 * j + n, mixed_high(share, share))
            j += n
    while j < out:
        for t in range(stride):
            u[to + j * stride + t] = q[low + j]
        j += 1


@helper
def spread_unlike(q: Any, low: int, windows: Any, out: int, u: Any, to: int, width: int) -> None:
    """Each entry to the cells of its window, where windows are not all alike."""
    clear(u, to, to + width)
    n = lanes(q)
    for j in range(out):
        at, share, i, count = to + windows.start[j], q[low + j], 0, windows.count[j]
        if windows.step == 1:
            more = splat(q, share)
            while i + n <= count:
                store(u, at + i, load(u, at + i) + more)
                i += n
        while i < count:
            u[at + i * windows.step] += share
            i += 1


@helper
def set_apart(q: Any, low: int, out: int, buffer: Any, at: int, stride: int) -> None:
    """buffer[at + j·stride] = q[low + j]; what lies between is 0 and stays so."""
    n, j = lanes(q), 0
    if stride > 2:
        for j in range(out):
            buffer[at + j * stride] = q[low + j]
        return
    nothing = splat(q, 0.0)
    while j < out:
        share = some(q, low + j, out - j, q)
        if stride == 2:
            store(buffer, at + 2 * j, mixed_low(share, nothing))
            store(buffer, at + 2 * j + n, mixed_high(share, nothing))
        else:
            store(buffer, at + j, share)
        j += n


@helper
def spread_rows(q: Any, count: int, line: Any, windows: Any, buffer: Any, wide: int, many: int, u: Any, to: int, apart: int, beside: bool) -> None:
    """u = `count` rows of the gradient, each spread along the cells of its windows; they begin `apart` entries apart."""
    out, taps, stride, step = line.out, line.taps, line.stride, line.step
    if taps == 0:
        for row in range(count):
            spread_unlike(q, row * out, windows, out, u, to + row * apart, line.width)
    elif beside:
        for row in range(count):
            spread_tiles(q, row * out, out, stride, u, to + row * apart)
    else:
        ahead = (taps - 1) * step
        for low in range(0, count, many):
            high = min(low + many, count)
            for row in range(low, high):
                if uses_up(taps):
                    clear(buffer, (row - low) * wide, (row - low + 1) * wide)
                set_apart(q, row * out, out, buffer, (row - low) * wide + ahead, stride)
            for row in range(low, high):
                spans(buffer, (row - low) * wide + line.before, u, to + row * apart, line.width, taps, step, 1)


@helper
def products(e: Any, spread: Any, count: int, gx: Any, at: int) -> None:
    """gx = weights · what the windows of each cell spread."""
    n, i = lanes(e), 0
    while i < count:
        put(gx, at + i, load(e, i) * load(spread, i), count - i)
        i += n


@kernel
def smooth_planes_back(x: Any, g: Any, gx: Any, saved: Any, pad: Any, beta: float, plan: Any, first: int, last: int) -> int:
    """The gradient of the planes first to last from the saved sums; gives how many have no middle, or are not sound."""
    line, windows, spread_first = unpacked(plan)
    width, height, plane, n = line.width, windows.rows, windows.plane, lanes(saved)
    size, rows, beside = height * width, plane // line.out, spread_first and tiled(line.taps, line.stride, line.step)
    reach = max(line.before + width, line.out * line.stride)
    apart, shift = (reach, line.before) if beside else (width, 0)
    wide = 0 if beside or line.taps == 0 else (line.taps - 1) * line.step + reach + (line.stride + 3) * n
    many = max(1, min(ROWS // max(wide, 1), rows)) if spread_first else 1
    # weights | what is spread to each cell | gradients divided by sums | rows set apart | rows spread, or one row added up
    to_t, to_q, to_buffer = size + 2 * n, 2 * size + 4 * n, 2 * size + plane + 6 * n
    to_u, last_part = to_buffer + many * wide + 2 * n, rows * apart + 3 * n if spread_first else line.out + 3 * n
    space = np.empty(to_u + last_part)
    w = address(space)
    t, q, buffer, u = later(w, to_t), later(w, to_q), later(w, to_buffer), later(w, to_u)
    clear(buffer, 0, many * wide + 2 * n + last_part)
    x, g, gx, sums = address(x), address(g), address(gx), address(saved)
    hard = 0
    for p in range(first, last):
        middle = weigh_around(later(x, p * size), w, size, beta, len(pad) > 0)
        sound = divide_plane(later(g, p * plane), later(sums, p * plane), q, plane)
        if middle != middle or not sound:
            hard += 1
            continue
        if spread_first:
            spread_rows(q, rows, line, windows, buffer, wide, many, u, 0, apart, beside)
        for i in range(height):
            seen = rows_of(windows, i)
            if seen.low == seen.high:
                clear(t, i * width, (i + 1) * width)
            elif spread_first:
                fold(u, shift, seen, width, t, i * width)
            else:
                fold(q, 0, seen, line.out, u, 0)
                spread_rows(u, 1, line, windows, buffer, wide, many, t, i * width, width, False)
        products(w, t, size, gx, p * size)
    alive(space)
    return hard
