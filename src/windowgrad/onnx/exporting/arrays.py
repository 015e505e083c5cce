"""Array operators as nodes of ONNX. Integers are computed in the dtype of the result, 16 bit sums in float32."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from windowgrad.autograd.program import Call
from windowgrad.dtypes import promoted
from windowgrad.onnx.exporting import functions
from windowgrad.onnx.exporting.functions import called, first
from windowgrad.onnx.exporting.indexing import index
from windowgrad.onnx.exporting.windows import in_result
from windowgrad.onnx.exporting.writer import Graph

Names = Sequence[str]


def plain(kind: str, graph: Graph, call: Call, inputs: Names, **options: Any) -> list[str]:
    """The operator of ONNX that computes the same, on numbers in the dtype of the result."""
    return [graph.node(kind, *in_result(graph, call, inputs), **options)]


def relu6(graph: Graph, call: Call, inputs: Names) -> list[str]:
    """Two nodes, for −0.0 must become 0.0, and a lone Clip may keep it."""
    high = graph.constant(np.array(6, first(call).dtype))
    return [graph.node("Clip", graph.node("Relu", inputs[0]), "", high)]


def where(graph: Graph, call: Call, inputs: Names) -> list[str]:
    dtypes = [argument.dtype for argument in call.arguments[1:]]
    both = [graph.cast(name, dtype, promoted(*dtypes)) for name, dtype in zip(inputs[1:], dtypes, strict=True)]
    return [graph.node("Where", inputs[0], *both)]


def along(kind: str, graph: Graph, call: Call, inputs: Names) -> list[str]:
    params: Any = call.params
    return plain(kind, graph, call, inputs, axis=params.axis % len(first(call).shape))


def reduced(kind: str, graph: Graph, call: Call, inputs: Names) -> list[str]:
    """A reduction over axes. No axes are no reduction, where ONNX would take all."""
    params: Any = call.params
    x, y = first(call), call.results[0]
    axes = params.axes(x.shape)
    wide = np.dtype(np.float32) if y.dtype.itemsize == 2 and y.dtype.kind == "f" else y.dtype
    wide = np.dtype(np.float64) if kind == "ReduceMean" and x.dtype.kind in "biu" else wide
    name = graph.cast(inputs[0], x.dtype, wide)
    if axes:
        name = graph.node(kind, name, graph.integers(*axes), keepdims=int(params.keepdims))
    return [graph.cast(name, wide, y.dtype) if axes or wide != x.dtype else graph.node("Identity", name)]


def reshape(graph: Graph, call: Call, inputs: Names) -> list[str]:
    """The batch is the one size that is left to be found; a size of 0 is meant as it is."""
    sizes = graph.shape(call.results[0])
    return [graph.node("Reshape", inputs[0], graph.integers(*sizes), allowzero=1 if 0 in sizes else None)]


def flatten(graph: Graph, call: Call, inputs: Names) -> list[str]:
    params: Any = call.params
    x = first(call)
    if len(x.shape) > 1 and params.start_axis % len(x.shape) == 1:
        return [graph.node("Flatten", inputs[0], axis=1)]
    return reshape(graph, call, inputs)


def transpose(graph: Graph, call: Call, inputs: Names) -> list[str]:
    params: Any = call.params
    return [graph.node("Transpose", inputs[0], perm=params.order(first(call).shape))]


def stack(graph: Graph, call: Call, inputs: Names) -> list[str]:
    params: Any = call.params
    axis = params.place(len(first(call).shape))
    parts = [graph.node("Unsqueeze", name, graph.integers(axis)) for name in in_result(graph, call, inputs)]
    return [graph.node("Concat", *parts, axis=axis)]


def cast(graph: Graph, call: Call, inputs: Names) -> list[str]:
    return [graph.cast(graph.node("Identity", inputs[0]), first(call).dtype, call.results[0].dtype)]


def broadcast_to(graph: Graph, call: Call, inputs: Names) -> list[str]:
    """A batch of any size is that of the input of the model."""
    y = call.results[0]
    if y.number not in graph.moving:
        return [graph.node("Expand", inputs[0], graph.integers(*y.shape))]
    batch = graph.node("Shape", graph.batched, start=0, end=1)
    shape = graph.node("Concat", batch, graph.integers(*y.shape[1:]), axis=0) if y.shape[1:] else batch
    return [graph.node("Expand", inputs[0], shape)]


def sum_to(graph: Graph, call: Call, inputs: Names) -> list[str]:
    x, y = first(call), call.results[0]
    new = len(x.shape) - len(y.shape)
    kept = [axis for axis, n in enumerate(x.shape) if axis < new or (n != 1 and y.shape[axis - new] == 1)]
    total = graph.node("ReduceSum", inputs[0], graph.integers(*kept)) if kept else inputs[0]
    return [graph.node("Reshape", total, graph.integers(*graph.shape(y)))]


def gate(graph: Graph, call: Call, inputs: Names) -> list[str]:
    """dx where x is above 0 or NaN, else 0."""
    x, dx = call.arguments
    shut = graph.node("LessOrEqual", inputs[0], graph.constant(np.zeros((), x.dtype)))
    return [graph.node("Where", shut, graph.constant(np.zeros((), dx.dtype)), inputs[1])]


def mask(graph: Graph, call: Call, inputs: Names) -> list[str]:
    params: Any = call.params
    zero = graph.constant(np.zeros((), call.arguments[1].dtype))
    return [graph.node("Where", inputs[0], *((inputs[1], zero) if params.holds else (zero, inputs[1])))]


def pick(graph: Graph, call: Call, inputs: Names) -> list[str]:
    labels = graph.cast(inputs[1], call.arguments[1].dtype, np.dtype(np.int64))
    rows = graph.node("GatherElements", inputs[0], graph.node("Unsqueeze", labels, graph.integers(-1)), axis=-1)
    return [graph.squeezed(rows, [-1])]


def function(write: functions.Writer, graph: Graph, call: Call, inputs: Names) -> list[str]:
    return called(graph, call, inputs, write)


TABLE: dict[str, Callable[[Graph, Call, Names], list[str]]] = {
    "add": partial(plain, "Add"),
    "subtract": partial(plain, "Sub"),
    "multiply": partial(plain, "Mul"),
    "divide": partial(plain, "Div"),
    "negative": partial(plain, "Neg"),
    "matmul": partial(plain, "MatMul"),
    "sum": partial(reduced, "ReduceSum"),
    "mean": partial(reduced, "ReduceMean"),
    "max": partial(reduced, "ReduceMax"),
    "min": partial(reduced, "ReduceMin"),
    "abs": partial(plain, "Abs"),
    "reshape": reshape,
    "flatten": flatten,
    "transpose": transpose,
    "relu": partial(plain, "Relu"),
    "exp": partial(plain, "Exp"),
    "log": partial(plain, "Log"),
    "tanh": partial(plain, "Tanh"),
    "sigmoid": partial(plain, "Sigmoid"),
    "sqrt": partial(plain, "Sqrt"),
    "erf": partial(plain, "Erf"),
    "sign": partial(plain, "Sign"),
    "power": partial(plain, "Pow"),
    "maximum": partial(plain, "Max"),
    "minimum": partial(plain, "Min"),
    "where": where,
    "stop_gradient": partial(plain, "Identity"),
    "concatenate": partial(along, "Concat"),
    "stack": stack,
    "softmax": partial(along, "Softmax"),
    "log_softmax": partial(along, "LogSoftmax"),
    "cross_entropy": partial(function, functions.entropy),
    "mse": partial(function, functions.squared),
    "index": index,
    "relu6": relu6,
    "batch_norm": partial(function, functions.normalised),
    "cast": cast,
    "broadcast_to": broadcast_to,
    "sum_to": sum_to,
    "gate": gate,
    "mask": mask,
    "pick": pick,
    "inverse_root": partial(function, functions.inverted),
}
