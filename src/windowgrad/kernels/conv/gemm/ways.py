"""Any geometry, from lists of the cells that a run of pixels meets: when each kernel may be used, and how threads share it."""

from __future__ import annotations

import numpy as np

from windowgrad.kernels.conv import plan as conv_plan
from windowgrad.kernels.conv.depthwise.any_geometry import PLANES, depthwise, depthwise_weight
from windowgrad.kernels.conv.gemm.products import products
from windowgrad.kernels.conv.gemm.weight import any_strange, weight_products
from windowgrad.kernels.conv.plan import Array
from windowgrad.kernels.conv.shapes import Pass, Way
from windowgrad.kernels.conv.share import room, shared
from windowgrad.kernels.vector.tiles import BYTES, ROWS

PLANE_WORK = 8
"""How much longer a product takes where every channel has its own, for the choice of threads."""
FEW_PANELS = 24
"""With fewer panels of pixels, threads share the rows."""


# --- when --------------------------------------------------------------------------------------------------------


def always(one: Pass, itemsize: int) -> bool:
    """`products`, `weight_products`: every pass (see `Pass` for what that is)."""
    return True


def may_list_planes(one: Pass, itemsize: int) -> bool:
    """`depthwise`, `depthwise_weight`: each plane of y comes from one of x; pixels of a row meet cells at most two apart."""
    return one.by_planes and all(gather.own_axes[2][-1] <= 2 for gather in one.gathers)


# --- how ---------------------------------------------------------------------------------------------------------


def fill_unseen(one: Pass, bias: Array, y: Array, adds: bool) -> None:
    """The pixels that meet no tap have the bias only."""
    if one.has_unseen and not adds:
        y.reshape(-1, len(bias), one.pixels)[...] = bias[:, None]


def multiply(one: Pass, x: Array, w: Array, bias: Array, y: Array, adds: bool) -> int:
    fill_unseen(one, bias, y, adds)
    sizes = one.images, one.groups, one.rows, one.channels, one.cells, one.pixels
    panel, tiles = conv_plan.panel(y.itemsize), -(-one.rows // ROWS)
    panels = [-(-one.images * gather.pixels // panel) for gather in one.gathers]
    most = max(panels, default=0)
    by_rows = most < FEW_PANELS and one.groups * tiles > 1
    count = one.groups * tiles if by_rows else most

    def task(first: int, last: int) -> int:
        strange = 0
        for gather, all_panels in zip(one.gathers, panels, strict=True):
            some = conv_plan.blocks(y.itemsize, one.rows, one.channels, len(gather.places), all_panels)
            share: tuple[int, ...] = 0, one.groups * one.rows, first * all_panels // count, last * all_panels // count
            if by_rows:
                low, high = (tile // tiles * one.rows + min(one.rows, tile % tiles * ROWS) for tile in (first, last))
                share = low, high, 0, all_panels
            k = some[0] * some[1]
            cells = k * (some[2] + some[3] * panel) + 4 * BYTES + ROWS * panel
            work, lists = room.get(cells, y.dtype, some[3] * (3 * panel + 2) + 3 * some[1] * panel)
            args = gather.axes, gather.out_axes, gather.places, one.weight, sizes, some, (*share, adds)
            strange |= int(products(x, w, y, bias, work, lists, *args))
        return strange

    return shared(task, count, one.work)


def multiply_planes(one: Pass, x: Array, w: Array, bias: Array, y: Array, adds: bool) -> int:
    fill_unseen(one, bias, y, adds)
    sizes = one.images, one.groups, one.cells, one.pixels, one.taps
    weight = np.concatenate([w, np.zeros(PLANES * one.taps, w.dtype)])

    def task(first: int, last: int) -> int:
        strange = 0
        for gather in one.gathers:
            run = min(gather.pixels, conv_plan.run_of(len(gather.places)))
            work, lists = room.get(2 * PLANES * BYTES, y.dtype, 3 * run * (len(gather.places) + 1))
            args = gather.own_axes, gather.move, gather.out_axes[2], gather.places, sizes, run, (first, last, adds)
            strange |= int(depthwise(x, weight, y, bias, work, lists, *args))
        return strange

    return shared(task, one.images * -(-one.groups // PLANES), PLANE_WORK * one.work)


def sum_planes(one: Pass, x: Array, g: Array, bias: Array, gw: Array, adds: bool) -> int:
    (gather,), some = one.gathers, conv_plan.run_of(one.taps)
    sizes = one.images, one.groups, one.cells, one.pixels, one.taps

    def task(first: int, last: int) -> int:
        work, lists = room.get(2 * PLANES * BYTES, gw.dtype, 3 * min(some, one.pixels) * (one.taps + 1))
        start, end = (min(one.groups, four * PLANES) * one.taps for four in (first, last))
        gw[start:end] = 0
        depthwise_weight(x, g, gw, work, lists, gather.own_axes, gather.move, sizes, some, (first, last))
        return int(any_strange(gw, start, end))

    return shared(task, -(-one.groups // PLANES), PLANE_WORK * one.work)


def sum_pixels(one: Pass, x: Array, g: Array, bias: Array, gw: Array, adds: bool) -> int:
    (gather,), panel = one.gathers, conv_plan.panel(gw.itemsize)
    sizes = one.images, one.groups, one.rows, one.channels, one.cells, one.pixels
    lanes = BYTES // gw.itemsize
    columns = -(-one.rows // lanes)
    by_rows = one.groups * columns % 2 == 0 or one.groups * columns >= 8 or one.channels < 2
    pixels = min(conv_plan.STEPS, one.images * one.pixels)
    some = min(one.taps, conv_plan.STEPS), min(-(-one.rows // panel), 8) * panel, pixels

    def task(first: int, last: int) -> int:
        share = 0, one.groups * one.rows, first, last
        if by_rows:
            low, high = (i // columns * one.rows + min(one.rows, i % columns * lanes) for i in (first, last))
            share = low, high, 0, one.channels
        cells = some[1] * pixels + ROWS * (pixels + lanes) + lanes + 2 * ROWS * panel
        work, lists = room.get(cells, gw.dtype, 3 * some[0] * pixels)
        weight_products(x, g, gw, work, lists, gather.axes, sizes, some, share)
        return 0

    shared(task, one.groups * columns if by_rows else one.channels, one.work)
    return int(any_strange(gw, 0, gw.size))


DEPTHWISE = Way("depthwise", may_list_planes, multiply_planes)
PRODUCTS = Way("products", always, multiply)
DEPTHWISE_WEIGHT = Way("depthwise_weight", may_list_planes, sum_planes)
WEIGHT_PRODUCTS = Way("weight_products", always, sum_pixels)
