"""Products of matrices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from windowgrad.autograd import arrays
from windowgrad.autograd.arrays.rules import cast
from windowgrad.dtypes import is_float
from windowgrad.onnx.graph import Node
from windowgrad.onnx.kinds import number


def gemm(node: Node, a: Any, b: Any, c: Any = None) -> Any:
    """alpha · A · B + beta · C, of transposed matrices if transA or transB says so."""
    a = arrays.transpose(a) if node.get("transA", 0) else a
    b = arrays.transpose(b) if node.get("transB", 0) else b
    y = scaled(node, "alpha", matmul(node, a, b))
    return y if c is None else arrays.add(y, scaled(node, "beta", c))


def scaled(node: Node, name: str, x: Any) -> Any:
    factor = node.get(name, 1.0)
    return x if factor == 1 else arrays.multiply(x, number(factor, x))


def matmul(node: Node, a: Any, b: Any) -> Any:
    """As NumPy's. Products of integers have the dtype of the integers, in which they may wrap around."""
    y = arrays.matmul(a, b)
    dtype: Any = getattr(a, "dtype", None)
    is_wider = isinstance(dtype, np.dtype) and dtype.kind in "iu" and y.dtype != dtype and not is_float(y.dtype)
    return cast(y, dtype) if is_wider else y


TABLE: dict[str, Callable[..., Any]] = {"Gemm": gemm, "MatMul": matmul}
