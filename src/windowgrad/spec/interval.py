"""Closed intervals as scalars: every operator on object arrays of them bounds its result for all numbers in the intervals.

Ends that are integers or fractions are computed exactly. With floats every end is rounded outwards to the next float that
is not inside, so a bound is never lost to rounding; exp and log are widened by two floats, as `math` may err in the last bit.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from numbers import Rational, Real
from typing import Any

from windowgrad.errors import KindError, OptionError, show
from windowgrad.spec.ends import INFINITY, Bounds, above_exp, added, below_exp, down, multiplied, reciprocal, twice, up


class Interval:
    """[low, high]. One is greater than another if all of it is. Two that overlap and differ have no order, but a maximum."""

    __slots__ = ("high", "low")

    def __init__(self, low: Any, high: Any = None) -> None:
        high = low if high is None else high
        for end in (low, high):
            if not isinstance(end, Real) or isinstance(end, bool):
                raise KindError(f"an interval from {show(low)} to {show(high)}: both must be real numbers")
        self.low, self.high = plain(low), plain(high)
        if not self.low <= self.high:
            raise OptionError(f"an interval from {show(low)} to {show(high)}: must not end before it begins")

    def __repr__(self) -> str:
        return f"Interval({self.low}, {self.high})"

    def __contains__(self, number: Any) -> bool:
        return bool(self.low <= number <= self.high)

    def _of(self, other: Any) -> Interval | None:
        return other if isinstance(other, Interval) else Interval(other) if isinstance(other, Real) else None

    def _with(self, other: Any, rule: Callable[[Interval, Interval], Any]) -> Any:
        found = self._of(other)
        return NotImplemented if found is None else rule(self, found)

    def __add__(self, other: Any) -> Any:
        return self._with(other, lambda a, b: made(added(a.low, b.low), added(a.high, b.high)))

    def __neg__(self) -> Interval:
        return Interval(-self.high, -self.low)

    def __sub__(self, other: Any) -> Any:
        return self._with(other, lambda a, b: a + -b)

    def __rsub__(self, other: Any) -> Any:
        return self._with(other, lambda a, b: b + -a)

    def __mul__(self, other: Any) -> Any:
        return self._with(other, times)

    def __truediv__(self, other: Any) -> Any:
        return self._with(other, quotient)

    def __rtruediv__(self, other: Any) -> Any:
        return self._with(other, lambda a, b: quotient(b, a))

    __radd__ = __add__
    __rmul__ = __mul__

    def __gt__(self, other: Any) -> Any:
        return self._with(other, lambda a, b: a.low > b.high)

    def __lt__(self, other: Any) -> Any:
        return self._with(other, lambda a, b: a.high < b.low)

    def __ge__(self, other: Any) -> Any:
        return self._with(other, lambda a, b: a.low >= b.high)

    def __le__(self, other: Any) -> Any:
        return self._with(other, lambda a, b: a.high <= b.low)

    def __eq__(self, other: object) -> Any:
        return self._with(other, lambda a, b: (a.low, a.high) == (b.low, b.high))

    def __hash__(self) -> int:
        return hash(self.low) if self.low == self.high else hash((self.low, self.high))

    def max(self, other: Any) -> Interval:
        """The interval of the maxima of all pairs of numbers."""
        return Interval(max(self.low, other.low), max(self.high, other.high))

    def min(self, other: Any) -> Interval:
        return Interval(min(self.low, other.low), min(self.high, other.high))

    def zero_like(self) -> Interval:
        return Interval(0.0 if isinstance(self.low, float) else Fraction(0))

    def is_nan(self) -> bool:
        return False

    def is_infinite(self) -> bool:
        return self.low == self.high and math.isinf(self.low)

    def exp(self) -> Interval:
        low, high = (below_exp(down(self.low)), above_exp(up(self.high)))
        return Interval(low, high)

    def log(self) -> Interval:
        if self.low < 0:
            raise OptionError(f"the logarithm of {self!r}: must not reach below 0")
        low = -INFINITY if self.low == 0 else twice(math.log(down(self.low) or math.ulp(0.0)), -INFINITY)
        return Interval(low, -INFINITY if self.high == 0 else twice(math.log(up(self.high)), INFINITY))


def plain(end: Any) -> Any:
    """A fraction of an exact number, else a float."""
    return Fraction(end) if isinstance(end, Rational) else float(end)


def made(low: Bounds, high: Bounds) -> Interval:
    return Interval(low[0], high[1])


def times(a: Interval, b: Interval) -> Interval:
    products = [multiplied(p, q) for p in (a.low, a.high) for q in (b.low, b.high)]
    return Interval(min(low for low, _ in products), max(high for _, high in products))


def quotient(a: Interval, b: Interval) -> Interval:
    if 0 in b:
        raise ZeroDivisionError(f"division by {b!r}, which holds 0")
    ends = [reciprocal(b.high), reciprocal(b.low)]
    return times(a, Interval(ends[0][0], ends[1][1]))
