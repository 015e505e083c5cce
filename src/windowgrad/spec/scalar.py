"""What a scalar type must provide, and the few functions the operators need beyond + − × ÷.

A scalar is anything with + − × and ÷ that compares with `>` and that its type makes from an integer: `Fraction(0)`.
Smooth max also needs `exp` and `log`. Methods of these names count (`Decimal` has `exp` and `ln`, `Dual` has both); floats,
NumPy's floats and mpmath's have theirs by type. NaN is what says so by `is_nan()` or differs from itself.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from fractions import Fraction
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np

from windowgrad.errors import KindError
from windowgrad.geometry import Cell, Geometry
from windowgrad.params import Mask

Array = np.ndarray[Any, np.dtype[Any]]


def is_nan(a: Any) -> bool:
    return bool(a.is_nan()) if hasattr(a, "is_nan") else bool(a != a)


def is_infinite(a: Any) -> bool:
    if isinstance(a, (float, np.floating)):
        return math.isinf(a)
    return bool(a.is_infinite()) if hasattr(a, "is_infinite") else is_nan(a - a) and not is_nan(a)


def greater(a: Any, b: Any) -> bool:
    """The order of maximum: NaN is greater than every number and equal to NaN; −0.0 equals 0.0."""
    if is_nan(a) or is_nan(b):
        return is_nan(a) and not is_nan(b)
    return bool(a > b)


def divide(a: Any, b: Any) -> Any:
    """a ÷ b; integers divide exactly and become fractions."""
    return Fraction(int(a), int(b)) if isinstance(a, Integral) and isinstance(b, Integral) else a / b


def same(a: Any, b: Any) -> bool:
    """Whether neither is greater: a tie."""
    return not greater(a, b) and not greater(b, a)


def gap(a: Any, top: Any) -> Any:
    """a − top, where top less itself is 0, infinities too: a cell as great as the greatest weighs as much."""
    return zero_like(a) if (a is top and not is_nan(a)) or (is_infinite(a) and same(a, top)) else a - top


def zero_like(a: Any) -> Any:
    """The zero of a's kind."""
    try:
        return a.zero_like() if hasattr(a, "zero_like") else type(a)(0)
    except (TypeError, AttributeError, ValueError) as error:
        kind = type(a).__name__
        raise KindError(f"{kind}(0) is not a zero: a scalar type must be made from an integer: {error}") from None


def exp(a: Any) -> Any:
    return _function(a, "exp")


def log(a: Any) -> Any:
    return _function(a, "log")


def _float_exp(a: float) -> float:
    try:
        return math.exp(a)
    except OverflowError:
        return math.inf


def _float_log(a: float) -> float:
    return math.log(a) if a > 0 or math.isnan(a) else -math.inf if a == 0 else math.nan


FLOATS = {"exp": _float_exp, "log": _float_log}  # as NumPy's: infinity and NaN are results, not errors


def _function(a: Any, name: str) -> Any:
    own = getattr(a, name, None) or (getattr(a, "ln", None) if name == "log" else None)
    if callable(own):  # mpmath's numbers have an attribute exp that is an integer
        return own()
    if isinstance(a, np.floating):
        return getattr(np, name)(a)
    if isinstance(a, float):
        return FLOATS[name](a)
    if type(a).__module__.startswith("mpmath"):
        return getattr(a.context, name)(a)
    kind = type(a).__name__
    raise KindError(f"{kind} has no {name}: smooth max needs float, Decimal, mpmath.mpf or Dual; convert each {kind}")


def cells(x: Any) -> Array:
    """The array as a grid of Python scalars. NumPy's integers become Python's: theirs wrap around."""
    objects: Array = np.asarray(x, dtype=object)
    if not any(isinstance(cell, np.integer) for cell in objects.reshape(-1)):  # not `flat`, which has at most 32 axes
        return objects
    exact: Array = np.frompyfunc(lambda cell: int(cell) if isinstance(cell, np.integer) else cell, 1, 1)(objects)
    return np.asarray(exact, dtype=object)


def grid(values: Any) -> Any:
    """An array again: of arrays without axes NumPy makes a lone number when it computes. Arrays of other kinds stay."""
    return values if hasattr(values, "shape") and not isinstance(values, np.generic) else np.asarray(values)


def zeros(shape: Sequence[int], like: Array) -> Array:
    """A new grid of zeros of the same kind as the cells of `like`."""
    nought = np.empty(tuple(shape), dtype=object)
    nought[...] = zero_of(like)
    return nought


def zero_of(x: Array) -> Any:
    """The zero of the same kind as the cells of x."""
    return zero_like(x.reshape(-1)[0]) if x.size else 0


class Window(NamedTuple):
    """One output: its place, the cells it sees in row-major order, and how many padded cells it covers.

    A cell that is padded, or that the mask leaves out, is not seen.
    """

    out: Cell
    taps: list[Cell]
    padded: int


def windows(geometry: Geometry, shape: Sequence[int], where: Mask | None = None) -> Iterator[Window]:
    """Every window of an input of `shape`, of the cells that `where` leaves; the leading axes are walked as they are."""
    there = None if where is None else where.over(shape)
    lead, spatial = geometry.split(shape)
    for o in np.ndindex(*geometry.grid(spatial)):
        taps, padded = geometry.taps(o, spatial), geometry.padded(o, spatial)
        for n in np.ndindex(*lead):
            yield Window(n + o, [n + tap for tap in taps if there is None or there[n + tap]], padded)
