"""The first winner of every window, separably: along each row which tap wins, then which of its rows wins each output.

For windows that are alike along the row and 1 or 2 cells apart; `entry.reduces_rows` chooses it, else `winner_search` does it.
Both comparisons are strict and run in order, the last axis first, so the winner is the first in row-major order. The gradient
goes back the same way: an input row collects from the outputs that it won, then each of its cells from the windows along the
row that it won. Nothing is scattered, so all of it runs by vectors, and the cost is the sum of the sides. Before, every output
carried value and place through all taps of its window, and each gradient was added by itself.

A strip of a plane at a time, each row whole (`winner_strips`); how a row stands in memory is said in `winner_plan`:

    rows of the strip      along: the best of the taps, and which       output rows: the best of its rows, and which
    c c c c c c c c   →    v v v v  t t t t                         →    v v v v  r r r r
    c c c c c c c c   →    v v v v  t t t t

`like` has the dtype of names of rows and taps, an integer as wide as x. Rows and taps are compared two or three at a time, so
that a loop over cells has all its addresses and constants before it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from windowgrad.kernels.pool.max.winner_plan import Entries, filled, join_row, split_row, unpacked_rows
from windowgrad.kernels.pool.max.winner_strips import strip_of
from windowgrad.kernels.pool.row_pieces import clear
from windowgrad.kernels.runtime.jit import helper, kernel
from windowgrad.kernels.vector.ops import address, alive, beats, lanes, later, load, load_part_as, select, splat, store

# --- the first greatest ------------------------------------------------------------------------------------------


class Winners(NamedTuple):
    """Addresses of rows of values, and of the names of those who have them."""

    value: Any
    name: Any


@helper
def from_row(winners: Any, at: int) -> Any:
    return Winners(later(winners.value, at), later(winners.name, at))


@helper
def first_of_three(source: Any, entries: Any, k: int, m: int, cells: int, best: Any) -> None:
    """Of the first entry and the entries k and m."""
    a, b, c = entries.offset[0], entries.offset[k], entries.offset[m]
    one, two, three = splat(best.name, entries.name[0]), splat(best.name, entries.name[k]), splat(best.name, entries.name[m])
    j = 0
    while j < cells:
        top, other, last = load(source, a + j), load(source, b + j), load(source, c + j)
        better = beats(other, top)
        top, name = select(better, other, top), select(better, two, one)
        better = beats(last, top)
        store(best.value, j, select(better, last, top))
        store(best.name, j, select(better, three, name))
        j += lanes(source)


@helper
def two_more(source: Any, entries: Any, k: int, m: int, cells: int, best: Any) -> None:
    """Of the best so far and the entries k and m."""
    a, b = entries.offset[k], entries.offset[m]
    one, two = splat(best.name, entries.name[k]), splat(best.name, entries.name[m])
    j = 0
    while j < cells:
        top, name, other, last = load(best.value, j), load(best.name, j), load(source, a + j), load(source, b + j)
        better = beats(other, top)
        top, name = select(better, other, top), select(better, one, name)
        better = beats(last, top)
        store(best.value, j, select(better, last, top))
        store(best.name, j, select(better, two, name))
        j += lanes(source)


@helper
def first_greatest(source: Any, entries: Any, cells: int, best: Any) -> None:
    """best = the greatest of the entries, cell by cell, and the name of the first that has it; there is at least one entry."""
    n = entries.high
    first_of_three(source, entries, min(1, n - 1), min(2, n - 1), cells, best)  # an entry twice is no more than once
    q = 3
    while q < n:
        two_more(source, entries, q, min(q + 1, n - 1), cells, best)
        q += 2


@helper
def best_along(x: Any, base: int, strip: Any, row: Any, plan: Any, least: Any, along: Any) -> None:
    """along = the winners of the windows along the rows of a strip, of those that any window sees."""
    for i in range(strip.top, strip.bottom):
        if plan.seers.ptr[i] < plan.seers.ptr[i + 1]:
            split_row(x, base + i * plan.line.width, row, plan, least)
            best = from_row(along, (i - strip.top) * plan.sizes.pitch)
            first_greatest(row, plan.taps, plan.sizes.pitch, best)
            for e in range(plan.edges.number):  # where no cell is above the least value, the first wins, not the padding before
                at, tap = plan.edges.window[e], plan.edges.tap[e]
                if best.name[at] < tap or tap < 0:
                    best.name[at] = tap


@helper
def entries_of(lists: Any, row: int, first: int, pitch: int, entries: Any) -> Any:
    """The rows that are listed for a row, counted from `first`, as entries of `pitch` numbers each."""
    low = lists.ptr[row]
    count = lists.ptr[row + 1] - low
    for q in range(count):
        entries.name[q] = lists.number[low + q] - first
        entries.offset[q] = entries.name[q] * pitch
    return Entries(entries.offset, entries.name, 0, count)


@helper
def best_rows(along: Any, strip: Any, plan: Any, entries: Any, best: Any) -> None:
    """best = the winners of the output rows of a strip among its rows, which are counted from `top`."""
    pitch = plan.sizes.pitch
    for o in range(strip.low, strip.high):
        if plan.seen.ptr[o] < plan.seen.ptr[o + 1]:
            some = entries_of(plan.seen, o, strip.top, pitch, entries)
            first_greatest(along.value, some, pitch, from_row(best, (o - strip.low) * pitch))


@kernel
def winner_rows(x: Any, y: Any, found: Any, least: Any, like: Any, packed: Any, first: int, last: int) -> None:
    """y and found = the value and the place of each winner in its plane, 0 and −1 if there is none.

    Strips `first` to `last` of all planes.
    """
    plan = unpacked_rows(packed)
    line, most, pitch, seen = plan.line, plan.most, plan.sizes.pitch, plan.seen
    row = filled(np.empty(line.stride * plan.sizes.phase, x.dtype), least)
    values, taps = np.empty(most.cells * pitch, x.dtype), np.empty(most.cells * pitch, like.dtype)
    tops, rows = np.empty(most.outputs * pitch, x.dtype), np.empty(most.outputs * pitch, like.dtype)
    offsets, names = np.empty(most.listed, np.int64), np.empty(most.listed, np.int64)
    spaces = row, values, taps, tops, rows, offsets, names
    x, y, found, cells = address(x), address(y), address(found), address(row)
    along, best = Winners(address(values), address(taps)), Winners(address(tops), address(rows))
    entries = Entries(address(offsets), address(names), 0, most.listed)
    for job in range(first, last):
        p, strip = job // plan.strip_count, strip_of(plan.strips, job % plan.strip_count)
        best_along(x, p * plan.plane, strip, cells, plan, least, along)
        best_rows(along, strip, plan, entries, best)
        for o in range(strip.low, strip.high):
            at, won, some = (
                (p * plan.rows + o) * line.out,
                from_row(best, (o - strip.low) * pitch),
                seen.ptr[o] < seen.ptr[o + 1],
            )
            for j in range(line.out):
                t = along.name[won.name[j] * pitch + j] if some else -1
                row_start = (won.name[j] + strip.top) * line.width
                found[at + j] = row_start + j * line.stride - line.before + t * line.step if t >= 0 else -1
                y[at + j] = won.value[j]
                if t < 0:
                    y[at + j] = 0
    alive(spaces)


# --- backwards: the sum of what was won --------------------------------------------------------------------------


@helper
def pay_one(who: Any, amount: Any, entries: Any, k: int, cells: int, source: Any, total: Any) -> None:
    a, one = entries.offset[k], splat(who, entries.name[k])
    j = 0
    while j < cells:
        paid = load(source, j)
        store(total, j, select(load(who, a + j) == one, paid + load(amount, a + j), paid))
        j += lanes(total)


@helper
def pay_two(who: Any, amount: Any, entries: Any, k: int, cells: int, source: Any, total: Any) -> None:
    a, b, one, two = entries.offset[k], entries.offset[k + 1], splat(who, entries.name[k]), splat(who, entries.name[k + 1])
    j = 0
    while j < cells:
        paid = load(source, j)
        paid = select(load(who, a + j) == one, paid + load(amount, a + j), paid)
        store(total, j, select(load(who, b + j) == two, paid + load(amount, b + j), paid))
        j += lanes(total)


@helper
def winnings(who: Any, amount: Any, entries: Any, cells: int, zeros: Any, total: Any) -> None:
    """total = the sum over the entries k of amount[offset[k]:] where who[offset[k]:] is name[k].

    `zeros` is a row of zeros. With no entries, total stays as it is.
    """
    q, source = entries.low, zeros
    while q < entries.high:
        if q + 2 <= entries.high:
            pay_two(who, amount, entries, q, cells, source, total)
        else:
            pay_one(who, amount, entries, q, cells, source, total)
        q, source = q + 2, total


class Sums(NamedTuple):
    """Rows in which winnings are added up, and behind each a row of zeros: those of an input row, and those of its phases."""

    row: Any
    zeros: Any
    phases: Any
    no_phase: Any


@helper
def pay_rows(best: Any, along: Any, gradient: Any, strip: Any, plan: Any, entries: Any, sums: Any, gx: Any) -> None:
    """gx = what the rows that a strip owns have won; gx is the address of its plane."""
    pitch, length, width = plan.sizes.pitch, plan.sizes.gradient, plan.line.width
    for i in range(strip.first, strip.last):
        some = entries_of(plan.seers, i, strip.low, pitch, entries)
        if some.high == 0:
            clear(gx, i * width, (i + 1) * width)
            continue
        for q in range(some.high):
            some.name[q] = i - strip.top
        winnings(best.name, gradient, some, pitch, sums.zeros, sums.row)
        taps = later(along.name, (i - strip.top) * pitch)
        for phase in range(plan.line.stride):
            back = Entries(plan.back.offset, plan.back.name, plan.phases[phase], plan.phases[phase + 1])
            winnings(taps, sums.row, back, length, sums.no_phase, later(sums.phases, phase * length))
        join_row(sums.phases, gx, i * width, plan)


@kernel
def winner_rows_back(x: Any, g: Any, gx: Any, least: Any, like: Any, packed: Any, first: int, last: int) -> None:
    """Each gradient to its winner; strips `first` to `last` of all planes, gx is new."""
    plan = unpacked_rows(packed)
    line, most, pitch, slack, length = plan.line, plan.most, plan.sizes.pitch, plan.sizes.slack, plan.sizes.gradient
    row, n = filled(np.empty(line.stride * plan.sizes.phase, x.dtype), least), lanes(x)
    values, taps = np.empty(most.cells * pitch, x.dtype), np.empty(most.cells * pitch + 2 * slack, like.dtype)
    tops, rows = np.empty(most.outputs * pitch, x.dtype), np.empty(most.outputs * pitch, like.dtype)
    gradients, won = np.empty(most.outputs * pitch, gx.dtype), filled(np.empty(2 * (pitch + slack), gx.dtype), 0)
    by_phase = filled(np.empty((line.stride + 1) * length, gx.dtype), 0)
    offsets, names = np.empty(most.listed, np.int64), np.empty(most.listed, np.int64)
    spaces = row, values, taps, tops, rows, gradients, won, by_phase, offsets, names
    x, g, gx, cells, gradient = address(x), address(g), address(gx), address(row), address(gradients)
    along, best = Winners(address(values), later(address(taps), slack)), Winners(address(tops), address(rows))
    total, phases = later(address(won), slack), address(by_phase)
    sums = Sums(total, later(total, pitch + slack), phases, later(phases, line.stride * length))
    entries = Entries(address(offsets), address(names), 0, most.listed)
    for job in range(first, last):
        p, strip = job // plan.strip_count, strip_of(plan.strips, job % plan.strip_count)
        best_along(x, p * plan.plane, strip, cells, plan, least, along)
        best_rows(along, strip, plan, entries, best)
        for o in range(strip.low, strip.high):
            at, to, j = (p * plan.rows + o) * line.out, (o - strip.low) * pitch, 0
            while j < line.out:
                store(gradient, to + j, load_part_as(g, at + j, min(line.out - j, n), gradient))
                j += n
        pay_rows(best, along, gradient, strip, plan, entries, sums, later(gx, p * plan.plane))
    alive(spaces)
