"""The types in the signatures of the public functions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias, TypeVar

A = TypeVar("A")
"""An array of any kind: the result is of the same."""

Ties = Literal["first", "all", "split"]
Empty = Literal["zero", "raise"]
Duplicates = Literal["last", "add"]
Border = Literal["constant", "reflect", "replicate", "circular"]
Named = Literal["valid", "same", "VALID", "SAME"]
"""Padding by its name."""
Pair: TypeAlias = tuple[A | None, A | None] | None
Bins = int | None | Sequence[int | None]
