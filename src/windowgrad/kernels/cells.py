"""From arrays of any layout and dtype to the flat arrays that kernels read and write, and back."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from windowgrad.kernels.plan import Plan, plan
from windowgrad.params import PoolParams

Array = np.ndarray[Any, Any]


def planned(params: PoolParams, x: Array) -> tuple[Plan, int]:
    """The plan of a plane, and how many planes there are."""
    lead, spatial = params.geometry.split(x.shape)
    return plan(params.geometry, spatial), math.prod(lead)


WIDER = {"int16": np.int32, "uint16": np.int32, "uint32": np.int64, "float16": np.float32, "bfloat16": np.float32}
"""Dtypes that have no kernels of their own, and the one that holds their values in the same order."""


def ordered(x: Array) -> Array:
    """The cells in a row, in a dtype whose order is theirs and that kernels compare; bools are bytes."""
    x = writeable(np.ascontiguousarray(x).reshape(-1))
    if x.dtype == np.bool_:
        return x.view(np.uint8)
    return x.astype(WIDER[x.dtype.name]) if x.dtype.name in WIDER else x


def added(x: Array) -> Array:
    """The cells in a row, as floats that kernels add: float32 if it holds their values, else float64."""
    x = writeable(np.ascontiguousarray(x).reshape(-1))
    return x.astype(np.float64 if x.dtype.itemsize > 2 and x.dtype != np.float32 else np.float32, copy=False)


class Alias:
    """The memory of an array, as if it could be written; it keeps the array alive."""

    def __init__(self, x: Array) -> None:
        self.x = x
        self.__array_interface__ = {**x.__array_interface__, "data": (x.ctypes.data, False)}


def writeable(x: Array) -> Array:
    """A read-only array as one that is not, for kernels that only read: else each would be compiled for both kinds."""
    return x if x.flags.writeable else np.asarray(Alias(x))


def computed(dtype: Any) -> Any:
    """The dtype in which a result of `dtype` is computed."""
    return ordered(np.empty(0, dtype)).dtype


def finished(y: Array, shape: tuple[int, ...], dtype: Any) -> Array:
    """The result in its own dtype and shape."""
    return (y.view(bool) if dtype == np.bool_ else y.astype(dtype, copy=False)).reshape(shape)


def cells(p: Plan) -> tuple[Any, ...]:
    """What every scalar kernel is told of the plan."""
    return p.outer, p.plane_in, p.ptr, p.rows, p.start, p.count, p.step


def along(p: Plan) -> tuple[int, int, int, int]:
    """What a row kernel is told besides: the row and the windows along it."""
    return p.width, p.kernel, p.stride, p.before
