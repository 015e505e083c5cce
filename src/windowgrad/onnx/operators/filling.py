"""Arrays that a shape or a few numbers give: Shape, ConstantOfShape and Range."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from windowgrad.dtypes import is_float
from windowgrad.errors import OptionError, WindowError
from windowgrad.memory import refuse_unallocatable
from windowgrad.onnx.graph import Node
from windowgrad.onnx.operators.values import Array, dtype_in, exactly, number, sizes_of


def shape(node: Node, x: Any) -> Array:
    """The sizes of the axes from `start` to `end`, as those of a slice."""
    return np.array(tuple(x.shape)[slice(node.get("start", 0), node.get("end"))], np.int64)


def constant_of_shape(node: Node, shape: Any) -> Array:
    sizes = sizes_of("input", shape)
    value = node.get("value")
    value = np.zeros(1, np.float32) if value is None else np.asarray(value)
    if value.size != 1:
        raise WindowError(f"value of shape {value.shape}: must have one element")
    refuse_unallocatable(sizes, value.dtype.itemsize)
    return np.full(sizes, value.reshape(-1)[0], value.dtype)


def ranged(node: Node, start: Any, limit: Any, delta: Any) -> Array:
    """start + i·delta for all i from 0 on that stay before `limit`."""
    names = ("start", "limit", "delta")
    first, last, step = (exactly(name, number(name, x)) for name, x in zip(names, (start, limit, delta), strict=True))
    if step == 0:
        raise OptionError("delta=0: must not be 0")
    dtype, count = dtype_in(start), max(math.ceil((last - first) / step), 0)
    refuse_unallocatable((count,), dtype.itemsize)
    if dtype.kind == "O":
        return np.array([first + i * step for i in range(count)] + [None], object)[:-1]
    wide = np.float64 if is_float(dtype) else np.int64
    return (wide(first) + np.arange(count) * wide(step)).astype(dtype)


TABLE: dict[str, Callable[..., Any]] = {"ConstantOfShape": constant_of_shape, "Range": ranged, "Shape": shape}
