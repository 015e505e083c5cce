"""The gradient of a smooth maximum along rows of overlapping windows two cells apart, as 3×3 with a stride of 2.

A cell is weighed where it is needed, and what its windows spread to it stays in registers. With q = g ÷ S of an output row, the
cells of a row are seen in turns by windows with even and with odd taps, so runs of q are added up and interleaved:

    taps 3, one cell of padding:   cell 0 1 2 3 4 …   gets   q₀, q₀ + q₁, q₁, q₁ + q₂, q₂, …

Rows of q stand apart, with zeros on both sides. A plane that is one row is done in pieces. All cells are weighed against 0
(`cells.weigh_first`); a plane of which one is out of reach, or whose rows are shorter than a vector, is left to the steps of
`planes_back`. All additions and products are those, in the same order, so it changes no bit. Planes of 112×112 take 0.6 of the
time.
"""

from __future__ import annotations

from typing import Any

from windowgrad.kernels.pool.packed import Line
from windowgrad.kernels.pool.plan import Plan
from windowgrad.kernels.pool.smooth.cells import (
    AHEAD,
    EXPONENT,
    EXPONENT_LOST,
    MAGNITUDE,
    NARROW_MAGNITUDE,
    NARROW_REACH,
    POWER,
    POWER_REST,
    REACH,
)
from windowgrad.kernels.pool.smooth.results import divide_narrow, divide_plane
from windowgrad.kernels.runtime.jit import helper
from windowgrad.kernels.vector.exp_log import first_weight
from windowgrad.kernels.vector.masked import one_by_one
from windowgrad.kernels.vector.ops import add, anywhere, fma, greater, lanes, larger, later, splat, store
from windowgrad.kernels.vector.past import fills_lines, store_past
from windowgrad.kernels.vector.registers import fetch_line, load_wide, wide_lanes
from windowgrad.kernels.vector.shuffle import bits, convert, load_half, masked, mixed

PIECE = 2048
"""The cells of a piece of a row."""

MARGIN = 8
"""Zeros before a row of q: a vector of them."""


def is_two_apart(p: Plan) -> bool:
    """Whether windows along a row have three columns side by side and a stride of 2."""
    return p.kernel == 3 and p.stride == 2 and p.step == 1


def row_of_quotients(p: Plan) -> int:
    """The entries of a row of q: zeros, then as many as there are windows, or places for them up to the last cell."""
    return MARGIN + max(p.out, (p.before + p.width) // 2 + 1)


@helper
def zeros(q: Any, low: int, high: int) -> None:
    """q[low:high] = 0. It may write more behind them. (`clear` becomes a call, which takes longer than these few.)"""
    for i in range(low, high, lanes(q)):
        one_by_one()
        store(q, i, splat(q, 0.0))


@helper
def taps(q: Any, last: int, odd: int, cells: Any) -> Any:
    """(the entries of the windows of cells at their middle tap, the sums of those at the other two)"""
    return load_half(q, last, cells), add(load_half(q, last - 1 + odd, cells), load_half(q, last + odd, cells))


@helper
def quotients(out: int, rows: int, apart: int, g: Any, sums: Any, q: Any, is_narrow: Any) -> Any:
    """Rows of q = g ÷ S and their zeros, and a row of zeros behind them; says whether all are sound."""
    sound = True
    zeros(q, 0, MARGIN)
    for row in range(rows):
        to = later(q, row * apart + MARGIN)
        if is_narrow:
            sound = divide_narrow(later(g, row * out), later(sums, row * out), to, out) and sound
        else:
            sound = divide_plane(later(g, row * out), later(sums, row * out), to, out) and sound
        zeros(to, out, apart)
    zeros(q, rows * apart, (rows + 1) * apart)
    return sound


@helper
def spread_rows(line: Any, windows: Any, blank: int, x: Any, q: Any, gx: Any, by: Any, is_narrow: Any, past: Any) -> Any:
    """gx = the gradients of all rows of cells; says whether all are in reach. A row without windows has the q at `blank`."""
    n, width, places, cells = wide_lanes(x), line.width, windows.places, load_wide(x, 0)
    power, rest = (
        splat(cells, by[POWER if is_narrow else EXPONENT]),
        splat(cells, by[POWER_REST if is_narrow else EXPONENT_LOST]),
    )
    magnitude, worst = NARROW_MAGNITUDE if is_narrow else MAGNITUDE, masked(bits(cells), 0)
    for row in range(windows.rows):
        at, low, high, i = row * width, windows.ptr[row], windows.ptr[row + 1], 0
        while i < width:
            one_by_one()
            i = min(i, width - n)  # the last ones once more
            cells = load_wide(x, at + i)
            fetch_line(x, at + i + AHEAD)
            worst = larger(worst, masked(bits(cells), magnitude))
            odd, last = (i + line.before) % 2, MARGIN + (i + line.before) // 2  # the first cell is tap `odd` of that window
            one, two = taps(q, last + (places[low] if low < high else blank), odd, cells)
            for k in range(low + 1, high):
                one_by_one()
                more, more_of_two = taps(q, last + places[k], odd, cells)
                one, two = add(one, more), add(two, more_of_two)
            weight = convert(first_weight(cells, power, rest), q)
            spread = mixed(one, two) if odd else mixed(two, one)
            found = fma(weight, spread, splat(weight, 0.0))  # −0 becomes 0, as where zeros are added
            store_past(gx, at + i, convert(found, gx), past)
            i += n
    return not anywhere(greater(worst, bits(splat(cells, by[NARROW_REACH if is_narrow else REACH]))))


@helper
def two_apart_back(line: Any, windows: Any, x: Any, g: Any, sums: Any, q: Any, apart: int, gx: Any, by: Any, large: Any) -> Any:
    """gx = the gradients of a plane, if all of it is in reach and sound; says whether it is. q is memory for it.

    `large` says that no cache has room for all gradients.
    """
    is_narrow, rows, out, width = lanes(x) > lanes(by), windows.plane // line.out, line.out, line.width
    if width < wide_lanes(x):
        return False
    in_pieces = rows == 1 and windows.rows == 1 and windows.ptr[1] == 1
    past = large and not in_pieces and fills_lines(gx, width)
    sound, pieces, left, first, last, room = True, (width + PIECE - 1) // PIECE if in_pieces else 1, 0, 0, out, apart
    for piece in range(1, pieces + 1):
        right = width if piece == pieces else piece * (width // pieces)
        if in_pieces:  # the windows of its cells
            first, last = max(0, (left + line.before - 1) // 2), min(out, (right + line.before + 1) // 2)
            room = MARGIN + max(last - first, (right + line.before) // 2 - first + 1)
        here = Line(right - left, max(0, last - first), 3, 2, left + line.before - 2 * first, 1, 1)
        sound = quotients(here.out, rows, room, later(g, first), later(sums, first), q, is_narrow) and sound
        sound = spread_rows(here, windows, rows * room, later(x, left), q, later(gx, left), by, is_narrow, past) and sound
        left = right
    return sound
