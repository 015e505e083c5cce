"""How the arrays of a pooling call are laid out in memory, and the plan that follows from it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any, Literal

from windowgrad.caches import SMALL
from windowgrad.geometry import Geometry
from windowgrad.kernels.arrays import Array, cast
from windowgrad.kernels.pool.plan import Plan, plan
from windowgrad.params import PoolParams


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
        return x.transpose(into_memory(x.ndim, self.channel)) if self.last else x

    def finished(self, y: Array, shape: tuple[int, ...], dtype: Any) -> Array:
        """The result in its own dtype and shape."""
        y = y.view(bool) if dtype.kind == "b" else cast(y, dtype)
        if not self.last:
            return y.reshape(shape)
        moved = (*shape[: self.channel], *shape[self.channel + 1 :], shape[self.channel])
        return y.reshape(moved).transpose(out_of_memory(len(shape), self.channel))


@cache
def into_memory(ndim: int, channel: int) -> tuple[int, ...]:
    """The axes of an array whose channels stand last in memory, in that order; `moveaxis` would find it anew for each call."""
    return *(axis for axis in range(ndim) if axis != channel), channel


@cache
def out_of_memory(ndim: int, channel: int) -> tuple[int, ...]:
    """The way back."""
    return *range(channel), ndim - 1, *range(channel, ndim - 1)


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


def stands_last(x: Array, channel: int) -> bool:
    """Whether this axis is the fastest in memory, the others in order; of planes of one cell it may be the first as well."""
    return x.transpose(into_memory(x.ndim, channel)).flags.c_contiguous


def is_channels_last(x: Array, geometry: Geometry, shape: tuple[int, ...]) -> bool:
    """Whether the axis before the spatial ones is the fastest in memory, the others in order; not of channels first."""
    channel = len(shape) - geometry.rank - 1
    if channel < 0 or x.flags.c_contiguous:
        return False
    return stands_last(x, channel)


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
    return planned_for(params.geometry, x.shape)


def planned_for(geometry: Geometry, shape: tuple[int, ...]) -> tuple[Plan, int]:
    """The same for an array of this shape."""
    found = kept_layout(geometry, shape, "first") or new_layout(geometry, shape, "first")
    return found.plan, found.planes


@lru_cache(maxsize=1024)
def out_shape(geometry: Geometry, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The shape of the output for an array of `shape`, found once."""
    return geometry.out_shape(shape)
