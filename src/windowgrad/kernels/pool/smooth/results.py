"""What sums of weights become: values log(S)/β, quotients of tangents, and gradients ÷ S. The errors are counted in `cells`.

A quotient is sound if neither it nor a product with it can leave the range of a float64, and if it is a number.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types
from numba.extending import overload

from windowgrad.kernels.pool.smooth.cells import (
    INVERSE,
    INVERSE_LOST,
    INVERSE_REST,
    LOG,
    LOG_REST,
    MAGNITUDE,
    NARROW_INVERSE,
    NARROW_MAGNITUDE,
    zero,
)
from windowgrad.kernels.runtime.jit import helper, kernel
from windowgrad.kernels.vector.exp_log import logarithm, narrow_value, quick_logarithm
from windowgrad.kernels.vector.masked import one_by_one
from windowgrad.kernels.vector.ops import (
    add,
    anywhere,
    divide,
    either,
    equal,
    fma,
    greater,
    lanes,
    larger,
    less,
    load_as,
    load_beside,
    load_part_as,
    multiply,
    not_equal,
    select,
    splat,
    store,
    store_part,
    subtract,
)
from windowgrad.kernels.vector.registers import load_wide, load_wide_as, wide_lanes
from windowgrad.kernels.vector.shuffle import bits, convert, masked

NAN = np.nan
SOUND = np.array([1e-280, 1e280]).view(np.int64)
LEAST_SOUND, MOST_SOUND = int(SOUND[0]), int(SOUND[1])
NARROW_FINITE = 0x7F7FFFFF  # the largest float32


@helper
def some(x: Any, i: int, left: int, like: Any) -> Any:
    """The next cells; past the last of them the lanes are 0."""
    return load_as(x, i, like) if left >= lanes(like) else load_part_as(x, i, left, like)


@helper
def put(y: Any, i: int, value: Any, left: int) -> None:
    if left >= lanes(value):
        store(y, i, convert(value, y))
    else:
        store_part(y, i, convert(value, y), left)


def logarithms(y: Any, total: Any, by: Any) -> Any:
    """log(total)/β, as exact as a result of the dtype of `y` needs it."""


@overload(logarithms, strict=False)
def typed_logarithms(y: Any, total: Any, by: Any) -> Any:
    def quick(y: Any, total: Any, by: Any) -> Any:
        return multiply(quick_logarithm(total), splat(total, by[INVERSE]))

    def exact(y: Any, total: Any, by: Any) -> Any:
        log = logarithm(total)
        return fma(log, splat(total, by[INVERSE]), multiply(log, splat(total, by[INVERSE_LOST])))

    return quick if y.dtype == types.float32 else exact


@helper
def wide_values(sums: Any, low: int, high: int, by: Any, y: Any, at: int) -> int:
    """The same by whole wide vectors, of which there is at least one; gives how many values are done."""
    n, total, i = wide_lanes(y), load_wide_as(sums, low, y), low
    log, log_rest = splat(total, by[LOG]), splat(total, by[LOG_REST])
    inverse, inverse_rest = splat(total, by[NARROW_INVERSE]), splat(total, by[INVERSE_REST])
    while i + n <= high:
        one_by_one()
        store(y, at + i - low, narrow_value(load_wide_as(sums, i, y), log, log_rest, inverse, inverse_rest))
        i += n
    return i - low


def narrow_values(sums: Any, low: int, high: int, by: Any, y: Any, at: int) -> None:
    """y[at:] = log(sum)/β for the sums low to high of narrow planes, 0 where nothing was added."""


@overload(narrow_values, strict=False)
def typed_narrow_values(sums: Any, low: Any, high: Any, by: Any, y: Any, at: Any) -> Any:
    def in_float32(sums: Any, low: Any, high: Any, by: Any, y: Any, at: Any) -> Any:
        if high - low >= wide_lanes(y):
            done = wide_values(sums, low, high, by, y, at)
            low, at = low + done, at + done
        log, log_rest = splat(y, by[LOG]), splat(y, by[LOG_REST])
        inverse, inverse_rest = splat(y, by[NARROW_INVERSE]), splat(y, by[INVERSE_REST])
        for i in range(low, high, lanes(y)):
            one_by_one()
            value = narrow_value(load_as(sums, i, y), log, log_rest, inverse, inverse_rest)
            if high - i >= lanes(y):
                store(y, at + i - low, value)
            else:
                store_part(y, at + i - low, value, high - i)

    def never(sums: Any, low: Any, high: Any, by: Any, y: Any, at: Any) -> Any:
        pass

    return in_float32 if y.dtype == types.float32 else never


@helper
def plane_values(sums: Any, low: int, high: int, middle: float, by: Any, y: Any, at: int) -> None:
    """y[at:] = middle + log(sum)/β for the sums low to high of a plane, 0 where nothing was added."""
    for i in range(low, high, wide_lanes(sums)):
        one_by_one()
        total = load_wide(sums, i)
        nothing = splat(total, 0.0)
        value = add(splat(total, middle), logarithms(y, total, by))
        put(y, at + i - low, select(equal(total, nothing), nothing, value), high - i)


@kernel
def quotients(tangents: Any, sums: Any, pad: Any, middles: Any, beta: float, padded: bool, y: Any) -> None:
    """y = the summed tangents ÷ the sum of the weights, 0 where nothing was added."""
    plane, nothing = len(pad), splat(sums, 0.0)
    for p in range(len(middles)):
        base, weight = p * plane, splat(sums, zero(middles[p], beta, padded))
        for i in range(0, plane, lanes(sums)):
            left = plane - i
            total = fma(some(pad, i, left, sums), weight, some(sums, base + i, left, sums))
            value = divide(some(tangents, base + i, left, sums), total)
            put(y, base + i, select(equal(total, nothing), nothing, value), left)


@helper
def unsound(amount: Any, given: Any) -> Any:
    """The mask of what is so large, so small or so little a number that a sum of it may not be what it should; 0 is sound."""
    size, nothing = masked(bits(amount), MAGNITUDE), splat(amount, 0.0)
    small = less(size, splat(size, LEAST_SOUND))
    return either(greater(size, splat(size, MOST_SOUND)), select(small, not_equal(given, nothing), small))


@kernel
def weigh_tangents(e: Any, dx: Any, middles: Any) -> None:
    """e = weights · tangents. A plane where they are not sound gets the middle NaN, and zeros."""
    plane = len(e) // len(middles)
    for p in range(len(middles)):
        base, wrong = p * plane, not_equal(splat(e, 0.0), splat(e, 0.0))
        for i in range(0, plane, lanes(e)):
            given = some(dx, base + i, plane - i, e)
            amount = multiply(some(e, base + i, plane - i, e), given)
            wrong = either(wrong, unsound(amount, given))
            put(e, base + i, amount, plane - i)
        if anywhere(wrong):
            e[base : base + plane] = 0
            middles[p] = NAN


@helper
def divide_plane(g: Any, sums: Any, q: Any, count: int) -> Any:
    """q = gradients ÷ sums of weights, 0 where nothing was added; says whether all of them are sound."""
    nothing = splat(q, 0.0)
    wrong = not_equal(nothing, nothing)
    for i in range(0, count, lanes(q)):
        one_by_one()
        total = some(sums, i, count - i, q)
        given = select(equal(total, nothing), nothing, some(g, i, count - i, q))
        amount = divide(given, select(equal(total, nothing), splat(q, 1.0), total))
        wrong = either(wrong, unsound(amount, given))
        store(q, i, amount)
    return not anywhere(wrong)


@helper
def narrow_inverses(g: Any, sums: Any, q: Any, i: int, count: int) -> Any:
    """(float32 gradients, sums, what these lack of one when multiplied by 1/sum, 1/sum as float32) from i on.

    q[i:count] may be written. One step of Newton's makes 1/sum better, as what it lacks is squared, to 2⁻⁴⁶.
    """
    if count - i < lanes(g):  # the last ones are read where there is room behind them
        for k in range(i, count):
            one_by_one()
            q[k] = sums[k]
        sums = q
    total, rough = load_beside(sums, i, g), divide(splat(g, 1.0), load_as(sums, i, g))
    lacks = fma(subtract(splat(total, 0.0), total), convert(rough, q), splat(total, 1.0))
    return some(g, i, count - i, g), total, lacks, rough


def divide_narrow(g: Any, sums: Any, q: Any, count: int) -> Any:
    """The same for a narrow plane.

    Quotients of float32 gradients are sound if these are finite. A division of float64 took a third of the time of windows with
    stride 1.
    """


@overload(divide_narrow, strict=False)
def typed_divide_narrow(g: Any, sums: Any, q: Any, count: Any) -> Any:
    def in_float32(g: Any, sums: Any, q: Any, count: Any) -> Any:
        worst = masked(bits(splat(g, 0.0)), 0)
        for i in range(0, count, lanes(g)):
            one_by_one()
            given, total, lacks, short = narrow_inverses(g, sums, q, i, count)
            rough = convert(short, q)
            worst = larger(worst, masked(bits(given), NARROW_MAGNITUDE))
            amount = multiply(convert(given, q), fma(rough, lacks, rough))
            store(q, i, select(equal(total, splat(total, 0.0)), splat(total, 0.0), amount))
        return not anywhere(greater(worst, splat(worst, NARROW_FINITE)))

    def as_any(g: Any, sums: Any, q: Any, count: Any) -> Any:
        return divide_plane(g, sums, q, count)

    return in_float32 if g.dtype == types.float32 else as_any
