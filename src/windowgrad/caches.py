"""Results that are kept for the next call, by how large they are: many small ones, two large ones, none beyond."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, TypeVar

R = TypeVar("R")

SMALL, LARGE = 1 << 14, 1 << 18
"""Entries in the tables of a result."""


def keep(make: Callable[..., R]) -> Callable[..., R]:
    """`kept(size, *key)` is `make(*key)`, made anew only if it is not kept; `size` says about how many entries it has."""
    many, few = lru_cache(maxsize=512)(make), lru_cache(maxsize=2)(make)

    def kept(size: int, *key: Any) -> R:
        if size < SMALL:
            return many(*key)
        return few(*key) if size < LARGE else make(*key)

    return kept
