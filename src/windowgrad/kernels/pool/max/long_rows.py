"""Maximum along a long row: the kernels of shorter rows over its sections (`kernels/pool/long_rows.py`).

Winners are written down by the numbers of their taps, which are the same in a section as in the row. So the forward rule saves
them section by section, and the backward rule reads them in sections of its own.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from windowgrad.dtypes import derivative_of
from windowgrad.geometry import Geometry, Sliding
from windowgrad.kernels.arrays import Array, flat
from windowgrad.kernels.pool.long_rows import Chosen, Section, for_cells, for_outputs, is_long, is_plain, over
from windowgrad.kernels.pool.max.find import comparable, finder, least, sum_dtype, way_of
from windowgrad.kernels.pool.max.row_taps import max_row_taps, takes_taps
from windowgrad.kernels.pool.max.row_windows import max_row_windows, row_windows_for
from windowgrad.kernels.pool.max.second import max_rows_for
from windowgrad.kernels.pool.max.winner_codes import are_pairs, codes_of
from windowgrad.kernels.pool.max.winner_pairs import pair_plan, winner_pairs
from windowgrad.kernels.pool.max.winner_scatter import scatter_plan, winner_scatter, with_apart
from windowgrad.kernels.runtime.buffers import empty

SECTION = 1 << 13
"""Cells of a section of the gradient."""


def rows(x: Array) -> Array:
    return flat(x).reshape(math.prod(x.shape[:-1]), -1)


def code_dtype(geometry: Geometry) -> Any | None:
    """The dtype of the codes of every section; None where it depends on whether a window of the section has no cell."""
    assert isinstance(geometry, Sliding)
    (taps,) = geometry.kernel
    return None if taps == 1 << 8 else np.dtype(np.uint8 if taps < 1 << 8 else np.uint16)


def tops(geometry: Geometry, x: Array, y: Array) -> None:
    """y = the greatest values."""

    def choose(section: Section) -> Chosen:
        p = section.plan
        if size := row_windows_for(geometry, p, x.shape[-1], x.dtype):
            return max_row_windows, (section.moved(p.packed), size), -(-p.out // size)
        if takes_taps(p, x.dtype):
            return max_row_taps, (section.moved(p.packed),), p.pieces
        return max_rows_for(p, x.dtype), (least(x.dtype), section.moved(p.packed)), p.pieces

    over(for_outputs(geometry, x.shape[-1]), ((rows(x), True), (rows(y), False)), choose)


def codes(geometry: Geometry, x: Array, y: Array | None = None) -> Array:
    """The codes of the winners; y becomes their values."""
    shape = geometry.out_shape(x.shape)
    found = empty(shape, code_dtype(geometry))
    values = rows(y) if y is not None else np.empty((math.prod(shape[:-1]), 0), x.dtype)

    def choose(section: Section) -> Chosen:
        assert section.geometry is not None
        p, way = section.plan, way_of(section.geometry, (section.width,), 1, "first", False, x.itemsize)
        kernel, given, parts = finder(way, p, x.dtype)
        return kernel, (*given[:-1], section.moved(given[-1])), parts

    over(for_outputs(geometry, x.shape[-1]), ((rows(x), True), (values, False), (rows(found), False)), choose)
    return found


def gradient(geometry: Geometry, x: Array, g: Array, saved: Array | None) -> Array | None:
    """The gradient to the first winners, from their codes if they were saved; None if it is not computed in sections."""
    dtype = derivative_of(x.dtype, g.dtype)
    seen = saved is not None or is_plain(x, comparable(x.dtype))
    if not (seen and is_plain(g, dtype) and sum_dtype(x.dtype, dtype) == dtype and is_long(geometry, x.shape)):
        return None
    if code_dtype(geometry) is None:
        return None
    return paid(geometry, codes(geometry, x) if saved is None else flat(saved), g, x.shape)


def paid(geometry: Geometry, found: Array, g: Array, shape: tuple[int, ...]) -> Array:
    """The gradient of an array of this shape: each of g at its winner."""
    gx = empty(shape, g.dtype)

    def choose(section: Section) -> Chosen:
        assert section.geometry is not None
        windows = section.geometry, (section.width,)
        if are_pairs(codes_of(*windows)):
            return winner_pairs, (pair_plan(*windows),), 1
        packed = scatter_plan(*windows, 1)
        return winner_scatter, (with_apart(packed, section.apart) if section.count > 1 else packed,), 1

    given = (found.reshape(len(rows(g)), -1), False), (rows(g), False), (rows(gx), True)
    over(for_cells(geometry, shape[-1], SECTION), given, choose)
    return gx
