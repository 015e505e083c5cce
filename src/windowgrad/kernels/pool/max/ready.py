"""Calls of contiguous arrays whose dtype kernels compute in: all that follows from shapes and dtypes is found out once.

What `entry` finds out anew for each call (the layout, the plan, whether the call is cut up, which kernel) takes Python longer
than a kernel needs for a small batch. What is computed, and in which order, is what `entry` computes.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any

import numpy as np

from windowgrad.geometry import Geometry, Global
from windowgrad.kernels.arrays import Array, computed, flat
from windowgrad.kernels.pool.axis_passes import has_many_rows
from windowgrad.kernels.pool.blocks import cut_up
from windowgrad.kernels.pool.layout import planned_for
from windowgrad.kernels.pool.max.find import carried, least, way_of
from windowgrad.kernels.pool.max.rows import max_rows
from windowgrad.kernels.pool.max.whole_planes import plane_back, plane_tops, plane_winners
from windowgrad.kernels.pool.max.winner_codes import are_pairs, codes_of
from windowgrad.kernels.pool.max.winner_gather import gather_plan, winner_gather
from windowgrad.kernels.pool.max.winner_pairs import pair_plan, winner_pairs
from windowgrad.kernels.pool.max.winner_rows import winner_rows
from windowgrad.kernels.pool.max.winner_scatter import scatter_plan, winner_scatter
from windowgrad.kernels.pool.max.winner_search import winner_search
from windowgrad.kernels.runtime.buffers import empty
from windowgrad.kernels.runtime.threads import run

READY = True
"""Whether calls are made ready; tests that change limits say no."""

Shape = tuple[int, ...]


def payment(geometry: Geometry, spatial: Shape, channels: int) -> tuple[Any, Array, int]:
    """The kernel that gives each gradient to its winner, its plan, and into how many parts it takes a plane."""
    codes = codes_of(geometry, spatial)
    if channels == 1 and are_pairs(codes):
        packed = pair_plan(geometry, spatial)
        return winner_pairs, packed, int(packed[0])
    if codes.gathers:
        packed = gather_plan(geometry, spatial, channels)
        return winner_gather, packed, int(packed[0])
    packed = scatter_plan(geometry, spatial, channels)
    return winner_scatter, packed, int(packed[6])


def is_plain(geometry: Geometry, shape: Shape, dtype: np.dtype[Any]) -> bool:
    """Whether such a call is computed at once from a contiguous array, and nothing is converted."""
    if math.prod(shape) == 0 or computed(dtype) != dtype or dtype.kind != "f":
        return False
    return cut_up(geometry, shape, 1, False, False, True) is None


@lru_cache(maxsize=256)
def forward(geometry: Geometry, shape: Shape, dtype: np.dtype[Any]) -> Callable[[Array], Array] | None:
    """The maximum of such an array."""
    if not READY or has_many_rows(geometry) or not is_plain(geometry, shape, dtype):
        return None
    (p, planes), out = planned_for(geometry, shape), geometry.out_shape(shape)
    work, low, packed, cells, count = math.prod(shape) * dtype.itemsize, least(dtype), p.packed, p.plane_in, planes * p.pieces

    def of_planes(x: Array) -> Array:
        y = empty(out, dtype)
        run(partial(plane_tops, flat(x), y.reshape(-1), cells), planes, work)
        return y

    def of_windows(x: Array) -> Array:
        y = empty(out, dtype)
        run(partial(max_rows, flat(x), y.reshape(-1), low, packed), count, work)
        return y

    return of_planes if isinstance(geometry, Global) else of_windows


@lru_cache(maxsize=256)
def saving(geometry: Geometry, shape: Shape, dtype: np.dtype[Any]) -> Callable[[Array], tuple[Array, Array]] | None:
    """The same, and the first winners."""
    if not READY or not is_plain(geometry, shape, dtype):
        return None
    (lead, spatial), out, work = geometry.split(shape), geometry.out_shape(shape), math.prod(shape) * dtype.itemsize
    if isinstance(geometry, Global):
        cells, planes = math.prod(spatial), math.prod(lead)

        def of_planes(x: Array) -> tuple[Array, Array]:
            y, found = empty(out, dtype), empty(lead, np.int64)
            run(partial(plane_winners, flat(x), y.reshape(-1), found.reshape(-1), cells, False), planes, work)
            return y, found

        return of_planes
    codes, way = codes_of(geometry, spatial), way_of(geometry, spatial, 1, "first", False, dtype.itemsize)
    if codes.are_places:
        return None
    count, by_rows = math.prod(lead) * len(way.strips), way.by_rows is not None
    kernel: Any = winner_rows if by_rows else winner_search
    plans = (way.by_rows,) if by_rows else (way.names, way.strips, planned_for(geometry, shape)[0].packed)
    given = least(dtype), carried(dtype), *plans

    def of_windows(x: Array) -> tuple[Array, Array]:
        y, found = empty(out, dtype), empty(out, codes.dtype)
        run(partial(kernel, flat(x), y.reshape(-1), found.reshape(-1), *given), count, work)
        return y, found

    return of_windows


@lru_cache(maxsize=256)
def vjp(geometry: Geometry, shape: Shape, dtype: np.dtype[Any]) -> Callable[[Array, Array], Array] | None:
    """The gradient of such an array, of the same dtype, from the first winners that were saved."""
    if not READY or not is_plain(geometry, shape, dtype):
        return None
    (lead, spatial), work = geometry.split(shape), math.prod(shape) * dtype.itemsize
    planes, none, cells = math.prod(lead), np.empty(0, dtype), math.prod(spatial)
    if isinstance(geometry, Global):

        def to_planes(g: Array, saved: Array) -> Array:
            gx = empty(shape, dtype)
            run(partial(plane_back, none, flat(saved), flat(g), gx.reshape(-1), False, cells), planes, work)
            return gx

        return to_planes
    kernel, packed, parts = payment(geometry, spatial, 1)

    def to_windows(g: Array, saved: Array) -> Array:
        gx = empty(shape, dtype)
        run(partial(kernel, flat(saved), flat(g), gx.reshape(-1), packed), planes * parts, work)
        return gx

    return to_windows
