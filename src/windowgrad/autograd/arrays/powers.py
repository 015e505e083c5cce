"""Powers and square roots. Over fractions they are exact where there is an exact answer, and an error elsewhere."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction
from functools import partial
from numbers import Integral, Rational
from typing import Any, TypeVar

import numpy as np

from windowgrad.autograd.arrays.arithmetic import EACH, PAIR, add, divide, multiply, subtract
from windowgrad.autograd.arrays.functions import _log_pull, _log_push, by_float, floats, transcendental
from windowgrad.autograd.arrays.operands import operand, operands
from windowgrad.autograd.arrays.records import EachParams, PairParams
from windowgrad.autograd.arrays.rules import Array, by_cell, native_op
from windowgrad.dispatch import run
from windowgrad.errors import KindError, OptionError, WindowgradError, show
from windowgrad.functional.call import show_call
from windowgrad.params import Params
from windowgrad.spec import powers, scalar
from windowgrad.spec.dual import Dual

A = TypeVar("A")
Needs = tuple[bool, ...]


def sqrt(x: A) -> A:
    """The square root, elementwise: NaN for negative numbers. A fraction has one if numerator and denominator are squares.

    >>> wg.sqrt(np.array([4.0, 2.25]))
    array([2. , 1.5])
    """
    try:
        y: A = run(SQRT, "forward", EACH, operand(x))
        return y
    except WindowgradError as error:
        show_call(error, sqrt, locals())
        raise


def power(a: Any, b: Any) -> Any:
    """a to the power of b, elementwise; `a ** b` of traced values. Fractions have whole exponents.

    A constant exponent needs no logarithm, so a may be negative, and powers of fractions have exact derivatives.

    >>> wg.power(np.array([-2.0, 3.0]), 3)
    array([-8., 27.])
    >>> wg.grad(lambda x: wg.sum(wg.power(x, 3)))(np.array([-2.0, 3.0]))
    array([12., 27.])
    """
    try:
        return run(POWER, "forward", PAIR, *operands(a, b))
    except WindowgradError as error:
        show_call(error, power, locals())
        raise


# --- one cell ----------------------------------------------------------------------------------------------------


def sqrt_cell(a: Any) -> Any:
    if isinstance(a, Dual):
        root = sqrt_cell(a.value)
        return Dual(root, scalar.divide(a.tangent, 2 * root))
    if isinstance(a, Rational):
        return exact_root(a)
    if isinstance(a, (float, np.floating)) and a < 0:
        return type(a)(math.nan)
    if (root := powers.square_root(a)) is not None:
        return root
    kind = type(a).__name__
    raise KindError(f"{kind} has no sqrt: elements must be float, Decimal, Fraction, mpmath.mpf or Dual; convert each {kind}")


def exact_root(a: Any) -> Any:
    """Of an integer or a fraction."""
    top, bottom = math.isqrt(max(a.numerator, 0)), math.isqrt(a.denominator)
    if top * top != a.numerator or bottom * bottom != a.denominator:
        raise OptionError(f"sqrt: {show(str(a))} has no exact square root; convert each {type(a).__name__} to float or Decimal")
    return top if isinstance(a, Integral) else Fraction(top, bottom)


def power_cell(a: Any, b: Any) -> Any:
    """By multiplication where the exponent is whole, so it is exact, and also defined for negative numbers."""
    if isinstance(a, (float, np.floating)) and isinstance(b, (int, float, np.floating, Fraction)):
        return type(a)(np.power(float(a), float(b)))
    whole = as_whole(b)
    if whole is not None:
        return powers.power(a, whole) if whole else scalar.zero_like(a) + 1
    if isinstance(a, Rational):
        kind = type(a).__name__
        raise KindError(f"{kind} has no power with exponent {show(b)}: exponents must be whole; convert each {kind}")
    return scalar.exp(b * transcendental(scalar.log, "power", a))


def as_whole(b: Any) -> int | None:
    """The exponent as an integer, if it is one."""
    if not isinstance(b, (Rational, float, Decimal)) or not math.isfinite(b):
        return None
    whole: Any = math.floor(b)
    return whole if whole == b else None


# --- rules -------------------------------------------------------------------------------------------------------


def _sqrt_push(params: Params, x: Any, dx: Any) -> Any:
    return divide(dx, multiply(2, sqrt(x)))


def _sqrt_pull(params: Params, x: Any, g: Any) -> tuple[Any]:
    return (_sqrt_push(params, x, g),)


def _power(params: Params, a: Array, b: Array) -> Any:
    if not b.ndim and b == 2 and a.dtype.kind != "b":
        return np.square(a.astype(np.result_type(a, b), copy=False) if a.dtype != b.dtype else a)
    try:
        return np.power(a, b)
    except ValueError:
        raise OptionError("b: an integer must not have a negative exponent; convert a to float") from None


def _power_push(params: Params, a: Any, b: Any, da: Any, db: Any) -> Any:
    """b·aᵇ⁻¹·da + aᵇ·log a·db. Without the second if b is a constant: its logarithm may not exist."""
    along = multiply(da, in_base(a, b))
    return along if is_still(db) else add(along, multiply(db, in_exponent(a, b)))


def _power_pull(params: Params, a: Any, b: Any, g: Any, needs: Needs = (True, True)) -> tuple[Any, Any]:
    return multiply(g, in_base(a, b)) if needs[0] else None, multiply(g, in_exponent(a, b)) if needs[1] else None


def is_still(db: Any) -> bool:
    """Whether it is a constant that is zero everywhere, to every differentiation."""
    return type(db) is np.ndarray and not db.any()


def in_base(a: Any, b: Any) -> Any:
    """b·aᵇ⁻¹, which is 0 for b = 0 also where a = 0."""
    if type(b) is not np.ndarray:
        return multiply(b, power(a, subtract(b, 1)))
    b = b.astype(np.int8) if b.dtype.kind == "b" else b
    less = np.asarray(np.where(b == 0, np.ones((), b.dtype), b - np.ones((), b.dtype)), dtype=b.dtype)
    return multiply(b, power(a, less))


def in_exponent(a: Any, b: Any) -> Any:
    """aᵇ·log a, which is 0 for a = 0 where b is not negative."""
    return multiply(power(a, b), log_or_zero(a))


def log_or_zero(x: Any) -> Any:
    """The logarithm, but 0 of 0."""
    return run(LOG_OR_ZERO, "forward", EACH, x)


def _log_or_zero(params: Params, x: Array) -> Any:
    x = floats(x)
    return np.log(np.where(x == 0, np.ones((), x.dtype), x))


def log_or_zero_cell(a: Any) -> Any:
    return scalar.zero_like(a) if a == 0 else transcendental(scalar.log, "log", a)


SQRT = native_op(
    "sqrt", EachParams, partial(by_float, np.sqrt), partial(by_cell, sqrt_cell), _sqrt_push, _sqrt_pull, exact=False
)
LOG_OR_ZERO = native_op(
    "log_or_zero", EachParams, _log_or_zero, partial(by_cell, log_or_zero_cell), _log_push, _log_pull, exact=False
)
POWER = native_op(
    "power", PairParams, _power, partial(by_cell, power_cell), _power_push, _power_pull, exact=False, inputs=("a", "b")
)
