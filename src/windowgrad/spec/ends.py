"""The ends of intervals: sums, products and reciprocals as two bounds, equal where the result is exact."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

INFINITY = math.inf


def down(number: Any) -> float:
    """The greatest float that is not above the number."""
    return rounded(number, -INFINITY)


def up(number: Any) -> float:
    """The least float that is not below the number."""
    return rounded(number, INFINITY)


def rounded(number: Any, towards: float) -> float:
    if isinstance(number, float):
        return number
    try:
        near = float(number)
    except OverflowError:
        near = INFINITY if number > 0 else -INFINITY
    if math.isinf(near):
        return near if near == towards else math.nextafter(near, 0)
    if (near > number) if towards < 0 else (near < number):
        return math.nextafter(near, towards)
    return near


def twice(near: float, towards: float) -> float:
    """Two floats further."""
    return math.nextafter(math.nextafter(near, towards), towards)


def below_exp(end: float) -> float:
    return (
        max(0.0, twice(math.exp(end), -INFINITY)) if end < 709 else math.nextafter(INFINITY, 0) if end > 710 else math.exp(709)
    )


def above_exp(end: float) -> float:
    return twice(math.exp(end), INFINITY) if end < 709 else INFINITY


class Bounds(tuple[Any, Any]):
    """(what is not above a number, what is not below it): the number twice if it is known exactly."""


def bounds(exact: bool, number: Any) -> Bounds:
    return Bounds((number, number)) if exact else Bounds((down(number), up(number)))


def added(a: Any, b: Any) -> Bounds:
    if is_infinite(a) or is_infinite(b):
        total = float(a) + float(b)
        return Bounds((-INFINITY, INFINITY)) if math.isnan(total) else Bounds((total, total))
    return bounds(not isinstance(a, float) and not isinstance(b, float), Fraction(a) + Fraction(b))


def multiplied(a: Any, b: Any) -> Bounds:
    if a == 0 or b == 0:  # 0 · ∞ too: an infinite end stands for numbers without bound, not for infinity
        return bounds(not isinstance(a, float) and not isinstance(b, float), Fraction(0))
    if is_infinite(a) or is_infinite(b):
        product = float(a) * float(b)
        return Bounds((product, product))
    return bounds(not isinstance(a, float) and not isinstance(b, float), Fraction(a) * Fraction(b))


def is_infinite(end: Any) -> bool:
    return isinstance(end, float) and math.isinf(end)


def reciprocal(end: Any) -> Bounds:
    return Bounds((0.0, 0.0)) if is_infinite(end) else bounds(not isinstance(end, float), 1 / Fraction(end))
