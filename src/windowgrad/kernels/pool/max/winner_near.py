"""The gradient of small windows where many channels stand last: each cell adds up the outputs near it that it won, by vectors.

A cell is a tap of a few windows only, and which these are follows from its row and its column: lists of (output, number of the
tap), in the order of the windows, one for each row and one for each column of cells. So the sums are those of `winner_scatter`,
in the same order, but nothing is cleared before, and no addition waits for another one in memory. A cell is a run of channels,
and so are the codes of an output. Chosen by `winner_codes.are_near`; `winner_triples`, for channels first, reads the same plan.

Measured, 32×112×112×64, two threads: 1.9 ms for 3×3 with a stride of 2, where the caches are passed by (`vector.past`); through
them 3.7, `winner_scatter` 5.7. The beginning of a cell costs 40 cycles, so few channels would take longer
(`winner_codes.LONG`), and windows that do not overlap have a kernel of their own (`winner_apart`). Entries that were read again
in every step, with a loop over them, took 1.3 times as long.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types
from numba.extending import intrinsic

from windowgrad.caches import keep
from windowgrad.geometry import Geometry
from windowgrad.kernels.pool.max.winner_codes import Array, Axis, codes_of, row_numbers
from windowgrad.kernels.pool.plan import plan
from windowgrad.kernels.runtime.jit import unrolled_kernel
from windowgrad.kernels.runtime.last_cache import least_past
from windowgrad.kernels.vector.half import cells
from windowgrad.kernels.vector.loops import Emitter
from windowgrad.kernels.vector.ops import address, alive, lanes, later
from windowgrad.kernels.vector.past import fills_lines, put, settled
from windowgrad.kernels.vector.types import Vec, as_held, constant, llvm, read, spread

HEAD = 8
"""Numbers before the lists."""


# --- the plan ----------------------------------------------------------------------------------------------------


def near_plan(geometry: Geometry, spatial: tuple[int, ...]) -> Array:
    """(rows of cells, cells of a row, outputs of a row, outputs, padding before rows, entries, windows of a column at most, the
    bytes from which on gradients are written past the caches).

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
    head = [p.plane_in // p.width, p.width, p.out, p.plane_out, last.before, len(taps), most, least_past()]
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


# --- the kernel ------------------------------------------------------------------------------------------------------

AHEAD = 1024
"""How many numbers before they are added up the lines of gradients are asked for, where these are larger than the caches."""

COMMON = (1, 2, 4)
"""Numbers of entries that have a loop of their own, in which no entry is read again."""


def collecting(double: int) -> Any:
    """collect(codes, g, gx, outputs, taps, count, size, past): gx = the sums of a cell's channels; `count` outputs see it.

    As many channels as a vector has lanes, or twice as many, are taken at a time; there are at least so many.
    """

    @intrinsic
    def collect(typing: Any, codes: Any, g: Any, gx: Any, outputs: Any, taps: Any, count: Any, size: Any, past: Any) -> Any:
        def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            e = Emitter(context, builder, gx.dtype)
            n = e.n * double
            part, few = Vec(e.v.dtype, n), Vec(types.Integer.from_bitwidth(codes.dtype.bitwidth, True), n)
            zero = constant(part, 0.0)

            def entry(k: Any) -> tuple[Any, Any]:
                """Where it begins, and the name of its tap."""
                name = builder.trunc(e.cell((taps, args[4]), k), llvm(few).element)
                return e.cell((outputs, args[3]), k), spread(builder, name, n)

            def added(total: Any, at: Any, name: Any) -> Any:
                """The total, and the gradients whose codes are the name."""
                won = builder.icmp_signed("==", read(context, builder, codes, args[0], at, few), name)
                return builder.select(won, builder.fadd(total, read(context, builder, g, args[1], at, part)), total)

            def fetch(at: Any) -> None:
                for source in ((codes, args[0]), (g, args[1])):
                    e.fetch(source, e.add(at, AHEAD))

            def store(total: Any, j: Any) -> None:
                total, held = as_held(builder, gx, total, part)
                put(builder, total, e.place((gx, args[2]), j, held), held, args[7])

            def known(number: int) -> None:
                entries = [entry(e.int(k)) for k in range(number)]
                with e.whole_steps(args[6], n) as j:
                    total = zero
                    with builder.if_then(args[7]):
                        for at, _ in entries:
                            fetch(e.add(at, j))
                    for at, name in entries:
                        total = added(total, e.add(at, j), name)
                    store(total, j)

            def any_number() -> None:
                total = e.variable(zero)
                with e.whole_steps(args[6], n) as j:
                    builder.store(zero, total)
                    with e.steps(e.int(0), args[5], e.int(1)) as k:
                        at, name = entry(k)
                        builder.store(added(builder.load(total), e.add(at, j), name), total)
                    store(builder.load(total), j)

            e.by_number(args[5], COMMON, known, any_number)
            return context.get_dummy_value()

        index = types.intp
        return types.void(codes, g, gx, outputs, taps, index, index, types.boolean), emit

    return collect


collect_many, collect_some = collecting(2), collecting(1)


@unrolled_kernel
def winner_runs(codes: Any, g: Any, gx: Any, plan: Any, run: int, first: int, last: int) -> None:
    """gx = each gradient at its winner; rows of cells `first` to `last` of all planes, `run` channels, as many as a vector has
    lanes or more.
    """
    head, size = address(plan), gx.nbytes
    rows, width, entries = head[0], head[1], head[5]
    ptr = later(head, HEAD)
    outputs = later(ptr, rows + 1)
    taps = later(outputs, entries)
    column_ptr = later(taps, entries)
    columns = later(column_ptr, width + 1)
    numbers, most = later(columns, column_ptr[width]), 0
    for i in range(rows):
        most = max(most, ptr[i + 1] - ptr[i])
    places, names = np.empty(most * head[6], np.int64), np.empty(most * head[6], np.int64)
    codes, g, gx, seers, wanted, n = address(codes), cells(g), cells(gx), address(places), address(names), lanes(cells(gx))
    past = size >= head[7] and fills_lines(gx, run)
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
                collect_many(some, more, cell, seers, wanted, count, run, past)
            else:
                collect_some(some, more, cell, seers, wanted, count, run, False)
        i += 1
        if i == rows:
            plane, i = plane + 1, 0
    alive(places)
    alive(names)
    if past:
        settled()
