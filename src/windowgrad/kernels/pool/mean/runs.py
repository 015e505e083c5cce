"""Mean of channels that stand last: every cell is a run of channels, and a run is added at a time.

For channels last that `fits` accepts (`entry.mean_layout`); other arrays are copied, channels first.

The plan is that of one channel alone, and all additions are those of `mean_rows`, in the same order: the rows of a window
first, column by column, then its columns as `spans` adds them. So the layout of an array changes no bit of a result. A piece is
some outputs of a row with all their channels; the columns they see stand in a buffer, run after run:

    | run of column 0 | run of column 1 | run of column 2 | …      output j adds the runs j·stride, j·stride + step, …

Where windows are a cell apart, the runs of neighbouring outputs are neighbours too, and count as one long run. Windows that
are not all alike are done one by one, with so many columns at a time that the buffer stays in the nearest cache.

Windows that share few cells have a kernel without a buffer (`run_windows`). Of windows two cells apart, short runs are thinned
out, several at once (`few_channels`). The gradient of windows side by side is copied to their cells; a large one past the
caches (`vector.past`): 2×2 windows on 32×64×112×112 take 2.4 ms and 3.1 without, 7×7 windows 2.4 and 3.7.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from windowgrad.kernels.pool.few_channels import RUNS, thinning
from windowgrad.kernels.pool.fold_rows import ahead_of
from windowgrad.kernels.pool.mean.rows import add_outputs, alike_after, copy_row, divide, fold, spans, spread_out, sum_again
from windowgrad.kernels.pool.packed import Rows, least_past_of, unpacked
from windowgrad.kernels.pool.plan import Plan
from windowgrad.kernels.pool.row_pieces import CELLS, Piece, clear, fill, piece_at, seen_by, span
from windowgrad.kernels.pool.window_spans import in_pairs, uses_up
from windowgrad.kernels.runtime.jit import helper, kernel
from windowgrad.kernels.vector.half import cells
from windowgrad.kernels.vector.loops import plus
from windowgrad.kernels.vector.ops import address, alive, lanes, later, load, load_as, load_part_as, store, store_part
from windowgrad.kernels.vector.past import fills_lines, settled, store_past
from windowgrad.kernels.vector.shuffle import convert

LONGEST_ROW = 1 << 20
"""The most numbers of a row: more would take much memory for every thread."""

thin = thinning(plus)


def fits(p: Plan, channels: int) -> bool:
    """Whether these kernels may be used: rows are not too long, and windows that are not all alike have no holes."""
    if p.kernel == 0:
        return p.step == 1 and p.out * channels <= LONGEST_ROW
    return (p.before + p.width + p.kernel * p.step + p.out * p.stride) * channels <= LONGEST_ROW


def piece_of_runs(p: Plan, channels: int) -> tuple[int, int]:
    """(outputs in a piece, pieces of a row)."""
    piece = min(max(1, CELLS // (p.stride * channels)), p.out) if p.kernel else 1
    return piece, -(-p.out // piece)


# --- the columns of a window -------------------------------------------------------------------------------------


class Runs(NamedTuple):
    """`outputs` long runs of `length` numbers, `apart` in the buffer; each adds up `taps` runs that are `step` numbers apart.

    Where windows are a cell apart, one long run has all outputs.
    """

    outputs: int
    length: int
    apart: int
    taps: int
    step: int


@helper
def add_in_turn(buffer: Any, sums: Any, runs: Any) -> None:
    """sums = for each output the sum of its columns, one after the other. What is stored past a run, the next one replaces."""
    for j in range(runs.outputs):
        c = 0
        while c < runs.length:
            i = j * runs.apart + c
            total = load(buffer, i)
            for t in range(1, runs.taps):
                total = total + load(buffer, i + t * runs.step)
            store(sums, j * runs.length + c, total)
            c += lanes(sums)


@helper
def four(buffer: Any, i: int, step: int) -> Any:
    return (load(buffer, i) + load(buffer, i + step)) + (load(buffer, i + 2 * step) + load(buffer, i + 3 * step))


@helper
def add_pairs(buffer: Any, sums: Any, runs: Any) -> None:
    """The same for 4 or 8 columns, of which neighbours are added again and again."""
    for j in range(runs.outputs):
        c = 0
        while c < runs.length:
            i = j * runs.apart + c
            total = four(buffer, i, runs.step)
            if runs.taps == 8:
                total = total + four(buffer, i + 4 * runs.step, runs.step)
            store(sums, j * runs.length + c, total)
            c += lanes(sums)


@helper
def add_some(buffer: Any, start: int, sums: Any, runs: Any) -> None:
    """sums = for each output the entries of the buffer from `start` on, added to what stands there unless start is 0."""
    n = lanes(sums)
    for j in range(runs.outputs):
        c = 0
        while c < runs.length:
            value, at = load(buffer, start + j * runs.apart + c), j * runs.length + c
            if start > 0:
                value = load(sums, at) + value
            if c + n <= runs.length:
                store(sums, at, value)
            else:
                store_part(sums, at, value, runs.length - c)
            c += n


@helper
def add_doubled(buffer: Any, sums: Any, runs: Any) -> None:
    """The same for many columns: buffer[i] adds `power` numbers from i on, and sums those before `start`."""
    reach = (runs.outputs - 1) * runs.apart + (runs.taps - 1) * runs.step + runs.length
    start, power, digit = 0, runs.step, 1
    while digit <= runs.taps:
        if runs.taps & digit:
            add_some(buffer, start, sums, runs)
            start += power
        i, power_end = 0, reach - power if 2 * digit <= runs.taps else 0
        while i < power_end:
            store(buffer, i, load(buffer, i) + load(buffer, i + power))
            i += lanes(buffer)
        power, digit = 2 * power, 2 * digit


@helper
def add_columns(x: Any, at: int, rows: Any, columns: int, run: int, buffer: Any, room: int, sums: Any) -> None:
    """sums = the sum of the columns from `at` on, one after the other; `room` of them are in the buffer at a time."""
    fill(sums, 0, run, 0)
    done = 0
    while done < columns:
        some = min(room, columns - done)
        fold(x, at + done * run, rows, some * run, buffer, 0, -1)
        for t in range(some):
            c = 0
            while c < run:
                store(sums, c, load(sums, c) + load(buffer, t * run + c))
                c += lanes(sums)
        done += some


@kernel
def mean_runs(
    x: Any, y: Any, row_divisor: Any, col_divisor: Any, zero: Any, plan: Any, run: int, size: int, first: int, last: int
) -> None:
    """Pieces `first` to `last` of the output rows of all planes; a piece has `size` outputs."""
    line, windows, _ = unpacked(plan)
    taps, stride, step, out = line.taps, line.stride, line.step, line.out
    n, divided_by, room = lanes(zero), 0.0, max(1, CELLS // run)
    space = np.zeros((span(line, size) if taps else room) * run + 3 * n, zero.dtype)
    totals, divisors = np.zeros(size * run + n, zero.dtype), np.ones(out * run + n, zero.dtype)
    places = np.empty(windows.ptr[windows.rows], np.int64)
    for q in range(len(places)):
        places[q] = windows.places[q] * run
    ahead = ahead_of(x, line, windows)
    x, y, buffer, sums, by = cells(x), cells(y), address(space), address(totals), address(divisors)
    row_divisor, col_divisor = address(row_divisor), address(col_divisor)
    paired = in_pairs(taps, step, stride)
    for job in range(first, last):
        one = piece_at(job, size, line, windows)
        piece = Piece(one.at * run, one.low, one.high, one.row, one.base * run)
        outputs = piece.high - piece.low
        rows = Rows(address(places), windows.ptr[piece.row], windows.ptr[piece.row + 1])
        left, right, shift = seen_by(line, piece)
        if rows.low == rows.high or left >= right:
            fill(y, piece.at, piece.at + outputs * run, 0)
            continue
        if taps == 0:
            start, count = windows.start[piece.low], windows.count[piece.low]
            add_columns(x, piece.base + start * run, rows, count, run, buffer, room, sums)
        else:
            fill(buffer, 0, (left + shift) * run, 0)
            fill(buffer, (right + shift) * run, span(line, outputs) * run, 0)
            fold(x, piece.base + left * run, rows, (right - left) * run, buffer, (left + shift) * run, ahead)
            runs = Runs(1, outputs * run, run, taps, step * run)
            if stride > 1:
                runs = Runs(outputs, run, stride * run, taps, step * run)
            if uses_up(taps):
                add_doubled(buffer, sums, runs)
            elif paired:
                add_pairs(buffer, sums, runs)
            elif stride == 2 and 1 < run <= RUNS[-1]:
                thin(buffer, sums, 0, outputs * run, run, taps, step * run)
            else:
                add_in_turn(buffer, sums, runs)
        if row_divisor[piece.row] != divided_by:
            divided_by = row_divisor[piece.row]
            for j in range(out):
                fill(by, j * run, (j + 1) * run, divided_by * col_divisor[j])
        if divide(sums, y, piece.at, outputs * run, later(by, piece.low * run)):
            sum_again(x, y, divided_by, col_divisor, piece, rows, windows, run, sums)
    alive(space)
    alive(totals)
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
def spread_unlike_runs(total: Any, gx: Any, at: int, line: Any, windows: Any, run: int) -> None:
    """Each total to the cells of its window, where the windows along a row are not all alike."""
    n = lanes(total)
    fill(gx, at, at + line.width * run, 0)
    for j in range(line.out):
        for i in range(windows.count[j]):
            to, c = at + (windows.start[j] + i * windows.step) * run, 0
            while c < run:
                value = load(total, j * run + c)
                if c + n <= run:
                    store(gx, to + c, convert(load_as(gx, to + c, total) + value, gx))
                else:
                    store_part(gx, to + c, convert(load_part_as(gx, to + c, run - c, total) + value, gx), run - c)
                c += n


@helper
def copy_runs(total: Any, gx: Any, at: int, line: Any, run: int, past: Any) -> None:
    """Each total to the cells of its window, where windows are side by side; 0 to cells behind the last.

    If `past`, runs fill lines, and are written past the caches.
    """
    n, covered = lanes(total), max(0, min(line.width, line.out * line.stride - line.before))
    for j in range(line.out):
        first, c = max(0, j * line.stride - line.before), 0
        begin, end = at + first * run, at + min(covered, (j + 1) * line.stride - line.before) * run
        while c < run:
            value, to, left = convert(load(total, j * run + c), gx), begin + c, run - c
            if left >= 4 * n:  # fewer turns
                second, third = convert(load(total, j * run + c + n), gx), convert(load(total, j * run + c + 2 * n), gx)
                fourth = convert(load(total, j * run + c + 3 * n), gx)
                while to < end:
                    store_past(gx, to, value, past)
                    store_past(gx, to + n, second, past)
                    store_past(gx, to + 2 * n, third, past)
                    store_past(gx, to + 3 * n, fourth, past)
                    to += run
                c += 4 * n
            elif left >= n:
                while to < end:
                    store_past(gx, to, value, past)
                    to += run
                c += n
            else:
                while to < end:
                    store_part(gx, to, value, left)
                    to += run
                c = run
    clear(gx, at + covered * run, at + line.width * run)


@kernel
def mean_runs_back(
    g: Any, gx: Any, row_divisor: Any, col_divisor: Any, zero: Any, plan: Any, run: int, first: int, last: int
) -> None:
    """The rows `first` to `last` of all planes of the gradient, as `mean_rows_back` does it for one channel."""
    line, windows, _ = unpacked(plan)
    width, out, taps, stride, step = line.width, line.out, line.taps, line.stride, line.step
    n, ahead, height = lanes(zero), max(taps - 1, 0) * step * run, windows.rows
    beside = taps > 0 and stride == taps and step == 1
    room = 0 if taps == 0 or beside else ahead + max(line.before + width, out * stride) * run + 4 * n
    space = np.zeros(room, zero.dtype)
    sums, added = np.zeros(out * run + n, zero.dtype), np.zeros(out * run + n, zero.dtype)
    divisors, places = np.ones(out * run + n, zero.dtype), np.empty(windows.ptr[height], np.int64)
    for q in range(len(places)):
        places[q] = windows.places[q] * run
    buffer, total, some, by, moved = address(space), address(sums), address(added), address(divisors), address(places)
    for j in range(out):
        fill(by, j * run, (j + 1) * run, col_divisor[j])
    past = beside and gx.nbytes >= least_past_of(plan) and fills_lines(address(gx), run)
    g, gx, row_divisor = cells(g), cells(gx), address(row_divisor)
    base, i = first // height * windows.plane * run, first % height
    job = first
    while job < last:
        at = job * width * run
        rows = Rows(moved, windows.ptr[i], windows.ptr[i + 1])
        add_outputs(g, base, rows, row_divisor, by, out * run, some, total)
        alike = alike_after(windows, i, min(height - i, last - job) - 1)
        job, i = job + 1 + alike, i + 1 + alike
        if beside:
            for row in range(at, at + (alike + 1) * width * run, width * run):  # rather than read what was written
                copy_runs(total, gx, row, line, run, past)
            alike = 0
        elif taps == 0:
            spread_unlike_runs(total, gx, at, line, windows, run)
        else:
            if uses_up(taps):
                fill(buffer, 0, len(space), 0)
            if stride == 1:
                spread_out(total, out * run, buffer, ahead, stride)
            else:
                spread_runs(total, out, buffer, ahead, stride * run, run)
            spans(buffer, line.before * run, gx, at, width * run, taps, step * run, 1)
        copy_row(gx, at, width * run, alike)
        if i == height:
            i, base = 0, base + windows.plane * run
    if past:
        settled()
    alive(space)
    alive(sums)
    alive(added)
    alive(divisors)
    alive(places)
