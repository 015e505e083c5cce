"""Constants of the kind that the inputs are of: exact fractions beside objects, tensors beside tensors."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np

from windowgrad.dtypes import is_float

Kind: TypeAlias = Callable[[Any], Any]


def kind_of(arrays: Sequence[Any]) -> Kind:
    """What makes a constant one of the kind of these arrays; only floats change, integers are shapes and places."""
    if any(is_objects(array) for array in arrays):
        return as_objects
    packages = {package for array in arrays for package in packages_of(type(array))}
    return as_tensor if "torch" in packages else as_jax if {"jax", "jaxlib"} & packages else unchanged


def packages_of(kind: type) -> set[str]:
    return {str(base.__module__).partition(".")[0] for base in kind.__mro__}


def unchanged(x: Any) -> Any:
    return x


def as_objects(x: Any) -> Any:
    return fractions(x) if is_floats(x) else x


def as_tensor(x: Any) -> Any:
    return tensor(x) if is_floats(x) else x


def tensor(x: np.ndarray[Any, Any]) -> Any:
    import torch

    with torch.inference_mode(False):  # else a gradient could never use it
        if x.dtype.name == "bfloat16":  # which PyTorch does not take from NumPy
            return torch.from_numpy(x.astype(np.float32)).to(torch.bfloat16)
        return torch.from_numpy(np.array(x))  # a copy: the constant cannot be written, and PyTorch warns of that


def is_kept(x: Any) -> bool:
    """Whether it is a NumPy array or a plain tensor, and not one of a mode or a transform."""
    import torch

    return type(x) in (np.ndarray, torch.Tensor)


def places_beside(x: Any, places: Any) -> Any:
    """Integers that say places in the array x: a tensor beside a tensor."""
    return tensor(places) if "torch" in packages_of(type(x)) else places


def as_jax(x: Any) -> Any:
    if not is_floats(x):
        return x
    import jax

    with jax.ensure_compile_time_eval():  # under jit too it is a constant, of which shapes may be made
        return jax.numpy.asarray(x)


def is_floats(x: Any) -> bool:
    return isinstance(x, np.ndarray) and is_float(x.dtype)


def is_objects(x: Any) -> bool:
    dtype = getattr(x, "dtype", None)
    return isinstance(dtype, np.dtype) and dtype.kind == "O"


def fractions(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The very numbers; infinities and NaN, which are no fractions, stay floats."""
    found = np.empty(array.shape, object)
    found.reshape(-1)[:] = [exact(number) for number in array.reshape(-1).tolist()]
    return found


def exact(number: float) -> Any:
    return Fraction(number) if math.isfinite(number) else number


def number(value: float, beside: Any) -> Any:
    """An attribute beside an array: a fraction beside objects, so that nothing is rounded."""
    return exact(value) if is_objects(beside) else value
