"""Maximum of windows two cells apart over images of a few channels that stand last: as `rows`, with whole runs thinned out.

For the layouts of `has_few_channels`. A row of outputs at a time is folded into one buffer, and `thin` takes the windows along
it. What could tell the order of comparing is looked at again, as in `rows`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from windowgrad.kernels.pool.few_channels import thinning
from windowgrad.kernels.pool.fold_rows import ahead_of
from windowgrad.kernels.pool.max.rows import fold, has_negative_zero, has_zero, look_again
from windowgrad.kernels.pool.packed import rows_of, unpacked
from windowgrad.kernels.pool.row_pieces import fill, next_piece, piece_at
from windowgrad.kernels.runtime.jit import unrolled_kernel
from windowgrad.kernels.vector.half import cells
from windowgrad.kernels.vector.loops import larger
from windowgrad.kernels.vector.ops import address, alive, anywhere, lanes

thin = thinning(larger)


@unrolled_kernel
def max_few_channels(x: Any, y: Any, least: Any, plan: Any, first: int, last: int) -> None:
    """The output rows `first` to `last` of all planes."""
    line, windows, _ = unpacked(plan)
    out, before, holes, reach = line.out, line.before, False, (line.taps - 1) * line.step
    space = np.full(2 * out + reach + 3 * lanes(x), least)
    right = min(line.width, 2 * out - line.run + reach - before)  # cells that windows reach
    ahead = ahead_of(x, line, windows)
    x, y, buffer = cells(x), cells(y), address(space)
    for j in range(out):
        holes |= windows.count[j] == 0
    piece = piece_at(first, out, line, windows)
    for _ in range(first, last):
        at, rows = piece.at, rows_of(windows, piece.row)
        if rows.low == rows.high or right <= 0:
            fill(y, at, at + out, 0)
        else:
            strange = anywhere(fold(x, piece.base, rows, right, buffer, before, ahead))
            thin(buffer, y, at, out, line.run, line.taps, line.step)
            if strange or (has_zero(y, at, out) and has_negative_zero(x, piece.base, rows, right)):
                look_again(x, y, piece, strange, windows)
            for j in range(out if holes else 0):
                if windows.count[j] == 0:
                    y[at + j] = 0
        piece = next_piece(piece, out, line, windows)
    alive(space)
