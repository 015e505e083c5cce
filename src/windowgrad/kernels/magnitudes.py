"""How small the cells of an array are, zeros left out, and whether all are finite: one pass, and nothing is copied."""

from __future__ import annotations

from typing import Any

import numpy as np

from windowgrad.kernels.jit import kernel
from windowgrad.kernels.simd import (
    address,
    anywhere,
    either,
    equal,
    lanes,
    less,
    load,
    load_part,
    not_finite,
    select,
    splat,
    store,
)
from windowgrad.kernels.threads import run

Array = np.ndarray[Any, Any]


@kernel
def least_among(x: Any, first: int, last: int, found: Any) -> Any:
    """found = the least magnitude per lane, ∞ where there is none, of the cells `first` to `last`; gives if all are finite."""
    a, n, none, most = address(x), lanes(x), splat(x, 0), splat(x, np.inf)
    least, strange, i = most, not_finite(none), first
    while i < last:
        cells = load(a, i) if i + n <= last else load_part(a, i, last - i, none)
        strange = either(strange, not_finite(cells))
        size = select(less(cells, none), none - cells, cells)
        size = select(equal(size, none), most, size)
        least = select(less(size, least), size, least)  # a NaN is not less
        i += n
    store(found, 0, least)
    return not anywhere(strange)


def magnitudes(x: Array) -> tuple[float, bool]:
    """(the least |cell| that is not 0, or ∞; whether all cells are finite) of a flat array of floats."""
    least, finite = [np.inf], [True]

    def task(first: int, last: int) -> None:
        found = np.empty(32 // x.itemsize, x.dtype)
        finite.append(least_among(x, first, last, found))
        least.append(float(found.min()))

    run(task, x.size, x.nbytes)
    return min(least), all(finite)
