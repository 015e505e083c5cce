"""exp (within 1 ulp) and log (within 1.5) of float64 vectors: a power of two taken out, and the series of what is left.

Written for log-sum-exp: the exponent is never above 0 (−∞ and NaN included), the logarithm is that of a normal number.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from windowgrad.kernels.jit import helper
from windowgrad.kernels.lanes import bits, convert, floats, masked, shift_left, shift_right
from windowgrad.kernels.simd import fma, less, not_finite, select, splat

LOG2_E = 1.4426950408889634
LN2_HIGH = 0.693147180369123816490  # the first 32 bits of ln 2: a product with a small integer is exact
LN2_LOW = 1.90821492927058770002e-10
ROUNDER = 6755399441055744.0  # 1.5·2^52: what is added to it and taken away again is rounded to an integer
LEAST = -746.0  # exp of this and of all below is 0
FACTORIALS = tuple(1 / np.prod(np.arange(1.0, n + 1)) for n in range(14))
WORDS = np.empty(0, np.float64)


@helper
def power_of_two(n: Any) -> Any:
    """2ⁿ for a vector of whole numbers from −1022 to 1023."""
    return floats(shift_left(bits(n + splat(n, ROUNDER + 1023.0)), 52))


@helper
def exponential(x: Any) -> Any:
    """eˣ for x ≤ 0, and NaN of NaN."""
    x = select(less(x, splat(x, LEAST)), splat(x, LEAST), x)
    whole = fma(x, splat(x, LOG2_E), splat(x, ROUNDER)) - splat(x, ROUNDER)
    rest = fma(whole, splat(x, -LN2_LOW), fma(whole, splat(x, -LN2_HIGH), x))
    total = splat(x, FACTORIALS[13])
    for n in range(12, -1, -1):
        total = fma(total, rest, splat(x, FACTORIALS[n]))
    half = fma(whole, splat(x, 0.5), splat(x, ROUNDER)) - splat(x, ROUNDER)  # in two steps: 2^whole may be subnormal
    return total * power_of_two(half) * power_of_two(whole - half)


@helper
def logarithm(x: Any) -> Any:
    """log x for a normal x > 0; what is not finite stays as it is."""
    word = bits(x)
    exponent = convert(shift_right(word, 52), WORDS) - splat(x, 1023.0)
    part = floats(masked(word, 0x000FFFFFFFFFFFFF) + splat(word, 0x3FF0000000000000))  # from 1 to 2
    large = less(splat(x, 1.4142135623730951), part)
    part = select(large, part * splat(x, 0.5), part)
    exponent = select(large, exponent + splat(x, 1.0), exponent)
    less_one = part - splat(x, 1.0)
    s = less_one / (part + splat(x, 1.0))  # log part = 2·(s + s³/3 + s⁵/5 + …)
    z = s * s
    total = splat(x, 1 / 25)
    for n in range(23, 1, -2):
        total = fma(total, z, splat(x, 1 / n))
    # 2s = less_one − s·less_one, where less_one is exact
    log_part = less_one - s * (less_one - splat(x, 2.0) * z * total)
    result = fma(exponent, splat(x, LN2_HIGH), fma(exponent, splat(x, LN2_LOW), log_part))
    return select(not_finite(x), x, result)
