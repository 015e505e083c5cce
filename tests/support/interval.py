"""A scalar that is not totally ordered: a closed interval over fractions, with its own maximum or without."""

from __future__ import annotations

from fractions import Fraction
from typing import Any


class Interval:
    """[low, high]. It is greater than another where all of it is; intervals that overlap and differ have no order."""

    def __init__(self, low: Any, high: Any = None) -> None:
        self.low, self.high = Fraction(low), Fraction(low if high is None else high)

    def of(self, other: Any) -> Interval:
        return other if isinstance(other, Interval) else type(self)(other)

    def __add__(self, other: Any) -> Interval:
        other = self.of(other)
        return type(self)(self.low + other.low, self.high + other.high)

    def __neg__(self) -> Interval:
        return type(self)(-self.high, -self.low)

    def __sub__(self, other: Any) -> Interval:
        return self + -self.of(other)

    def __mul__(self, other: Any) -> Interval:
        other = self.of(other)
        ends = [a * b for a in (self.low, self.high) for b in (other.low, other.high)]
        return type(self)(min(ends), max(ends))

    def __truediv__(self, other: Any) -> Interval:
        other = self.of(other)
        return self * type(self)(1 / other.high, 1 / other.low)

    __radd__, __rmul__ = __add__, __mul__

    def __gt__(self, other: Any) -> bool:
        return self.low > self.of(other).high

    def __lt__(self, other: Any) -> bool:
        return self.high < self.of(other).low

    def __eq__(self, other: object) -> bool:
        other = self.of(other)
        return (self.low, self.high) == (other.low, other.high)

    def __hash__(self) -> int:
        return hash((self.low, self.high))

    def __repr__(self) -> str:
        return f"[{self.low}, {self.high}]"


class Joined(Interval):
    """The same with a maximum and a minimum of its own: of all pairs of numbers in the two."""

    def max(self, other: Joined) -> Joined:
        return Joined(max(self.low, other.low), max(self.high, other.high))

    def min(self, other: Joined) -> Joined:
        return Joined(min(self.low, other.low), min(self.high, other.high))
