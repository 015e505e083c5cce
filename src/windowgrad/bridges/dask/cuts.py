"""Arithmetic of one axis: which cells some outputs need, which outputs some cells are seen by, and the geometry of that part.

A part of an axis is computed with a geometry of its own, in which every window sees the same cells, the same padding and the
same overhang as in the whole; so its values are those of the whole, bit for bit wherever a value depends on its window alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import accumulate, pairwise
from typing import Any

import numpy as np

from windowgrad.geometry import Adaptive, Column, Geometry, Range, Sliding, Table


@dataclass(frozen=True)
class Line:
    """One axis of a geometry over `n` cells: output o covers the places from begins[o] to ends[o]."""

    n: int
    begins: Column
    ends: Column
    counts: Column
    last: int
    """The end of the padding; what a window covers from there on is overhang."""
    bins: bool

    @property
    def outputs(self) -> int:
        return len(self.begins)

    @property
    def middles(self) -> Any:
        return np.clip((self.begins + self.ends - 1) // 2, 0, self.n - 1)


@lru_cache(maxsize=64)
def line(geometry: Geometry, axis: int, n: int) -> Line:
    table = geometry.table(axis, n)
    if not isinstance(geometry, Sliding):
        return Line(n, table.start, table.start + table.count, table.count, n, True)
    (lo, hi), span = geometry.padding[axis], geometry.dilation[axis] * (geometry.kernel[axis] - 1) + 1
    begins = np.arange(len(table.start)) * geometry.stride[axis] - lo
    return Line(n, begins, begins + span, table.count, n + hi, False)


@dataclass(frozen=True)
class Cut:
    """Outputs of an axis and the cells that are there for them. In the result of the part, `keep` is what was asked for."""

    outputs: Range
    cells: Range
    padding: Range
    overhangs: bool
    keep: Range

    @property
    def kept(self) -> slice:
        return slice(*self.keep)


# --- which outputs, which cells ----------------------------------------------------------------------------------


def bounds(sizes: Sequence[int]) -> list[Range]:
    """The chunks of an axis as ranges."""
    return list(pairwise(accumulate(sizes, initial=0)))


def shared_out(line: Line, sizes: Sequence[int]) -> list[Range]:
    """Ranges of outputs, one for each chunk of the input in which some window has its middle."""
    edges = np.searchsorted(line.middles, list(accumulate(sizes, initial=0)))
    edges[-1] = line.outputs
    return [(int(low), int(high)) for low, high in pairwise(edges) if low < high]


def spread_over(line: Line, sizes: Sequence[int]) -> list[Range]:
    """Ranges of cells, one for each chunk of the outputs: from the middle of its first window to that of the next chunk's."""
    edges = [0, *(int(line.middles[o]) for o in accumulate(sizes) if o < line.outputs), line.n]
    return [(low, high) for low, high in pairwise(edges) if low < high]


def seen_by(line: Line, cells: Range) -> Range:
    """The outputs whose windows reach over some of these cells."""
    low = int(np.searchsorted(line.ends, cells[0], side="right"))
    return low, max(low, int(np.searchsorted(line.begins, cells[1], side="left")))


def grown(line: Line, outputs: Range, cells: Range) -> Range:
    """These outputs, and as many more as it takes to begin before the first of these cells and to end behind the last.

    Some cell of the input is always among what they reach over. A window with overhang is never the first: by itself it would
    be larger than its padded input.
    """
    (low, high), first, last = outputs, min(cells[0], line.n - 1), max(cells[1], 1)
    while low > 0 and (low == high or line.begins[low] > first or line.ends[low] > line.last):
        low -= 1
    while high < line.outputs and (low == high or line.ends[high - 1] < last):
        high += 1
    return low, high


def in_order(line: Line, outputs: Range) -> Range:
    """These bins, and as many more as it takes for kernels to add their cells in the order of the whole.

    Bins that are alike and lie side by side are added in another order than others.
    """
    low, high = outputs

    def is_regular(low: int, high: int) -> bool:
        counts, extent = line.counts[low:high], line.ends[high - 1] - line.begins[low]
        return bool(high - low > 1 and (counts == counts[0]).all() and counts[0] * (high - low) == extent)

    whole = is_regular(0, line.outputs)
    while is_regular(low, high) != whole:
        low, high = max(low - 1, 0), min(high + 1, line.outputs)
    return low, high


def part(line: Line, outputs: Range, cells: Range, keep: Range) -> Cut:
    """The part with these outputs, all cells they see, and at least these cells."""
    begin, end = int(line.begins[outputs[0]]), int(line.ends[outputs[1] - 1])
    low = max(begin, 0)
    high = max(min(end, line.n), low + 1, cells[1])
    return Cut(outputs, (low, high), (low - begin, max(0, min(end, line.last) - high)), end > line.last, keep)


def for_outputs(line: Line, outputs: Range, ordered: bool = False) -> Cut:
    """The part that gives these outputs; if `ordered`, summed in the order of the whole."""
    low, high = grown(line, in_order(line, outputs) if ordered and line.bins else outputs, (line.n, 0))
    return part(line, (low, high), (0, 0), (outputs[0] - low, outputs[1] - low))


def for_cells(line: Line, cells: Range) -> Cut:
    """The part that gives the gradient of these cells: all windows that see them."""
    found = part(line, grown(line, seen_by(line, cells), cells), cells, (0, 0))
    low = found.cells[0]
    return Cut(found.outputs, found.cells, found.padding, found.overhangs, (cells[0] - low, cells[1] - low))


def clipped(line: Line, outputs: Range, cells: Range) -> Cut | None:
    """What these outputs see of these cells, all else being absent; None if they see nothing of them."""
    begin, end = int(line.begins[outputs[0]]), int(line.ends[outputs[1] - 1])
    low, high = max(begin, cells[0]), min(end, cells[1])
    return Cut(outputs, (low, high), (low - begin, end - high), False, (0, outputs[1] - outputs[0])) if low < high else None


# --- the geometry of a part --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Part(Geometry):
    """Some outputs of adaptive bins over some cells of their input; what lies outside of these is absent."""

    whole: Adaptive
    spatial: tuple[int, ...]
    outputs: tuple[Range, ...]
    cells: tuple[Range, ...]
    rank: int = field(repr=False, compare=False)

    def grid(self, spatial: Sequence[int]) -> tuple[int, ...]:
        return tuple(high - low for low, high in self.outputs)

    def table(self, axis: int, n: int, outputs: Range | None = None) -> Table:
        (first, last), (low, high) = self.outputs[axis], self.cells[axis]
        some = (first, last) if outputs is None else (first + outputs[0], first + outputs[1])
        table = self.whole.table(axis, self.spatial[axis], some)
        start = np.clip(table.start, low, high)
        count = np.clip(table.start + table.count, low, high) - start
        return Table(np.where(count > 0, start - low, 0), count, 1, table.padded, table.skip)

    def bin_size(self, axis: int, n: int) -> int:
        return self.whole.bin_size(axis, self.spatial[axis])


def geometry_of(whole: Geometry, spatial: Sequence[int], cuts: Sequence[Cut]) -> Geometry:
    """The geometry of a part, over its own cells."""
    if isinstance(whole, Sliding):
        padding = tuple(cut.padding for cut in cuts)
        return Sliding(whole.kernel, whole.stride, padding, whole.dilation, tuple(cut.overhangs for cut in cuts))
    assert isinstance(whole, Adaptive)
    grid = whole.grid(tuple(spatial))
    if all(cut.cells == (0, n) and cut.outputs == (0, m) for cut, n, m in zip(cuts, spatial, grid, strict=True)):
        return Adaptive(grid)  # all of it: kernels see whole planes
    return Part(whole, tuple(spatial), tuple(cut.outputs for cut in cuts), tuple(cut.cells for cut in cuts), whole.rank)
