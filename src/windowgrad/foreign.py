"""Arrays of other packages: which compute for themselves, by what bridge, and what to do with those of the rest.

A package is known by where a class comes from, so none is imported before an array of it is met.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from importlib import import_module
from typing import Any

import numpy as np

from windowgrad.interrupts import put_off
from windowgrad.loading import loading

BRIDGES = {
    # the package a class comes from   the module that computes with its arrays
    "torch": "windowgrad.bridges.torch",
    "jax": "windowgrad.bridges.jax",
    "jaxlib": "windowgrad.bridges.jax",
    "dask": "windowgrad.bridges.dask",
}

WITHOUT_DERIVATIVES = frozenset({"dask"})
"""Packages whose arrays have no derivatives of their own: our tape follows them, and they stay lazy."""


@lru_cache(maxsize=256)
def computes_itself(kind: Any) -> Callable[..., Any] | None:
    """The method by which arrays of this type compute, their own or their bridge's; a bridge is loaded here, when first met."""
    if (own := getattr(kind, "__windowgrad__", None)) is not None:
        return own  # type: ignore[no-any-return]
    bridge = bridge_of(kind)
    return None if bridge is None else bridge.compute


def bridge_of(kind: Any) -> Any:
    """The module for arrays of this type, loaded here; None if there is none."""
    for base in kind.__mro__:
        if (bridge := BRIDGES.get(str(base.__module__).partition(".")[0])) is not None:
            with put_off(), loading:
                return import_module(bridge)
    return None


def constant(name: str, array: Any) -> Any:
    """What an array of a framework holds, as a NumPy array, or a `Mask` whose cells are not known; everything else as it is."""
    bridge = None if isinstance(array, np.ndarray) else bridge_of(type(array))
    return array if bridge is None else bridge.constant(name, array)


def number_beside(name: str, x: Any, array: Any) -> Any:
    """A number in the dtype it has beside an array of a framework whose dtypes are not NumPy's; None beside all others."""
    make = getattr(bridge_of(type(array)), "number", None)
    return None if make is None else make(name, x, array)


def is_followed(kind: type) -> bool:
    """Whether an array of this type, which is not NumPy's, may be differentiated by our own transforms."""
    return hasattr(kind, "__windowgrad__") or is_lazy(kind)


def is_lazy(kind: type) -> bool:
    """Whether it is of a package in `WITHOUT_DERIVATIVES`."""
    return not WITHOUT_DERIVATIVES.isdisjoint(str(base.__module__).partition(".")[0] for base in kind.__mro__)


CONVERSIONS = {
    # the package a class comes from   how to get at what can be computed with
    "xarray": "use {}.data, the array inside",
    "zarr": "use dask.array.from_zarr({}) to compute lazily, or {}[...] to read it into memory",
    "h5py": "use dask.array.from_array({}) to compute lazily, or {}[...] to read it into memory",
    "dask": "call {}.compute()",
    "torch": "call {}.numpy(); torch.autograd differentiates tensors",
    "jax": "call numpy.asarray({}); jax.grad differentiates JAX arrays",
    "jaxlib": "call numpy.asarray({}); jax.grad differentiates JAX arrays",
    "pandas": "call {}.to_numpy()",
    "cupy": "call cupy.asnumpy({})",
    "tensorflow": "call {}.numpy()",
}


def conversion(name: str, array: Any) -> str:
    """What to write instead. The package is known by the name of the class's module, and is not imported."""
    if isinstance(array, type):
        return "pass an instance"
    for base in type(array).__mro__:
        if (said := CONVERSIONS.get(str(base.__module__).partition(".")[0])) is not None:
            return said.format(name, name)
    return f"try numpy.asarray({name})"


def kind_of(array: Any) -> str:
    kind = type(array)
    if isinstance(array, type):
        return f"the class {array.__qualname__}"
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
