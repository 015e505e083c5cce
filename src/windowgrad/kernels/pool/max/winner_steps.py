"""The two steps of finding and paying winners, by vectors: the first greatest of several rows, and the sum of what was won.

Entry k of a step is the row that starts at offset[k]. Entries are taken two or three at a time, so that a loop over
cells has all its addresses and constants before it; rows are whole vectors, and cells past their end are nobody's.
"""

from __future__ import annotations

from typing import Any

from windowgrad.kernels.runtime.jit import helper
from windowgrad.kernels.vector.ops import beats, lanes, load, select, splat, store

# --- the first greatest ------------------------------------------------------------------------------------------


@helper
def first_of_three(
    source: Any, a: int, b: int, c: int, i: Any, k: Any, m: Any, cells: int, best: Any, to: int, who: Any, at: int
) -> None:
    one, two, three = splat(who, i), splat(who, k), splat(who, m)
    j = 0
    while j < cells:
        top, other, last = load(source, a + j), load(source, b + j), load(source, c + j)
        better = beats(other, top)
        top, name = select(better, other, top), select(better, two, one)
        better = beats(last, top)
        store(best, to + j, select(better, last, top))
        store(who, at + j, select(better, three, name))
        j += lanes(source)


@helper
def two_more(source: Any, a: int, b: int, i: Any, k: Any, cells: int, best: Any, to: int, who: Any, at: int) -> None:
    one, two = splat(who, i), splat(who, k)
    j = 0
    while j < cells:
        top, name, other, last = load(best, to + j), load(who, at + j), load(source, a + j), load(source, b + j)
        better = beats(other, top)
        top, name = select(better, other, top), select(better, one, name)
        better = beats(last, top)
        store(best, to + j, select(better, last, top))
        store(who, at + j, select(better, two, name))
        j += lanes(source)


@helper
def first_greatest(source: Any, offset: Any, name: Any, n: int, cells: int, best: Any, to: int, who: Any, at: int) -> None:
    """best[to:] = the greatest of n > 0 rows, cell by cell; who[at:] = the name of the first row that has it."""
    k, m = min(1, n - 1), min(2, n - 1)  # a row twice is no more than once
    first_of_three(source, offset[0], offset[k], offset[m], name[0], name[k], name[m], cells, best, to, who, at)
    q = 3
    while q < n:
        last = min(q + 1, n - 1)
        two_more(source, offset[q], offset[last], name[q], name[last], cells, best, to, who, at)
        q += 2


# --- the sum of what was won -------------------------------------------------------------------------------------


@helper
def pay_one(who: Any, a: int, i: Any, amount: Any, d: int, cells: int, total: Any, start: int, to: int) -> None:
    one = splat(who, i)
    j = 0
    while j < cells:
        paid = load(total, start + j)
        store(total, to + j, select(load(who, a + j) == one, paid + load(amount, d + j), paid))
        j += lanes(total)


@helper
def pay_two(
    who: Any, a: int, b: int, i: Any, k: Any, amount: Any, d: int, e: int, cells: int, total: Any, start: int, to: int
) -> None:
    one, two = splat(who, i), splat(who, k)
    j = 0
    while j < cells:
        paid = load(total, start + j)
        paid = select(load(who, a + j) == one, paid + load(amount, d + j), paid)
        store(total, to + j, select(load(who, b + j) == two, paid + load(amount, e + j), paid))
        j += lanes(total)


@helper
def winnings(
    who: Any, at: int, amount: Any, start: int, offset: Any, name: Any, low: int, high: int,
    cells: int, total: Any, zeros: int, to: int,
) -> None:  # fmt: skip
    """total[to:] = the sum over the rows k of amount[start + offset[k]:] where who[at + offset[k]:] is name[k].

    The rows are `low` to `high`; from `zeros` on, total has a row of zeros. With no rows, total stays as it is.
    """
    q, source = low, zeros
    while q < high:
        if q + 2 <= high:
            o, p = offset[q], offset[q + 1]
            pay_two(who, at + o, at + p, name[q], name[q + 1], amount, start + o, start + p, cells, total, source, to)
        else:
            pay_one(who, at + offset[q], name[q], amount, start + offset[q], cells, total, source, to)
        q, source = q + 2, to
