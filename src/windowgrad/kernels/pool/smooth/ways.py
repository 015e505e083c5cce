"""Which kernel of `planes` and `planes_back` does a plane, and what it is told of the plane."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from windowgrad.kernels.pool.packed import packed
from windowgrad.kernels.pool.plan import Array, Plan
from windowgrad.kernels.pool.smooth.planes import alike_planes, long_rows, planes_of_many_taps, unlike_planes
from windowgrad.kernels.pool.smooth.planes_back import (
    planes_of_many_taps_back,
    planes_of_taps_back,
    tiled_planes_back,
    two_apart_planes_back,
    unlike_planes_back,
    whole_planes_back,
)
from windowgrad.kernels.pool.smooth.row_in_pieces import is_long_row
from windowgrad.kernels.pool.smooth.stride_two import is_two_apart, row_of_quotients
from windowgrad.kernels.pool.window_spans import DIRECT

WASTE = 4
"""How much larger than a plane the spread gradients of its windows may be, …"""

SPARE = 1 << 16
"""… and so many entries more."""


def forward_way(p: Plan) -> Any:
    """The forward kernel."""
    if is_long_row(p):
        return long_rows
    return unlike_planes if taps_of(p) == 0 else alike_planes if p.kernel <= DIRECT else planes_of_many_taps


def backward_way(p: Plan) -> Any | None:
    """The backward kernel; None if the memory that it takes is out of proportion: where many rows of windows see few rows."""
    if is_whole(p):
        return whole_planes_back
    if p.outer * row_of(p) > WASTE * p.plane_in + SPARE:
        return None
    if p.kernel == 0:
        return unlike_planes_back
    if is_two_apart(p):
        return two_apart_planes_back
    return tiled_planes_back if is_tiled(p) else planes_of_taps_back if p.kernel <= DIRECT else planes_of_many_taps_back


def is_tiled(p: Plan) -> bool:
    """Whether windows along a row are side by side, so that a cell is in one of them."""
    return p.kernel > 0 and p.stride == p.kernel and p.step == 1


def row_of(p: Plan) -> int:
    """The entries of an output row spread along its cells: with the padding where windows are side by side."""
    if is_tiled(p):
        return max(p.before + p.width, p.out * p.stride)
    return max(p.width, row_of_quotients(p)) if is_two_apart(p) else p.width


def taps_of(p: Plan) -> int:
    return as_row(p).kernel


def is_whole(p: Plan) -> bool:
    """Whether the one output of a plane sees all its cells."""
    return p.plane_out == 1 and len(p.rows) * p.width == p.plane_in and int(p.count[0]) == p.width


def as_row(p: Plan) -> Plan:
    """A plane whose one output sees all of it as one row; any other as it is."""
    if not is_whole(p):
        return p
    one = np.ones(1, np.int64)
    row = replace(p, ptr=np.array([0, 1]), rows=one * 0, width=p.plane_in, count=one * p.plane_in, row_cells=one)
    return replace(row, kernel=0, stride=0, before=0, step=1)


def packed_forward(p: Plan, lone: tuple[Array, Array]) -> Array:
    """The plan as one array, and behind it the windows of one cell, as (output, cell)."""
    p = as_row(p)
    return packed(p.line, p.outer, p.plane_in, p.piece, p.ptr, p.rows, p.start, p.count, np.array([len(lone[0])]), *lone)


def packed_backward(p: Plan) -> Array:
    """The rows of the spread gradient that each row of cells sees."""
    p = as_row(p)
    places = p.back_rows // p.out * row_of(p)
    return packed(p.line, p.plane_in // p.width, p.plane_out, row_of(p), p.back_ptr, places, p.start, p.count)
