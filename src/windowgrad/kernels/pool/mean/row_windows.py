"""Mean of windows of many taps along a single row that share few cells (`pool/row_windows`), and of adaptive bins along one.

A window is added up as a whole plane of its cells is (`whole`), so float32 keeps the stated error. What a window sees says in
which order, not its neighbours: those that a part of the row has, or that lie in the padding, have the same sums.
"""

from __future__ import annotations

from typing import Any

from windowgrad.kernels.pool.mean.whole import NEAR, mean_channels, mean_group, sum_plane
from windowgrad.kernels.pool.packed import unpacked
from windowgrad.kernels.pool.row_pieces import fill
from windowgrad.kernels.pool.row_windows import is_group
from windowgrad.kernels.runtime.jit import kernel
from windowgrad.kernels.vector.ops import address, lanes


@kernel
def mean_row_windows(x: Any, y: Any, row_divisor: Any, col_divisor: Any, plan: Any, size: int, first: int, last: int) -> None:
    """The shares `first` to `last` of the windows of all planes, each of which is a row; a share has `size` windows."""
    line, windows, _ = unpacked(plan)
    out, shares, n = line.out, (line.out + size - 1) // size, lanes(x)
    x, y, row_divisor, col_divisor = address(x), address(y), address(row_divisor), address(col_divisor)
    for share in range(first, last):
        plane, low = share // shares, share % shares * size
        high, base, to = min(low + size, out), plane * windows.plane, plane * out
        j = low
        while j < high:
            by, at = row_divisor[0] * col_divisor[j], base + windows.start[j]
            if is_group(line, windows, j, high, NEAR, x):
                mean_group(x, at, line.stride, line.taps, by, row_divisor, y, to + j)
                j += n
            else:
                y[to + j] = sum_plane(x, at, windows.count[j], row_divisor) / by if windows.count[j] > 0 else 0
                j += 1


@kernel
def mean_row_window_runs(
    x: Any, y: Any, row_divisor: Any, col_divisor: Any, plan: Any, run: int, first: int, last: int
) -> None:
    """The windows `first` to `last` of all planes, each of which is a row whose cells are runs of channels."""
    line, windows, _ = unpacked(plan)
    out = line.out
    x, y, row_divisor, col_divisor = address(x), address(y), address(row_divisor), address(col_divisor)
    for job in range(first, last):
        j = job % out
        at, count, by = (job // out * windows.plane + windows.start[j]) * run, windows.count[j], row_divisor[0] * col_divisor[j]
        if count > 0:
            mean_channels(x, at, count, run, 0, run, by, row_divisor, y, job * run)
        else:
            fill(y, job * run, (job + 1) * run, 0)
