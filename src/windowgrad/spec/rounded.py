"""Numbers of a floating-point format as scalars: object arrays of them show what the format does to an operator.

Every + − × ÷ is computed exactly and rounded once, to nearest with ties to even, in the order of the specification. A plain
integer, fraction or float beside one is taken as it is, without rounding. exp and log are those of float64, rounded once more.
Object arrays of `np.float32` are the same as binary32: NumPy's scalars round as IEEE 754 says.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from fractions import Fraction
from numbers import Rational, Real
from typing import Any

import numpy as np

from windowgrad.errors import KindError, OptionError, show
from windowgrad.spec.formats import FORMATS, nearest


class Rounded:
    """A number of a format; `value` is the same as a float, which holds every one of them."""

    __slots__ = ("format", "value")

    def __init__(self, value: Any, format: str = "binary32") -> None:  # noqa: A002  # the word for it
        if not isinstance(format, str) or format not in FORMATS:
            raise OptionError(f"format={show(format)}: must be one of {', '.join(map(repr, FORMATS))}")
        if not isinstance(value, (Real, Rounded)) or isinstance(value, bool):
            raise KindError(f"value={show(value)}: must be a real number, not {type(value).__name__}")
        self.format = format
        self.value: float = nearest(FORMATS[format], value.value if isinstance(value, Rounded) else value)

    @staticmethod
    def cells(array: Any, format: str) -> Any:  # noqa: A002
        """An array of objects with each number rounded to the format."""
        made = np.empty(np.shape(array), dtype=object)
        made.reshape(-1)[:] = [Rounded(cell, format) for cell in np.asarray(array).reshape(-1).tolist()]
        return made

    def __repr__(self) -> str:
        return f"Rounded({self.value!r}, {self.format!r})"

    def __float__(self) -> float:
        return self.value

    def _with(self, other: Any, rule: Callable[[Any, Any], Any], back: bool = False) -> Any:
        """The exact result, rounded; what is not finite goes by the rules of floats."""
        number = self._number(other)
        if number is NotImplemented:
            return NotImplemented
        a, b = (number, self.value) if back else (self.value, number)
        floats = [float(a), float(b)]
        if all(map(math.isfinite, floats)) and not (rule is operator.truediv and b == 0):
            found = rule(Fraction(a), Fraction(b))
            if found:
                return Rounded(found, self.format)
        return Rounded(as_floats(rule, *floats), self.format)

    def _number(self, other: Any) -> Any:
        if isinstance(other, Rounded):
            if other.format != self.format:
                raise TypeError(f"a number of {self.format} beside one of {other.format}")
            return other.value
        return other if isinstance(other, (Rational, float)) else NotImplemented

    def __add__(self, other: Any) -> Any:
        return self._with(other, operator.add)

    def __sub__(self, other: Any) -> Any:
        return self._with(other, operator.sub)

    def __rsub__(self, other: Any) -> Any:
        return self._with(other, operator.sub, back=True)

    def __mul__(self, other: Any) -> Any:
        return self._with(other, operator.mul)

    def __truediv__(self, other: Any) -> Any:
        return self._with(other, operator.truediv)

    def __rtruediv__(self, other: Any) -> Any:
        return self._with(other, operator.truediv, back=True)

    __radd__ = __add__
    __rmul__ = __mul__

    def __neg__(self) -> Rounded:
        return Rounded(-self.value, self.format)

    def __abs__(self) -> Rounded:
        return Rounded(abs(self.value), self.format)

    def _compare(self, other: Any, rule: Callable[[Any, Any], bool]) -> Any:
        number = self._number(other)
        return NotImplemented if number is NotImplemented else rule(self.value, number)

    def __gt__(self, other: Any) -> Any:
        return self._compare(other, lambda a, b: a > b)

    def __lt__(self, other: Any) -> Any:
        return self._compare(other, lambda a, b: a < b)

    def __ge__(self, other: Any) -> Any:
        return self._compare(other, lambda a, b: a >= b)

    def __le__(self, other: Any) -> Any:
        return self._compare(other, lambda a, b: a <= b)

    def __eq__(self, other: object) -> Any:
        return self._compare(other, lambda a, b: a == b)

    def __hash__(self) -> int:
        return hash(self.value)

    def zero_like(self) -> Rounded:
        return Rounded(0, self.format)

    def is_nan(self) -> bool:
        return math.isnan(self.value)

    def is_infinite(self) -> bool:
        return math.isinf(self.value)

    def exp(self) -> Rounded:
        return Rounded(float(np.exp(self.value)) if self.value < 709 else math.inf, self.format)

    def log(self) -> Rounded:
        with np.errstate(all="ignore"):
            return Rounded(float(np.log(self.value)), self.format)


def as_floats(rule: Callable[[Any, Any], Any], a: float, b: float) -> float:
    """NaN, infinity and the sign of 0, as IEEE 754 has them."""
    with np.errstate(all="ignore"):
        return float(rule(np.float64(a), np.float64(b)))
