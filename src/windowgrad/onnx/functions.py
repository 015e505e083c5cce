"""Functions that a model defines for itself, replaced by their bodies. One that calls itself is refused."""

from __future__ import annotations

from typing import Any

from windowgrad.errors import OptionError, show
from windowgrad.memory import in_bytes

MOST = 2**28
"""Bytes of functions after inlining: a few that call each other twice make as many nodes as one likes."""
LEAST = 2**11
"""Bytes that a node counts for, however small it is."""
DEEPEST = 100

Key = tuple[str, str]


def inlined(bare: Any, model: Any) -> Any:
    """The model with its functions inlined; `bare` is the model without its weights."""
    from onnx import inliner

    try:
        found = inliner.inline_local_functions(bare)
    except Exception as error:  # of C++
        raise OptionError(f"its functions cannot be inlined: {error}") from None
    del found.graph.input[:]
    found.graph.input.extend(model.graph.input)
    found.graph.initializer.extend(model.graph.initializer)
    return found


def without_weights(model: Any) -> Any:
    """A copy in which initialisers are inputs: it is small, and has no data."""
    from onnx import helper

    bare, graph = type(model)(), type(model.graph)()
    for source, target, left_out in ((model, bare, "graph"), (model.graph, graph, "initializer")):
        for field, value in source.ListFields():
            if field.name == left_out:
                continue
            if hasattr(value, "extend"):  # repeated
                getattr(target, field.name).extend(value)
            elif hasattr(value, "CopyFrom"):  # a message
                getattr(target, field.name).CopyFrom(value)
            else:
                setattr(target, field.name, value)
    given = {value.name for value in graph.input}
    for tensor in model.graph.initializer:
        if tensor.name not in given:
            graph.input.append(helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims))
    for value in (*graph.input, *graph.output):
        if value.type.HasField("tensor_type"):
            value.type.tensor_type.shape.SetInParent()  # the checker wants one, and does not look at it
    bare.graph.CopyFrom(graph)
    return bare


def check_calls(model: Any) -> None:
    """No function calls itself, on whatever way, and the bodies of all calls together have no more than `MOST` bytes."""
    bodies: dict[Key, Any] = {}
    for function in model.functions:
        if bodies.setdefault((function.domain, function.name), function) is not function:
            raise OptionError(f"function {show(function.name)}: is defined twice")
    sizes: dict[Key, int] = {}

    def size_of(key: Key, callers: tuple[Key, ...]) -> int:
        if key not in bodies:
            return 0
        if key in callers or len(callers) > DEEPEST:
            why = "calls itself" if key in callers else f"is nested more than {DEEPEST} deep"
            raise OptionError(f"function {show(key[1])}: {why}")
        if key not in sizes:
            inner = bodies[key].node
            own = sum(max(LEAST, node.ByteSize()) for node in inner)
            sizes[key] = own + sum(size_of((node.domain, node.op_type), (*callers, key)) for node in inner)
        return sizes[key]

    if (size := sum(size_of((node.domain, node.op_type), ()) for node in model.graph.node)) > MOST:
        raise OptionError(f"its functions have {in_bytes(size)} when they are inlined: must be at most {in_bytes(MOST)}")
