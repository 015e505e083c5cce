"""One number along axes: ReduceSum, ReduceMean, ReduceMax and ReduceMin."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from windowgrad.autograd import arrays as wg
from windowgrad.autograd.arrays.rules import cast
from windowgrad.dtypes import is_float
from windowgrad.onnx.graph import Node
from windowgrad.onnx.operators.values import all_axes, dtype_in, given, numbers

Axes = tuple[int, ...]


def reduced(reduce: Callable[[Any, Axes, bool], Any], node: Node, x: Any, axes: Any = None) -> Any:
    """Over the axes that an input or an attribute names, or over all. The dtype stays."""
    wanted, keepdims = given(node, "axes", axes), bool(node.get("keepdims", 1))
    if not wanted and node.get("noop_with_empty_axes", 0):
        return x
    return reduce(x, all_axes(wanted or None, x.shape), keepdims)


def total(x: Any, axes: Axes, keepdims: bool) -> Any:
    y = wg.sum(x, axes, keepdims)
    dtype = dtype_in(x)
    return y if dtype.kind == "O" or is_float(dtype) else cast(y, dtype)


def mean(x: Any, axes: Axes, keepdims: bool) -> Any:
    """Of integers rounded towards zero."""
    dtype = dtype_in(x)
    if dtype.kind == "O" or is_float(dtype):
        return wg.mean(x, axes, keepdims)
    whole, count = numbers("x", wg.sum(x, axes, keepdims)), math.prod(x.shape[axis] for axis in axes)
    return (np.sign(whole) * (np.abs(whole) // count)).astype(dtype)


def extreme(find: Callable[..., Any], x: Any, axes: Axes, keepdims: bool) -> Any:
    """Over no cells the value that every other one replaces: −∞ or ∞, or the end of an integer's range."""
    dtype = dtype_in(x)
    if math.prod(x.shape[axis] for axis in axes) or dtype.kind == "O":
        return find(x, axes, keepdims)
    shape = [1 if axis in axes else n for axis, n in enumerate(x.shape) if keepdims or axis not in axes]
    return np.full(shape, worst(dtype, find is wg.max), dtype)


def worst(dtype: np.dtype[Any], of_max: bool) -> Any:
    if dtype.kind == "b":
        return not of_max
    if is_float(dtype):
        return -np.inf if of_max else np.inf
    return np.iinfo(dtype).min if of_max else np.iinfo(dtype).max


TABLE: dict[str, Callable[..., Any]] = {
    "ReduceMax": partial(reduced, partial(extreme, wg.max)),
    "ReduceMean": partial(reduced, mean),
    "ReduceMin": partial(reduced, partial(extreme, wg.min)),
    "ReduceSum": partial(reduced, total),
}
