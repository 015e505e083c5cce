"""Floating-point formats, and the number of a format that is nearest to a real number."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any, NamedTuple


class Format(NamedTuple):
    """How many significant bits, the exponent of the least normal number, the greatest number, and whether it has infinity."""

    bits: int
    least: int
    greatest: Fraction
    has_infinity: bool = True


def ieee(bits: int, most: int, least: int) -> Format:
    return Format(bits, least, (2 - Fraction(2, 2**bits)) * Fraction(2) ** most)


FORMATS = {
    "binary32": ieee(24, 127, -126),
    "bfloat16": ieee(8, 127, -126),
    "float16": ieee(11, 15, -14),
    "e5m2": ieee(3, 15, -14),
    "e4m3": Format(4, -6, Fraction(448), has_infinity=False),
}
"""By name. e5m2 and e4m3 are those of 8 bits; the latter has no infinity, and NaN where others overflow (`float8_e4m3fn`)."""


def nearest(form: Format, value: Any) -> float:
    """The number of the format that is nearest to a real number, of two the even one."""
    if isinstance(value, float) and (not math.isfinite(value) or value == 0):
        return math.nan if math.isinf(value) and not form.has_infinity else value
    exact = Fraction(value)
    if exact == 0:
        return 0.0
    size = abs(exact)
    exponent = size.numerator.bit_length() - size.denominator.bit_length()
    exponent -= Fraction(2) ** exponent > size
    step = Fraction(2) ** (max(exponent, form.least) - form.bits + 1)
    found = round(size / step) * step  # of a fraction, Python rounds ties to even
    beyond = math.inf if form.has_infinity else math.nan
    number = beyond if found > form.greatest else float(found)
    return number if exact > 0 else -number
