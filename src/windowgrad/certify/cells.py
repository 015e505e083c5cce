"""Boxes of cells, and the cells that each window sees."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from windowgrad.certify.rounding import above

Array = np.ndarray[Any, Any]


class Box(NamedTuple):
    """lo ≤ x ≤ hi, cell by cell."""

    lo: Array
    hi: Array

    @property
    def size(self) -> Array:
        """The greatest |x|."""
        return np.maximum(np.abs(self.lo), np.abs(self.hi))

    def ball(self) -> tuple[Array, Array]:
        """A middle and a radius around it that cover the box."""
        middle = 0.5 * self.lo + 0.5 * self.hi
        return middle, above(np.maximum(self.hi - middle, middle - self.lo))


class Cells(NamedTuple):
    """What a relaxed node sees: the ends of the cells of each window (−∞ where there is none), negated if its sign is −1."""

    lo: Array
    hi: Array
    floor: Array
    """A constant cell of each window, −∞ where there is none."""

    @property
    def ends(self) -> tuple[Array, Array]:
        """L and U: the greatest cell lies between them."""
        return np.maximum(self.lo.max(axis=1), self.floor), np.maximum(self.hi.max(axis=1), self.floor)
