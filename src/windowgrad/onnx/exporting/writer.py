"""What a translation writes to: nodes, constants and functions with unique names, of a graph or of a function's body."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from windowgrad.autograd.program import Value
from windowgrad.errors import KindError
from windowgrad.onnx.domain import DOMAIN
from windowgrad.params import Shape

Array = np.ndarray[Any, Any]

MOST_BYTES = (1 << 31) - (1 << 20)
"""How much the constants of a model may take: a protobuf message has less than 2 GiB."""


FEW = 64
"""Cells of a small constant."""


class Refused(Exception):  # noqa: N818  # it never leaves the export: all of them become one error
    """A call that cannot be written; the reason is its text."""


class Body:
    """Nodes in their order. Constants are nodes too, as the body of a function has no initialisers."""

    def __init__(self, opset: int) -> None:
        self.opset = opset
        self.nodes: list[onnx.NodeProto] = []
        self.names: set[str] = {""}
        self.place = ""
        """Where in the model the calls come from that are written now, such as 3.body.0."""
        self.known: dict[Any, str] = {}

    def unique(self, name: str) -> str:
        found, count = name, 1
        while found in self.names:
            count += 1
            found = f"{name}_{count}"
        self.names.add(found)
        return found

    def node(self, kind: str, *inputs: str, **attributes: Any) -> str:
        """The name of the one output of a new node."""
        return self.several(kind, inputs, 1, **attributes)[0]

    def several(self, kind: str, inputs: Sequence[str], outputs: int, domain: str = "", **attributes: Any) -> list[str]:
        """The names of the outputs of a new node; attributes that are None are left out."""
        name = self.unique(f"{self.place}/{kind}" if self.place else kind)
        results = [name, *(self.unique(f"{name}.{number}") for number in range(1, outputs))]
        made = helper.make_node(kind, inputs, results, name, domain=domain)
        made.attribute.extend(attribute(key, value) for key, value in attributes.items() if value is not None)
        self.nodes.append(made)
        return results

    def constant(self, array: Array) -> str:
        """The name of a constant with the cells of `array`; small ones with the same cells are one."""
        array = np.asarray(array)
        if not self.is_shared(array):
            return self.kept(array)
        key = array.dtype, array.shape, array.tobytes()
        if key not in self.known:
            self.known[key] = self.kept(array)
        return self.known[key]

    def is_shared(self, array: Array) -> bool:
        return array.size <= FEW

    def kept(self, array: Array) -> str:
        return self.node("Constant", value=array)

    def integers(self, *values: int) -> str:
        return self.constant(np.array(values, np.int64))

    def cast(self, name: str, given: np.dtype[Any], wanted: np.dtype[Any]) -> str:
        return name if given == wanted else self.node("Cast", name, to=code_of(wanted))

    def squeezed(self, name: str, axes: Iterable[int]) -> str:
        return self.node("Squeeze", name, self.integers(*axes))


class Graph(Body):
    """The graph of a model: its constants are initialisers, and what ONNX has no operator for are functions."""

    def __init__(self, opset: int, places: dict[Any, str], moving: set[int]) -> None:
        super().__init__(opset)
        self.places = places
        """The names of arrays by where they lie in memory (`lying`)."""
        self.moving = moving
        """The numbers of values whose first axis is the batch, of any size."""
        self.initialisers: list[onnx.TensorProto] = []
        self.alive: list[Array] = []
        """The arrays that are known by where they lie: another one must not come to lie there."""
        self.functions: dict[Any, onnx.FunctionProto] = {}
        self.bytes = 0
        self.batched = ""
        """The name of an input whose first axis is the batch."""

    def is_shared(self, array: Array) -> bool:
        """Not a parameter, and not an array that lies in memory in another order: products of matrices round by it."""
        return super().is_shared(array) and array.flags.c_contiguous and lying(array) not in self.places

    def kept(self, array: Array) -> str:
        """The cells as they lie in memory, and a Transpose if that is another order of the axes."""
        order = layout_of(array)
        flat = array if order is None else array.transpose(order)
        key = lying(flat)
        if key not in self.known:
            self.known[key] = self.stored(flat, self.places.get(lying(array)) or self.places.get(key))
            self.alive.append(flat)
        if order is None or order == sorted(order):
            return self.known[key]
        return self.node("Transpose", self.known[key], perm=[order.index(axis) for axis in range(array.ndim)])

    def stored(self, array: Array, name: str | None) -> str:
        """An initialiser with this name, or one for a constant."""
        self.bytes += array.nbytes
        if self.bytes > MOST_BYTES:
            raise KindError("export: the parameters and constants take 2 GiB or more; an ONNX file in one part holds less")
        name = self.unique(name or (f"{self.place}.constant" if self.place else "constant"))
        cells = np.ascontiguousarray(array).reshape(array.shape)
        self.initialisers.append(numpy_helper.from_array(native(cells), name))
        return name

    def shape(self, value: Value) -> list[int]:
        """Its sizes, with −1 for the batch where it may have any size."""
        return [-1, *value.shape[1:]] if value.number in self.moving else list(value.shape)

    def function(self, key: Any, body: Body, inputs: Sequence[str], results: Sequence[str], attributes: Sequence[str]) -> str:
        """The name of a function of our domain with this body, written once for each `key`, which begins with its kind."""
        if key not in self.functions:
            kind = key[0]
            taken = sum(other[0] == kind for other in self.functions)
            name = f"{kind}_{taken + 1}" if taken else kind
            opsets = [helper.make_opsetid("", self.opset)]
            self.functions[key] = helper.make_function(DOMAIN, name, inputs, results, body.nodes, opsets, attributes)
        return str(self.functions[key].name)


def attribute(name: str, value: Any) -> onnx.AttributeProto:
    """An attribute: arrays and floats as tensors in their own precision, as a plain float has but 32 bits."""
    if isinstance(value, np.ndarray):
        value = numpy_helper.from_array(native(np.ascontiguousarray(value).reshape(value.shape)), name)
    elif isinstance(value, (tuple, list)):
        return helper.make_attribute(name, list(value), attr_type=None if value else onnx.AttributeProto.INTS)
    return helper.make_attribute(name, int(value) if isinstance(value, bool) else value)


def native(array: Array) -> Array:
    """In the byte order of this machine."""
    return array.astype(array.dtype.newbyteorder("="), copy=False)


def code_of(dtype: np.dtype[Any]) -> int:
    try:
        return int(helper.np_dtype_to_tensor_dtype(dtype.newbyteorder("=")))
    except (KeyError, ValueError):
        raise KindError(f"export: unsupported dtype {dtype}; ONNX has no such tensors") from None


def layout_of(array: Array) -> list[int] | None:
    """The order of the axes in which the cells lie one after the other in memory; None if they do not."""
    order = sorted(range(array.ndim), key=lambda axis: (-array.strides[axis], axis))
    return order if array.transpose(order).flags.c_contiguous else None


def lying(array: Array) -> tuple[int, Shape, Shape, np.dtype[Any]]:
    """Where an array lies in memory, by which it is known again."""
    return array.__array_interface__["data"][0], array.shape, array.strides, array.dtype
