"""Choosing between arrays cell by cell: where, maximum, minimum, clip, and what their derivatives need.

NaN wins over every number, in a minimum too; −0.0 equals 0.0. Where both of a maximum are equal, the value is the first, and
each gets half of the derivative. A derivative is chosen, not multiplied by 0: what is not chosen adds no NaN.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import numpy as np

from windowgrad.autograd.arrays.arithmetic import EACH, PAIR, add
from windowgrad.autograd.arrays.functions import floats
from windowgrad.autograd.arrays.operands import operand, operands
from windowgrad.autograd.arrays.records import EachParams, PairParams, broadcast
from windowgrad.autograd.arrays.rules import Array, by_cell, native_op
from windowgrad.dispatch import run
from windowgrad.dtypes import promoted
from windowgrad.errors import KindError, OptionError, WindowgradError
from windowgrad.functional.call import show_call
from windowgrad.params import Params, Shape
from windowgrad.spec import order, scalar
from windowgrad.spec.dual import Dual
from windowgrad.spec.minimum import less

WINS = {"max": scalar.greater, "min": less}
Needs = tuple[bool, ...]
A = TypeVar("A")


@dataclass(frozen=True)
class WhereParams(Params):
    """One of two arrays by a condition; all three are broadcast together."""

    def out_shape(self, *shapes: Shape) -> Shape:
        condition, a, b = shapes
        both = broadcast("a of shape {} and b of shape {}", a, b)
        return broadcast("condition of shape {} and a and b, together of shape {}", condition, both)


@dataclass(frozen=True)
class MaskParams(Params):
    """`dx` where the condition is `holds`, and 0 elsewhere."""

    holds: bool = True

    def out_shape(self, *shapes: Shape) -> Shape:
        return broadcast("condition of shape {} and dx of shape {}", *shapes)


@dataclass(frozen=True)
class ShareParams(Params):
    """The part of `dx` that belongs to `x` beside `other`; `own` is "max" or "min", by which one of them wins."""

    own: str = "max"

    def out_shape(self, *shapes: Shape) -> Shape:
        x, other, dx = shapes
        return broadcast("both of shape {} and dx of shape {}", broadcast("x of shape {} and other of shape {}", x, other), dx)


def where(condition: Any, a: Any, b: Any) -> Any:
    """a where the condition is true, else b. The condition is an array of bools, and a constant to the derivative.

    >>> x = np.array([-1.0, 2.0, 3.0])
    >>> wg.where(x > 0, x, 0)
    array([0., 2., 3.])
    """
    try:
        return run(WHERE, "forward", CHOICE, operand(condition, "condition"), *operands(a, b))
    except WindowgradError as error:
        show_call(error, where, locals())
        raise


def maximum(a: Any, b: Any) -> Any:
    """The greater of a and b, elementwise; NaN wins. Where both are equal, each gets half of the gradient.

    >>> wg.grad(wg.maximum, argnums=(0, 1))(2.0, 2.0)
    (array(0.5), array(0.5))
    """
    try:
        return run(MAXIMUM, "forward", PAIR, *operands(a, b))
    except WindowgradError as error:
        show_call(error, maximum, locals())
        raise


def minimum(a: Any, b: Any) -> Any:
    """The lesser of a and b, elementwise; NaN wins. Where both are equal, each gets half of the gradient.

    >>> wg.minimum(np.array([1.0, 5.0, np.nan]), 3)
    array([ 1.,  3., nan])
    """
    try:
        return run(MINIMUM, "forward", PAIR, *operands(a, b))
    except WindowgradError as error:
        show_call(error, minimum, locals())
        raise


def clip(x: Any, low: Any = None, high: Any = None) -> Any:
    """x, but not below `low` and not above `high`: minimum(maximum(x, low), high). None is no bound.

    The gradient of a cell that equals a bound is shared with the bound, as `maximum` and `minimum` share it.

    >>> wg.clip(np.array([-2.0, 0.5, 7.0]), 0, 1)
    array([0. , 0.5, 1. ])
    """
    try:
        if low is None and high is None:
            raise OptionError("low=None, high=None: at least one bound must be given")
        y = x if low is None else run(MAXIMUM, "forward", PAIR, *operands(x, low, ("x", "low")))
        return y if high is None else run(MINIMUM, "forward", PAIR, *operands(y, high, ("x", "high")))
    except WindowgradError as error:
        show_call(error, clip, locals())
        raise


def stop_gradient(x: A) -> A:
    """x as a constant: its derivative is 0.

    >>> wg.grad(lambda x: x * wg.stop_gradient(x))(3.0)
    array(3.)
    """
    try:
        y: A = run(STOP_GRADIENT, "forward", EACH, operand(x))
        return y
    except WindowgradError as error:
        show_call(error, stop_gradient, locals())
        raise


def masked(condition: Any, dx: Any, holds: bool = True) -> Any:
    """dx where the condition is `holds`, else 0: linear in dx."""
    return run(MASK, "forward", HOLDS if holds else HOLDS_NOT, condition, dx)


def share(params: ShareParams, x: Any, other: Any, dx: Any) -> Any:
    """dx where x wins over `other`, half of it where they are equal, else 0: linear in dx."""
    return run(SHARE, "forward", params, x, other, dx)


CHOICE, HOLDS, HOLDS_NOT, GREATEST, LEAST = WhereParams(), MaskParams(), MaskParams(False), ShareParams(), ShareParams("min")


# --- one cell ----------------------------------------------------------------------------------------------------


def best_cell(own: str, a: Any, b: Any) -> Any:
    """The winner. Of equal dual numbers the mean: the value is the same, and the derivative is shared."""
    if (isinstance(a, Dual) or isinstance(b, Dual)) and scalar.same(a, b):
        return (a + b) / 2
    return order.extreme((a, b), WINS[own], own)


def share_cell(own: str, x: Any, other: Any, dx: Any) -> Any:
    order.check_order(x, (other,), own)
    if WINS[own](x, other):
        return dx
    return scalar.zero_like(dx) if WINS[own](other, x) else scalar.divide(dx, 2)


def mask_cell(holds: bool, condition: Any, dx: Any) -> Any:
    return dx if condition is holds else scalar.zero_like(dx)


def still_cell(a: Any) -> Any:
    """Dual numbers are variables to whoever computes with them."""
    return Dual(still_cell(a.value), scalar.zero_like(a.tangent)) if isinstance(a, Dual) else a


# --- rules -------------------------------------------------------------------------------------------------------


def alike(*xs: Array) -> list[Array]:
    """In one dtype, the one they promote to."""
    dtype = promoted(*(x.dtype for x in xs))
    return [x.astype(dtype, copy=False) for x in xs]


def flags(condition: Array) -> Array:
    """The condition as bools."""
    if condition.dtype.kind == "b":
        return condition
    if condition.dtype.kind == "O" and all(isinstance(flag, (bool, np.bool_)) for flag in condition.reshape(-1)):
        return condition.astype(bool)
    kind = "objects" if condition.dtype.kind == "O" else str(condition.dtype)
    raise KindError(f"condition: must be an array of bools, not of {kind}; write a comparison, such as x > 0")


def _where(params: Params, condition: Array, a: Array, b: Array) -> Any:
    return np.where(flags(condition), *alike(a, b))


def _where_objects(params: Params, condition: Array, a: Array, b: Array) -> Any:
    return np.where(flags(condition), a, b)


def _where_push(params: Params, condition: Any, a: Any, b: Any, _: Any, da: Any, db: Any) -> Any:
    return where(condition, da, db)


def _where_pull(params: Params, condition: Any, a: Any, b: Any, g: Any, needs: Needs = (False, True, True)) -> Any:
    return None, masked(condition, g) if needs[1] else None, masked(condition, g, False) if needs[2] else None


def _mask(params: MaskParams, condition: Array, dx: Array) -> Any:
    zero, chosen = np.zeros((), dx.dtype), flags(condition)
    return np.where(chosen, dx, zero) if params.holds else np.where(chosen, zero, dx)


def _mask_objects(params: MaskParams, condition: Array, dx: Array) -> Any:
    return by_cell(partial(mask_cell, params.holds), params, flags(condition).astype(object), dx)


def _mask_push(params: MaskParams, condition: Any, dx: Any, _: Any, ddx: Any) -> Any:
    return masked(condition, ddx, params.holds)


def _mask_pull(params: MaskParams, condition: Any, dx: Any, g: Any) -> tuple[None, Any]:
    return None, masked(condition, g, params.holds)


def _maximum(params: Params, a: Array, b: Array) -> Any:
    a, b = alike(a, b)
    return np.where((a >= b) | (a != a), a, b)  # which zero NumPy's maximum takes of 0.0 and −0.0 is not said


def _minimum(params: Params, a: Array, b: Array) -> Any:
    a, b = alike(a, b)
    return np.where((a <= b) | (a != a), a, b)


def _best_push(shares: ShareParams, params: Params, a: Any, b: Any, da: Any, db: Any) -> Any:
    return add(share(shares, a, b, da), share(shares, b, a, db))


def _best_pull(shares: ShareParams, params: Params, a: Any, b: Any, g: Any, needs: Needs = (True, True)) -> tuple[Any, Any]:
    return share(shares, a, b, g) if needs[0] else None, share(shares, b, a, g) if needs[1] else None


def _share(params: ShareParams, x: Array, other: Array, dx: Array) -> Any:
    dx = floats(dx)
    wins = (x > other if params.own == "max" else x < other) | ((x != x) & (other == other))
    ties = (x == other) | ((x != x) & (other != other))
    return np.where(wins, dx, np.where(ties, dx * np.asarray(0.5, dx.dtype), np.zeros((), dx.dtype)))


def _share_objects(params: ShareParams, x: Array, other: Array, dx: Array) -> Any:
    return by_cell(partial(share_cell, params.own), params, x, other, dx)


def _share_push(params: ShareParams, x: Any, other: Any, dx: Any, _: Any, __: Any, ddx: Any) -> Any:
    return share(params, x, other, ddx)


def _share_pull(params: ShareParams, x: Any, other: Any, dx: Any, g: Any) -> tuple[None, None, Any]:
    return None, None, share(params, x, other, g)


def _same(params: Params, x: Array) -> Array:
    return x


def _stop_push(params: Params, x: Any, dx: Any) -> Any:
    return masked(NOWHERE, dx)


def _stop_pull(params: Params, x: Any, g: Any) -> tuple[None]:
    return (None,)


NOWHERE = np.zeros((), bool)
STOP_GRADIENT = native_op("stop_gradient", EachParams, _same, partial(by_cell, still_cell), _stop_push, _stop_pull)
WHERE = native_op("where", WhereParams, _where, _where_objects, _where_push, _where_pull, inputs=("condition", "a", "b"))
MASK = native_op("mask", MaskParams, _mask, _mask_objects, _mask_push, _mask_pull, inputs=("condition", "dx"))
SHARE = native_op("share", ShareParams, _share, _share_objects, _share_push, _share_pull, inputs=("x", "other", "dx"))
MAXIMUM = native_op(
    "maximum",
    PairParams,
    _maximum,
    partial(by_cell, partial(best_cell, "max")),
    partial(_best_push, GREATEST),
    partial(_best_pull, GREATEST),
    inputs=("a", "b"),
)
MINIMUM = native_op(
    "minimum",
    PairParams,
    _minimum,
    partial(by_cell, partial(best_cell, "min")),
    partial(_best_push, LEAST),
    partial(_best_pull, LEAST),
    inputs=("a", "b"),
)
