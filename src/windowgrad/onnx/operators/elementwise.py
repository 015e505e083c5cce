"""Operators that compute each cell by itself, or pairs of cells of arrays that are broadcast together."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial, reduce
from typing import Any

import numpy as np

from windowgrad import functional
from windowgrad.autograd import arrays
from windowgrad.autograd.arrays.rules import cast
from windowgrad.errors import OptionError, WindowError, show
from windowgrad.onnx.graph import Node
from windowgrad.onnx.kinds import number
from windowgrad.onnx.operators import values
from windowgrad.onnx.operators.values import known

# --- activations ---------------------------------------------------------------------------------------------------------


def each(function: Callable[[Any], Any], node: Node, x: Any) -> Any:
    """A function of this project, as it is."""
    return function(x)


def leaky_relu(node: Node, x: Any) -> Any:
    return sloped(x, number(node.get("alpha", 0.01), x))


def prelu(node: Node, x: Any, slope: Any) -> Any:
    """The slope is broadcast to x, and not the other way round."""
    wanted, given = tuple(x.shape), tuple(slope.shape)
    if len(given) > len(wanted) or any(n not in (1, m) for n, m in zip(given[::-1], wanted[::-1], strict=False)):
        raise WindowError(f"slope of shape {given}: must be broadcast to {wanted}, the shape of X")
    return sloped(x, slope)


def sloped(x: Any, slope: Any) -> Any:
    """x above 0, and slope · x below."""
    return arrays.subtract(arrays.relu(x), arrays.multiply(slope, arrays.relu(arrays.negative(x))))


def clip(node: Node, x: Any, low: Any = None, high: Any = None) -> Any:
    """ "When 'min' is greater than 'max', the clip operator sets all the 'input' values to the value of 'max'." """
    if node.opset < 11:
        low, high = (None if node.get(name) is None else number(node.get(name), x) for name in ("min", "max"))
    return x if low is None and high is None else arrays.clip(x, low, high)


def hard_sigmoid(node: Node, x: Any) -> Any:
    alpha, beta = number(node.get("alpha", 0.2), x), number(node.get("beta", 0.5), x)
    return arrays.clip(arrays.add(arrays.multiply(x, alpha), beta), 0, 1)


def hard_swish(node: Node, x: Any) -> Any:
    """x · max(0, min(1, x ÷ 6 + ½))."""
    return arrays.multiply(x, arrays.clip(arrays.add(arrays.divide(x, 6), number(0.5, x)), 0, 1))


def elu(node: Node, x: Any) -> Any:
    """x above 0, and alpha · (exp(x) − 1) below. At 0 its derivative is the mean of both sides: 1, if alpha is."""
    below = arrays.subtract(arrays.exp(arrays.minimum(x, 0)), 1)
    return arrays.add(arrays.maximum(x, 0), arrays.multiply(below, number(node.get("alpha", 1.0), x)))


def softplus(node: Node, x: Any) -> Any:
    """log(exp(x) + exp(0)): a smooth maximum of x and a padded cell, which is a zero. It never overflows."""
    if 0 in x.shape:
        return x
    row = arrays.reshape(x, (1, math.prod(x.shape)))
    return arrays.reshape(functional.smooth_max_pool(row, (2, 1), 1, [(0, 1), (0, 0)], beta=1), tuple(x.shape))


def gelu(node: Node, x: Any) -> Any:
    """x times the normal distribution up to x, or what "tanh" approximates it by."""
    how = node.get("approximate", "none")
    if how not in ("none", "tanh"):
        raise OptionError(f"approximate={show(how)}: must be none or tanh")
    if how == "tanh":
        cube = arrays.multiply(arrays.multiply(x, x), arrays.multiply(x, 0.044715))
        inner = arrays.tanh(arrays.multiply(arrays.add(x, cube), math.sqrt(2 / math.pi)))
    else:
        inner = arrays.erf(arrays.multiply(x, math.sqrt(0.5)))
    return arrays.multiply(arrays.multiply(x, 0.5), arrays.add(inner, 1))


# --- arithmetic ----------------------------------------------------------------------------------------------------------


def pair(function: Callable[[Any, Any], Any], node: Node, a: Any, b: Any) -> Any:
    return function(a, b)


def folded(function: Callable[[Any, Any], Any], node: Node, *xs: Any) -> Any:
    """Of any number of arrays."""
    return reduce(function, xs)


def is_whole(x: Any) -> bool:
    """Whether it is an array of integers (or bools), whose arithmetic is another one."""
    dtype = getattr(x, "dtype", None)
    return dtype.kind in "biu" if isinstance(dtype, np.dtype) else not getattr(dtype, "is_floating_point", True)


def div(node: Node, a: Any, b: Any) -> Any:
    """Of integers, "the result is truncated": towards zero."""
    if not (is_whole(a) and is_whole(b)):
        return arrays.divide(a, b)
    over, under = values.numbers("A", a), values.numbers("B", b)
    if isinstance(under, np.ndarray) and not under.all():
        raise OptionError("B has a zero: integers cannot be divided by it")
    with np.errstate(over="ignore"):  # the least integer, divided by −1
        quotient = over // under
    return quotient + ((over % under != 0) & ((over < 0) != (under < 0))).astype(quotient.dtype)


def power(node: Node, x: Any, y: Any) -> Any:
    """The result has the dtype of X."""
    if not is_whole(x):
        return arrays.power(x, in_dtype_of(x, y))
    base, exponent = known("X", x), known("Y", y)
    if is_whole(exponent) and (exponent < 0).any():  # NumPy refuses to take it of integers
        exponent = exponent.astype(np.float64)
    with np.errstate(all="ignore"):  # what is no integer becomes one somehow
        return np.power(base, exponent).astype(base.dtype)


def in_dtype_of(x: Any, y: Any) -> Any:
    """Integers beside floats as floats of that dtype; all else as it is."""
    dtype = values.dtype_in(x)
    return cast(y, dtype) if is_whole(y) and dtype.kind != "O" else y


def dropout(node: Node, x: Any, ratio: Any = None, training: Any = None) -> Any:
    """Nothing is dropped: `x` and a mask of ones."""
    part = node.get("ratio", 0.5) if ratio is None else float(values.number("ratio", ratio))
    if training is not None and values.number("training_mode", training) and part:
        raise OptionError(f"training_mode is true with ratio={part}: only inference is supported, it has no random numbers")
    if len(node.outputs) < 2:
        return x
    return x, np.ones(tuple(x.shape), bool if node.opset >= 10 else x.dtype)


ALONE = {
    "Abs": arrays.abs,
    "Erf": arrays.erf,
    "Exp": arrays.exp,
    "Identity": lambda x: x,
    "Log": arrays.log,
    "Neg": arrays.negative,
    "Relu": arrays.relu,
    "Sigmoid": arrays.sigmoid,
    "Sign": arrays.sign,
    "Sqrt": arrays.sqrt,
    "Tanh": arrays.tanh,
}
PAIRS = {"Add": arrays.add, "Mul": arrays.multiply, "Sub": arrays.subtract}
SEVERAL = {"Max": arrays.maximum, "Min": arrays.minimum, "Sum": arrays.add}

TABLE: dict[str, Callable[..., Any]] = {
    "Clip": clip,
    "Div": div,
    "Dropout": dropout,
    "Elu": elu,
    "Gelu": gelu,
    "HardSigmoid": hard_sigmoid,
    "HardSwish": hard_swish,
    "LeakyRelu": leaky_relu,
    "PRelu": prelu,
    "Pow": power,
    "Softplus": softplus,
    **{name: partial(each, function) for name, function in ALONE.items()},
    **{name: partial(pair, function) for name, function in PAIRS.items()},
    **{name: partial(folded, function) for name, function in SEVERAL.items()},
}
