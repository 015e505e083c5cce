"""Smooth maximum whatever the cells: sums of v·exp(β·t) as pairs (top, Σ v·exp(β·(t − top))), which nothing overflows.

For planes that one reference does not do for: `entry.Weights.mend` finds them by their middle, NaN, and does them one by one.
Rows first, then along the row, so that a cell is weighed once for each row and once for each column of a window, not once for
each window. For β < 0 the signs of the cells are turned, so that the cell that weighs most is always the greatest.

The gradient is the same sum over the windows of each cell. Window o gives v = g/Σ at t = −top; the cell c gets
(ref, sum) and is exp(β·(x + ref))·sum, where x ≤ −ref, the least top that it is under.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from windowgrad.kernels.pool.packed import Line, packed, rows_of, unpacked
from windowgrad.kernels.pool.plan import Array, Plan
from windowgrad.kernels.runtime.jit import helper, kernel
from windowgrad.kernels.vector.exp_log import exponential
from windowgrad.kernels.vector.ops import equal, fma, lanes, load, maximum, select, splat, store
from windowgrad.kernels.vector.types import lanes_of

INFINITY = np.inf
ROOM = lanes_of(8)  # entries past the end of every array here, so that vectors may run over it

Pair = tuple[Array, Array]


@helper
def weight(value: Any, top: Any, beta: float) -> Any:
    """exp(β·(value − top)), 1 where they are equal, infinities too."""
    return exponential(splat(top, beta) * select(equal(value, top), splat(top, 0.0), value - top))


@helper
def columns(t: Any, v: Any, beta: float, rows: Any, width: int, tops: Any, sums: Any) -> None:
    """The pair of each column."""
    low, high, places = rows.low, rows.high, rows.places
    for j in range(0, width, lanes(t)):
        top, total = load(t, places[low] + j), splat(t, 0.0)
        for q in range(low + 1, high):
            top = maximum(top, load(t, places[q] + j))
        for q in range(low, high):
            total = fma(load(v, places[q] + j), weight(load(t, places[q] + j), top, beta), total)
        store(tops, j, top)
        store(sums, j, total)


@helper
def pick(entries: Any, out: int, windows: Any, n: int, missing: float, picked: Any) -> None:
    """picked = the n-th entry of each window along the row."""
    for j in range(out):
        picked[j] = entries[windows.start[j] + n * windows.step] if n < windows.count[j] else missing


@kernel
def pair_sums(t: Any, v: Any, beta: float, tops: Any, sums: Any, plan: Any) -> None:
    """The pairs of one plane of windows; of one without cells (−∞, 0)."""
    line, windows, _ = unpacked(plan)
    out, most = line.out, 0
    for j in range(out):
        most = max(most, windows.count[j])
    column_tops, column_sums = np.zeros(line.width + ROOM), np.zeros(line.width + ROOM)
    line_tops, line_sums = np.zeros(out + ROOM), np.zeros(out + ROOM)
    for row in range(windows.rows):
        rows = rows_of(windows, row)
        at, here = row * out, most if rows.low < rows.high else 0
        for j in range(at, at + out):
            tops[j], sums[j] = -INFINITY, 0.0
        if here:
            columns(t, v, beta, rows, line.width, column_tops, column_sums)
        for n in range(here):
            pick(column_tops, out, windows, n, -INFINITY, line_tops)
            for j in range(0, out, lanes(t)):
                store(tops, at + j, maximum(load(tops, at + j), load(line_tops, j)))
        for n in range(here):
            pick(column_tops, out, windows, n, -INFINITY, line_tops)
            pick(column_sums, out, windows, n, 0.0, line_sums)
            for j in range(0, out, lanes(t)):
                share = weight(load(line_tops, j), load(tops, at + j), beta)
                store(sums, at + j, fma(load(line_sums, j), share, load(sums, at + j)))


def roomy(cells: Any, size: int) -> Array:
    """A float64 copy with room behind it."""
    copy = np.zeros(size + ROOM)
    copy[:size] = cells
    return copy


def summed(p: Plan, t: Any, v: Any, beta: float) -> Pair:
    """The pairs of the windows."""
    tops, sums = np.empty(p.plane_out + ROOM), np.empty(p.plane_out + ROOM)
    cells = roomy(t, p.plane_in), roomy(v, p.plane_in)
    pair_sums(*cells, beta, tops, sums, p.packed)
    return tops[: p.plane_out], sums[: p.plane_out]


def spread(p: Plan, t: Any, v: Any, beta: float) -> Pair:
    """The same over the windows of each cell."""
    tops, sums = np.empty(p.plane_in + ROOM), np.empty(p.plane_in + ROOM)
    cells = roomy(t, p.plane_out), roomy(v, p.plane_out)
    start, count, step = seen_along(p)
    line = Line(width=p.out, out=p.width, taps=0, stride=0, before=0, step=step, run=1)
    lists = p.back_ptr, p.back_rows, start, count
    pair_sums(*cells, beta, tops, sums, packed(line, len(p.back_ptr) - 1, p.plane_out, p.width, *lists))
    return tops[: p.plane_in], sums[: p.plane_in]


def seen_along(p: Plan) -> tuple[Array, Array, int]:
    """(start, count, step) of the outputs that see each cell of a row: they are evenly spaced too."""
    outs = np.repeat(np.arange(p.out), p.count)
    ends = np.cumsum(p.count)
    cells = p.start[outs] + p.step * (np.arange(len(outs)) - np.repeat(ends - p.count, p.count))
    outs = outs[np.argsort(cells, kind="stable")]
    count = np.bincount(cells, minlength=p.width)
    first = np.cumsum(count) - count
    start = np.where(count > 0, np.append(outs, 0)[first], 0)
    several = first[count > 1][:1]
    return start, count, int((outs[several + 1] - outs[several]).max(initial=1))


def weights_of(value: Any, top: Any, beta: float) -> Array:
    """exp(β·(value − top)), as `weight`."""
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        result: Array = np.exp(beta * np.where(value == top, 0.0, value - top))
        return result


def weighed(p: Plan, x: Any, beta: float, pad: Array) -> tuple[Array, Array, Array]:
    """(turned cells, tops, totals) with the padded zeros."""
    cells = x.astype(np.float64) * np.sign(beta)
    tops, totals = summed(p, cells, 1.0, abs(beta))
    return cells, *with_zeros(tops, totals, pad, abs(beta))


def with_zeros(tops: Array, sums: Array, pad: Array, beta: float) -> Pair:
    most = np.where(pad > 0, np.maximum(tops, 0.0), tops)
    zeros = np.where(pad > 0, pad * weights_of(0.0, most, beta), 0.0)
    return most, sums * weights_of(tops, most, beta) + zeros


def values(p: Plan, x: Any, beta: float, pad: Array) -> Array:
    """The smooth maximum of each window of one plane."""
    _, tops, totals = weighed(p, x, beta, pad)
    some = totals != 0
    with np.errstate(over="ignore"):
        return np.where(some, tops * np.sign(beta) + np.log(np.where(some, totals, 1.0)) / beta, 0.0)


def tangents(p: Plan, x: Any, dx: Any, beta: float, pad: Array) -> Array:
    """The sum of the tangents of each window, by their weights."""
    cells, tops, totals = weighed(p, x, beta, pad)
    own, sums = summed(p, cells, dx, abs(beta))
    some = totals != 0
    with np.errstate(invalid="ignore"):
        return np.where(some, sums * weights_of(own, tops, abs(beta)) / np.where(some, totals, 1.0), 0.0)


def gradients(p: Plan, x: Any, g: Any, beta: float, pad: Array) -> Array:
    """The gradient of each cell of one plane."""
    cells, tops, totals = weighed(p, x, beta, pad)
    shares = np.where(totals != 0, g / np.where(totals != 0, totals, 1.0), 0.0)
    refs, sums = spread(p, -tops, shares, abs(beta))
    unseen = (refs == -INFINITY) & np.isnan(cells)  # under no window; in one, NaN is the top
    with np.errstate(invalid="ignore"):
        return np.where(unseen, 0.0, sums * weights_of(cells, -refs, abs(beta)))
