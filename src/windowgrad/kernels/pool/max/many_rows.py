"""Maximum of windows of many rows: `axis_rows`, with the order of the meaning.

For the geometries of `axis_passes.has_many_rows`. A row is combined along itself as `rows` does it, and looked at again where
that could tell: NaN, and 0.0 beside −0.0. Rows are combined by the order of the meaning, in which the first of equals wins.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from windowgrad.geometry import Sliding
from windowgrad.kernels.arrays import Array
from windowgrad.kernels.pool.axis_passes import AxisBlock, passes
from windowgrad.kernels.pool.axis_rows import pitch_of, stint_from, sweeping, unpacked_axis
from windowgrad.kernels.pool.max.rows import fold, has_negative_zero, has_zero, look_again, spans
from windowgrad.kernels.pool.packed import rows_of, unpacked
from windowgrad.kernels.pool.row_pieces import Piece, buffer_size, fill, padding_end, seen_by
from windowgrad.kernels.runtime.buffers import empty
from windowgrad.kernels.runtime.jit import helper, unrolled_kernel
from windowgrad.kernels.runtime.threads import run
from windowgrad.kernels.vector.ops import address, alive, anywhere, beats, lanes, load, select, store, store_part


def max_axes(geometry: Sliding, spatial: tuple[int, ...], block: AxisBlock, x: Array, least: Any, y: Array) -> None:
    """y = the greatest cell of each window of a block; both are flat."""
    for each in passes(geometry, spatial, block):
        target = y if each.done else empty((each.size,), x.dtype)
        count = np.asarray(each.table.count, dtype=np.int64)[block.rows if each.done else slice(None)]
        run(partial(max_axis, x, target, least, each.along, each.plan, count), each.parts, x.nbytes)
        x = target


@helper
def first_greatest(a: Any, b: Any) -> Any:
    return select(beats(b, a), b, a)


sweep = sweeping(first_greatest)


@helper
def greatest_along(
    x: Any, row: int, stint: Any, axis: Any, line: Any, windows: Any, least: Any, buffer: Any, to: Any, at: int
) -> None:
    """to[at:] = the greatest cells of a stint's windows along row `row` of its line; a row that is not there has none."""
    base = (stint.line * axis.n + row) * line.width
    piece, out = Piece(at, stint.low, stint.high, 0, base), stint.high - stint.low
    left, right, shift = seen_by(line, piece)
    if row < 0 or row >= axis.n or left >= right:
        fill(to, at, at + out, least)
    elif line.taps == 1 and line.stride == 1 and line.before == 0:
        fold(x, base + left, rows_of(windows, 0), out, to, at, False)
    else:
        fill(buffer, 0, left + shift, least)
        fill(buffer, right + shift, padding_end(line, piece, right + shift), least)
        strange = anywhere(fold(x, base + left, rows_of(windows, 0), right - left, buffer, left + shift, False))
        spans(buffer, 0, to, at, out, line.taps, line.step, line.stride)
        if strange or (has_zero(to, at, out) and has_negative_zero(x, base + left, rows_of(windows, 0), right - left)):
            look_again(x, to, piece, strange, windows)


@unrolled_kernel
def max_axis(x: Any, y: Any, least: Any, along: Any, plan: Any, count: Any, first: int, last: int) -> None:
    """The parts `first` to `last` of the greatest cells; a window with no cell gives 0. `along` is the plan of a row."""
    (line, windows, _), axis = unpacked(along), unpacked_axis(plan)
    n, rows, step, pitch = lanes(x), axis.taps * axis.step, axis.step, pitch_of(axis, lanes(x))
    space, ends, beginnings = (
        np.empty(buffer_size(line, axis.piece, n), x.dtype),
        np.zeros(rows * pitch, x.dtype),
        np.zeros(step * pitch, x.dtype),
    )
    x, y, buffer, kept, ahead = address(x), address(y), address(space), address(ends), address(beginnings)
    holes, number = False, first
    for j in range(line.out if line.taps > 1 or line.before > 0 else 0):
        holes |= windows.count[j] == 0
    while number < last:
        stint = stint_from(number, last, axis, line.out)
        number, width, t = number + stint.parts, stint.high - stint.low, 0
        for row in range(stint.top, stint.bottom):
            here, so_far, o = t * pitch, t % step * pitch, row - rows + step
            greatest_along(x, row - axis.before, stint, axis, line, windows, least, buffer, kept, here)
            gives, whole = o >= stint.top and o % axis.stride == 0, t + step >= rows
            r, other = o // axis.stride, here + step * pitch
            at, j = (stint.line * axis.out + r) * line.out + stint.low, 0
            while j < width:
                best = load(kept, here + j)
                if t >= step:
                    best = first_greatest(load(ahead, so_far + j), best)
                store(ahead, so_far + j, best)
                if gives:
                    if not whole:
                        best = first_greatest(load(kept, other + j), best)
                    if j + n <= width:
                        store(y, at + j, best)
                    else:
                        store_part(y, at + j, best, width - j)
                j += n
            if gives and (holes or count[r] == 0):
                for j in range(width):
                    if count[r] == 0 or windows.count[stint.low + j] == 0:
                        y[at + j] = 0
            t += 1
            if t == rows:
                t = 0
                sweep(kept, ahead, rows, step, pitch, width)
    alive(space)
    alive(ends)
    alive(beginnings)
