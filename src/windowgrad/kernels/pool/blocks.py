"""Large calls block by block: so few outputs at a time that the tables of a plan, and copies of cells, stay small.

A block is a box of outputs with the cells they see, or of cells with all outputs that see them, and a geometry of its own
(`sections`). The kernels do it like any other call, on one thread; blocks are shared by threads. A block is as long as it may
be along the last axes and one entry along the first ones, so it is mostly a run of memory, and no copy.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from threading import Lock
from typing import Any

import numpy as np

from windowgrad import memory
from windowgrad.geometry import Geometry, Range
from windowgrad.kernels.pool.plan import ROW_BYTES, regularity
from windowgrad.kernels.pool.row_pieces import piece_of
from windowgrad.kernels.pool.sections import Cut, Side, Windows, section, sides_of
from windowgrad.kernels.runtime.threads import run

Array = np.ndarray[Any, Any]
Index = tuple[slice, ...]

SMALL = 1 << 9
"""A call with fewer cells, and less padding, has no large tables."""

TABLES = 1 << 17
"""Entries that the lists of a plan may have."""

OUTPUTS = 1 << 17
"""Entries that the lists of a block's plan have, about. With 2¹⁵ of them, Python's part in a block was half of its time."""

ROW = 1 << 20
"""Cells of a row that is not cut: some kernels keep a row, in several arrays."""

KINDS = 64
"""Geometries of blocks that are remembered."""

HEAVY = 1 << 20
"""Cells of a block whose windows are so long that two of them at once, with their weights, would take too much memory."""

COPIED = 1 << 22
"""Cells of an array that is copied whole for a kernel (it is of another dtype, or not in a row); a larger one is cut."""

CELLS = 1 << 18
"""Cells of a block that is copied, about."""


@dataclass(frozen=True)
class Block:
    """Where a block is in the arrays of a call.

    It answers for the gradient of the cells `owned`. Of its own gradient, `kept` goes to the cells `seen` among them; no
    window sees the others.
    """

    geometry: Geometry
    cells: Index
    outputs: Index
    kept: Index
    owned: Index
    seen: Index


@dataclass(frozen=True)
class Blocks:
    """A call that is cut: `lead` sizes and sides, and how many outputs of each axis a block has."""

    geometry: Geometry
    lead: tuple[int, ...]
    sides: tuple[Side, ...]
    steps: tuple[int, ...]
    kinds: dict[Any, Geometry] = field(default_factory=dict, repr=False, compare=False)
    """The geometries of blocks that were met: most are alike."""

    @property
    def sizes(self) -> tuple[int, ...]:
        return (*self.lead, *(side.out for side in self.sides))

    @property
    def count(self) -> int:
        return math.prod(-(-n // step) for n, step in zip(self.sizes, self.steps, strict=True))

    def ranges(self, number: int) -> list[Range]:
        """The outputs of a block along every axis."""
        found: list[Range] = []
        for n, step in zip(reversed(self.sizes), reversed(self.steps), strict=True):
            number, place = divmod(number, -(-n // step))
            found.append((place * step, min(place * step + step, n)))
        return found[::-1]

    def index(self, lead: Sequence[Range], ranges: Sequence[Range]) -> Index:
        return tuple(slice(*each) for each in (*lead, *ranges))

    @cached_property
    def has_whole_planes(self) -> bool:
        """Whether it is cut between planes only."""
        return all(step >= side.out for side, step in zip(self.sides, self.steps[len(self.lead) :], strict=True))

    def whole_planes(self, lead: Sequence[Range]) -> Block:
        cells, outputs = ([(0, n) for n in sizes] for sizes in ((side.n for side in self.sides), self.grid))
        kept = self.index([(0, high - low) for low, high in lead], cells)
        every = self.index(lead, cells)
        return Block(self.geometry, every, self.index(lead, outputs), kept, every, every)

    @property
    def grid(self) -> tuple[int, ...]:
        """How many outputs there are along each axis of the output that is not a leading one."""
        return self.geometry.grid([side.n for side in self.sides])

    def for_outputs(self, number: int) -> Block:
        """The block that gives some outputs."""
        ranges = self.ranges(number)
        lead, ranges = ranges[: len(self.lead)], ranges[len(self.lead) :]
        if self.has_whole_planes:
            return self.whole_planes(lead)
        return self.block(lead, [side.for_outputs(*each) for side, each in zip(self.sides, ranges, strict=True)])

    def for_cells(self, number: int) -> Block | None:
        """The block that gives the gradient of some cells; it has no cells if no window sees them, None if there are none."""
        ranges = self.ranges(number)
        lead, ranges = ranges[: len(self.lead)], ranges[len(self.lead) :]
        if self.has_whole_planes:
            return self.whole_planes(lead)
        owned = [side.owned(*each) for side, each in zip(self.sides, ranges, strict=True)]
        if any(first >= last for first, last in owned):
            return None
        found = [side.for_cells(*each) for side, each in zip(self.sides, owned, strict=True)]
        cuts = [cut for cut in found if cut is not None]
        if len(cuts) < len(found):
            return Block(self.geometry, (), (), (), self.index(lead, owned), ())
        return self.block(lead, cuts, owned)

    def block(self, lead: Sequence[Range], cuts: Sequence[Cut], owned: Sequence[Range] = ()) -> Block:
        outputs = [cut.outputs for cut in cuts] if self.grid else []  # a global region may leave no axes
        kind = tuple((cut.before, cut.after, cut.outputs[1] - cut.outputs[0]) for cut in cuts)
        if (geometry := self.kinds.get(kind)) is None:
            geometry = section(self.geometry, self.sides, cuts)
            if len(self.kinds) < KINDS:
                self.kinds[kind] = geometry
        return Block(
            geometry,
            self.index(lead, [cut.cells for cut in cuts]),
            self.index(lead, outputs),
            self.index([(0, high - low) for low, high in lead], [cut.kept for cut in cuts]),
            self.index(lead, owned),
            self.index(lead, [(cut.cells[0] + cut.kept[0], cut.cells[0] + cut.kept[1]) for cut in cuts]),
        )

    def fill(self, results: Sequence[Array], arrays: Sequence[Array], compute: Callable[..., Sequence[Array]]) -> None:
        """results = for each block what `compute(block, *cells of the arrays, out=parts of the results)` gives."""

        def task(first: int, last: int) -> None:
            for number in range(first, last):
                block = self.for_outputs(number)
                parts = tuple(result[block.outputs] for result in results)
                room = tuple(part if part.flags.carray else None for part in parts)
                found = compute(block, *(array[block.cells] for array in arrays), out=room)
                for part, values in zip(parts, found, strict=True):
                    place(part, values)

        run(task, self.count, sum(array.nbytes for array in arrays))

    def relocate(self, places: Array, block: Block) -> None:
        """Flat places in the planes of a block become those in the planes of the whole; −1 stays."""
        here, there = block.cells[len(self.lead) :], [side.n for side in self.sides]
        none = places < 0
        if all(each.stop - each.start == n for each, n in zip(here[1:], there[1:], strict=True)):
            places += here[0].start * math.prod(there[1:])
        else:
            rest, total, pitch = places.copy(), np.zeros_like(places), 1
            for each, n in zip(reversed(here), reversed(there), strict=True):
                rest, place = np.divmod(rest, each.stop - each.start)
                total += (place + each.start) * pitch
                pitch *= n
            places[...] = total
        places[none] = -1

    def gather(self, gx: Array, x: Array, g: Array, compute: Callable[..., Array]) -> None:
        """gx = for each block the gradient that `compute(block, cells of x, outputs of g)` gives; one large block at a time."""
        alone = Lock()

        def task(first: int, last: int) -> None:
            for number in range(first, last):
                block = self.for_cells(number)
                if block is None:
                    continue
                if block.seen != block.owned:
                    gx[block.owned] = 0
                if block.seen:
                    with alone if x[block.cells].size > HEAVY else nullcontext():
                        gx[block.seen] = compute(block, x[block.cells], g[block.outputs])[block.kept]

        run(task, self.count, x.nbytes + g.nbytes)


def place(part: Array, values: Array) -> None:
    """The values into a part of a result, unless they were written there."""
    if not np.may_share_memory(part, values):
        np.copyto(part, values.reshape(part.shape), casting="same_kind")


# --- how to cut --------------------------------------------------------------------------------------------------


def blocks(
    geometry: Geometry,
    x: Array,
    dtype: Any,
    shape: tuple[int, ...] | None = None,
    by_axes: bool = False,
    in_place: bool = True,
    fixed: bool = False,
) -> Blocks | None:
    """How a call is cut whose tables or copies would be large; None if they are not.

    x is one of its arrays, of which the kernels read cells of `dtype`; `shape` is that of the input, if x is not the input.
    `by_axes` says that there is a table for each axis and none of rows, `in_place` that kernels read windows that are not
    regular, of a plane of one row, where they are. `fixed` says that the rounding errors of the results depend on where a
    plane is cut: then that follows from its shape alone, not from the layout, the dtype or the rest of the batch.
    """
    if not fixed and x.size + geometry.far < SMALL:
        return None
    copies = is_cast(x.size, x.dtype, dtype) or (x.size > COPIED and not (x.flags.c_contiguous or channels_last(x)))
    channels = 1 if fixed or x.flags.c_contiguous else channels_of(geometry, x)
    return cut_up(geometry, shape or x.shape, channels, copies, by_axes, in_place, fixed)


def is_cast(size: int, dtype: Any, read: Any) -> bool:
    """Whether kernels read cells of `dtype` as others, of an array that is too large to be copied whole."""
    return size > COPIED and dtype != read and dtype.kind != "b"  # a byte is read as it is


def channels_last(x: Array) -> bool:
    return any(np.moveaxis(x, axis, -1).flags.c_contiguous for axis in range(x.ndim))


def channels_of(geometry: Geometry, x: Array) -> int:
    """The channels of a row's cells, if they stand in memory with them."""
    axis = x.ndim - geometry.rank - 1
    return x.shape[axis] if axis >= 0 else 1


@lru_cache(maxsize=1024)
def cut_up(
    geometry: Geometry,
    shape: tuple[int, ...],
    channels: int,
    copies: bool,
    by_axes: bool,
    in_place: bool,
    fixed: bool = False,
) -> Blocks | None:
    lead, spatial = geometry.split(shape)
    sides = sides_of(geometry, spatial)
    if sides is None:
        return None
    outer, last = sides[:-1], sides[-1]
    rows = 1 if by_axes else max(1, math.prod(side.most for side in outer))
    lists = [side.out for side in sides] if by_axes else [math.prod(side.out for side in outer) * rows, last.out * channels]
    row = math.inf if in_place and len(sides) == 1 and regularity(geometry, last.n)[0] == 0 else max(1, ROW // channels)
    if rows > TABLES and lists[0] * ROW_BYTES > memory.available():  # no block would be small: the plan refuses it
        return None
    small_planes = not by_axes and math.prod(spatial) > COPIED if fixed else copies
    large_planes = max(lists) > TABLES or last.n > row or small_planes
    if not large_planes and not (copies and math.prod(shape) > CELLS):
        return None
    room = CELLS if small_planes else math.inf, row if large_planes else math.inf, CELLS if copies else math.inf
    listed = OUTPUTS if large_planes else sys.maxsize  # else planes stay whole: that the array is copied cuts between them only
    found = Blocks(geometry, lead, sides, steps(lead, sides, rows, channels, room, listed, by_axes))
    return found if found.count > 1 else None


def steps(
    lead: Sequence[int],
    sides: Sequence[Side],
    rows: int,
    channels: int,
    room: tuple[float, float, float],
    listed: int,
    by_axes: bool,
) -> tuple[int, ...]:
    """The outputs of a block along every axis, from the last one on: as many as there may be, and after a cut few.

    `room` is how many cells a part of a plane may have, how many along its rows, and how many several planes may have;
    `listed` is how many entries the lists of its plan may have.
    """
    found: list[int] = []
    taken, entries, cut, (cells, row, between) = 1, rows, False, room
    for axis, side in enumerate(reversed(sides)):
        step = max(1, listed // (channels if axis == 0 else 1 if by_axes else entries))
        most = min(cells, row) if axis == 0 else min(cells, CELLS) if cut else cells
        if most < math.inf:
            step = min(step, side.fitting(int(most) // taken))
        if axis == 0 and isinstance(side, Windows):  # whole pieces, so that a row is cut where kernels cut it
            piece, _ = piece_of(side.out, side.kernel, side.stride)
            step = max(step // piece * piece, min(step, piece))
        step = min(step, side.out)
        taken *= side.reach(step)
        entries *= 1 if axis == 0 else step
        cut |= step < side.out
        found.append(step)
    for n in reversed(lead):
        step = 1 if cut and channels == 1 else max(1, n)
        if between < math.inf and not cut:
            step = max(1, min(n, int(between) // taken))
        taken, cut, channels = taken * step, cut or step < n, 1
        found.append(step)
    return tuple(found[::-1])
