"""Powers of cells that are a few products, and their roots: p = 1, 2, 3 and 4, of vectors of float64.

Powers are added with one rounding, or two. A root is within 4 units of 2⁻⁵³ of itself; for results in float32, 2⁻³⁴.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from windowgrad.kernels.pool.smooth.cells import MAGNITUDE
from windowgrad.kernels.vector.exp_log import Value
from windowgrad.kernels.vector.types import call, llvm, suffix


class Power(NamedTuple):
    """What is written for a cell, which is added to a sum, and for the sum of a window (`narrow`: the result is float32)."""

    added: Callable[[Value, Value | float], Value]
    rooted: Callable[[Value, bool], Value]
    least: float
    """The power of a smaller cell may be 0."""


def magnitude(x: Value) -> Value:
    return (x.bits() & MAGNITUDE).floats()


def add_magnitude(x: Value, total: Value | float) -> Value:
    return magnitude(x) + total


def add_square(x: Value, total: Value | float) -> Value:
    return x.times(x, total)


def add_cube(x: Value, total: Value | float) -> Value:
    return (x * x).times(magnitude(x), total)


def add_fourth(x: Value, total: Value | float) -> Value:
    square = x * x
    return square.times(square, total)


def as_it_is(s: Value, narrow: bool) -> Value:
    return s


def square_root(s: Value, narrow: bool = False) -> Value:
    return s.of(call(s.builder, f"llvm.sqrt.{suffix(s.v)}", llvm(s.v), [s.value]))


THIRD = 0x55555556
"""2³² ÷ 3: the upper half of a product with it is a third."""

START = 0x553EF100
"""Less a third of the upper bits of S, the upper bits of S^(−1/3) within 1/29 of itself."""


def cube_root(s: Value, narrow: bool) -> Value:
    """S·r² for r = S^(−1/3), which is found without a division: a step takes an error e to 5·e³, so 2⁻³⁴ after two.

    Measured: a third of the time of a power by exponential and logarithm.
    """
    b, upper = s.builder, s.bits() >> 32
    third = b.lshr(b.mul(upper.value, upper.operand(THIRD)), upper.operand(32))
    r = (upper.of(b.sub(upper.operand(START), third)) << 32).floats()
    for _ in range(2 if narrow else 3):
        rest = (-(s * r)).times(r * r, 1.0)  # 1 − S·r³
        r = r.times(rest * rest.times(2 / 9, 1 / 3), r)
    return s * r * r


def fourth_root(s: Value, narrow: bool) -> Value:
    return square_root(square_root(s))


POWERS = {
    1: Power(add_magnitude, as_it_is, 0.0),
    2: Power(add_square, square_root, 1e-161),
    3: Power(add_cube, cube_root, 1e-107),
    4: Power(add_fourth, fourth_root, 1e-80),
}
