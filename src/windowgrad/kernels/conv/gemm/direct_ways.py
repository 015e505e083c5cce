"""Weight gradients of few pixels: when `direct.py` may be used, and how threads share it: panels of numbers or tiles."""

from __future__ import annotations

from typing import Any

import numpy as np

from windowgrad.kernels.conv import plan
from windowgrad.kernels.conv.gemm.direct import direct_products
from windowgrad.kernels.conv.gemm.ways import up_to
from windowgrad.kernels.conv.plan import Array
from windowgrad.kernels.conv.pointwise.ways import fits
from windowgrad.kernels.conv.shapes import Compute, Pass, Way
from windowgrad.kernels.conv.share import by_threads, helpers, parts_for, room, sharing
from windowgrad.kernels.vector.registers import ROWS, WIDE_BYTES

MANY = 4
"""Panels that are enough to share them rather than tiles, for which every thread packs all panels."""


def may_sum_direct(one: Pass, itemsize: int) -> bool:
    """`direct_products`: one image, tiles that cover the weight (see `fits`), sums that `weight_products` has in one block, and
    taps that are listed at once."""
    few = one.images == 1 and one.pixels <= plan.PIXELS and one.taps <= plan.PIXELS
    return few and fits(one.rows, one.channels * one.taps, itemsize)


def sums_few_pixels(one: Pass) -> bool:
    return one.pixels <= one.rows


def sum_direct(one: Pass, x: Array, g: Array, bias: Array, gw: Array, adds: bool) -> int:
    return ready_direct(one, gw.dtype, helpers(one.work))(x, g, bias, gw)


def ready_to_sum_direct(one: Pass, dtype: Any) -> Compute:
    return by_threads(one.work, lambda threads: ready_direct(one, dtype, threads))


def ready_direct(one: Pass, dtype: Any, threads: int) -> Compute:
    """`direct_products` on so many threads."""
    lanes, length, numbers = WIDE_BYTES // dtype.itemsize, plan.panel(dtype.itemsize), one.channels * one.taps
    tiles, panels = -(-one.rows // ROWS), -(-numbers // length)
    own, own_lists = up_to(one.pixels * length + length * (one.pixels + lanes) + lanes, lanes), 3 * one.taps * one.pixels
    by_panels = panels >= MANY
    count = parts_for(panels if by_panels else tiles, threads)
    start, none = sharing(direct_products, count, threads), np.zeros(one.rows, dtype)
    told = one.gathers[0].axes, one.sizes, (int(by_panels), tiles, panels, count, own, own_lists)

    def call(x: Array, g: Array, bias: Array, gw: Array) -> int:
        return start(x, g, gw, none, room.get(count * own, dtype, count * own_lists), *told)

    return call


DIRECT_WEIGHT = Way("direct_weight", may_sum_direct, sum_direct, sums_few_pixels, ready_to_sum_direct)
