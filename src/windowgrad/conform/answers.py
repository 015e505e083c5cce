"""An answer of a worker as NumPy arrays again."""

from __future__ import annotations

from typing import Any

import numpy as np

from windowgrad.conform.case import Array


def array_of(described: dict[str, Any]) -> Array:
    cells = [float(cell) if isinstance(cell, str) else cell for cell in described["cells"]]
    try:
        dtype = np.dtype(described["dtype"])
    except TypeError:  # a type that NumPy does not have, such as bfloat16
        dtype = np.dtype(np.float64)
    return np.array(cells, dtype=dtype).reshape(described["shape"])
