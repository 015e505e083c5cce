"""Floats as integers of 8 or 16 bits and back: QuantizeLinear and DequantizeLinear.

A scale and a zero point are one number, one for each place along an axis, or one for each block along an axis.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from windowgrad.autograd.arrays import multiply, reshape
from windowgrad.autograd.arrays.records import axis_of
from windowgrad.errors import KindError, OptionError, WindowError
from windowgrad.onnx.graph import Node
from windowgrad.onnx.operators.casting import in_dtype
from windowgrad.onnx.operators.shaping import along
from windowgrad.onnx.operators.values import dtype_in, numbers
from windowgrad.onnx.tensors import dtype_of

QUANTISED = ("int8", "uint8", "int16", "uint16")


def quantised(node: Node, x: Any, scale: Any, zero_point: Any = None) -> Any:
    """x ÷ scale rounded, to the even neighbour if it is halfway, plus the zero point, and clipped to the range of the dtype."""
    shape, dtype = tuple(x.shape), quantised_dtype(node, zero_point)
    x, scale = numbers("x", x), numbers("y_scale", spread(node, "y_scale", scale, shape))
    zero = whole_zero(node, "y_zero_point", zero_point, shape)
    range_ = np.iinfo(dtype)
    if x.dtype.kind == "O" or scale.dtype.kind == "O":
        rounded: Any = np.frompyfunc(round, 1, 1)(x / scale)
        return np.clip(rounded + zero, range_.min, range_.max).astype(dtype)
    wide = dtype_of("precision", code) if (code := node.get("precision", 0)) else scale.dtype
    with np.errstate(all="ignore"):
        rounded = np.rint(x.astype(wide) / scale.astype(wide)).astype(np.float64)
        return np.clip(rounded + zero, range_.min, range_.max).astype(dtype)


def quantised_dtype(node: Node, zero_point: Any) -> np.dtype[Any]:
    """That of the zero point, or of the attribute, or uint8."""
    asked = dtype_of("output_dtype", code) if (code := node.get("output_dtype", 0)) else None
    dtype = dtype_in(zero_point) if zero_point is not None else asked or np.dtype(np.uint8)
    if dtype.name not in QUANTISED:
        raise KindError(f"y_zero_point of {dtype.name}: not supported; must be {', '.join(QUANTISED)}")
    if asked is not None and asked != dtype:
        raise OptionError(f"output_dtype={asked}: must be {dtype}, the dtype of y_zero_point")
    return dtype


def dequantised(node: Node, x: Any, scale: Any, zero_point: Any = None) -> Any:
    """(x − zero point)·scale, in the dtype of the scale. It has a derivative by the scale."""
    shape, whole = tuple(x.shape), numbers("x", x)
    if whole.dtype.name not in (*QUANTISED, "int32"):
        raise KindError(f"x of {whole.dtype.name}: not supported; must be {', '.join(QUANTISED)} or int32")
    whole = whole.astype(np.int64) - whole_zero(node, "x_zero_point", zero_point, shape)
    scale = spread(node, "x_scale", scale, shape)
    if code := node.get("output_dtype", 0):
        scale = in_dtype(scale, dtype_of("output_dtype", code))
    dtype = dtype_in(scale)
    return multiply(whole.astype(dtype), scale)


def whole_zero(node: Node, name: str, zero_point: Any, shape: tuple[int, ...]) -> Any:
    """The zero point as integers of 64 bits; 0 if it is left out."""
    return 0 if zero_point is None else numbers(name, spread(node, name, zero_point, shape)).astype(np.int64)


def spread(node: Node, name: str, values: Any, shape: tuple[int, ...]) -> Any:
    """A scale or zero point so that it can be broadcast to an array of `shape`."""
    own, block = tuple(values.shape), node.get("block_size", 0)
    if own in ((), (1,)) and not block:
        return reshape(values, ())
    axis = axis_of("axis", node.get("axis", 1), shape)
    if not block:
        if own != (shape[axis],):
            raise WindowError(f"{name} of shape {own}: must be one number or {shape[axis]}, one for each place on axis {axis}")
        return reshape(values, (-1, *(1,) * (len(shape) - axis - 1)))
    wanted = (*shape[:axis], -(-shape[axis] // block), *shape[axis + 1 :])
    if own != wanted:
        raise WindowError(f"{name} of shape {own}: must be {wanted}, one number for each block of {block} on axis {axis}")
    return along(values, axis, np.arange(shape[axis]) // block)


TABLE: dict[str, Callable[..., Any]] = {"DequantizeLinear": dequantised, "QuantizeLinear": quantised}
