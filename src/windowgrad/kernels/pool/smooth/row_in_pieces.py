"""Sums of the windows along a plane that is one long row, piece by piece: its weights stay in the nearest cache.

    row      . . [ c c c c c c c c c c c c c c c ] . .      cells, and the padding on both sides
    pieces   |  low … high  |  low … high  |                 the weights of a piece, then the sums of its windows

All cells are weighed against 0 (`cells.weigh_first`); a row of which one is out of reach is left to the steps of `planes`. The
weights and the order of the sums are the same, so it changes no bit. Rows of 100003 cells take 0.8 of the time. Measured and
rejected: windows of many taps (64 took as long, in pieces of 2048 to 32768 cells).
"""

from __future__ import annotations

from typing import Any

from windowgrad.kernels.pool.packed import Line
from windowgrad.kernels.pool.plan import Plan
from windowgrad.kernels.pool.row_pieces import clear, span
from windowgrad.kernels.pool.smooth.cells import weigh_first
from windowgrad.kernels.pool.window_spans import DIRECT
from windowgrad.kernels.runtime.jit import helper
from windowgrad.kernels.vector.ops import later

PIECE = 2048
"""The cells that the outputs of a piece step over."""


def is_long_row(p: Plan) -> bool:
    """Whether a plane is one row of many windows of few taps that are alike, with nothing but them and their padding, which is
    before and behind them: a window that sees rows above or below them too has padding everywhere.
    """
    reach = (p.out - 1) * p.stride + (p.kernel - 1) * p.step + 1 - p.before
    is_short = 0 < p.kernel <= DIRECT and max((p.kernel - 1) * p.step, p.stride) < PIECE // 4
    return p.is_one_row and p.row_inside[0] == 1 and is_short and p.out * p.stride > 2 * PIECE and p.width - reach < p.stride


def in_pieces(along: Any) -> Any:
    """The `at_once` of `planes.forward_kernel` for such rows, whose sums are those of `along`."""

    @helper
    def pieces(line: Any, windows: Any, x: Any, sums: Any, by: Any, mask: Any, start: Any, buffer: Any) -> Any:
        """sums = those of all windows, if all cells are in reach; says whether they are. It may write more behind the last."""
        stride, step, sound = line.stride, max(1, PIECE // line.stride), True
        for low in range(0, line.out, step):
            high = min(low + step, line.out)
            begin = low * stride - line.before  # of the buffer, in the row
            end, left = begin + max(span(line, high - low), (high - low) * stride), max(0, begin)
            right = max(left, line.width if high == line.out else min(line.width, end))
            clear(buffer, 0, left - begin)
            sound = weigh_first(later(x, left), later(buffer, left - begin), right - left, by, mask, start + left) and sound
            clear(buffer, right - begin, end - begin)
            here = Line(line.width, high - low, line.taps, stride, line.before, line.step, line.run)
            along(here, windows, buffer, 0, sums, low)
        return sound

    return pieces
