"""First winners: from parameters and arrays to the kernel that finds them, by the names of `winner_codes` or as places."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache, lru_cache, partial
from typing import Any

import numpy as np

from windowgrad.caches import keep
from windowgrad.dtypes import is_float
from windowgrad.geometry import Geometry
from windowgrad.kernels.arrays import Array, computed, ordered
from windowgrad.kernels.pool.layout import Form, Layout, laid_out
from windowgrad.kernels.pool.max import winner_codes, winner_strips
from windowgrad.kernels.pool.max.last_planes import PLACES, winners_shared
from windowgrad.kernels.pool.max.last_planes import SOME as MANY
from windowgrad.kernels.pool.max.winner_codes import codes_of, outer_sum, pitches
from windowgrad.kernels.pool.max.winner_plan import Names, packed_rows
from windowgrad.kernels.pool.max.winner_rows import winner_rows
from windowgrad.kernels.pool.max.winner_runs import carried, channel_groups, looks_again, looks_at_taps, runs_names, winner_runs
from windowgrad.kernels.pool.max.winner_search import winner_search
from windowgrad.kernels.pool.max.winner_tops import finds_tops, winner_tops
from windowgrad.kernels.pool.plan import Plan, plan
from windowgrad.kernels.runtime.threads import run
from windowgrad.kernels.vector.types import lanes_of
from windowgrad.params import MaxParams

LONG = 16
"""The most taps of a window along the one row of a plane that are compared one after the other."""

SOME = 3
"""The fewest channels that stand last whose winners are found tap by tap, where rows could be reduced."""

LARGEST_SPAN = 1 << 26
"""The most outputs along the rows that one window spans, when rows are reduced before columns."""


@cache
def least(dtype: Any) -> Any:
    """The value that no cell is below: what stands in a row's padding, where it never wins."""
    return dtype.type(-np.inf if is_float(dtype) else np.iinfo(dtype).min)


def compared(x: Array, itemsize: int = 4) -> Array:
    """The cells in a row, as numbers of at least `itemsize` bytes, in a dtype whose order is theirs."""
    return ordered(x).astype(comparable(x.dtype, itemsize), copy=False)


@cache
def comparable(dtype: Any, itemsize: int = 4) -> Any:
    """The dtype of at least `itemsize` bytes in which winners are looked for."""
    found = computed(dtype)
    return found if found.itemsize >= itemsize else np.dtype(f"{'f' if is_float(found) else 'i'}{itemsize}")


def sum_dtype(primal: Any, dtype: Any) -> Any:
    """The dtype in which a gradient of `dtype` is summed: float64 beside cells of eight bytes."""
    return np.float32 if max(comparable(primal).itemsize, computed(dtype).itemsize) == 4 else np.float64


def reduces_rows(p: Plan, channels: int = 1) -> bool:
    """Whether the first winners are found rows first, by `winner_rows`; else window by window."""
    small = winner_strips.window_span(p) * p.out * channels <= LARGEST_SPAN and p.plane_in < winner_codes.HUGE
    return p.kernel > 0 and p.stride <= 2 and small and not slides(p)


def slides(p: Plan) -> bool:
    """Whether the winners of long windows along a single row are found by a queue."""
    return p.is_one_row and p.kernel > LONG and p.step == 1


@lru_cache(maxsize=256)
def form_of(geometry: Geometry, shape: tuple[int, ...]) -> Form:
    """How kernels see channels that stand last: alone, as runs of a row that is reduced first, else as rows of their own."""
    lead, spatial = geometry.split(shape)
    p, codes = plan(geometry, spatial), codes_of(geometry, spatial)
    if codes.are_places:
        return "first"
    rows_first = reduces_rows(p, lead[-1]) and (lead[-1] < SOME or looks_again(p, math.prod(shape)))
    if looks_at_taps(p) and not slides(p) and not rows_first:
        return "alone"
    if p.kernel == 0 or p.stride > 2:
        return "rows"
    return "together" if reduces_rows(p, lead[-1]) else "first"


@dataclass(frozen=True)
class Way:
    """How planes are cut; the packed plan of `winner_rows`, or the names for `winner_` and `kernel`."""

    strips: Array
    by_rows: Array | None
    names: Array
    kernel: str = ""


def made(
    geometry: Geometry, spatial: tuple[int, ...], channels: int, form: Form, places: bool, lanes: int, uncut: int, spans: int
) -> Way:
    p = plan_for(geometry, spatial, channels, form)
    if form == "alone":
        names = place_names(p) if places else tap_names(geometry, spatial, p, channels, form)
        skip = None if places else np.asarray(geometry.tables(spatial)[-1].skip, dtype=np.int64)
        kernel = "planes" if is_plane(geometry, spatial, p, channels) else "runs"
        return Way(names.row_starts, None, runs_names(p, names, skip), kernel)
    strips = winner_strips.output_strips(p, spatial, uncut, spans)
    names = place_names(p) if places else tap_names(geometry, spatial, p, channels, form)
    if reduces_rows(p):
        return Way(strips, packed_rows(p, strips, lanes, names), strips)
    skip = np.zeros(p.out, dtype=np.int64) if places else np.asarray(geometry.tables(spatial)[-1].skip, dtype=np.int64)
    head = [names.plane, names.none, int(places)]
    packed = np.concatenate([head, names.row_starts, skip, names.rows]).astype(np.int64)
    return Way(strips, None, packed, "tops" if finds_tops(p) else "search")


kept = keep(made)


def is_plane(geometry: Geometry, spatial: tuple[int, ...], p: Plan, channels: int) -> bool:
    """Whether the one window sees a whole plane, so that taps are called as places are, and channels are many."""
    if p.plane_out != 1 or channels < MANY or not 0 < p.plane_in < winner_codes.HUGE:
        return False
    seen = int(p.row_cells[0]) * int(p.count[0])
    return seen == p.plane_in and all(axis.taps == axis.n for axis in codes_of(geometry, spatial).axes)


def way_of(geometry: Geometry, spatial: tuple[int, ...], channels: int, form: Form, places: bool, itemsize: int) -> Way:
    """How winners are found in planes of this shape; small ones are kept."""
    size = plan_for(geometry, spatial, channels, form).size
    limits = winner_strips.UNCUT, winner_strips.SPANS
    return kept(size, geometry, spatial, channels, form, places, lanes_of(itemsize), *limits)


def plan_for(geometry: Geometry, spatial: tuple[int, ...], channels: int, form: Form) -> Plan:
    """The plan of a layout of this form (`layout`)."""
    return plan(geometry, spatial, 1 if form == "alone" else channels, form == "together")


def place_names(p: Plan) -> Names:
    """Winners by their places in the plane."""
    taps = np.arange(p.kernel, dtype=np.int64) * p.step
    return Names(p.rows, taps, p.plane_out, -1, -p.before, p.stride, np.arange(p.outer) * p.out)


def tap_names(geometry: Geometry, spatial: tuple[int, ...], p: Plan, channels: int, form: Form) -> Names:
    """Winners by the numbers of their taps."""
    codes, tables = codes_of(geometry, spatial), geometry.tables(spatial)
    outs, alone = pitches([*(axis.out for axis in codes.axes), channels]), form == "rows" and p.run == 1 and channels > 1
    outer = len(tables) if alone else len(tables) - 1
    sizes = [axis.taps for axis in codes.axes]
    rows = winner_codes.row_numbers(tables[:outer], sizes[:outer]) * math.prod(sizes[outer:])
    starts = outer_sum([np.arange(axis.out) * pitch for axis, pitch in zip(codes.axes[:outer], outs[:outer], strict=True)])
    taps = np.arange(p.kernel, dtype=np.int64)
    return Names(rows, taps, math.prod(axis.out for axis in codes.axes) * channels, codes.none, 0, 0, starts)


def find(
    params: MaxParams, layout: Layout, form: Form, values: Array, spatial: tuple[int, ...], y: Array, found: Array
) -> None:
    """y and found = the value and the name of each window's first winner; y may be empty. Names of 64 bits are places."""
    way = way_of(params.geometry, spatial, layout.channels, form, found.dtype == np.int64, values.itemsize)
    kernel, given, count = search(way, layout, values.dtype)
    run(partial(kernel, values, y, found, *given), count, values.nbytes)


def search(way: Way, layout: Layout, dtype: Any) -> tuple[Any, tuple[Any, ...], int]:
    """The kernel that finds winners, what it is told besides its arrays, and how much of it there is to share."""
    p = layout.plan
    if way.kernel == "planes":
        return winners_shared(layout, dtype, PLACES)
    if way.kernel == "runs":
        group, groups = channel_groups(p, layout.planes, layout.channels)
        given = carried(dtype), way.names, p.packed, np.int64(layout.channels), np.int64(group)
        return winner_runs, given, layout.planes * p.outer * groups
    kernel, given, parts = finder(way, p, dtype)
    return kernel, given, layout.planes * parts


def finder(way: Way, p: Plan, dtype: Any) -> tuple[Any, tuple[Any, ...], int]:
    """The same for channels in the rows of the plan, or first; the number is that of the parts of a plane."""
    if way.by_rows is not None:
        return winner_rows, (least(dtype), carried(dtype), way.by_rows), len(way.strips)
    if way.kernel == "tops":
        return winner_tops, (least(dtype), way.names, way.strips, p.packed), len(way.strips)
    return winner_search, (least(dtype), carried(dtype), way.names, way.strips, p.packed), len(way.strips)


def laid_out_for(params: MaxParams, x: Array, shape: tuple[int, ...], last: bool) -> tuple[Layout, Form]:
    """The layout in which winners of x are found, and what is made of them; `last` says that its channels stand last."""
    form: Form = form_of(params.geometry, shape) if last else "first"
    return laid_out(params, x, form), form
