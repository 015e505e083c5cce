"""From arrays of any layout and dtype to the flat arrays that kernels read and write, and back."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any, Literal

import numpy as np

from windowgrad.caches import SMALL
from windowgrad.geometry import Geometry
from windowgrad.kernels.buffers import empty
from windowgrad.kernels.plan import Plan, plan
from windowgrad.params import PoolParams

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Layout:
    """How the arrays of a call stand in memory: plane after plane or, channels last, cell after cell with all its channels."""

    plan: Plan
    planes: int
    channels: int  # of a cell: 1 where channels come first
    last: bool
    channel: int  # the axis of the channels
    out_shape: tuple[int, ...]

    def stored(self, x: Array) -> Array:
        """The array with its axes in the order of memory."""
        return np.moveaxis(x, self.channel, -1) if self.last else x

    def finished(self, y: Array, shape: tuple[int, ...], dtype: Any) -> Array:
        """The result in its own dtype and shape."""
        y = y.view(bool) if dtype.kind == "b" else y.astype(dtype, copy=False)
        if not self.last:
            return y.reshape(shape)
        moved = (*shape[: self.channel], *shape[self.channel + 1 :], shape[self.channel])
        return np.moveaxis(y.reshape(moved), -1, self.channel)


Form = Literal["first", "rows", "together", "alone"]
"""How kernels see the channels of a layout.

"first": channels first, as everywhere; arrays of another layout are copied.
"rows": a cell is a run of channels, and may become a row of its own; for reductions that no order changes.
"together": a cell is a run of channels, and the runs of a row stay together.
"alone": the plan is that of one channel alone, and the kernel is told how many there are.
"""


def laid_out(params: PoolParams, x: Array, form: Form = "rows", shape: tuple[int, ...] | None = None) -> Layout:
    """The layout of a call by that of one of its arrays; `shape` is that of the input, if x is not the input."""
    shape = shape or x.shape
    if not is_channels_last(x, params.geometry, shape):
        form = "first"
    return kept_layout(params.geometry, shape, form) or new_layout(params.geometry, shape, form)


def is_channels_last(x: Array, geometry: Geometry, shape: tuple[int, ...]) -> bool:
    """Whether the axis before the spatial ones is the fastest in memory, the others in order; not of channels first."""
    channel = len(shape) - geometry.rank - 1
    return channel >= 0 and not x.flags.c_contiguous and np.moveaxis(x, channel, -1).flags.c_contiguous


def new_layout(geometry: Geometry, shape: tuple[int, ...], form: Form) -> Layout:
    lead, spatial = geometry.split(shape)
    out = (*lead, *geometry.grid(spatial))
    if form == "first":
        return Layout(plan(geometry, spatial), math.prod(lead), 1, False, len(lead) - 1, out)
    p = plan(geometry, spatial) if form == "alone" else plan(geometry, spatial, lead[-1], form == "together")
    return Layout(p, math.prod(lead[:-1]), lead[-1], True, len(lead) - 1, out)


@lru_cache(maxsize=256)
def kept_layout(geometry: Geometry, shape: tuple[int, ...], form: Form) -> Layout | None:
    """The layout found by the shape of the whole array; None if its plan is too large to keep."""
    found = new_layout(geometry, shape, form)
    return found if found.plan.size < SMALL else None


def planned(params: PoolParams, x: Array) -> tuple[Plan, int]:
    """The plan of a plane, and how many planes there are, where channels come first."""
    found = kept_layout(params.geometry, x.shape, "first") or new_layout(params.geometry, x.shape, "first")
    return found.plan, found.planes


@lru_cache(maxsize=1024)
def out_shape(geometry: Geometry, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The shape of the output for an array of `shape`, found once."""
    return geometry.out_shape(shape)


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
    return flat(x).view(np.uint8) if x.dtype.kind == "b" else flat(x).astype(computed(x.dtype), copy=False)


def added(x: Array) -> Array:
    """The cells in a row, as floats that kernels add."""
    return flat(x).astype(summed(x.dtype), copy=False)


def flat(x: Array) -> Array:
    """The cells in a row, contiguous, as if they could be written."""
    return x.reshape(-1) if x.flags.carray else writeable(np.ascontiguousarray(x).reshape(-1))


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
    return (y.view(bool) if dtype.kind == "b" else y.astype(dtype, copy=False)).reshape(shape)


def cells(p: Plan) -> tuple[Any, ...]:
    """What every scalar kernel is told of the plan."""
    return p.outer, p.plane_in, p.ptr, p.rows, p.start, p.count, p.step


def along(p: Plan) -> tuple[int, int, int, int]:
    """What a row kernel is told besides: the row and the windows along it."""
    return p.width, p.kernel, p.stride, p.before
