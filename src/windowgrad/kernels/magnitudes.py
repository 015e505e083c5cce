"""The least magnitude among cells, zeros left out: whether a product of two may be lost in float32."""

from __future__ import annotations

from typing import Any

import numpy as np

from windowgrad.kernels.jit import kernel
from windowgrad.kernels.lanes import bits, floats, masked
from windowgrad.kernels.simd import address, equal, lanes, less, load, load_part, select, splat, store
from windowgrad.kernels.threads import run

Array = np.ndarray[Any, Any]


@kernel
def least_among(x: Any, first: int, last: int, found: Any) -> None:
    """found[:] = the least per lane, ∞ where there is none, of the cells `first` to `last` of float32."""
    a, n = address(x), lanes(x)
    least, none = splat(x, np.inf), splat(x, 0)
    i = first
    while i < last:
        cells = load(a, i) if i + n <= last else load_part(a, i, last - i, none)
        size = floats(masked(bits(cells), 0x7FFFFFFF))
        size = select(equal(size, none), least, size)
        least = select(less(size, least), size, least)  # a NaN is not less
        i += n
    store(found, 0, least)


def least_magnitude(x: Array) -> float:
    """The least |cell| that is not 0, of a flat float32 array; ∞ if there is none."""
    found: list[float] = []

    def task(first: int, last: int) -> None:
        lanes_found = np.empty(8, np.float32)
        least_among(x, first, last, lanes_found)
        found.append(float(lanes_found.min()))

    run(task, x.size, x.nbytes)
    return min(found, default=np.inf)
