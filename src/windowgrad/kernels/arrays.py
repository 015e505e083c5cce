"""From arrays of any layout and dtype to the flat arrays that kernels read and write, and back."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from windowgrad.dtypes import is_half
from windowgrad.kernels.runtime.buffers import empty

Array = np.ndarray[Any, Any]

WIDER = {"int16": np.int32, "uint16": np.int32, "uint32": np.int64, "float16": np.float32, "bfloat16": np.float32}
"""Dtypes that have no kernels of their own, and the one that holds their values in the same order."""


@cache
def computed(dtype: Any) -> Any:
    """The dtype in which a result of `dtype` is computed, and in which its cells are compared: bools are bytes."""
    return np.dtype(np.uint8 if dtype == np.bool_ else WIDER.get(dtype.name, dtype))


@cache
def summed(dtype: Any) -> Any:
    """The dtype in which cells of `dtype` are added: float32 if it holds their values, else float64."""
    return np.dtype(np.float64 if dtype.itemsize > 2 and dtype != np.float32 else np.float32)


def ordered(x: Array) -> Array:
    """The cells in a row, in a dtype whose order is theirs and that kernels compare."""
    return flat(x).view(np.uint8) if x.dtype.kind == "b" else cast(flat(x), computed(x.dtype))


def added(x: Array) -> Array:
    """The cells in a row, as floats that kernels add."""
    return cast(flat(x), summed(x.dtype))


def cast(x: Array, dtype: Any) -> Array:
    """A contiguous array with its cells in another dtype; itself if they are."""
    if x.dtype == dtype:
        return x
    if not (is_recast(x.dtype, dtype) and x.flags.c_contiguous):
        return x.astype(dtype)
    from windowgrad.kernels.vector.halves import changed  # it loads Numba, which this module must not

    return changed(x, dtype)


@cache
def is_recast(old: Any, new: Any) -> bool:
    """Whether a kernel makes cells of one dtype those of another: NumPy takes long for floats of 16 bits."""
    return bool((is_half(old) and new == np.float32) or (old == np.float32 and is_half(new)))


def flat(x: Array) -> Array:
    """The cells in a row, contiguous, as if they could be written."""
    if x.flags.carray:
        return x.reshape(-1)
    from windowgrad.kernels.vector.views import copied  # it loads Numba, which this module must not

    return writeable(copied(x).reshape(-1))


class Alias:
    """The memory of an array, as if it could be written; it keeps the array alive."""

    def __init__(self, x: Array) -> None:
        self.x = x
        self.__array_interface__ = {**x.__array_interface__, "data": (x.ctypes.data, False)}


def writeable(x: Array) -> Array:
    """A read-only array as one that is not, for kernels that only read: else each would be compiled for both kinds."""
    return x if x.flags.writeable else np.asarray(Alias(x)).view(x.dtype)  # an interface cannot name bfloat16


def room(out: Array | None, size: int, dtype: Any) -> Array:
    """Flat memory for a result: that of `out`, unless its cells are computed in a wider dtype; else new."""
    if out is not None and out.itemsize == dtype.itemsize:
        return out.reshape(-1).view(dtype)
    return empty((size,), dtype)


def finished(y: Array, shape: tuple[int, ...], dtype: Any) -> Array:
    """The result in its own dtype and shape."""
    return (y.view(bool) if dtype.kind == "b" else cast(y, dtype)).reshape(shape)
