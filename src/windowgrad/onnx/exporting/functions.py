"""Calls that ONNX has no operator for, as functions of the domain `windowgrad`. A body is for the shapes of its call."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

import numpy as np

from windowgrad.autograd.arrays.normalise import NormaliseParams
from windowgrad.autograd.program import Call
from windowgrad.geometry import Sliding
from windowgrad.onnx.domain import DOMAIN, attributes_of, pads_of
from windowgrad.onnx.exporting.bodies import limit, reduction
from windowgrad.onnx.exporting.writer import Body, Graph
from windowgrad.params import ExtendParams, MaxParams, MinParams, TransposeParams, UnpoolParams
from windowgrad.spec.extension import source

Names = Sequence[str]
Writer = Callable[[Body, Call, Names], list[str]]
"""Writes a call into a body, and returns the names of its results."""


def called(graph: Graph, call: Call, inputs: Names, write: Writer) -> list[str]:
    """A node that calls a function with the body that `write` makes."""
    given = attributes_of(call.params)
    names = [f"input_{number}" for number in range(len(inputs))]
    body = Body(graph.opset)
    body.names.update(names)
    results = write(body, call, names)
    text = b"".join(node.SerializeToString() for node in body.nodes)  # calls alike in everything have one function
    name = graph.function((call.op.name, text, tuple(results), tuple(sorted(given))), body, names, results, sorted(given))
    return graph.several(name, inputs, len(call.results), domain=DOMAIN, **given)


def first(call: Call) -> Any:
    """The first argument: a value, or an array."""
    return call.arguments[0]


def pooled(body: Body, call: Call, inputs: Names) -> list[str]:
    """A reduction over windows."""
    params: Any = call.params
    x = first(call)
    dtypes = x.dtype, call.results[0].dtype
    return reduction(body, params.machine(), x.shape, dtypes, inputs, call.rule == "with_indices")


# --- the greatest and the least of padded windows ------------------------------------------------------------------


def is_padded(call: Call) -> bool:
    """Whether Pad and MaxPool do: sliding windows over planes, no mask, no indices."""
    params: Any = call.params
    x = first(call)
    plain = isinstance(params, MaxParams) and isinstance(params.geometry, Sliding) and params.where is None
    floats = x.dtype in (np.float32, np.float64, np.float16) or (x.dtype == np.int8 and not isinstance(params, MinParams))
    return plain and floats and call.rule == "forward" and len(x.shape) == params.geometry.rank + 2


def padded(body: Body, call: Call, inputs: Names) -> list[str]:
    """Cells that never win around x, so that all windows lie inside; where a window has no cell of x, 0."""
    params: Any = call.params
    window, x, (name,) = params.geometry, first(call), inputs
    sign = isinstance(params, MinParams)
    name = body.node("Neg", name) if sign else name
    around = [needed(window, axis, n) for axis, n in enumerate(x.shape[2:])]
    if any(map(any, around)):
        worst = np.array(limit(x.dtype, False), x.dtype)
        name = body.node("Pad", name, body.integers(*pads_of(((0, 0), (0, 0), *around))), body.constant(worst))
    y = body.node("MaxPool", name, kernel_shape=window.kernel, strides=window.stride, dilations=window.dilation)
    counts = [table.count > 0 for table in window.tables(x.shape[2:])]
    some = reduce(np.logical_and.outer, counts)
    if not some.all():
        y = body.node("Where", body.constant(some), y, body.constant(np.zeros((), x.dtype)))
    return [body.node("Neg", y) if sign else y]


def needed(window: Sliding, axis: int, n: int) -> tuple[int, int]:
    """The cells before and after with which windows in floor mode are the same; for ceil mode those of its overhang too."""
    windows = len(window.table(axis, n).count)
    lo = window.padding[axis][0]
    end = (windows - 1) * window.stride[axis] + window.dilation[axis] * (window.kernel[axis] - 1) + 1
    return lo, max(end - n - lo, 0)


# --- other window operators ----------------------------------------------------------------------------------------


def transposed(body: Body, call: Call, inputs: Names) -> list[str]:
    """A transposed convolution whose last cells no window reaches: without them, and the bias in them."""
    params: Any = call.params
    assert isinstance(params, TransposeParams)
    window, y = params.window, call.results[0]
    sizes = window.adjoint(first(call).shape[-window.rank :], (0,) * window.rank)
    found = body.node(
        "ConvTranspose",
        *inputs[:2],
        kernel_shape=window.kernel,
        strides=window.stride,
        pads=pads_of(window.padding),
        dilations=window.dilation,
        group=params.groups,
    )
    more = [(0, n - m) for n, m in zip(y.shape[-window.rank :], sizes, strict=True)]
    found = body.node("Pad", found, body.integers(*pads_of(((0, 0), (0, 0), *more))))
    if len(inputs) == 3:
        found = body.node("Add", found, body.node("Reshape", inputs[2], body.integers(-1, *(1,) * window.rank)))
    return [found]


def extended(body: Body, call: Call, inputs: Names) -> list[str]:
    """The cells that are seen, axis by axis."""
    params: Any = call.params
    assert isinstance(params, ExtendParams)
    rank, (name,) = len(params.padding), inputs
    for axis, (lo, hi) in enumerate(params.padding):
        n = first(call).shape[axis - rank]
        seen = np.array([source(params.mode, n, place) for place in range(-lo, n + hi)], np.int64)
        name = body.node("Gather", name, body.constant(seen), axis=axis - rank)
    return [name]


def unpooled(body: Body, call: Call, inputs: Names) -> list[str]:
    """Cells scattered into planes with one cell more, to which the index −1 goes: it is cut off."""
    params: Any = call.params
    assert isinstance(params, UnpoolParams)
    rank, y, x = params.window.rank, call.results[0], first(call)
    lead, plane = len(x.shape) - rank, y.shape[len(y.shape) - rank :]
    flat = [body.node("Reshape", name, body.integers(*(0,) * lead, -1)) for name in inputs]
    index = body.cast(flat[1], call.arguments[1].dtype, np.dtype(np.int64))
    cells = math.prod(plane)
    sizes = body.node("Shape", inputs[0], start=0, end=lead) if lead else None
    whole = body.integers(cells + 1) if sizes is None else body.node("Concat", sizes, body.integers(cells + 1), axis=0)
    zeros = body.node("Expand", body.constant(np.zeros((), x.dtype)), whole)
    added = "add" if params.duplicates == "add" else None
    spread = body.node("ScatterElements", zeros, index, flat[0], axis=-1, reduction=added)
    kept = body.node("Slice", spread, body.integers(0), body.integers(cells), body.integers(-1))
    return [body.node("Reshape", kept, body.integers(*(0,) * lead, *plane))]


# --- array operators -----------------------------------------------------------------------------------------------


def inverted(body: Body, call: Call, inputs: Names) -> list[str]:
    return [body.node("Reciprocal", body.node("Sqrt", inputs[0]))]


def normalised(body: Body, call: Call, inputs: Names) -> list[str]:
    """(x − mean) ÷ √(variance + eps) · weight + bias, with the moments of the batch."""
    params: Any = call.params
    assert isinstance(params, NormaliseParams)
    x, y = first(call), call.results[0]
    wide = np.dtype(np.float32) if y.dtype.itemsize == 2 else y.dtype
    axes, beside = body.integers(*params.others(x.shape)), body.integers(*(-1 if n > 1 else 1 for n in params.beside(x.shape)))
    data, *both = (body.cast(name, given.dtype, wide) for name, given in zip(inputs, call.arguments, strict=True))
    weight, bias = (body.node("Reshape", name, beside) for name in both)
    apart = body.node("Sub", data, body.node("ReduceMean", data, axes))
    spread = body.node("ReduceMean", body.node("Mul", apart, apart), axes)
    root = body.node("Sqrt", body.node("Add", spread, body.constant(np.array(float(params.eps), wide))))
    found = body.node("Add", body.node("Mul", body.node("Div", apart, root), weight), bias)
    return [body.cast(found, wide, y.dtype)]


def entropy(body: Body, call: Call, inputs: Names) -> list[str]:
    """−mean(log_softmax(logits)[labels])."""
    logits, labels = call.arguments
    result = call.results[0].dtype
    likely = body.node("LogSoftmax", body.cast(inputs[0], logits.dtype, result), axis=-1)
    index = body.node("Unsqueeze", body.cast(inputs[1], labels.dtype, np.dtype(np.int64)), body.integers(-1))
    picked = body.node("GatherElements", likely, index, axis=-1)
    return [body.node("ReduceMean", body.node("Neg", picked), keepdims=0)]


def squared(body: Body, call: Call, inputs: Names) -> list[str]:
    """mean((x − target)²)."""
    y = call.results[0]
    wide = np.dtype(np.float32) if y.dtype.itemsize == 2 else y.dtype
    apart = body.node("Sub", *(body.cast(name, each.dtype, wide) for name, each in zip(inputs, call.arguments, strict=True)))
    return [body.cast(body.node("ReduceMean", body.node("Mul", apart, apart), keepdims=0), wide, y.dtype)]
