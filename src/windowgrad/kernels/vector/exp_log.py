"""exp and log of vectors: a power of two taken out, and a polynomial of what is left.

`exponential` is within 1 ulp and `logarithm` within 1.5, for results in float64. `quick_power` and `quick_logarithm` are for
results in float32, of which they keep 9 bits more than are asked for, in half the time. `narrow_weight` and `narrow_value` work
on vectors of float32, in a quarter of it; their errors are counted in units of 2⁻²⁴.

Each is one intrinsic, written as arithmetic on `Value`s: of helpers, Numba would compile each, and each operator in them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from windowgrad.kernels.vector.types import Vec, call, constant, kind, llvm, suffix

LOG2_E = 1.4426950408889634
LOG2_E_LOST = 2.0355273740931033e-17  # what the rounding of LOG2_E has lost
LN2 = 0.6931471805599453
LN2_HIGH = 0.693147180369123816490  # the first 32 bits of ln 2: a product with a small integer is exact
LN2_LOW = 1.90821492927058770002e-10
ROUNDER = 6755399441055744.0  # 1.5·2^52: what is added to it and taken away again is rounded to an integer
NARROW_ROUNDER = 12582912.0  # 1.5·2²³, the same for float32
LEAST = -746.0  # exp of this and of all below is 0
ROOT_HALF = 0x3F3504F3  # √½ as a float32
FACTORIALS = tuple(1 / math.factorial(n) for n in range(2, 14))
ODD_PARTS = tuple(1 / n for n in range(3, 27, 2))
# Chebyshev fits: 2ᶠ for |f| ≤ ½ within 2⁻³³ of itself, and log((1 + s)/(1 − s))/s in s² for parts from √½ to √2 within 2⁻³⁶
POWERS = (
    0.9999999999595618, 0.6931471805568324, 0.24022651213498092, 0.055504109063258665,
    0.009618025613318034, 0.0013333478473685416, 0.00015469729214118296, 1.5303700711365693e-05,
)  # fmt: skip
EXACT_POWERS = (  # 2ᶠ for |f| ≤ ½ within 0.18·2⁻⁵³ of itself
    1.0, 0.6931471805599453, 0.24022650695910097, 0.0555041086648216, 0.009618129107606888, 0.0013333558146416936,
    0.0001540353044173605, 1.525273382983612e-05, 1.321544258792169e-06, 1.0178062445845774e-07, 7.072585949269223e-09,
    4.4549605981865186e-10,
)  # fmt: skip
LOGARITHMS = (2.0000000000083595, 0.6666666524748752, 0.4000038467237519, 0.2853505103781631, 0.23616359099145984)
# For float32, with coefficients that are float32: 2ᶠ for |f| ≤ ½, and (log(1 + f) − f + f²/2)/f³ for parts as above
NARROW_POWERS = (
    1.0, 0.6931471824645996, 0.24022647738456726, 0.05550359562039375,
    0.00961849931627512, 0.0013390970416367054, 0.00015329310554079711,
)  # fmt: skip
NARROW_LOGARITHMS = (
    0.33334165811538696, -0.250016987323761, 0.19954879581928253, -0.16564427316188812,
    0.1497795581817627, -0.1437898576259613, 0.08672264218330383,
)  # fmt: skip


class Value:
    """A vector in a function that is being written: arithmetic on it writes instructions, and a number is a vector of it."""

    def __init__(self, builder: ir.IRBuilder, v: Vec, value: Any) -> None:
        self.builder, self.v, self.value = builder, v, value

    def of(self, value: Any) -> Value:
        return Value(self.builder, self.v, value)

    def operand(self, other: Value | float) -> Any:
        return other.value if isinstance(other, Value) else constant(self.v, other)

    def __add__(self, other: Value | float) -> Value:
        write = self.builder.fadd if kind(self.v) == "f" else self.builder.add
        return self.of(write(self.value, self.operand(other)))

    def __sub__(self, other: Value | float) -> Value:
        return self.of(self.builder.fsub(self.value, self.operand(other)))

    def __mul__(self, other: Value | float) -> Value:
        return self.of(self.builder.fmul(self.value, self.operand(other)))

    def __truediv__(self, other: Value) -> Value:
        return self.of(self.builder.fdiv(self.value, other.value))

    def __neg__(self) -> Value:
        return self.of(self.builder.fneg(self.value))

    def __lshift__(self, count: int) -> Value:
        return self.of(self.builder.shl(self.value, constant(self.v, count)))

    def __rshift__(self, count: int) -> Value:
        """Zeros above."""
        return self.of(self.builder.lshr(self.value, constant(self.v, count)))

    def __and__(self, mask: int) -> Value:
        return self.of(self.builder.and_(self.value, constant(self.v, mask)))

    def times(self, factor: Value | float, term: Value | float) -> Value:
        """self · factor + term, rounded once."""
        operands = [self.value, self.operand(factor), self.operand(term)]
        return self.of(call(self.builder, f"llvm.fma.{suffix(self.v)}", llvm(self.v), operands))

    def bits(self) -> Value:
        """The lanes as integers of the same bits."""
        v = Vec(types.Integer.from_bitwidth(self.v.dtype.bitwidth, True), self.v.lanes)
        return Value(self.builder, v, self.builder.bitcast(self.value, llvm(v)))

    def floats(self) -> Value:
        """The lanes of integers as floats of the same bits."""
        return self.as_floats(self.builder.bitcast)

    def number(self) -> Value:
        """Integers as floats."""
        return self.as_floats(self.builder.sitofp)

    def as_floats(self, write: Callable[[Any, Any], Any]) -> Value:
        v = Vec(types.float32 if self.v.dtype.bitwidth == 32 else types.float64, self.v.lanes)
        return Value(self.builder, v, write(self.value, llvm(v)))

    def where(self, test: str, limit: Value | float, then: Value | float) -> Value:
        """`then` in the lanes where self `test` limit is true, else self; of NaN no test is true."""
        return self.chosen(test, limit, then, self)

    def chosen(self, test: str, limit: Value | float, yes: Value | float, no: Value) -> Value:
        mask = self.builder.fcmp_ordered(test, self.value, self.operand(limit))
        return no.of(self.builder.select(mask, no.operand(yes), no.value))


def horner(x: Value, c: Sequence[float]) -> Value:
    """c[0] + c[1]·x + c[2]·x² + …"""
    high = x.of(constant(x.v, c[-1]))
    return reduce(lambda total, term: total.times(x, term), reversed(c[:-1]), high)


def series(x: Value, c: Sequence[float]) -> Value:
    """The same of twelve terms, by halves: fewer steps wait for each other than in Horner's way."""
    pairs = [x.times(c[n + 1], c[n]) for n in range(0, 12, 2)]
    x2 = x * x
    x4 = x2 * x2
    low = pairs[3].times(x2, pairs[2]).times(x4, pairs[1].times(x2, pairs[0]))
    return pairs[5].times(x2, pairs[4]).times(x4 * x4, low)


def power_of_two(n: Value) -> Value:
    """2ⁿ for whole numbers from −1022 to 1023."""
    return ((n + (ROUNDER + 1023.0)).bits() << 52).floats()


def parts(x: Value) -> tuple[Value, Value]:
    """(exponent, part): x = 2^exponent · part, from √½ to √2, for a normal x > 0."""
    word = x.bits()
    exponent, part = (word >> 52).number() - 1023.0, ((word & 0x000FFFFFFFFFFFFF) + 0x3FF0000000000000).floats()
    root = 1.4142135623730951  # the part is from 1 to 2
    return part.chosen(">", root, exponent + 1.0, exponent), part.where(">", root, part * 0.5)


def _exponential(x: Value) -> Value:
    x = x.where("<", LEAST, LEAST)
    whole = x.times(LOG2_E, ROUNDER) - ROUNDER
    rest = whole.times(-LN2_LOW, whole.times(-LN2_HIGH, x))
    total = (rest * rest).times(series(rest, FACTORIALS), rest) + 1.0
    half = whole.times(0.5, ROUNDER) - ROUNDER  # in two steps: 2^whole may be subnormal
    return total * power_of_two(half) * power_of_two(whole - half)


def _quick_power(x: Value) -> Value:
    rounded = x + ROUNDER
    return scaled(horner(x - (rounded - ROUNDER), POWERS), rounded)


def _logarithm(x: Value) -> Value:
    exponent, part = parts(x)
    less_one = part - 1.0
    s = less_one / (part + 1.0)  # log part = 2·(s + s³/3 + s⁵/5 + …)
    z = s * s
    log_part = less_one - s * (less_one - z * 2.0 * series(z, ODD_PARTS))  # 2s = less_one − s·less_one, where less_one is exact
    result = exponent.times(LN2_HIGH, exponent.times(LN2_LOW, log_part))
    return (x - x).chosen("==", 0.0, result, x)


def _quick_logarithm(x: Value) -> Value:
    exponent, part = parts(x)
    s = (part - 1.0) / (part + 1.0)
    return exponent.times(LN2, s * horner(s * s, LOGARITHMS))


def scaled(part: Value, rounded: Value) -> Value:
    """part · 2ⁿ for an n that was rounded by adding ROUNDER or NARROW_ROUNDER: it stands in the lowest bits of the sum."""
    return (part.bits() + (rounded.bits() << (52 if part.v.dtype.bitwidth == 64 else 23))).floats()


def _weight(x: Value, power: Value, rest: Value, rounder: float, powers: Sequence[float]) -> Value:
    exponent = x * power
    lost = x.times(rest, x.times(power, -exponent))
    rounded = exponent + rounder
    return scaled(horner((exponent - (rounded - rounder)) + lost, powers), rounded)


def _exact_weight(x: Value, power: Value, rest: Value) -> Value:
    return _weight(x, power, rest, ROUNDER, EXACT_POWERS)


def _narrow_weight(x: Value, power: Value, rest: Value) -> Value:
    return _weight(x, power, rest, NARROW_ROUNDER, NARROW_POWERS)


def _narrow_value(total: Value, log: Value, log_rest: Value, inverse: Value, inverse_rest: Value) -> Value:
    word = total.bits() + (0x3F800000 - ROOT_HALF)
    exponent = (word >> 23).number() - 127.0
    f = ((word & 0x007FFFFF) + ROOT_HALF).floats() - 1.0  # exact
    part = (f * f).times(f.times(horner(f, NARROW_LOGARITHMS), -0.5), f)
    value = exponent.times(log, part.times(inverse, exponent.times(log_rest, part * inverse_rest)))
    return total.chosen("==", 0.0, 0.0, value)


def _written(function: Callable[..., Value], signature: Any, args: Any, builder: Any) -> Any:
    return function(*(Value(builder, v, value) for v, value in zip(signature.args, args, strict=True))).value


def _of_one(name: str, doc: str, function: Callable[[Value], Value]) -> Any:
    """The intrinsic of a function of one vector."""

    def typed(typing: Any, x: Any) -> Any:
        return x(x), lambda context, builder, signature, args: _written(function, signature, args, builder)

    typed.__name__, typed.__doc__ = name, doc
    return intrinsic(typed)


exponential = _of_one("exponential", "eˣ for x ≤ 700, and NaN of NaN.", _exponential)
logarithm = _of_one("logarithm", "log x for a normal x > 0; what is not finite stays as it is.", _logarithm)
quick_power = _of_one("quick_power", "2ˣ for |x| ≤ 1000, within 2⁻³³ of itself.", _quick_power)
quick_logarithm = _of_one("quick_logarithm", "log x for a normal x > 0, within 2⁻³⁸ + 2⁻⁵¹·|log x|.", _quick_logarithm)


@intrinsic
def exact_weight(typing: Any, x: Any, power: Any, rest: Any) -> Any:
    """2^(x·(power + rest)) of float64 for an exponent within ±1000: within 1.5 units of 2⁻⁵³ of itself.

    The polynomial is within 1.3 units; the exponent without its whole part is rounded by 2⁻⁵⁵, which is 0.18 units.
    """
    return x(x, power, rest), lambda context, builder, sig, args: _written(_exact_weight, sig, args, builder)


@intrinsic
def narrow_weight(typing: Any, x: Any, power: Any, rest: Any) -> Any:
    """2^(x·(power + rest)) of float32 for an exponent within ±120: within 1.3 units of itself.

    The polynomial is within 1.12 units; the exponent without its whole part is rounded by 2⁻²⁶, which is 0.18 units.
    """
    return x(x, power, rest), lambda context, builder, sig, args: _written(_narrow_weight, sig, args, builder)


@intrinsic
def first_weight(typing: Any, x: Any, power: Any, rest: Any) -> Any:
    """`narrow_weight` of float32, `exact_weight` of float64."""
    weight = _narrow_weight if x.dtype == types.float32 else _exact_weight
    return x(x, power, rest), lambda context, builder, sig, args: _written(weight, sig, args, builder)


@intrinsic
def narrow_value(typing: Any, total: Any, log: Any, log_rest: Any, inverse: Any, inverse_rest: Any) -> Any:
    """log(total)/β of a normal float32 > 0, and 0 of 0; log 2/β and 1/β are given as sums of two float32.

    The logarithm of the part is within half a unit, adding to it rounds by 0.35, and the last step by half an ulp.
    """
    types_ = (total, log, log_rest, inverse, inverse_rest)
    return total(*types_), lambda context, builder, sig, args: _written(_narrow_value, sig, args, builder)
