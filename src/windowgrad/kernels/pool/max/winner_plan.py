"""What `winner_rows` is told besides its arrays: how a row stands in its memory, where its taps are, which rows see which.

As in `packed`, all of it crosses from Python as one array, and a kernel makes named records of it. A row is kept by phases:
cells a stride apart stand together, so that a tap of all windows is one run of cells. With stride 2:

    row       c0 c1 c2 c3 c4 c5 c6 c7            tap 0 of windows 0, 1, 2, … is  c0 c2 c4 …
    phases    c0 c2 c4 c6 | c1 c3 c5 c7          tap 1                           c1 c3 c5 …
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from windowgrad.caches import keep
from windowgrad.kernels.pool.max.winner_strips import Strip
from windowgrad.kernels.pool.packed import Array, Line
from windowgrad.kernels.pool.plan import Plan
from windowgrad.kernels.runtime.jit import helper
from windowgrad.kernels.vector.ops import address, lanes, later, load, load_part, splat, store, store_part
from windowgrad.kernels.vector.shuffle import even, mixed_high, mixed_low, odd


class Sizes(NamedTuple):
    """How many numbers rows take in memory. All are whole vectors, with room for what runs past the end."""

    pitch: int
    """A row of outputs."""
    phase: int
    """One phase of a padded row."""
    slack: int
    """How far beside its windows a row is looked at when it is spread."""
    gradient: int
    """One phase of a row of the gradient."""


class Memory(NamedTuple):
    """How a row stands in memory: what follows from the windows along it alone."""

    sizes: Sizes
    offset: Array
    """Where the cells of each tap start in a row that is split into phases."""
    back_phase: Array
    """The cells of phase p can be the taps back_name[back_phase[p]:back_phase[p + 1]] …"""
    back_offset: Array
    """… of the windows that stand so far from them."""
    back_name: Array
    edges: Array
    """The windows whose first tap is no cell, …"""
    initial: Array
    """… and which tap of theirs is the first that is one; −1 if none is."""


def memory(p: Plan, lanes: int) -> Memory:
    return kept(p.out, p.line, lanes)


def made(line: Line, lanes: int) -> Memory:
    taps, stride, run = line.taps, line.stride, line.run
    width, out, before, step = line.width // run, line.out // run, line.before // run, line.step // run  # in cells

    def whole(cells: int) -> int:
        return -(-cells // lanes) * lanes

    phase = whole(max(before + width, (out - 1) * stride + (taps - 1) * step + 1) // stride * run + run) + 2 * lanes
    slack = whole(((taps - 1) * step + before + width) // stride * run) + 2 * lanes
    name = np.arange(taps, dtype=np.int64)
    back = [[t for t in range(taps) if (p + before - t * step) % stride == 0] for p in range(stride)]
    back_name = np.array([t for entry in back for t in entry], dtype=np.int64)
    phases = np.repeat(np.arange(stride), [len(entry) for entry in back])
    first = np.arange(out) * stride - before  # where tap 0 of each window stands
    skipped = np.maximum(0, -(first // step))
    skipped[(skipped >= taps) | (first + skipped * step >= width)] = -1
    skipped = np.repeat(skipped, run)
    edges = np.flatnonzero(skipped)
    return Memory(
        Sizes(whole(out * run), phase, slack, whole(-(-width // stride) * run)),
        name * step % stride * phase + name * step // stride * run,
        np.cumsum([0, *map(len, back)], dtype=np.int64),
        (phases + before - back_name * step) // stride * run,
        back_name,
        edges,
        skipped[edges],
    )


kept = keep(made)


# --- as one array ------------------------------------------------------------------------------------------------


class Most(NamedTuple):
    """The most rows that a strip sees, that it has of the output, and that one row sees or is seen by."""

    cells: int
    outputs: int
    listed: int


class Lists(NamedTuple):
    """Row r sees, or is seen by, the rows number[ptr[r]:ptr[r + 1]]."""

    ptr: Any
    number: Any


class Entries(NamedTuple):
    """Rows in memory: entry k, from `low` to `high`, begins at offset[k] and is called name[k]."""

    offset: Any
    name: Any
    low: int
    high: int


class Edges(NamedTuple):
    """The windows whose first tap is no cell, and which tap of theirs is the first that is one; −1 if none is."""

    window: Any
    tap: Any
    number: int


class WinnerPlan(NamedTuple):
    """Planes of `plane` cells and `rows` output rows, cut into strips; the windows along a row; the memory of rows."""

    rows: int
    plane: int
    strips: Any
    strip_count: int
    most: Most
    seen: Lists
    """By each output row, of input rows."""
    seers: Lists
    """Of each input row, output rows."""
    line: Line
    sizes: Sizes
    taps: Entries
    phases: Any
    """The cells of phase p can be won by the entries phases[p] to phases[p + 1] of `back`: …"""
    back: Entries
    """… taps of windows that stand `offset` from them."""
    edges: Edges


HEAD = 18
"""Numbers before the lists."""


def packed_rows(p: Plan, strips: Array, lanes: int) -> Array:
    """The array for `unpacked_rows`: HEAD numbers, the two lists of rows, those of taps and of edges, and the strips."""
    longest = max(int(p.row_cells.max(initial=0)), int(np.diff(p.back_ptr).max(initial=0)))
    each: Any = Strip(*strips.T)
    most = Most(int((each.bottom - each.top).max()), int((each.high - each.low).max()), longest)
    row = memory(p, lanes)
    head = [p.outer, p.plane_in, *p.line, *row.sizes, *most, len(strips), len(row.edges)]
    rows = p.ptr, p.rows // p.width, p.back_ptr, p.back_rows // p.out
    taps = row.offset, np.arange(p.kernel), row.back_phase, row.back_offset, row.back_name
    return np.concatenate([head, *rows, *taps, row.edges, row.initial, strips.ravel()])


@helper
def unpacked_rows(packed: Any) -> Any:
    """The plan that `packed_rows` packed; its lists are addresses in the array."""
    head = address(packed)
    rows, plane, taps, stride, strips, edges = head[0], head[1], head[4], head[5], head[16], head[17]
    line = Line(head[2], head[3], taps, stride, head[6], head[7], head[8])
    sizes, most = Sizes(head[9], head[10], head[11], head[12]), Most(head[13], head[14], head[15])
    ptr = later(head, HEAD)
    seen = Lists(ptr, later(ptr, rows + 1))
    back_ptr, height = later(seen.number, ptr[rows]), plane // line.width
    seers = Lists(back_ptr, later(back_ptr, height + 1))
    offset = later(seers.number, back_ptr[height])
    phases = later(offset, 2 * taps)
    back_offset = later(phases, stride + 1)
    window = later(back_offset, 2 * taps)
    tap = later(window, edges)
    entries, back = Entries(offset, later(offset, taps), 0, taps), Entries(back_offset, later(back_offset, taps), 0, taps)
    lists, window_edges = later(tap, edges), Edges(window, tap, edges)
    return WinnerPlan(rows, plane, lists, strips, most, seen, seers, line, sizes, entries, phases, back, window_edges)


# --- rows in memory ----------------------------------------------------------------------------------------------


@helper
def copy_run(x: Any, at: int, y: Any, to: int, run: int) -> None:
    """y[to:to + run] = x[at:at + run]; nothing else is read or written."""
    n, c = lanes(x), 0
    while c + n <= run:
        store(y, to + c, load(x, at + c))
        c += n
    if c < run:
        store_part(y, to + c, load_part(x, at + c, run - c, splat(x, 0)), run - c)


@helper
def split_row(x: Any, at: int, row: Any, plan: Any, least: Any) -> None:
    """A row of x into its phases."""
    line, length = plan.line, plan.sizes.phase
    width, before, run = line.width, line.before, line.run
    n, j = lanes(x), 0
    if line.stride == 1:
        while j + n <= width:
            store(row, before + j, load(x, at + j))
            j += n
        if j < width:
            store(row, before + j, load_part(x, at + j, width - j, splat(row, least)))
    elif run > 1:
        for c in range(width // run):
            place = before // run + c
            copy_run(x, at + c * run, row, place % 2 * length + place // 2 * run, run)
    else:
        evens = before // 2 + before % 2 * length  # where even cells go, and odd ones
        odds = (before + 1) // 2 + (before + 1) % 2 * length
        while j + 2 * n <= width:
            one, two = load(x, at + j), load(x, at + j + n)
            store(row, evens + j // 2, even(one, two))
            store(row, odds + j // 2, odd(one, two))
            j += 2 * n
        if j < width:
            rest = splat(row, least)
            one, two = load_part(x, at + j, width - j, rest), load_part(x, at + j + n, width - j - n, rest)
            store(row, evens + j // 2, even(one, two))
            store(row, odds + j // 2, odd(one, two))


@helper
def join_row(phases: Any, gx: Any, at: int, plan: Any) -> None:
    """A row of gx from its phases."""
    width, run, length = plan.line.width, plan.line.run, plan.sizes.gradient
    n, j = lanes(gx), 0
    if plan.line.stride == 1:
        while j + n <= width:
            store(gx, at + j, load(phases, j))
            j += n
        if j < width:
            store_part(gx, at + j, load(phases, j), width - j)
    elif run > 1:
        for c in range(width // run):
            copy_run(phases, c % 2 * length + c // 2 * run, gx, at + c * run, run)
    else:
        while j + 2 * n <= width:
            one, two = load(phases, j // 2), load(phases, length + j // 2)
            store(gx, at + j, mixed_low(one, two))
            store(gx, at + j + n, mixed_high(one, two))
            j += 2 * n
        if j < width:
            one, two = load(phases, j // 2), load(phases, length + j // 2)
            store_part(gx, at + j, mixed_low(one, two), width - j)
            store_part(gx, at + j + n, mixed_high(one, two), width - j - n)


@helper
def filled(a: Any, value: Any) -> Any:
    for i in range(len(a)):
        a[i] = value
    return a
