"""Smooth maximum of windows of two columns side by side that cover their plane, as 2×2 windows with a stride of 2 do.

For narrow planes of float32 (`cells`) where every cell is in one window (`is_side_by_side`). A cell is weighed where it is
needed, and weights stay in registers; other planes are left to the steps of `planes` and `planes_back`.

    rows of a window   c c c c …  →  weights, added row by row   w w w w …  →  neighbours added   S S …
    S, g  →  g ÷ S, twice each   q q q q …   times the weights of each row  →  gradients

Forwards all additions are those of the other way, in the same order, so it changes no bit. Backwards q is the sum of two
float32 (`divide_in_two`), so that weights are multiplied as float32, in 0.6 of the time of float64: a product differs from one
of float64 by 2⁻⁴⁶ of itself before it is rounded. A plane whose quotients are beyond the range of float32 is left to the other
way. Planes of 112×112 take 0.62 of the time forwards and 0.42 backwards.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types
from numba.extending import overload

from windowgrad.kernels.pool.kept import kept, kept_part
from windowgrad.kernels.pool.packed import rows_of
from windowgrad.kernels.pool.plan import Plan
from windowgrad.kernels.pool.smooth.cells import NARROW_MAGNITUDE, NARROW_REACH, POWER, POWER_REST
from windowgrad.kernels.pool.smooth.results import NARROW_FINITE, divide_narrow, narrow_inverses, put, some
from windowgrad.kernels.runtime.jit import helper
from windowgrad.kernels.vector.exp_log import narrow_weight
from windowgrad.kernels.vector.masked import one_by_one
from windowgrad.kernels.vector.ops import (
    add,
    anywhere,
    equal,
    fma,
    greater,
    lanes,
    larger,
    load,
    multiply,
    seen_as,
    select,
    splat,
    store,
    subtract,
)
from windowgrad.kernels.vector.registers import load_wide, wide_lanes
from windowgrad.kernels.vector.shuffle import bits, convert, each_twice, even_twice, masked, mixed, odd_twice, pair_sums

LEAST_IN_TWO = (127 - 120) << 23
"""The bits of 2⁻¹²⁰, the least quotient that is the sum of two float32: what the second one lacks is below 2⁻³⁰ of it."""


def is_side_by_side(p: Plan) -> bool:
    """Whether all cells of a plane are in one of several windows each, of two columns."""
    regular = p.plane_out > 1 and p.kernel == p.stride == 2 and p.step == 1 and p.before == 0 and p.width == 2 * p.out
    covered = len(p.rows) * p.width == p.plane_in and bool((np.diff(p.ptr) > 0).all())
    return regular and covered and len(np.unique(p.rows)) == len(p.rows)


def paired(line: Any, windows: Any, x: Any, sums: Any, by: Any, mask: Any, start: Any, buffer: Any) -> Any:
    """sums = those of all windows of a plane, if it is narrow; says whether it is. It may write more behind the last sum."""


@overload(paired, strict=False)
def typed_paired(line: Any, windows: Any, x: Any, sums: Any, by: Any, mask: Any, start: Any, buffer: Any) -> Any:
    def in_float32(line: Any, windows: Any, x: Any, sums: Any, by: Any, mask: Any, start: Any, buffer: Any) -> Any:
        n, width, places = wide_lanes(x), line.width, windows.places
        if width < n:
            return paired_short(line, windows, x, sums, by, mask, start)
        cells = load_wide(x, 0)
        power, rest, worst = splat(cells, by[POWER]), splat(cells, by[POWER_REST]), masked(bits(cells), 0)
        for row in range(windows.rows):
            low, high, i = windows.ptr[row], windows.ptr[row + 1], 0
            while i < width:
                one_by_one()
                i = min(i, width - n)  # the last ones once more
                cells = kept(load_wide(x, places[low] + i), mask, start + places[low] + i)
                worst = larger(worst, masked(bits(cells), NARROW_MAGNITUDE))
                total = convert(kept(narrow_weight(cells, power, rest), mask, start + places[low] + i), sums)
                for q in range(low + 1, high):
                    one_by_one()
                    cells = kept(load_wide(x, places[q] + i), mask, start + places[q] + i)
                    worst = larger(worst, masked(bits(cells), NARROW_MAGNITUDE))
                    weight = kept(narrow_weight(cells, power, rest), mask, start + places[q] + i)
                    total = add(total, convert(weight, sums))
                store(sums, row * line.out + i // 2, pair_sums(total))
                i += n
        return not anywhere(greater(worst, bits(splat(cells, by[NARROW_REACH]))))

    return in_float32 if x.dtype == types.float32 else refuse


@helper
def paired_short(line: Any, windows: Any, x: Any, sums: Any, by: Any, mask: Any, start: Any) -> Any:
    """The same for rows that are shorter than a wide vector."""
    power, rest, reach, width = splat(x, by[POWER]), splat(x, by[POWER_REST]), splat(x, by[NARROW_REACH]), line.width
    worst = masked(bits(reach), 0)
    for row in range(windows.rows):
        taken = rows_of(windows, row)
        for i in range(0, width, lanes(x)):
            one_by_one()
            place, left = taken.places[taken.low] + i, width - i
            cells = kept_part(some(x, place, left, x), mask, start + place, left)
            worst = larger(worst, masked(bits(cells), NARROW_MAGNITUDE))
            total = convert(kept_part(narrow_weight(cells, power, rest), mask, start + place, left), sums)
            for q in range(taken.low + 1, taken.high):
                one_by_one()
                place = taken.places[q] + i
                cells = kept_part(some(x, place, left, x), mask, start + place, left)
                worst = larger(worst, masked(bits(cells), NARROW_MAGNITUDE))
                weight = kept_part(narrow_weight(cells, power, rest), mask, start + place, left)
                total = add(total, convert(weight, sums))
            store(sums, row * line.out + i // 2, pair_sums(total))
    return not anywhere(greater(worst, bits(reach)))


@helper
def divide_in_two(g: Any, sums: Any, q: Any, pairs: Any, count: int) -> Any:
    """pairs = the quotients of a plane, each as two float32 in the place of one float64; says whether nothing is lost so.

    The first is g · (1/S), rounded, and the second what it lacks of g ÷ S.
    """
    nothing = splat(g, 0.0)
    most = masked(bits(nothing), 0)
    least = most
    for i in range(0, count, lanes(g)):
        one_by_one()
        given, _, lacks, rough = narrow_inverses(g, sums, q, i, count)
        high = multiply(given, rough)
        low = fma(given, convert(multiply(lacks, convert(rough, q)), g), fma(given, rough, subtract(nothing, high)))
        size = masked(bits(select(equal(given, nothing), splat(g, 1.0), high)), NARROW_MAGNITUDE)
        most, least = larger(most, size), larger(least, subtract(splat(size, LEAST_IN_TWO), size))
        store(pairs, 2 * i, mixed(high, low))
    return not (anywhere(greater(most, splat(most, NARROW_FINITE))) or anywhere(greater(least, splat(least, 0))))


def paired_back(line: Any, windows: Any, x: Any, g: Any, sums: Any, q: Any, apart: Any, gx: Any, by: Any) -> Any:
    """gx = the gradients of a plane, if it is narrow and sound; says whether it is. q is memory for it."""


@overload(paired_back, strict=False)
def typed_paired_back(line: Any, windows: Any, x: Any, g: Any, sums: Any, q: Any, apart: Any, gx: Any, by: Any) -> Any:
    def in_float32(line: Any, windows: Any, x: Any, g: Any, sums: Any, q: Any, apart: Any, gx: Any, by: Any) -> Any:
        n, width = wide_lanes(x), line.width
        if width < n:
            return divide_narrow(g, sums, q, windows.plane) and paired_short_back(line, windows, x, q, gx, by)
        pairs, cells = seen_as(q, x), load_wide(x, 0)
        if not divide_in_two(g, sums, q, pairs, windows.plane):
            return False
        power, rest, worst = splat(cells, by[POWER]), splat(cells, by[POWER_REST]), masked(bits(cells), 0)
        for row in range(windows.rows):
            at, entry, i = row * width, windows.places[windows.ptr[row]], 0  # rows of outputs are `width` apart in places
            while i < width:
                one_by_one()
                i = min(i, width - n)  # the last ones once more
                cells, share = load_wide(x, at + i), load_wide(pairs, entry + i)
                worst = larger(worst, masked(bits(cells), NARROW_MAGNITUDE))
                weight = narrow_weight(cells, power, rest)
                store(gx, at + i, fma(weight, even_twice(share), multiply(weight, odd_twice(share))))
                i += n
        return not anywhere(greater(worst, bits(splat(cells, by[NARROW_REACH]))))

    return in_float32 if x.dtype == g.dtype == gx.dtype == types.float32 else refuse_back


@helper
def paired_short_back(line: Any, windows: Any, x: Any, q: Any, gx: Any, by: Any) -> Any:
    """The same for rows that are shorter than a wide vector."""
    power, rest, reach, width = splat(x, by[POWER]), splat(x, by[POWER_REST]), splat(x, by[NARROW_REACH]), line.width
    worst = masked(bits(reach), 0)
    for row in range(windows.rows):
        at, entry = row * width, windows.places[windows.ptr[row]] // 2
        for i in range(0, width, lanes(x)):
            one_by_one()
            cells = some(x, at + i, width - i, x)
            worst = larger(worst, masked(bits(cells), NARROW_MAGNITUDE))
            weight = convert(narrow_weight(cells, power, rest), q)
            put(gx, at + i, multiply(weight, each_twice(load(q, entry + i // 2))), width - i)
    return not anywhere(greater(worst, bits(reach)))


def refuse(line: Any, windows: Any, x: Any, sums: Any, by: Any, mask: Any, start: Any, buffer: Any) -> Any:
    return False


def refuse_back(line: Any, windows: Any, x: Any, g: Any, sums: Any, q: Any, apart: Any, gx: Any, by: Any) -> Any:
    return False


never, never_back = helper(refuse), helper(refuse_back)  # for other windows
