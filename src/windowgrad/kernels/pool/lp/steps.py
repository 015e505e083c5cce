"""The rules of the p-norm: the steps of `cells`, a few planes at a time, so that what lies between stays in a cache.

One call for all planes of a thread: calls of single steps hold the lock of Python for as long as a step takes. Powers of
float64 cells other than 1 and 2 are those of NumPy, and take their steps one by one (`entry.Wide`).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from windowgrad.kernels.pool.lp import cells
from windowgrad.kernels.pool.mean.rows import mean_rows, mean_rows_back
from windowgrad.kernels.runtime.jit import helper, kernel

squares, sizes, powers, powers_and_factors = cells.squares, cells.sizes, cells.powers, cells.powers_and_factors
quick_powers, divided, inverses, products, judge = (
    cells.quick_powers,
    cells.divided,
    cells.inverses,
    cells.products,
    cells.judge,
)
by_cells, by_signs, by_factors = cells.by_cells, cells.by_signs, cells.by_factors


class Windows(NamedTuple):
    """What `mean_rows` is told of a plane: divisors, the dtype of sums, the plan, and the parts of a plane."""

    rows: Any
    columns: Any
    zero: Any
    plan: Any
    parts: int


@helper
def raised(x: Any, e: Any, factors: Any, scales: Any, p: float) -> None:
    """e = the powers of the cells; factors = those of p − 1, unless there are none."""
    if p == 2.0:
        squares(x, e, scales)
    elif p == 1.0:
        sizes(x, e, scales)
    elif len(factors):
        powers_and_factors(x, e, factors, p)
    else:
        powers(x, e, p)


@helper
def roots(sums: Any) -> None:
    for i in range(len(sums)):
        sums[i] = np.sqrt(sums[i])


@helper
def fractions(sums: Any, p: float) -> None:
    """S^((1−p)/p) in place of the sums, 0 where the sum is 0."""
    if p == 2.0:
        roots(sums)
        inverses(sums)
    elif p == 1.0:
        sums[:] = 1.0
    else:
        quick_powers(sums, (1.0 - p) / p)


@helper
def weighed(x: Any, factors: Any, v: Any, scales: Any, p: float, out: Any) -> None:
    if p == 2.0:
        by_cells(x, v, out, scales)
    elif p == 1.0:
        by_signs(x, v, out, scales)
    else:
        by_factors(x, factors, v, out)


@kernel
def norms(x: Any, y: Any, e: Any, sums: Any, scales: Any, strange: Any, limit: float, p: float, windows: Any) -> None:
    """y = the norms of all planes; e and sums have room for a few of them."""
    planes, a, b, zero, plan, parts = len(scales), windows.rows, windows.columns, windows.zero, windows.plan, windows.parts
    cells, outputs = len(x) // planes, len(y) // planes
    step = max(1, len(e) // max(1, cells))  # a strip may have no cells, where its windows lie in the padding
    for low in range(0, planes, step):
        high = min(low + step, planes)
        some, found, by = x[low * cells : high * cells], y[low * outputs : high * outputs], scales[low:high]
        raised_, total = e[: len(some)], sums[: len(found)]
        raised(some, raised_, zero, by, p)
        mean_rows(raised_, total, a, b, zero, plan, 0, (high - low) * parts)
        judge(some, raised_, total, strange[low:high], limit)
        if p == 2.0:
            roots(total)
        elif p != 1.0:
            quick_powers(total, 1.0 / p)
        divided(total, found, by)


@kernel
def tangents(
    x: Any, v: Any, y: Any, e: Any, factors: Any, sums: Any, total: Any, scales: Any, strange: Any,
    limit: float, p: float, windows: Any,
) -> None:  # fmt: skip
    """y = the tangents of all planes."""
    planes, a, b, zero, plan, parts = len(scales), windows.rows, windows.columns, windows.zero, windows.plan, windows.parts
    cells, outputs = len(x) // planes, len(y) // planes
    step = max(1, len(e) // max(1, cells))  # a strip may have no cells, where its windows lie in the padding
    for low in range(0, planes, step):
        high = min(low + step, planes)
        some, moved, by = x[low * cells : high * cells], v[low * cells : high * cells], scales[low:high]
        found = y[low * outputs : high * outputs]
        raised_, factors_, divisors, pushed = e[: len(some)], factors[: len(some)], sums[: len(found)], total[: len(found)]
        raised(some, raised_, factors_, by, p)
        mean_rows(raised_, divisors, a, b, zero, plan, 0, (high - low) * parts)
        judge(some, raised_, divisors, strange[low:high], limit)
        fractions(divisors, p)
        weighed(some, factors_, moved, by, p, raised_)
        mean_rows(raised_, pushed, a, b, zero, plan, 0, (high - low) * parts)
        products(pushed, divisors, found)


@kernel
def gradients(
    x: Any, g: Any, gx: Any, e: Any, factors: Any, sums: Any, scales: Any, strange: Any,
    limit: float, p: float, windows: Any, back: Any,
) -> None:  # fmt: skip
    """gx = the gradients of all planes; `back` is what `mean_rows_back` is told."""
    planes, a, b, zero, plan, parts = len(scales), windows.rows, windows.columns, windows.zero, windows.plan, windows.parts
    cells, outputs = len(x) // planes, len(g) // planes
    step = max(1, len(e) // max(1, cells))  # a strip may have no cells, where its windows lie in the padding
    for low in range(0, planes, step):
        high = min(low + step, planes)
        some, pulled, by = x[low * cells : high * cells], g[low * outputs : high * outputs], scales[low:high]
        raised_, factors_, divisors = e[: len(some)], factors[: len(some)], sums[: len(pulled)]
        raised(some, raised_, factors_, by, p)
        mean_rows(raised_, divisors, a, b, zero, plan, 0, (high - low) * parts)
        judge(some, raised_, divisors, strange[low:high], limit)
        fractions(divisors, p)
        products(divisors, pulled, divisors)
        mean_rows_back(divisors, raised_, a, b, zero, back.plan, 0, (high - low) * back.parts)
        weighed(some, factors_, raised_, by, p, gx[low * cells : high * cells])
