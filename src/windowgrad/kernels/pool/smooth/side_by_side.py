"""Smooth maximum of windows of two columns side by side that cover their plane, as 2×2 windows with a stride of 2 do.

For narrow planes of float32 (`cells`) where every cell is in one window, without padding (`is_side_by_side`). Weights stay in
the nearest cache:

    rows of a window   c c c c …  →  weights   w w w w …  →  added row by row, then neighbours   S S …  →  log(S)/β
    S, g  →  g ÷ S, twice each   q q q q …   times the weights of each row  →  gradients

The weights of a gradient are those of its sums, so nothing is saved for it: that would be more bytes than two cells. A call
of which a plane is not narrow, or a gradient not finite, is refused as a whole, and done by the steps of `planes` and
`planes_back`. All additions and products are those, in the same order, so it changes no bit. Each step is done for a thousand
cells before the next one: as one loop, a chain of 130 cycles, they took 1.13 to 1.3 times as long. So memory would idle between
the steps; lines are asked for ahead, without which a forward pass over 100 MB took 1.9 times as long.

Measured and rejected: saved sums (2×2 windows, forward and backward together, 1.3 times as long); weights in registers; 4096
cells at a time (gradients of 100 MB 1.3 times as long); halves of weights converted as they are loaded, in one loop (no gain).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from windowgrad.kernels.pool.kept import kept, kept_part, mask_start
from windowgrad.kernels.pool.packed import unpacked
from windowgrad.kernels.pool.plan import Plan
from windowgrad.kernels.pool.smooth.cells import AHEAD, NARROW_MAGNITUDE, NARROW_REACH, PAST, POWER, POWER_REST
from windowgrad.kernels.pool.smooth.results import NARROW_FINITE, narrow_values
from windowgrad.kernels.runtime.jit import helper, kernel
from windowgrad.kernels.vector.exp_log import narrow_weight
from windowgrad.kernels.vector.masked import one_by_one
from windowgrad.kernels.vector.ops import (
    add,
    address,
    alive,
    anywhere,
    divide,
    fma,
    greater,
    larger,
    later,
    multiply,
    splat,
    store,
    store_part,
    subtract,
)
from windowgrad.kernels.vector.past import fills_lines, settled, store_past
from windowgrad.kernels.vector.registers import aligned, fetch_line, load_wide, load_wide_as, load_wide_part, wide_lanes
from windowgrad.kernels.vector.shuffle import bits, convert, even, load_half, load_half_part, masked, mixed_high, mixed_low, odd

CELLS = 1024
"""Weights that are kept for the next step, about."""

OUTPUTS = 1024
"""Sums whose logarithms are taken together, at least."""


def is_side_by_side(p: Plan) -> bool:
    """Whether all cells of a plane are in one of several windows each, of two columns and without padding."""
    regular = p.plane_out > 1 and p.kernel == p.stride == 2 and p.step == 1 and p.before == 0 and p.width == 2 * p.out
    covered = len(p.rows) * p.width == p.plane_in and bool((np.diff(p.ptr) > 0).all())
    full = bool((p.row_inside == p.row_cells).all() and (p.col_inside == p.count).all())
    return regular and covered and full and len(np.unique(p.rows)) == len(p.rows)


@helper
def most_of(windows: Any) -> int:
    """The most rows that a row of windows sees."""
    most = 1
    for row in range(windows.rows):
        most = max(most, windows.ptr[row + 1] - windows.ptr[row])
    return most


class Block(NamedTuple):
    """Rows of windows, and `size` cells of each row that they see; the `most` rows of a window are `apart` in memory."""

    first: int
    last: int
    begin: int
    size: int
    most: int
    apart: int


@helper
def shape_of(width: int, most: int, n: int) -> Any:
    """(the cells of a piece of a row, of which the last may have twice as many; how far rows are apart; rows of windows)"""
    piece = max(64, CELLS // most // 128 * 64) if width > 128 else width
    apart = (2 * piece if piece < width else width) // n * n + n
    return piece, apart, max(1, CELLS // (most * apart))


@helper
def weigh_rows(x: Any, windows: Any, block: Any, w: Any, by: Any, mask: Any, start: int) -> Any:
    """w = the weights of the cells of a block, row by row; the largest of their |cells|, as bits."""
    n, zeros = wide_lanes(x), load_wide_part(x, 0, 0)
    power, rest, worst = splat(zeros, by[POWER]), splat(zeros, by[POWER_REST]), masked(bits(zeros), 0)
    for row in range(block.first, block.last):
        low = windows.ptr[row]
        for q in range(windows.ptr[row + 1] - low):
            one_by_one()
            at, to, i = windows.places[low + q] + block.begin, later(w, ((row - block.first) * block.most + q) * block.apart), 0
            while i + n <= block.size:
                one_by_one()
                cells = kept(load_wide(x, at + i), mask, start + at + i)
                worst = larger(worst, masked(bits(cells), NARROW_MAGNITUDE))
                fetch_line(x, at + i + AHEAD)
                store(to, i, kept(narrow_weight(cells, power, rest), mask, start + at + i))
                i += n
            if i < block.size:
                left = block.size - i
                cells = kept_part(load_wide_part(x, at + i, left), mask, start + at + i, left)
                worst = larger(worst, masked(bits(cells), NARROW_MAGNITUDE))
                store(to, i, kept_part(narrow_weight(cells, power, rest), mask, start + at + i, left))
    return worst


@helper
def sums_of(w: Any, rows: int, apart: int, wide: Any) -> Any:
    """The sums of the windows of a vector of cells."""
    half = wide_lanes(wide)
    one, two = load_wide_as(w, 0, wide), load_wide_as(w, half, wide)
    if rows > 1:
        one, two = add(one, load_wide_as(w, apart, wide)), add(two, load_wide_as(w, apart + half, wide))
    for q in range(2, rows):
        one_by_one()
        one, two = add(one, load_wide_as(w, q * apart, wide)), add(two, load_wide_as(w, q * apart + half, wide))
    return add(even(one, two), odd(one, two))


@kernel
def pair_values(x: Any, result: Any, scale: Any, plan: Any, mask: Any, which: Any, first: int, last: int) -> int:
    """The smooth maxima of the planes first to last, if all are narrow; says whether there is one that is not.

    Cells that the mask leaves out weigh nothing; `which` mask a plane has. Both may be None.
    """
    line, windows, _ = unpacked(plan)
    width, size, most, n, begun, ready = line.width, windows.plane, most_of(windows), wide_lanes(x), 0, 0
    piece, apart, many = shape_of(width, most, n)
    space = np.empty(OUTPUTS + many * apart + many * most * apart + 4 * n, np.float32)
    x, y, sums, by, masks, which = address(x), address(result), address(space), address(scale), address(mask), address(which)
    w, begun = aligned(later(sums, OUTPUTS + many * apart + n)), first * windows.rows * line.out
    reach = bits(splat(load_wide_part(x, 0, 0), by[NARROW_REACH]))
    for p in range(first, last):
        for row in range(0, windows.rows, many):
            for begin in range(0, max(width - piece, 1), piece):
                cells = piece if begin + 2 * piece < width else width - begin
                block = Block(row, min(row + many, windows.rows), begin, cells, most, apart)
                worst = weigh_rows(later(x, p * size), windows, block, w, by, masks, mask_start(which, p, size))
                if anywhere(greater(worst, reach)):
                    return 1
                for r in range(row, block.last):
                    rows, at = windows.ptr[r + 1] - windows.ptr[r], later(w, (r - row) * most * apart)
                    for i in range(0, block.size, n):
                        one_by_one()
                        store(sums, ready + i // 2, convert(sums_of(later(at, i), rows, apart, by), sums))
                    ready += block.size // 2
                if ready >= OUTPUTS:
                    narrow_values(sums, 0, ready, by, y, begun)
                    begun, ready = begun + ready, 0
    narrow_values(sums, 0, ready, by, y, begun)
    alive(space)
    return 0


@helper
def products(w: Any, share: Any, size: int, gx: Any, past: Any) -> None:
    """gx = weights times the shares of their windows, of so many cells; written `past` the caches or not."""
    half = wide_lanes(share)
    for i in range(0, size, 2 * half):
        one_by_one()
        both = load_wide(share, i // 2)
        one = convert(multiply(load_wide_as(w, i, share), mixed_low(both, both)), gx)
        two = convert(multiply(load_wide_as(w, i + half, share), mixed_high(both, both)), gx)
        if i + 2 * half <= size:
            store_past(gx, i, one, past)
            store_past(gx, i + half, two, past)
        else:
            store_part(gx, i, one, size - i)
            store_part(gx, i + half, two, size - i - half)


@kernel
def pair_gradients(x: Any, g: Any, result: Any, scale: Any, plan: Any, first: int, last: int) -> int:
    """Their gradients, if all are narrow and what is pulled back is finite; says whether something is not."""
    line, windows, _ = unpacked(plan)
    width, size, out, most, n = line.width, windows.plane, line.out, most_of(windows), wide_lanes(x)
    piece, apart, many = shape_of(width, most, n)
    space, others = np.empty(many * most * apart + 2 * n, np.float32), np.empty(many * apart // 2 + 2 * n)
    w, q, by, places = aligned(address(space)), aligned(address(others)), address(scale), windows.places
    x, g, gx, zeros, large = address(x), address(g), address(result), load_wide_part(x, 0, 0), result.nbytes >= by[PAST]
    past = large and fills_lines(gx, width)
    reach, largest = bits(splat(zeros, by[NARROW_REACH])), masked(bits(load_half_part(g, 0, 0, zeros)), 0)
    for p in range(first, last):
        for row in range(0, windows.rows, many):
            for begin in range(0, max(width - piece, 1), piece):
                cells = piece if begin + 2 * piece < width else width - begin
                block = Block(row, min(row + many, windows.rows), begin, cells, most, apart)
                if anywhere(greater(weigh_rows(later(x, p * size), windows, block, w, by, None, 0), reach)):
                    settled()  # others write these gradients next
                    return 1
                for r in range(row, block.last):
                    rows, at = windows.ptr[r + 1] - windows.ptr[r], later(w, (r - row) * most * apart)
                    pulled, to = later(g, (p * windows.rows + r) * out + begin // 2), later(q, (r - row) * apart // 2)
                    for i in range(0, block.size, n):
                        one_by_one()
                        sums, left = sums_of(later(at, i), rows, apart, by), block.size - i
                        given = (
                            load_half(pulled, i // 2, zeros) if left >= n else load_half_part(pulled, i // 2, left // 2, zeros)
                        )
                        largest = larger(largest, masked(bits(given), NARROW_MAGNITUDE))
                        rough = convert(divide(splat(given, 1.0), convert(sums, g)), by)  # made better by a step of Newton's
                        lacks = fma(subtract(splat(sums, 0.0), sums), rough, splat(sums, 1.0))
                        store(to, i // 2, multiply(convert(given, by), fma(rough, lacks, rough)))
                for r in range(row, block.last):
                    low, share = windows.ptr[r], later(q, (r - row) * apart // 2)
                    for k in range(windows.ptr[r + 1] - low):
                        at = later(w, ((r - row) * most + k) * apart)
                        products(at, share, block.size, later(gx, p * size + places[low + k] + begin), past)
    alive(space)
    alive(others)
    if past:
        settled()
    return 1 if anywhere(greater(largest, splat(largest, NARROW_FINITE))) else 0
