"""What operators need of their inputs: numbers that must be known, axes, dtypes, and numbers without derivatives."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from windowgrad.arguments import MOST_AXES
from windowgrad.autograd.arrays.records import axes_of
from windowgrad.autograd.steps import untraced
from windowgrad.errors import KindError, OptionError, WindowError, show
from windowgrad.foreign import constant, is_lazy
from windowgrad.onnx.graph import Node

Array = np.ndarray[Any, np.dtype[Any]]


def numbers(name: str, x: Any) -> Any:
    """The numbers of an input as a NumPy array, or as a Dask array that is still to be computed. They have no derivative.

    A traced value gives its plain value, an array of a framework what it holds.
    """
    try:
        x = untraced(x)
    except KindError:
        said = "must not depend on the inputs while the function is recorded: the outcome would be frozen"
        raise KindError(f"{name}: {said}") from None
    return x if is_lazy(type(x)) else np.asarray(constant(name, x))


def known(name: str, x: Any) -> Array:
    """The numbers of an input that say how to compute: a shape, axes, scales, indices."""
    x = numbers(name, x)
    if not isinstance(x, np.ndarray):
        raise KindError(f"{name}: must be known before anything is computed, and not be a Dask array; call {name}.compute()")
    return x


def integers(name: str, x: Any) -> tuple[int, ...]:
    """The entries of an input or attribute that must be known."""
    array = known(name, np.asarray(x, np.int64) if isinstance(x, (tuple, list)) else x)
    if array.dtype.kind not in "iu" or array.ndim > 1:
        raise KindError(f"{name}: must be integers along one axis, not {array.dtype}{array.shape}")
    return tuple(map(int, array.reshape(-1)))


def sizes_of(name: str, x: Any) -> tuple[int, ...]:
    """A shape, of which no size is to be inferred."""
    found = integers(name, x)
    if min(found, default=0) < 0 or len(found) > MOST_AXES:
        raise WindowError(f"{name}={show(found)}: must be at most {MOST_AXES} sizes, none of them negative")
    return found


def number(name: str, x: Any) -> Any:
    """The one entry of an input that must be known."""
    array = known(name, x)
    if array.size != 1:
        raise WindowError(f"{name} of shape {array.shape}: must have one element")
    return array.reshape(-1)[0]


def exactly(name: str, x: Any) -> Fraction:
    """A number as the fraction it is."""
    if isinstance(x, (Fraction, int)):
        return Fraction(x)
    if isinstance(x, np.integer):
        return Fraction(int(x))
    if not math.isfinite(x):
        raise OptionError(f"{name}={x}: must be finite")
    return Fraction(float(x))


def given(node: Node, name: str, x: Any) -> tuple[int, ...] | None:
    """Integers that are an input in newer opsets and an attribute in older ones; None if they are neither."""
    x = node.get(name) if x is None else x
    return None if x is None else integers(name, x)


def required(node: Node, name: str, x: Any) -> tuple[int, ...]:
    """The same where they cannot be left out."""
    found = given(node, name, x)
    if found is None:
        raise OptionError(f"{name}: must be given")
    return found


def all_axes(axes: Sequence[int] | None, shape: Sequence[int]) -> tuple[int, ...]:
    """Axes of an array of `shape` counted from the front; None means all of them, in order."""
    return tuple(range(len(shape))) if axes is None else axes_of("axes", axes, tuple(shape))


def choice(node: Node, name: str, options: Sequence[str], default: str) -> str:
    """An attribute that is one of several words."""
    value = node.get(name, default)
    if value not in options:
        raise OptionError(f"{name}={show(value)}: must be {', '.join(map(repr, options[:-1]))} or {options[-1]!r}")
    return str(value)


def dtype_in(x: Any) -> np.dtype[Any]:
    """The dtype of an array of any kind, as NumPy's."""
    dtype: Any = x.dtype
    return dtype if isinstance(dtype, np.dtype) else np.dtype(str(dtype).rpartition(".")[2])  # torch.float32
