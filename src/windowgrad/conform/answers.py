"""An answer of a worker as NumPy arrays again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from windowgrad.conform.case import Array


@dataclass(frozen=True)
class Answer:
    """One array of an answer. `cells` is None if there are too many of them, or if it is `odd`: no array of real numbers."""

    shape: tuple[int, ...]
    dtype: str
    cells: Array | None = None
    odd: str = ""

    @staticmethod
    def of(array: Array) -> Answer:
        return Answer(array.shape, str(array.dtype), array)


def answer_of(described: Any) -> Answer:
    """What the worker described. Raises ValueError if it did not."""
    try:
        shape, dtype = tuple(described.get("shape", ())), str(described.get("dtype", ""))
        if "odd" in described:
            return Answer(shape, dtype, odd=str(described["odd"]))
        if "cells" not in described:
            return Answer(shape, dtype)
        cells = [float(cell) if isinstance(cell, str) else cell for cell in described["cells"]]
        return Answer(shape, dtype, np.array(cells, dtype=stored_as(dtype)).reshape(shape))
    except (AttributeError, TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"the description of an array cannot be read: {error}") from None


def stored_as(dtype: str) -> np.dtype[Any]:
    """The type itself, or float64 for a real type that Python's numbers do not have, such as bfloat16 and longdouble."""
    try:
        found = np.dtype(dtype)
    except TypeError:
        return np.dtype(np.float64)
    return found if found.kind in "biuf" and found.itemsize <= 8 else np.dtype(np.float64)
