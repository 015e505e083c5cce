"""One axis at a time, for windows of many rows: a cell costs the same whatever the side of the window.

For the geometries of `axis_passes.has_many_rows`. An array is seen as [lines, n, cells]: windows along the middle axis, of rows
whose own windows, those of the last axis, are combined first, while they are in the nearest cache. Rows are cut into segments
as long as a window, so every window is the end of one segment and the beginning of the next: what its rows combine to is the
combination of two rows, one of a segment combined from its end, one of a segment combined from its beginning (van Herk, Gil
and Werman). With windows of 4 rows:

    rows        0 1 2 3 | 4 5 6 7 | …
    kept        each row of a segment with all rows behind it      the window at row 2 is
    ahead       the rows of the next segment so far                kept[2] (rows 2, 3) with ahead (rows 4, 5)

A piece of a row goes down the lines: each row is combined along itself, joined to `ahead`, and takes the place of a row of
`kept` that was used last; at the end of a segment `kept` is combined from its end on. So a cell is read once and an output is
written once, and what lies between stays in a cache. A share that begins in the middle of a line does one segment more;
segments are counted from the first window on, so the order of a sum does not depend on shares.

Sums are added up in float64. `kept` has the dtype of the sums along a row. With the last axis taken first, the first winner in
row-major order wins. Measured, 64 × 64 at every cell of 4096²: with arrays between the axes, in blocks for the last cache, it
took 1.6 (maximum) and 2.1 times (mean) as long.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from windowgrad.kernels.runtime.jit import helper
from windowgrad.kernels.vector.ops import lanes, load_as, store
from windowgrad.kernels.vector.shuffle import convert

CHUNK = 4
"""Vectors of `ahead` that are combined side by side in `sweep`: a line of the cache for all dtypes."""


class Axis(NamedTuple):
    """The middle axis of an array [lines, n, cells]: `out` windows of `taps` taps, `step` apart, over n rows.

    They begin `stride` rows apart, the first of them `before` rows before the array. A piece of a row has `piece` outputs.
    """

    n: int
    out: int
    taps: int
    stride: int
    step: int
    before: int
    piece: int


class Stint(NamedTuple):
    """Of a line, the rows `top` to `bottom`, counted from the first window on, and of each the outputs from `low` to `high`.

    `parts` is how many parts it is of the work to be shared: a part is the windows that begin in one segment.
    """

    line: int
    top: int
    bottom: int
    low: int
    high: int
    parts: int


@helper
def unpacked_axis(plan: Any) -> Any:
    return Axis(plan[0], plan[1], plan[2], plan[3], plan[4], plan[5], plan[6])


@helper
def stint_from(number: int, last: int, axis: Any, run: int) -> Any:
    """The parts from `number` on that lie below each other: line after line, piece after piece, segment after segment."""
    rows, pieces, every = axis.taps * axis.step, -(-run // axis.piece), (axis.out - 1) * axis.stride + 1
    segments = -(-every // rows)
    top, low = number % segments, number // segments % pieces * axis.piece
    parts = min(last - number, segments - top)
    bottom = min((top + parts) * rows, every) + rows - axis.step
    return Stint(number // (segments * pieces), top * rows, bottom, low, min(low + axis.piece, run), parts)


@helper
def pitch_of(axis: Any, lanes: int) -> int:
    """From one row of a piece to the next: whole chunks, and not a power of two, whose rows would share places of the cache."""
    return (-(-axis.piece // (CHUNK * lanes)) + 1) * CHUNK * lanes  # type: ignore[no-any-return]


def sweeping(combine: Any) -> Any:
    """`combine(a, b)` of two vectors, a from the row before."""

    @helper
    def sweep(kept: Any, ahead: Any, rows: int, step: int, pitch: int, width: int) -> None:
        """Each row of a segment is combined with those behind it, in the dtype of `ahead`."""
        n, apart = lanes(ahead), step * pitch
        for phase in range(step):
            for j in range(0, width, CHUNK * n):
                i = (rows - step + phase) * pitch + j
                a, b = load_as(kept, i, ahead), load_as(kept, i + n, ahead)
                c, d = load_as(kept, i + 2 * n, ahead), load_as(kept, i + 3 * n, ahead)
                i -= apart
                while i >= 0:
                    a, b = combine(load_as(kept, i, ahead), a), combine(load_as(kept, i + n, ahead), b)
                    c, d = combine(load_as(kept, i + 2 * n, ahead), c), combine(load_as(kept, i + 3 * n, ahead), d)
                    store(kept, i, convert(a, kept))
                    store(kept, i + n, convert(b, kept))
                    store(kept, i + 2 * n, convert(c, kept))
                    store(kept, i + 3 * n, convert(d, kept))
                    i -= apart

    return sweep
