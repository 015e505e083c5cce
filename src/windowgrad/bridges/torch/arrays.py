"""The array operators (arithmetic, sums, shapes, matmul, losses) on tensors, by PyTorch's own functions.

An entry of `FORWARD` is the forward rule on tensors; PyTorch differentiates, batches and compiles what it is made of. Values,
dtypes and derivatives are those of NumPy arrays, also where PyTorch's function of that name has others: cells that tie share
a gradient, NaN wins and gets it, and the derivative of a kink is the one that the function's page says. NumPy arrays beside
tensors are constants.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from functools import partial, reduce
from typing import Any

import numpy as np
import torch

from windowgrad.bridges.torch.extremes import best, extreme
from windowgrad.bridges.torch.memory import TENSORS, numpy_dtype
from windowgrad.bridges.torch.operands import (
    Tensor,
    alike,
    as_tensor,
    float_dtype,
    floats,
    is_seen,
    product_dtype,
    refuse_bools,
    wide_of,
)
from windowgrad.checks import argument_names
from windowgrad.errors import KindError, OptionError, show
from windowgrad.params import Params
from windowgrad.spec.op import Op

Axes = tuple[int, ...]


def compute(op: Op, rule: str, params: Params, arrays: Sequence[Any]) -> Tensor:
    """The forward rule, after the checks that NumPy arrays get. There is no other rule: PyTorch has its own."""
    names = argument_names(op, rule, len(arrays))
    if rule != "forward" or op.name not in FORWARD:
        raise KindError(f"{op.name}.{rule}: not supported on PyTorch tensors, which torch.autograd differentiates")
    device = next(array.device for array in arrays if isinstance(array, Tensor))
    tensors = [as_tensor(name, array, device) for name, array in zip(names, arrays, strict=True)]
    shapes = [tuple(tensor.shape) for tensor in tensors]
    params.out_shape(*shapes)
    params.check(*shapes)
    try:
        return FORWARD[op.name](params, *tensors)
    except NotImplementedError as error:
        kinds = " and ".join(str(tensor.dtype) for tensor in tensors)
        raise KindError(f"{op.name}: PyTorch does not compute with {kinds}; convert it first, for example to int64") from error


# --- cell by cell ------------------------------------------------------------------------------------------------


def pairwise(function: Callable[..., Tensor], params: Params, a: Tensor, b: Tensor) -> Tensor:
    return function(*alike(a, b))


def subtracted(params: Params, a: Tensor, b: Tensor) -> Tensor:
    refuse_bools("subtract", a, b)
    return pairwise(torch.subtract, params, a, b)


def negated(params: Params, x: Tensor) -> Tensor:
    refuse_bools("negative", x)
    return torch.negative(x)


def divided(params: Params, a: Tensor, b: Tensor) -> Tensor:
    if not a.is_floating_point() and not b.is_floating_point():
        a, b = a.double(), b.double()
    return pairwise(torch.divide, params, a, b)


def raised(params: Params, a: Tensor, b: Tensor) -> Tensor:
    a, b = alike(a, b)
    if a.dtype == torch.bool:
        a, b = a.to(torch.int8), b.to(torch.int8)
    if not a.is_floating_point() and is_seen(b) and bool((b < 0).any()):
        raise OptionError("b: an integer must not have a negative exponent; convert a to float")
    return torch.pow(a, b)


def of_floats(function: Callable[[Tensor], Tensor], params: Params, x: Tensor) -> Tensor:
    return function(floats(x))


def sigmoid(x: Tensor) -> Tensor:
    """1 ÷ (1 + e⁻ˣ) above 0 and eˣ ÷ (1 + eˣ) below: no exponent is positive, so no derivative overflows or is lost."""
    above = x > 0
    zero = x.new_zeros(())
    up, down = torch.exp(-torch.where(above, x, zero)), torch.exp(torch.where(above, zero, x))
    return torch.where(above, 1 / (1 + up), down / (1 + down))


def relu(params: Params, x: Tensor) -> Tensor:
    return torch.where(x <= 0, x.new_zeros(()), x)


def relu6(params: Params, x: Tensor) -> Tensor:
    y = relu(params, x)
    return torch.where(y >= 6, y.new_full((), 6), y)


def absolute(params: Params, x: Tensor) -> Tensor:
    """0 at 0, with the derivative 0; NaN has the derivative 1."""
    if x.dtype == torch.bool:
        return x
    return torch.where(x == 0, x.new_zeros(()), torch.where(x < 0, torch.negative(x), x))


def signed(params: Params, x: Tensor) -> Tensor:
    """1, 0 or −1, with the derivative 0; NaN stays NaN."""
    refuse_bools("sign", x)
    return torch.where(x != x, x.detach(), torch.sign(x))


def erf(x: Tensor) -> Tensor:
    return torch.erf(x.to(wide_of(x.dtype))).to(x.dtype)


def inverse_root(x: Tensor) -> Tensor:
    return (1 / torch.sqrt(x.to(wide_of(x.dtype)))).to(x.dtype)


def chosen(params: Params, condition: Tensor, a: Tensor, b: Tensor) -> Tensor:
    if condition.dtype != torch.bool:
        raise KindError(f"condition: must be a tensor of bools, not of {condition.dtype}; write a comparison, such as x > 0")
    a, b = alike(a, b)
    return torch.where(condition, a, b)


# --- along axes --------------------------------------------------------------------------------------------------


def total(x: Tensor, axes: Axes, keepdims: bool) -> Tensor:
    return torch.sum(x, axes, keepdims) if axes else x  # by no axes PyTorch means all


def summed(params: Any, x: Tensor) -> Tensor:
    dtype = x.dtype if x.is_floating_point() else torch.int64
    y = total(x.to(wide_of(dtype)), params.axes(tuple(x.shape)), params.keepdims)
    return y.to(torch.uint64 if numpy_dtype(x.dtype).kind == "u" else dtype)


def averaged(x: Tensor, axes: Axes, keepdims: bool, count: int) -> Tensor:
    wide = wide_of(x.dtype) if x.is_floating_point() else torch.float64
    return (total(x.to(wide), axes, keepdims) / count).to(float_dtype(x.dtype))


def mean(params: Any, x: Tensor) -> Tensor:
    shape = tuple(x.shape)
    return averaged(x, params.axes(shape), params.keepdims, params.count(shape))


def softmax(function: Callable[..., Tensor], axis: int, x: Tensor) -> Tensor:
    """Softmax or its logarithm; 16 bits in float32."""
    x = floats(x)
    return function(x.to(wide_of(x.dtype)), axis).to(x.dtype)


def multiplied(params: Params, a: Tensor, b: Tensor) -> Tensor:
    dtype = product_dtype(a.dtype, b.dtype)
    return torch.matmul(a.to(wide_of(dtype)), b.to(wide_of(dtype))).to(dtype)


def normalised(params: Any, x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """With the moments of the batch; PyTorch has the channels on axis 1, and sums in float64."""
    dtype = reduce(product_dtype, (float_dtype(each.dtype) for each in (x, weight, bias)))
    x, weight, bias = (each.to(wide_of(dtype)) for each in (x, weight, bias))
    rows = x.movedim(params.axis, 1) if x.ndim > 1 else x[None]
    y = torch.batch_norm(rows, weight, bias, None, None, True, 0.0, float(params.eps), False)
    return (y.movedim(1, params.axis) if x.ndim > 1 else y[0]).to(dtype)


# --- losses ------------------------------------------------------------------------------------------------------


def picked(x: Tensor, labels: Tensor) -> Tensor:
    """From each row the cell of its label. Where labels cannot be looked at, PyTorch refuses one that is out of range."""
    if numpy_dtype(labels.dtype).kind not in "iu":
        raise KindError(f"labels: must be integers, not {labels.dtype}")
    labels = labels.to(torch.int64)
    if is_seen(labels):
        wrong = (labels < 0) | (labels >= x.shape[-1])
        if bool(wrong.any()):
            where = tuple(map(int, torch.argwhere(wrong)[0]))
            raise OptionError(f"labels: {show(int(labels[where]))} at {where}, must be from 0 to {x.shape[-1] - 1}")
    return torch.gather(x, -1, labels[..., None])[..., 0]


def cross_entropy(params: Params, logits: Tensor, labels: Tensor) -> Tensor:
    likely = picked(softmax(torch.log_softmax, -1, logits), labels)
    return averaged(torch.negative(likely), tuple(range(likely.ndim)), False, likely.numel())


def mse(params: Params, x: Tensor, target: Tensor) -> Tensor:
    x, target = floats(x), floats(target)
    dtype = product_dtype(x.dtype, target.dtype)
    apart = x.to(wide_of(dtype)) - target.to(wide_of(dtype))
    return averaged(apart * apart, tuple(range(x.ndim)), False, x.numel()).to(dtype)


# --- shapes ------------------------------------------------------------------------------------------------------


def reshaped(params: Params, x: Tensor) -> Tensor:
    return x.reshape(params.out_shape(tuple(x.shape)))


def transposed(params: Any, x: Tensor) -> Tensor:
    return x.permute(params.order(tuple(x.shape)))


def repeated(params: Any, x: Tensor) -> Tensor:
    return x.expand(params.shape)


def cast(params: Any, x: Tensor) -> Tensor:
    if isinstance(params.dtype, torch.dtype):
        return x.to(params.dtype)
    dtype = np.dtype(params.dtype)  # torch.compile makes it a string
    return x.to(torch.bfloat16 if dtype.name == "bfloat16" else TENSORS[dtype])


def joined(function: Callable[..., Tensor], params: Any, *xs: Tensor) -> Tensor:
    return function(alike(*xs), params.axis)


def indexed(params: Any, x: Tensor) -> Tensor:
    """x[key]. PyTorch has no slices that go backwards, and takes an integer beside an array for a slice of one cell."""
    shape = params.out_shape(tuple(x.shape))
    has_arrays = any(isinstance(entry, np.ndarray) for entry in params.raw)
    key: list[Any] = []
    axis = 0
    for entry in params.raw:
        if entry is None or entry is Ellipsis:
            key.append(None)  # which keeps arrays apart too; `shape` does not have its axis
            continue
        if isinstance(entry, slice):
            cells = range(*entry.indices(x.shape[axis]))
            if cells.step < 0:
                x = x.index_select(axis, torch.tensor(list(cells), dtype=torch.int64, device=x.device))
                entry = slice(None)
        elif has_arrays:
            entry = torch.tensor(entry, device=x.device).reshape(np.shape(entry) or (1,))
        key.append(entry)
        axis += 1
    return x[tuple(key)].reshape(shape)


FORWARD: dict[str, Callable[..., Tensor]] = {
    "add": partial(pairwise, torch.add),
    "subtract": subtracted,
    "multiply": partial(pairwise, torch.multiply),
    "divide": divided,
    "negative": negated,
    "matmul": multiplied,
    "sum": summed,
    "mean": mean,
    "max": partial(extreme, torch.argmax),
    "min": partial(extreme, torch.argmin),
    "abs": absolute,
    "reshape": reshaped,
    "flatten": reshaped,
    "transpose": transposed,
    "relu": relu,
    "relu6": relu6,
    "exp": partial(of_floats, torch.exp),
    "log": partial(of_floats, torch.log),
    "tanh": partial(of_floats, torch.tanh),
    "sigmoid": partial(of_floats, sigmoid),
    "erf": partial(of_floats, erf),
    "sign": signed,
    "sqrt": partial(of_floats, torch.sqrt),
    "inverse_root": partial(of_floats, inverse_root),
    "power": raised,
    "maximum": partial(best, operator.gt),
    "minimum": partial(best, operator.lt),
    "where": chosen,
    "stop_gradient": lambda params, x: x.detach(),
    "concatenate": partial(joined, torch.cat),
    "stack": partial(joined, torch.stack),
    "softmax": lambda params, x: softmax(torch.softmax, params.axis, x),
    "log_softmax": lambda params, x: softmax(torch.log_softmax, params.axis, x),
    "cross_entropy": cross_entropy,
    "mse": mse,
    "index": indexed,
    "batch_norm": normalised,
    "cast": cast,
    "broadcast_to": repeated,
}
"""By operator: its forward rule on tensors."""
