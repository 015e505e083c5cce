"""How the checker of certificates reads each operator of ONNX: as sums, or as greatest cells.

Beside each sum stands how many roundings an evaluation in float32 puts on a term: n terms in any order, with or without fused
multiply-adds, n; a bias among them, n + 1; a factor of all terms, one more; a mean, a division or a reciprocal and a product.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np

from windowgrad.certify.check_moves import MOVES, whole_numbers
from windowgrad.certify.check_network import (
    Array,
    Network,
    Plane,
    Value,
    bounded,
    constant,
    crossed,
    integers,
    only,
    packed,
    product_in_units,
    sliding,
)
from windowgrad.errors import KindError, OptionError, WindowError, WindowgradError, show
from windowgrad.onnx.graph import Graph, Node


def network_of(graph: Graph, shape: tuple[int, ...], floats: bool) -> tuple[Network, Array]:
    """The steps of a graph with one input, of this shape, and one output; and the cells of the output."""
    if len(graph.inputs) != 1 or len(graph.outputs) != 1:
        raise WindowError(f"{len(graph.inputs)} inputs, {len(graph.outputs)} outputs: must be one of each")
    (given,) = graph.inputs
    sizes = given.shape
    if (
        sizes is None
        or len(sizes) != len(shape)
        or any(isinstance(n, int) and n != m for n, m in zip(sizes, shape, strict=True))
    ):
        raise WindowError(f"the input has shape {show(sizes)}, that of the box is {show(shape)}")
    if given.dtype.kind != "f" or (floats and given.dtype != np.float32):
        raise KindError(f"the input is {given.dtype}: must be {'float32' if floats else 'floating-point numbers'}")
    net = Network(shape, floats)
    values: dict[str, Any] = {**graph.constants, given.name: net.input}
    for node in graph.nodes:
        values[node.outputs[0]] = result_of(net, node, values)
    output = only(values[graph.outputs[0]]).reshape(-1)
    net.drop_unused(output)
    return net, output


def result_of(net: Network, node: Node, values: dict[str, Any]) -> Any:
    if node.op_type not in RULES:
        raise KindError(f"node {node}: not covered; operators are {', '.join(sorted(RULES))}")
    net.name = str(node)
    try:
        return RULES[node.op_type](net, node, *(values[name] if name else None for name in node.inputs))
    except WindowgradError as error:
        raise type(error)(f"node {node}: {error.args[0]}") from None
    except (TypeError, ValueError, IndexError, KeyError, OverflowError) as error:  # inputs that do not fit each other
        raise OptionError(f"node {node}: {error}") from None


# --- windows -----------------------------------------------------------------------------------------------------


def per_axis(node: Node, name: str, rank: int) -> tuple[int, ...]:
    found = node.get(name) or (1,) * rank
    if len(found) != rank or min(found) < 1:
        raise OptionError(f"{name}={show(found)}: must be {rank} positive sizes")
    return tuple(found)


def window(node: Node, x: Array, kernel: Sequence[int]) -> Plane:
    plane, rank = x.shape[2:], len(kernel)
    if len(x) != 1 or len(plane) != rank or not rank:
        raise WindowError(f"x of shape {x.shape}: must be one input with {rank} axes after the channels")
    strides, dilations = per_axis(node, "strides", rank), per_axis(node, "dilations", rank)
    auto, pads = node.get("auto_pad", "NOTSET"), tuple(node.get("pads") or (0,) * (2 * rank))
    if auto in ("SAME_UPPER", "SAME_LOWER"):
        sides = zip(plane, kernel, strides, dilations, strict=True)
        totals = [max(0, (-(-n // s) - 1) * s + d * (k - 1) + 1 - n) for n, k, s, d in sides]
        lows = [t // 2 if auto == "SAME_UPPER" else t - t // 2 for t in totals]
        pads = (*lows, *(t - low for t, low in zip(totals, lows, strict=True)))
    elif auto not in ("NOTSET", "VALID") or len(pads) != 2 * rank:
        raise OptionError(f"auto_pad={show(auto)}, pads={show(pads)}: not valid for {rank} axes")
    pairs = [(0, 0)] * rank if auto == "VALID" else list(zip(pads[:rank], pads[rank:], strict=True))
    return plane, tuple(kernel), strides, pairs, dilations


def conv(net: Network, node: Node, x: Any, w: Any, b: Any = None) -> Value:
    cells, weight, groups = only(x), constant("W", w), node.get("group", 1)
    outs, each = weight.shape[:2]
    if cells.shape[1] != each * groups or outs % groups:
        raise WindowError(f"x of shape {cells.shape}, W of shape {weight.shape}: do not fit with group={groups}")
    grid, places = sliding(window(node, cells, weight.shape[2:]))
    return convolved(net, cells, weight.reshape(groups, outs // groups, each, -1), b, grid, places)


def conv_transpose(net: Network, node: Node, x: Any, w: Any, b: Any = None) -> Value:
    """y[j] = Σ W[k]·x[i] over all i and k with i·stride + k·dilation − padding = j."""
    cells, weight, groups = only(x), constant("W", w), node.get("group", 1)
    if node.get("auto_pad", "NOTSET") != "NOTSET" or node.get("output_shape"):
        raise KindError("auto_pad and output_shape are not covered: give pads and output_padding")
    plane, kernel, strides, pads, dilations = window(node, cells, weight.shape[2:])
    extra = node.get("output_padding") or (0,) * len(kernel)
    grid, places = [], np.zeros((1, 1), np.int64)
    for n, k, s, (lo, hi), d, e in zip(plane, kernel, strides, pads, dilations, extra, strict=True):
        grid.append((n - 1) * s + d * (k - 1) + 1 + e - lo - hi)
        bounded(*grid, *kernel)
        at, rest = np.divmod((np.arange(grid[-1]) + lo)[:, None] - d * np.arange(k), s)
        places = crossed(places, np.where((rest == 0) & (at >= 0) & (at < n), at, -1), n)
    ins, each = weight.shape[:2]
    if cells.shape[1] != ins or ins % groups or min(grid) < 1:
        raise WindowError(f"x of shape {cells.shape}, W of shape {weight.shape}: do not fit with group={groups}")
    full = weight.reshape(groups, ins // groups, each, -1).transpose(0, 2, 1, 3)
    return convolved(net, cells, full, b, tuple(grid), places)


def convolved(net: Network, x: Array, weight: Array, b: Any, grid: Sequence[int], places: Array) -> Value:
    """`weight` is (groups, outputs of a group, channels of a group, taps)."""
    groups, outs, each, taps = weight.shape
    bounded(groups, outs, *places.shape, each)
    flat = x.reshape(groups, each, -1)[:, :, np.maximum(places, 0)]  # groups, each, outputs, taps
    shape = (groups, outs, len(places), each, taps)
    cells = np.broadcast_to(flat.transpose(0, 2, 1, 3)[:, None], shape)
    whole, scale = integers(net.exact(weight))
    there = np.broadcast_to((places >= 0)[:, None], shape)
    rows = (groups * outs * len(places), -1)
    bias = None if b is None else constant("B", b).reshape(-1, *(1,) * len(grid))
    weights = np.broadcast_to(whole[:, :, None], shape).reshape(rows), scale
    return net.sum((1, groups * outs, *grid), cells.reshape(rows), weights, bias, there=there.reshape(rows))


def pooled(net: Network, node: Node, x: Any) -> tuple[Array, tuple[int, ...], Array, Array]:
    cells = only(x)
    given = window(node, cells, node.get("kernel_shape", ()))
    grid, places, inside = packed(given, bool(node.get("ceil_mode", 0)))
    channels = cells.shape[1]
    bounded(channels, *places.shape)
    offsets = np.arange(channels)[:, None, None] * math.prod(given[0])
    taps = np.where(places >= 0, places + offsets, -1).reshape(-1, places.shape[1])
    return cells, (1, channels, *grid), taps, np.tile(inside, channels)


def max_pool(net: Network, node: Node, x: Any) -> Value:
    if len(node.outputs) > 1:
        raise KindError("its indices are not covered")
    _, shape, taps, _ = pooled(net, node, x)
    return net.greatest(shape, [x], taps)


def average_pool(net: Network, node: Node, x: Any) -> Value:
    cells, shape, taps, inside = pooled(net, node, x)
    count = inside if node.get("count_include_pad", 0) else (taps >= 0).sum(axis=1)
    return mean(net, shape, cells.reshape(-1)[taps], count, taps >= 0)


def mean(net: Network, shape: Sequence[int], cells: Array, count: Array, there: Array | None = None) -> Value:
    if not count.all():
        raise WindowError("a window has no cell")
    most, terms = int(count.max(initial=0)), cells.shape[-1] if there is None else int(there.sum(axis=1).max(initial=0))
    return net.sum(shape, cells, (1, 0), there=there, divisors=count.astype(object), roundings=terms + 2, before=most)


def global_pool(net: Network, node: Node, x: Any, greatest: bool) -> Value:
    cells = only(x)
    shape = (*cells.shape[:2], *(1,) * (cells.ndim - 2))
    taps = np.arange(cells.size).reshape(math.prod(shape), -1)
    return (
        net.greatest(shape, [x], taps)
        if greatest
        else mean(net, shape, cells.reshape(taps.shape), np.full(len(taps), taps.shape[1]))
    )


def reduced(net: Network, node: Node, x: Any, axes: Any = None, *, divides: bool) -> Value:
    cells = only(x)
    wanted = whole_numbers(node, "axes", axes)
    if not wanted and node.get("noop_with_empty_axes", 0):
        return x  # type: ignore[no-any-return]
    gone = sorted({axis % cells.ndim for axis in wanted or range(cells.ndim)})
    kept = [axis for axis in range(cells.ndim) if axis not in gone]
    full = [1 if axis in gone else n for axis, n in enumerate(cells.shape)]
    shape = full if node.get("keepdims", 1) else [cells.shape[axis] for axis in kept]
    rows = cells.transpose(*kept, *gone).reshape(math.prod(shape), -1)
    if divides:
        return mean(net, shape, rows, np.full(len(rows), rows.shape[1]))
    return net.sum(shape, rows, (1, 0))


# --- arithmetic --------------------------------------------------------------------------------------------------


def gemm(net: Network, node: Node, a: Any, b: Any, c: Any = None) -> Value:
    """alpha·A·B + beta·C. Each term has n roundings, one more with C, and one more with a factor."""
    alpha, beta = float(node.get("alpha", 1.0)), float(node.get("beta", 1.0))
    cells = only(a).T if node.get("transA", 0) else only(a)
    matrix = constant("B", b).T if node.get("transB", 0) else constant("B", b)
    bias = None if c is None else product_in_units(net.exact(constant("C", c)), beta)
    more = (bias is not None) + (abs(alpha) != 1 or abs(beta) != 1)
    before = 1 if abs(alpha) >= 1 or not alpha else math.ceil(1 / Fraction(abs(alpha)))
    return product(net, cells, matrix, bias, alpha, more, before)


def product(
    net: Network, cells: Array, matrix: Array, bias: Any = None, alpha: float = 1.0, more: int = 0, before: int = 1
) -> Value:
    """(…, n) cells times a matrix (n, m)."""
    n, m = matrix.shape
    rows = cells.reshape(-1, n)
    bounded(len(rows), n, m)
    shape = (len(rows), m, n)
    whole, scale = integers(net.exact(matrix.T))
    factor, finer = integers(np.array([alpha]))
    weights = np.broadcast_to(whole * factor.item(), shape).reshape(-1, n), scale + finer
    full = np.broadcast_to(rows[:, None], shape)
    return net.sum((*cells.shape[:-1], m), full, weights, bias, roundings=n + more, before=before)


def matmul(net: Network, node: Node, a: Any, b: Any) -> Value:
    if isinstance(a, Value) and isinstance(b, Value):
        raise KindError("a product of values that vary is not covered")
    if isinstance(a, Value):
        matrix = constant("B", b)
        found = product(net, a.cells, matrix.reshape(len(matrix), -1))
        return found if matrix.ndim == 2 else Value(found.cells[..., 0])
    matrix, cells = constant("A", a), only(b)
    if matrix.ndim != 2 or cells.ndim > 2:
        raise KindError(f"A of shape {matrix.shape} times B of shape {cells.shape} is not covered")
    return Value(product(net, cells.T, matrix.T).cells.T)


def added(net: Network, node: Node, a: Any, b: Any, sign: int) -> Value:
    if not isinstance(a, Value) and not isinstance(b, Value):
        raise KindError("computes with constants alone: fold them first")
    given = [(x.cells if isinstance(x, Value) else x) for x in (a, b)]
    shape = np.broadcast_shapes(*(x.shape for x in given))
    full = [np.broadcast_to(x, shape).reshape(-1) for x in given]
    if not isinstance(b, Value):
        return net.sum(shape, full[0], (1, 0), (sign * net.exact(full[1])).reshape(shape), roundings=1)
    if not isinstance(a, Value):
        return net.sum(shape, full[1], (sign, 0), full[0].reshape(shape), roundings=1)
    return net.sum(shape, np.stack(full, axis=1), (np.array([1, sign], object), 0), roundings=1)


def scaled(net: Network, node: Node, a: Any, b: Any, divides: bool = False) -> Value:
    """By a constant; a quotient by c is one by an integer and a power of two."""
    value, factor = (a, b) if isinstance(a, Value) or divides else (b, a)
    cells, factors = only(value), net.exact(constant("a factor", factor))
    shape = np.broadcast_shapes(cells.shape, factors.shape)
    full = np.broadcast_to(cells, shape).reshape(-1, 1)
    whole, scale = integers(np.broadcast_to(factors, shape).reshape(-1, 1))
    if not divides:
        return net.sum(shape, full, (whole, scale), roundings=1)
    if not whole.all():
        raise WindowError("divides by zero")
    return net.sum(shape, full, (np.sign(whole) << scale, 0), divisors=np.abs(whole), roundings=1)


def negative(net: Network, node: Node, x: Any) -> Value:
    cells = only(x)
    return net.sum(cells.shape, cells, (-1, 0), roundings=0)


def relu(net: Network, node: Node, x: Any) -> Value:
    return net.greatest(only(x).shape, [x], np.arange(x.cells.size)[:, None], 0.0)


def leaky_relu(net: Network, node: Node, x: Any) -> Value:
    """max(x, 0) − alpha·max(−x, 0), one of which is 0: only the product is rounded."""
    up, down = relu(net, node, x), relu(net, node, negative(net, node, x))
    both = np.stack([up.cells.reshape(-1), down.cells.reshape(-1)], axis=1)
    return net.sum(x.cells.shape, both, np.array([1.0, -node.get("alpha", 0.01)]), roundings=1)


def clip(net: Network, node: Node, x: Any, low: Any = None, high: Any = None) -> Any:
    if node.opset < 11:
        low, high = (None if node.get(name) is None else np.asarray(node.get(name)) for name in ("min", "max"))
    found = x if low is None else paired(net, node, x, low, sign=1)
    return found if high is None else paired(net, node, found, high, sign=-1)


def several(net: Network, node: Node, *given: Any, sign: int) -> Any:
    found = given[0]
    for each in given[1:]:
        found = paired(net, node, found, each, sign=sign)
    return found


def paired(net: Network, node: Node, a: Any, b: Any, sign: int) -> Value:
    values, rest = [x for x in (a, b) if isinstance(x, Value)], [x for x in (a, b) if not isinstance(x, Value)]
    if not values:
        raise KindError("computes with constants alone: fold them first")
    shape = np.broadcast_shapes(*(x.cells.shape if isinstance(x, Value) else x.shape for x in (a, b)))
    taps, offset = [], 0
    for value in values:
        places = np.arange(value.cells.size).reshape(value.cells.shape) + offset
        taps.append(np.broadcast_to(places, shape).reshape(-1))
        offset += value.cells.size
    return net.greatest(shape, values, np.stack(taps, axis=1), rest[0] if rest else None, sign)


RULES: dict[str, Callable[..., Any]] = {
    "Add": partial(added, sign=1),
    "AveragePool": average_pool,
    "Clip": clip,
    "Conv": conv,
    "ConvTranspose": conv_transpose,
    "Div": partial(scaled, divides=True),
    "Gemm": gemm,
    "GlobalAveragePool": partial(global_pool, greatest=False),
    "GlobalMaxPool": partial(global_pool, greatest=True),
    "LeakyRelu": leaky_relu,
    "MatMul": matmul,
    "Max": partial(several, sign=1),
    "MaxPool": max_pool,
    "Min": partial(several, sign=-1),
    "Mul": scaled,
    "Neg": negative,
    "ReduceMean": partial(reduced, divides=True),
    "ReduceSum": partial(reduced, divides=False),
    "Relu": relu,
    "Sub": partial(added, sign=-1),
    **MOVES,
}
