"""The rules of the p-norm: the steps of `cells`, a few planes at a time, so that what lies between stays in a cache.

One call for all planes of a thread: calls of single steps hold the lock of Python for as long as a step takes. Powers of
float64 cells other than 1 and 2 are those of NumPy, and take their steps one by one (`entry.Wide`).

There are kernels for each way to raise cells to a power, so that a call compiles no more than it needs. The sums of windows
are called by their address, for they are most of the code, and all rules need them.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from windowgrad.kernels.pool.lp.cells import (
    by_cells,
    by_factors,
    by_signs,
    divided,
    inverses,
    judge,
    powers,
    powers_and_factors,
    products,
    quick_powers,
    sizes,
    squares,
)
from windowgrad.kernels.pool.mean.rows import mean_rows_back_for, mean_rows_for
from windowgrad.kernels.pool.plan import Plan
from windowgrad.kernels.runtime.calls import call_at
from windowgrad.kernels.runtime.jit import helper, kernel
from windowgrad.kernels.runtime.team import address

SUMS = np.empty(0, np.float64)


class Windows(NamedTuple):
    """The address of `mean_rows`, and what it is told: divisors, the dtype of sums, the plan, and the parts of a plane."""

    address: int

    rows: Any
    columns: Any
    zero: Any
    plan: Any
    parts: int


class Powers(NamedTuple):
    """Three helpers: cells to powers, sums S of powers to S^((1−p)/p), and v to v·sign(x)·|x|^(p − 1)."""

    raised: Any
    fractions: Any
    weighed: Any


class Rules(NamedTuple):
    """The kernels."""

    tangents: Any
    gradients: Any


# --- p = 2 -------------------------------------------------------------------------------------------------------


@helper
def square(x: Any, e: Any, factors: Any, scales: Any, p: float) -> None:
    squares(x, e, scales)


@helper
def inverse_roots(sums: Any, p: float) -> None:
    for i in range(len(sums)):
        sums[i] = np.sqrt(sums[i])
    inverses(sums)


@helper
def by_cell(x: Any, factors: Any, v: Any, scales: Any, out: Any) -> None:
    by_cells(x, v, out, scales)


# --- p = 1 -------------------------------------------------------------------------------------------------------


@helper
def size(x: Any, e: Any, factors: Any, scales: Any, p: float) -> None:
    sizes(x, e, scales)


@helper
def ones(sums: Any, p: float) -> None:
    sums[:] = 1.0


@helper
def by_sign(x: Any, factors: Any, v: Any, scales: Any, out: Any) -> None:
    by_signs(x, v, out, scales)


# --- any other p -------------------------------------------------------------------------------------------------


@helper
def power(x: Any, e: Any, factors: Any, scales: Any, p: float) -> None:
    """e = the powers of the cells; factors = those of p − 1, unless there are none."""
    if len(factors):
        powers_and_factors(x, e, factors, p)
    else:
        powers(x, e, p)


@helper
def quick_fractions(sums: Any, p: float) -> None:
    """S^((1−p)/p) in place of the sums, 0 where the sum is 0."""
    quick_powers(sums, (1.0 - p) / p)


@helper
def by_factor(x: Any, factors: Any, v: Any, scales: Any, out: Any) -> None:
    by_factors(x, factors, v, out)


SQUARES = Powers(square, inverse_roots, by_cell)
SIZES = Powers(size, ones, by_sign)
OTHERS = Powers(power, quick_fractions, by_factor)


# --- the rules ---------------------------------------------------------------------------------------------------


def forward_sums(p: Plan) -> Windows:
    """The sums of windows."""
    given = *p.ones, SUMS, p.packed
    return Windows(address(mean_rows_for(p), (SUMS, SUMS, *given)), *given, p.pieces)


def backward_sums(p: Plan) -> Windows:
    """The sums of the windows that see a cell."""
    given = *p.ones, SUMS, p.packed_back
    return Windows(address(mean_rows_back_for(p), (SUMS, SUMS, *given)), *given, p.plane_in // p.width)


@helper
def add_up(windows: Any, cells: Any, sums: Any, planes: int) -> None:
    given = cells, sums, windows.rows, windows.columns, windows.zero, windows.plan, 0, planes * windows.parts
    call_at(windows.address, given)


@kernel
def norms(x: Any, y: Any, e: Any, sums: Any, scales: Any, strange: Any, limit: float, p: float, windows: Any) -> None:
    """y = the norms of all planes, of a p that `products` does not have; e and sums have room for a few of them."""
    planes = len(scales)
    cells, outputs = len(x) // planes, len(y) // planes
    step = max(1, len(e) // max(1, cells))  # a strip may have no cells, where its windows lie in the padding
    for low in range(0, planes, step):
        high = min(low + step, planes)
        some, found, by = x[low * cells : high * cells], y[low * outputs : high * outputs], scales[low:high]
        raised_, total = e[: len(some)], sums[: len(found)]
        power(some, raised_, windows.zero, by, p)
        add_up(windows, raised_, total, high - low)
        judge(some, raised_, total, strange[low:high], limit)
        quick_powers(total, 1.0 / p)
        divided(total, found, by)


def made(by: Powers) -> Rules:
    """The kernels for powers that are made in one way."""
    raised, fractions, weighed = by

    @kernel
    def tangents(
        x: Any, v: Any, y: Any, e: Any, factors: Any, sums: Any, total: Any, scales: Any, strange: Any,
        limit: float, p: float, windows: Any,
    ) -> None:  # fmt: skip
        """y = the tangents of all planes."""
        planes = len(scales)
        cells, outputs = len(x) // planes, len(y) // planes
        step = max(1, len(e) // max(1, cells))  # a strip may have no cells, where its windows lie in the padding
        for low in range(0, planes, step):
            high = min(low + step, planes)
            some, moved, by = x[low * cells : high * cells], v[low * cells : high * cells], scales[low:high]
            found = y[low * outputs : high * outputs]
            raised_, factors_, divisors, pushed = e[: len(some)], factors[: len(some)], sums[: len(found)], total[: len(found)]
            raised(some, raised_, factors_, by, p)
            add_up(windows, raised_, divisors, high - low)
            judge(some, raised_, divisors, strange[low:high], limit)
            fractions(divisors, p)
            weighed(some, factors_, moved, by, raised_)
            add_up(windows, raised_, pushed, high - low)
            products(pushed, divisors, found)

    @kernel
    def gradients(
        x: Any, g: Any, gx: Any, e: Any, factors: Any, sums: Any, scales: Any, strange: Any,
        limit: float, p: float, windows: Any, back: Any,
    ) -> None:  # fmt: skip
        """gx = the gradients of all planes; `back` are the sums of the windows that see a cell."""
        planes = len(scales)
        cells, outputs = len(x) // planes, len(g) // planes
        step = max(1, len(e) // max(1, cells))  # a strip may have no cells, where its windows lie in the padding
        for low in range(0, planes, step):
            high = min(low + step, planes)
            some, pulled, by = x[low * cells : high * cells], g[low * outputs : high * outputs], scales[low:high]
            raised_, factors_, divisors = e[: len(some)], factors[: len(some)], sums[: len(pulled)]
            raised(some, raised_, factors_, by, p)
            add_up(windows, raised_, divisors, high - low)
            judge(some, raised_, divisors, strange[low:high], limit)
            fractions(divisors, p)
            products(divisors, pulled, divisors)
            add_up(back, divisors, raised_, high - low)
            weighed(some, factors_, raised_, by, gx[low * cells : high * cells])

    return Rules(tangents, gradients)


of_squares, of_sizes, of_others = made(SQUARES), made(SIZES), made(OTHERS)


def rules_for(p: Any) -> Rules:
    """The kernels for a power."""
    return of_squares if p == 2 else of_sizes if p == 1 else of_others
