"""Functions of the domain `windowgrad` in a model, computed by the operators that they stand for, not by their bodies."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from windowgrad.onnx.domain import DOMAIN, OPERATORS, meaning
from windowgrad.onnx.graph import Node


def kept(model: Any) -> Any:
    """The model without the bodies of functions that are known here. Each call has the plain name of its operator."""
    known = {function.name: plain_name(function.name) for function in model.functions if function.domain == DOMAIN}
    known = {name: plain for name, plain in known.items() if plain in OPERATORS}
    if not known:
        return model
    found = type(model)()
    found.CopyFrom(model)
    others = [function for function in model.functions if function.domain != DOMAIN or function.name not in known]
    del found.functions[:]
    found.functions.extend(others)
    for node in found.graph.node:
        if node.domain == DOMAIN:
            node.op_type = known.get(node.op_type, node.op_type)
    return found


def plain_name(kind: str) -> str:
    """Without the number by which functions of one operator differ."""
    return re.sub(r"_\d+$", "", kind)


def computed(node: Node, *inputs: Any) -> Any:
    return meaning(node.op_type, node.attributes)(*inputs, indices=len(node.outputs) > 1)


TABLE: dict[str, Callable[..., Any]] = dict.fromkeys(OPERATORS, computed)
