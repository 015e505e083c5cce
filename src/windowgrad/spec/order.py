"""Scalars that are ordered in part, as intervals are.

Two that are neither greater, less nor equal are not decided by where they stand: their own method `max` (or `min`) gives the
value if there is one, and nothing makes one of them the winner. A type that does not define `==` cannot say so, and counts as
totally ordered.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal
from fractions import Fraction
from functools import reduce
from typing import Any

import numpy as np

from windowgrad.errors import KindError, show
from windowgrad.spec.scalar import is_nan

TOTAL = frozenset({bool, int, float, Fraction, Decimal, np.float16, np.float32, np.float64})
"""Types known to be totally ordered, but for NaN."""


def ordered(a: Any, b: Any) -> bool:
    """Whether one is greater or both are equal, NaN included."""
    kind: Any = type(a)
    if (kind in TOTAL and type(b) in TOTAL) or is_nan(a) or is_nan(b) or a > b or kind.__eq__ is object.__eq__:
        return True
    return bool(a < b or a == b or _holds_both(a, b))


def _holds_both(a: Any, b: Any) -> bool:
    """Equal by ≤ and ≥: dual numbers tie though their tangents differ."""
    try:
        return bool(a <= b and a >= b)
    except TypeError:  # it has no such comparison
        return False


def check_order(best: Any, others: Iterable[Any], own: str = "max") -> None:
    """Refuse cells of which none is the winner; `own` is the method by which they could have a value all the same."""
    for cell in others:
        if not ordered(cell, best):
            raise KindError(
                f"cannot compare {show(cell)} and {show(best)}: neither is greater than, less than or equal to the other; "
                f"a method {own} of {type(cell).__name__} can give the {own}imum, but indices and derivatives need a winner"
            )


def extreme(values: Sequence[Any], wins: Callable[[Any, Any], bool], own: str) -> Any:
    """The first value that none wins over. Where that is open, by the scalars' own method `own`, if they have it."""
    best = values[0]
    for value in values[1:]:
        if wins(value, best):
            best = value
    if all(ordered(value, best) for value in values):
        return best
    if not all(callable(getattr(value, own, None)) for value in values):
        check_order(best, values, own)
    return reduce(lambda a, b: getattr(a, own)(b), values)
