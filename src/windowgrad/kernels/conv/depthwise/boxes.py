"""The plan of a convolution of single planes: where the cells of a plane go so that every tap is a shifted load.

Made once for a geometry, and used by `shifted`, `shifted_weight`, `three_rows` and `three_rows_weight`; `plan` gives None where
a box would be too large (LARGEST_BOX), or large and mostly padding (WASTE), and then `ways.may_shift` does not hold.

A plane is copied into a box with its padding. There the cell that pixel o meets at tap t stands at P(o) + Q(t), and P is a sum
over axes. A window of 3 × 3 with padding 1 on a plane of 2 × 4:

    the box              pixel (i, j) has P = 6·i + j, tap (u, v) has Q = 6·u + v: rows of the box are 6 wide
    . . . . . .
    . a b c d .          memory  . . . . . . . a b c d . . e f g h . . . . . . .
    . e f g h .          P       0 1 2 3 - - 6 7 8 9                     `flat` = 10: the pixels as one long row
    . . . . . .          tap 1,1               0 1 2 3 - - 6 7 8 9       Q = 7: the cells that they meet there

So a vector of sums from P on is the sum over taps of w · (the vector of the box from P + Q on), whatever rows it spans. Where
it says "-" there is no pixel: what is summed there is dropped when rows are put into y (or masked, in a weight gradient).

With a stride, cells that lie a stride apart stand side by side, in a box for each phase of the stride, and taps of phase f
are shifted loads of box f. For stride 2 along a row:

    row        a b c d e f g                 window of 3:  tap 0 is phase 0, from a on; tap 1 phase 1, from b on;
    phase 0    a c e g                                     tap 2 phase 0, from c on
    phase 1    b d f

The input gradient is the same with pixels and cells exchanged: g has one box, and the pixels of each phase of the stride
have their own taps and their own long row of sums, which are put into y in turns.

Measured and rejected: lists of pieces with masks (`any_geometry.py`) for planes that go into a box: in the box no tap needs a
mask, and windows three cells high can share the loads of four rows.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import product

import numpy as np

from windowgrad.geometry import Sliding
from windowgrad.kernels.conv.plan import Array, Gather, Shape, backwards, forwards, strides

LARGEST_BOX = 1 << 16
"""Cells of the box of a plane: it should stay in the second cache."""
WASTE = 3
"""How many times larger than its planes a box may be; padding that is larger than the plane is not worth a copy."""
SMALL_BOX = 1 << 12
"""Cells of a box that may be padding all the same: it stays in the first cache, and lists of pieces take longer. Windows of
5×5×5 with a stride of 2 on 5×5×5 take a ninth of the time in lanes, which leave their passes without a box to lists."""
TOGETHER_CELLS = 1 << 13
"""Cells of the boxes that are filled one after the other: they should stay in the first cache."""


@dataclass(frozen=True, eq=False)
class Planes:
    """Row r of the input goes from ins[r, 0] to ins[r, 1]: of its `width` cells, the k-th of every len(apart) to apart[k] on.

    Pixels of phase f of the output are the sums over lists[:, i] = (Q, place in the weight), starts[f] ≤ i < starts[f + 1];
    they are `flat` in a row. Row r of the output takes its pixels
    from outs[r, 0] of the phase outs[r, 2], and from the `phases` − 1 following ones in turn, to outs[r, 1]; it has
    `out_width` of them. `real` tells which of the row are pixels of the grid. Of two axes, the output has `rows` along the
    first, and the box is `pitch` wide.
    """

    cells: int
    flat: int
    width: int
    out_width: int
    phases: int
    apart: Array
    ins: Array
    outs: Array
    starts: Array
    lists: Array
    real: Array
    rows: int
    pitch: int

    @cached_property
    def reach(self) -> int:
        """Where the last tap of the first pixel is."""
        return int(self.lists[0].max())

    @lru_cache  # noqa: B019 - plans are few, and kept anyway
    def by_place(self, several: int) -> Array:
        """Where each listed tap is, in the order of the weight; more of them follow, to make it a multiple of `several`."""
        places = self.lists[0][np.argsort(self.lists[1])]
        return np.append(places, np.zeros(-len(places) % several, np.int64))

    @lru_cache  # noqa: B019 - plans are few, and kept anyway
    def masks(self, lanes: int) -> Array:
        """The bits of the pixels of the grid in each vector of the flat row."""
        whole = np.pad(self.real, (0, -self.flat % lanes)).reshape(-1, lanes).astype(np.int64)
        return np.asarray((whole << np.arange(lanes)).sum(axis=1))


@lru_cache(maxsize=512)
def plan(window: Sliding, spatial: Shape, grid: Shape, back: bool, within: tuple[Shape, Shape] | None = None) -> Planes | None:
    """The plan of the forward pass or of the input gradient; None where a box would be too large.

    `within`: the sizes of the planes that the input and the output are parts of, if they are.
    """
    ones = (1,) * len(grid)
    if back:
        return planes(backwards(window, spatial, grid), grid, spatial, ones, window.stride, within or (grid, spatial))
    return planes((forwards(window, spatial, grid),), spatial, grid, window.stride, ones, within or (spatial, grid))


def planes(
    gathers: tuple[Gather, ...], size: Shape, out: Shape, step: Shape, out_step: Shape, within: tuple[Shape, Shape]
) -> Planes | None:
    rank = len(size)
    taps = [one.own_axes[3].reshape(-1, rank) for one in gathers]
    if not taps:
        return None
    grid = [-(-n // s) for n, s in zip(out, out_step, strict=True)]
    low = [min(int(t[:, a].min()) for t in taps) for a in range(rank)]
    high = [max(int(t[:, a].max()) for t in taps) + (grid[a] - 1) * step[a] for a in range(rank)]
    box = tuple(-(-(h - lo + 1) // s) for lo, h, s in zip(low, high, step, strict=True))
    pitch, inner = strides(box), math.prod(box)
    cells = inner * math.prod(step)
    if cells > LARGEST_BOX or cells > max(SMALL_BOX, WASTE * (math.prod(size) + math.prod(out))):
        return None

    def place(cell: tuple[int, ...], axes: range) -> int:
        """Where a cell stands, as far as these axes tell."""
        found = 0
        for a in axes:
            index, phase = divmod(cell[a] - low[a], step[a])
            found += index * pitch[a] + phase * math.prod(step[a + 1 :]) * inner
        return found

    flat = sum((n - 1) * p for n, p in zip(grid, pitch, strict=True)) + 1
    first, last = [max(0, lo) for lo in low], [min(n, h + 1) for n, h in zip(size, high, strict=True)]
    outer, x_steps = range(rank - 1), strides(within[0])
    every = product(*(range(first[a], last[a]) for a in outer))
    ins = [(sum(c[a] * x_steps[a] for a in outer) + first[-1], place(c, outer)) for c in every]
    row = range(rank - 1, rank)
    apart = [place((0,) * (rank - 1) + (first[-1] + k,), row) for k in range(step[-1])]
    phases = [min(s, n) for s, n in zip(out_step, out, strict=True)]
    by_phase = dict(zip((phase_of(one.out_axes[2], out) for one in gathers), zip(taps, gathers, strict=True), strict=True))
    starts, lists = [0], []
    for phase in product(*map(range, phases)):
        if phase in by_phase:
            table, one = by_phase[phase]
            lists += sorted((place(tuple(map(int, t)), range(rank)), int(k)) for t, k in zip(table, one.places, strict=True))
        starts.append(len(lists))
    return Planes(
        cells,
        flat,
        max(0, last[-1] - first[-1]),
        out[-1],
        phases[-1],
        np.array(apart, np.int64),
        np.array(ins, np.int64).reshape(-1, 2),
        np.array(list(rows_out(out, out_step, phases, pitch, strides(within[1]))), np.int64).reshape(-1, 3),
        np.array(starts, np.int64),
        np.array(lists, np.int64).reshape(-1, 2).T.copy(),
        real(grid, pitch, flat),
        out[0] if rank == 2 else 0,
        pitch[0],
    )


def phase_of(origin: int, size: Shape) -> Shape:
    found = []
    for step in strides(size):
        phase, origin = divmod(origin, step)
        found.append(phase)
    return tuple(found)


def rows_out(out: Shape, step: Shape, phases: list[int], pitch: Shape, y_steps: Shape) -> Iterator[tuple[int, int, int]]:
    outer = range(len(out) - 1)
    for o in product(*(range(out[a]) for a in outer)):
        yield (
            sum(o[a] // step[a] * pitch[a] for a in outer),
            sum(o[a] * y_steps[a] for a in outer),
            sum(o[a] % step[a] * math.prod(phases[a + 1 :]) for a in outer),
        )


def real(grid: list[int], pitch: Shape, flat: int) -> Array:
    """1 for each pixel of the grid in the flat row, 0 for the others."""
    found = np.zeros(flat, np.uint8)
    found[sum(np.ix_(*(np.arange(n) * p for n, p in zip(grid, pitch, strict=True)))).reshape(-1)] = 1  # type: ignore[union-attr]
    return found


def together(cells: int) -> int:
    """How many planes that need so many cells are done together."""
    return max(1, min(16, TOGETHER_CELLS // cells))
