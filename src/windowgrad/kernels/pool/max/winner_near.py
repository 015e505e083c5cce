"""The gradient of small windows that are a stride apart: each cell adds up the outputs near it that it won, by vectors.

A cell is a tap of a few windows only, and which these are follows from its row and its column: lists of (output, number of the
tap), in the order of the windows, one for each row of cells. So the sums are those of `winner_scatter`, in the same order, but
nothing is cleared before, and no addition waits for another one in memory. Two kernels:

`winner_triples` (`are_triples`), channels first: three taps and a stride of 2 along the row. Cells stand in pairs; the first of
a pair is the last tap of the window before and the first tap of its own, the second is the middle tap of its own window:

    windows     |0 1 2|                          codes       c d …      first cells     g where c is 2, and h where d is 0
                    |0 1 2|                      gradients   g h …      second cells    h where d is 1
    cells        . . [a b] . .

`winner_runs` (`are_near`), channels last: a cell is a run of channels, and so are the codes of an output, so nothing is
interleaved, and windows may have any number of taps.

Measured, 3×3 with a stride of 2 on 32×64×112×112, where memory is waited for: 3.5 ms beside 5.0 of `winner_scatter`, channels
last 4.8 beside 8.5. On one image, which stays in the cache, both take about the same. The beginning of a row costs 60 cycles
and that of a cell 40, so planes of 28×28 took three times as long as scattered, and few channels would (`winner_codes.LONG`).
Entries that were read again in every step, with a loop over them, took 1.3 times as long.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numba import types
from numba.extending import intrinsic

from windowgrad.caches import keep
from windowgrad.geometry import Geometry
from windowgrad.kernels.pool.max.winner_codes import Array, Axis, codes_of, row_numbers
from windowgrad.kernels.pool.plan import plan
from windowgrad.kernels.pool.row_pieces import clear
from windowgrad.kernels.runtime.jit import helper, unrolled_kernel
from windowgrad.kernels.vector.loops import Emitter
from windowgrad.kernels.vector.ops import address, alive, lanes, later
from windowgrad.kernels.vector.types import Vec, constant, lane_order, llvm, read, spread

HEAD = 7
"""Numbers before the lists."""


# --- the plan ----------------------------------------------------------------------------------------------------


def near_plan(geometry: Geometry, spatial: tuple[int, ...]) -> Array:
    """(rows of cells, cells of a row, outputs of a row, outputs, padding before rows, entries, windows of a column at most).

    Then which entries each row has, and of each entry where its output row begins and the number of its first tap; the same for
    each column, whose entries are single outputs.
    """
    return kept(plan(geometry, spatial).size, geometry, spatial)


def made(geometry: Geometry, spatial: tuple[int, ...]) -> Array:
    p, codes, tables = plan(geometry, spatial), codes_of(geometry, spatial), geometry.tables(spatial)
    last, sizes = codes.axes[-1], [axis.taps for axis in codes.axes]
    taps = row_numbers(tables[:-1], sizes[:-1])[np.argsort(p.rows, kind="stable")] * last.taps
    column_ptr, outputs, numbers = seeing(last)
    most = int(np.diff(column_ptr).max(initial=0))
    head = [p.plane_in // p.width, p.width, p.out, p.plane_out, last.before, len(taps), most]
    lists = p.back_ptr, p.back_rows, taps, column_ptr, outputs, numbers
    return np.concatenate([head, *lists]).astype(np.int64)


kept = keep(made)


def seeing(axis: Axis) -> tuple[Array, Array, Array]:
    """(ptr, outputs, taps): cell i is tap taps[e] of output outputs[e], for each e from ptr[i] to ptr[i + 1]."""
    taps = np.arange(axis.taps)
    cells = (axis.first[:, None] + taps * axis.step).ravel()
    real = np.flatnonzero((cells >= 0) & (cells < axis.n))
    order = real[np.argsort(cells[real], kind="stable")]
    ptr = np.zeros(axis.n + 1, dtype=np.int64)
    np.cumsum(np.bincount(cells[real], minlength=axis.n), out=ptr[1:])
    return ptr, order // axis.taps, order % axis.taps


# --- sums by vectors -----------------------------------------------------------------------------------------------

COMMON = (1, 2, 4)
"""Numbers of entries that have a loop of their own, in which no entry is read again."""

Sum = Sequence[tuple[int, int]]
"""What is added up: for each window of an entry (how many outputs behind the first of the entry, how many taps behind its)."""


def summing(sums: Sequence[Sum], double: int) -> Any:
    """collect(codes, g, gx, outputs, taps, count, size): gx = the sums of so many cells or pairs of cells, interleaved.

    There are `count` entries. As many cells or pairs as a vector has lanes, or twice as many, are taken at a time; there are
    at least so many.
    """

    @intrinsic
    def collect(typing: Any, codes: Any, g: Any, gx: Any, outputs: Any, taps: Any, count: Any, size: Any) -> Any:
        def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            e = Emitter(context, builder, gx.dtype)
            n = e.n * double
            part, few = Vec(gx.dtype, n), Vec(types.Integer.from_bitwidth(codes.dtype.bitwidth, True), n)
            zeros = [constant(part, 0.0) for _ in sums]

            def entry(k: Any) -> tuple[Any, dict[int, Any]]:
                """Where it begins, and the names of its taps."""
                tap = e.cell((taps, args[4]), k)
                names = {t: builder.trunc(e.add(tap, t), llvm(few).element) for windows in sums for _, t in windows}
                return e.cell((outputs, args[3]), k), {t: spread(builder, name, n) for t, name in names.items()}

            def added(totals: list[Any], at: Any, names: dict[int, Any]) -> list[Any]:
                """The totals, and the gradients whose codes are the names."""
                found = []
                for total, windows in zip(totals, sums, strict=True):
                    for behind, t in windows:
                        won = builder.icmp_signed(
                            "==", read(context, builder, codes, args[0], e.add(at, behind), few), names[t]
                        )
                        paid = read(context, builder, g, args[1], e.add(at, behind), part)
                        total = builder.select(won, builder.fadd(total, paid), total)
                    found.append(total)
                return found

            def put(totals: list[Any], j: Any) -> None:
                for k in range(len(totals)):
                    order = [(i // len(totals)) + n * (i % len(totals)) for i in range(k * n, k * n + n)]
                    mixed = builder.shuffle_vector(totals[0], totals[-1], lane_order(order))
                    place = e.place((gx, args[2]), e.add(e.mul(j, len(totals)), k * n), part)
                    builder.store(mixed, place).align = part.dtype.bitwidth // 8

            def known(number: int) -> None:
                entries = [entry(e.int(k)) for k in range(number)]
                with e.whole_steps(args[6], n) as j:
                    totals = zeros
                    for at, names in entries:
                        totals = added(totals, e.add(at, j), names)
                    put(totals, j)

            def any_number() -> None:
                kept = [e.variable(zero) for zero in zeros]
                with e.whole_steps(args[6], n) as j:
                    for zero, total in zip(zeros, kept, strict=True):
                        builder.store(zero, total)
                    with e.steps(e.int(0), args[5], e.int(1)) as k:
                        at, names = entry(k)
                        for total, found in zip(kept, added([*map(builder.load, kept)], e.add(at, j), names), strict=True):
                            builder.store(found, total)
                    put([*map(builder.load, kept)], j)

            e.by_number(args[5], COMMON, known, any_number)
            return context.get_dummy_value()

        index = types.intp
        return types.void(codes, g, gx, outputs, taps, index, index), emit

    return collect


# --- channels first ------------------------------------------------------------------------------------------------

TRIPLES = [[(0, 2), (1, 0)], [(1, 1)]]
"""The sums of a pair of cells, from the window before them on."""

triples_many, triples_some = summing(TRIPLES, 2), summing(TRIPLES, 1)


@helper
def pay_cell(codes: Any, g: Any, cell: Any, outputs: Any, taps: Any, count: int, place: int, out: int) -> None:
    """One cell, at this place of its padded row."""
    cell[0], own = 0, place // 2
    for entry in range(count):
        at, tap = outputs[entry], taps[entry]
        if place % 2 == 1 and own < out and codes[at + own] == tap + 1:
            cell[0] += g[at + own]
        if place % 2 == 0 and 0 < own <= out and codes[at + own - 1] == tap + 2:
            cell[0] += g[at + own - 1]
        if place % 2 == 0 and own < out and codes[at + own] == tap:
            cell[0] += g[at + own]


@unrolled_kernel
def winner_triples(codes: Any, g: Any, gx: Any, plan: Any, first: int, last: int) -> None:
    """gx = each gradient at its winner; rows of cells `first` to `last` of all planes."""
    head = address(plan)
    rows, width, out, before, entries = head[0], head[1], head[2], head[4], head[5]
    ptr = later(head, HEAD)
    outputs = later(ptr, rows + 1)
    taps = later(outputs, entries)
    n, pairs = lanes(gx), min(out, (before + width) // 2) - 1
    codes, g, gx = address(codes), address(g), address(gx)
    plane, i = first // rows, first % rows
    for row in range(first, last):
        cells, some, more = later(gx, row * width), later(codes, plane * head[3]), later(g, plane * head[3])
        count, seers, names = ptr[i + 1] - ptr[i], later(outputs, ptr[i]), later(taps, ptr[i])
        done = 2 - before
        if count == 0:
            clear(cells, 0, width)
        else:
            if pairs >= 2 * n:
                triples_many(some, more, later(cells, done), seers, names, count, pairs)
                done += 2 * pairs
            elif pairs >= n:
                triples_some(some, more, later(cells, done), seers, names, count, pairs)
                done += 2 * pairs
            for cell in range(min(2 - before, width)):
                pay_cell(some, more, later(cells, cell), seers, names, count, cell + before, out)
            for cell in range(done, width):
                pay_cell(some, more, later(cells, cell), seers, names, count, cell + before, out)
        i += 1
        if i == rows:
            plane, i = plane + 1, 0


# --- channels last -------------------------------------------------------------------------------------------------


RUNS = [[(0, 0)]]
"""The sum of a cell: an entry is one window."""

run_many, run_some = summing(RUNS, 2), summing(RUNS, 1)


@unrolled_kernel
def winner_runs(codes: Any, g: Any, gx: Any, plan: Any, run: int, first: int, last: int) -> None:
    """The same where every cell is a run of channels, as many as a vector has lanes or more."""
    head = address(plan)
    rows, width, entries = head[0], head[1], head[5]
    ptr = later(head, HEAD)
    outputs = later(ptr, rows + 1)
    taps = later(outputs, entries)
    column_ptr = later(taps, entries)
    columns = later(column_ptr, width + 1)
    numbers, most, n = later(columns, column_ptr[width]), 0, lanes(gx)
    for i in range(rows):
        most = max(most, ptr[i + 1] - ptr[i])
    places, names = np.empty(most * head[6], np.int64), np.empty(most * head[6], np.int64)
    codes, g, gx, seers, wanted = address(codes), address(g), address(gx), address(places), address(names)
    plane, i = first // rows, first % rows
    for row in range(first, last):
        some, more = later(codes, plane * head[3] * run), later(g, plane * head[3] * run)
        for c in range(width):
            count = 0
            for q in range(ptr[i], ptr[i + 1]):
                for t in range(column_ptr[c], column_ptr[c + 1]):
                    seers[count] = (outputs[q] + columns[t]) * run
                    wanted[count] = taps[q] + numbers[t]
                    count += 1
            cell = later(gx, (row * width + c) * run)
            if run >= 2 * n:
                run_many(some, more, cell, seers, wanted, count, run)
            else:
                run_some(some, more, cell, seers, wanted, count, run)
        i += 1
        if i == rows:
            plane, i = plane + 1, 0
    alive(places)
    alive(names)
