"""How the checker of certificates reads the operators of ONNX that only move cells."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from windowgrad.certify.check_network import Network, Value, bounded, constant, only
from windowgrad.errors import KindError, OptionError, WindowError, show
from windowgrad.onnx.graph import Node


def whole_numbers(node: Node, name: str, x: Any) -> tuple[int, ...] | None:
    """Integers that are an input in newer opsets and an attribute in older ones."""
    found = node.get(name) if x is None else constant(name, x).reshape(-1).tolist()
    if found is not None and not all(isinstance(n, int) for n in found):
        raise KindError(f"{name} must be integers")
    return None if found is None else tuple(found)


def needed(node: Node, name: str, x: Any) -> tuple[int, ...]:
    found = whole_numbers(node, name, x)
    if found is None:
        raise OptionError(f"{name} is missing")
    return found


def shape_of(x: Any) -> tuple[int, ...]:
    return tuple((x.cells if isinstance(x, Value) else x).shape)


def same(net: Network, node: Node, x: Any, *_: Any) -> Any:
    return x


def dropout(net: Network, node: Node, x: Any, ratio: Any = None, training: Any = None) -> Any:
    if training is not None and constant("training_mode", training).any():
        raise KindError("training_mode is not covered")
    return x


def reshape(net: Network, node: Node, x: Any, shape: Any = None) -> Any:
    sizes, old = list(needed(node, "shape", shape)), shape_of(x)
    if not node.get("allowzero", 0):
        sizes = [n or old[axis] for axis, n in enumerate(sizes)]
    return net.moved(x, lambda a: a.reshape(sizes))


def flatten(net: Network, node: Node, x: Any) -> Any:
    shape = shape_of(x)
    axis = node.get("axis", 1) % len(shape) if node.get("axis", 1) < 0 else node.get("axis", 1)
    return net.moved(x, lambda a: a.reshape(math.prod(shape[:axis]), math.prod(shape[axis:])))


def transpose(net: Network, node: Node, x: Any) -> Any:
    return net.moved(x, lambda a: a.transpose(node.get("perm")))


def squeeze(net: Network, node: Node, x: Any, axes: Any = None) -> Any:
    return net.moved(x, lambda a: a.squeeze(whole_numbers(node, "axes", axes)))


def unsqueeze(net: Network, node: Node, x: Any, axes: Any = None) -> Any:
    return net.moved(x, lambda a: np.expand_dims(a, needed(node, "axes", axes)))


def concat(net: Network, node: Node, *given: Any) -> Any:
    if not any(isinstance(x, Value) for x in given):
        return np.concatenate(given, node.get("axis"))
    return Value(np.concatenate([net.variable(x).cells for x in given], node.get("axis")))


def sliced(net: Network, node: Node, x: Any, starts: Any = None, ends: Any = None, axes: Any = None, steps: Any = None) -> Any:
    first, last = needed(node, "starts", starts), needed(node, "ends", ends)
    where = whole_numbers(node, "axes", axes) or tuple(range(len(first)))
    strides = whole_numbers(node, "steps", steps) or (1,) * len(first)
    for start, end, axis, step in zip(first, last, where, strides, strict=True):
        places = np.arange(shape_of(x)[axis])[slice(start, end, step)]
        x = net.moved(x, partial(np.take, indices=places, axis=axis))
    return x


def pad(net: Network, node: Node, x: Any, pads: Any = None, value: Any = None, axes: Any = None) -> Any:
    if node.get("mode", "constant") != "constant":
        raise KindError(f"mode={node.get('mode')}: only constant is covered")
    cells, sizes = only(x), needed(node, "pads", pads)
    where = [axis % cells.ndim for axis in whole_numbers(node, "axes", axes) or range(cells.ndim)]
    if min(sizes, default=0) < 0 or len(sizes) != 2 * len(where):
        raise WindowError(f"pads={show(sizes)}: must be two sizes per axis, none negative")
    widths = [(0, 0)] * cells.ndim
    for place, axis in enumerate(where):
        widths[axis] = sizes[place], sizes[place + len(where)]
    bounded(*(n + lo + hi for n, (lo, hi) in zip(cells.shape, widths, strict=True)))
    filler = np.asarray(node.get("value", 0.0)) if value is None else constant("value", value)
    border = net.variable(filler.reshape(1)).cells.item()
    return Value(np.pad(cells, widths, constant_values=border))


def given_constant(net: Network, node: Node) -> Any:
    for name in ("value", "value_float", "value_floats", "value_int", "value_ints"):
        if node.get(name) is not None:
            return np.asarray(node.get(name))
    raise KindError("its kind of value is not covered")


MOVES: dict[str, Callable[..., Any]] = {
    "Concat": concat,
    "Constant": given_constant,
    "Dropout": dropout,
    "Flatten": flatten,
    "Identity": same,
    "Pad": pad,
    "Reshape": reshape,
    "Slice": sliced,
    "Squeeze": squeeze,
    "Transpose": transpose,
    "Unsqueeze": unsqueeze,
}
