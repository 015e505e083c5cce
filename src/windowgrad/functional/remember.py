"""What was right once is not checked again: records by the options they were made from.

Python says that 1, 1.0 and True are equal; as options they are not. So only what no equality can confuse is looked up:
lone plain values, told apart by their type, and tuples of nothing but integers and None. All else is checked anew.
"""

from __future__ import annotations

from abc import ABCMeta
from collections.abc import Callable
from functools import lru_cache, wraps
from typing import Any, TypeVar

R = TypeVar("R")

LONE = frozenset({int, bool, float, str, type(None), ABCMeta})  # the last: the class of the record
KEPT = 256  # records of one kind
LONGEST = 8  # entries of a tuple, so that what is kept stays small


def remember(make: Callable[..., R]) -> Callable[..., R]:
    """`make`, which returns the record it has made before from the same options. What it raises is raised each time."""
    kept: Callable[..., R] = lru_cache(maxsize=KEPT, typed=True)(make)

    @wraps(make)
    def record(*options: Any) -> R:
        if LONE.issuperset(map(type, options)) or all(map(is_plain, options)):
            return kept(*options)
        return make(*options)

    return record


def is_plain(value: Any) -> bool:
    """A lone value, or a short tuple of integers and None, each of which may be such a tuple: (2, None), ((0, 1), 1)."""
    return type(value) in LONE or is_row(value, lambda entry: is_row(entry, lambda _: False))


def is_row(value: Any, inner: Callable[[Any], bool]) -> bool:
    if type(value) is not tuple or len(value) > LONGEST:
        return False
    return all(type(entry) is int or entry is None or inner(entry) for entry in value)
