"""Any geometry, by packed panels: when each kernel may be used, and how threads share it.

The kernels are in `products.py` and `weight.py`. Threads share panels of pixels; with few of them, or in the weight gradient,
rows of the output.
"""

from __future__ import annotations

from windowgrad.kernels.conv import plan
from windowgrad.kernels.conv.gemm.products import products
from windowgrad.kernels.conv.gemm.weight import weight_products
from windowgrad.kernels.conv.plan import Array
from windowgrad.kernels.conv.range_check import any_strange
from windowgrad.kernels.conv.shapes import Pass, Way, fill_unseen
from windowgrad.kernels.conv.share import room, shared
from windowgrad.kernels.vector.registers import ROWS, WIDE_BYTES

FEW_PANELS = 24
"""With fewer panels of pixels, threads share the rows."""
FEW_TILES = 4
"""Where so few tiles of rows use pixels that lie in order, they are read where they stand."""


# --- when --------------------------------------------------------------------------------------------------------


def always(one: Pass, itemsize: int) -> bool:
    """`products`, `weight_products`: every pass (see `Pass` for what that is)."""
    return True


# --- how ---------------------------------------------------------------------------------------------------------


def multiply(one: Pass, x: Array, w: Array, bias: Array, y: Array, adds: bool) -> int:
    fill_unseen(one, bias, y, adds)
    panel, tiles = plan.panel(y.itemsize), -(-one.rows // ROWS)
    panels = [-(-one.images * gather.pixels // panel) for gather in one.gathers]
    most = max(panels, default=0)
    by_rows = most < FEW_PANELS and one.groups * tiles > 1
    count = one.groups * tiles if by_rows else most

    def task(first: int, last: int) -> int:
        strange = 0
        for gather, all_panels in zip(one.gathers, panels, strict=True):
            some = plan.blocks(y.itemsize, one.rows, one.channels, len(gather.places), all_panels)
            share: tuple[int, ...] = 0, one.groups * one.rows, first * all_panels // count, last * all_panels // count
            if by_rows:
                low, high = (tile // tiles * one.rows + min(one.rows, tile % tiles * ROWS) for tile in (first, last))
                share = low, high, 0, all_panels
            k = some[0] * some[1]
            cells = k * (some[2] + some[3] * panel) + 4 * WIDE_BYTES + ROWS * panel
            scratch = room.get(cells, y.dtype, some[3] * (3 * panel + 2) + 3 * some[1] * panel)
            blocks = *some, gather.in_order and one.rows <= FEW_TILES * ROWS
            args = gather.axes, gather.out_axes, (gather.places, *one.weight), one.sizes, blocks, (*share, adds)
            strange |= int(products(x, w, y, bias, scratch, *args))
        return strange

    return shared(task, count, one.work)


def sum_pixels(one: Pass, x: Array, g: Array, bias: Array, gw: Array, adds: bool) -> int:
    (gather,), panel = one.gathers, plan.panel(gw.itemsize)
    lanes = WIDE_BYTES // gw.itemsize
    columns = -(-one.rows // lanes)
    by_rows = one.groups * columns % 2 == 0 or one.groups * columns >= 8 or one.channels < 2
    pixels = min(plan.STEPS, one.images * one.pixels)
    some = min(one.taps, plan.STEPS), min(-(-one.rows // panel), 8) * panel, pixels

    def task(first: int, last: int) -> int:
        share = 0, one.groups * one.rows, first, last
        if by_rows:
            low, high = (i // columns * one.rows + min(one.rows, i % columns * lanes) for i in (first, last))
            share = low, high, 0, one.channels
        cells = some[1] * pixels + ROWS * (pixels + lanes) + lanes + 2 * ROWS * panel
        scratch = room.get(cells, gw.dtype, 3 * some[0] * pixels)
        weight_products(x, g, gw, scratch, gather.axes, one.sizes, some, share)
        return 0

    shared(task, one.groups * columns if by_rows else one.channels, one.work)
    return int(any_strange(gw, 0, gw.size))


PRODUCTS = Way("products", always, multiply)
WEIGHT_PRODUCTS = Way("weight_products", always, sum_pixels)
