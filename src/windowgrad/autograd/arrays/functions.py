"""Elementwise functions: relu, relu6, exp, log, tanh and sigmoid. NaN stays NaN."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache, partial
from typing import Any, TypeVar

import numpy as np

from windowgrad.autograd.arrays.arithmetic import EACH, divide, elementwise, large, multiply, negative, subtract
from windowgrad.autograd.arrays.operands import operand
from windowgrad.autograd.arrays.records import AlikeParams, EachParams
from windowgrad.autograd.arrays.rules import Array, by_cell, native_op
from windowgrad.dispatch import run
from windowgrad.dtypes import float_of
from windowgrad.errors import KindError, WindowgradError
from windowgrad.functional.call import show_call
from windowgrad.params import Params
from windowgrad.spec import order, scalar
from windowgrad.spec.minimum import less

A = TypeVar("A")
SIX = 6.0
FEW = 1 << 8  # cells; with fewer the calls of NumPy's functions take longer than what they do
ALIKE = AlikeParams()


def relu(x: A) -> A:
    """max(x, 0), elementwise; the derivative at 0 is 0."""
    try:
        y: A = run(RELU, "forward", EACH, operand(x))
        return y
    except WindowgradError as error:
        show_call(error, relu, locals())
        raise


def exp(x: A) -> A:
    """eˣ, elementwise."""
    try:
        y: A = run(EXP, "forward", EACH, operand(x))
        return y
    except WindowgradError as error:
        show_call(error, exp, locals())
        raise


def log(x: A) -> A:
    """The natural logarithm, elementwise: −∞ at 0, NaN for negative numbers."""
    try:
        y: A = run(LOG, "forward", EACH, operand(x))
        return y
    except WindowgradError as error:
        show_call(error, log, locals())
        raise


def tanh(x: A) -> A:
    """The hyperbolic tangent, elementwise."""
    try:
        y: A = run(TANH, "forward", EACH, operand(x))
        return y
    except WindowgradError as error:
        show_call(error, tanh, locals())
        raise


def sigmoid(x: A) -> A:
    """The logistic function 1 ÷ (1 + e⁻ˣ), elementwise. It never overflows."""
    try:
        y: A = run(SIGMOID, "forward", EACH, operand(x))
        return y
    except WindowgradError as error:
        show_call(error, sigmoid, locals())
        raise


def relu6(x: A) -> A:
    """min(max(x, 0), 6), elementwise; the derivative at 0 and at 6 is 0."""
    try:
        y: A = run(RELU6, "forward", EACH, operand(x))
        return y
    except WindowgradError as error:
        show_call(error, relu6, locals())
        raise


def gate(x: Any, dx: Any) -> Any:
    """dx where x is greater than 0 (or NaN), and 0 elsewhere: the derivative of relu, linear in dx."""
    return run(GATE, "forward", ALIKE, x, dx)


# --- one cell ----------------------------------------------------------------------------------------------------


def positive(a: Any) -> bool:
    return scalar.greater(a, 0)


def relu_cell(a: Any) -> Any:
    return order.extreme((scalar.zero_like(a), a), scalar.greater, "max")


def relu6_cell(a: Any) -> Any:
    return order.extreme((scalar.zero_like(a) + 6, relu_cell(a)), less, "min")  # of equals the first: the derivative at 6 is 0


def gate_cell(a: Any, da: Any) -> Any:
    order.check_order(scalar.zero_like(a), (a,))
    return da if positive(a) else scalar.zero_like(da)


def exp_cell(a: Any) -> Any:
    return transcendental(scalar.exp, "exp", a)


def log_cell(a: Any) -> Any:
    return transcendental(scalar.log, "log", a)


def tanh_cell(a: Any) -> Any:
    """(1 − e⁻²ᵃ) ÷ (1 + e⁻²ᵃ), or the same with exp(2a): the one whose exponent is not positive."""
    if isinstance(a, float):
        return math.tanh(a)
    if positive(a):
        e = transcendental(scalar.exp, "tanh", -2 * a)
        return (1 - e) / (1 + e)
    e = transcendental(scalar.exp, "tanh", 2 * a)
    return (e - 1) / (e + 1)


def sigmoid_cell(a: Any) -> Any:
    """1 ÷ (1 + exp(−a)), or exp(a) ÷ (1 + exp(a)): the one whose exponent is not positive."""
    if positive(a):
        return 1 / (1 + transcendental(scalar.exp, "sigmoid", -a))
    e = transcendental(scalar.exp, "sigmoid", a)
    return e / (1 + e)


def transcendental(function: Callable[[Any], Any], name: str, a: Any) -> Any:
    try:
        return function(a)
    except KindError:
        kind = type(a).__name__
        raise KindError(
            f"{kind} has no {name}: elements must be float, Decimal, mpmath.mpf or Dual; convert each {kind}"
        ) from None


# --- rules -------------------------------------------------------------------------------------------------------


def floats(x: Array) -> Array:
    """Integers as the floats that a function of them has."""
    return x.astype(float_of(x.dtype), copy=False)


def by_float(ufunc: Callable[..., Any], params: Params, x: Array) -> Any:
    return ufunc(floats(x))


def _relu(params: Params, x: Array) -> Any:
    return _gate(params, x, x)  # and so 0 of −0, which NumPy's maximum does not say


def _relu_push(params: Params, x: Any, dx: Any) -> Any:
    return gate(x, dx)


def _relu_pull(params: Params, x: Any, g: Any) -> tuple[Any]:
    return (gate(x, g),)


def _relu6(params: Params, x: Array) -> Any:
    if large(x, x):
        return elementwise().clipped(x, SIX)
    y = _relu(params, x)
    return np.minimum(y, np.asarray(SIX, y.dtype), out=y)


def _relu6_push(params: Params, x: Any, dx: Any) -> Any:
    return elementwise().gated(x, dx, SIX) if large(x, dx) else gate(x, gate(subtract(6, x), dx))


def _relu6_pull(params: Params, x: Any, g: Any) -> tuple[Any]:
    return (_relu6_push(params, x, g),)


@cache
def zero(dtype: np.dtype[Any]) -> Array:
    return np.zeros((), dtype)


def _gate(params: Params, x: Array, dx: Array) -> Any:
    """By a kernel, or by a mask of bits: NumPy's `where` guesses each cell, and is wrong half of the time."""
    if large(x, dx):
        return elementwise().gated(x, dx)
    if x.size < FEW:
        return np.where(np.less_equal(x, 0), zero(dx.dtype), dx)
    bits = np.dtype(f"i{dx.dtype.itemsize}")
    mask = np.asarray(np.less_equal(x, 0).view(np.int8) - np.int8(1)).astype(bits, copy=False)
    return np.bitwise_and(mask, dx.view(bits), out=mask).view(dx.dtype)


def _gate_push(params: Params, x: Any, dx: Any, _: Any, ddx: Any) -> Any:
    return gate(x, ddx)


def _gate_pull(params: Params, x: Any, dx: Any, g: Any) -> tuple[None, Any]:
    return None, gate(x, g)


def _exp_push(params: Params, x: Any, dx: Any) -> Any:
    return multiply(dx, exp(x))


def _exp_pull(params: Params, x: Any, g: Any) -> tuple[Any]:
    return (multiply(g, exp(x)),)


def _log_push(params: Params, x: Any, dx: Any) -> Any:
    return divide(dx, x)


def _log_pull(params: Params, x: Any, g: Any) -> tuple[Any]:
    return (divide(g, x),)


def _tanh_push(params: Params, x: Any, dx: Any) -> Any:
    y = tanh(x)
    return multiply(dx, subtract(1, multiply(y, y)))


def _tanh_pull(params: Params, x: Any, g: Any) -> tuple[Any]:
    return (_tanh_push(params, x, g),)


def _sigmoid(params: Params, x: Array) -> Any:
    """exp(min(x, 0)) ÷ (1 + exp(−|x|)): 1 or exp(x) above the line, and no exponent is positive."""
    x = floats(x)
    return np.exp(np.minimum(x, np.zeros((), x.dtype))) / (np.exp(-np.abs(x)) + np.ones((), x.dtype))


def _sigmoid_push(params: Params, x: Any, dx: Any) -> Any:
    return multiply(dx, multiply(sigmoid(x), sigmoid(negative(x))))  # 1 − sigmoid(x) is sigmoid(−x), to the last bit


def _sigmoid_pull(params: Params, x: Any, g: Any) -> tuple[Any]:
    return (_sigmoid_push(params, x, g),)


RELU = native_op("relu", EachParams, _relu, partial(by_cell, relu_cell), _relu_push, _relu_pull)
RELU6 = native_op("relu6", EachParams, _relu6, partial(by_cell, relu6_cell), _relu6_push, _relu6_pull)
GATE = native_op("gate", AlikeParams, _gate, partial(by_cell, gate_cell), _gate_push, _gate_pull, inputs=("x", "dx"))
EXP = native_op("exp", EachParams, partial(by_float, np.exp), partial(by_cell, exp_cell), _exp_push, _exp_pull, exact=False)
LOG = native_op("log", EachParams, partial(by_float, np.log), partial(by_cell, log_cell), _log_push, _log_pull, exact=False)
TANH = native_op(
    "tanh", EachParams, partial(by_float, np.tanh), partial(by_cell, tanh_cell), _tanh_push, _tanh_pull, exact=False
)
SIGMOID = native_op("sigmoid", EachParams, _sigmoid, partial(by_cell, sigmoid_cell), _sigmoid_push, _sigmoid_pull, exact=False)
