"""Arrays that a node brings with it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from windowgrad.errors import KindError, OptionError
from windowgrad.onnx.graph import Node

KINDS = {"value_int": np.int64, "value_ints": np.int64, "value_float": np.float32, "value_floats": np.float32}


def constant(node: Node) -> Any:
    if len(node.attributes) != 1:
        raise OptionError(f"has {len(node.attributes)} attributes: exactly one must say the value")
    ((name, value),) = node.attributes.items()
    if name == "value":
        return value
    if name not in KINDS:
        raise KindError(f"unsupported attribute {name}: must be value, {', '.join(KINDS)}")
    return np.array(value, KINDS[name])


TABLE: dict[str, Callable[..., Any]] = {"Constant": constant}
