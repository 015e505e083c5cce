"""Softmax and loss functions: log_softmax, cross_entropy and mse. None of them overflows."""

from __future__ import annotations

import math
from numbers import Integral
from typing import Any, TypeVar

import numpy as np

from windowgrad.autograd.arrays.arithmetic import multiply, negative, subtract
from windowgrad.autograd.arrays.functions import exp_cell, floats, log_cell
from windowgrad.autograd.arrays.operands import operand, operands
from windowgrad.autograd.arrays.records import CrossEntropyParams, MseParams, PickParams, PlaceParams, SoftmaxParams
from windowgrad.autograd.arrays.reductions import averaged, averaged_objects, divided, mean
from windowgrad.autograd.arrays.reductions import sum as total
from windowgrad.autograd.arrays.rules import Array, added, cast, native_op, repeated_like
from windowgrad.dispatch import run
from windowgrad.dtypes import conv_dtype, float_of
from windowgrad.errors import KindError, OptionError, WindowgradError, show
from windowgrad.functional.call import show_call
from windowgrad.functional.remember import remember
from windowgrad.params import Params
from windowgrad.spec import order, scalar

A = TypeVar("A")


def softmax(x: A, axis: int = -1) -> A:
    """exp(x) ÷ Σ exp(x) along `axis`: positive numbers whose sum is 1.

    >>> wg.softmax(np.array([1000.0, 1000.0, 0.0]))
    array([0.5, 0.5, 0. ])
    """
    try:
        y: A = run(SOFTMAX, "forward", softmax_params(axis), operand(x))
        return y
    except WindowgradError as error:
        show_call(error, softmax, locals())
        raise


def log_softmax(x: A, axis: int = -1) -> A:
    """The logarithm of the softmax, x − log Σ exp(x), along `axis`."""
    try:
        y: A = run(LOG_SOFTMAX, "forward", softmax_params(axis), operand(x))
        return y
    except WindowgradError as error:
        show_call(error, log_softmax, locals())
        raise


def cross_entropy(logits: A, labels: Any) -> A:
    """The mean of −log_softmax(logits)[label] over all rows; a label is an integer from 0 to classes − 1."""
    try:
        y: A = run(CROSS_ENTROPY, "forward", CROSS_PARAMS, operand(logits), operand(labels))
        return y
    except WindowgradError as error:
        show_call(error, cross_entropy, locals())
        raise


def mse(x: Any, target: Any) -> Any:
    """The mean squared error: the mean of (x − target)² over all elements."""
    try:
        return run(MSE, "forward", MSE_PARAMS, *operands(x, target, ("x", "target")))
    except WindowgradError as error:
        show_call(error, mse, locals())
        raise


def pick(x: Any, labels: Any) -> Any:
    """From each row of x, the cell that its label names."""
    return run(PICK, "forward", PICK_PARAMS, x, labels)


def place(x: Any, labels: Any, classes: int) -> Any:
    """The adjoint of `pick`: each cell in a row of zeros."""
    return run(PLACE, "forward", PlaceParams(classes), x, labels)


softmax_params = remember(SoftmaxParams)
CROSS_PARAMS, MSE_PARAMS, PICK_PARAMS = CrossEntropyParams(), MseParams(), PickParams()


# --- softmax -----------------------------------------------------------------------------------------------------


def below_top(params: SoftmaxParams, x: Array) -> Any:
    """x less its greatest along the axis; floats of 16 bits as float32."""
    wide = x.astype(np.float32) if x.dtype.itemsize == 2 else x
    return wide - wide.max(axis=params.axis, keepdims=True)


def below_top_objects(params: SoftmaxParams, x: Array) -> Any:
    return x - np.frompyfunc(greatest, 2, 1).reduce(x, axis=params.axis, keepdims=True)


def _softmax(params: SoftmaxParams, x: Array) -> Any:
    x = floats(x)
    if not x.size:
        return x
    weights = np.exp(below_top(params, x))
    return (weights / added(weights, axis=params.axis, keepdims=True)).astype(x.dtype, copy=False)


def _softmax_objects(params: SoftmaxParams, x: Array) -> Any:
    if not x.size:
        return x
    weights = each(exp_cell, below_top_objects(params, x))
    return weights / np.add.reduce(weights, axis=params.axis, keepdims=True)


def _softmax_push(params: SoftmaxParams, x: Any, dx: Any) -> Any:
    y = softmax(x, params.axis)
    return multiply(y, subtract(dx, total(multiply(y, dx), params.axis, True)))


def _softmax_pull(params: SoftmaxParams, x: Any, g: Any) -> tuple[Any]:
    return (_softmax_push(params, x, g),)  # its Jacobian is symmetric


def _log_softmax(params: SoftmaxParams, x: Array) -> Any:
    x = floats(x)
    if not x.size:
        return x
    rest = below_top(params, x)
    y = rest - np.log(added(np.exp(rest), axis=params.axis, keepdims=True))
    return y.astype(x.dtype, copy=False)


def _log_softmax_objects(params: SoftmaxParams, x: Array) -> Any:
    if not x.size:
        return x
    rest = below_top_objects(params, x)
    return rest - each(log_cell, np.add.reduce(each(exp_cell, rest), axis=params.axis, keepdims=True))


def greatest(a: Any, b: Any) -> Any:
    return order.extreme((a, b), scalar.greater, "max")


def each(function: Any, x: Array) -> Any:
    return np.frompyfunc(function, 1, 1)(x)


def _log_softmax_push(params: SoftmaxParams, x: Any, dx: Any) -> Any:
    return subtract(dx, total(multiply(softmax(x, params.axis), dx), params.axis, True))


def _log_softmax_pull(params: SoftmaxParams, x: Any, g: Any) -> tuple[Any]:
    return (subtract(g, multiply(softmax(x, params.axis), total(g, params.axis, True))),)


# --- labels ------------------------------------------------------------------------------------------------------


def checked(labels: Array, classes: int) -> Array:
    """The labels as indices, all of them in range."""
    if labels.dtype.kind == "O" and all(isinstance(label, Integral) for label in labels.reshape(-1)):
        try:
            labels = labels.astype(np.int64)
        except OverflowError:
            raise OptionError(f"labels: must be from 0 to {classes - 1}, one does not fit into 64 bits") from None
    if labels.dtype.kind not in "iu":
        raise KindError(f"labels: must be integers, not {labels.dtype}")
    wrong = (labels < 0) | (labels >= classes)
    if wrong.any():
        where = tuple(map(int, np.argwhere(wrong)[0]))
        raise OptionError(f"labels: {show(int(labels[where]))} at {where}, must be from 0 to {classes - 1}")
    return labels.astype(np.intp, copy=False)[..., None]


def _pick(params: Params, x: Array, labels: Array) -> Any:
    return np.take_along_axis(x, checked(labels, x.shape[-1]), axis=-1)[..., 0]


def _pick_push(params: Params, x: Any, labels: Any, dx: Any, _: Any) -> Any:
    return pick(dx, labels)


def _pick_pull(params: Params, x: Any, labels: Any, g: Any) -> tuple[Any, None]:
    return place(g, labels, x.shape[-1]), None


def _place(params: PlaceParams, x: Array, labels: Array) -> Any:
    rows = np.zeros((*x.shape, params.classes), x.dtype)
    np.put_along_axis(rows, checked(labels, params.classes), x[..., None], axis=-1)
    return rows


def _place_objects(params: PlaceParams, x: Array, labels: Array) -> Any:
    rows = scalar.zeros((*x.shape, params.classes), like=x)
    np.put_along_axis(rows, checked(labels, params.classes), x[..., None], axis=-1)
    return rows


def _place_push(params: PlaceParams, x: Any, labels: Any, dx: Any, _: Any) -> Any:
    return place(dx, labels, params.classes)


def _place_pull(params: Params, x: Any, labels: Any, g: Any) -> tuple[Any, None]:
    return pick(g, labels), None


# --- cross_entropy -----------------------------------------------------------------------------------------------

LAST = SoftmaxParams(-1)


def _cross_entropy(params: Params, logits: Array, labels: Array) -> Any:
    likely = _pick(params, _log_softmax(LAST, logits), labels)
    return averaged(-likely, tuple(range(likely.ndim)), False, likely.size)


def _cross_entropy_objects(params: Params, logits: Array, labels: Array) -> Any:
    likely = np.asarray(_pick(params, _log_softmax_objects(LAST, logits), labels))
    return averaged_objects(-likely, tuple(range(likely.ndim)), False, likely.size)


def _cross_entropy_composed(params: Params, logits: Any, labels: Any) -> Any:
    return mean(negative(pick(log_softmax(logits), labels)))


def _cross_entropy_push(params: Params, logits: Any, labels: Any, dlogits: Any, _: Any) -> Any:
    expected = total(multiply(softmax(logits, -1), dlogits), -1)
    return mean(subtract(expected, pick(dlogits, labels)))


def _cross_entropy_pull(params: Params, logits: Any, labels: Any, g: Any) -> tuple[Any, None]:
    """g ÷ rows · (softmax − one at the label)."""
    share = divided(g, math.prod(labels.shape))
    right = place(repeated_like(share, labels), labels, logits.shape[-1])
    return subtract(multiply(share, softmax(logits, -1)), right), None


# --- mse ---------------------------------------------------------------------------------------------------------


def _mse(params: Params, x: Array, target: Array) -> Any:
    x, target = floats(x), floats(target)
    dtype = conv_dtype(x.dtype, target.dtype)
    wide = np.float32 if dtype.itemsize == 2 else dtype
    apart = np.asarray(np.subtract(x, target, dtype=wide))
    np.multiply(apart, apart, out=apart)
    return np.asarray(averaged(apart, tuple(range(x.ndim)), False, x.size), dtype=dtype)


def _mse_objects(params: Params, x: Array, target: Array) -> Any:
    apart = np.asarray(x - target, dtype=object)
    return averaged_objects(np.asarray(apart * apart, dtype=object), tuple(range(x.ndim)), False, x.size)


def _mse_composed(params: Params, x: Any, target: Any) -> Any:
    if object in (x.dtype, target.dtype):
        apart = subtract(x, target)
        return mean(multiply(apart, apart))
    dtype = conv_dtype(float_of(x.dtype), float_of(target.dtype))
    wide = np.dtype(np.float32) if dtype.itemsize == 2 else dtype
    apart = subtract(cast(x, wide), cast(target, wide))
    return cast(mean(multiply(apart, apart)), dtype)


def _mse_push(params: Params, x: Any, target: Any, dx: Any, dtarget: Any) -> Any:
    return multiply(2, mean(multiply(difference(x, target), subtract(dx, dtarget))))


def _mse_pull(params: Params, x: Any, target: Any, g: Any, needs: tuple[bool, ...] = (True, True)) -> tuple[Any, Any]:
    gx = multiply(divided(multiply(2, g), math.prod(x.shape)), difference(x, target))
    return gx, negative(gx) if needs[1] else None


def difference(x: Any, target: Any) -> Any:
    """Integers as floats, for the unsigned ones have no difference."""
    return subtract(*(cast(a, float_of(a.dtype)) if a.dtype.kind in "biu" else a for a in (x, target)))


SOFTMAX = native_op("softmax", SoftmaxParams, _softmax, _softmax_objects, _softmax_push, _softmax_pull, exact=False)
LOG_SOFTMAX = native_op(
    "log_softmax", SoftmaxParams, _log_softmax, _log_softmax_objects, _log_softmax_push, _log_softmax_pull, exact=False
)
PICK = native_op("pick", PickParams, _pick, _pick, _pick_push, _pick_pull, inputs=("x", "labels"))
PLACE = native_op("place", PlaceParams, _place, _place_objects, _place_push, _place_pull, inputs=("x", "labels"))
CROSS_ENTROPY = native_op(
    "cross_entropy",
    CrossEntropyParams,
    _cross_entropy,
    _cross_entropy_objects,
    _cross_entropy_push,
    _cross_entropy_pull,
    exact=False,
    inputs=("logits", "labels"),
    composed=_cross_entropy_composed,
)
MSE = native_op("mse", MseParams, _mse, _mse_objects, _mse_push, _mse_pull, inputs=("x", "target"), composed=_mse_composed)
