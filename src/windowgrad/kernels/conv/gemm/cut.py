"""Rows of pixels that meet the same taps, in parts of their own, so that no part multiplies zeros of the padding.

    7 rows of pixels, 3 taps, a padding of 1:    row 0       meets taps 1 and 2      a third of its products is left out
                                                 rows 1 … 5  all taps
                                                 row 6       taps 0 and 1            the same

In a panel of pixels of one image all taps are met by some pixel. Of a batch, the rows of one kind of all images fill panels:
16 images of 512 channels, 3×3 on 7×7, have 0.905 of the products. Rows are cut along the first axis only: pixels of one column
are not in a row of memory.

A sum that leaves out zeros has the same bits, but for the sign of a zero, and results that are zero are reviewed
(`conv/entry.py`).
"""

from __future__ import annotations

from collections.abc import Callable

from windowgrad.kernels.conv.plan import Gather, rows_of

MOST_EDGES = 16
"""Windows of more rows are not cut: each pair of edges is tried."""


def edges(gather: Gather) -> list[int]:
    """The rows, but the first, that meet other taps than the row before."""
    grid, size, step, table = gather.own_axes
    taps, n = table.reshape(-1, len(grid))[:, 0], int(grid[0])
    found = {*(-(taps // step[0])).tolist(), *((size[0] - 1 - taps) // step[0] + 1).tolist()}
    return sorted(row for row in found if 0 < row < n)


def cut(gather: Gather, time: Callable[[Gather], float]) -> tuple[Gather, ...]:
    """The rows of pixels in the parts that take the least `time` together; all of them, as they are, if that is one."""
    inner = edges(gather) if len(gather.own_axes[0]) > 1 else []
    if not inner or len(inner) > MOST_EDGES:
        return (gather,)
    ends = [0, *inner, int(gather.own_axes[0][0])]
    best: list[tuple[float, tuple[Gather, ...]]] = [(0.0, ())]
    for j, last in enumerate(ends[1:], 1):
        tried = [(best[i], rows_of(gather, ends[i], last)) for i in range(j)]
        best.append(min(((before + time(part), (*parts, part)) for (before, parts), part in tried), key=lambda each: each[0]))
    return best[-1][1] if len(best[-1][1]) > 1 else (gather,)
