"""What `torch.onnx.export` needs to know of our layers: PyTorch's one operator for them as operators of ONNX.

    torch.onnx.export(module, (x,), "model.onnx", custom_translation_table=windowgrad.onnx.torch_translations())

The nodes are those of `export`, but functions are written out: PyTorch's exporter has no place for those of one call.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import torch
from onnx import helper
from onnxscript import opset18

from windowgrad.autograd.program import Call, Value
from windowgrad.bridges.torch.graph import read
from windowgrad.errors import KindError
from windowgrad.onnx.domain import DOMAIN
from windowgrad.onnx.exporting.model import TABLE
from windowgrad.onnx.exporting.writer import Graph
from windowgrad.ops import meaning

ANY = 2
"""The size that stands for a symbolic batch while a call is written."""


def table() -> dict[Callable[..., Any], Callable[..., Any]]:
    return {torch.ops.windowgrad.compute.default: translate}


def translate(op: str, rule: str, params: str, needs: str, tensors: Sequence[Any]) -> Any:
    """The nodes of one call, added to the graph that PyTorch writes: in opset 18, which it converts when it is complete."""
    if rule not in ("forward", "with_indices"):
        raise KindError(f"torch.onnx.export: the model computes the {rule} of {op}; only a forward call can be exported")
    given = [value_of(number, tensor) for number, tensor in enumerate(tensors)]
    call = call_of(op, rule, params, given)
    symbolic = bool(tensors[0].shape) and not isinstance(tensors[0].shape[0], int)
    graph = Graph(18, {}, {0, *(value.number for value in call.results)} if symbolic else set())
    names = [f"input_{value.number}" for value in given]
    graph.names.update(names)
    found = TABLE[op](graph, call, names)
    return replayed(graph, dict(zip(names, tensors, strict=True)), found)


def value_of(number: int, tensor: Any) -> Value:
    return Value(number, tuple(n if isinstance(n, int) else ANY for n in tensor.shape), tensor.dtype.numpy())


def call_of(op: str, rule: str, params: str, given: Sequence[Value]) -> Call:
    operator, record = meaning(op), read(params)
    assert operator.facts is not None
    shape = record.out_shape(*(value.shape for value in given))
    dtypes = operator.facts.result_dtype(*(value.dtype for value in given)), np.dtype(np.int64)
    results = [Value(len(given) + place, shape, dtype) for place, dtype in enumerate(dtypes)]
    return Call(operator, rule, record, tuple(given), tuple(results[: 2 if rule == "with_indices" else 1]))


def replayed(graph: Graph, known: Mapping[str, Any], names: Sequence[str]) -> list[Any]:
    """The nodes as calls of onnxscript, which PyTorch's exporter records; the values with these names."""
    values = {**known, **{tensor.name: opset18.Constant(value=tensor) for tensor in graph.initialisers}}
    functions = {function.name: function for function in graph.functions.values()}
    for node in graph.nodes:
        if node.domain != DOMAIN:
            run(node, values)
            continue
        function = functions[node.op_type]
        inner = {name: values[given] for name, given in zip(function.input, node.input, strict=True)}
        for each in function.node:
            run(each, inner)
        values |= {name: inner[own] for name, own in zip(node.output, function.output, strict=True)}
    return [values[name] for name in names]


def run(node: onnx.NodeProto, values: dict[str, Any]) -> None:
    found = {each.name: helper.get_attribute_value(each) for each in node.attribute}
    attributes = {name: value.decode() if isinstance(value, bytes) else value for name, value in found.items()}
    made = getattr(opset18, node.op_type)(*(values[name] for name in node.input), **attributes)
    values |= zip(node.output, made if isinstance(made, (tuple, list)) else (made,), strict=False)  # some may be left out
