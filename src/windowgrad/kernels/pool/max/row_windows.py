"""Maximum of windows of many taps along a single row that share few cells (`pool/row_windows`).

For floats of 32 and 64 bits with channels first. Windows of at most NEAR cells are taken several at once, others as whole
planes are (`whole_planes`). Of several windows together, those whose greatest cell is a zero are looked at again, and all if
one has a NaN.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from windowgrad.geometry import Geometry
from windowgrad.kernels.pool.max.whole_planes import top_of
from windowgrad.kernels.pool.packed import unpacked
from windowgrad.kernels.pool.plan import Plan
from windowgrad.kernels.pool.row_windows import grouping, is_group, nominal, shared_out
from windowgrad.kernels.runtime.jit import helper, unrolled_kernel
from windowgrad.kernels.vector.loops import larger
from windowgrad.kernels.vector.ops import address, anywhere, either, is_zero, lanes, load, store, unordered
from windowgrad.kernels.vector.ops import larger as greater_lanes
from windowgrad.kernels.vector.shuffle import top_of_lanes

NEAR = 128
"""The most cells of a window that is not taken alone: they stay in the nearest cache while some windows are read at once."""

group = grouping(larger, True)


def row_windows_for(geometry: Geometry, p: Plan, n: int, dtype: Any) -> int:
    """How many windows are a share, if those of a plan over a row of n cells are taken here; else 0."""
    taps = nominal(geometry, n) if dtype in (np.float32, np.float64) and p.kernel > 0 else 0
    return shared_out(taps) if taps > 0 else 0


@helper
def top_alone(x: Any, at: int, count: int) -> Any:
    """The greatest of so many cells from `at` on: of several zeros the first, of several NaN too."""
    n = lanes(x)
    if count < n or count > NEAR:
        return top_of(x, at, count)
    best, i = load(x, at + count - n), 0  # some cells twice
    seen = unordered(best, best)
    while i + n < count:
        cells = load(x, at + i)
        best, seen = greater_lanes(best, cells), either(seen, unordered(cells, cells))
        i += n
    top = top_of_lanes(best)
    return top_of(x, at, count) if top == 0 or anywhere(seen) else top


@unrolled_kernel
def max_row_windows(x: Any, y: Any, plan: Any, size: int, first: int, last: int) -> None:
    """The shares `first` to `last` of the windows of all planes, each of which is a row; a share has `size` windows."""
    line, windows, _ = unpacked(plan)
    out, shares, n = line.out, (line.out + size - 1) // size, lanes(x)
    x, y = address(x), address(y)
    for share in range(first, last):
        plane, low = share // shares, share % shares * size
        high, base, to = min(low + size, out), plane * windows.plane, plane * out
        j = low
        while j < high:
            done, again = 1, windows.count[j] > 0
            if is_group(line, windows, j, high, NEAR, x):
                tops, strange = group(x, base + windows.start[j], line.stride, line.taps, x)
                store(y, to + j, tops)
                done, again = n, anywhere(either(strange, is_zero(tops)))
            elif not again:
                y[to + j] = 0
            for i in range(j, j + done if again else j):
                y[to + i] = top_alone(x, base + windows.start[i], windows.count[i])
            j += done
