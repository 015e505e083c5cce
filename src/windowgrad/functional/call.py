"""The public call, so that an error can show it: `max_pool2d(x: float32(1, 3, 8, 8), kernel_size=3, padding=-1)`."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from windowgrad.errors import MOST, WindowgradError, show


def show_call(error: WindowgradError, function: Callable[..., Any], arguments: Mapping[str, Any]) -> None:
    """An error that leaves a public function names the call, and the variables of a tape among its arguments."""
    if error.call is not None:
        return
    parameters = inspect.signature(function).parameters.values()
    given = [(p.name, arguments[p.name]) for p in parameters if arguments[p.name] is not p.default]
    error.call = f"{function.__name__}({', '.join(shown(name, value) for name, value in given)})"
    nodes = [value.described for _, value in given if hasattr(type(value), "described")]
    if nodes and error.where is None:
        error.where = f"{function.__name__} of nodes {', '.join(nodes)}"


def shown(name: str, value: Any) -> str:
    """Arrays by kind and shape, everything else by value."""
    if is_array(value):
        return f"{name}: {kind(value)}"
    if type(value) in (tuple, list) and any(map(is_array, first := value[:MOST])):
        entries = ", ".join(kind(v) if is_array(v) else show(v) for v in first) + ", …" * (len(value) > MOST)
        return f"{name}: ({entries})" if isinstance(value, tuple) else f"{name}: [{entries}]"
    return f"{name}={show(value)}"


def is_array(value: Any) -> bool:
    return hasattr(value, "dtype") and isinstance(getattr(value, "shape", None), (tuple, list))


def kind(array: Any) -> str:
    return f"{array.dtype}{tuple(array.shape)}" if len(array.shape) <= MOST else f"{array.dtype} of {len(array.shape)} axes"
