"""The first winner of every window and its name, where channels stand last: a vector of channels at a time.

A cell is a run of channels (`layout`, "alone"), and so is an output. All its lanes see the same cells, so a tap is one load,
one comparison and two selections, of the value and of the name; nothing is shuffled, and results stand channels last as well:

    cells     c c c c   c c c c   c c c c        a window of two cells: its taps are compared in row-major order,
    names        0         1         2           by > alone, so the first of equals stays
    outputs   v v v v   v v v v                  names are as wide as the cells until they are stored

A name is a place of 64 bits (`return_indices`), or the number of the tap in one byte or two (`winner_codes`).

For windows whose taps are not many times the cells of a plane (`looks_at_taps`): each tap is read for each output. Of others,
`find` reduces the rows of a plane before its columns. Numbers of taps of windows that overlap and are at most 2 cells apart are
found that way too (`looks_again`), for there the rows need no copy, unless they come from memory, of which lines are asked for
ahead: 3×3 windows with a stride of 2 on 32×112×112×64 take 2.9 ms tap by tap and 4.6 by rows; 2×2 windows 1.9, else 3.1.

Measured on float32, two threads. Places, against a copy to channels first: 2×2 s2 on 1×56×56×64 takes 0.05 of the time, on
32×14×14×128 0.13. Numbers of taps, against every cell as a row of its own: 4×4 s4 on 2×60×60×64 0.36, 9×9 s3 0.61, one bin
0.17, 4×4 s4 on 1×200×200×3 0.25; against reduced rows: 2×2 s2 on 2×60×60×64 0.69, but 3×3 s2 as long, dilated 3×3 1.3 times as
long, 5×5 s1 2.5 times.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numba.extending import intrinsic

from windowgrad.kernels.pool.fold_rows import CACHE, ahead_of, fresh_rows
from windowgrad.kernels.pool.max.winner_codes import HUGE
from windowgrad.kernels.pool.packed import rows_of, unpacked
from windowgrad.kernels.pool.plan import Plan
from windowgrad.kernels.pool.row_pieces import fill
from windowgrad.kernels.runtime.jit import helper, kernel
from windowgrad.kernels.vector.half import cells
from windowgrad.kernels.vector.ops import address, beats, lanes, later, load, load_part, select, splat, store, store_part
from windowgrad.kernels.vector.registers import fetch_line
from windowgrad.kernels.vector.shuffle import converted
from windowgrad.kernels.vector.types import Vec

Array = np.ndarray[Any, Any]

TAPS = 24
"""So many times the cells and the outputs of a plane may its taps be."""

PARTS = 8
"""Output rows of a call whose channels are not cut: fewer are cut into groups of channels, for threads to share."""

GROUP = 32
"""Channels of such a group."""

LEAST = 4
"""Bytes that a cell has, at least."""

AHEAD = 1024
"""How many numbers before they are compared the lines of an array are asked for that stays in no cache."""


def looks_at_taps(p: Plan) -> bool:
    """Whether the winners of planes whose channels stand last may be found tap by tap."""
    return p.plane_in < HUGE and taps_of(p) <= TAPS * (p.plane_in + p.plane_out)


def looks_again(p: Plan, cells: int) -> bool:
    """Whether more taps are looked at than a plane has cells, as windows overlap, while all `cells` stay in a cache or lines of
    memory are not asked for ahead; else it is the memory that is waited for.
    """
    made = cells // max(p.plane_in, 1) * p.plane_out
    foreseen = (cells + made) * LEAST > CACHE and fresh_rows(p.plane_in, p.outer, p.width)
    return taps_of(p) > p.plane_in and not foreseen


def taps_of(p: Plan) -> int:
    """The taps of all windows of a plane."""
    return int(p.row_cells.sum()) * int(p.count.sum())


def channel_groups(p: Plan, planes: int, channels: int) -> tuple[int, int]:
    """(channels of a group, groups)."""
    group = channels if planes * p.outer >= PARTS else GROUP
    return group, max(1, math.ceil(channels / group))


def carried(dtype: Any) -> Array:
    """An empty array of the dtype in which kernels carry names: an integer as wide as the cells."""
    return np.empty(0, np.int32 if dtype.itemsize == 4 else np.int64)


class Names(NamedTuple):
    """What winners are called: the name of tap t of window j in row q is rows[q] + starts[j] + t · step."""

    step: int
    none: int
    starts: Any
    rows: Any


HEAD = 2
"""Numbers before the lists of names."""


def runs_names(p: Plan, names: Any, skip: Array | None) -> Array:
    """The names for `winner_runs`: places if no list says how many taps of each window are before its row."""
    step, starts = (p.step, p.start) if skip is None else (1, skip)
    return np.concatenate([[step, names.none], starts, names.rows]).astype(np.int64)


@helper
def unpacked_names(packed: Any, out: int) -> Any:
    head = address(packed)
    return Names(head[0], head[1], later(head, HEAD), later(head, HEAD + out))


@intrinsic
def as_names(typing: Any, x: Any, found: Any) -> Any:
    """The lanes as integers of the dtype of the address `found`, in a vector that is as much wider or narrower."""
    other = Vec(found.dtype, x.lanes)
    return other(x, found), lambda context, builder, signature, args: converted(builder, args[0], x, other)


@helper
def winner_of_run(x: Any, base: int, rows: Any, windows: Any, names: Any, j: int, channels: int, room: int, like: Any) -> Any:
    """(the greatest of the window, its names) of a vector of channels from `base` on; only `room` of them are read."""
    n, start, pitch = lanes(x), base + windows.start[j] * channels, windows.step * channels
    name = names.rows[rows.low] + names.starts[j]
    at, who = start + windows.places[rows.low] * channels, splat(like, name)
    if room >= n:
        best = load(x, at)
        for q in range(rows.low, rows.high):
            at, name = start + windows.places[q] * channels, names.rows[q] + names.starts[j]
            for _ in range(windows.count[j]):
                cells = load(x, at)
                better = beats(cells, best)
                best, who = select(better, cells, best), select(better, splat(like, name), who)
                at += pitch
                name += names.step
    else:
        best = load_part(x, at, room, splat(x, 0))
        for q in range(rows.low, rows.high):
            at, name = start + windows.places[q] * channels, names.rows[q] + names.starts[j]
            for _ in range(windows.count[j]):
                cells = load_part(x, at, room, splat(x, 0))
                better = beats(cells, best)
                best, who = select(better, cells, best), select(better, splat(like, name), who)
                at += pitch
                name += names.step
    return best, who


@helper
def winners_of_two(x: Any, base: int, rows: Any, windows: Any, names: Any, j: int, channels: int, like: Any, ahead: int) -> Any:
    """The same of two vectors side by side, which share the names; the lines that come `ahead` are asked for."""
    n, start, pitch = lanes(x), base + windows.start[j] * channels, windows.step * channels
    at, whose = start + windows.places[rows.low] * channels, splat(like, names.rows[rows.low] + names.starts[j])
    a, b, other = load(x, at), load(x, at + n), whose
    for q in range(rows.low, rows.high):
        at, name = start + windows.places[q] * channels, names.rows[q] + names.starts[j]
        for _ in range(windows.count[j]):
            one, two, called = load(x, at), load(x, at + n), splat(like, name)
            fetch_line(x, at + ahead)
            better, best = beats(one, a), beats(two, b)
            a, whose = select(better, one, a), select(better, called, whose)
            b, other = select(best, two, b), select(best, called, other)
            at += pitch
            name += names.step
    return a, whose, b, other


@helper
def winners_of_output(
    x: Any,
    base: int,
    y: Any,
    found: Any,
    to: int,
    rows: Any,
    windows: Any,
    names: Any,
    j: int,
    channels: int,
    size: int,
    like: Any,
    wanted: bool,
    ahead: int,
) -> None:
    """The values and the names of so many channels of one output; the last vector may have some of those before it again."""
    n, c = lanes(x), 0
    while c + 2 * n <= size:
        a, one, b, two = winners_of_two(x, base + c, rows, windows, names, j, channels, like, ahead)
        if wanted:
            store(y, to + c, a)
            store(y, to + c + n, b)
        store(found, to + c, as_names(one, found))
        store(found, to + c + n, as_names(two, found))
        c += 2 * n
    while c < size:
        if c + n > size >= n:
            c = size - n
        best, who = winner_of_run(x, base + c, rows, windows, names, j, channels, size - c, like)
        called = as_names(who, found)
        if c + n <= size:
            if wanted:
                store(y, to + c, best)
            store(found, to + c, called)
        else:
            if wanted:
                store_part(y, to + c, best, size - c)
            store_part(found, to + c, called, size - c)
        c += n


@kernel
def winner_runs(
    x: Any, y: Any, found: Any, like: Any, packed: Any, plan: Any, channels: int, group: int, first: int, last: int
) -> None:
    """The groups `first` to `last` of the channels of all output rows; the groups of a row are one after the other.

    y and found = the value and the name of each winner, 0 and `none` if a window has no cell; y may be empty.
    """
    line, windows, _ = unpacked(plan)
    names, wanted = unpacked_names(packed, line.out), len(y) > 0
    groups, ahead = (channels + group - 1) // group, AHEAD if ahead_of(x, line, windows) > 0 else 0
    x, y, found, like = cells(x), cells(y), address(found), address(like)
    for job in range(first, last):
        row, begin = job // groups, job % groups * group
        p, rows = row // windows.rows, rows_of(windows, row % windows.rows)
        base, size, to = p * windows.plane * channels + begin, min(group, channels - begin), row * line.out * channels + begin
        for j in range(line.out):
            if rows.low < rows.high and windows.count[j] > 0:
                winners_of_output(x, base, y, found, to, rows, windows, names, j, channels, size, like, wanted, ahead)
            else:
                if wanted:
                    fill(y, to, to + size, 0)
                fill(found, to, to + size, names.none)
            to += channels
