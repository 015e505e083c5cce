"""What `winner_gather` is told: a grid with a place for every cell and every output, and which windows give to a place.

A cell can be a tap of a few windows only, which stand at fixed distances from it: entries of (distance, numbers of taps), in
the order of the windows. Windows of few taps have one list of them, a *stage*. Of larger ones, a stage takes one axis of the
window, the first axis first:

    codes       row and column of the tap        column of the tap              (none)
    gradient    of each output             →     of each row of a window   →    of each cell
                                 7 rows of windows                 7 columns

A code is the number of the row times the taps of a row, plus the number of the column. After the first stage, a place is a
cell's row and a window's column, and has the sum of the gradients of the windows that were won in that row. All of them were
won by the same cell: the first winner of a window is the first winner of its cells in that row, and these are the same cells
for all of them. So one number is left of all their codes, and a 7×7 window takes 7 + 7 entries, not 49.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise, product
from typing import Any, NamedTuple

import numpy as np

from windowgrad.caches import keep
from windowgrad.geometry import Geometry
from windowgrad.kernels.pool.max.winner_codes import Array, Axis, channel_axis, codes_of, has_stages, outer_sum, pitches
from windowgrad.kernels.runtime.jit import helper
from windowgrad.kernels.runtime.last_cache import last_caches
from windowgrad.kernels.vector.ops import address, later

CODES = 64
"""Codes that are compared together."""

WORDS = 2
"""Numbers of an entry."""

AT_ONCE = 2048
"""Places of the grid that are summed at a time: sums, gradients and codes stay in the nearest cache."""

SPANS = 4
"""So many times the places that the entries reach over are copied or summed at a time, so that little is done twice, …"""

FAR = 1 << 16
"""… unless they reach over so many places."""

HEAD = 17
"""Numbers before the lists."""


class Entry(NamedTuple):
    """A window so many places away gives to this one if its code is one of `codes` from `first` on, which it then loses."""

    distance: int
    first: int
    codes: int


class Grid(NamedTuple):
    """Planes of `rows` rows of `places` places; those that have outputs are `out` in a row, and `outputs` in a plane.

    A row has `width` cells, a plane `cells`. The entries of a place reach from `low` to `high` places away, in all stages.
    """

    rows: int
    places: int
    out: int
    outputs: int
    width: int
    cells: int
    low: int
    high: int
    strip: int
    """Rows of a strip."""
    at_once: int
    """Places that are summed at once, in whole rows if there is one."""
    space: int
    """Room for a strip with what its entries reach."""
    filled: int
    """Whether every place has an output."""
    stages: int
    room: int
    """Room for the sums of one stage, with what later ones reach."""
    threes: int
    pairs: int
    """Up to which entry of the last stage windows are side by side, three and three, and then two and two of them."""
    held: int
    """Bytes of arrays of which most stay in the last caches."""
    output_rows: Any
    """Where in its plane a row of outputs begins; −1 if there is none."""
    cell_rows: Any
    """The same of the rows of cells."""
    reach: Any
    """Of each stage: how many entries it has, and from where to where later stages reach."""
    entries: Any
    """Those of the first stage, then those of the second, and so on."""


def gather_plan(geometry: Geometry, spatial: tuple[int, ...], channels: int) -> Array:
    """HEAD numbers, and the lists of `Grid`."""
    size = math.prod(axis.grid for axis in codes_of(geometry, spatial).axes[:-1])
    return kept(size, geometry, spatial, channels, AT_ONCE)


def made(geometry: Geometry, spatial: tuple[int, ...], channels: int, at_once: int) -> Array:
    axes = list(codes_of(geometry, spatial).axes)
    axes += [channel_axis(channels)] if channels > 1 else []
    grids = [axis.grid for axis in axes]
    *outer, last = axes
    outs, sizes = (pitches([getattr(a, field) for a in axes]) for field in ("out", "n"))
    stages = stages_of(axes, pitches(grids))
    lows, highs = ([bound([0, *(e.distance for e in stage)]) for stage in stages] for bound in (min, max))
    starts, ends = [0], [0]
    for low, high in zip(lows[:0:-1], highs[:0:-1], strict=True):
        starts.insert(0, (starts[0] + low) // CODES * CODES)  # whole lines of the cache, so that fewer loads take two
        ends.insert(0, ends[0] + high)
    low, high, later_span = starts[0] + lows[0], ends[0] + highs[0], ends[0] - starts[0]
    rows = [
        rows_of([(g, getattr(a, size)) for g, a in zip(grids, outer, strict=False)], p)
        for size, p in (("out", outs), ("n", sizes))
    ]
    at_once = max(at_once, SPANS * later_span)
    strip = max(1, max(at_once, (SPANS if high - low < FAR else 1) * (high - low)) // grids[-1])
    behind = high + CODES * len(stages)
    space = (strip + 3 - low // grids[-1] + behind // grids[-1]) * grids[-1] + CODES
    room = at_once + later_span + CODES * len(stages)
    filled = all(a.out == grid for a, grid in zip(axes, grids, strict=True))
    head = [len(rows[0]), grids[-1], last.out, outs[0] * axes[0].out, last.n, sizes[0] * axes[0].n, low, behind, strip, at_once]
    head += [space, filled, len(stages), room, *side_by_side(stages[-1]), last_caches() // 2]
    reach = [(len(stage), start, end) for stage, start, end in zip(stages, starts, ends, strict=True)]
    return np.concatenate([head, *rows, np.ravel(reach), words(stages)]).astype(np.int64)


kept = keep(made)


def stages_of(axes: Sequence[Axis], pitch: Sequence[int]) -> list[list[Entry]]:
    """The stages of a grid whose axes have these pitches."""
    names = pitches([axis.taps for axis in axes])
    taps = [
        [Entry((axis.before - t * axis.step) * p, t * name, name) for t in reversed(range(axis.taps)) if sees(axis, t)]
        for axis, p, name in zip(axes, pitch, names, strict=True)
        if axis.taps > 1 or axis.before
    ]
    if has_stages((axis.taps, axis.stride, axis.step) for axis in axes):
        return taps
    sums = (tuple(map(sum, zip((0, 0), *((e.distance, e.first) for e in each), strict=True))) for each in product(*taps))
    return [[Entry(distance, name, 1) for distance, name in sums]]


def side_by_side(entries: Sequence[Entry]) -> tuple[int, int]:
    """(threes, pairs) of `Grid`."""
    apart = [k for k, (one, other) in enumerate(pairwise(entries), 1) if other.distance != one.distance + 1]
    runs, number = {end - start for start, end in pairwise([0, *apart, len(entries)])}, len(entries)
    if all(run % 3 == 0 for run in runs):
        return number, number
    if not apart and number > 1:
        return number - (2 if number % 3 == 2 else 4), number
    return 0, 0 if any(run % 2 for run in runs) else number


def sees(axis: Axis, tap: int) -> bool:
    """Whether this tap of any window is a cell."""
    return -axis.n < axis.before - tap * axis.step < axis.out


def words(stages: list[list[Entry]]) -> Array:
    """The entries as kernels read them: the distance, then two words of 32 bits, which have a number in each of their bytes."""
    entries = np.array([entry for stage in stages for entry in stage], dtype=np.int64).reshape(-1, 3)
    numbers = (entries[:, 1:] * 0x01010101).astype(np.uint32).view(np.int64)
    return np.concatenate([entries[:, :1], numbers], axis=1).ravel()


def rows_of(sizes: list[tuple[int, int]], pitch: list[int]) -> Array:
    """Where each row of a grid begins in an array that has, along each axis, so many of its places; −1 if it has none."""
    numbers = [np.arange(places) for places, _ in sizes]
    beyond = outer_sum([number >= own for number, (_, own) in zip(numbers, sizes, strict=True)]) > 0
    return np.where(beyond, -1, outer_sum([number * p for number, p in zip(numbers, pitch, strict=False)]))


@helper
def unpacked_grid(plan: Any) -> Any:
    head = address(plan)
    rows, stages = head[0], head[12]
    output_rows = later(head, HEAD)
    cell_rows = later(output_rows, rows)
    reach = later(cell_rows, rows)
    lists = output_rows, cell_rows, reach, later(reach, 3 * stages)
    sizes = rows, head[1], head[2], head[3], head[4], head[5], head[6], head[7], head[8], head[9], head[10], head[11]
    return Grid(*sizes, stages, head[13], head[14], head[15], head[16], *lists)
