"""The gradient of windows of any kind: each output's gradient is added to the cell that won it, window after window.

For what no other kernel does (`pay`): large windows, bins, windows far apart, narrow planes. A strip of a
plane at a time (`winner_strips`): it is cleared, then all outputs that see it are looked at, and those that were won by a cell
of the strip are added there while it is in the nearest caches.

Where each winner is, is found by vectors for many outputs before the first of them is added: the numbers of its taps along
three axes by multiplications, where a look into a table for each output took a third longer. Only rows at the edges of a strip
look whether a winner is within it; in a section of a long row (`long_rows`), only windows that reach out of it. Where many
windows see a cell, neighbours often have one winner: its sum then stays in a register, for an addition in memory waits for the
one before it.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numba import types
from numba.extending import intrinsic

from windowgrad.caches import keep
from windowgrad.geometry import Geometry
from windowgrad.kernels.pool.max import winner_strips
from windowgrad.kernels.pool.max.winner_codes import Array, Axis, channel_axis, codes_of, outer_sum, pitches
from windowgrad.kernels.pool.max.winner_strips import input_strips, strip_of
from windowgrad.kernels.pool.plan import plan
from windowgrad.kernels.pool.row_pieces import clear
from windowgrad.kernels.runtime.jit import helper, unrolled_kernel
from windowgrad.kernels.vector.loops import Emitter
from windowgrad.kernels.vector.ops import address, alive, later
from windowgrad.kernels.vector.types import Vec, llvm, read, spread

FLAT = 15 << 10
"""Outputs of a plane that are looked at as one row, if it is not cut: the beginning of a row costs as much as some outputs."""

SHORT = 48
"""Planes with rows of fewer outputs, or channels of them, stay whole longer, to be looked at as one row: …"""

LONGER = 4
"""… they have so many times as many cells. 3×3×3 windows on 32×56×56 took 1.8 times as long in three strips."""

TOGETHER = 16
"""Outputs whose winners are found together, …"""

AT_ONCE = 512
"""… and before they are added."""

SHIFT = 16
"""A tap's number along an axis is a product with a fraction of so many bits."""

NOWHERE = -(1 << 40)
"""Where the winner of a window is that has none."""

OVERLAP = 16
"""From so many windows over a cell of a row on, winners of neighbours are the same so often that a jump for each pays."""

HEAD = 17
"""Numbers before the lists."""

APART = 14
"""Which of them says how many outputs are between the first ones of two planes."""


def scatter_plan(geometry: Geometry, spatial: tuple[int, ...], channels: int) -> Array:
    codes = codes_of(geometry, spatial)
    short = codes.axes[-1].out * channels < SHORT
    limits = winner_strips.UNCUT * (LONGER if short else 1), winner_strips.SPANS, FLAT
    listed = math.prod(axis.out for axis in codes.axes) * channels
    return kept(codes.size + (listed if listed <= FLAT else 0), geometry, spatial, channels, *limits)


def made(geometry: Geometry, spatial: tuple[int, ...], channels: int, uncut: int, spans: int, flat: int) -> Array:
    """HEAD numbers, where the windows of each row and of each column begin, how far from there each tap is, and the strips."""
    codes = codes_of(geometry, spatial)
    p = plan(geometry, spatial)
    axes = [*codes.axes, *([channel_axis(channels)] if channels > 1 else [])]
    sizes = pitches([axis.n for axis in axes])
    strips = input_strips(p, spatial, uncut // channels, spans)
    rows, columns, offsets = np.zeros(p.outer, dtype=np.int64), np.zeros(p.out, dtype=np.int64), np.zeros(0, dtype=np.int64)
    if not codes.are_places:
        begins = [axis.first * pitch for axis, pitch in zip(axes, sizes, strict=True)]
        outer = 0 if len(strips) == 1 and p.plane_out * channels <= flat else len(spatial) - 1
        rows, columns = outer_sum(begins[:outer]), outer_sum(begins[outer:])
        offsets = outer_sum([np.arange(axis.taps) * axis.step * pitch for axis, pitch in zip(axes, sizes, strict=True)])
    span = int(columns.max(initial=0) + offsets.max(initial=0)) + 1
    if codes.none >= 0:  # then it is within no strip
        offsets, span = np.concatenate([offsets, np.full(codes.none + 1 - len(offsets), NOWHERE)]), -NOWHERE
    if len(strips) == 1:
        strips = np.array([[0, p.plane_in // p.width, 0, len(rows), 0, 0]])
    head = [len(rows), len(columns), p.width * channels, p.plane_in * channels, span, len(offsets), len(strips)]
    head += [int(columns.min(initial=0)), *(factors(axes, sizes) if codes.dtype == np.uint8 else NO_FACTORS)]
    reach = int(offsets.max(initial=0)) + 1 if len(axes) == 1 and codes.none < 0 and not codes.are_places else 0
    last = codes.axes[-1]
    head += [p.plane_out * channels, reach, int(channels == 1 and last.taps > OVERLAP * max(last.stride, 1))]
    return np.concatenate([head, rows, halves(columns), offsets, strips.ravel()]).astype(np.int64)


kept = keep(made)


def with_apart(plan: Array, apart: int) -> Array:
    """The plan for planes whose outputs overlap."""
    found = plan.copy()
    found[APART] = apart
    return found


NO_FACTORS = [0] * 6


def factors(axes: list[Axis], sizes: list[int]) -> list[int]:
    """(1, a, m, b, n, c): tap t is a·t + b·(t·m >> SHIFT) + c·(t·n >> SHIFT) cells from where its window begins.

    Zeros if windows have more than one tap along more than three axes.
    """
    several = [(axis.taps, axis.step * pitch) for axis, pitch in zip(axes, sizes, strict=True) if axis.taps > 1]
    if len(several) > 3:
        return NO_FACTORS
    (_, outer), (middle_taps, middle), (taps, inner) = [(1, 0)] * (3 - len(several)) + several
    parts = [(1 << SHIFT) // size + 1 for size in (taps, taps * middle_taps)]
    return [1, inner, parts[0], middle - taps * inner, parts[1], outer - middle_taps * middle]


def halves(numbers: Array) -> Array:
    """Two 32-bit numbers in one, as they lie in memory."""
    return np.concatenate([numbers, np.zeros(len(numbers) % 2, dtype=np.int64)]).astype(np.int32).view(np.int64)


@intrinsic
def narrow(typing: Any, a: Any) -> Any:
    """The address of 32-bit numbers."""
    target = types.CPointer(types.int32)

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.bitcast(args[0], context.get_value_type(target))

    return target(a), emit


@intrinsic
def locate(typing: Any, codes: Any, begins: Any, factors: Any, places: Any, count: Any) -> Any:
    """places[:count] = where the winners are; TOGETHER at a time. `factors` are those of the plan."""

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        e = Emitter(context, builder, types.int32)
        v, few = Vec(types.int32, TOGETHER), Vec(types.uint8, TOGETHER)
        whole = llvm(v)
        a, m, b, n, c = (
            spread(builder, builder.trunc(e.cell((factors, args[2]), e.int(k)), whole.element), TOGETHER) for k in range(5)
        )
        shift = spread(builder, whole.element(SHIFT), TOGETHER)
        with e.steps(e.int(0), args[4], e.int(TOGETHER)) as j:
            tap = builder.zext(read(context, builder, codes, args[0], j, few), whole)
            rows, planes = (builder.mul(builder.lshr(builder.mul(tap, part), shift), by) for part, by in ((m, b), (n, c)))
            place = builder.add(builder.add(builder.mul(tap, a), rows), planes)
            place = builder.add(place, read(context, builder, begins, args[1], j, v))
            builder.store(place, e.place((places, args[3]), j, v)).align = 4
        return context.get_dummy_value()

    return types.void(codes, begins, factors, places, types.intp), emit


@helper
def add_runs(cells: Any, places: Any, paid: Any, count: int) -> None:
    """cells[places] += paid, where neighbours often have one place; there is at least one."""
    place = places[0]
    total = cells[place]
    for k in range(count):
        if places[k] != place:
            cells[place] = total
            place = places[k]
            total = cells[place]
        total += paid[k]
    cells[place] = total


@helper
def scatter_row(codes: Any, g: Any, out: int, cells: Any, line: Any) -> None:
    """The gradients of a row of outputs to their winners; `cells` are counted from where the row of windows begins."""
    done = 0
    if line.factors[0]:
        done = out // TOGETHER * TOGETHER
        for j in range(0, done, AT_ONCE):
            count, paid = min(AT_ONCE, done - j), later(g, j)
            locate(later(codes, j), later(line.begins, j), later(line.factors, 1), line.places, count)
            if line.overlap:
                add_runs(cells, line.places, paid, count)
            else:
                for k in range(count):
                    cells[line.places[k]] += paid[k]
    for j in range(done, out):
        cells[line.begins[j] + line.offsets[codes[j]]] += g[j]


@helper
def scatter_some(codes: Any, g: Any, out: int, cells: Any, own: int, end: int, begin: int, line: Any) -> None:
    """The same to the winners from `own` to `end` only; a cell gets 0 for the others, as nobody could foresee a jump."""
    for j in range(out):
        place, paid = begin + line.begins[j] + line.offsets[codes[j]], g[j]
        inside = (place >= own) & (place < end)
        cells[place if inside else own] += paid if inside else type(paid)(0)


@helper
def scatter_section(codes: Any, g: Any, out: int, cells: Any, end: int, reach: int, line: Any) -> None:
    """A row of which the first and the last windows may reach out of the cells, which are `end`."""
    low, high = 0, out
    while low < out and line.begins[low] < 0:
        low += 1
    while high > low and line.begins[high - 1] + reach > end:
        high -= 1
    scatter_some(codes, g, low, cells, 0, end, 0, line)
    scatter_row(later(codes, low), later(g, low), high - low, cells, line_from(line, low))
    scatter_some(later(codes, high), later(g, high), out - high, cells, 0, end, 0, line_from(line, high))


@helper
def line_from(line: Any, first: int) -> Any:
    """The windows from one on."""
    return Line(later(line.begins, first), line.offsets, line.factors, line.places, line.overlap)


@helper
def scatter_places(codes: Any, g: Any, out: int, cells: Any, own: int, end: int) -> None:
    """The same, where codes are places."""
    for j in range(out):
        place = np.int64(codes[j])
        if own <= place < end:
            cells[place] += g[j]


class Line(NamedTuple):
    """Where the windows of a row begin, how far from there each tap is, the same as `factors`, and room for AT_ONCE places.

    `overlap` says that neighbours often have one winner.
    """

    begins: Any
    offsets: Any
    factors: Any
    places: Any
    overlap: int


@unrolled_kernel
def winner_scatter(codes: Any, g: Any, gx: Any, plan: Any, first: int, last: int) -> None:
    """gx = each gradient at its winner; strips `first` to `last` of all planes."""
    head, space = address(plan), np.empty(AT_ONCE, np.int32)
    rows, out, width, plane, span, taps, count, least = head[0], head[1], head[2], head[3], head[4], head[5], head[6], head[7]
    row_begins = later(head, HEAD)
    begins = later(row_begins, rows)
    offsets = later(begins, (out + 1) // 2)
    line = Line(narrow(begins), offsets, later(head, 8), address(space), head[16])
    strips = later(offsets, taps)
    codes, g, gx = address(codes), address(g), address(gx)
    for job in range(first, last):
        p, strip = job // count, strip_of(strips, job % count)
        cells, own, end = later(gx, p * plane), strip.first * width, strip.last * width
        clear(cells, own, end)
        for row in range(strip.low, strip.high):
            at, begin = p * head[APART] + row * out, row_begins[row]
            some, more = later(codes, at), later(g, at)
            if taps == 0:
                scatter_places(some, more, out, cells, own, end)
            elif head[15] and count == 1:
                scatter_section(some, more, out, cells, end, head[15], line)
            elif (count == 1 and span < -NOWHERE) or (begin + least >= own and begin + span <= end):
                scatter_row(some, more, out, later(cells, begin), line)
            else:
                scatter_some(some, more, out, cells, own, end, begin, line)
    alive(space)
