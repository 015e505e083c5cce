"""Smooth maximum by work that fits into a cache: several small planes at a time, or strips of a large one with what they see.

`over_outputs` and `over_cells` choose by the size of a plane, and share the work between threads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate, pairwise
from typing import Any

import numpy as np

from windowgrad.kernels.pool.plan import Array, Plan
from windowgrad.kernels.pool.smooth.side_by_side import is_side_by_side, pair_values
from windowgrad.kernels.pool.smooth.ways import backward_way, forward_way, packed_backward, packed_forward
from windowgrad.kernels.runtime.buffers import LEAST, empty
from windowgrad.kernels.runtime.threads import run

CELLS = 1 << 16
"""How many cells several small planes have together, or a little more."""

LARGE = 1 << 18
"""A plane with more cells is cut into strips of about half as many."""

NONE = np.empty(0, np.intp)
SUMS = np.empty(0, np.float64)

WASTE = 1.5
"""How often a cell may be worked on, in the mean over the strips of a plane; else the strips are larger."""


@dataclass(frozen=True)
class StripPlan:
    """A strip, or a whole plane: `plan` makes the outputs `out_low` to `out_high` from the cells `low` to `high`.

    All that the cells `kept_low` to `kept_high` are seen by is among those outputs.
    """

    plan: Plan
    low: int
    high: int
    out_low: int
    out_high: int
    kept_low: int
    kept_high: int

    @cached_property
    def pad(self) -> Array:
        """How many padded cells each window covers, inside the padded input."""
        p = self.plan
        if (p.row_inside == p.row_cells).all() and (p.col_inside == p.count).all():
            return np.zeros(p.plane_out)
        pad = np.multiply.outer(p.row_inside, p.col_inside)
        pad -= np.multiply.outer(p.row_cells * 1.0, p.count * 1.0)
        return pad.ravel()

    @cached_property
    def counted(self) -> Array:
        """The same for kernels: empty if it is 0 everywhere."""
        return self.pad if self.padded else self.pad[:0]

    @cached_property
    def forward(self) -> tuple[Any, Array]:
        """The forward kernel, and what it is told of the plane."""
        return forward_way(self.plan), packed_forward(self.plan, self.lone)

    @cached_property
    def in_pairs(self) -> bool:
        """Whether `side_by_side` has kernels for its planes of float32."""
        return is_side_by_side(self.plan)

    def values_way(self, dtype: Any, scale: Array) -> tuple[Any, tuple[Any, ...]]:
        """The kernel for values alone from cells of a dtype, and what it is told after both."""
        kernel, plan = self.forward
        return (
            (pair_values, (scale, plan))
            if self.in_pairs and dtype == np.float32
            else (kernel, (SUMS, self.counted, scale, plan))
        )

    @cached_property
    def backward(self) -> tuple[Any, Array] | None:
        """The same of the backward kernel, if there is one."""
        way = backward_way(self.plan)
        return None if way is None else (way, packed_backward(self.plan))

    def places(self, p: Plan, first: int, last: int) -> tuple[slice, slice]:
        """(cells, outputs) of the strip in the planes first to last of p; there are several only of whole planes."""
        cells = slice(first * p.plane_in + self.low, (last - 1) * p.plane_in + self.high)
        return cells, slice(first * p.plane_out + self.out_low, (last - 1) * p.plane_out + self.out_high)

    @cached_property
    def padded(self) -> bool:
        return bool(self.pad.any())

    @cached_property
    def lone(self) -> tuple[Array, Array]:
        """(outputs that see one real cell and no padding, those cells)."""
        p = self.plan
        rows, columns = (p.row_cells == 1) & (p.row_inside == 1), (p.count == 1) & (p.col_inside == 1)
        row, column = np.nonzero(np.multiply.outer(rows, columns)) if rows.any() and columns.any() else (NONE, NONE)
        return row * p.out + column, p.rows[p.ptr[row]] + p.start[column]


class Scratch:
    """Memory of one thread for what it computes on the way, the same from strip to strip."""

    def __init__(self) -> None:
        self.block = np.empty(0)

    def arrays(self, *sizes: int) -> list[Array]:
        """Arrays of float64 with arbitrary contents; those of the last time are no longer to be used."""
        ends = list(accumulate(sizes, initial=0))
        if len(self.block) < ends[-1]:
            self.block = empty((max(ends[-1], LEAST // 8),), np.float64)
        return [self.block[low:high] for low, high in pairwise(ends)]


Work = Callable[[StripPlan, int, int, Scratch], None]


def whole(p: Plan) -> StripPlan:
    return StripPlan(p, 0, p.plane_in, 0, p.plane_out, 0, p.plane_in)


def by_outputs(p: Plan, first: int, last: int) -> StripPlan:
    """The strip with the output rows first to last."""
    return cut(p, first, last, p.plane_in, 0)


def by_cells(p: Plan, first: int, last: int) -> StripPlan:
    """The strip that is needed for the gradient of the input rows first to last."""
    seen_by = p.back_rows[p.back_ptr[first] : p.back_ptr[last]]
    low, high = (int(seen_by.min()) // p.out, int(seen_by.max()) // p.out + 1) if len(seen_by) else (0, 0)
    return cut(p, low, high, first * p.width, last * p.width)


def cut(p: Plan, first: int, last: int, kept_low: int, kept_high: int) -> StripPlan:
    ptr = p.ptr[first : last + 1]
    rows = p.rows[ptr[0] : ptr[-1]]
    low = min(int(rows.min(initial=p.plane_in)), kept_low)
    high = max(int(rows.max(initial=-p.width)) + p.width, kept_high)
    low = min(low, high)
    plan = replace(
        p,
        outer=last - first,
        ptr=ptr - ptr[0],
        rows=rows - low,
        row_cells=p.row_cells[first:last],
        row_inside=p.row_inside[first:last],
        plane_in=high - low,
    )
    return StripPlan(plan, low, high, first * p.out, last * p.out, kept_low, kept_high)


def bounds(p: Plan, rows: int, take: Callable[[Plan, int, int], StripPlan]) -> list[int]:
    """Where to cut `rows` rows: a strip has few cells, but not so few that its neighbours do most of its work again."""
    step = max(1, rows * LARGE // (2 * p.plane_in)) if is_cut(p) else rows
    while step < rows:
        middle = (rows - step) // 2
        strip = take(p, middle, middle + step)
        if (strip.high - strip.low) * rows <= WASTE * step * p.plane_in:
            break
        step *= 2
    return [*range(0, rows, step), rows]


def is_cut(p: Plan) -> bool:
    """Whether a plane is so large that it may be cut into strips."""
    return p.plane_in > LARGE


def over_outputs(plane: StripPlan, planes: int, size: int, work: Work) -> None:
    """`work(strip, first, last, scratch)` for strips with all outputs of the planes first to last, on several threads."""
    over(plane, planes, size, work, plane.plan.outer, by_outputs)


def over_cells(plane: StripPlan, planes: int, size: int, work: Work) -> None:
    """The same for strips that keep all cells."""
    over(plane, planes, size, work, plane.plan.plane_in // plane.plan.width, by_cells)


def over(plane: StripPlan, planes: int, size: int, work: Work, rows: int, take: Callable[[Plan, int, int], StripPlan]) -> None:
    p = plane.plan
    cuts = bounds(p, rows, take)
    if len(cuts) == 2:
        run(lambda first, last: work(plane, first, last, Scratch()), planes, size)
        return
    places = [(plane, *cut) for plane in range(planes) for cut in pairwise(cuts)]

    def some_rows(first: int, last: int) -> None:
        scratch = Scratch()
        for number, low, high in places[first:last]:
            work(take(p, low, high), number, number + 1, scratch)

    run(some_rows, len(places), size)


def groups(plane: int, first: int, last: int) -> Iterator[tuple[int, int]]:
    """The planes first to last, a few at a time: together they have about CELLS cells, of `plane` each."""
    step = max(1, CELLS // plane)
    return ((low, min(low + step, last)) for low in range(first, last, step))
