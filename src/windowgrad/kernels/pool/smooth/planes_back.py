"""The gradient of a smooth maximum over whole planes, in one kernel, from the saved sums of the windows; see `planes`.

    x → weights w;   g ÷ S → spread along the rows → the rows that see a cell added → times w

Rows are spread before they are added, since there are fewer rows of outputs than of cells where there is a stride. Windows side
by side (`spread_tiles`) copy; where windows overlap, the entries are set apart by the stride, with zeros between them, and each
cell adds up the taps that reach it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from windowgrad.kernels.pool.packed import rows_of, unpacked
from windowgrad.kernels.pool.row_pieces import clear
from windowgrad.kernels.pool.smooth.cells import PAST, weigh_around
from windowgrad.kernels.pool.smooth.planes import ROOM, add_rows, most_rows, spans
from windowgrad.kernels.pool.smooth.results import divide_narrow, divide_plane, some
from windowgrad.kernels.pool.smooth.stride_two import two_apart_back
from windowgrad.kernels.runtime.jit import helper, kernel
from windowgrad.kernels.vector.masked import one_by_one
from windowgrad.kernels.vector.ops import add, address, alive, lanes, later, load, multiply, splat, store, store_part
from windowgrad.kernels.vector.past import settled
from windowgrad.kernels.vector.registers import load_wide, wide_lanes
from windowgrad.kernels.vector.shuffle import convert, mixed_high, mixed_low


@helper
def spread_unlike(line: Any, windows: Any, rows: int, q: Any, buffer: Any, wide: int, u: Any, apart: int) -> None:
    """Each entry to the cells of its window, where windows are not all alike."""
    clear(u, 0, rows * apart)
    for row in range(rows):
        for j in range(line.out):
            one_by_one()
            at, share, i, count = row * apart + windows.start[j], q[row * line.out + j], 0, windows.count[j]
            if windows.step == 1:
                while i + lanes(q) <= count:
                    one_by_one()
                    store(u, at + i, add(load(u, at + i), splat(q, share)))
                    i += lanes(q)
            while i < count:
                one_by_one()
                u[at + i * windows.step] += share
                i += 1


@helper
def spread_tiles(line: Any, windows: Any, rows: int, q: Any, buffer: Any, wide: int, u: Any, apart: int) -> None:
    """Each entry to all cells of its window, where windows are side by side."""
    n, out, stride = lanes(q), line.out, line.stride
    for row in range(rows):
        j, low, to = 0, row * out, row * apart
        while stride == 2 and j + n <= out:
            one_by_one()
            share = load(q, low + j)
            store(u, to + 2 * j, mixed_low(share, share))
            store(u, to + 2 * j + n, mixed_high(share, share))
            j += n
        while j < out:
            one_by_one()
            for t in range(stride):
                one_by_one()
                u[to + j * stride + t] = q[low + j]
            j += 1


@helper
def set_apart(line: Any, q: Any, low: int, buffer: Any, at: int) -> None:
    """buffer[at + j·stride] = q[low + j] for a row; what lies between is 0 and stays so."""
    n, stride = lanes(q), line.stride
    if stride > 2:
        for j in range(line.out):
            one_by_one()
            buffer[at + j * stride] = q[low + j]
        return
    for j in range(0, line.out, n):
        one_by_one()
        share = some(q, low + j, line.out - j, q)
        if stride == 2:
            store(buffer, at + 2 * j, mixed_low(share, splat(q, 0.0)))
            store(buffer, at + 2 * j + n, mixed_high(share, splat(q, 0.0)))
        else:
            store(buffer, at + j, share)


@helper
def spread_taps(line: Any, windows: Any, rows: int, q: Any, buffer: Any, wide: int, u: Any, apart: int) -> None:
    """Each cell gets the entries of the few windows that see it."""
    n, ahead, many, before = wide_lanes(q), (line.taps - 1) * line.step, most_rows(wide, rows), line.before
    for low in range(0, rows, many):
        high = min(low + many, rows)
        for row in range(low, high):
            set_apart(line, q, row * line.out, buffer, (row - low) * wide + ahead)
        for row in range(low, high):
            at, to = (row - low) * wide + before, row * apart
            for i in range(0, line.width, n):
                one_by_one()
                total, k = load_wide(buffer, at + i), at + i
                for _ in range(1, line.taps):
                    one_by_one()
                    k += line.step
                    total = add(total, load_wide(buffer, k))
                if i + n <= line.width:
                    store(u, to + i, total)
                else:
                    store_part(u, to + i, total, line.width - i)


@helper
def spread_many_taps(line: Any, windows: Any, rows: int, q: Any, buffer: Any, wide: int, u: Any, apart: int) -> None:
    """The same of many windows."""
    for row in range(rows):
        clear(buffer, 0, wide)
        set_apart(line, q, row * line.out, buffer, (line.taps - 1) * line.step)
        spans(buffer, line.before, u, row * apart, line.width, line.taps, line.step, 1)


@helper
def products(e: Any, spread: Any, count: int, gx: Any, at: int) -> None:
    """gx = weights · what the windows of each cell spread."""
    for i in range(0, count, wide_lanes(e)):
        one_by_one()
        value = convert(multiply(load_wide(e, i), load_wide(spread, i)), gx)
        if i + wide_lanes(e) <= count:
            store(gx, at + i, value)
        else:
            store_part(gx, at + i, value, count - i)


@helper
def never_back(line: Any, windows: Any, x: Any, g: Any, sums: Any, q: Any, apart: int, gx: Any, by: Any, large: Any) -> Any:
    """The `at_once` of windows that have none."""
    return False


def backward_kernel(along: Any, padded_rows: bool, at_once: Any = never_back) -> Any:
    """The kernel for windows whose gradients are spread along a row by `along`, into rows with or without their padding.

    `at_once` may make the gradients of a plane whose cells are in reach by itself; it says whether it did.
    """

    @kernel
    def smooth_planes_back(x: Any, g: Any, gx: Any, saved: Any, pad: Any, scale: Any, plan: Any, first: int, last: int) -> int:
        """The gradient of the planes first to last from the saved sums; gives how many have no middle, or are not sound."""
        line, windows, apart = unpacked(plan)
        width, height, plane, n = line.width, windows.rows, windows.plane, lanes(saved)
        size, rows, reach = height * width, plane // line.out, max(line.before + width, line.out * line.stride)
        shift = line.before if padded_rows else 0
        wide = (line.taps - 1) * line.step + reach + (line.stride + 3) * n if line.taps else 0
        # weights | what is spread to each cell | gradients divided by sums | rows set apart | rows spread
        to_t, to_q, to_buffer = size + ROOM, 2 * size + 2 * ROOM, 2 * size + plane + 3 * ROOM
        to_u = to_buffer + most_rows(wide, rows) * wide + ROOM
        space = np.empty(to_u + (rows + 1) * apart + ROOM)
        w = address(space)
        t, q, buffer, u = later(w, to_t), later(w, to_q), later(w, to_buffer), later(w, to_u)
        clear(buffer, 0, to_u - to_buffer + (rows * apart if padded_rows else 0))
        large = gx.nbytes >= scale[PAST]
        x, g, gx, sums, by = address(x), address(g), address(gx), address(saved), address(scale)
        hard, in_place = 0, height == 1 and rows == 1 and windows.ptr[1] == 1  # the one row is seen as it is
        for p in range(first, last):
            given, pulled, total, found = later(x, p * size), later(g, p * plane), later(sums, p * plane), later(gx, p * size)
            if at_once(line, windows, given, pulled, total, u, apart, found, by, large):
                continue
            middle, is_narrow = weigh_around(given, w, size, by, len(pad) > 0, None, 0)
            sound = divide_narrow(pulled, total, q, plane) if is_narrow else divide_plane(pulled, total, q, plane)
            hard += middle != middle or not sound
            along(line, windows, rows, q, buffer, wide, u, apart)
            for i in range(0 if in_place else height):
                seen = rows_of(windows, i)
                if seen.low == seen.high:
                    clear(t, i * width, (i + 1) * width)
                else:
                    add_rows(later(u, shift), seen, width, t, i * width)
            products(w, later(u, shift) if in_place else t, size, found, 0)
        alive(space)
        if large:
            settled()
        return hard

    return smooth_planes_back


unlike_planes_back, tiled_planes_back = backward_kernel(spread_unlike, False), backward_kernel(spread_tiles, True)
two_apart_planes_back = backward_kernel(spread_taps, False, two_apart_back)
planes_of_taps_back, planes_of_many_taps_back = backward_kernel(spread_taps, False), backward_kernel(spread_many_taps, False)


# --- planes of one window ----------------------------------------------------------------------------------------------------


@kernel
def whole_planes_back(x: Any, g: Any, gx: Any, saved: Any, pad: Any, scale: Any, plan: Any, first: int, last: int) -> int:
    """The same for planes whose one output sees all of them: the weights times one number."""
    line, _, _ = unpacked(plan)
    size, n, hard = line.width, wide_lanes(saved), 0
    space = np.empty(size + ROOM)
    w, x, g, gx, sums, by = address(space), address(x), address(g), address(gx), address(saved), address(scale)
    for p in range(first, last):
        middle, _ = weigh_around(later(x, p * size), w, size, by, len(pad) > 0, None, 0)
        given = float(g[p])
        share = given / sums[p]  # the sum of a plane that has a middle is above 0
        hard += middle != middle or not (given == 0 or 1e-280 < abs(share) < 1e280)
        for i in range(0, size, n):
            one_by_one()
            weight = load_wide(w, i)
            value = convert(multiply(weight, splat(weight, share)), gx)
            if i + n <= size:
                store(gx, p * size + i, value)
            else:
                store_part(gx, p * size + i, value, size - i)
    alive(space)
    return hard
