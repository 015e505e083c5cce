"""A long row of windows that are alike, cut into sections that a kernel takes for planes: one call for all that are alike.

For one row of a plane, so long that `blocks` would cut it (`is_long`), in arrays that kernels read as they are (`is_plain`). A
block goes through all of Python, which took longer than its cells: maximum and mean of 2²² cells took 3 to 20 times as long.
Here the sections in the middle of a row have one plan, and to a kernel they are planes whose cells overlap; only those at the
ends of the row, where the padding is, are calls of their own.

    row         . [ c c c c c c c c c c c c c c c c c c c c ] .
    forward     |  first   |                                        outputs of a section, `apart` cells from each other
                        |  middle  |
                                |  middle  |
                                        |     last      |

For outputs, a section has the cells that they see. For the gradient of cells, it has all windows that reach over them, and what
these see besides is to the section as padding is. Sections are cut where kernels cut a row, and follow from the shapes alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Any

from windowgrad.geometry import Geometry, Sliding
from windowgrad.kernels.arrays import Array
from windowgrad.kernels.pool import blocks
from windowgrad.kernels.pool.plan import Plan, plan
from windowgrad.kernels.pool.row_pieces import piece_of
from windowgrad.kernels.pool.sections import SomeWindows, Windows, section, sides_of
from windowgrad.kernels.runtime.threads import run

MOST = 1 << 12
"""A window, its stride and the padding are at most so long: a section is not much longer than what it owns."""

CELLS = 1 << 12
"""The cells of a section for cells, about: so few that what a kernel keeps of them stays in the nearest cache, …"""

OUTPUTS = 1 << 14
"""… and the most outputs of one for outputs, which is a piece of its row."""


Chosen = tuple[Any, tuple[Any, ...], int]
"""A kernel, what it is told besides its arrays, and how many shares a section has."""


@dataclass(frozen=True)
class Section:
    """`count` sections of `width` cells, one after the other. The first begins with this cell and this output.

    A section for outputs begins `apart` cells after the one before it, one for cells `apart` outputs after it. If its geometry
    is None, no window sees its cells.
    """

    geometry: SomeWindows | None
    width: int
    cell: int
    output: int
    outputs: int
    count: int = 1
    apart: int = 0

    @property
    def plan(self) -> Plan:
        assert self.geometry is not None
        return plan(self.geometry, (self.width,))

    def moved(self, packed: Array) -> Array:
        """A packed plan whose planes are `apart`."""
        if self.count == 1 or packed[1] == self.apart:
            return packed
        found = packed.copy()
        found[1] = self.apart
        return found


def is_long(geometry: Geometry, shape: tuple[int, ...]) -> bool:
    """Whether rows of this shape are taken in sections."""
    return type(geometry) is Sliding and geometry.rank == 1 and kept_long(geometry, shape, blocks.TABLES, blocks.ROW)


@lru_cache(maxsize=1024)
def kept_long(geometry: Sliding, shape: tuple[int, ...], outputs: int, cells: int) -> bool:
    (k,), (s,), (d,), (pads,) = geometry.kernel, geometry.stride, geometry.dilation, geometry.padding
    (n,) = geometry.split(shape)[1]
    short = max((k - 1) * d + 1, s, *pads) <= MOST
    return short and math.prod(shape) > 0 and (geometry.grid((n,))[0] > outputs or n > cells)


def is_plain(x: Array, dtype: Any) -> bool:
    """Whether kernels for cells of `dtype` read the array as it is."""
    return x.dtype == dtype and x.flags.c_contiguous


def windows_of(geometry: Geometry, n: int) -> Windows:
    sides = sides_of(geometry, (n,))
    assert sides is not None
    assert isinstance(sides[0], Windows)
    return sides[0]


def for_outputs(geometry: Geometry, n: int) -> tuple[Section, ...]:
    """The sections that give the outputs of a row of n cells."""
    return kept_for_outputs(geometry, n, OUTPUTS)


@lru_cache(maxsize=64)
def kept_for_outputs(geometry: Geometry, n: int, most: int) -> tuple[Section, ...]:
    side = windows_of(geometry, n)
    step = min(most, piece_of(side.out, side.kernel, side.stride)[0])
    apart = step * side.stride
    width = max((step - 1) * side.stride + side.span, apart)
    first = -(-side.before // apart)
    last = max(first, min((n + side.before - width) // apart + 1, side.out // step))

    def part(low: int) -> Section:
        cut = side.for_outputs(low, min(low + step, side.out))
        found = section(geometry, (side,), (cut,))
        assert isinstance(found, SomeWindows)
        return Section(found, cut.cells[1] - cut.cells[0], cut.cells[0], low, cut.outputs[1] - low)

    ends = [[part(low) for low in lows] for lows in (range(0, first * step, step), range(last * step, side.out, step))]
    middle = Section(whole(geometry, 0, 0, step), width, side.begin(first * step), first * step, step, last - first, apart)
    return (*ends[0], *([middle] if last > first else []), *ends[1])


@lru_cache(maxsize=64)
def for_cells(geometry: Geometry, n: int, cells: int) -> tuple[Section, ...]:
    """The sections that own about so many cells each, with all windows that reach over them."""
    side = windows_of(geometry, n)
    step = max(1, cells // side.stride)
    apart = step * side.stride
    early = max(0, -(-side.span // side.stride) - 1)  # windows that reach into a section and begin before it
    first = -(-(side.before + early * side.stride) // apart)
    end = min((n + side.before) // apart, side.out // step)
    while end > first and side.end(end * step - 1) > n:
        end -= 1
    last = max(first, end)

    def part(number: int) -> Section:
        low, high = max(0, number * apart - side.before), min(n, (number + 1) * apart - side.before)
        seen = side.seen_by(low, high)
        if seen[0] >= seen[1]:
            return Section(None, high - low, low, 0, 0)
        seen = min(seen[0], (low + side.before) // side.stride), seen[1]  # no window begins within its first cells
        after = max(0, side.end(seen[1] - 1) - high)
        found = whole(geometry, low - side.begin(seen[0]), after, seen[1] - seen[0])
        return Section(found, high - low, low, seen[0], seen[1] - seen[0])

    count = -(-(n + side.before) // apart)
    ends = [[part(number) for number in numbers] for numbers in (range(first), range(last, count))]
    middle = replace(part(first), count=last - first, apart=step) if last > first else None
    return (*ends[0], *([middle] if middle else []), *ends[1])


def whole(geometry: Geometry, before: int, after: int, outputs: int) -> SomeWindows:
    assert isinstance(geometry, Sliding)
    return SomeWindows(geometry, ((before, after),), (outputs,))


def over(sections: tuple[Section, ...], arrays: Sequence[tuple[Array, bool]], choose: Callable[[Section], Chosen]) -> None:
    """The kernel of each section over its part of each row of the arrays; the last array is the result.

    An array is [rows, cells] or [rows, outputs], and beside it stands whether it has cells.
    """
    result = arrays[-1][0]
    for each in sections:
        kernel, given, count = choose(each) if each.geometry is not None else (None, (), 0)
        work = each.count * each.width * result.itemsize
        for row in range(len(result)):
            parts = [a[row, each.cell if has_cells else each.output :] for a, has_cells in arrays]
            if kernel is None:
                parts[-1][: each.width] = 0
            else:
                run(partial(kernel, *parts, *given), each.count * count, work)
