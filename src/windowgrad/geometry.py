"""Which input cells an output sees: sliding windows, adaptive bins or all cells. All shape arithmetic is in this file.

A geometry is a product over axes. On one axis, output `i` sees the cells `start, start + step, …` (`count` of them)
of the real input, and `padded` cells more that lie in the padding. Cells past the padding (the overhang of ceil mode)
are not counted at all. Every size is a Python integer until it is known to be small, so nothing overflows.
"""

from __future__ import annotations

import itertools
import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

import numpy as np

from windowgrad import memory
from windowgrad.arguments import Padding, Pairs, Size, as_int, axes, counted, flag, flags, ints, pairs, sizes
from windowgrad.caches import keep
from windowgrad.errors import WindowError, show

Cell = tuple[int, ...]
Column = np.ndarray[Any, Any]
Range = tuple[int, int]

ROW_BYTES = 64
"""Bytes of one output in a table, temporaries included."""


@dataclass(frozen=True, slots=True)
class Table:
    """The regions of one axis, one entry per output. `skip` is how many taps of the kernel come before the first real cell."""

    start: Column
    count: Column
    step: int
    padded: Column
    skip: Column

    def first(self, outputs: int) -> Table:
        """The same regions for the first outputs only."""
        return Table(self.start[:outputs], self.count[:outputs], self.step, self.padded[:outputs], self.skip[:outputs])


# --- the three geometries ----------------------------------------------------------------------------------------


class Geometry(ABC):
    """What `Sliding`, `Adaptive` and `Global` share: everything that follows from one table per axis."""

    rank: int
    far: int = 0
    """Roughly how much larger the output may be than the input."""

    @abstractmethod
    def grid(self, spatial: Sequence[int]) -> tuple[int, ...]:
        """How many outputs there are along each axis of the output."""

    @abstractmethod
    def table(self, axis: int, n: int, outputs: Range | None = None) -> Table:
        """The regions of one axis of length `n`: all of them, or those of the outputs from one to before another."""

    def bin_size(self, axis: int, n: int) -> int:
        """The whole cells of a bin, where the regions of an axis of length `n` are two bins or more, else 0."""
        return 0

    def cover(self, axis: int, i: int, n: int) -> range:
        """All positions output `i` covers on one axis of length `n`; those below 0 or from `n` on lie outside the input."""
        table = self.table(axis, n, (i, i + 1))
        return range(int(table.start[0]), int(table.start[0] + table.count[0]))

    def _repr_svg_(self) -> str | None:
        """What a notebook shows. Drawing is a room above this one, so it is found by its name, when it is needed."""
        found: str | None = import_module("windowgrad.drawing.pattern").pattern(self)
        return found

    def split(self, shape: Sequence[int]) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """`shape` as (leading axes, spatial axes); no spatial axis may be empty."""
        shape = sizes("shape", shape)
        if len(shape) < self.rank:
            has, least = counted("axis", len(shape)), f"must have at least {show(self.rank)}"
            raise WindowError(f"shape {show(shape)} has {has}: {least}, one per axis of the window")
        lead, spatial = shape[: len(shape) - self.rank], shape[len(shape) - self.rank :]
        for axis, n in enumerate(spatial):
            as_int("size", n, 1, f" on axis {axis}")
        return lead, spatial

    def out_shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        """The shape of the output for an input of `shape`: leading axes are kept."""
        lead, spatial = self.split(shape)
        return lead + self.grid(spatial)

    def tables(self, spatial: Sequence[int]) -> tuple[Table, ...]:
        """One table per axis."""
        return tuple(self.table(axis, n) for axis, n in enumerate(spatial))

    def _rows(self, o: Sequence[int], spatial: Sequence[int]) -> list[tuple[int, Table]]:
        """The row of output `o` in the table of each axis."""
        spatial, o = self._sizes(spatial), sizes("output", o)
        grid = self.grid(spatial)
        if len(o) != len(grid) or not all(0 <= i < m for i, m in zip(o, grid, strict=True)):
            raise WindowError(f"output {show(tuple(o))}: must be an index into the output of shape {show(grid)}")
        return list(zip(o, self.tables(spatial), strict=True))

    def _sizes(self, spatial: Sequence[int]) -> tuple[int, ...]:
        """The sizes of the spatial axes, one for each axis of the window."""
        found = sizes("shape", spatial)
        if len(found) != self.rank:
            has = counted("axis", len(found))
            raise WindowError(f"shape={show(found)}: has {has}, must have {show(self.rank)}, one per axis of the window")
        return found

    def reach(self, o: Sequence[int], spatial: Sequence[int]) -> list[tuple[Cell, Cell]]:
        """The real cells of output `o` in row-major order, each as (position in the kernel, cell)."""
        sides, rows = [], self._rows(o, spatial)
        memory.refuse_unallocatable([int(t.count[i]) for i, t in rows], TAP_BYTES, "the list of taps")
        for i, t in rows:
            start, skip = int(t.start[i]), int(t.skip[i])
            sides.append([(skip + j, start + t.step * j) for j in range(int(t.count[i]))])
        return [(tuple(k for k, _ in tap), tuple(c for _, c in tap)) for tap in itertools.product(*sides)]

    def taps(self, o: Sequence[int], spatial: Sequence[int]) -> list[Cell]:
        """The real cells that output `o` sees, in row-major order."""
        return [cell for _, cell in self.reach(o, spatial)]

    def padded(self, o: Sequence[int], spatial: Sequence[int]) -> int:
        """How many padded cells output `o` covers besides its real ones. The overhang of ceil mode is not padding."""
        rows = self._rows(o, spatial)
        real = math.prod(int(t.count[i]) for i, t in rows)
        return math.prod(int(t.count[i]) + int(t.padded[i]) for i, t in rows) - real


TAP_BYTES = 128
"""What one tap takes in a list, at least."""


@dataclass(frozen=True, init=False)
class Sliding(Geometry):
    """Windows of `kernel` cells, `dilation` apart, every `stride` cells of the padded input."""

    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    padding: Pairs
    dilation: tuple[int, ...]
    ceil_mode: tuple[bool, ...]
    rank: int = field(repr=False, compare=False)

    def __init__(
        self,
        kernel: Sequence[int],
        stride: Size | None = None,
        padding: Padding = 0,
        dilation: Size = 1,
        ceil_mode: bool | Sequence[bool] = False,
    ) -> None:
        kernel = ints("kernel_size", kernel)
        rank = len(kernel)
        fields = {
            "kernel": kernel,
            "stride": kernel if stride is None else ints("stride", stride, rank),
            "padding": pairs("padding", padding, rank),
            "dilation": ints("dilation", dilation, rank),
            "ceil_mode": flags("ceil_mode", ceil_mode, rank),
            "rank": rank,
        }
        for name, value in fields.items():
            object.__setattr__(self, name, value)

    @property
    def far(self) -> int:  # type: ignore[override]
        return max(map(max, self.padding))

    def grid(self, spatial: Sequence[int]) -> tuple[int, ...]:
        return tuple(self._outputs(axis, n) for axis, n in enumerate(spatial))

    def _outputs(self, axis: int, n: int) -> int:
        k, s, d, (lo, hi) = self.kernel[axis], self.stride[axis], self.dilation[axis], self.padding[axis]
        room = n + lo + hi - d * (k - 1) - 1
        if room < 0:
            raise WindowError(
                f"kernel_size={show(k)} on axis {axis}: the window covers {show(d * (k - 1) + 1)} cells, "
                f"the padded input has {show(n + lo + hi)} (size {show(n)}, padding {show((lo, hi))}, dilation {show(d)})"
            )
        if not self.ceil_mode[axis]:
            return room // s + 1
        out = -(-room // s) + 1
        return out - 1 if (out - 1) * s >= n + lo else out

    def table(self, axis: int, n: int, outputs: Range | None = None) -> Table:
        windows = self.kernel[axis], self.stride[axis], *self.padding[axis], self.dilation[axis]
        if outputs is not None:
            return sliding_table(n, *outputs, *windows)
        out = self._outputs(axis, n)
        return _kept_sliding(out, n, 0, out, *windows)

    def cover(self, axis: int, i: int, n: int) -> range:
        k, s, d, (lo, _) = self.kernel[axis], self.stride[axis], self.dilation[axis], self.padding[axis]
        return range(i * s - lo, i * s - lo + d * (k - 1) + 1, d)

    def adjoint(self, spatial: Sequence[int], extra: Sequence[int]) -> tuple[int, ...]:
        """The input sizes whose convolution has the sizes `spatial`: the smallest ones, and `extra` cells more."""
        sizes = []
        for axis, (n, e) in enumerate(zip(spatial, extra, strict=True)):
            k, s, d, (lo, hi) = self.kernel[axis], self.stride[axis], self.dilation[axis], self.padding[axis]
            size = (n - 1) * s + d * (k - 1) + 1 + e - lo - hi
            if size < 1:
                left = f"gives an output of size {show(size)}, must be at least 1"
                raise WindowError(f"padding={show((lo, hi))} on axis {axis}: {left}")
            sizes.append(size)
        return tuple(sizes)

    def extra_for(self, spatial: Sequence[int], wanted: Sequence[int]) -> tuple[int, ...]:
        """The `extra` with which `adjoint` gives the sizes `wanted`."""
        found = []
        for axis, (n, m) in enumerate(zip(spatial, wanted, strict=True)):
            k, s, d, (lo, hi) = self.kernel[axis], self.stride[axis], self.dilation[axis], self.padding[axis]
            least = (n - 1) * s + d * (k - 1) + 1 - lo - hi
            most = least + max(s, d) - 1
            if not least <= m <= most:
                possible = f"must be from {show(max(least, 1))} to {show(most)}" if least < most else f"must be {show(least)}"
                raise WindowError(f"output_size={show(m)} on axis {axis}: {possible} for an input of size {show(n)}")
            found.append(m - least)
        return tuple(found)


@dataclass(frozen=True, init=False)
class Adaptive(Geometry):
    """`output_size` bins per axis that cover the input: bin `i` of `m` is `[floor(i·n/m), ceil((i+1)·n/m))`. None keeps `n`."""

    output_size: tuple[int | None, ...]
    rank: int = field(repr=False, compare=False)

    def __init__(self, output_size: Sequence[int | None]) -> None:
        sizes = axes("output_size", output_size)
        fixed = (None if m is None else as_int("output_size", m, 1, f" on axis {a}") for a, m in enumerate(sizes))
        object.__setattr__(self, "output_size", tuple(fixed))
        object.__setattr__(self, "rank", len(sizes))

    @property
    def far(self) -> int:  # type: ignore[override]
        return max(m or 0 for m in self.output_size)

    def grid(self, spatial: Sequence[int]) -> tuple[int, ...]:
        return tuple(n if m is None else m for n, m in zip(spatial, self.output_size, strict=True))

    def table(self, axis: int, n: int, outputs: Range | None = None) -> Table:
        m = self.output_size[axis] or n
        return _kept_adaptive(m, n, m, 0, m) if outputs is None else adaptive_table(n, m, *outputs)

    def bin_size(self, axis: int, n: int) -> int:
        m = self.output_size[axis] or n
        return n // m if m > 1 else 0


@dataclass(frozen=True, init=False)
class Global(Geometry):
    """One region over the last `rank` axes, which are kept with length 1 or removed (`keepdims=False`)."""

    rank: int
    keepdims: bool

    def __init__(self, rank: int, keepdims: bool = True) -> None:
        object.__setattr__(self, "rank", as_int("rank", rank, 1))
        object.__setattr__(self, "keepdims", flag("keepdims", keepdims))

    def grid(self, spatial: Sequence[int]) -> tuple[int, ...]:
        return (1,) * self.rank if self.keepdims else ()

    def table(self, axis: int, n: int, outputs: Range | None = None) -> Table:
        return _kept_adaptive(1, n, 1, 0, 1)

    def _rows(self, o: Sequence[int], spatial: Sequence[int]) -> list[tuple[int, Table]]:
        return [(0, table) for table in self.tables(self._sizes(spatial))]  # also where the output has no axes left


# --- the regions of one axis -------------------------------------------------------------------------------------


def _indices(first: int, last: int, *magnitudes: int) -> Column:
    """The output indices, as machine integers when nothing computed from them can overflow, else as Python's."""
    if (last - first) * ROW_BYTES > memory.available():
        size = memory.in_bytes(memory.available())
        raise WindowError(f"an axis with {show(last - first)} outputs: its table of windows does not fit into memory ({size})")
    return np.arange(first, last, dtype=np.int64 if max(magnitudes) < 2**62 else object)


def sliding_table(n: int, first: int, last: int, k: int, s: int, lo: int, hi: int, d: int) -> Table:
    """Windows `first` to `last` over n cells."""
    begin = _indices(first, last, (last + 1) * s + lo, n + hi + d * (k + 1)) * s - lo

    def taps_before(edge: int) -> Any:  # how many of the k taps lie before cell `edge`
        return np.minimum(np.maximum(-((begin - edge) // d), 0), k)

    skip = taps_before(0)
    count = taps_before(n) - skip
    return _frozen(np.where(count > 0, begin + skip * d, 0), count, d, taps_before(n + hi) - count, skip)


def adaptive_table(n: int, m: int, first: int, last: int, rest: int = 0) -> Table:
    """Bins `first` to `last` of m over n cells, the first of which begins `rest`/m of a cell later."""
    i = _indices(first, last, (last + 1) * n + rest)
    start = (i * n + rest) // m
    none = np.zeros_like(i)
    return _frozen(start, -(-((i + 1) * n + rest) // m) - start, 1, none, none)


_kept_sliding, _kept_adaptive = keep(sliding_table), keep(adaptive_table)


def _frozen(start: Any, count: Any, step: int, padded: Any, skip: Any) -> Table:
    """A read-only table: the cache shares it."""
    for column in (start, count, padded, skip):
        column.flags.writeable = False
    return Table(start, count, step, padded, skip)


def adaptive_bins(n: int, m: int) -> list[tuple[int, int]]:
    """The bins `[start, end)` of adaptive pooling from `n` cells to `m`."""
    n, m = as_int("n", n, 1), as_int("m", m, 1)
    table = _kept_adaptive(m, n, m, 0, m)
    return [(int(s), int(s + c)) for s, c in zip(table.start, table.count, strict=True)]


# --- other sizes -------------------------------------------------------------------------------------------------


def named_padding(padding: object, kernel: tuple[int, ...], stride: Size | None, dilation: Size) -> object:
    """`padding` with "valid" and "same" turned into numbers; "same" puts the odd cell after, and needs stride 1.

    A stride that is None is the kernel, as in pooling.
    """
    if not isinstance(padding, str):
        return padding
    if padding in ("valid", "VALID"):
        return 0
    if padding not in ("same", "SAME"):
        raise WindowError(f'padding={show(padding)}: must be "valid", "same", an integer, or one entry per axis')
    kernel = ints("kernel_size", kernel)
    if any(s != 1 for s in ints("stride", kernel if stride is None else stride, len(kernel))):
        given = f"{show(stride)}" if stride is not None else f"None, which is kernel_size={show(kernel)}"
        raise WindowError(f'padding="same": stride must be 1 on every axis, not {given}')
    sides = zip(kernel, ints("dilation", dilation, len(kernel)), strict=True)
    spans = [d * (k - 1) for k, d in sides]
    return tuple((span // 2, span - span // 2) for span in spans)


def sliding(
    kernel: tuple[int, ...], stride: Any = None, padding: Any = 0, dilation: Any = 1, ceil_mode: Any = False
) -> Sliding:
    """Sliding windows whose padding may have a name."""
    return Sliding(kernel, stride, named_padding(padding, kernel, stride, dilation), dilation, ceil_mode)  # type: ignore[arg-type]


def place_of(index: Any, shape: Sequence[int]) -> tuple[Any, ...]:
    """The coordinates of a flat row-major index, or of an array of them.

    `np.unravel_index` is not used: NumPy 2.3 and 2.4 give wrong places for arrays of more than 8192 indices with a last axis
    of length 1.
    """
    place = []
    for n in reversed(shape):
        index, at = divmod(index, n)
        place.append(at)
    return tuple(reversed(place))


def index_of(place: Sequence[Any], shape: Sequence[int]) -> Any:
    """The flat row-major index of a place, or an array of them: the inverse of `place_of`."""
    index: Any = 0
    for at, n in zip(place, shape, strict=True):
        index = index * n + at
    return index


def resized(shape: Sequence[int], padding: Pairs, sign: int) -> tuple[int, ...]:
    """`shape` with its last axes grown (`sign=1`) or shrunk (`-1`) by `padding`."""
    rank = len(padding)
    if len(shape) < rank:
        has = f"but shape {show(tuple(shape))} has only {counted('axis', len(shape))}"
        raise WindowError(f"padding={show(padding)}: has {counted('entry', rank)}, {has}")
    lead, spatial = tuple(shape[: len(shape) - rank]), shape[len(shape) - rank :]
    for axis, n in enumerate(spatial):
        as_int("size", n, 1, f" on axis {axis}")
    sizes = tuple(n + sign * (lo + hi) for n, (lo, hi) in zip(spatial, padding, strict=True))
    for axis, size in enumerate(sizes):
        if size < 1:
            left = f"leaves size {show(size)} of {spatial[axis]}, must leave at least 1"
            raise WindowError(f"padding={show(padding[axis])} on axis {axis}: {left}")
    return lead + sizes
