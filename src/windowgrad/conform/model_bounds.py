"""How far one layer of a network may be from the exact result: its own rounding, on inputs that are taken as exact.

With u half the distance from 1 to the next number of the layer's dtype, a sum of K products is within (K + 2) · u · Σ|w||x| in
any order of summation (docs/semantics.md, rule 8), a mean of n cells within (n + 2) · u · mean|x|. What moves or chooses cells
is exact. A function without a stated bound may be off by a few roundings of its result and of its greatest argument.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from windowgrad.dtypes import is_float
from windowgrad.onnx.graph import Array, Node
from windowgrad.onnx.network import computed

FEW = 32
"""Roundings of a function for which no bound is stated, such as Sigmoid or Resize."""

# fmt: off
EXACT = frozenset({
    "Abs", "ArgMax", "ArgMin", "Clip", "Concat", "Constant", "ConstantOfShape", "DepthToSpace", "Dropout", "Expand",
    "Flatten", "Gather", "GlobalMaxPool", "Identity", "Max", "MaxPool", "MaxUnpool", "Min", "Neg", "Pad", "ReduceMax",
    "ReduceMin", "Relu", "Reshape", "ScatterND", "Shape", "Sign", "Slice", "SpaceToDepth", "Split", "Squeeze", "Tile",
    "Transpose", "Unsqueeze", "Where",
})
"""What gives cells of its input, or counts of them."""
# fmt: on
ONCE = frozenset({"Add", "Sub", "Mul", "Div", "Sqrt", "Cast", "CastLike"})
"""What rounds one number once."""


def allowed(node: Node, inputs: list[Any], exact: Array, dtype: np.dtype[Any]) -> Array | float:
    """The greatest distance from `exact`, which was computed in float64 from `inputs`, for a result of `dtype`."""
    if not is_float(dtype):
        return 1.0 if node.op_type == "QuantizeLinear" else 0.0  # a quotient between two integers may be rounded to either
    if node.op_type in EXACT:
        return 0.0
    info = np.finfo(dtype)
    u, least = float(info.eps) / 2, float(info.smallest_subnormal)
    if node.op_type in ONCE:
        return np.asarray(u * np.abs(exact) + least)
    if (terms := summed(node, inputs, exact)) is not None:
        (sums,) = computed(node, [np.abs(x) if is_floats(x) else x for x in inputs])[:1]
        return np.asarray((terms + 2) * u * np.abs(np.asarray(sums)) + least)
    largest = max((float(np.max(np.abs(x), initial=0)) for x in inputs if is_floats(x)), default=0.0)
    return np.asarray(FEW * u * (np.abs(exact) + largest) + least)


def summed(node: Node, inputs: list[Any], exact: Array) -> int | None:
    """How many products or cells are summed for one cell of the result; None if it is not such a sum."""
    match node.op_type:
        case "Conv":
            return int(math.prod(inputs[1].shape[1:]))
        case "ConvTranspose":
            return int(math.prod((inputs[1].shape[0] // node.get("group", 1), *inputs[1].shape[2:])))
        case "Gemm":
            return int(inputs[0].shape[0 if node.get("transA", 0) else 1]) + 2  # alpha and beta
        case "MatMul":
            return int(inputs[0].shape[-1])
        case "AveragePool":
            return int(math.prod(node.get("kernel_shape", ())))
        case "GlobalAveragePool" | "ReduceMean" | "ReduceSum":
            return int(inputs[0].size // max(exact.size, 1))
        case "Sum":
            return len(inputs)
    return None


def is_floats(x: Any) -> bool:
    return isinstance(x, np.ndarray) and is_float(x.dtype)
