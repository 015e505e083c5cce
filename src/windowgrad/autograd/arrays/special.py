"""The sign and the error function, elementwise. NaN stays NaN."""

from __future__ import annotations

import math
from decimal import Decimal, getcontext, localcontext
from functools import partial
from typing import Any, TypeVar

import numpy as np

from windowgrad.autograd.arrays.arithmetic import EACH, multiply
from windowgrad.autograd.arrays.choosing import NOWHERE, masked
from windowgrad.autograd.arrays.functions import floats
from windowgrad.autograd.arrays.operands import operand
from windowgrad.autograd.arrays.records import EachParams
from windowgrad.autograd.arrays.rules import Array, by_cell, by_ufunc, native_op
from windowgrad.dispatch import run
from windowgrad.errors import KindError, WindowgradError
from windowgrad.functional.call import show_call
from windowgrad.params import Params
from windowgrad.spec import order, scalar
from windowgrad.spec.dual import Dual

A = TypeVar("A")
SLOPE = 2 / math.sqrt(math.pi)
"""The derivative of erf at 0."""


def sign(x: A) -> A:
    """−1, 0 or 1 as x is less than, equal to or greater than 0, elementwise; its derivative is 0.

    >>> wg.sign(np.array([-2.5, 0.0, 7.0]))
    array([-1.,  0.,  1.])
    """
    try:
        y: A = run(SIGN, "forward", EACH, operand(x))
        return y
    except WindowgradError as error:
        show_call(error, sign, locals())
        raise


def erf(x: A) -> A:
    """The error function 2 ÷ √π · ∫₀ˣ exp(−t²) dt, elementwise.

    >>> wg.erf(np.array([0.0, np.inf]))
    array([0., 1.])
    """
    try:
        y: A = run(ERF, "forward", EACH, operand(x))
        return y
    except WindowgradError as error:
        show_call(error, erf, locals())
        raise


def bell(x: Any) -> Any:
    """2 ÷ √π · exp(−x²), elementwise: the derivative of erf."""
    return run(BELL, "forward", EACH, x)


# --- one cell ----------------------------------------------------------------------------------------------------


def sign_cell(a: Any) -> Any:
    nought = scalar.zero_like(a)
    order.check_order(nought, (a,))
    if a != a:
        return a
    return nought + 1 if scalar.greater(a, nought) else nought - 1 if scalar.greater(nought, a) else nought


def erf_cell(a: Any) -> Any:
    if isinstance(a, Dual):
        return Dual(erf_cell(a.value), a.tangent * bell_cell(a.value))
    if isinstance(a, (float, np.floating)):
        return type(a)(math.erf(a))
    if type(a).__module__.startswith("mpmath"):
        return a.context.erf(a)
    if isinstance(a, Decimal):
        return decimal_erf(a)
    raise without("erf", a)


def bell_cell(a: Any) -> Any:
    if isinstance(a, Dual):
        value = bell_cell(a.value)
        return Dual(value, -2 * a.value * value * a.tangent)
    if isinstance(a, (float, np.floating)):
        return type(a)(SLOPE * math.exp(-a * a))
    if type(a).__module__.startswith("mpmath"):
        return 2 / a.context.sqrt(a.context.pi) * a.context.exp(-a * a)
    if isinstance(a, Decimal):
        return 2 / decimal_pi().sqrt() * (-a * a).exp()
    raise without("erf", a)


def without(name: str, a: Any) -> KindError:
    kind = type(a).__name__
    return KindError(f"{kind} has no {name}: elements must be float, Decimal, mpmath.mpf or Dual; convert each {kind}")


def decimal_erf(a: Decimal) -> Decimal:
    """exp(−a²) · 2 ÷ √π · Σ 2ⁿ a²ⁿ⁺¹ ÷ (1 · 3 · … · (2n + 1)), whose terms have one sign, with some digits more."""
    if a.is_nan():
        return a
    digits = getcontext().prec
    if a * a > 3 * digits:  # 1 − erf(a) is less than exp(−a²)
        return Decimal(1).copy_sign(a)
    with localcontext(prec=digits + 10):
        term = total = Decimal(bell_cell(a) * a)
        n = 1
        while total + (term := term * 2 * a * a / (2 * n + 1)) != total:
            total, n = total + term, n + 1
    return +total


def decimal_pi() -> Decimal:
    """π with the digits of the context, by Machin's formula in integers: 16 · arctan(1/5) − 4 · arctan(1/239)."""
    one: int = 10 ** (getcontext().prec + 10)

    def arctan(inverse: int) -> int:
        power = total = one // inverse
        n, sign = 3, -1
        while power:
            power //= inverse * inverse
            total, n, sign = total + sign * (power // n), n + 2, -sign
        return total

    return Decimal(16 * arctan(5) - 4 * arctan(239)) / one


# --- rules -------------------------------------------------------------------------------------------------------


def _sign_push(params: Params, x: Any, dx: Any) -> Any:
    return masked(NOWHERE, dx)


def _sign_pull(params: Params, x: Any, g: Any) -> tuple[Any]:
    return (masked(NOWHERE, g),)


def _erf(params: Params, x: Array) -> Any:
    """In float64, cell by cell: NumPy has no erf."""
    x = floats(x)
    found = np.fromiter(map(math.erf, x.reshape(-1).tolist()), np.float64, x.size)
    return found.reshape(x.shape).astype(x.dtype)


def _erf_push(params: Params, x: Any, dx: Any) -> Any:
    return multiply(dx, bell(x))


def _erf_pull(params: Params, x: Any, g: Any) -> tuple[Any]:
    return (multiply(g, bell(x)),)


def _bell(params: Params, x: Array) -> Any:
    x = floats(x)
    return np.exp(-x * x) * np.asarray(SLOPE, x.dtype)


def _bell_push(params: Params, x: Any, dx: Any) -> Any:
    return multiply(dx, multiply(multiply(x, -2), bell(x)))


def _bell_pull(params: Params, x: Any, g: Any) -> tuple[Any]:
    return (_bell_push(params, x, g),)


SIGN = native_op("sign", EachParams, partial(by_ufunc, np.sign), partial(by_cell, sign_cell), _sign_push, _sign_pull)
ERF = native_op("erf", EachParams, _erf, partial(by_cell, erf_cell), _erf_push, _erf_pull, exact=False)
BELL = native_op("bell", EachParams, _bell, partial(by_cell, bell_cell), _bell_push, _bell_pull, exact=False)
