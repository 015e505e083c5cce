"""The public call, so that an error can show it: `max_pool2d(x: float32(1, 3, 8, 8), kernel_size=3, padding=-1)`."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any

from windowgrad.errors import MOST, WindowgradError, show


class Call:
    """Around the body of a public function: an error that leaves it names the call. Costs nothing while all is well."""

    __slots__ = ("arguments", "function")

    def __init__(self, function: Callable[..., Any], arguments: Mapping[str, Any]) -> None:
        self.function, self.arguments = function, arguments

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if isinstance(error, WindowgradError) and error.call is None:
            error.call = str(self)
            nodes = [v.described for v in self.arguments.values() if hasattr(type(v), "described")]  # variables of a tape
            if nodes and error.where is None:
                error.where = f"{self.function.__name__} of nodes {', '.join(nodes)}"

    def __str__(self) -> str:
        parameters = inspect.signature(self.function).parameters.values()
        given = (shown(p.name, self.arguments[p.name]) for p in parameters if self.arguments[p.name] is not p.default)
        return f"{self.function.__name__}({', '.join(given)})"


def shown(name: str, value: Any) -> str:
    """Arrays by kind and shape, everything else by value."""
    if is_array(value):
        return f"{name}: {kind(value)}"
    if isinstance(value, tuple) and any(map(is_array, value[:MOST])):
        return f"{name}: ({', '.join(kind(v) if is_array(v) else show(v) for v in value[:MOST])})"
    return f"{name}={show(value)}"


def is_array(value: Any) -> bool:
    return hasattr(value, "dtype") and isinstance(getattr(value, "shape", None), (tuple, list))


def kind(array: Any) -> str:
    return f"{array.dtype}{tuple(array.shape)}" if len(array.shape) <= MOST else f"{array.dtype} of {len(array.shape)} axes"
