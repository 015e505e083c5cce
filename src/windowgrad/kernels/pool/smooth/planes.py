"""Smooth maximum of whole planes, in one kernel: weights, sums of the windows, logarithms. `planes_back` has the gradient.

For every plane, or strip of a plane, after the other:

    x → weights w → rows of a window added → along the row: sums S → y = middle + log(S)/β

What is between stays in the nearest cache: the weights of a plane, a few rows (`ROWS` entries) of what follows. Each step is
done for several rows before the next one begins: a load that needs two stores of a moment ago waits for both. Logarithms are
taken of the sums of several small planes together. Sums are added in vectors as wide as the CPU has them.

`forward_kernel` makes a kernel for each way in which windows are arranged along a row, so that a call compiles no more than it
needs; `ways` chooses. A plane that one reference does not do for (`cells`) is counted in what a kernel returns; then its result
is not to be used.

Measured and rejected: three kernels, one for each step over 2¹⁶ cells, with the sums of a mean (9×9 planes took three times as
long); one kernel for all arrangements, with the loops of `fold_rows` and `window_spans` (5.9 s of CPU time to compile, not 2.7,
and each row began with 45 additions, for the addresses of all those loops).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from windowgrad.kernels.pool.kept import is_kept, mask_start
from windowgrad.kernels.pool.packed import rows_of, unpacked
from windowgrad.kernels.pool.row_pieces import clear, span
from windowgrad.kernels.pool.smooth.cells import BETA, weigh_around, zero
from windowgrad.kernels.pool.smooth.results import narrow_values, plane_values, put, some
from windowgrad.kernels.pool.smooth.row_in_pieces import in_pieces
from windowgrad.kernels.pool.window_spans import spanning
from windowgrad.kernels.runtime.jit import helper, kernel
from windowgrad.kernels.vector.loops import plus
from windowgrad.kernels.vector.masked import one_by_one
from windowgrad.kernels.vector.ops import add, address, alive, fma, lanes, later, load, splat, store, store_part
from windowgrad.kernels.vector.registers import load_wide, wide_lanes
from windowgrad.kernels.vector.shuffle import even
from windowgrad.kernels.vector.tiles import lane_sum

ROWS = 2048
"""Entries of the rows that a step does before the next step."""

OUTPUTS = 256
"""Sums of small planes whose logarithms are taken together, about."""

ROOM = 32
"""Entries behind every part of the memory of a kernel, so that vectors may run over its end."""

spans = spanning(plus, False)


@helper
def most_rows(wide: int, rows: int) -> int:
    """How many rows of `wide` entries a step does before the next one."""
    return max(1, min(ROWS // max(wide, 1), rows))


# --- sums ----------------------------------------------------------------------------------------------------------------


@helper
def add_rows(a: Any, rows: Any, count: int, b: Any, at: int) -> None:
    """b[at:at + count] = the rows of `a` that begin at the places of `rows`, added; there is at least one."""
    n, places, low, high = wide_lanes(a), rows.places, rows.low, rows.high
    first, second, third = (
        later(a, places[low]),
        later(a, places[min(low + 1, high - 1)]),
        later(a, places[min(low + 2, high - 1)]),
    )
    taken, i = high - low, 0
    while i < count:
        one_by_one()
        total = load_wide(first, i)
        if taken > 1:
            total = add(total, load_wide(second, i))
        if taken > 2:
            total = add(total, load_wide(third, i))
        for q in range(low + 3, high):
            one_by_one()
            total = add(total, load_wide(a, places[q] + i))
        if i + n <= count:
            store(b, at + i, total)
        else:
            store_part(b, at + i, total, count - i)
        i += n


@helper
def total_of(a: Any, low: int, count: int) -> float:
    """The sum of a run of entries, by vectors where there are many."""
    n, total = wide_lanes(a), 0.0
    if count >= 4 * n:
        sums, others, j = load_wide(a, low), load_wide(a, low + n), 2 * n
        while j + 2 * n <= count:
            one_by_one()
            sums, others = add(sums, load_wide(a, low + j)), add(others, load_wide(a, low + j + n))
            j += 2 * n
        total, low, count = lane_sum(add(sums, others)), low + j, count - j
    for i in range(low, low + count):
        one_by_one()
        total += a[i]
    return total


@helper
def unlike(line: Any, windows: Any, a: Any, low: int, sums: Any, to: int) -> None:
    """The sums of the windows along a row, where they are not all alike."""
    for j in range(line.out):
        one_by_one()
        start, count, total = low + windows.start[j], windows.count[j], 0.0
        if windows.step == 1:
            total = total_of(a, start, count)
        else:
            for t in range(count):
                one_by_one()
                total += a[start + t * windows.step]
        sums[to + j] = total


@helper
def alike(line: Any, windows: Any, a: Any, low: int, sums: Any, to: int) -> None:
    """The same of few taps, where they are alike. It may write more behind the last sum."""
    n, step, stride = wide_lanes(a), line.step, line.stride
    if stride > 2:
        for j in range(line.out):
            one_by_one()
            i = low + j * stride
            total = a[i]
            for _ in range(1, line.taps):
                one_by_one()
                i += step
                total += a[i]
            sums[to + j] = total
        return
    for j in range(0, line.out, n):
        one_by_one()
        i = low + j * stride
        total = load_wide(a, i) if stride == 1 else even(load_wide(a, i), load_wide(a, i + n))
        for _ in range(1, line.taps):
            one_by_one()
            i += step
            total = add(total, load_wide(a, i) if stride == 1 else even(load_wide(a, i), load_wide(a, i + n)))
        store(sums, to + j, total)


@helper
def of_many_taps(line: Any, windows: Any, a: Any, low: int, sums: Any, to: int) -> None:
    """The same of many taps; what is added up is used up."""
    spans(a, low, sums, to, line.out, line.taps, line.step, line.stride)


@helper
def padded_end(line: Any, end: int) -> Any:
    """The outputs at the beginning of a row, or at its end, among which are all that reach over it."""
    low = min(line.out, (line.before + line.stride - 1) // line.stride)
    return (0, low) if end == 0 else (max(low, (line.width + line.before - span(line, 1)) // line.stride + 1), line.out)


@helper
def add_padding(sums: Any, low: int, pad: Any, count: int, weight: float) -> None:
    """The padded zeros of some windows of a plane. It may write what is there behind the last sum."""
    for i in range(0, count, lanes(sums)):
        one_by_one()
        store(sums, low + i, fma(some(pad, i, count - i, sums), splat(sums, weight), load(sums, low + i)))


@helper
def copy(a: Any, b: Any, at: int, count: int) -> None:
    """b[at:] = the first entries of a."""
    for i in range(0, count, lanes(a)):
        one_by_one()
        put(b, at + i, load(a, i), count - i)


@helper
def never(line: Any, windows: Any, x: Any, sums: Any, by: Any, mask: Any, start: Any, buffer: Any) -> Any:
    """The `at_once` of windows that have none."""
    return False


# --- forward --------------------------------------------------------------------------------------------------------------


def forward_kernel(along: Any, uses_up: bool, at_once: Any = never, with_padding: bool = False) -> Any:
    """The kernel for windows whose sums along a row are those of `along`, and are made of what it is given, if it `uses_up`.

    `at_once` may make the sums of a plane whose cells are in reach by itself, and says whether it did; `with_padding` of rows
    with padding too (`row_in_pieces`).
    """

    @kernel
    def smooth_planes(
        x: Any, result: Any, saved: Any, pad: Any, scale: Any, plan: Any, mask: Any, which: Any, first: int, last: int
    ) -> int:
        """The planes first to last; gives how many have no middle. `saved` becomes the sums, padded zeros counted.

        `pad` tells how many padded zeros each window of a plane counts; it is empty if there are none. `result` or `saved` is
        empty if it is not wanted. Cells that the mask leaves out weigh nothing; `which` mask a plane has. Both may be None.
        """
        line, windows, _ = unpacked(plan)
        size, plane, out, taps = windows.plane, windows.rows * line.out, line.out, line.taps
        wide = span(line, out) + ((line.stride + 3) * lanes(pad) if uses_up else 0) if taps else line.width
        seen, before = (min(line.width, span(line, out) - line.before), line.before) if taps else (line.width, 0)
        in_place = (
            taps == 0 and size == line.width and windows.rows == 1 and windows.ptr[1] == 1
        )  # the one row is seen as it is
        many, group = most_rows(wide, windows.rows), max(1, OUTPUTS // plane)
        to_rows, to_sums = size + ROOM, size + many * wide + 2 * ROOM
        to_middles = to_sums + group * plane + ROOM
        space = np.empty(to_middles + 2 * group)
        w = address(space)
        rows, sums, middles, narrow = later(w, to_rows), later(w, to_sums), later(w, to_middles), later(w, to_middles + group)
        clear(rows, 0, many * wide + ROOM)
        x, y, kept, counted, by = address(x), address(result), address(saved), address(pad), address(scale)
        masks, which = address(mask), address(which)
        lone = later(windows.count, out)
        hard, begun, all_narrow = 0, first, True
        for p in range(first, last):
            at = (p - begun) * plane
            given, start = later(x, p * size), mask_start(which, p, size)
            done = (with_padding or len(pad) == 0) and at_once(line, windows, given, later(sums, at), by, masks, start, rows)
            middle, is_narrow = 0.0, lanes(x) > lanes(pad)
            if not done:
                middle, is_narrow = weigh_around(given, w, size, by, len(pad) > 0, masks, start)
            middles[p - begun], narrow[p - begun], all_narrow = middle, 1.0 if is_narrow else 0.0, all_narrow and is_narrow
            hard += middle != middle
            if in_place:
                along(line, windows, w, 0, sums, at)
            for low in range(0, 0 if in_place or done else windows.rows, many):
                high = min(low + many, windows.rows)
                for row in range(low, high):
                    taken, to = rows_of(windows, row), (row - low) * wide
                    if uses_up or with_padding or taken.low == taken.high or seen <= 0:  # or used up by pieces
                        clear(rows, to, to + wide)
                    if taken.low < taken.high and seen > 0:
                        add_rows(w, taken, seen, rows, to + before)
                for row in range(low, high):
                    along(line, windows, rows, (row - low) * wide, sums, at + row * out)
            if len(pad):
                weight = zero(middle, by[BETA], True)
                for end in range(2 if with_padding else 1):  # no window in the middle of a long row sees padding
                    low, high = padded_end(line, end) if with_padding else (0, plane)
                    add_padding(sums, at + low, later(counted, low), high - low, weight)
            if p + 1 < last and p + 1 - begun < group:
                continue
            if len(saved):
                copy(sums, kept, begun * plane, at + plane)
            if len(result):
                if all_narrow:
                    narrow_values(sums, 0, at + plane, by, y, begun * plane)
                else:
                    for q in range(p + 1 - begun):
                        if narrow[q]:
                            narrow_values(sums, q * plane, (q + 1) * plane, by, y, (begun + q) * plane)
                        else:
                            plane_values(sums, q * plane, (q + 1) * plane, middles[q], by, y, (begun + q) * plane)
                for i in range(
                    1, lone[0] + 1
                ):  # it is that cell exactly; −0.0 becomes 0.0, as where a logarithm is added to it
                    for q in range(begun, p + 1):
                        cell = lone[lone[0] + i]
                        there = is_kept(masks, mask_start(which, q, size) + cell)
                        y[q * plane + lone[i]] = x[q * size + cell] + 0.0 if there else 0.0
            begun, all_narrow = p + 1, True
        alive(space)
        return hard

    return smooth_planes


unlike_planes, alike_planes = forward_kernel(unlike, False), forward_kernel(alike, False)
planes_of_many_taps = forward_kernel(of_many_taps, True)
long_rows = forward_kernel(alike, False, in_pieces(alike), True)
