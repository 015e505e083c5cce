"""What float64 loses, bounded from above. Bounds are computed in float64 and widened by what may have been lost.

With u = 2⁻⁵³, a sum of n products in any order, with or without fused multiply-adds, is within γ_n·Σ|a||b| of the exact one,
γ_n = n·u ÷ (1 − n·u), as long as nothing overflows or underflows; each product that underflows is off by at most 2⁻¹⁰⁷⁵.
"""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

UNIT = 2.0**-53
TINY = 2.0**-1000
"""More than what 2⁷⁰ products that underflow lose together."""
MOST_TERMS = 2**31
"""So many terms may be summed: γ stays below 2⁻²⁰, and `SLACK` covers the rounding of the bounds themselves."""
SLACK = 1 + 2.0**-16
"""A sum of non-negative float64 numbers, and a few operations more, times this is not below the exact one."""

UNIT_32 = 2.0**-24
LEAST_32 = 2.0**-149


def gamma(terms: int, unit: float = UNIT) -> float:
    """γ_n, rounded up."""
    return float(np.nextafter(terms * unit / (1 - terms * unit) * (1 + 4 * UNIT), np.inf))


def below(x: Array) -> Array:
    return np.nextafter(x, -np.inf)


def above(x: Array) -> Array:
    return np.nextafter(x, np.inf)
