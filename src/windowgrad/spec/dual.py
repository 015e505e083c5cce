"""Dual numbers over any scalar: value + tangent·ε with ε² = 0. They nest, so a dual of duals has second derivatives."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

from windowgrad.spec import powers, scalar
from windowgrad.spec.scalar import divide


class Dual:
    """A dual number, value + tangent·ε. A number of lower depth (a plain scalar, or a dual in a dual) is a constant to it."""

    __slots__ = ("depth", "tangent", "value")

    def __init__(self, value: Any, tangent: Any = 0) -> None:
        self.value, self.tangent = value, tangent
        self.depth: int = 1 + max(getattr(value, "depth", 0), getattr(tangent, "depth", 0))

    def __repr__(self) -> str:
        return f"Dual({self.value!r}, {self.tangent!r})"

    def _with(self, other: Any, rule: Callable[[Dual, Dual], Any]) -> Any:
        """`rule` on self and `other` as duals of one level: the one of lower depth is a constant to the other."""
        if isinstance(other, (str, bytes, list, tuple)):
            return NotImplemented
        depth = other.depth if isinstance(other, Dual) else 0
        if depth > self.depth:
            return rule(Dual(self, 0), other)
        return rule(self, other if depth == self.depth else Dual(other, 0))

    def __add__(self, other: Any) -> Any:
        return self._with(other, lambda a, b: Dual(a.value + b.value, a.tangent + b.tangent))

    def __sub__(self, other: Any) -> Any:
        return self._with(other, lambda a, b: Dual(a.value - b.value, a.tangent - b.tangent))

    def __rsub__(self, other: Any) -> Any:
        return self._with(other, lambda a, b: Dual(b.value - a.value, b.tangent - a.tangent))

    def __mul__(self, other: Any) -> Any:
        return self._with(other, lambda a, b: Dual(a.value * b.value, a.tangent * b.value + a.value * b.tangent))

    def __truediv__(self, other: Any) -> Any:
        return self._with(other, _quotient)

    def __rtruediv__(self, other: Any) -> Any:
        return self._with(other, lambda a, b: _quotient(b, a))

    __radd__ = __add__
    __rmul__ = __mul__

    def __neg__(self) -> Dual:
        return Dual(-self.value, -self.tangent)

    def __gt__(self, other: Any) -> Any:
        return self._with(other, lambda a, b: a.value > b.value)

    def __lt__(self, other: Any) -> Any:
        return self._with(other, lambda a, b: a.value < b.value)

    def __ge__(self, other: Any) -> Any:
        return self._with(other, lambda a, b: a.value >= b.value)

    def __le__(self, other: Any) -> Any:
        return self._with(other, lambda a, b: a.value <= b.value)

    def __eq__(self, other: object) -> Any:
        return self._with(other, lambda a, b: bool(a.value == b.value and a.tangent == b.tangent))

    def __hash__(self) -> int:
        return hash(self.value) if self.tangent == 0 else hash((self.value, self.tangent))

    def zero_like(self) -> Dual:
        return Dual(scalar.zero_like(self.value), scalar.zero_like(self.tangent))

    def is_nan(self) -> bool:
        return scalar.is_nan(self.value)

    def is_infinite(self) -> bool:
        return scalar.is_infinite(self.value)

    def exp(self) -> Dual:
        value = scalar.exp(self.value)
        return Dual(value, value * self.tangent)

    def log(self) -> Dual:
        return Dual(scalar.log(self.value), divide(self.tangent, self.value))

    def power(self, p: float | Fraction) -> Dual:
        """A power that is not whole, of a number above 0."""
        is_root = isinstance(p, Fraction) and p.numerator == 1
        value = powers.root(self.value, p.denominator) if is_root else powers.real_power(self.value, p)  # type: ignore[union-attr]
        return Dual(value, divide(powers.times(value, p), self.value) * self.tangent)


def _quotient(a: Dual, b: Dual) -> Dual:
    value = divide(a.value, b.value)
    return Dual(value, divide(a.tangent - value * b.tangent, b.value))
