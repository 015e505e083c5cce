"""Mean of windows of many rows: `axis_rows`, with sums.

For the geometries of `axis_passes.has_many_rows` on planes that are not small (`entry.goes_by_axes`). Along a row, sums are as
`rows` makes them; rows are added in float64, and kept and divided in the dtype of the sums along a row. In float32 that adds
three roundings to those along the row: of a kept row, of the whole sum, and of the division. Sums that may be float32, of
windows a cell apart, are added four output rows at once (`many_fours`).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from windowgrad.geometry import Sliding
from windowgrad.kernels.arrays import Array
from windowgrad.kernels.pool.axis_passes import AxisBlock, passes
from windowgrad.kernels.pool.axis_rows import pitch_of, stint_from, sweeping, unpacked_axis
from windowgrad.kernels.pool.mean.many_fours import goes_by_fours, mean_fours
from windowgrad.kernels.pool.mean.rows import fold, spans
from windowgrad.kernels.pool.packed import rows_of, unpacked
from windowgrad.kernels.pool.plan import product
from windowgrad.kernels.pool.row_pieces import Piece, buffer_size, fill, is_unchanged, padding_end, seen_by
from windowgrad.kernels.runtime.buffers import empty
from windowgrad.kernels.runtime.jit import helper, kernel
from windowgrad.kernels.runtime.threads import run
from windowgrad.kernels.vector.ops import (
    address,
    alive,
    anywhere,
    either,
    lanes,
    load,
    load_as,
    load_beside,
    not_finite,
    splat,
    store,
    store_part,
)
from windowgrad.kernels.vector.shuffle import convert


def mean_axes(
    geometry: Sliding, spatial: tuple[int, ...], block: AxisBlock, x: Array, zero: Array, divisors: Sequence[Array], y: Array
) -> Array:
    """y = the sum of each window of a block ÷ the product of its axes' divisors; both are flat. Sums along a row are as `zero`.

    Gives the planes of the block in which a sum is not finite; after the first axis, which comes last, a line is a plane.
    """
    strange, fours = np.zeros(0, np.uint8), zero.dtype == np.float32 and goes_by_fours(geometry)
    for each in passes(geometry, spatial, block):
        target = y if each.done else empty((each.size,), zero.dtype)
        rows = divisors[0][block.rows] if each.done else np.ones(len(each.table.start))
        columns = product(divisors[1:]) if each.done else np.ones(each.run)
        strange = np.zeros(each.lines, np.uint8)
        given = rows, columns, strange, each.along, each.plan
        kernel = partial(mean_fours, x, target, *given) if fours else partial(sum_axis, x, target, zero, *given)
        run(kernel, each.parts, x.nbytes)
        x = target
    return np.flatnonzero(strange)


@helper
def total(a: Any, b: Any) -> Any:
    return a + b


sweep = sweeping(total)


@helper
def clear_edge(kept: Any, ahead: Any, axis: Any, pitch: int, width: int) -> None:
    """What lies behind the outputs of a piece, up to a whole chunk, is 0: an earlier piece may have been longer."""
    for row in range(axis.taps * axis.step):
        fill(kept, row * pitch + width, (row + 1) * pitch, 0)
    for row in range(axis.step):
        fill(ahead, row * pitch + width, (row + 1) * pitch, 0)


@helper
def sums_along(x: Any, row: int, stint: Any, axis: Any, line: Any, windows: Any, buffer: Any, to: Any, at: int) -> None:
    """to[at:] = the sums of a stint's windows along row `row` of its line; a row that is not there has none."""
    base = (stint.line * axis.n + row) * line.width
    piece, out = Piece(at, stint.low, stint.high, 0, base), stint.high - stint.low
    left, right, shift = seen_by(line, piece)
    if row < 0 or row >= axis.n or left >= right:
        fill(to, at, at + out, 0)
    elif is_unchanged(line):
        fold(x, base + left, rows_of(windows, 0), out, to, at, -1)
    else:
        fill(buffer, 0, left + shift, 0)
        fill(buffer, right + shift, padding_end(line, piece, right + shift), 0)
        fold(x, base + left, rows_of(windows, 0), right - left, buffer, left + shift, -1)
        spans(buffer, 0, to, at, out, line.taps, line.step, line.stride)


@kernel
def sum_axis(
    x: Any, y: Any, zero: Any, row_divisor: Any, run_divisor: Any, strange: Any, along: Any, plan: Any, first: int, last: int
) -> None:
    """The parts `first` to `last` of the sums, each divided by what its row and its column say; along a row, as `zero`.

    `strange` becomes 1 for the lines in which a sum is not finite.
    """
    (line, windows, _), axis = unpacked(along), unpacked_axis(plan)
    rows, step, pitch = axis.taps * axis.step, axis.step, pitch_of(axis, lanes(zero))
    space, ends = np.empty(buffer_size(line, axis.piece, lanes(zero)), zero.dtype), np.zeros(rows * pitch, zero.dtype)
    beginnings, divisors, number = np.zeros(step * pitch), np.ones(pitch, zero.dtype), first
    x, y, buffer, kept, ahead, by = (
        address(x), address(y), address(space), address(ends), address(beginnings), address(divisors)
    )  # fmt: skip
    row_divisor, run_divisor, n, none = address(row_divisor), address(run_divisor), lanes(ahead), splat(ahead, 0)
    while number < last:
        stint = stint_from(number, last, axis, line.out)
        number, width, t = number + stint.parts, stint.high - stint.low, 0
        divided_by, seen = 0.0, not_finite(convert(none, by))
        clear_edge(kept, ahead, axis, pitch, width)
        for row in range(stint.top, stint.bottom):
            here, so_far, o = t * pitch, t % step * pitch, row - rows + step
            sums_along(x, row - axis.before, stint, axis, line, windows, buffer, kept, here)
            gives, whole = o >= stint.top and o % axis.stride == 0, t + step >= rows
            r, other = o // axis.stride, here + step * pitch
            if gives and row_divisor[r] != divided_by:
                divided_by = row_divisor[r]
                for j in range(width):
                    by[j] = divided_by * run_divisor[stint.low + j]
            at, j = (stint.line * axis.out + r) * line.out + stint.low, 0
            while j < width:
                value = load_as(kept, here + j, ahead) + none
                if t >= step:
                    value = load(ahead, so_far + j) + value
                store(ahead, so_far + j, value)
                if gives:
                    if not whole:
                        value = load_as(kept, other + j, ahead) + value
                    mean = convert(value, by) / load_beside(by, j, ahead)
                    seen = either(seen, not_finite(mean))
                    if j + n <= width:
                        store(y, at + j, convert(mean, y))
                    else:
                        store_part(y, at + j, convert(mean, y), width - j)
                j += n
            t += 1
            if t == rows:
                t = 0
                sweep(kept, ahead, rows, step, pitch, width)
        if anywhere(seen):
            strange[stint.line] = 1
    alive(space)
    alive(ends)
    alive(beginnings)
    alive(divisors)
