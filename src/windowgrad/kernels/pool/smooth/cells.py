"""Smooth maximum cell by cell, before and after its sums: weights exp(β·(x − middle)), and what the sums of weights become.

All cells of a plane are weighed against one number, its `middle`, so that a window is a plain sum of weights, and no cell is
weighed twice. A weight is a float64 from e⁻⁴⁸⁰ to e⁴⁸⁰, each as exact as any other: a window far below the rest of its plane
loses nothing, and up to e²⁰⁰ of them add up without overflow. A plane whose cells lie further apart, or are not finite, has
the middle NaN and weights 0: `pairs` does it (`entry.Weights.mend`).

    cells   →  weights  →  sums of the windows  →  results        `weigh`, `mean_rows`, then `values`, `quotients` or
     x          e           S                       log(S)/β       `divide_gradients` with `mean_rows_back` and `products`

One exponential for each cell, not one for each window that sees it. The weights of float32 cells need no more than 33 bits,
which halves the time of the exponential.

The error. Of a float32, β·(x − middle) is rounded by at most 480·2⁻⁵¹, the weight is within 2⁻³³, a sum of n weights within
n·2⁻⁵³, the logarithm within 2⁻³⁸ + 480·2⁻⁵¹. So log S is within 2⁻²⁵ of what it should be for n up to 2²⁷, and y within
2⁻²⁵/|β| before its one rounding of 2⁻²⁴·|y|. Of a float64, the middle is 0, what the rounding of β·x loses is given back to
the weight, which is then within 2 ulp, and y has the error of its sum, n·2⁻⁵³/|β|, and a few ulp besides.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import types
from numba.extending import overload

from windowgrad.kernels.pool.row_pieces import clear
from windowgrad.kernels.runtime.jit import helper, kernel
from windowgrad.kernels.vector.exp_log import LOG2_E, exponential, logarithm, quick_logarithm, quick_power
from windowgrad.kernels.vector.ops import (
    address,
    anywhere,
    either,
    equal,
    fma,
    greater,
    lanes,
    larger,
    later,
    less,
    load_as,
    load_part_as,
    not_equal,
    select,
    splat,
    store,
    store_part,
)
from windowgrad.kernels.vector.shuffle import bits, convert, masked

FURTHEST = 480.0
LARGEST_FLOAT = 1.7976931348623157e308
NAN = np.nan
MAGNITUDE = 0x7FFFFFFFFFFFFFFF  # all bits but the sign: as integers, floats without it are in order, and NaN is above them all
SOUND = np.array([1e-280, 1e280]).view(np.int64)
LEAST_SOUND, MOST_SOUND = int(SOUND[0]), int(SOUND[1])


def weights(x: Any, gap: Any, beta: float) -> Any:
    """exp(β·gap), as exact as cells of the dtype of `x` need it."""


@overload(weights, strict=False)
def typed_weights(x: Any, gap: Any, beta: Any) -> Any:
    def quick(x: Any, gap: Any, beta: Any) -> Any:
        return quick_power(gap * splat(gap, beta * LOG2_E))

    def exact(x: Any, gap: Any, beta: Any) -> Any:
        factor = splat(gap, beta)
        exponent = gap * factor
        weight = exponential(exponent)
        return fma(weight, fma(gap, factor, splat(gap, 0.0) - exponent), weight)

    return quick if x.dtype == types.float32 else exact


def logarithms(y: Any, total: Any, beta: float) -> Any:
    """log(total)/β, as exact as a result of the dtype of `y` needs it."""


@overload(logarithms, strict=False)
def typed_logarithms(y: Any, total: Any, beta: Any) -> Any:
    def quick(y: Any, total: Any, beta: Any) -> Any:
        inverse = max(-LARGEST_FLOAT, min(1 / beta, LARGEST_FLOAT))  # finite: log 1 is 0 for the least β too
        return quick_logarithm(total) * splat(total, inverse)

    def exact(y: Any, total: Any, beta: Any) -> Any:
        return logarithm(total) / splat(total, beta)

    return quick if y.dtype == types.float32 else exact


@helper
def weigh_plane(x: Any, e: Any, low: int, high: int, middle: float, beta: float) -> bool:
    """e = the weights of the cells low to high; says whether all of them are in range."""
    n, center = lanes(e), splat(e, middle)
    worst = masked(bits(center), 0)
    i = low
    while i + n <= high:
        gap = load_as(x, i, e) - center
        worst = larger(worst, masked(bits(gap), MAGNITUDE))
        store(e, i, weights(x, gap, beta))
        i += n
    if i < high:
        gap = load_part_as(x, i, high - i, e) - center
        worst = larger(worst, masked(bits(gap), MAGNITUDE))
        store_part(e, i, weights(x, gap, beta), high - i)
    furthest = splat(e, min(FURTHEST / abs(beta), LARGEST_FLOAT))
    return not anywhere(greater(worst, bits(furthest)))


@helper
def middle_of(x: Any, low: int, high: int, padded: bool) -> float:
    """The middle between the least and the greatest cell, a padded zero too; NaN if a cell is NaN."""
    least = most = 0.0 if padded else float(x[low])
    for i in range(low, high):
        value = float(x[i])
        least, most = min(least, value), max(most, value)
        if value != value:
            return NAN
    return 0.5 * least + 0.5 * most


@helper
def weigh_around(x: Any, e: Any, size: int, beta: float, padded: bool) -> float:
    """The weights of a plane, all of them 0 if it has no middle; gives its middle: 0 if that will do. x and e are addresses."""
    middle = 0.0
    fits = weigh_plane(x, e, 0, size, middle, beta)
    if not fits and lanes(x) > lanes(e):
        middle = middle_of(x, 0, size, padded)
        fits = weigh_plane(x, e, 0, size, middle, beta)
    if not fits:
        clear(e, 0, size)
    return middle if fits else NAN


@kernel
def weigh(x: Any, e: Any, middles: Any, beta: float, padded: bool) -> None:
    """The weights of every plane, and its middle."""
    plane = len(e) // len(middles)
    x, e = address(x), address(e)
    for p in range(len(middles)):
        middles[p] = weigh_around(later(x, p * plane), later(e, p * plane), plane, beta, padded)


@helper
def zero(middle: float, beta: float, padded: bool) -> float:
    """The weight of a padded zero."""
    return math.exp(-beta * middle) if padded else 0.0


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


@kernel
def quotients(tangents: Any, sums: Any, pad: Any, middles: Any, beta: float, padded: bool, y: Any) -> None:
    """y = the summed tangents ÷ the sum of the weights, 0 where nothing was added."""
    plane, nothing = len(pad), splat(sums, 0.0)
    for p in range(len(middles)):
        base, weight = p * plane, splat(sums, zero(middles[p], beta, padded))
        for i in range(0, plane, lanes(sums)):
            left = plane - i
            total = fma(some(pad, i, left, sums), weight, some(sums, base + i, left, sums))
            value = some(tangents, base + i, left, sums) / total
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
            amount = some(e, base + i, plane - i, e) * given
            wrong = either(wrong, unsound(amount, given))
            put(e, base + i, amount, plane - i)
        if anywhere(wrong):
            e[base : base + plane] = 0
            middles[p] = NAN


@helper
def divide_plane(g: Any, sums: Any, q: Any, count: int) -> bool:
    """q = gradients ÷ sums of weights, 0 where nothing was added; says whether all of them are sound."""
    nothing = splat(q, 0.0)
    wrong = not_equal(nothing, nothing)
    for i in range(0, count, lanes(q)):
        total = some(sums, i, count - i, q)
        given = select(equal(total, nothing), nothing, some(g, i, count - i, q))
        amount = given / select(equal(total, nothing), splat(q, 1.0), total)
        wrong = either(wrong, unsound(amount, given))
        put(q, i, amount, count - i)
    return not anywhere(wrong)
