"""Smooth maximum cell by cell: weights exp(β·(x − middle)) of all cells of a plane.

All cells of a plane are weighed against one number, its `middle`, so that a window is a plain sum of weights, and no cell is
weighed twice. A weight is a float64 from e⁻⁴⁸⁰ to e⁴⁸⁰, each as exact as any other: a window far below the rest of its plane
loses nothing, and up to e²⁰⁰ of them add up without overflow. A plane whose cells lie further apart, or are not finite, has
the middle NaN and weights 0: `pairs` does it (`entry.find`).

    cells   →  weights  →  sums of the windows  →  results       here, then `planes` or `planes_back`, and `results`
     x          e           S                       log(S)/β

One exponential for each cell, not one for each window that sees it. A plane of float32 cells with |β·x| ≤ 60 is *narrow*: its
weights, against 0, and its logarithms are computed in float32, in vectors of twice as many lanes; its sums are float64 all the
same. The weights of other float32 cells need no more than 33 bits, which halves the time of the exponential.

The error of a narrow plane, in units of 2⁻²⁴, of log S = β·y, whose size is L; the bound is 4·max(L, 1). A weight is within 1.3
units of itself (β·x is kept in two floats), and so is S. As a float32 it is within r = 2ᵏ/S, where 2ᵏ ≤ S is a power of two.
The logarithm of its part is within 0.5, adding what is left of k·log 2 rounds by 0.35, the last step by L. In all 2.15 + r + L:
    S from 1/e to e, L ≤ 1: r + L is largest at e, 0.74 + 1, and at 1/2, 1 + 0.69; 3.89 < 4
    S above e or below 1/e: 2.15 + r ≤ 3·L, for r ≤ 0.74 at e, 0.68 at 1/e, and where L > 1.38 it is at most 1
Of a gradient the weight and the sum are within 1.3 each, and one rounding follows: 3.6 units of the sum of magnitudes. A sum in
float32 would not do: it adds 2 roundings in a window of 2×2, and 4 in one of 3×3.

The error of others. Of a float32, β·(x − middle) is rounded by at most 480·2⁻⁵¹, the weight is within 2⁻³³, a sum of n weights
within n·2⁻⁵³, the logarithm within 2⁻³⁸ + 480·2⁻⁵¹. So log S is within 2⁻²⁵ of what it should be for n up to 2²⁷, and y within
2⁻²⁵/|β| before its one rounding of 2⁻²⁴·|y|. Of a float64, the middle is 0, log2(e)·β is kept in two floats, a weight is within
1.5·2⁻⁵³ of itself, and y has the error of its sum, n·2⁻⁵³/|β|, and a few ulp besides.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
from numba import types
from numba.extending import overload

from windowgrad.kernels.arrays import Array
from windowgrad.kernels.pool.kept import is_kept, kept, kept_part
from windowgrad.kernels.pool.row_pieces import clear
from windowgrad.kernels.runtime.jit import helper, kernel
from windowgrad.kernels.runtime.last_cache import least_past
from windowgrad.kernels.vector.exp_log import (
    LN2,
    LOG2_E,
    LOG2_E_LOST,
    exact_weight,
    narrow_weight,
    quick_power,
)
from windowgrad.kernels.vector.masked import one_by_one
from windowgrad.kernels.vector.ops import (
    address,
    anywhere,
    greater,
    lanes,
    larger,
    later,
    load_part_as,
    multiply,
    splat,
    store,
    store_part,
    subtract,
)
from windowgrad.kernels.vector.registers import fetch_line, load_wide, load_wide_as, wide_lanes
from windowgrad.kernels.vector.shuffle import bits, convert, masked

FURTHEST = 480.0
NARROW = 60.0
LEAST_NARROW, MOST_NARROW = 1e-25, 1e25  # |β| whose inverse, in two float32, loses nothing
LARGEST_FLOAT = 1.7976931348623157e308
NAN, INFINITY = np.nan, np.inf
MAGNITUDE = 0x7FFFFFFFFFFFFFFF  # all bits but the sign: as integers, floats without it are in order, and NaN is above them all
NARROW_MAGNITUDE = 0x7FFFFFFF

BETA, REACH, EXPONENT, INVERSE, NARROW_REACH, POWER, POWER_REST, NARROW_INVERSE, INVERSE_REST, LOG, LOG_REST = range(11)
EXPONENT_LOST, INVERSE_LOST = 11, 12
"""What a kernel is told of β, by its place in `scale_of`."""

PAST = 13
"""The place of the bytes from which on gradients are written past the caches."""

AHEAD = 8192
"""How many cells before they are weighed their lines are asked for. With 2048, which is less than a window of volumes reaches
over, 2×2×2×2 windows with a stride of 2 on 32×8×16×16×16×16 took 1.5 times as long, 2×2×2 windows on 16×16×32×56×56 1.65.
"""


@lru_cache(maxsize=256)
def scale_of(beta: float) -> Array:
    """β, how far a cell may be from the middle, log2(e)·β, 1/β; then for narrow planes how far, and log2(e)·β, 1/β and
    log(2)/β as sums of two float32; then what log2(e)·β and 1/β have lost as float64, and what is told of the machine."""
    past = float(least_past())
    with np.errstate(all="ignore"):
        exponent, inverse = beta * LOG2_E, float(1 / np.float64(beta))
    if not (math.isfinite(exponent) and math.isfinite(inverse)):
        return np.array([beta, -1.0, 0.0, 0.0, -1.0, *[0.0] * 8, past])  # nothing is within reach
    exact = Fraction(beta) * (Fraction(LOG2_E) + Fraction(LOG2_E_LOST))
    lost = float(exact - Fraction(exponent)), float(1 / Fraction(beta) - Fraction(inverse))
    wide = beta, min(FURTHEST / abs(beta), LARGEST_FLOAT), exponent, inverse
    if not LEAST_NARROW <= abs(beta) <= MOST_NARROW:
        return np.array([*wide, -1.0, *[1.0] * 6, *lost, past])
    narrow = NARROW / abs(beta), *two_floats(exponent), *two_floats(inverse), *two_floats(LN2 / beta)
    return np.array([*wide, *narrow, *lost, past])


def two_floats(value: float) -> tuple[float, float]:
    """A number as the sum of two float32."""
    first = float(np.float32(value))
    return first, float(np.float32(value - first))


# --- weights -----------------------------------------------------------------------------------------------------------


def weights(x: Any, gap: Any, by: Any) -> Any:
    """exp(β·gap), as exact as cells of the dtype of `x` need it."""


@overload(weights, strict=False)
def typed_weights(x: Any, gap: Any, by: Any) -> Any:
    def quick(x: Any, gap: Any, by: Any) -> Any:
        return quick_power(multiply(gap, splat(gap, by[EXPONENT])))

    def exact(x: Any, gap: Any, by: Any) -> Any:
        return exact_weight(gap, splat(gap, by[EXPONENT]), splat(gap, by[EXPONENT_LOST]))

    return quick if x.dtype == types.float32 else exact


@helper
def weigh_plane(x: Any, e: Any, size: int, middle: float, by: Any, mask: Any, start: int) -> Any:
    """e = the weights of a plane; says whether all of its cells are in reach."""
    n, i, center = lanes(e), 0, splat(e, middle)
    worst, worst_wide = masked(bits(center), 0), masked(bits(load_wide(e, 0)), 0)
    while i + wide_lanes(e) <= size:
        one_by_one()
        cells = load_wide_as(x, i, e)
        fetch_line(x, i + AHEAD)
        gap = kept(subtract(cells, splat(cells, middle)), mask, start + i)
        store(e, i, kept(weights(x, gap, by), mask, start + i))
        worst_wide = larger(worst_wide, masked(bits(gap), MAGNITUDE))
        i += wide_lanes(e)
    while i < size:
        one_by_one()
        gap = kept_part(subtract(load_part_as(x, i, size - i, e), center), mask, start + i, size - i)
        store_part(e, i, kept_part(weights(x, gap, by), mask, start + i, size - i), size - i)
        worst = larger(worst, masked(bits(gap), MAGNITUDE))
        i += n
    far = anywhere(greater(worst_wide, bits(splat(load_wide(e, 0), by[REACH]))))
    return not (far or anywhere(greater(worst, bits(splat(e, by[REACH])))))


@helper
def weigh_wide(x: Any, e: Any, size: int, by: Any, mask: Any, start: int) -> Any:
    """The weights of whole wide vectors of float32: (whether a cell is out of reach, how many are done).

    A weight is a chain of 14 steps, and a CPU looks only so many instructions ahead: wide ones are half as many.
    """
    n, i, cells = wide_lanes(x), 0, load_wide(x, 0)
    power, rest, worst = splat(cells, by[POWER]), splat(cells, by[POWER_REST]), masked(bits(cells), 0)
    while i + n <= size:
        one_by_one()
        cells = kept(load_wide(x, i), mask, start + i)
        fetch_line(x, i + AHEAD)
        worst = larger(worst, masked(bits(cells), NARROW_MAGNITUDE))
        store(e, i, convert(kept(narrow_weight(cells, power, rest), mask, start + i), e))
        i += n
    return anywhere(greater(worst, bits(splat(cells, by[NARROW_REACH])))), i


def weigh_first(x: Any, e: Any, size: int, by: Any, mask: Any, start: int) -> Any:
    """e = the weights of some cells against 0, of float32 in float32; says whether all are in reach, those of narrow planes."""


@overload(weigh_first, strict=False)
def typed_weigh_first(x: Any, e: Any, size: Any, by: Any, mask: Any, start: Any) -> Any:
    def narrow(x: Any, e: Any, size: Any, by: Any, mask: Any, start: Any) -> Any:
        n, reach, power, rest, i = lanes(x), splat(x, by[NARROW_REACH]), splat(x, by[POWER]), splat(x, by[POWER_REST]), 0
        worst, far = masked(bits(reach), 0), False
        if size >= wide_lanes(x):
            far, i = weigh_wide(x, e, size, by, mask, start)
        while i < size:
            one_by_one()
            cells = kept_part(load_part_as(x, i, size - i, x), mask, start + i, size - i)
            weight = kept_part(narrow_weight(cells, power, rest), mask, start + i, size - i)
            store_part(e, i, convert(weight, e), size - i)
            worst = larger(worst, masked(bits(cells), NARROW_MAGNITUDE))
            i += n
        return not (far or anywhere(greater(worst, bits(reach))))

    def exact(x: Any, e: Any, size: Any, by: Any, mask: Any, start: Any) -> Any:
        return weigh_plane(x, e, size, 0.0, by, mask, start)

    return narrow if x.dtype == types.float32 else exact


@helper
def middle_of(x: Any, size: int, padded: bool, mask: Any, start: int) -> float:
    """The middle between the least and the greatest cell, a padded zero too; NaN if a cell is NaN, 0 if there is none."""
    least, most = (0.0, 0.0) if padded else (INFINITY, -INFINITY)
    for i in range(size):
        one_by_one()
        if not is_kept(mask, start + i):
            continue
        value = float(x[i])
        least, most = value if value < least else least, value if value > most else most
        if value != value:
            return NAN
    return 0.5 * least + 0.5 * most if least <= most else 0.0


def weigh_others(x: Any, e: Any, size: int, by: Any, padded: bool, mask: Any, start: int) -> Any:
    """The middle of a plane that `weigh_first` has refused: e = its weights, all 0 if it has none, which is NaN."""


@overload(weigh_others, strict=False)
def typed_weigh_others(x: Any, e: Any, size: Any, by: Any, padded: Any, mask: Any, start: Any) -> Any:
    def around(x: Any, e: Any, size: Any, by: Any, padded: Any, mask: Any, start: Any) -> Any:
        middle = 0.0
        for _ in range(2):  # against 0 with more bits, then with its own middle
            one_by_one()
            if weigh_plane(x, e, size, middle, by, mask, start):
                return middle
            middle = middle_of(x, size, padded, mask, start)
        clear(e, 0, size)
        return NAN

    def none(x: Any, e: Any, size: Any, by: Any, padded: Any, mask: Any, start: Any) -> Any:
        clear(e, 0, size)
        return NAN

    return around if x.dtype == types.float32 else none


@helper
def weigh_around(x: Any, e: Any, size: int, by: Any, padded: bool, mask: Any, start: int) -> Any:
    """(middle, whether it is narrow) of a plane: e = its weights, all 0 if it has no middle.

    x, e and the mask are addresses. Cells that the mask leaves out, which begins at `start`, have the weight 0, and nothing
    else is known of them; without masks it is None.
    """
    if weigh_first(x, e, size, by, mask, start):
        return 0.0, lanes(x) > lanes(e)
    return weigh_others(x, e, size, by, padded, mask, start), False


@kernel
def weigh(x: Any, e: Any, middles: Any, scale: Any, padded: bool) -> None:
    """The weights of every plane, and its middle."""
    plane = len(e) // len(middles)
    x, e, by = address(x), address(e), address(scale)
    for p in range(len(middles)):
        middles[p], _ = weigh_around(later(x, p * plane), later(e, p * plane), plane, by, padded, None, 0)


@helper
def zero(middle: float, beta: float, padded: bool) -> float:
    """The weight of a padded zero."""
    return math.exp(-beta * middle) if padded else 0.0
