"""Mean of channels that stand last: every cell is a run of channels, and a run is added at a time.

The plan is that of one channel alone, and all additions are those of `mean_rows`, in the same order: the rows of a window
first, column by column, then its columns as `spans` adds them. So the layout of an array changes no bit of a result. A piece is
some outputs of a row with all their channels; the columns they see stand in a buffer, run after run:

    | run of column 0 | run of column 1 | run of column 2 | …      output j adds the runs j·stride, j·stride + step, …

Where windows are a cell apart, the runs of neighbouring outputs are neighbours too, and count as one long run. Windows that
are not all alike are done one by one, with so many columns at a time that the buffer stays in the nearest cache.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from windowgrad.kernels.pool.mean.rows import add_outputs, copy_row, divide, fold, same_list, spans, spread_out
from windowgrad.kernels.pool.plan import Plan
from windowgrad.kernels.pool.row_pieces import CELLS, cut, fill, unpacked
from windowgrad.kernels.pool.window_spans import in_pairs, uses_up
from windowgrad.kernels.runtime.jit import helper, kernel
from windowgrad.kernels.vector.ops import address, alive, lanes, later, load, load_as, load_part_as, store, store_part
from windowgrad.kernels.vector.shuffle import convert

LARGEST = 1 << 20
"""The most numbers of a row: more would take much memory for every thread."""


def fits(p: Plan, channels: int) -> bool:
    """Whether these kernels may be used: rows are not too long, and windows that are not all alike have no holes."""
    if p.kernel == 0:
        return p.step == 1 and p.out * channels <= LARGEST
    return (p.before + p.width + p.kernel * p.step + p.out * p.stride) * channels <= LARGEST


def piece_of(p: Plan, channels: int) -> tuple[int, int]:
    """(outputs in a piece, pieces of a row)."""
    piece = min(max(1, CELLS // (p.stride * channels)), p.out) if p.kernel else 1
    return piece, -(-p.out // piece)


# --- the columns of a window -------------------------------------------------------------------------------------


@helper
def add_in_turn(buffer: Any, line: Any, outputs: int, run: int, apart: int, taps: int, step: int) -> None:
    """line = for each output the sum of its columns, one after the other. What is stored past a run, the next one replaces."""
    for j in range(outputs):
        c = 0
        while c < run:
            i = j * apart + c
            total = load(buffer, i)
            for t in range(1, taps):
                total = total + load(buffer, i + t * step)
            store(line, j * run + c, total)
            c += lanes(line)


@helper
def four(buffer: Any, i: int, step: int) -> Any:
    return (load(buffer, i) + load(buffer, i + step)) + (load(buffer, i + 2 * step) + load(buffer, i + 3 * step))


@helper
def add_pairs(buffer: Any, line: Any, outputs: int, run: int, apart: int, taps: int, step: int) -> None:
    """The same for 4 or 8 columns, of which neighbours are added again and again."""
    for j in range(outputs):
        c = 0
        while c < run:
            i = j * apart + c
            total = four(buffer, i, step)
            if taps == 8:
                total = total + four(buffer, i + 4 * step, step)
            store(line, j * run + c, total)
            c += lanes(line)


@helper
def add_some(buffer: Any, start: int, line: Any, outputs: int, run: int, apart: int) -> None:
    """line = for each output the entries of the buffer from `start` on, added to what stands there unless start is 0."""
    n = lanes(line)
    for j in range(outputs):
        c = 0
        while c < run:
            value, at = load(buffer, start + j * apart + c), j * run + c
            if start > 0:
                value = load(line, at) + value
            if c + n <= run:
                store(line, at, value)
            else:
                store_part(line, at, value, run - c)
            c += n


@helper
def add_doubled(buffer: Any, line: Any, outputs: int, run: int, apart: int, taps: int, step: int) -> None:
    """The same for many columns: buffer[i] adds `power` numbers from i on, and line those before `start`."""
    reach, start, power, digit = (outputs - 1) * apart + (taps - 1) * step + run, 0, step, 1
    while digit <= taps:
        if taps & digit:
            add_some(buffer, start, line, outputs, run, apart)
            start += power
        i, power_end = 0, reach - power if 2 * digit <= taps else 0
        while i < power_end:
            store(buffer, i, load(buffer, i) + load(buffer, i + power))
            i += lanes(buffer)
        power, digit = 2 * power, 2 * digit


@helper
def add_columns(
    x: Any, at: int, rows: Any, top: int, end: int, columns: int, run: int, buffer: Any, room: int, line: Any
) -> None:
    """line = the sum of the columns from `at` on, one after the other; `room` of them are in the buffer at a time."""
    fill(line, 0, run, 0)
    done = 0
    while done < columns:
        some = min(room, columns - done)
        fold(x, at + done * run, rows, top, end, some * run, buffer, 0)
        for t in range(some):
            c = 0
            while c < run:
                store(line, c, load(line, c) + load(buffer, t * run + c))
                c += lanes(line)
        done += some


@helper
def wide_runs(
    x: Any, y: Any, row_divisor: float, col_divisor: Any, at: int, low: int, high: int, base: int, rows: Any, top: int,
    end: int, start: Any, count: Any, step: int, run: int, line: Any,
) -> None:  # fmt: skip
    """As `wide_means`: the sums that are not finite again, in float64."""
    for i in range((high - low) * run):
        if line[i] - line[i] == 0:
            continue
        j, total = low + i // run, 0.0
        for q in range(top, end):
            for t in range(count[j]):
                total += x[base + rows[q] + (start[j] + t * step) * run + i % run]
        y[at + i] = total / (row_divisor * col_divisor[j])


@kernel
def mean_runs(
    x: Any, y: Any, row_divisor: Any, col_divisor: Any, zero: Any, plan: Any, run: int, piece: int, first: int, last: int
) -> None:
    """Pieces `first` to `last` of the output rows of all planes; a piece has `piece` outputs."""
    outer, plane, out, step, width, taps, stride, before, _, _, (ptr, cells, start, count) = unpacked(plan)
    n, divided_by, pieces, room = lanes(zero), 0.0, -(-out // piece), max(1, CELLS // run)
    columns = (piece - 1) * stride + (taps - 1) * step + 1 if taps else room
    space, sums = np.zeros(columns * run + 2 * n, zero.dtype), np.zeros(piece * run + n, zero.dtype)
    divisors, places = np.ones(out * run + n, zero.dtype), np.empty(ptr[outer], np.int64)
    for q in range(len(places)):
        places[q] = cells[q] * run
    x, y, buffer, line, by, rows = address(x), address(y), address(space), address(sums), address(divisors), address(places)
    row_divisor, col_divisor = address(row_divisor), address(col_divisor)
    paired = in_pairs(taps, step, stride)
    for job in range(first, last):
        row, low = job // pieces, job % pieces * piece
        high, at, base, row = min(low + piece, out), (row * out + low) * run, row // outer * plane * run, row % outer
        top, end = ptr[row], ptr[row + 1]
        left, right, shift = cut(width, taps, stride, step, before, low, high)
        if top == end or left >= right:
            fill(y, at, at + (high - low) * run, 0)
            continue
        if taps == 0:
            add_columns(x, base + start[low] * run, rows, top, end, count[low], run, buffer, room, line)
        else:
            fill(buffer, 0, (left + shift) * run, 0)
            fill(buffer, (right + shift) * run, ((high - 1 - low) * stride + (taps - 1) * step + 1) * run, 0)
            fold(x, base + left * run, rows, top, end, (right - left) * run, buffer, (left + shift) * run)
            outputs, cells_each = (1, (high - low) * run) if stride == 1 else (high - low, run)
            if uses_up(taps):
                add_doubled(buffer, line, outputs, cells_each, stride * run, taps, step * run)
            elif paired:
                add_pairs(buffer, line, outputs, cells_each, stride * run, taps, step * run)
            else:
                add_in_turn(buffer, line, outputs, cells_each, stride * run, taps, step * run)
        if row_divisor[row] != divided_by:
            divided_by = row_divisor[row]
            for j in range(out):
                fill(by, j * run, (j + 1) * run, divided_by * col_divisor[j])
        if divide(line, y, at, (high - low) * run, later(by, low * run)):
            wide_runs(
                x, y, divided_by, col_divisor, at, low, high, base, rows, top, end, start, count, step, run, line
            )  # fmt: skip
    alive(space)
    alive(sums)
    alive(divisors)
    alive(places)


# --- backwards ---------------------------------------------------------------------------------------------------


@helper
def spread_runs(total: Any, out: int, buffer: Any, at: int, apart: int, run: int) -> None:
    """buffer[at + j·apart:] = the run of output j; what lies between the runs is 0 and stays so."""
    n = lanes(total)
    for j in range(out):
        c = 0
        while c < run:
            if c + n <= run:
                store(buffer, at + j * apart + c, load(total, j * run + c))
            else:
                store_part(buffer, at + j * apart + c, load(total, j * run + c), run - c)
            c += n


@helper
def spread_unlike_runs(total: Any, out: int, gx: Any, at: int, width: int, start: Any, count: Any, step: int, run: int) -> None:
    """Each total to the cells of its window, where the windows along a row are not all alike."""
    n = lanes(total)
    fill(gx, at, at + width * run, 0)
    for j in range(out):
        for i in range(count[j]):
            to, c = at + (start[j] + i * step) * run, 0
            while c < run:
                value = load(total, j * run + c)
                if c + n <= run:
                    store(gx, to + c, convert(load_as(gx, to + c, total) + value, gx))
                else:
                    store_part(gx, to + c, convert(load_part_as(gx, to + c, run - c, total) + value, gx), run - c)
                c += n


@kernel
def mean_runs_back(
    g: Any, gx: Any, row_divisor: Any, col_divisor: Any, zero: Any, plan: Any, ptr: Any, outs: Any, run: int,
    first: int, last: int,
) -> None:  # fmt: skip
    """The rows `first` to `last` of all planes of the gradient, as `mean_rows_back` does it for one channel."""
    outer, plane, out, step, width, taps, stride, before, _, _, (_, _, start, count) = unpacked(plan)
    n, ahead, height = lanes(zero), max(taps - 1, 0) * step * run, plane // width
    space = np.zeros(ahead + max(before + width, out * stride) * run + 4 * n if taps else 0, zero.dtype)
    sums, added, divisors = (
        np.zeros(out * run + n, zero.dtype),
        np.zeros(out * run + n, zero.dtype),
        np.ones(out * run + n, zero.dtype),
    )
    places = np.empty(len(outs), np.int64)
    for q in range(len(outs)):
        places[q] = outs[q] * run
    for i in range(out * run):
        divisors[i] = col_divisor[i // run]
    buffer, total, rows, by, outs = address(space), address(sums), address(added), address(divisors), address(places)
    g, gx, ptr, row_divisor = address(g), address(gx), address(ptr), address(row_divisor)
    base, i = first // height * outer * out * run, first % height
    for job in range(first, last):
        at = job * width * run
        if job > first and i > 0 and same_list(ptr, outs, i):
            copy_row(gx, at, width * run)
        else:
            add_outputs(g, base, outs, ptr[i], ptr[i + 1], row_divisor, by, out * run, rows, total)
            if taps == 0:
                spread_unlike_runs(total, out, gx, at, width, start, count, step, run)
            else:
                if uses_up(taps):
                    fill(buffer, 0, len(space), 0)
                if stride == 1:
                    spread_out(total, out * run, buffer, ahead, stride)
                else:
                    spread_runs(total, out, buffer, ahead, stride * run, run)
                spans(buffer, before * run, gx, at, width * run, taps, step * run, 1)
        i += 1
        if i == height:
            i, base = 0, base + outer * out * run
    alive(space)
    alive(sums)
    alive(added)
    alive(divisors)
    alive(places)
