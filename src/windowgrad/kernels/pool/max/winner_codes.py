"""Winners as small numbers: which tap of its window won each output. What the forward rule saves, and the backward rule reads.

A window is a box of taps, as many along each axis as the kernel has, or as the largest bin. Its taps are numbered in row-major
order from where the window begins, padding included, so that the place of a winner is that of its window plus an offset which
only the tap decides. One byte holds the number where a box has few taps, two bytes a larger one. Beyond that, and where numbers
of the geometry are huge, a code is the place of the winner in its plane.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from windowgrad.caches import keep
from windowgrad.geometry import Adaptive, Geometry, Sliding, Table
from windowgrad.kernels.pool.sections import SomeBins

Array = np.ndarray[Any, Any]

GATHERED = 9
"""The most taps of a window whose gradient is gathered in one go, …"""

ALONG = 16
"""… and those of a window along one axis; …"""

STAGED = 26
"""… and the most taps along all axes, added, of one whose gradient is gathered axis by axis, …"""

APART = 16
"""… and how far these are apart at most. Of others it is scattered."""

PAIRED = 4
"""The most taps for `winner_pairs`: where few of the cells win, their rows are cleared in one go."""

LEAST = 8
"""The fewest cells of a row behind its padding for the same: of fewer, each is looked at by itself."""

RUN = 16
"""The fewest channels for `winner_apart`; it takes as many as a vector has lanes, but of 8 1.4 times as long as scattering."""

NEAR = 4
"""The most windows of a cell for `winner_near`, and the most rows of windows for `winner_triples`."""

SMALL = 1024
"""The most places of the grid of a plane for `winner_few`, …"""

FEW = 3
"""… and the fewest times that they are as many as its outputs."""

LONG = 48
"""The fewest outputs in a row, or channels of a cell, for the same: the beginning of a row or a cell costs as much as some."""

WIDE = 32
"""Places of the grid in a row that is not narrow."""

REACH = 1 << 15
"""The most places of the grid between a cell and the windows that see it, for the same: so many are kept at a time."""

HUGE = 1 << 31
"""A geometry with such numbers has places for codes."""


@dataclass(frozen=True)
class Axis:
    """One axis: `n` cells, `out` outputs. Window o begins at cell first[o]; its taps are `step` cells apart.

    Its `grid` has a place for every cell and every output.
    """

    n: int
    out: int
    grid: int
    first: Array
    taps: int
    step: int
    stride: int = 0
    """How far windows are apart, 0 if they are not all alike."""
    before: int = 0

    @property
    def span(self) -> int:
        """The cells from the first to the last tap of a window."""
        return (self.taps - 1) * self.step + 1


@dataclass(frozen=True)
class Codes:
    """How winners are written down. `none` is the code of a window without a cell, −1 if there is no such window."""

    axes: tuple[Axis, ...]
    dtype: np.dtype[Any]
    none: int
    gathers: bool

    @property
    def size(self) -> int:
        """How many entries lists of windows or of taps have, about."""
        taps = 0 if self.are_places else math.prod(axis.taps for axis in self.axes)
        return math.prod(axis.out for axis in self.axes[:-1]) + self.axes[-1].out + taps

    @property
    def are_places(self) -> bool:
        return self.dtype == np.int64


def codes_of(geometry: Geometry, spatial: tuple[int, ...]) -> Codes:
    """How winners of a geometry are written down; found once, unless its lists are long."""
    return kept(sum(geometry.grid(spatial)), geometry, spatial)


def made(geometry: Geometry, spatial: tuple[int, ...]) -> Codes:
    tables = geometry.tables(spatial)
    sizes = box(geometry, tables)
    taps, empty = math.prod(sizes), any((np.asarray(t.count) == 0).any() for t in tables)
    for dtype in (np.uint8, np.uint16):
        none = np.iinfo(dtype).max
        if taps <= none + (not empty) and (has_stages(windows_of(geometry)) or is_moderate(geometry, spatial)):
            axes = tuple(axis_of(geometry, a, t, k, n) for a, (t, k, n) in enumerate(zip(tables, sizes, spatial, strict=True)))
            return Codes(axes, np.dtype(dtype), none if empty else -1, isinstance(geometry, Sliding) and may_gather(axes))
    axes = tuple(Axis(n, len(t.start), len(t.start), np.zeros(0), k, 0) for t, k, n in zip(tables, sizes, spatial, strict=True))
    return Codes(axes, np.dtype(np.int64), -1, False)


kept = keep(made)


def are_pairs(codes: Codes) -> bool:
    """Whether windows do not overlap and are two cells side by side along the row, which is not too short."""
    last, taps = codes.axes[-1], math.prod(axis.taps for axis in codes.axes)
    return (
        taps <= PAIRED
        and last.n - last.before >= LEAST
        and not codes.are_places
        and last.taps == last.stride == 2
        and last.step == 1
        and all(axis.before < axis.stride and (axis.taps - 1) * axis.step < axis.stride for axis in codes.axes)
    )


def has_triples(codes: Codes) -> bool:
    """Whether windows are three cells side by side along the row, and two apart."""
    last = codes.axes[-1]
    return (last.taps, last.stride, last.step) == (3, 2, 1) and last.before < 2 and not codes.are_places


def are_triples(codes: Codes) -> bool:
    """Whether they are, rows are long, and few rows of windows see a cell."""
    return has_triples(codes) and codes.axes[-1].out >= LONG and windows_of_a_cell(codes.axes[:-1]) <= NEAR


def are_apart(codes: Codes, channels: int) -> bool:
    """Whether windows do not overlap and have cells side by side along the row, and channels, which stand last, are many."""
    alike = all(0 < axis.span <= axis.stride for axis in codes.axes)
    return channels >= RUN and alike and codes.axes[-1].step == 1 and not codes.are_places


def are_near(codes: Codes, channels: int) -> bool:
    """Whether few windows see a cell, and its channels, which stand last, are many."""
    return channels >= LONG and not codes.are_places and windows_of_a_cell(codes.axes) <= NEAR


def are_few(codes: Codes) -> bool:
    """Whether windows have stages, and outputs of a plane are few beside its cells; both axes have several of either."""
    if len(codes.axes) != 2 or not codes.gathers or codes.none >= 0:
        return False
    rows, columns = codes.axes
    several = has_stages((axis.taps, axis.stride, axis.step) for axis in codes.axes) and rows.step == 1
    return several and rows.grid * columns.grid <= SMALL and FEW * rows.out * columns.out <= rows.grid * columns.grid


def windows_of_a_cell(axes: Sequence[Axis]) -> float:
    """How many windows see a cell, at most; infinite if they are not all alike."""
    return math.prod(min(axis.taps, -(-axis.span // axis.stride)) if axis.stride else math.inf for axis in axes)


def may_gather(axes: Sequence[Axis]) -> bool:
    """Whether windows are few taps, one cell apart, and those of a cell close to each other.

    On planes with narrow rows only where every place of the grid has an output: else copying rows takes longer than scattering.
    Windows with stages (`has_stages`) always are, for the order of their sums must follow from the window alone; unless outputs
    lie along one axis, which leaves one order.
    """
    if has_stages((axis.taps, axis.stride, axis.step) for axis in axes):
        return sum(axis.out > 1 for axis in axes) > 1
    reach = sum(
        (axis.before + (axis.taps - 1) * axis.step + 1) * pitch
        for axis, pitch in zip(axes, pitches([axis.grid for axis in axes]), strict=True)
    )
    wide = axes[-1].grid >= WIDE or all(axis.out == axis.grid for axis in axes)
    few = (
        math.prod(axis.taps for axis in axes) <= (ALONG if sum(axis.taps > 1 for axis in axes) == 1 else GATHERED)
        and reach <= REACH
    )
    return few and wide and all(axis.stride == 1 for axis in axes)


def has_stages(windows: Iterable[tuple[int, int, int]]) -> bool:
    """Whether gradients are added axis by axis, which is another order than window after window: (taps, stride, step) of each.

    That follows from the window alone, so a plane that is cut, for any reason, has the bits of the whole.
    """
    axes = list(windows)
    taps = [k for k, _, _ in axes if k > 1]
    few = GATHERED < math.prod(taps) < 1 << 8 and sum(taps) <= STAGED
    return len(taps) > 1 and few and all(stride == 1 and (k == 1 or step <= APART) for k, stride, step in axes)


def windows_of(geometry: Geometry) -> Iterable[tuple[int, int, int]]:
    """The taps of a window along each axis, how far windows are apart, and taps; nothing if they are not all alike."""
    if not isinstance(geometry, Sliding):
        return ()
    return zip(geometry.kernel, geometry.stride, geometry.dilation, strict=True)


def box(geometry: Geometry, tables: Sequence[Table]) -> tuple[int, ...]:
    """The taps of a window along each axis."""
    if isinstance(geometry, Sliding):
        return geometry.kernel
    return tuple(int(t.count.max(initial=0)) for t in tables)


def is_moderate(geometry: Geometry, spatial: tuple[int, ...]) -> bool:
    """Whether places of windows, padding included, are moderate numbers."""
    if not isinstance(geometry, Sliding):
        return isinstance(geometry, (Adaptive, SomeBins)) and math.prod(spatial) < HUGE
    reach = [
        k * d + s * out + max(pads) + n
        for k, d, s, out, pads, n in zip(
            geometry.kernel, geometry.dilation, geometry.stride, geometry.grid(spatial), geometry.padding, spatial, strict=True
        )
    ]
    return bool(math.prod(reach) < HUGE)


def axis_of(geometry: Geometry, a: int, table: Table, taps: int, n: int) -> Axis:
    out = len(table.start)
    if not isinstance(geometry, Sliding):
        return Axis(n, out, out, np.asarray(table.start, dtype=np.int64), taps, 1)
    stride, before, step = geometry.stride[a], geometry.padding[a][0], geometry.dilation[a]
    return Axis(n, out, max(out, n), np.arange(out) * stride - before, taps, step, stride, before)


def channel_axis(channels: int) -> Axis:
    """Channels that stand last, as an axis on which output i sees cell i."""
    return Axis(channels, channels, channels, np.arange(channels), 1, 1, 1, 0)


def pitches(sizes: Sequence[int]) -> list[int]:
    """How far entries of each axis are apart in row-major order."""
    return [math.prod(sizes[a + 1 :]) for a in range(len(sizes))]


def outer_sum(columns: Sequence[Array]) -> Array:
    """The sums of one entry of each column, flat in row-major order."""
    total = np.zeros(1, dtype=np.int64)
    for column in columns:
        total = np.add.outer(total, column).ravel()
    return total


def row_numbers(tables: Sequence[Table], sizes: Sequence[int]) -> Array:
    """For each row that a plan lists, which row of its window's box it is."""
    number, valid = np.zeros((1, 1), dtype=np.int64), np.ones((1, 1), dtype=bool)
    for table, size in zip(tables, sizes, strict=True):
        j = np.arange(int(table.count.max(initial=0)))
        real = j < np.asarray(table.count, dtype=np.int64)[:, None]
        tap = np.where(real, np.asarray(table.skip, dtype=np.int64)[:, None] + j, 0)
        shape = (len(number) * len(tap), number.shape[1] * len(j))
        number = (number[:, None, :, None] * size + tap[None, :, None, :]).reshape(shape)
        valid = (valid[:, None, :, None] & real[None, :, None, :]).reshape(shape)
    return number[valid]
