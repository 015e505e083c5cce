"""What is to be proved of an output y: a conjunction of clauses, each a disjunction of inequalities c·y > b, all exact."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from numbers import Rational
from typing import Any

import numpy as np

from windowgrad.arguments import as_int
from windowgrad.errors import KindError, OptionError, WindowError, show

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Inequality:
    """Σ coefficient·y[place] > bound, over the cells of one output in row-major order. Coefficients are integers."""

    terms: tuple[tuple[int, int], ...]
    """(place, coefficient), by place, without zeros."""
    bound: Fraction

    @classmethod
    def of(cls, terms: Mapping[int, Any], bound: Any) -> Inequality:
        """With any exact numbers: multiplied by what makes the coefficients integers."""
        exact = {place: exactly("coefficient", value) for place, value in terms.items()}
        scale = math.lcm(*(value.denominator for value in exact.values()))
        found = tuple((place, int(value * scale)) for place, value in sorted(exact.items()) if value)
        for _, factor in found:
            if abs(factor) > 2**53:
                raise OptionError(f"coefficient {show(factor)}: must be at most 2**53 when all are made integers")
        return cls(found, exactly("bound", bound) * scale)

    def margin(self, y: Sequence[Any]) -> Any:
        """c·y − b: it holds where this is positive."""
        return sum((factor * y[place] for place, factor in self.terms), -self.bound)

    def row(self, cells: int) -> Array:
        """The coefficients over all cells of the output."""
        row = np.zeros(cells)
        for place, factor in self.terms:
            row[place] = factor
        return row

    @property
    def ceiling(self) -> float:
        """The bound, rounded up to a float."""
        return ceiled(self.bound)

    def __str__(self) -> str:
        signs = [
            (f"+ {factor}·" if factor > 0 else f"− {-factor}·").replace(" 1·", " ") + f"y[{place}]"
            for place, factor in self.terms
        ]
        return f"{' '.join(signs).removeprefix('+ ')} > {self.bound}" if signs else f"0 > {self.bound}"


@dataclass(frozen=True)
class Property:
    """Every clause must have an inequality that holds."""

    clauses: tuple[tuple[Inequality, ...], ...]

    def __post_init__(self) -> None:
        for clause in self.clauses:
            if not isinstance(clause, tuple) or not all(isinstance(each, Inequality) for each in clause):
                raise KindError(f"clause={show(clause)}: must be a tuple of Inequality")

    @property
    def rows(self) -> tuple[Inequality, ...]:
        """All inequalities, each once."""
        return tuple(dict.fromkeys(each for clause in self.clauses for each in clause))

    def check(self, cells: int) -> None:
        """An error if it speaks of a cell that the output does not have."""
        for each in self.rows:
            for place, _ in each.terms:
                if not 0 <= place < cells:
                    raise WindowError(f"property: speaks of y[{place}], but the output has {cells} cells")

    def margins(self, values: Mapping[Inequality, Any]) -> list[Any]:
        """Of each clause the best of its inequalities; a clause of none cannot hold."""
        return [max((values[each] for each in clause), default=-math.inf) for clause in self.clauses]


def label_stays(label: int, classes: int) -> Property:
    """The score of `label` is above all others.

    >>> print(*certify.label_stays(1, 3).clauses[0])
    − y[0] + y[1] > 0
    """
    classes = as_int("classes", classes, 2)
    label = as_int("label", label, 0)
    if label >= classes:
        raise OptionError(f"label={label}: must be below {classes}, the number of classes")
    return Property(tuple((Inequality.of({label: 1, other: -1}, 0),) for other in range(classes) if other != label))


def never(cases: Iterable[Iterable[Inequality]]) -> Property:
    """That none of the cases happens, each a conjunction of inequalities c·y ≤ b given as their opposites c·y > b."""
    return Property(tuple(tuple(case) for case in cases))


def exactly(name: str, value: Any) -> Fraction:
    """A number without rounding: a float is the number it holds."""
    if isinstance(value, bool) or not isinstance(value, (Rational, float, np.floating)):
        raise KindError(f"{name}={show(value)}: must be an integer, a fraction or a float")
    if isinstance(value, (float, np.floating)) and not math.isfinite(value):
        raise OptionError(f"{name}={show(value)}: must be finite")
    return Fraction(float(value)) if isinstance(value, (float, np.floating)) else Fraction(value)


def ceiled(x: Fraction) -> float:
    """The least float that is not below x."""
    near = float(x)
    return near if Fraction(near) >= x else math.nextafter(near, math.inf)


def floored(x: Fraction) -> float:
    """The greatest float that is not above x."""
    return -ceiled(-x)
