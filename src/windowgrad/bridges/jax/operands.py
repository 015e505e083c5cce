"""What the array operators share: dtypes, which are those of NumPy arrays as far as JAX has them."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
from jax import lax

from windowgrad.dtypes import float_of, is_float, promoted
from windowgrad.errors import KindError

Array = Any
"""A JAX array or a tracer of JAX's."""


def cast(x: Array, dtype: Any) -> Array:
    """In JAX's dtype for it: without jax_enable_x64, 32 bits for 64."""
    return lax.convert_element_type(x, jax.dtypes.canonicalize_dtype(dtype))


def alike(*xs: Array) -> list[Array]:
    """In one dtype, the one they promote to."""
    dtype = promoted(*(x.dtype for x in xs))
    return [cast(x, dtype) for x in xs]


def floats(x: Array) -> Array:
    """Integers as the floats that a function of them has."""
    return cast(x, float_of(x.dtype))


def wide_of(dtype: Any) -> np.dtype[Any]:
    """The dtype in which floats are summed: float32 for 16 bits."""
    dtype = np.dtype(dtype)
    return np.dtype(np.float32) if is_float(dtype) and dtype.itemsize == 2 else dtype


def refuse_bools(name: str, *xs: Array) -> None:
    if all(x.dtype == bool for x in xs):
        kinds = "dtypes bool and bool" if len(xs) > 1 else "dtype bool"
        raise KindError(f"{name}: unsupported {kinds}; convert it first, for example with astype(int)")


def is_seen(x: Array) -> bool:
    """Whether its cells can be looked at now: JAX does not trace."""
    return not isinstance(x, jax.core.Tracer)
