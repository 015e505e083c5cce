"""A section of an axis: some outputs with the cells they see, as a geometry of its own. Everything is in closed form.

A long axis is pooled section by section, so its tables are those of one section. Counted from its first cell, a section in
the middle of regular windows is like every other, so they all share one plan. Windows see the same cells and the same padding
as in the whole.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from windowgrad.geometry import Adaptive, Geometry, Global, Range, Sliding, Table, adaptive_table, sliding_table

AT_ONCE = 1 << 16
"""Entries of a table that is looked through."""

# --- geometries --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, init=False)
class SomeWindows(Sliding):
    """So many windows as `outputs` says, whatever room there is for more."""

    outputs: tuple[int, ...]
    hashed: int = field(repr=False, compare=False)

    def __init__(self, whole: Sliding, padding: tuple[Range, ...], outputs: tuple[int, ...]) -> None:
        fields = {name: getattr(whole, name) for name in ("kernel", "stride", "dilation", "ceil_mode", "rank")}
        hashed = hash((whole, padding, outputs))
        for name, value in {**fields, "padding": padding, "outputs": outputs, "hashed": hashed}.items():
            object.__setattr__(self, name, value)

    def __hash__(self) -> int:
        return self.hashed  # there are many sections, each looked up in several caches

    def _outputs(self, axis: int, n: int) -> int:
        return self.outputs[axis]


@dataclass(frozen=True)
class SomeBins(Geometry):
    """Adaptive bins from `sizes` to `bins` that begin `rests[axis] / bins[axis]` of a cell after the first cell there is."""

    sizes: tuple[int, ...]
    bins: tuple[int, ...]
    rests: tuple[int, ...]
    outputs: tuple[int, ...]
    rank: int = field(repr=False, compare=False)

    def grid(self, spatial: Sequence[int]) -> tuple[int, ...]:
        return self.outputs

    def table(self, axis: int, n: int, outputs: Range | None = None) -> Table:
        first, last = outputs or (0, self.outputs[axis])
        return adaptive_table(self.sizes[axis], self.bins[axis], first, last, self.rests[axis])

    def bin_size(self, axis: int, n: int) -> int:
        return self.sizes[axis] // self.bins[axis] if self.bins[axis] > 1 else 0


# --- the arithmetic of one axis ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Cut:
    """Outputs of an axis and the cells that are there for them, from which `before` padded cells lie to the first window.

    Of a gradient, the cells `kept`, counted from the first one, are whole: all windows that see them are among the outputs.
    """

    outputs: Range
    cells: Range
    before: int
    after: int
    kept: Range = (0, 0)


class Side(ABC):
    """One axis of a geometry over n cells."""

    n: int
    out: int
    most: int
    """The cells of the fullest window."""

    @abstractmethod
    def begin(self, o: int) -> int:
        """The first place that output o covers; less than 0 in the padding."""

    @abstractmethod
    def end(self, o: int) -> int:
        """The place after the last that output o covers."""

    @abstractmethod
    def seen_by(self, low: int, high: int) -> Range:
        """The outputs that reach over some of these cells."""

    @abstractmethod
    def cut(self, outputs: Range, cells: Range, kept: Range) -> Cut:
        """What is told to the kernels of outputs over cells that are all they see."""

    @abstractmethod
    def fitting(self, cells: int) -> int:
        """How many outputs in a row reach over about so many cells: at least 1, and so many that few cells are seen by two."""

    def reach(self, outputs: int) -> int:
        """About how many cells so many outputs reach over."""
        return min(self.n, self.end(outputs - 1) - self.begin(0))

    def within(self, place: int) -> int:
        return min(max(place, 0), self.n)

    def for_outputs(self, low: int, high: int) -> Cut:
        """The section that gives these outputs."""
        first, last = self.within(self.begin(low)), self.within(self.end(high - 1))
        return self.cut((low, high), (first, last), (0, 0))

    def owned(self, low: int, high: int) -> Range:
        """The cells whose gradient these outputs answer for: from where they begin to where the next begin."""
        first = 0 if low == 0 else self.within(self.begin(low))
        return first, self.n if high == self.out else max(first, self.within(self.begin(high)))

    def for_cells(self, first: int, last: int) -> Cut | None:
        """The section that gives the gradient of these cells; None if no window reaches over them.

        It begins where its first window does: cells before that are seen by none, and are not `kept`.
        """
        low, high = self.seen_by(first, last)
        if low >= high:
            return None
        left = self.within(self.begin(low))
        right = max(last, self.within(self.end(high - 1)))
        return self.cut((low, high), (left, right), (max(first, left) - left, last - left))


@dataclass(frozen=True)
class Windows(Side):
    n: int
    out: int
    kernel: int
    stride: int
    before: int
    after: int
    dilation: int

    @property
    def span(self) -> int:
        return self.dilation * (self.kernel - 1) + 1

    @property
    def most(self) -> int:  # type: ignore[override]
        whole = -(-self.before // self.stride)  # the first window that begins in the input; if any is whole, it is
        if whole < self.out and self.end(whole) <= self.n:
            return self.kernel
        windows = self.kernel, self.stride, self.before, self.after, self.dilation
        starts = range(0, self.out, AT_ONCE)
        tables = (sliding_table(self.n, o, min(o + AT_ONCE, self.out), *windows) for o in starts)
        return max(int(table.count.max()) for table in tables)

    def begin(self, o: int) -> int:
        return o * self.stride - self.before

    def end(self, o: int) -> int:
        return self.begin(o) + self.span

    def seen_by(self, low: int, high: int) -> Range:
        first = max(0, (low + self.before - self.span) // self.stride + 1)
        return first, min(self.out, (high + self.before - 1) // self.stride + 1)

    def fitting(self, cells: int) -> int:
        return max(1, (cells - self.span) // self.stride + 1, self.span // self.stride)

    def cut(self, outputs: Range, cells: Range, kept: Range) -> Cut:
        (low, high), (first, last) = outputs, cells
        end = min(self.end(high - 1), self.n + self.after)
        if first >= last:  # all of them lie in the padding, on either side: as if all did so before one cell
            return Cut(outputs, (0, 1), (high - low - 1) * self.stride + self.span, 0, kept)
        return Cut(outputs, cells, first - self.begin(low), max(0, end - last), kept)


@dataclass(frozen=True)
class Bins(Side):
    n: int
    out: int

    @property
    def most(self) -> int:  # type: ignore[override]
        whole, part = divmod(self.n, self.out)
        if part == 0:
            return whole
        return whole + (1 if part == math.gcd(self.n, self.out) else 2)  # 2: a bin that begins and ends within a cell

    def begin(self, o: int) -> int:
        return o * self.n // self.out

    def end(self, o: int) -> int:
        return -(-(o + 1) * self.n // self.out)

    def seen_by(self, low: int, high: int) -> Range:
        return low * self.out // self.n, (high * self.out - 1) // self.n + 1

    def fitting(self, cells: int) -> int:
        return max(1, (cells - 2) * self.out // self.n)

    def cut(self, outputs: Range, cells: Range, kept: Range) -> Cut:
        return Cut(outputs, cells, outputs[0] * self.n - cells[0] * self.out, 0, kept)


@lru_cache(maxsize=256)
def sides_of(geometry: Geometry, spatial: tuple[int, ...]) -> tuple[Side, ...] | None:
    """The axes of a geometry, None if it is of no kind that can be cut."""
    if type(geometry) is Sliding:
        windows = zip(geometry.kernel, geometry.stride, geometry.padding, geometry.dilation, strict=True)
        sizes = zip(spatial, geometry.grid(spatial), windows, strict=True)
        return tuple(Windows(n, m, k, s, lo, hi, d) for n, m, (k, s, (lo, hi), d) in sizes)
    if type(geometry) in (Adaptive, Global):
        grid = geometry.grid(spatial) or (1,) * geometry.rank
        return tuple(Bins(n, m) for n, m in zip(spatial, grid, strict=True))
    return None


def section(geometry: Geometry, sides: Sequence[Side], cuts: Sequence[Cut]) -> Geometry:
    """The geometry of a section, over its own cells."""
    outputs = tuple(cut.outputs[1] - cut.outputs[0] for cut in cuts)
    if isinstance(geometry, Sliding):
        return SomeWindows(geometry, tuple((cut.before, cut.after) for cut in cuts), outputs)
    sizes, bins = tuple(side.n for side in sides), tuple(side.out for side in sides)
    return SomeBins(sizes, bins, tuple(cut.before for cut in cuts), outputs, geometry.rank)
