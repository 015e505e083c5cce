"""exp and log of float64 vectors: a power of two taken out, and a polynomial of what is left.

`exponential` is within 1 ulp and `logarithm` within 1.5, for results in float64. `quick_power` and `quick_logarithm` are for
results in float32, of which they keep 9 bits more than are asked for, in half the time.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from windowgrad.kernels.runtime.jit import helper
from windowgrad.kernels.vector.ops import fma, less, not_finite, select, splat
from windowgrad.kernels.vector.shuffle import bits, convert, floats, masked, shift_left, shift_right

LOG2_E = 1.4426950408889634
LN2 = 0.6931471805599453
LN2_HIGH = 0.693147180369123816490  # the first 32 bits of ln 2: a product with a small integer is exact
LN2_LOW = 1.90821492927058770002e-10
ROUNDER = 6755399441055744.0  # 1.5·2^52: what is added to it and taken away again is rounded to an integer
LEAST = -746.0  # exp of this and of all below is 0
FACTORIALS = tuple(1 / math.factorial(n) for n in range(2, 14))
ODD_PARTS = tuple(1 / n for n in range(3, 27, 2))
WORDS = np.empty(0, np.float64)
# Chebyshev fits: 2ᶠ for |f| ≤ ½ within 2⁻³³ of itself, and log((1 + s)/(1 − s))/s in s² for parts from √½ to √2 within 2⁻³⁶
POWERS = (
    0.9999999999595618, 0.6931471805568324, 0.24022651213498092, 0.055504109063258665,
    0.009618025613318034, 0.0013333478473685416, 0.00015469729214118296, 1.5303700711365693e-05,
)  # fmt: skip
LOGARITHMS = (2.0000000000083595, 0.6666666524748752, 0.4000038467237519, 0.2853505103781631, 0.23616359099145984)


@helper
def power_of_two(n: Any) -> Any:
    """2ⁿ for a vector of whole numbers from −1022 to 1023."""
    return floats(shift_left(bits(n + splat(n, ROUNDER + 1023.0)), 52))


@helper
def pair(x: Any, c: Any, n: int) -> Any:
    return fma(x, splat(x, c[n + 1]), splat(x, c[n]))


@helper
def series(x: Any, c: Any) -> Any:
    """c[0] + c[1]·x + … + c[11]·x¹¹, by halves: fewer steps wait for each other than in Horner's way."""
    x2 = x * x
    x4 = x2 * x2
    low = fma(fma(pair(x, c, 6), x2, pair(x, c, 4)), x4, fma(pair(x, c, 2), x2, pair(x, c, 0)))
    return fma(fma(pair(x, c, 10), x2, pair(x, c, 8)), x4 * x4, low)


@helper
def exponential(x: Any) -> Any:
    """eˣ for x ≤ 700, and NaN of NaN."""
    x = select(less(x, splat(x, LEAST)), splat(x, LEAST), x)
    whole = fma(x, splat(x, LOG2_E), splat(x, ROUNDER)) - splat(x, ROUNDER)
    rest = fma(whole, splat(x, -LN2_LOW), fma(whole, splat(x, -LN2_HIGH), x))
    total = fma(rest * rest, series(rest, FACTORIALS), rest) + splat(x, 1.0)
    half = fma(whole, splat(x, 0.5), splat(x, ROUNDER)) - splat(x, ROUNDER)  # in two steps: 2^whole may be subnormal
    return total * power_of_two(half) * power_of_two(whole - half)


@helper
def quick_power(x: Any) -> Any:
    """2ˣ for |x| ≤ 1000, within 2⁻³³ of itself."""
    rounded = x + splat(x, ROUNDER)
    rest = x - (rounded - splat(x, ROUNDER))
    total = fma(pair(rest, POWERS, 6), rest, splat(x, POWERS[5]))
    total = fma(fma(total, rest, splat(x, POWERS[4])), rest, splat(x, POWERS[3]))
    total = fma(fma(fma(total, rest, splat(x, POWERS[2])), rest, splat(x, POWERS[1])), rest, splat(x, POWERS[0]))
    return floats(bits(total) + shift_left(bits(rounded), 52))


@helper
def parts(x: Any) -> Any:
    """(exponent, part): x = 2^exponent · part, from √½ to √2, for a normal x > 0."""
    word = bits(x)
    exponent = convert(shift_right(word, 52), WORDS) - splat(x, 1023.0)
    part = floats(masked(word, 0x000FFFFFFFFFFFFF) + splat(word, 0x3FF0000000000000))  # from 1 to 2
    large = less(splat(x, 1.4142135623730951), part)
    return select(large, exponent + splat(x, 1.0), exponent), select(large, part * splat(x, 0.5), part)


@helper
def logarithm(x: Any) -> Any:
    """log x for a normal x > 0; what is not finite stays as it is."""
    exponent, part = parts(x)
    less_one = part - splat(x, 1.0)
    s = less_one / (part + splat(x, 1.0))  # log part = 2·(s + s³/3 + s⁵/5 + …)
    z = s * s
    total = series(z, ODD_PARTS)
    # 2s = less_one − s·less_one, where less_one is exact
    log_part = less_one - s * (less_one - splat(x, 2.0) * z * total)
    result = fma(exponent, splat(x, LN2_HIGH), fma(exponent, splat(x, LN2_LOW), log_part))
    return select(not_finite(x), x, result)


@helper
def quick_logarithm(x: Any) -> Any:
    """log x for a normal x > 0, within 2⁻³⁸ + 2⁻⁵¹·|log x|."""
    exponent, part = parts(x)
    s = (part - splat(x, 1.0)) / (part + splat(x, 1.0))
    z = s * s
    total = fma(fma(splat(x, LOGARITHMS[4]), z, splat(x, LOGARITHMS[3])), z, splat(x, LOGARITHMS[2]))
    total = fma(fma(total, z, splat(x, LOGARITHMS[1])), z, splat(x, LOGARITHMS[0]))
    return fma(exponent, splat(x, LN2), s * total)
