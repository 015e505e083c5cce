"""Sums in the order in which they are written."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any


def added(terms: Iterable[Any], start: Any) -> Any:
    """The terms added to `start` one after the other. Python's own `sum` compensates the roundings of floats from 3.12 on."""
    for term in terms:
        start = start + term
    return start
