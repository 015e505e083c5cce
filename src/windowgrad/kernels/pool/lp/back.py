"""The gradient of the p-norm for p of which powers are products: the norms y are known, as float64.

    gx = (Σ g ÷ y^(p−1))·sign(x)·|x|^(p−1)        the sum over the windows that see a cell; 0 in place of 1 ÷ 0

An input row at a time, as the mean does it: the shares g ÷ y^(p−1) of the output rows that see it are added, spread out, added
along the row, and multiplied by the cells. One kernel for all layouts: where channels stand last, a cell is a run of them. All
is float64, and the additions are in the same order, so neither the layout nor the batch changes a bit. Shares of a plane are
made once and kept, unless they are too many for a cache (`KEPT`); then once for each input row that needs them.

A norm that is not finite is strange, and of float64 cells one whose power may leave the range of numbers (`limits_of`): such a
plane goes step by step (`entry`).

Measured: 9 to 12 times as fast as step by step in 3×3 windows with channels last, 2 to 7 times with channels first; planes of
8×8 and 14×14 gain least, for a row costs as much as its cells.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from windowgrad.kernels.pool.lp.cells import magnitude, turned
from windowgrad.kernels.pool.mean.rows import alike_after, few_spans, spans, spread_out
from windowgrad.kernels.pool.mean.runs import spread_runs, spread_unlike_runs
from windowgrad.kernels.pool.packed import unpacked
from windowgrad.kernels.pool.plan import Plan
from windowgrad.kernels.pool.row_pieces import fill
from windowgrad.kernels.pool.smooth.results import put, some
from windowgrad.kernels.pool.window_spans import DIRECT, uses_up
from windowgrad.kernels.runtime.jit import helper, kernel
from windowgrad.kernels.vector.masked import one_by_one
from windowgrad.kernels.vector.ops import (
    address,
    alive,
    anywhere,
    divide,
    either,
    equal,
    greater,
    lanes,
    less,
    load,
    multiply,
    not_equal,
    not_finite,
    select,
    splat,
    store,
)

KEPT = 1 << 16
"""The most shares that are kept."""


class Limits(NamedTuple):
    """The least norm and the greatest that are not strange, other than 0."""

    least: float
    most: float


ANY = Limits(0.0, 1e300)
"""Of float32 cells, and where no power is taken."""


def limits_of(p: int, dtype: Any) -> Limits:
    """Sums of float64 powers lie between 10⁻¹⁰⁰ and 10¹⁰⁰: then nothing is lost, and shares have room."""
    return ANY if dtype == np.float32 or p == 1 else Limits(10.0 ** -(100 // p), 10.0 ** (100 // p))


# --- what depends on p: y^(p−1), and a sum times the power of a cell ----------------------------------------------


@helper
def itself(y: Any) -> Any:
    return y


@helper
def squared(y: Any) -> Any:
    return multiply(y, y)


@helper
def cubed(y: Any) -> Any:
    return multiply(multiply(y, y), y)


@helper
def by_sign(x: Any, total: Any) -> Any:
    return turned(x, total)


@helper
def by_cell(x: Any, total: Any) -> Any:
    return multiply(x, total)


@helper
def by_square(x: Any, total: Any) -> Any:
    return multiply(multiply(x, magnitude(x)), total)


@helper
def by_cube(x: Any, total: Any) -> Any:
    return multiply(cubed(x), total)


class Backward(NamedTuple):
    """The kernels for a power."""

    few: Any
    many: Any


def made(p: int) -> Backward:
    raised = {1: itself, 2: itself, 3: squared, 4: cubed}[p]
    weighed = {1: by_sign, 2: by_cell, 3: by_square, 4: by_cube}[p]
    divides = p > 1

    @helper
    def share(g: Any, y: Any, at: int, q: Any, to: int, count: int, limits: Any) -> Any:
        """q[to:] = the shares of `count` outputs; says whether a norm is strange."""
        nothing, one = splat(q, 0.0), splat(q, 1.0)
        least, most = splat(q, limits.least), splat(q, limits.most)
        strange = not_equal(nothing, nothing)
        for c in range(0, count, lanes(q)):
            one_by_one()
            left = count - c
            norm, given = some(y, at + c, left, q), some(g, at + c, left, q)
            zero = equal(norm, nothing)
            norm = select(zero, one, norm)
            strange = either(strange, either(not_finite(norm), either(less(norm, least), greater(norm, most))))
            if divides:
                given = multiply(select(zero, nothing, divide(one, raised(norm))), given)
            put(q, to + c, given, left)
        return anywhere(strange)

    @helper
    def weigh(total: Any, x: Any, gx: Any, at: int, count: int) -> None:
        """gx[at:] = totals times the powers of the cells."""
        for c in range(0, count, lanes(total)):
            one_by_one()
            put(gx, at + c, weighed(some(x, at + c, count - c, total), load(total, c)), count - c)

    def by_rows(many: bool) -> Any:
        along = spans if many else few_spans

        @kernel
        def norm_back(
            x: Any, g: Any, y: Any, gx: Any, strange: Any, limits: Any, plan: Any, run: int, first: int, last: int
        ) -> int:
            """Rows `first` to `last` of all planes of the gradient; says whether a plane is strange, `strange` says which."""
            line, windows, _ = unpacked(plan)
            width, out, taps, stride, step = line.width * run, line.out * run, line.taps, line.stride, line.step
            height, plane, seen = windows.rows, windows.plane * run, False
            wide = np.empty(0, np.float64)
            n, ahead, keeps = lanes(wide), max(taps - 1, 0) * step * run, plane <= KEPT
            needed = ahead + max(line.before + line.width, line.out * stride) * run + (stride + 4) * n
            space = np.zeros(needed if taps else 0, np.float64)
            kept, sums, row = np.empty((plane if keeps else out) + n, np.float64), np.zeros(out + n), np.zeros(width + n)
            have = np.zeros(windows.plane // max(line.out, 1) if keeps else 0, np.bool_)
            buffer, q, total, found = address(space), address(kept), address(sums), address(row)
            x, g, y, gx = address(x), address(g), address(y), address(gx)
            number, i = first // height, first % height
            job = first
            while job < last:
                fill(total, 0, out, 0)
                for r in range(windows.ptr[i], windows.ptr[i + 1]):
                    place = windows.places[r]
                    to = place * run if keeps else 0
                    if not keeps or not have[place // line.out]:
                        if share(g, y, number * plane + place * run, q, to, out, limits):
                            strange[number] = seen = True
                        if keeps:
                            have[place // line.out] = True
                    for c in range(0, out, n):
                        one_by_one()
                        store(total, c, load(total, c) + some(q, to + c, out - c, wide))
                if taps == 0:
                    spread_unlike_runs(total, found, 0, line, windows, run)
                else:
                    if many and uses_up(taps):
                        fill(buffer, 0, len(space), 0)
                    if stride == 1 or run == 1:
                        spread_out(total, out, buffer, ahead, stride)
                    else:
                        spread_runs(total, line.out, buffer, ahead, stride * run, run)
                    along(buffer, line.before * run, found, 0, width, taps, step * run, 1)
                alike = alike_after(windows, i, min(height - i, last - job) - 1) + 1
                for a in range(alike):
                    weigh(found, x, gx, (job + a) * width, width)
                job, i = job + alike, i + alike
                if i == height:
                    number, i = number + 1, 0
                    have[:] = False
            alive(space)
            alive(kept)
            alive(sums)
            alive(row)
            return 1 if seen else 0

        return norm_back

    return Backward(by_rows(False), by_rows(True))


BACKWARD = {p: made(p) for p in (1, 2, 3, 4)}


def over_rows_back(p: int, plan: Plan, planes: int, channels: int, dtype: Any) -> tuple[Any, tuple[Any, ...], int]:
    """The kernel, what it is given after what is strange, and how many parts threads can share."""
    kernel = BACKWARD[p].many if plan.kernel > DIRECT else BACKWARD[p].few
    return kernel, (limits_of(p, dtype), plan.packed_back, channels), planes * (plan.plane_in // plan.width)
