"""Mean: the rows of a window are added into one buffer, then along it, and divided once.

For channels that come first, and windows of few rows (`entry.averaged`); the sums of a smooth maximum are these too. It is
blocked as `max/rows.py`: a piece of an output row at a time, folded, then spanned. The dtype of the buffer is that of the sums
(`entry.sums`): float32 where at most 15 roundings follow each other, which keeps the stated error, else float64.

The gradient runs the same way backwards, an input row at a time: the output rows that see it are added, divided, spread out
by the stride, and added along. Rows with one divisor are added before they are divided, and an input row in the same windows as
a row before it is copied; a large gradient of windows side by side past the caches (`vector.past`), from a buffer. Of
32×64×112×112, two threads, 2×2 windows take 2.4 ms and 3.3 without, 7×7 windows 2.4 and 3.7. Where each row is another, as of
3×3 windows with a stride of 2, it took 1.1 times as long.

    output rows   g g g g          g . g . g . g .        stride 2: zeros between
                  g g g g    →     windows of `taps` over that, at every cell of the input row
"""

from __future__ import annotations

from typing import Any

import numpy as np

from windowgrad.kernels.pool.fold_rows import ahead_of, folding
from windowgrad.kernels.pool.packed import Rows, least_past_of, rows_of, unpacked
from windowgrad.kernels.pool.plan import Plan
from windowgrad.kernels.pool.row_pieces import (
    buffer_size,
    clear,
    fill,
    is_unchanged,
    next_piece,
    padding_end,
    piece_at,
    seen_by,
)
from windowgrad.kernels.pool.window_spans import DIRECT, spanning, uses_up
from windowgrad.kernels.runtime.jit import helper, kernel
from windowgrad.kernels.vector.half import cells
from windowgrad.kernels.vector.loops import plus
from windowgrad.kernels.vector.ops import (
    address,
    alive,
    anywhere,
    either,
    lanes,
    load,
    load_as,
    load_part_as,
    not_finite,
    splat,
    store,
    store_part,
)
from windowgrad.kernels.vector.past import fills_lines, settled, store_past
from windowgrad.kernels.vector.shuffle import convert, mixed_high, mixed_low

fold = folding(plus, False)
spans, few_spans = spanning(plus, False), spanning(plus, False, many=False)


@helper
def unlike(buffer: Any, base: int, sums: Any, out: int, windows: Any, zero: Any) -> None:
    """Windows that are not all alike, each as its start and its count say; in the dtype of `zero`."""
    for j in range(out):
        total = zero
        for t in range(windows.count[j]):
            total += buffer[base + windows.start[j] + t * windows.step]
        sums[j] = total


@helper
def divide(sums: Any, y: Any, at: int, out: int, by: Any) -> Any:
    """y[at:] = sums ÷ by, `out` of them; says whether a sum is not finite."""
    n, j = lanes(sums), 0
    seen = not_finite(splat(sums, 0))
    while j < out:
        total = load(sums, j) + splat(sums, 0)  # a sum begins with 0.0: of −0.0 alone it is no −0.0
        quotient = convert(total / load(by, j), y)
        if j + n <= out:
            seen = either(seen, not_finite(total))
            store(y, at + j, quotient)
        else:
            for i in range(j, out):
                seen = either(seen, not_finite(splat(sums, sums[i])))
            store_part(y, at + j, quotient, out - j)
        j += n
    return anywhere(seen)


@helper
def sum_again(
    x: Any, y: Any, row_divisor: float, col_divisor: Any, piece: Any, rows: Any, windows: Any, run: int, sums: Any
) -> None:
    """Those outputs of a piece whose sum is not finite: in float64, which a sum of float32 does not overflow, divided once.

    A window is summed again by what it sees itself, and not because of its neighbours. A cell is a run of channels.
    """
    for i in range((piece.high - piece.low) * run):
        if sums[i] - sums[i] == 0:
            continue
        j, total = piece.low + i // run, 0.0
        for q in range(rows.low, rows.high):
            for t in range(windows.count[j]):
                total += x[piece.base + rows.places[q] + (windows.start[j] + t * windows.step) * run + i % run]
        y[piece.at + i] = total / (row_divisor * col_divisor[j])


def forward_kernel(many: bool) -> Any:
    """For windows of more than DIRECT taps, or for all others."""
    along = spans if many else few_spans

    @kernel
    def mean_rows(x: Any, y: Any, row_divisor: Any, col_divisor: Any, zero: Any, plan: Any, first: int, last: int) -> None:
        """Pieces `first` to `last` of the output rows of all planes, as in `max_rows`; sums as `zero`."""
        line, windows, size = unpacked(plan)
        taps, step, stride = line.taps, line.step, line.stride
        n, divided_by, lone = lanes(zero), 0.0, taps == 0 and windows.plane == line.width  # one row: cells are read in place
        space, nothing = np.zeros(0 if lone else buffer_size(line, size, n), zero.dtype), np.zeros(1, zero.dtype)[0]
        totals, divisors, divided_from = np.zeros(size + n, zero.dtype), np.ones(size + n, zero.dtype), 0
        ahead = ahead_of(x, line, windows)
        x, y, buffer, sums, by = cells(x), cells(y), address(space), address(totals), address(divisors)
        row_divisor, col_divisor = address(row_divisor), address(col_divisor)
        refill, direct = size < line.out or (many and uses_up(taps)), is_unchanged(line)
        piece = piece_at(first, size, line, windows)
        for _ in range(first, last):
            at, out, rows = piece.at, piece.high - piece.low, rows_of(windows, piece.row)
            left, right, shift = seen_by(line, piece)
            if rows.low == rows.high or left >= right:
                fill(y, at, at + out, 0)
            else:
                if refill:  # else the padding is as it was made
                    fill(buffer, 0, left + shift, 0)
                    fill(buffer, right + shift, padding_end(line, piece, right + shift), 0)
                target, to = (sums, 0) if direct else (buffer, left + shift)
                if lone:
                    unlike(x, piece.base, sums, out, windows, nothing)
                else:
                    fold(x, piece.base + left, rows, right - left, target, to, ahead)
                if taps == 0 and not lone:
                    unlike(buffer, piece.low, sums, out, windows, nothing)
                elif not direct and not lone:
                    along(buffer, 0, sums, 0, out, taps, step, stride)
                if row_divisor[piece.row] != divided_by or piece.low != divided_from:
                    divided_by, divided_from = row_divisor[piece.row], piece.low
                    for j in range(out):
                        by[j] = divided_by * col_divisor[piece.low + j]
                if divide(sums, y, at, out, by):
                    sum_again(x, y, divided_by, col_divisor, piece, rows, windows, 1, sums)
            piece = next_piece(piece, size, line, windows)
        alive(space)
        alive(totals)
        alive(divisors)

    return mean_rows


mean_rows_of_few, mean_rows_of_many = forward_kernel(False), forward_kernel(True)


def mean_rows_for(p: Plan) -> Any:
    """The kernel for a plan."""
    return mean_rows_of_many if p.kernel > DIRECT else mean_rows_of_few


# --- backwards ---------------------------------------------------------------------------------------------------


@helper
def divide_row(g: Any, at: int, divisor: float, by: Any, out: int, total: Any) -> None:
    """total = one output row, divided; added to 0, as where there are more rows."""
    n, j = lanes(total), 0
    nothing, divisors = splat(total, 0), splat(total, divisor)
    while j + n <= out:
        store(total, j, nothing + load_as(g, at + j, total) / (load(by, j) * divisors))
        j += n
    if j < out:
        store(total, j, nothing + load_part_as(g, at + j, out - j, total) / (load(by, j) * divisors))


@helper
def add_outputs(g: Any, base: int, rows: Any, row_divisor: Any, by: Any, out: int, buffer: Any, total: Any) -> None:
    """total = the sum of the output rows that see an input row, each divided; at once where all have one divisor."""
    n, low, places = lanes(total), rows.low, rows.places
    if low + 1 == rows.high:
        divide_row(g, base + places[low], row_divisor[places[low] // out], by, out, total)
        return
    fill(total, 0, out, 0)
    while low < rows.high:
        divisor, alike = row_divisor[places[low] // out], low + 1
        while alike < rows.high and row_divisor[places[alike] // out] == divisor:
            alike += 1
        fold(g, base, Rows(places, low, alike), out, buffer, 0, -1)
        j = 0
        while j < out:
            store(total, j, load(total, j) + load(buffer, j) / (load(by, j) * splat(total, divisor)))
            j += n
        low = alike


@helper
def spread_unlike(total: Any, gx: Any, at: int, line: Any, windows: Any) -> None:
    """Each total to the cells of its window, one window after the other."""
    n = lanes(total)
    clear(gx, at, at + line.width)
    for j in range(line.out):
        i, value = at + windows.start[j], splat(total, total[j])
        left = windows.count[j] if windows.step == 1 else 0
        while left >= n:
            store(gx, i, convert(load_as(gx, i, total) + value, gx))
            i, left = i + n, left - n
        if left > 0:
            store_part(gx, i, convert(load_part_as(gx, i, left, total) + value, gx), left)
        for t in range(0 if windows.step == 1 else windows.count[j]):
            gx[i + t * windows.step] += total[j]


@helper
def spread_out(total: Any, out: int, buffer: Any, at: int, stride: int) -> None:
    """buffer[at + j·stride] = total[j]; what lies between is 0 and stays so."""
    n, j = lanes(total), 0
    if stride > 2:
        for j in range(out):
            buffer[at + j * stride] = total[j]
    elif stride == 2:
        nothing = splat(total, 0)
        while j < out:
            store(buffer, at + 2 * j, mixed_low(load(total, j), nothing))
            store(buffer, at + 2 * j + n, mixed_high(load(total, j), nothing))
            j += n
    else:
        while j < out:
            store(buffer, at + j, load(total, j))
            j += n


@helper
def alike_after(windows: Any, i: int, most: int) -> int:
    """How many rows of the input after row i, at most so many, are in the same windows."""
    ptr, places, count = windows.ptr, windows.places, 0
    low, rows = ptr[i], ptr[i + 1] - ptr[i]
    while count < most:
        other = ptr[i + count + 1]
        same = ptr[i + count + 2] - other == rows
        for q in range(rows if same else 0):
            same &= places[low + q] == places[other + q]
        if not same:
            break
        count += 1
    return count


@helper
def copy_row(gx: Any, at: int, width: int, count: int) -> None:
    """The `count` rows after that at `at` are like it; row by row, as memory likes it."""
    n = lanes(gx)
    for to in range(at + width, at + (count + 1) * width, width):
        c = 0
        while c + n <= width:
            store(gx, to + c, load(gx, at + c))
            c += n
        if c < width and width > n:  # once more some of what is done
            store(gx, to + width - n, load(gx, at + width - n))
        elif c < width:
            store_part(gx, to + c, load_part_as(gx, at + c, width - c, gx), width - c)


@helper
def copy_past(row: Any, gx: Any, at: int, width: int, count: int) -> None:
    """`count` rows from that at `at` on are as `row`, written past the caches; they fill lines."""
    n = lanes(gx)
    for to in range(at, at + count * width, width):
        for c in range(0, width, n):
            store_past(gx, to + c, load(row, c), True)


def backward_kernel(many: bool) -> Any:
    """For windows of more than DIRECT taps, or for all others."""
    along = spans if many else few_spans

    @kernel
    def mean_rows_back(
        g: Any, gx: Any, row_divisor: Any, col_divisor: Any, zero: Any, plan: Any, first: int, last: int
    ) -> None:
        """The rows `first` to `last` of all planes of the gradient; the plan is `packed_back`: input rows see output rows.

        Cell c of a row gets the sum over t of spread[c + before − t·step], where spread[j·stride] holds output j. In the
        buffer everything is moved right by (taps − 1)·step, so that no index is negative and the taps run forwards.
        """
        line, windows, _ = unpacked(plan)
        width, out, taps, stride, step = line.width, line.out, line.taps, line.stride, line.step
        n, ahead, height = lanes(zero), max(taps - 1, 0) * step, windows.rows
        space = np.zeros(ahead + (max(line.before + width, out * stride) if taps else 0) + (stride + 3) * n, zero.dtype)
        sums, added, divisors = np.zeros(out + n, zero.dtype), np.zeros(out + n, zero.dtype), np.ones(out + n, zero.dtype)
        for j in range(out):
            divisors[j] = col_divisor[j]
        buffer, total, some, by = address(space), address(sums), address(added), address(divisors)
        beside = taps > 1 and taps == stride and step == 1
        past = beside and gx.nbytes >= least_past_of(plan) and fills_lines(address(gx), width)
        alone = np.empty(width + n if past else 0, gx.dtype)
        g, gx, row, row_divisor = cells(g), cells(gx), cells(alone), address(row_divisor)
        base, i = first // height * windows.plane, first % height
        job = first
        while job < last:
            at = job * width
            target, to = (row, 0) if past else (gx, at)
            add_outputs(g, base, rows_of(windows, i), row_divisor, by, out, some, total)
            if taps == 0 or (many and uses_up(taps) and stride >= taps):  # long windows that share no cell: each is filled
                spread_unlike(total, target, to, line, windows)
            else:
                if many and uses_up(taps):
                    fill(buffer, 0, len(space), 0)
                spread_out(total, out, buffer, ahead, stride)
                along(buffer, line.before, target, to, width, taps, step, 1)
            alike = alike_after(windows, i, min(height - i, last - job) - 1)
            if past:
                copy_past(row, gx, at, width, alike + 1)
            else:
                copy_row(gx, at, width, alike)
            job, i = job + 1 + alike, i + 1 + alike
            if i == height:
                i, base = 0, base + windows.plane
        if past:
            settled()
        alive(alone)
        alive(space)
        alive(sums)
        alive(added)
        alive(divisors)

    return mean_rows_back


back_rows_of_few, back_rows_of_many = backward_kernel(False), backward_kernel(True)


def mean_rows_back_for(p: Plan) -> Any:
    """The kernel for the gradients of a plan."""
    return back_rows_of_many if p.kernel > DIRECT else back_rows_of_few
