"""The convolution of given shapes, and which kernel computes it.

`WAYS` lists the kernels of each role, the fastest first. A kernel may be used where its predicate `holds`, in `ways.py` of its
folder, and is used where it is also `worth` it:

    pointwise/   windows of one cell, one group: the weight gradient, a product of matrices that are read where they stand, and
                 sums of many channels for very few rows
    depthwise/   each channel by itself, one channel too: square windows that move down a plane; of others, three rows at a
                 time, a plane in each lane, or shifted loads of a box, large planes in bands; or lists of pieces
    gemm/        everything else: strips of pixels for sums of few products; panels, packed, in a box, or read where they stand;
                 weight gradients of few channels, or of one image of few pixels; input gradients of windows that are nearly
                 as large as a plane

`exact.py` is asked by `entry.py`, for integers, for numbers that are not finite, and for irregular geometries.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import cached_property, lru_cache, reduce
from typing import Any

import numpy as np

from windowgrad.kernels.conv.depthwise.ways import (
    BANDS,
    BANDS_WEIGHT,
    LANES,
    LANES_WEIGHT,
    LISTS,
    LISTS_WEIGHT,
    NINE_WEIGHT,
    ROLL,
    SHIFTED,
    SHIFTED_WEIGHT,
    THREE,
)
from windowgrad.kernels.conv.exact import FORWARD, INPUT, WEIGHT, every_product
from windowgrad.kernels.conv.gemm.columns import COLUMNS
from windowgrad.kernels.conv.gemm.direct_ways import DIRECT_WEIGHT
from windowgrad.kernels.conv.gemm.short_ways import SHORT
from windowgrad.kernels.conv.gemm.ways import FEW_WEIGHT, PRODUCTS, WEIGHT_PRODUCTS
from windowgrad.kernels.conv.plan import Array, Shape, is_regular
from windowgrad.kernels.conv.pointwise.ways import POINTWISE_WEIGHT, THIN
from windowgrad.kernels.conv.shapes import WORK, Pass, Way
from windowgrad.kernels.runtime.threads import run
from windowgrad.params import ConvParams, TransposeParams

WAYS: dict[int, tuple[Way, ...]] = {
    FORWARD: (ROLL, BANDS, THREE, LANES, SHIFTED, LISTS, THIN, SHORT, PRODUCTS),
    INPUT: (ROLL, BANDS, THREE, LANES, SHIFTED, LISTS, THIN, SHORT, COLUMNS, PRODUCTS),
    WEIGHT: (
        BANDS_WEIGHT,
        NINE_WEIGHT,
        LANES_WEIGHT,
        SHIFTED_WEIGHT,
        LISTS_WEIGHT,
        FEW_WEIGHT,
        POINTWISE_WEIGHT,
        DIRECT_WEIGHT,
        WEIGHT_PRODUCTS,
    ),
}
"""The kernels of each role, the fastest first. The first that may be used and is worth it is taken; the last may always be."""


class Grouped:
    """The convolution from shape `x` to shape `y`. Its methods compute into flat arrays of one dtype."""

    def __init__(self, params: ConvParams, x: Shape, w: Shape, y: Shape) -> None:
        rank = params.window.rank
        self.params, self.window, self.groups = params, params.window, params.groups
        self.images, self.outs, self.ins = math.prod(y[: len(y) - rank - 1]), w[0] // params.groups, w[1]
        self.spatial, self.grid, self.kernel = x[len(x) - rank :], y[len(y) - rank :], w[2:]
        terms = self.images * self.groups * self.outs * self.ins * math.prod(self.grid) * math.prod(self.kernel)
        self.work, self.regular = terms // WORK, terms > 0 and is_regular(params.window, self.spatial)
        self.choices: dict[tuple[int, int], tuple[Way, Pass]] = {}

    @cached_property
    def alone(self) -> Grouped:
        """The same for one sample of the batch."""
        return grouped(self.params, self.sample, (self.groups * self.outs, self.ins, *self.kernel))[0]

    @property
    def sample(self) -> Shape:
        """The shape of one sample of what goes in."""
        return self.groups * self.ins, *self.spatial

    @cached_property
    def passes(self) -> tuple[Pass, Pass]:
        """(forward, input gradient) of a regular convolution."""
        forward = Pass(self.window, False, self.images, self.groups, self.outs, self.ins, self.spatial, self.grid)
        return forward, replace(forward, back=True, rows=self.ins, channels=self.outs, size=self.grid, grid=self.spatial)

    def ways(self, role: int, itemsize: int) -> list[Way]:
        """The kernels that may be used for numbers of this size."""
        return [way for way in WAYS[role] if way.holds(self.told(role), itemsize)]

    def told(self, role: int) -> Pass:
        """What the kernels of a role are told."""
        return self.passes[role == INPUT]

    def chosen(self, role: int, itemsize: int) -> tuple[Way, Pass]:
        found = self.choices.get((role, itemsize))
        if found is None:
            one = self.told(role)
            found = next(way for way in self.ways(role, itemsize) if way.worth(one)), one
            self.choices[role, itemsize] = found
        return found

    def compute(self, role: int, a: Array, b: Array, bias: Array, out: Array, adds: bool) -> int:
        """The output from x and the weight, the input gradient from g and the weight, or the weight gradient from x and g.

        Gives the strange lanes of the result (see HUGE).
        """
        way, one = self.chosen(role, out.itemsize)
        return way.compute(one, a, b, bias, out, adds)

    def ready(self, role: int, dtype: Any) -> Callable[[Array, Array, Array, Array], int]:
        """`compute` as a function of its arrays alone; it does not add."""
        way, one = self.chosen(self.played(role), dtype.itemsize)
        return way.ready(one, dtype) or (lambda a, b, bias, out: way.compute(one, a, b, bias, out, False))

    def played(self, role: int) -> int:
        """The role in the convolution that the kernels compute."""
        return role

    def beside_padding(self, role: int) -> int:
        """Which of the two factors of a product a padded cell meets, as a zero, in the kernels of `WAYS`."""
        return 1

    @cached_property
    def ranges(self) -> list[tuple[Array, Array, Array]]:
        """What the taps of each axis meet."""
        tables = self.window.tables(self.spatial)
        return [met(t, n, k) for t, n, k in zip(tables, self.grid, self.kernel, strict=True)]

    @cached_property
    def hidden(self) -> Array | None:
        """Which taps lie in the padding of every output; None if none does."""
        found = np.asarray(reduce(np.logical_or.outer, (high == 0 for _, high, _ in self.ranges))).reshape(-1)
        return found if found.any() else None

    def exactly(self, role: int, x: Array, w: Array, y: Array) -> None:
        """Adds to x, w or y, by its role, product by product."""
        low, high, cell = (np.concatenate([r[i] for r in self.ranges]) for i in range(3))
        steps = [min(s, n) for s, n in zip(self.window.stride, self.spatial, strict=True)]
        axes = [np.array(a, dtype=np.int64) for a in (self.spatial, self.grid, self.kernel, steps)]
        sizes = self.images, self.groups, self.outs, self.ins
        jobs = self.groups * (self.images * self.outs, self.images * self.ins, self.outs * self.ins)[role]

        def task(first: int, last: int) -> None:
            every_product(role, x, w, y, sizes, (*axes, low, high, cell), first, last)

        run(task, jobs, self.work)


def met(table: Any, outputs: int, kernel: int) -> tuple[Array, Array, Array]:
    """For each tap of an axis: the first output that meets a real cell there, the end of those outputs, and the first cell."""
    skip, count = table.skip[:outputs], table.count[:outputs]
    found = []
    for tap in range(kernel):
        real = np.flatnonzero((skip <= tap) & (tap < skip + count))
        low, high = (int(real[0]), int(real[-1]) + 1) if len(real) else (0, 0)
        found.append((low, high, int(table.start[low] + (tap - skip[low]) * table.step) if high else 0))
    columns = np.array(found, np.int64).reshape(-1, 3).T
    return columns[0].copy(), columns[1].copy(), columns[2].copy()


class Transposed(Grouped):
    """The adjoint: what goes in is the convolution's output, what comes out its input."""

    def __init__(self, params: ConvParams, x: Shape, w: Shape, y: Shape) -> None:
        super().__init__(params, y, w, x)

    @property
    def sample(self) -> Shape:
        return self.groups * self.outs, *self.grid

    def compute(self, role: int, a: Array, b: Array, bias: Array, out: Array, adds: bool) -> int:
        a, b = (b, a) if role == WEIGHT else (a, b)
        return super().compute(ADJOINT[role], a, b, bias, out, adds)

    def ready(self, role: int, dtype: Any) -> Callable[[Array, Array, Array, Array], int]:
        compute = super().ready(role, dtype)
        return (lambda a, b, bias, out: compute(b, a, bias, out)) if role == WEIGHT else compute

    def played(self, role: int) -> int:
        return ADJOINT[role]

    def exactly(self, role: int, x: Array, w: Array, y: Array) -> None:
        super().exactly(ADJOINT[role], y, w, x)

    def beside_padding(self, role: int) -> int:
        return 0 if role == WEIGHT else 1


ADJOINT = {FORWARD: INPUT, INPUT: FORWARD, WEIGHT: WEIGHT}
"""The role in the convolution of each role in its adjoint."""


@lru_cache(maxsize=512)
def grouped(params: ConvParams, x: Shape, w: Shape) -> tuple[Grouped, Shape]:
    """The convolution of these shapes, and the shape of its output."""
    kind, out = Transposed if isinstance(params, TransposeParams) else Grouped, params.out_shape(x, w)
    return kind(params, x, w, out), out
