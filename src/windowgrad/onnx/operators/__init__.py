"""The operators of ONNX, one small function each: `f(node, *inputs)`, None for an input that is left out.

They are written with the functions of this project, so they run on arrays of every kind and have derivatives.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from windowgrad.onnx.operators import (
    casting,
    choosing,
    constants,
    elementwise,
    filling,
    indexing,
    linear,
    normalising,
    quantising,
    reducing,
    resizing,
    shaping,
    windows,
)

Function = Callable[..., Any]

FAMILIES = (
    windows,
    elementwise,
    linear,
    normalising,
    shaping,
    constants,
    indexing,
    resizing,
    reducing,
    choosing,
    casting,
    filling,
    quantising,
)

TABLE: dict[str, Function] = {name: function for family in FAMILIES for name, function in family.TABLE.items()}
"""Every supported operator of the domain of ONNX."""
