"""The array operators (arithmetic, sums, shapes, matmul, losses) on JAX arrays, by JAX's own functions.

An entry of `FORWARD` is the forward rule on JAX arrays; jit, vmap, grad and all made of them see through what it is made of.
Values, dtypes and derivatives are those of NumPy arrays, also where JAX's function of that name has others: cells that tie
share a gradient, NaN wins and gets it, and the derivative of a kink is the one that the function's page says.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from functools import partial, reduce
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from windowgrad.bridges.jax.extremes import best, extreme
from windowgrad.bridges.jax.operands import Array, alike, cast, floats, is_seen, refuse_bools, wide_of
from windowgrad.dtypes import conv_dtype, float_of, is_float
from windowgrad.errors import KindError, OptionError, show
from windowgrad.params import Params

Axes = tuple[int, ...]


# --- cell by cell ------------------------------------------------------------------------------------------------


def pairwise(function: Callable[..., Array], params: Params, a: Array, b: Array) -> Array:
    return function(*alike(a, b))


def subtracted(params: Params, a: Array, b: Array) -> Array:
    refuse_bools("subtract", a, b)
    return pairwise(jnp.subtract, params, a, b)


def negated(params: Params, x: Array) -> Array:
    refuse_bools("negative", x)
    return jnp.negative(x)


def divided(params: Params, a: Array, b: Array) -> Array:
    if not is_float(a.dtype) and not is_float(b.dtype):
        a, b = cast(a, np.float64), cast(b, np.float64)
    return pairwise(jnp.divide, params, a, b)


def raised(params: Params, a: Array, b: Array) -> Array:
    a, b = alike(a, b)
    if a.dtype == bool:
        a, b = cast(a, np.int8), cast(b, np.int8)
    if not is_float(a.dtype) and is_seen(b) and bool((b < 0).any()):
        raise OptionError("b: an integer must not have a negative exponent; convert a to float")
    return jnp.power(a, b)


def of_floats(function: Callable[[Array], Array], params: Params, x: Array) -> Array:
    return function(floats(x))


def sigmoid(x: Array) -> Array:
    """1 ÷ (1 + e⁻ˣ) above 0 and eˣ ÷ (1 + eˣ) below: no exponent is positive, so no derivative overflows or is lost."""
    above = x > 0
    zero = jnp.zeros((), x.dtype)
    up, down = jnp.exp(-jnp.where(above, x, zero)), jnp.exp(jnp.where(above, zero, x))
    return jnp.where(above, 1 / (1 + up), down / (1 + down))


def relu(params: Params, x: Array) -> Array:
    return jnp.where(x <= 0, jnp.zeros((), x.dtype), x)


def relu6(params: Params, x: Array) -> Array:
    y = relu(params, x)
    return jnp.where(y >= 6, jnp.full((), 6, y.dtype), y)


def absolute(params: Params, x: Array) -> Array:
    """0 at 0, with the derivative 0; NaN has the derivative 1."""
    if x.dtype == bool:
        return x
    return jnp.where(x == 0, jnp.zeros((), x.dtype), jnp.where(x < 0, jnp.negative(x), x))


def signed(params: Params, x: Array) -> Array:
    """1, 0 or −1, with the derivative 0; NaN stays NaN."""
    refuse_bools("sign", x)
    still = lax.stop_gradient(x)
    return jnp.where(still == 0, jnp.zeros((), x.dtype), jnp.sign(still))


def erf(x: Array) -> Array:
    return cast(lax.erf(cast(x, wide_of(x.dtype))), x.dtype)


def inverse_root(x: Array) -> Array:
    return cast(1 / jnp.sqrt(cast(x, wide_of(x.dtype))), x.dtype)


def chosen(params: Params, condition: Array, a: Array, b: Array) -> Array:
    if condition.dtype != bool:
        raise KindError(f"condition: must be an array of bools, not of {condition.dtype}; write a comparison, such as x > 0")
    return jnp.where(condition, *alike(a, b))


# --- along axes --------------------------------------------------------------------------------------------------


def summed(params: Any, x: Array) -> Array:
    dtype = x.dtype if is_float(x.dtype) else np.uint64 if x.dtype.kind == "u" else np.int64
    return cast(jnp.sum(cast(x, wide_of(dtype)), params.axes(x.shape), keepdims=params.keepdims), dtype)


def averaged(x: Array, axes: Axes, keepdims: bool, count: int) -> Array:
    wide = wide_of(x.dtype) if is_float(x.dtype) else np.float64
    return cast(jnp.sum(cast(x, wide), axes, keepdims=keepdims) / count, float_of(x.dtype))


def mean(params: Any, x: Array) -> Array:
    return averaged(x, params.axes(x.shape), params.keepdims, params.count(x.shape))


def softmax(function: Callable[..., Array], axis: int, x: Array) -> Array:
    """Softmax or its logarithm; 16 bits in float32."""
    x = floats(x)
    return cast(function(cast(x, wide_of(x.dtype)), axis), x.dtype) if x.size else x


def multiplied(params: Params, a: Array, b: Array) -> Array:
    dtype = conv_dtype(a.dtype, b.dtype)
    return cast(jnp.matmul(cast(a, wide_of(dtype)), cast(b, wide_of(dtype)), precision="highest"), dtype)


def normalised(params: Any, x: Array, weight: Array, bias: Array) -> Array:
    """With the moments of the batch; 16 bits in float32."""
    dtype = reduce(conv_dtype, (float_of(each.dtype) for each in (x, weight, bias)))
    x, weight, bias = (cast(each, wide_of(dtype)) for each in (x, weight, bias))
    axes, beside = params.others(x.shape), params.beside(x.shape)
    apart = x - jnp.mean(x, axes, keepdims=True)
    root = 1 / jnp.sqrt(jnp.mean(apart * apart, axes, keepdims=True) + float(params.eps))
    return cast(apart * root * weight.reshape(beside) + bias.reshape(beside), dtype)


# --- losses ------------------------------------------------------------------------------------------------------


def picked(x: Array, labels: Array) -> Array:
    """From each row the cell of its label. One that is out of range is refused, or where it is traced gives NaN."""
    if labels.dtype.kind not in "iu":
        raise KindError(f"labels: must be integers, not {labels.dtype}")
    wrong = (labels < 0) | (labels >= x.shape[-1])
    if is_seen(labels) and bool(wrong.any()):
        where = tuple(map(int, np.argwhere(np.asarray(wrong))[0]))
        raise OptionError(f"labels: {show(int(labels[where]))} at {where}, must be from 0 to {x.shape[-1] - 1}")
    found = jnp.take_along_axis(x, jnp.where(wrong, 0, labels)[..., None], axis=-1)[..., 0]
    return jnp.where(wrong, jnp.full((), np.nan, x.dtype), found)


def cross_entropy(params: Params, logits: Array, labels: Array) -> Array:
    likely = picked(softmax(jax.nn.log_softmax, -1, logits), labels)
    return averaged(jnp.negative(likely), tuple(range(likely.ndim)), False, likely.size)


def mse(params: Params, x: Array, target: Array) -> Array:
    x, target = floats(x), floats(target)
    dtype = conv_dtype(x.dtype, target.dtype)
    apart = cast(x, wide_of(dtype)) - cast(target, wide_of(dtype))
    return cast(averaged(apart * apart, tuple(range(x.ndim)), False, x.size), dtype)


# --- shapes ------------------------------------------------------------------------------------------------------


def reshaped(params: Params, x: Array) -> Array:
    return x.reshape(params.out_shape(x.shape))


def joined(function: Callable[..., Array], params: Any, *xs: Array) -> Array:
    return function(alike(*xs), axis=params.axis)


FORWARD: dict[str, Callable[..., Array]] = {
    "add": partial(pairwise, jnp.add),
    "subtract": subtracted,
    "multiply": partial(pairwise, jnp.multiply),
    "divide": divided,
    "negative": negated,
    "matmul": multiplied,
    "sum": summed,
    "mean": mean,
    "max": partial(extreme, jnp.argmax),
    "min": partial(extreme, jnp.argmin),
    "abs": absolute,
    "reshape": reshaped,
    "flatten": reshaped,
    "transpose": lambda params, x: x.transpose(params.order(x.shape)),
    "relu": relu,
    "relu6": relu6,
    "exp": partial(of_floats, jnp.exp),
    "log": partial(of_floats, jnp.log),
    "tanh": partial(of_floats, jnp.tanh),
    "sigmoid": partial(of_floats, sigmoid),
    "erf": partial(of_floats, erf),
    "sign": signed,
    "sqrt": partial(of_floats, jnp.sqrt),
    "inverse_root": partial(of_floats, inverse_root),
    "power": raised,
    "maximum": partial(best, operator.gt),
    "minimum": partial(best, operator.lt),
    "where": chosen,
    "stop_gradient": lambda params, x: lax.stop_gradient(x),
    "concatenate": partial(joined, jnp.concatenate),
    "stack": partial(joined, jnp.stack),
    "softmax": lambda params, x: softmax(jax.nn.softmax, params.axis, x),
    "log_softmax": lambda params, x: softmax(jax.nn.log_softmax, params.axis, x),
    "cross_entropy": cross_entropy,
    "mse": mse,
    "index": lambda params, x: x[params.raw],
    "batch_norm": normalised,
    "cast": lambda params, x: cast(x, params.dtype),
    "broadcast_to": lambda params, x: jnp.broadcast_to(x, params.shape),
}
"""By operator: its forward rule on JAX arrays."""
