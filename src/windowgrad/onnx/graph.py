"""What a model says, as Python values: nodes in order with their attributes, inputs with shapes, constants as arrays."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from windowgrad.errors import KindError, OptionError, cut, show
from windowgrad.onnx.tensors import array_of, dtype_of

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Input:
    """An array that a network is given: its shape has a name where a size is symbolic, and None where it is unknown."""

    name: str
    shape: tuple[int | str | None, ...] | None
    dtype: np.dtype[Any]


@dataclass(frozen=True)
class Node:
    """One operator on named values. An input that is left out is called ""."""

    name: str
    op_type: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Any]
    opset: int

    def get(self, name: str, default: Any = None) -> Any:
        """An attribute: int, float, str, a tuple of them, or an array."""
        return self.attributes.get(name, default)

    def __str__(self) -> str:
        """As errors say it."""
        return f"{quoted(self.name)} ({self.op_type})"


@dataclass(frozen=True)
class Graph:
    """Nodes in an order in which they can be computed; `constants` are the initialisers."""

    name: str
    inputs: tuple[Input, ...]
    outputs: tuple[str, ...]
    nodes: tuple[Node, ...]
    constants: Mapping[str, Array]


def quoted(name: str) -> str:
    return f'"{cut(name, 80)}"' if name.isprintable() else show(name)


def decoded(model: Any) -> Graph:
    """The graph of a model that `read` has checked: names are there once, and before they are used, so there is no cycle."""
    graph = model.graph
    opset = next(entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx"))
    if graph.sparse_initializer:
        raise KindError("unsupported sparse initialisers: store them as dense tensors")
    constants = {tensor.name: array_of(f"initialiser {quoted(tensor.name)}", tensor) for tensor in graph.initializer}
    inputs = tuple(input_of(value) for value in graph.input if value.name not in constants)
    nodes = tuple(node_of(node, name, opset) for node, name in zip(graph.node, names_of(graph.node), strict=True))
    outputs = tuple(value.name for value in graph.output)
    if not outputs:
        raise OptionError("the graph has no outputs")
    return Graph(graph.name, inputs, outputs, nodes, constants)


def input_of(value: Any) -> Input:
    where = f"input {quoted(value.name)}"
    kind = value.type.WhichOneof("value")
    if kind != "tensor_type":
        raise KindError(f"{where}: must be a tensor, not {str(kind).removesuffix('_type')}")
    tensor = value.type.tensor_type
    shape = None
    if tensor.HasField("shape"):
        shape = tuple(size_of(dim) for dim in tensor.shape.dim)
        if any(isinstance(n, int) and n < 0 for n in shape):
            raise OptionError(f"{where}: shape {show(shape)}: must not be negative")
    return Input(value.name, shape, dtype_of(where, tensor.elem_type))


def size_of(dim: Any) -> int | str | None:
    if dim.HasField("dim_value"):
        return int(dim.dim_value)
    return str(dim.dim_param) or None


def names_of(nodes: Any) -> list[str]:
    """A name for each node: its own, or its operator and number; what comes again gets a number too."""
    found: dict[str, None] = {}
    for number, node in enumerate(nodes):
        name = node.name or f"{node.op_type}_{number}"
        while name in found:
            name += f"_{number}"
        found[name] = None
    return list(found)


def node_of(node: Any, name: str, opset: int) -> Node:
    attributes = {}
    for attribute in node.attribute:
        where = f"node {quoted(name)} ({node.op_type}): attribute {quoted(attribute.name)}"
        attributes[attribute.name] = value_of(where, attribute)
    return Node(name, node.op_type, tuple(node.input), tuple(node.output), attributes, opset)


def value_of(where: str, attribute: Any) -> Any:
    from onnx import AttributeProto as Proto

    match attribute.type:
        case Proto.INT:
            return attribute.i
        case Proto.FLOAT:
            return attribute.f
        case Proto.STRING:
            return attribute.s.decode()
        case Proto.INTS:
            return tuple(attribute.ints)
        case Proto.FLOATS:
            return tuple(attribute.floats)
        case Proto.STRINGS:
            return tuple(text.decode() for text in attribute.strings)
        case Proto.TENSOR:
            return array_of(where, attribute.t)
    raise KindError(f"{where}: unsupported kind {Proto.AttributeType.Name(attribute.type)}")
