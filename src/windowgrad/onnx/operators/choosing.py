"""Comparisons, logic and Where. What is compared are plain numbers: the outcome has no derivative."""

from __future__ import annotations

import operator
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from windowgrad.autograd.arrays import where
from windowgrad.autograd.arrays.records import broadcast
from windowgrad.errors import KindError
from windowgrad.onnx.graph import Node
from windowgrad.onnx.operators.values import numbers


def compared(how: Callable[[Any, Any], Any], node: Node, a: Any, b: Any) -> Any:
    broadcast("A of shape {} and B of shape {}", tuple(a.shape), tuple(b.shape))
    return how(numbers("A", a), numbers("B", b))


def combined(how: Callable[..., Any], node: Node, *flags: Any) -> Any:
    """A function of bools."""
    found = [numbers(name, each) for name, each in zip("AB", flags, strict=False)]
    for name, each in zip("AB", found, strict=False):
        if each.dtype.kind != "b":
            raise KindError(f"{name}: must be bools, not {each.dtype}")
    broadcast("A of shape {} and B of shape {}", *(tuple(each.shape) for each in (found * 2)[:2]))
    return how(*found)


def chosen(node: Node, condition: Any, a: Any, b: Any) -> Any:
    return where(numbers("condition", condition), a, b)


TABLE: dict[str, Callable[..., Any]] = {
    "And": partial(combined, np.logical_and),
    "Equal": partial(compared, operator.eq),
    "Greater": partial(compared, operator.gt),
    "GreaterOrEqual": partial(compared, operator.ge),
    "Less": partial(compared, operator.lt),
    "LessOrEqual": partial(compared, operator.le),
    "Not": partial(combined, np.logical_not),
    "Or": partial(combined, np.logical_or),
    "Where": chosen,
    "Xor": partial(combined, np.logical_xor),
}
