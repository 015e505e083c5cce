"""Powers and roots of scalars that are not negative, as far as a scalar type has them.

A whole power is a product. Any other, and a root, is the scalar's own: its `sqrt`, `**`, or a method `power`. A fraction whose
root is a fraction gives that one; any other root of a fraction is a float.
"""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction
from numbers import Integral, Rational
from typing import Any

import numpy as np

from windowgrad.errors import KindError, OptionError, show
from windowgrad.spec import scalar


def magnitude(a: Any) -> Any:
    """|a|; NaN stays NaN."""
    return -a if a < 0 else a


def sign(a: Any) -> Any:
    """1, −1 or 0 as a plain number; NaN of NaN."""
    return a if scalar.is_nan(a) else int(a > 0) - int(a < 0)


def power(a: Any, p: int | float) -> Any:
    """aᵖ for a ≥ 0; a⁰ is 1."""
    if p < 0:
        return scalar.divide(1, power(a, -p))
    if isinstance(p, int):
        return whole_power(a, p)
    return real_power(a, p)


def whole_power(a: Any, n: int) -> Any:
    """a·a·…·a in the fewest products of squares."""
    if isinstance(a, (float, np.floating)):  # rounded once
        return float_power(a, n)
    refuse_long(a, n)
    result, square = None, a
    while n:
        if n & 1:
            result = square if result is None else result * square
        n >>= 1
        square = square * square if n else square
    return 1 if result is None else result


MOST_BITS = 1 << 24
"""Of an exact power: more takes seconds for each cell."""


def refuse_long(a: Any, n: int) -> None:
    """An exact power may have more digits than there is memory."""
    while hasattr(a, "tangent"):  # a dual number is as long as its value
        a = a.value
    if isinstance(a, Rational):
        bits = max(abs(int(a.numerator)).bit_length(), int(a.denominator).bit_length())
        if bits > 1 and bits * n > MOST_BITS:
            raise OptionError(f"the exact power {show(n)} of {bits} bits would have more than {MOST_BITS} bits; use floats")


def float_power(a: Any, p: float) -> Any:
    """As NumPy's: infinity is a result, not an error."""
    try:
        return a**p
    except OverflowError:
        return math.inf


def times(a: Any, p: float | Fraction) -> Any:
    """a·p for cells of any kind: exact scalars multiply by whole numbers, and are divided by them."""
    numerator, denominator = p.as_integer_ratio()
    return a * numerator if denominator == 1 else a * numerator / denominator


def root(a: Any, p: int | float) -> Any:
    """a^(1/p) for a ≥ 0."""
    if p == 1:
        return a
    if isinstance(a, Integral):
        a = Fraction(int(a))
    if isinstance(a, Fraction) and isinstance(p, int):
        exact = Fraction(whole_root(a.numerator, p), whole_root(a.denominator, p))
        return exact if exact**p == a else float(a) ** (1 / p)
    if p == 2 and (own := square_root(a)) is not None:
        return own
    return real_power(a, 1 / Fraction(p))


def whole_root(n: int, p: int) -> int:
    """The greatest whole number whose p-th power is not above n ≥ 0."""
    if p == 2:
        return math.isqrt(n)
    high = 1 << -(-n.bit_length() // p)
    low = 0
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if middle**p <= n else (low, middle - 1)
    return low


def square_root(a: Any) -> Any:
    """By the scalar's own function; None if it has none."""
    if isinstance(a, float) and not isinstance(a, np.floating):
        return math.sqrt(a)
    if isinstance(a, np.floating):
        return np.sqrt(a)
    if type(a).__module__.startswith("mpmath"):
        return a.context.sqrt(a)
    own = getattr(a, "sqrt", None)
    return own() if callable(own) else None


def real_power(a: Any, p: float | Fraction) -> Any:
    """aᵖ for a p > 0 that is not whole."""
    if isinstance(a, (int, Fraction)):
        return float(a) ** float(p)
    if isinstance(a, (float, np.floating)):
        return float_power(a, float(p))
    if isinstance(a, Decimal):
        exponent = Decimal(p.numerator) / Decimal(p.denominator) if isinstance(p, Fraction) else Decimal(p)
        return a**exponent
    if type(a).__module__.startswith("mpmath"):
        exponent = a.context.mpf(p.numerator) / p.denominator if isinstance(p, Fraction) else a.context.mpf(p)
        return a**exponent
    if not a > 0:
        return a
    own: Any = getattr(a, "power", None)
    if callable(own):
        return own(p)
    kind = type(a).__name__
    raise KindError(f"{kind} has no power {p}: lp_pool needs float, Decimal, mpmath.mpf or Dual; convert each {kind}")
