"""Window operators: as ONNX's own where these mean the same and runtimes take them, else as functions.

ONNX Runtime takes padding in pooling only if it is smaller than the kernel. ONNX's rule for the size in ceil mode does not
leave out a window that starts in the padding behind the input. Where ours does, floor mode with more padding has the same
windows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from windowgrad.autograd.program import Call
from windowgrad.geometry import Adaptive, Geometry, Global, Sliding
from windowgrad.onnx.domain import pads_of
from windowgrad.onnx.exporting import functions
from windowgrad.onnx.exporting.functions import called, first, needed
from windowgrad.onnx.exporting.writer import Graph, Refused
from windowgrad.params import Shape

Names = Sequence[str]
MODES = {"constant": "constant", "reflect": "reflect", "replicate": "edge", "circular": "wrap"}
GLOBAL = {"MaxPool": "GlobalMaxPool", "AveragePool": "GlobalAveragePool", "LpPool": "GlobalLpPool"}


# --- axes before the windows ---------------------------------------------------------------------------------------


def in_planes(graph: Graph, call: Call, name: str, rank: int, work: Callable[[str], list[str]]) -> list[str]:
    """What `work` makes of an array as ONNX wants it, (batch, channels, spatial axes), with the axes it had before."""
    x = first(call)
    lead, spatial = x.shape[: len(x.shape) - rank], x.shape[len(x.shape) - rank :]
    if len(lead) < 2:  # a lone axis stays in front: it may be the batch
        new = tuple(range(len(lead), 2))
        found = work(graph.node("Unsqueeze", name, graph.integers(*new)))
        return [graph.squeezed(each, new) for each in found]
    if len(lead) == 2:
        return work(name)
    found = work(graph.node("Reshape", name, graph.integers(0, -1, *spatial)))
    return [graph.node("Reshape", each, graph.integers(0, *y.shape[1:])) for each, y in zip(found, call.results, strict=True)]


def without_axes(graph: Graph, geometry: Geometry, found: list[str]) -> list[str]:
    """ONNX keeps the axes of a global reduction with length 1."""
    if isinstance(geometry, Global) and not geometry.keepdims:
        return [graph.squeezed(each, range(-geometry.rank, 0)) for each in found]
    return found


# --- pooling -------------------------------------------------------------------------------------------------------


def plain_window(geometry: Geometry, spatial: Shape, absent: bool) -> dict[str, Any] | None:
    """The attributes of ONNX's pooling over the same windows; {} if over everything, None if there are none.

    `absent`: whether the operator knows nothing of padded cells, so that the overhang of ceil mode may be padding.
    """
    if isinstance(geometry, Global) or (isinstance(geometry, Adaptive) and set(geometry.grid(spatial)) == {1}):
        return {}
    if isinstance(geometry, Adaptive):
        grid = geometry.grid(spatial)
        if any(n % m for n, m in zip(spatial, grid, strict=True)):
            return None
        kernel = tuple(n // m for n, m in zip(spatial, grid, strict=True))
        return {"kernel_shape": kernel, "strides": kernel}
    assert isinstance(geometry, Sliding)
    if not all(table.count.all() for table in geometry.tables(spatial)):
        return None  # a window without a cell is 0 here; elsewhere it is −∞ or NaN
    padding, ceil = geometry.padding, False
    if any(geometry.ceil_mode):
        ceil = len(set(geometry.ceil_mode)) == 1 and all(
            -(-room(geometry, axis, n) // geometry.stride[axis]) + 1 == len(geometry.table(axis, n).count)
            for axis, n in enumerate(spatial)
        )
        if not ceil and not absent:
            return None
        if not ceil:
            padding = tuple(needed(geometry, axis, n) for axis, n in enumerate(spatial))
    if any(max(pair) >= k for pair, k in zip(padding, geometry.kernel, strict=True)):
        return None
    return {
        "kernel_shape": geometry.kernel,
        "strides": geometry.stride,
        "pads": pads_of(padding),
        "dilations": None if set(geometry.dilation) == {1} else geometry.dilation,
        "ceil_mode": 1 if ceil else None,
    }


def room(window: Sliding, axis: int, n: int) -> int:
    """How far the first window may move inside the padded input."""
    return n + sum(window.padding[axis]) - window.dilation[axis] * (window.kernel[axis] - 1) - 1


def standard(graph: Graph, call: Call, inputs: Names, kind: str, window: dict[str, Any], **options: Any) -> list[str]:
    """ONNX's own operator."""
    params: Any = call.params
    geometry, result = params.geometry, call.results[0].dtype
    name = graph.cast(inputs[0], first(call).dtype, result)

    def work(x: str) -> list[str]:
        if not window:
            only = {key: value for key, value in options.items() if key == "p"}
            return without_axes(graph, geometry, [graph.node(GLOBAL[kind], x, **only)])
        return graph.several(kind, [x], len(call.results), **window, **options)

    return in_planes(graph, call, name, geometry.rank, work)


def window_for(call: Call, absent: bool) -> dict[str, Any] | None:
    """The attributes of ONNX's own operator for a call, or None where it is a function."""
    params: Any = call.params
    x, geometry = first(call), params.geometry
    if params.where is not None or not isinstance(geometry, (Sliding, Adaptive, Global)):
        return None
    if isinstance(geometry, Global) and not geometry.keepdims and len(x.shape) != geometry.rank + 2:
        return None
    return plain_window(geometry, x.shape[len(x.shape) - geometry.rank :], absent)


def max_pool(graph: Graph, call: Call, inputs: Names) -> list[str]:
    """Indices of ONNX count the cells of the whole array, ours those of a plane."""
    params: Any = call.params
    window, x, indices = window_for(call, True), first(call), call.rule == "with_indices"
    allowed = x.dtype.kind == "f" or (bool(window) and x.dtype in (np.int8, np.uint8))
    if window is None or not allowed or (indices and not (window and len(x.shape) == params.geometry.rank + 2)):
        return pool(graph, call, inputs)
    found = standard(graph, call, inputs, "MaxPool", window)
    if indices:
        cells = int(np.prod(x.shape[2:]))
        found[1] = graph.node("Mod", found[1], graph.constant(np.array(cells, np.int64)))
    return found


def avg_pool(graph: Graph, call: Call, inputs: Names) -> list[str]:
    params: Any = call.params
    window = window_for(call, not params.count_include_pad)
    if window is None or params.divisor_override is not None:
        return pool(graph, call, inputs)
    return standard(graph, call, inputs, "AveragePool", window, count_include_pad=int(params.count_include_pad))


def lp_pool(graph: Graph, call: Call, inputs: Names) -> list[str]:
    params: Any = call.params
    window = window_for(call, True)
    if window is None or not isinstance(params.norm_type, int):
        return pool(graph, call, inputs)
    return standard(graph, call, inputs, "LpPool", window, p=params.norm_type)


def pool(graph: Graph, call: Call, inputs: Names) -> list[str]:
    """A function of the reduction; a mask is its last input."""
    where = call.params.where
    if where is not None:
        inputs = [*inputs, graph.constant(np.asarray(where.over(first(call).shape) if where.array.ndim == 0 else where.array))]
    write = functions.padded if functions.is_padded(call) else functions.pooled
    return called(graph, call, inputs, write)


# --- convolution, unpooling, padding -------------------------------------------------------------------------------


def in_batches(graph: Graph, call: Call, inputs: Names, rank: int, work: Callable[[str], str]) -> list[str]:
    """The same for a convolution, whose axis of channels is that before the windows."""
    x, y, name = first(call), call.results[0], graph.cast(inputs[0], first(call).dtype, call.results[0].dtype)
    if len(x.shape) == rank + 2:
        return [work(name)]
    if len(x.shape) == rank + 1:
        return [graph.squeezed(work(graph.node("Unsqueeze", name, graph.integers(0))), [0])]
    found = work(graph.node("Reshape", name, graph.integers(-1, *x.shape[len(x.shape) - rank - 1 :])))
    return [graph.node("Reshape", found, graph.integers(*graph.shape(y)))]


def in_result(graph: Graph, call: Call, inputs: Names, start: int = 0) -> list[str]:
    """The inputs from `start` on in the dtype of the result."""
    result, pairs = call.results[0].dtype, zip(inputs, call.arguments, strict=True)
    return [graph.cast(name, given.dtype, result) for name, given in list(pairs)[start:]]


def conv(graph: Graph, call: Call, inputs: Names) -> list[str]:
    params: Any = call.params
    window, weights = params.window, in_result(graph, call, inputs, 1)
    options = {"kernel_shape": window.kernel, "strides": window.stride, "pads": pads_of(window.padding)}
    options |= {"dilations": window.dilation, "group": params.groups}
    return in_batches(graph, call, inputs, window.rank, lambda x: graph.node("Conv", x, *weights, **options))


def conv_transpose(graph: Graph, call: Call, inputs: Names) -> list[str]:
    params: Any = call.params
    window = params.window
    if any(e >= s for e, s in zip(params.output_padding, window.stride, strict=True)):  # ONNX Runtime refuses it
        if len(first(call).shape) != window.rank + 2:
            raise Refused("output_padding that is not smaller than the stride, for an array that is not (batch, channels, …)")
        return called(graph, call, in_result(graph, call, inputs), functions.transposed)
    weights = in_result(graph, call, inputs, 1)
    options = {"kernel_shape": window.kernel, "strides": window.stride, "pads": pads_of(window.padding)}
    options |= {"dilations": window.dilation, "group": params.groups, "output_padding": params.output_padding}
    return in_batches(graph, call, inputs, window.rank, lambda x: graph.node("ConvTranspose", x, *weights, **options))


def max_unpool(graph: Graph, call: Call, inputs: Names) -> list[str]:
    return called(graph, call, inputs, functions.unpooled)


def all_pads(call: Call) -> tuple[int, ...]:
    """For all axes, of which only the last are padded."""
    params: Any = call.params
    none = ((0, 0),) * (len(first(call).shape) - len(params.padding))
    return pads_of((*none, *params.padding))


def pad(graph: Graph, call: Call, inputs: Names) -> list[str]:
    return [graph.node("Pad", inputs[0], graph.integers(*all_pads(call)))]


def extend(graph: Graph, call: Call, inputs: Names) -> list[str]:
    params: Any = call.params.machine()
    x = first(call)
    spatial = x.shape[len(x.shape) - len(params.padding) :]
    if params.mode == "reflect" and any(max(pair) >= n for pair, n in zip(params.padding, spatial, strict=True)):
        return called(graph, call, inputs, functions.extended)
    around = [graph.constant(np.array(params.value, x.dtype))] if params.mode == "constant" else []
    return [graph.node("Pad", inputs[0], graph.integers(*all_pads(call)), *around, mode=MODES[params.mode])]


def unpad(graph: Graph, call: Call, inputs: Names) -> list[str]:
    params: Any = call.params
    rank, x = len(params.padding), first(call)
    ends = [n - hi for n, (_, hi) in zip(x.shape[len(x.shape) - rank :], params.padding, strict=True)]
    starts, axes = [lo for lo, _ in params.padding], range(len(x.shape) - rank, len(x.shape))
    return [graph.node("Slice", inputs[0], *(graph.integers(*each) for each in (starts, ends, axes)))]


TABLE = {
    "max_pool": max_pool,
    "min_pool": pool,
    "avg_pool": avg_pool,
    "smooth_max_pool": pool,
    "sharp_smooth_max_pool": pool,
    "lp_pool": lp_pool,
    "conv": conv,
    "conv_transpose": conv_transpose,
    "max_unpool": max_unpool,
    "pad": pad,
    "extend": extend,
    "unpad": unpad,
}
