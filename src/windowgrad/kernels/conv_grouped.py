"""The convolution of given shapes: how its three kernels share the work among threads, and which kernel does it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property, lru_cache, reduce
from operator import or_
from typing import Any

import numpy as np

from windowgrad.kernels import conv_exact, conv_matrices, conv_plan, conv_planes
from windowgrad.kernels.conv_depthwise import PLANES, depthwise, depthwise_weight
from windowgrad.kernels.conv_plan import Array, Gather, Shape, room
from windowgrad.kernels.conv_planes import Planes
from windowgrad.kernels.conv_products import products
from windowgrad.kernels.conv_shifted import BLOCK, shifted
from windowgrad.kernels.conv_shifted_weight import TAPS, shifted_weight
from windowgrad.kernels.conv_three import HIGH, three_rows
from windowgrad.kernels.conv_three_weight import TAPS as NINE
from windowgrad.kernels.conv_three_weight import three_weight
from windowgrad.kernels.conv_weight import any_strange, weight_products
from windowgrad.kernels.microkernel import BYTES, ROWS
from windowgrad.kernels.threads import run
from windowgrad.params import ConvParams, TransposeParams

WORK = 2
"""Products that take as long as a byte of other work, for the choice of threads."""
PLANE_WORK = 8
"""How much longer a product takes where every channel has its own."""


SHIFT_WORK = 2
"""The same, where a plane stands in a box."""


class Grouped:
    """The convolution from shape `x` to shape `y`. Its methods compute into flat arrays of one dtype.

    Each gives the strange lanes of its results (see HUGE).
    """

    def __init__(self, params: ConvParams, x: Shape, w: Shape, y: Shape) -> None:
        rank = params.window.rank
        self.window, self.groups = params.window, params.groups
        self.images, self.outs, self.ins = math.prod(y[: len(y) - rank - 1]), w[0] // params.groups, w[1]
        self.spatial, self.grid, self.kernel = x[len(x) - rank :], y[len(y) - rank :], w[2:]
        self.cells, self.pixels, self.taps = math.prod(self.spatial), math.prod(self.grid), math.prod(self.kernel)
        self.depthwise = self.outs == self.ins == 1 and self.groups > 1
        self.work = self.images * self.groups * self.outs * self.ins * self.pixels * self.taps // WORK
        self.pointwise = conv_matrices.is_pointwise(params.window, params.groups)
        self.regular = self.work > 0 and conv_plan.is_regular(params.window, self.spatial)

    def forward(self, x: Array, w: Array, bias: Array, y: Array, adds: bool) -> int:
        per_row = self.ins * self.taps
        sizes = self.images, self.groups, self.outs, self.ins, self.cells, self.pixels
        if self.pointwise and conv_matrices.fits(self.outs, self.pixels, y.itemsize):
            matrices = self.images, self.outs, self.ins, self.pixels
            return conv_matrices.multiply(conv_matrices.by_rows, w, x, y, bias, adds, matrices, self.work)
        if found := self.planes(False):
            return self.shift(found, x, w, bias, y, adds, sizes[4:])
        return self.multiply((self.forwards,), x, w, bias, y, adds, (self.outs * per_row, per_row, self.taps), sizes)

    def input_gradient(self, g: Array, w: Array, bias: Array, gx: Array, adds: bool) -> int:
        per_channel = self.ins * self.taps
        sizes = self.images, self.groups, self.ins, self.outs, self.pixels, self.cells
        if self.pointwise and conv_matrices.fits(self.ins, self.pixels, gx.itemsize):
            matrices = self.images, self.ins, self.outs, self.pixels
            return conv_matrices.multiply(conv_matrices.by_columns, w, g, gx, bias, adds, matrices, self.work)
        if found := self.planes(True):
            return self.shift(found, g, w, bias, gx, adds, sizes[4:])
        gathers = self.backwards
        if not adds and sum(one.pixels for one in gathers) < self.cells:  # cells that no output sees
            gx.reshape(-1, len(bias), self.cells)[...] = bias[:, None]
        return self.multiply(gathers, g, w, bias, gx, adds, (self.outs * per_channel, self.taps, per_channel), sizes)

    def planes(self, back: bool) -> Planes | None:
        """How to convolve each plane by itself, where that can be done and is worth it."""
        return conv_planes.plan(self.window, self.spatial, self.grid, back) if self.depthwise else None

    @cached_property
    def forwards(self) -> Gather:
        return conv_plan.forwards(self.window, self.spatial, self.grid)

    @cached_property
    def backwards(self) -> tuple[Gather, ...]:
        return conv_plan.backwards(self.window, self.spatial, self.grid)

    def shift(self, plan: Planes, x: Array, w: Array, bias: Array, y: Array, adds: bool, planes: Shape) -> int:
        if plan.three_rows:
            return self.sum_three(plan, x, w, bias, y, adds, planes[0])
        block, strange = BLOCK * BYTES // y.itemsize, [0]
        pitch = -(-plan.flat // block) * block
        cells = plan.reach + pitch
        cells, sums = max(cells, plan.cells), pitch * (len(plan.starts) - 1)
        some = conv_planes.together(cells + sums)
        sizes = self.groups, *planes, self.taps, cells, pitch, plan.width, plan.out_width, plan.phases, some

        def task(first: int, last: int) -> None:
            work, _ = room.get(some * (cells + sums) + block, y.dtype, 0)
            tables = plan.apart, plan.ins, plan.outs, plan.starts, plan.lists
            strange.append(shifted(x, w, y, bias, work, *tables, sizes, (first, last, adds)))

        run(task, self.images * self.groups, SHIFT_WORK * self.work)
        return reduce(or_, strange)

    def sum_three(self, plan: Planes, x: Array, w: Array, bias: Array, y: Array, adds: bool, plane: int) -> int:
        strange, ends = [0], plan.reach + (plan.rows + HIGH) * plan.pitch + 2 * BYTES
        box = max(ends, plan.cells), plan.pitch, plan.width, int(plan.apart[0])
        sizes = self.groups, plane, plan.rows, plan.out_width, self.taps, *box

        def task(first: int, last: int) -> None:
            work, _ = room.get(box[0], y.dtype, 0)
            strange.append(three_rows(x, w, y, bias, work, plan.ins, plan.lists, sizes, (first, last, adds)))

        run(task, self.images * self.groups, SHIFT_WORK * self.work)
        return reduce(or_, strange)

    def multiply(
        self, gathers: Sequence[Gather], x: Array, w: Array, bias: Array, y: Array, adds: bool, weight: Shape, sizes: Shape
    ) -> int:
        if not gathers:
            return 0
        if self.depthwise and all(one.own_axes[2][-1] <= 2 for one in gathers):
            return self.multiply_planes(gathers, x, w, bias, y, adds, sizes[4:])
        images, groups, rows, channels = sizes[:4]
        panel, strange = conv_plan.panel(y.itemsize), [0]
        panels = [-(-images * one.pixels // panel) for one in gathers]
        tiles = -(-rows // ROWS)
        by_rows = max(panels) < 24 and groups * tiles > 1
        count = groups * tiles if by_rows else max(panels)

        def task(first: int, last: int) -> None:
            for one, all_panels in zip(gathers, panels, strict=True):
                some = conv_plan.blocks(y.itemsize, rows, channels, len(one.places), all_panels)
                share: tuple[int, ...] = 0, groups * rows, first * all_panels // count, last * all_panels // count
                if by_rows:
                    low, high = (tile // tiles * rows + min(rows, tile % tiles * ROWS) for tile in (first, last))
                    share = low, high, 0, all_panels
                k = some[0] * some[1]
                cells = k * (some[2] + some[3] * panel) + 4 * BYTES + ROWS * panel
                work, lists = room.get(cells, y.dtype, some[3] * (3 * panel + 2) + 3 * some[1] * panel)
                args = one.axes, one.out_axes, one.places, weight, sizes, some, (*share, adds)
                strange.append(products(x, w, y, bias, work, lists, *args))

        run(task, count, self.work)
        return reduce(or_, strange)

    def multiply_planes(
        self, gathers: Sequence[Gather], x: Array, w: Array, bias: Array, y: Array, adds: bool, planes: Shape
    ) -> int:
        strange, sizes = [0], (self.images, self.groups, *planes, self.taps)
        weight = np.concatenate([w, np.zeros(PLANES * self.taps, w.dtype)])

        def task(first: int, last: int) -> None:
            for one in gathers:
                run = min(one.pixels, conv_plan.run_of(len(one.places)))
                work, lists = room.get(2 * PLANES * BYTES, y.dtype, 3 * run * (len(one.places) + 1))
                args = one.own_axes, one.move, one.out_axes[2], one.places, sizes, run, (first, last, adds)
                strange.append(depthwise(x, weight, y, bias, work, lists, *args))

        run(task, self.images * -(-self.groups // PLANES), PLANE_WORK * self.work)
        return reduce(or_, strange)

    def weight_gradient(self, x: Array, g: Array, bias: Array, gw: Array, adds: bool) -> int:
        large = self.images == 1 or self.pixels > conv_matrices.SMALL
        if self.pointwise and large and conv_matrices.fits(self.outs, self.ins, gw.itemsize):
            matrices, none = (self.images, self.outs, self.pixels, self.ins), np.zeros(self.outs, gw.dtype)
            return conv_matrices.multiply(conv_matrices.by_pixels, g, x, gw, none, False, matrices, self.work)
        if found := self.planes(False):
            (self.sum_nine if found.three_rows and self.taps == NINE else self.sum_shifted)(found, x, g, gw)
            return int(any_strange(gw, 0, gw.size))
        one = self.forwards
        if self.depthwise and self.window.stride[-1] <= 2:
            gw[...] = 0
            self.sum_planes(one, x, g, gw)
        else:
            self.sum_pixels(one, x, g, gw)
        return int(any_strange(gw, 0, gw.size))

    def sum_nine(self, plan: Planes, x: Array, g: Array, gw: Array) -> None:
        cells, lanes = max(plan.cells, plan.reach + plan.rows * plan.pitch + 2 * BYTES), BYTES // gw.itemsize
        some = conv_planes.together(self.cells)
        box = cells, plan.pitch, plan.width, int(plan.apart[0])
        sizes = self.images, self.groups, some, self.cells, plan.rows, plan.out_width, *box

        def task(first: int, last: int) -> None:
            work, _ = room.get(cells + some * NINE * lanes, gw.dtype, 0)
            three_weight(x, g, gw, work, plan.ins, plan.by_place(1), sizes, (first, last))

        run(task, self.groups, SHIFT_WORK * self.work)

    def sum_shifted(self, plan: Planes, x: Array, g: Array, gw: Array) -> None:
        lanes = BYTES // gw.itemsize
        bits, places = plan.masks(lanes), plan.by_place(TAPS)
        pitch = len(bits) * lanes
        cells = max(plan.reach + pitch, plan.cells)
        some, widths = conv_planes.together(cells + pitch), (plan.width, plan.out_width)
        sizes = self.images, self.groups, self.cells, self.pixels, self.taps, cells, pitch, *widths, some

        def task(first: int, last: int) -> None:
            work, _ = room.get(some * (cells + pitch + len(places) * lanes), gw.dtype, 0)
            shifted_weight(x, g, gw, work, plan.apart, plan.ins, plan.outs, places, bits, sizes, (first, last))

        run(task, self.groups, SHIFT_WORK * self.work)

    def sum_planes(self, one: Gather, x: Array, g: Array, gw: Array) -> None:
        sizes, some = (self.images, self.groups, self.cells, self.pixels, self.taps), conv_plan.run_of(self.taps)

        def task(first: int, last: int) -> None:
            work, lists = room.get(2 * PLANES * BYTES, gw.dtype, 3 * min(some, self.pixels) * (self.taps + 1))
            depthwise_weight(x, g, gw, work, lists, one.own_axes, one.move, sizes, some, (first, last))

        run(task, -(-self.groups // PLANES), PLANE_WORK * self.work)

    def sum_pixels(self, one: Gather, x: Array, g: Array, gw: Array) -> None:
        sizes = self.images, self.groups, self.outs, self.ins, self.cells, self.pixels
        lanes, panel = BYTES // gw.itemsize, conv_plan.panel(gw.itemsize)
        columns = -(-self.outs // lanes)
        by_rows = self.groups * columns % 2 == 0 or self.groups * columns >= 8 or self.ins < 2
        pixels = min(conv_plan.STEPS, self.images * self.pixels)
        some = min(self.taps, conv_plan.STEPS), min(-(-self.outs // panel), 8) * panel, pixels

        def task(first: int, last: int) -> None:
            share = 0, self.groups * self.outs, first, last
            if by_rows:
                low, high = (i // columns * self.outs + min(self.outs, i % columns * lanes) for i in (first, last))
                share = low, high, 0, self.ins
            cells = some[1] * pixels + ROWS * (pixels + lanes) + lanes + 2 * ROWS * panel
            work, lists = room.get(cells, gw.dtype, 3 * some[0] * pixels)
            weight_products(x, g, gw, work, lists, one.axes, sizes, some, share)

        run(task, self.groups * columns if by_rows else self.ins, self.work)

    def exactly(self, role: int, x: Array, w: Array, y: Array) -> None:
        """Adds to x, w or y, by its role, product by product."""
        tables = self.window.tables(self.spatial)
        ranges = [met(t, n, k) for t, n, k in zip(tables, self.grid, self.kernel, strict=True)]
        low, high, cell = (np.concatenate([r[i] for r in ranges]) for i in range(3))
        steps = [min(s, n) for s, n in zip(self.window.stride, self.spatial, strict=True)]
        axes = [np.array(a, dtype=np.int64) for a in (self.spatial, self.grid, self.kernel, steps)]
        sizes = self.images, self.groups, self.outs, self.ins
        jobs = self.groups * (self.images * self.outs, self.images * self.ins, self.outs * self.ins)[role]

        def task(first: int, last: int) -> None:
            conv_exact.every_product(role, x, w, y, sizes, (*axes, low, high, cell), first, last)

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

    def forward(self, x: Array, w: Array, bias: Array, y: Array, adds: bool) -> int:
        return super().input_gradient(x, w, bias, y, adds)

    def input_gradient(self, g: Array, w: Array, bias: Array, gx: Array, adds: bool) -> int:
        return super().forward(g, w, bias, gx, adds)

    def weight_gradient(self, x: Array, g: Array, bias: Array, gw: Array, adds: bool) -> int:
        return super().weight_gradient(g, x, bias, gw, adds)

    def exactly(self, role: int, x: Array, w: Array, y: Array) -> None:
        swapped = {conv_exact.FORWARD: conv_exact.INPUT, conv_exact.INPUT: conv_exact.FORWARD}
        super().exactly(swapped.get(role, role), y, w, x)


@lru_cache(maxsize=512)
def grouped(params: ConvParams, x: Shape, w: Shape) -> tuple[Grouped, Shape]:
    """The convolution of these shapes, and the shape of its output."""
    kind, out = Transposed if isinstance(params, TransposeParams) else Grouped, params.out_shape(x, w)
    return kind(params, x, w, out), out
