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
from windowgrad.kernels.pool.packed import Array, Line
from windowgrad.kernels.pool.plan import Plan
from windowgrad.kernels.runtime.jit import helper
from windowgrad.kernels.vector.ops import address, lanes, later, load, load_part, splat, store, store_part
from windowgrad.kernels.vector.shuffle import even, odd


class Memory(NamedTuple):
    """How a row stands in memory: what follows from the windows along it alone. Rows are whole vectors, with room behind."""

    pitch: int
    """Numbers of a row of outputs."""
    phase: int
    """Numbers of one phase of a padded row."""
    offset: Array
    """Where the cells of each tap start in a row that is split into phases."""
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
    name = np.arange(taps, dtype=np.int64)
    first = np.arange(out) * stride - before  # where tap 0 of each window stands
    skipped = np.maximum(0, -(first // step))
    skipped[(skipped >= taps) | (first + skipped * step >= width)] = -1
    skipped = np.repeat(skipped, run)
    edges = np.flatnonzero(skipped)
    return Memory(whole(out * run), phase, name * step % stride * phase + name * step // stride * run, edges, skipped[edges])


kept = keep(made)


# --- as one array ------------------------------------------------------------------------------------------------


class Entries(NamedTuple):
    """Rows in memory: entry k begins at offset[k] and is called name[k]."""

    offset: Any
    name: Any


class Edges(NamedTuple):
    """The windows whose first tap is no cell, and which tap of theirs is the first that is one; −1 if none is."""

    window: Any
    tap: Any
    number: int


class Found(NamedTuple):
    """Where names of winners go: a plane of them has `plane` entries, row r begins at rows[r]; `none` says that there is none.

    Window j of a row begins `before` + j · `stride` cells after it; 0 where names are those of taps.
    """

    plane: int
    none: int
    before: int
    stride: int
    rows: Any


class WinnerPlan(NamedTuple):
    """Planes of `plane` cells and `rows` output rows, cut into strips; the windows along a row; the memory of rows."""

    rows: int
    plane: int
    line: Line
    pitch: int
    phase: int
    ring: int
    """So many rows are kept, a power of two."""
    listed: int
    """The most rows that one output row sees."""
    strips: Any
    strip_count: int
    ptr: Any
    """Output row r sees the rows number[ptr[r]:ptr[r + 1]], which are called name[…]."""
    number: Any
    name: Any
    used: Any
    """Whether an output row sees row i."""
    taps: Entries
    edges: Edges
    found: Found


HEAD = 19
"""Numbers before the lists."""


def packed_rows(p: Plan, strips: Array, lanes: int, names: Names) -> Array:
    """The array for `unpacked_rows`: HEAD numbers, the lists of rows, those of taps and of edges, and the strips."""
    row, numbers = memory(p, lanes), p.rows // p.width
    height = p.plane_in // p.width
    used = np.zeros(height, dtype=np.int64)
    used[numbers] = 1
    listed = int(p.row_cells.max(initial=0))
    head = [p.outer, p.plane_in, *p.line, row.pitch, row.phase, ring_of(p, numbers), listed, len(strips), len(row.edges)]
    head += [names.plane, names.none, names.before, names.stride]
    lists = p.ptr, numbers, names.rows, used, row.offset, names.taps, row.edges, row.initial, names.row_starts
    return np.concatenate([head, *lists, strips.ravel()]).astype(np.int64)


class Names(NamedTuple):
    """What winners are called: the rows that a plan lists, and the taps along a row, whose names are added; see `Found`."""

    rows: Array
    taps: Array
    plane: int
    none: int
    before: int
    stride: int
    row_starts: Array


def ring_of(p: Plan, numbers: Array) -> int:
    """How many rows are kept: those that one output row spans, if none of them is needed again; else all."""
    full = np.flatnonzero(p.row_cells)
    if len(full) == 0:
        return 1
    first, last = numbers[p.ptr[full]], numbers[p.ptr[full + 1] - 1]
    span = int((last - first).max()) + 1 if (np.diff(first) >= 0).all() else p.plane_in // p.width
    return 1 << (span - 1).bit_length()


@helper
def unpacked_rows(packed: Any) -> Any:
    """The plan that `packed_rows` packed; its lists are addresses in the array."""
    head = address(packed)
    rows, plane, taps, strips, edges = head[0], head[1], head[4], head[13], head[14]
    line = Line(head[2], head[3], taps, head[5], head[6], head[7], head[8])
    ptr = later(head, HEAD)
    number = later(ptr, rows + 1)
    name = later(number, ptr[rows])
    used = later(name, ptr[rows])
    offset = later(used, (plane + line.width - 1) // line.width)  # planes of one row may overlap
    tap_name = later(offset, taps)
    window = later(tap_name, taps)
    tap = later(window, edges)
    starts = later(tap, edges)
    found = Found(head[15], head[16], head[17], head[18], starts)
    lists = ptr, number, name, used, Entries(offset, tap_name), Edges(window, tap, edges), found
    return WinnerPlan(rows, plane, line, head[9], head[10], head[11], head[12], later(starts, rows), strips, *lists)


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
    line, length = plan.line, plan.phase
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
