"""Normalisation, and softmax, which normalises exponentials."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

from windowgrad import functional
from windowgrad.autograd import arrays
from windowgrad.autograd.arrays.normalise import inverse_root
from windowgrad.errors import OptionError, WindowError, show
from windowgrad.onnx.graph import Node
from windowgrad.onnx.kinds import number


def batch_normalization(node: Node, x: Any, scale: Any, bias: Any, mean: Any, var: Any) -> Any:
    """(x − mean) ÷ √(var + epsilon) · scale + bias, with one number of each per channel.

    In training mode mean and var are those of the batch, and "running_mean = input_mean * momentum + current_mean * (1 -
    momentum)" is a result, and so for var.
    """
    if node.opset < 14 and len(node.outputs) > 1:
        raise OptionError(f"outputs {show(node.outputs)}: training mode of an opset before 14 is not supported")
    if node.opset < 14 or not node.get("training_mode", 0):
        return normalised(node, x, scale, bias, mean, var)
    axes = [axis for axis in range(len(x.shape)) if axis != 1]
    now = arrays.mean(x, axes)
    apart = arrays.subtract(x, beside(now, x))
    spread = arrays.mean(arrays.multiply(apart, apart), axes)
    part = number(node.get("momentum", 0.9), x)
    kept = [arrays.add(arrays.multiply(old, part), arrays.multiply(new, 1 - part)) for old, new in ((mean, now), (var, spread))]
    return normalised(node, x, scale, bias, now, spread), *kept


def normalised(node: Node, x: Any, scale: Any, bias: Any, mean: Any, var: Any) -> Any:
    factor = arrays.multiply(scale, inverse_root(arrays.add(var, number(node.get("epsilon", 1e-5), x))))
    shift = arrays.subtract(bias, arrays.multiply(mean, factor))
    return arrays.add(arrays.multiply(x, beside(factor, x)), beside(shift, x))


def beside(channels: Any, x: Any) -> Any:
    """One number per channel, or per channel and cell (opset 7 with spatial=0), in the shape it has beside x."""
    shape, given = tuple(x.shape), tuple(channels.shape)
    if len(shape) < 2 or given not in ((shape[1],), shape[1:]):
        raise WindowError(f"an array of shape {given} beside X of shape {shape}: must have one number per channel, axis 1")
    return arrays.reshape(channels, given + (1,) * (len(shape) - 1 - len(given)))


def instance_normalization(node: Node, x: Any, scale: Any, bias: Any) -> Any:
    """Each plane with its own mean and variance."""
    axes = range(2, len(x.shape))
    apart = arrays.subtract(x, arrays.mean(x, tuple(axes), True))
    var = arrays.mean(arrays.multiply(apart, apart), tuple(axes), True)
    normal = arrays.multiply(apart, inverse_root(arrays.add(var, number(node.get("epsilon", 1e-5), x))))
    return arrays.add(arrays.multiply(normal, beside(scale, x)), beside(bias, x))


def lrn(node: Node, x: Any) -> Any:
    """ "Y[n, c, d1, ..., dk] = X[n, c, d1, ..., dk] / (bias + alpha / size * square_sum[n, c, d1, ..., dk]) ^ beta", where the
    sum of squares goes over the channels from c - floor((size - 1) / 2) to c + ceil((size - 1) / 2): a mean over `size`
    channels, in which those that are not there are zeros."""
    size, rank = node.get("size"), len(x.shape) - 2
    if rank < 0 or size < 1:
        raise WindowError(
            f"X of shape {tuple(x.shape)} and size={show(size)}: must have channels on axis 1, and a size of at least 1"
        )
    padding = [((size - 1) // 2, size // 2), *[(0, 0)] * rank]
    mean = functional.avg_pool(arrays.multiply(x, x), (size, *[1] * rank), 1, padding)
    alpha, beta, bias = (number(node.get(*said), x) for said in (("alpha", 1e-4), ("beta", 0.75), ("bias", 1.0)))
    return arrays.divide(x, arrays.power(arrays.add(arrays.multiply(mean, alpha), bias), beta))


def along(function: Callable[..., Any], node: Node, x: Any) -> Any:
    """Along one axis; before opset 13 "the input will be coerced into a 2D tensor", of which it is the second."""
    if node.opset >= 13:
        return function(x, node.get("axis", -1))
    shape, axis = tuple(x.shape), node.get("axis", 1)
    if not -len(shape) <= axis <= len(shape):
        raise WindowError(f"axis={show(axis)}: X of shape {shape} has no such axis")
    axis = axis + len(shape) if axis < 0 else axis
    rows = arrays.reshape(x, (math.prod(shape[:axis]), math.prod(shape[axis:])))
    return arrays.reshape(function(rows, 1), shape)


TABLE: dict[str, Callable[..., Any]] = {
    "BatchNormalization": batch_normalization,
    "InstanceNormalization": instance_normalization,
    "LRN": lrn,
    "LogSoftmax": partial(along, arrays.log_softmax),
    "Softmax": partial(along, arrays.softmax),
}
