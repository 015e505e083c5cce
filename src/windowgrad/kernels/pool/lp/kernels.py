"""The p-norm for p of which powers are products (`powers`), forward: cells to norms in one kernel, with nothing kept between.

    rows       channels first: the rows of a window are raised and added into one buffer, added along it, and rooted
    lanes      small planes: as many as a vector has lanes, turned around, window by window
    runs       channels last: window by window, as many channels at a time as a vector has lanes

Windows are taken window by window where they share little (`is_direct`); then all additions are those of `rows`, in the same
order, so which of the kernels does a plane changes no bit. What is strange is decided by `rows`: the others may say so of more
planes, which are then done again by `rows` (`products.settle`), but never of fewer.

Measured on one thread: 256 planes of 28×28 take 80 µs in lanes and 130 by rows (2×2, p = 2, float32).
Rows of float64 by vectors of 4 numbers, not 8: p = 3 took 1.5 times as long on 56×56 planes, p = 2 0.7 times.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from windowgrad.kernels.pool.fold_rows import ahead_of
from windowgrad.kernels.pool.lane_groups import groups_of, hand_out
from windowgrad.kernels.pool.lp.folds import folds
from windowgrad.kernels.pool.lp.powers import POWERS
from windowgrad.kernels.pool.mean.lanes import adds_in_turn, takes_lanes
from windowgrad.kernels.pool.mean.rows import few_spans, spans, unlike
from windowgrad.kernels.pool.packed import Rows, rows_of, unpacked
from windowgrad.kernels.pool.plan import Plan
from windowgrad.kernels.pool.row_pieces import (
    buffer_size,
    fill,
    is_unchanged,
    next_piece,
    padding_end,
    piece_at,
    seen_by,
)
from windowgrad.kernels.pool.window_spans import DIRECT, uses_up
from windowgrad.kernels.runtime.jit import kernel
from windowgrad.kernels.vector.ops import address, alive, lanes, later
from windowgrad.kernels.vector.transpose import turn_in

MOST = 25
"""Cells of windows that are taken one by one although they share some."""


def is_direct(p: Plan) -> bool:
    """Whether all windows may be taken one by one: in the order of `rows`, and without much that is done again."""
    most = int(p.row_cells.max(initial=0)) * int(p.count.max(initial=0))
    return adds_in_turn(p) and (most <= MOST or p.plane_out * most <= 2 * p.plane_in)


class Kernels(NamedTuple):
    few: Any
    many: Any
    lanes: Any
    runs: Any


def made(p: int) -> Kernels:
    """The kernels for a power."""
    columns, roots, windows_of, lost = folds(POWERS[p])

    def by_rows(many: bool) -> Any:
        along = spans if many else few_spans

        @kernel
        def norm_rows(x: Any, y: Any, strange: Any, told: Any, plan: Any, first: int, last: int) -> int:
            """Pieces `first` to `last` of the output rows of all planes; says whether one is strange; `strange` says which."""
            line, windows, size = unpacked(plan)
            taps, step, stride, seen = line.taps, line.step, line.stride, False
            space, totals = np.zeros(buffer_size(line, size, 8), np.float64), np.empty(size + 8, np.float64)
            ahead = ahead_of(x, line, windows)
            x, y, buffer, sums, nothing = address(x), address(y), address(space), address(totals), 0.0
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
                    columns(x, piece.base + left, rows, right - left, target, to, ahead, told)
                    if taps == 0:
                        unlike(buffer, piece.low, sums, out, windows, nothing)
                    elif not direct:
                        along(buffer, 0, sums, 0, out, taps, step, stride)
                    found = roots(x, sums, y, at, out, told)
                    if found & 1 or (found and lost(x, piece.base + left, rows, right - left, told)):
                        strange[piece.base // windows.plane] = seen = True
                piece = next_piece(piece, size, line, windows)
            alive(space)
            alive(totals)
            return 1 if seen else 0

        return norm_rows

    @kernel
    def norm_lanes(x: Any, y: Any, strange: Any, told: Any, plan: Any, planes: int, first: int, last: int) -> int:
        """The groups `first` to `last` of planes."""
        line, windows, _ = unpacked(plan)
        n, out, any_seen = lanes(x), line.out, False
        seen, made, zero = windows.plane, windows.rows * out, x[:0]
        places = np.empty(windows.ptr[windows.rows], np.int64)
        for q in range(len(places)):
            places[q] = windows.places[q] * n
        cells, outputs = np.empty((seen + n) * n, x.dtype), np.empty((made + n) * n, y.dtype)
        apart = np.empty(made * n if planes % n else 0, y.dtype)
        x, y, taken, given = address(x), address(y), address(cells), address(outputs)
        for group in range(first, last):
            plane, bad = min(group * n, planes - n), False
            turn_in(taken, later(x, plane * seen), seen, zero)
            for r in range(windows.rows):
                rows = Rows(address(places), windows.ptr[r], windows.ptr[r + 1])
                found = windows_of(taken, 0, rows, windows, 0, out, n, given, r * out * n, told)
                bad |= found & 1 != 0 or (found != 0 and lost(taken, 0, rows, line.width * n, told) != 0)
            if bad:
                strange[plane : plane + n] = any_seen = True
            hand_out(y, group, planes, given, made, address(apart), zero)
        alive(places)
        alive(cells)
        alive(outputs)
        alive(apart)
        return 1 if any_seen else 0

    @kernel
    def norm_runs(x: Any, y: Any, strange: Any, told: Any, plan: Any, run: int, size: int, first: int, last: int) -> int:
        """Pieces `first` to `last` of the output rows, of `size` outputs; says only whether something is strange."""
        line, windows, _ = unpacked(plan)
        places, seen = np.empty(windows.ptr[windows.rows], np.int64), False
        for q in range(len(places)):
            places[q] = windows.places[q] * run
        x, y = address(x), address(y)
        for job in range(first, last):
            piece = piece_at(job, size, line, windows)
            rows = Rows(address(places), windows.ptr[piece.row], windows.ptr[piece.row + 1])
            base = piece.base * run
            found = windows_of(x, base, rows, windows, piece.low, piece.high, run, y, piece.at * run, told)
            seen |= found & 1 != 0 or (found != 0 and lost(x, base, rows, line.width * run, told) != 0)
        alive(places)
        return 1 if seen else 0

    return Kernels(by_rows(False), by_rows(True), norm_lanes, norm_runs)


KERNELS = {p: made(p) for p in POWERS}


def over_planes(p: int, plan: Plan, planes: int, itemsize: int) -> tuple[Any, tuple[Any, ...], int]:
    """The kernel for channels first, what it is given after what it is told, and how many parts threads can share."""
    if takes_lanes(plan, planes, itemsize) and is_direct(plan):
        return KERNELS[p].lanes, (plan.packed, planes), groups_of(planes, itemsize)
    return by_rows(p, plan), (plan.packed,), planes * plan.pieces


def by_rows(p: int, plan: Plan) -> Any:
    return KERNELS[p].many if plan.kernel > DIRECT else KERNELS[p].few
