"""What a node costs: the rows of a network's table."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from windowgrad.nn.summary import Row
from windowgrad.onnx.graph import Node


def row_of(node: Node, inputs: list[Any], results: Mapping[str, Any], params: Mapping[str, Any]) -> Row:
    shapes = [tuple(array.shape) for array in results.values()]
    learnt = sum(math.prod(params[name].shape) for name in dict.fromkeys(node.inputs) if name in params)
    return Row(node.name, node.op_type, shapes[0] if shapes else (), learnt, multiply_adds(node, inputs, shapes))


def multiply_adds(node: Node, inputs: list[Any], shapes: list[tuple[int, ...]]) -> int:
    """Of products of matrices and convolutions; all else counts as nothing."""
    if node.op_type == "Conv":  # every output cell sees one filter
        return math.prod(shapes[0]) * int(math.prod(tuple(inputs[1].shape)[1:]))
    if node.op_type == "ConvTranspose":  # every input cell is spread by one filter
        return int(math.prod(inputs[0].shape) * math.prod(tuple(inputs[1].shape)[1:]))
    if node.op_type in ("Gemm", "MatMul"):
        return math.prod(shapes[0]) * int(inputs[0].shape[0 if node.get("transA", 0) else -1])
    return 0
