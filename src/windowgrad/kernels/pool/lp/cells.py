"""What is done with single cells and single windows of a p-norm; `entry` says how the steps follow each other.

    cells  →  powers  →  sums of the windows  →  norms           forward: here, `mean_rows`, here
     x         |s·x|^p     S                      S^(1/p)/s

s is a power of two for each plane, near 1 ÷ its greatest magnitude, so that it rounds nothing; 1 where no power can overflow.

A power of float32 cells is 2^(p·log₂|x|) by polynomials that keep 9 bits more than are asked for (`exp_log`): the logarithm is
within 2⁻³⁷, the power of p ≤ 6 within 2⁻³², and so is the root. Powers of float64 cells are NumPy's.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from windowgrad.kernels.arrays import Array
from windowgrad.kernels.pool.smooth.cells import MAGNITUDE
from windowgrad.kernels.pool.smooth.results import put, some
from windowgrad.kernels.runtime.jit import helper, kernel
from windowgrad.kernels.vector.exp_log import LOG2_E, quick_logarithm, quick_power
from windowgrad.kernels.vector.masked import one_by_one
from windowgrad.kernels.vector.ops import (
    address,
    anywhere,
    divide,
    either,
    equal,
    greater,
    lanes,
    less,
    load,
    load_part,
    multiply,
    not_equal,
    not_finite,
    select,
    splat,
    subtract,
)
from windowgrad.kernels.vector.shuffle import bits, floats, masked


@helper
def magnitude(v: Any) -> Any:
    return floats(masked(bits(v), MAGNITUDE))


@helper
def quick(v: Any, p: float) -> Any:
    """vᵖ of v ≥ 0 that is normal, or 0; infinity and NaN stay, so that their sums are seen to be strange."""
    nothing = equal(v, splat(v, 0.0))
    power = quick_power(multiply(quick_logarithm(select(nothing, splat(v, 1.0), v)), splat(v, p * LOG2_E)))
    return select(nothing, splat(v, 0.0), select(not_finite(v), v, power))


@helper
def squares(x: Any, e: Any, scales: Any) -> None:
    """e = (s·x)²; a loop for each way, for a choice inside one takes as long as what is chosen."""
    plane, n, x, e = len(x) // len(scales), lanes(e), address(x), address(e)
    for q in range(len(scales)):
        s = splat(e, scales[q])
        for i in range(q * plane, (q + 1) * plane, n):
            left = (q + 1) * plane - i
            v = multiply(some(x, i, left, e), s)
            put(e, i, multiply(v, v), left)


@kernel
def sizes(x: Any, e: Any, scales: Any) -> None:
    """e = |s·x|"""
    plane, n, x, e = len(x) // len(scales), lanes(e), address(x), address(e)
    for q in range(len(scales)):
        s = splat(e, scales[q])
        for i in range(q * plane, (q + 1) * plane, n):
            left = (q + 1) * plane - i
            put(e, i, magnitude(multiply(some(x, i, left, e), s)), left)


@helper
def powers(x: Any, e: Any, p: float) -> None:
    """e = |x|^p, quickly"""
    size, n, x, e = len(x), lanes(e), address(x), address(e)
    for i in range(0, size, n):
        one_by_one()
        put(e, i, quick(magnitude(some(x, i, size - i, e)), p), size - i)


@helper
def powers_and_factors(x: Any, e: Any, factors: Any, p: float) -> None:
    """The same, and factors = |x|^(p − 1)"""
    size, n, x, e, factors = len(x), lanes(e), address(x), address(e), address(factors)
    for i in range(0, size, n):
        one_by_one()
        v = magnitude(some(x, i, size - i, e))
        factor = quick(v, p - 1.0)
        put(factors, i, factor, size - i)
        put(e, i, multiply(factor, v), size - i)


@helper
def quick_powers(values: Any, p: float) -> None:
    """values = their p-th powers; 0 stays 0, whatever p is."""
    for i in range(0, len(values), lanes(values)):
        one_by_one()
        put(values, i, quick(some(values, i, len(values) - i, values), p), len(values) - i)


@kernel
def divided(values: Any, y: Any, scales: Any) -> None:
    """y = values ÷ s"""
    plane, n = len(values) // len(scales), lanes(values)
    for q in range(len(scales)):
        s = splat(values, scales[q])
        for i in range(q * plane, (q + 1) * plane, n):
            one_by_one()
            left = (q + 1) * plane - i
            put(y, i, divide(some(values, i, left, values), s), left)


@helper
def inverses(values: Any) -> None:
    """1 ÷ values, 0 in place of 0."""
    nothing = splat(values, 0.0)
    for i in range(0, len(values), lanes(values)):
        one_by_one()
        value = some(values, i, len(values) - i, values)
        zero = equal(value, nothing)
        put(
            values,
            i,
            select(zero, nothing, divide(splat(values, 1.0), select(zero, splat(values, 1.0), value))),
            len(values) - i,
        )


@kernel
def products(a: Any, b: Any, y: Any) -> None:
    """y = a·b; a is float64."""
    for i in range(0, len(a), lanes(a)):
        one_by_one()
        left = len(a) - i
        put(y, i, multiply(some(a, i, left, a), some(b, i, left, a)), left)


@helper
def turned(cell: Any, given: Any) -> Any:
    """What is given times the sign of the cell; 0·∞ is no 0."""
    nothing = splat(cell, 0.0)
    other = select(less(cell, nothing), subtract(nothing, given), multiply(cell, given))
    return select(greater(cell, nothing), given, other)


@helper
def by_cells(x: Any, v: Any, out: Any, scales: Any) -> None:
    """out = v·s·x"""
    plane, n, x, v, out = len(x) // len(scales), lanes(scales), address(x), address(v), address(out)
    for q in range(len(scales)):
        s = splat(scales, scales[q])
        for i in range(q * plane, (q + 1) * plane, n):
            left = (q + 1) * plane - i
            put(out, i, multiply(multiply(some(x, i, left, scales), s), some(v, i, left, scales)), left)


@helper
def by_signs(x: Any, v: Any, out: Any, wide: Any) -> None:
    """out = v·sign(x), in the dtype of `wide`"""
    size, n, x, v, out = len(x), lanes(wide), address(x), address(v), address(out)
    for i in range(0, size, n):
        put(out, i, turned(some(x, i, size - i, wide), some(v, i, size - i, wide)), size - i)


@kernel
def by_factors(x: Any, factors: Any, v: Any, out: Any) -> None:
    """out = v·sign(x)·factor"""
    size, n, x, v, out = len(x), lanes(factors), address(x), address(v), address(out)
    for i in range(0, size, n):
        given = multiply(some(factors, i, size - i, factors), some(v, i, size - i, factors))
        put(out, i, turned(some(x, i, size - i, factors), given), size - i)


@kernel
def judge(x: Any, e: Any, sums: Any, strange: Any, limit: float) -> None:
    """strange[q] says whether the sums of a plane may be wrong: one is not finite, or below the limit, and not for zeros."""
    cells, outputs, n = len(e) // len(strange), len(sums) // len(strange), lanes(sums)
    for q in range(len(strange)):
        base = q * outputs
        wrong = not_equal(splat(sums, 0.0), splat(sums, 0.0))
        small = wrong
        for i in range(0, outputs, n):
            one_by_one()
            left = outputs - i
            total = load(sums, base + i) if left >= n else load_part(sums, base + i, left, splat(sums, limit))
            wrong = either(wrong, not_finite(total))
            small = either(small, less(total, splat(sums, limit)))
        strange[q] = anywhere(wrong)
        if limit > 0.0 and anywhere(small):
            lost = False
            for i in range(base, base + outputs):
                lost |= sums[i] < limit and sums[i] > 0.0
            for i in range(q * cells, (q + 1) * cells):
                lost |= e[i] == 0.0 and x[i] != 0
            strange[q] |= lost


def scales_of(x: Array, planes: int, narrow: bool) -> Array:
    """The power of two that each plane is multiplied by: its greatest magnitude then lies from ½ to 1, unless it is tiny."""
    if narrow:
        return np.ones(planes)
    lines = x.reshape(planes, -1)
    top = np.maximum(lines.max(axis=1, initial=0), -lines.min(axis=1, initial=0)).astype(np.float64)
    exponent = np.frexp(np.where(np.isfinite(top), top, 1.0))[1]
    return np.ldexp(1.0, np.minimum(-exponent, 1000))
