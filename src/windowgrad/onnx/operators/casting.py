"""The same numbers in another dtype: Cast and CastLike."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from windowgrad.autograd.arrays.rules import cast
from windowgrad.dtypes import is_float, is_supported
from windowgrad.errors import KindError
from windowgrad.onnx.graph import Node
from windowgrad.onnx.operators.values import dtype_in, numbers
from windowgrad.onnx.tensors import dtype_of


def casted(node: Node, x: Any) -> Any:
    return in_dtype(x, dtype_of("to", node.get("to")))


def casted_like(node: Node, x: Any, like: Any) -> Any:
    dtype = dtype_in(like)
    return x if dtype.kind == "O" else in_dtype(x, dtype)


def in_dtype(x: Any, dtype: np.dtype[Any]) -> Any:
    """In another dtype. From float to float it has a derivative, and an array of fractions stays exact."""
    own = dtype_in(x)
    if not is_supported(dtype):
        raise KindError(f"unsupported dtype {dtype}; must be bool, an integer of 8 to 64 bits or a float of 16 to 64 bits")
    if own == dtype or (own.kind == "O" and is_float(dtype)):
        return x
    if is_float(own) and is_float(dtype):
        return cast(x, dtype)
    x = numbers("input", x)
    if own.kind == "O":
        x = (x != 0) if dtype.kind == "b" else wrapped(np.trunc(x), np.iinfo(dtype))
    with np.errstate(invalid="ignore", over="ignore"):  # what is out of range, or NaN, ONNX leaves undefined
        return x.astype(dtype)


def wrapped(x: Any, range_: Any) -> Any:
    """Integers of any size in the range of a dtype, as NumPy converts those that are too large."""
    return (x - range_.min) % (range_.max - range_.min + 1) + range_.min


TABLE: dict[str, Callable[..., Any]] = {"Cast": casted, "CastLike": casted_like}
