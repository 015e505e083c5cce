"""Regions that are a whole plane: their maximum, their winners, and the gradient.

For cells that lie plane after plane; where channels stand last, see `last_planes`. Eight vectors at a time, in pairs, are
compared with the greatest so far in four; a plane's rows folded into one, and that one along itself, took two to four times as
long. Measured on 26 MB in the last cache, where reading takes 0.16 to 0.21 ms: four vectors at a time took 2 to 5 % longer,
vectors of 64 bytes up to 5 %, asking memory for what comes 1 or 4 KB later took 1.4 to 2 times as long, and two halves of a
plane at a time 3 times.

A winner is written down as twice its place in the plane, and one more if other cells equal it. A plane is read once: piece by
piece, the greatest cell of each; only in the first piece that has the greatest of all is it looked for. The gradient of a plane
without ties needs no cell of it.
"""

from __future__ import annotations

from typing import Any

from windowgrad.kernels.pool.row_pieces import wipe
from windowgrad.kernels.runtime.jit import helper, unrolled_kernel
from windowgrad.kernels.vector.ops import address, anywhere, either, equal, lanes, larger, load, splat, unordered
from windowgrad.kernels.vector.shuffle import top_of_lanes

PIECE = 2048
"""Cells of a piece; a multiple of four vectors of any dtype."""


@helper
def pairs(x: Any, i: int) -> Any:
    """The greater lanes of two vectors and those four vectors later, and the masks of lanes where one of both is NaN."""
    n = lanes(x)
    a, b, c, d = load(x, i), load(x, i + n), load(x, i + 4 * n), load(x, i + 5 * n)
    return larger(a, c), larger(b, d), unordered(a, c), unordered(b, d)


@helper
def greatest(x: Any, at: int, cells: int) -> Any:
    """(the greatest of the cells, whether one is NaN); there is at least one."""
    n, top, i = lanes(x), x[at], 0
    strange = top != top
    if cells >= 4 * n:
        a, b, c, d = load(x, at), load(x, at + n), load(x, at + 2 * n), load(x, at + 3 * n)
        seen, also = unordered(a, b), unordered(c, d)
        i = 4 * n
        while i + 8 * n <= cells:
            e, f, more, some = pairs(x, at + i)
            g, h, less, few = pairs(x, at + i + 2 * n)
            seen, also = either(seen, either(more, less)), either(also, either(some, few))
            a, b, c, d = larger(a, e), larger(b, f), larger(c, g), larger(d, h)
            i += 8 * n
        while i + n <= cells:
            e = load(x, at + i)
            a, seen = larger(a, e), either(seen, unordered(e, e))
            i += n
        top = top_of_lanes(larger(larger(a, b), larger(c, d)))
        strange = anywhere(either(seen, also))
    for k in range(i, cells):
        top = x[at + k] if x[at + k] > top else top
        strange |= x[at + k] != x[at + k]
    return top, strange


@helper
def next_equal(x: Any, at: int, i: int, end: int, top: Any) -> int:
    """The first of the cells i to `end` that equals `top`, or is NaN if that is; `end` if none does."""
    n, wanted, nan = lanes(x), splat(x, top), top != top
    while not nan and i + n <= end and not anywhere(equal(load(x, at + i), wanted)):
        i += n
    while i < end:
        if x[at + i] == top or (nan and x[at + i] != x[at + i]):
            return i
        i += 1
    return end


@helper
def first_cell(x: Any, at: int, cells: int, top: Any, strange: bool) -> int:
    """The first of the cells that is NaN, if one is; else that equals `top`."""
    if not strange:
        return next_equal(x, at, 0, cells, top)  # type: ignore[no-any-return]
    i = 0
    while x[at + i] == x[at + i]:
        i += 1
    return i


@helper
def winner_of(x: Any, at: int, cells: int, counts: bool) -> int:
    """Twice the place of the first winner of a plane, and one more if it `counts` and there are others."""
    best, first, tied, i = x[at], 0, False, 0
    while i < cells and best == best:
        top, strange = greatest(x, at + i, min(PIECE, cells - i))
        if strange:
            first = i + first_cell(x, at + i, cells - i, top, strange)
            best, tied = x[at + first], False
        elif top > best:
            best, first, tied = top, i, False
        elif top == best and i > 0:
            tied = True
        i += PIECE
    end = cells if best != best else min(first // PIECE * PIECE + PIECE, cells)
    place = next_equal(x, at, first, end, best)
    if not counts:
        return 2 * place  # type: ignore[no-any-return]
    return 2 * place + (tied or next_equal(x, at, place + 1, end, best) < end)  # type: ignore[no-any-return]


@unrolled_kernel
def plane_tops(x: Any, y: Any, cells: int, first: int, last: int) -> None:
    """y = the greatest cells of the planes `first` to `last`: of several zeros the first, of several NaN too."""
    x, y = address(x), address(y)
    for p in range(first, last):
        y[p] = top_of(x, p * cells, cells)


@helper
def top_of(x: Any, at: int, cells: int) -> Any:
    """The greatest of the cells from `at` on."""
    top, strange = greatest(x, at, cells)
    if strange or top == 0:
        top = x[at + first_cell(x, at, cells, top, strange)]
    return top


@unrolled_kernel
def plane_winners(x: Any, y: Any, found: Any, cells: int, counts: bool, first: int, last: int) -> None:
    """found = the winners of the planes `first` to `last`, y = their values unless it is empty."""
    wanted = len(y) > 0
    x, y, found = address(x), address(y), address(found)
    for p in range(first, last):
        winner = winner_of(x, p * cells, cells, counts)
        found[p] = winner
        if wanted:
            y[p] = x[p * cells + winner // 2]


@helper
def pay_all(x: Any, gx: Any, at: int, cells: int, top: Any, paid: Any, split: bool) -> None:
    """gx = the gradient, or an even part of it, at every cell that equals `top`."""
    nan, winners = top != top, 0
    for i in range(at, at + cells):
        winners += x[i] == top or (nan and x[i] != x[i])
    for i in range(at, at + cells):
        gx[i] = 0
        if x[i] == top or (nan and x[i] != x[i]):
            gx[i] += paid / winners if split else paid


@unrolled_kernel
def plane_back(x: Any, found: Any, g: Any, gx: Any, split: bool, cells: int, first: int, last: int) -> None:
    """gx = the gradient at the winners of the planes `first` to `last`; x is read where there are several."""
    x, found, g, gx = address(x), address(found), address(g), address(gx)
    wipe(gx, first * cells, last * cells)
    for p in range(first, last):
        at, place = p * cells, p * cells + found[p] // 2
        if found[p] % 2 == 0:
            gx[place] = 0 + g[p]  # −0.0 is 0.0
        else:
            pay_all(x, gx, at, cells, x[place], g[p], split)
