"""Norms whose powers are products (`kernels`), of NumPy arrays: choice of a kernel, and the planes that are strange.

A plane is strange if a sum in it is not finite, or is so small that powers of its cells may have lost something. Of float64
cells, such a plane is multiplied by a power of two near 1 ÷ its greatest magnitude, and done again; if it is strange even so,
it is done window by window. Whether it is follows from its own cells.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import numpy as np

from windowgrad.kernels.arrays import Array
from windowgrad.kernels.pool.layout import Layout, laid_out
from windowgrad.kernels.pool.lp.cells import scales_of
from windowgrad.kernels.pool.lp.folds import Told
from windowgrad.kernels.pool.lp.kernels import KERNELS, by_rows, is_direct, over_planes
from windowgrad.kernels.pool.lp.powers import POWERS
from windowgrad.kernels.pool.lp.windows import window_norms
from windowgrad.kernels.pool.mean.runs import piece_of_runs
from windowgrad.kernels.pool.packed import packed
from windowgrad.kernels.pool.plan import Plan
from windowgrad.kernels.runtime import threads
from windowgrad.params import LpParams

WORK = 2
"""A cell takes as long as so many that are only moved."""

LEAST = 1e-250
"""Powers of float64 cells that were lost, 10⁻³⁰⁸ or less, are nothing beside sums above this."""

AS_IT_IS = Told(1.0, 1.0, LEAST)

NONE = np.empty(0, np.bool_)

FEWEST = 4
"""The fewest channels that are worth a kernel of their own."""


def is_product(params: LpParams) -> bool:
    return params.norm_type in POWERS and params.order == 1


def norms(p: int, plan: Plan, planes: int, x: Array, y: Array) -> None:
    """y = the norms of all planes, which are of one dtype, flat."""
    kernel, given, count = over_planes(p, plan, planes, x.itemsize)
    strange = np.zeros(planes, np.bool_)
    if threads.over(kernel, (x, y, strange, AS_IT_IS, *given), count, WORK * x.nbytes):
        settle(p, plan, x, y, strange)


@np.errstate(all="ignore")
def settle(p: int, plan: Plan, x: Array, y: Array, strange: Array) -> None:
    """The planes that are strange, again."""
    cells, outputs, numbers = x.reshape(len(strange), -1), y.reshape(len(strange), -1), np.flatnonzero(strange)

    def again(first: int, last: int) -> None:
        for number in numbers[first:last]:
            settle_plane(p, plan, cells[number], outputs[number])

    threads.run(again, len(numbers), WORK * x.nbytes * len(numbers) // len(strange))


@np.errstate(all="ignore")
def settle_plane(p: int, plan: Plan, x: Array, y: Array) -> None:
    scale = float(np.clip(scales_of(x, 1, False)[0], 2.0**-1000, 2.0**1000))
    scaled = [Told(scale, 1 / scale, LEAST)] if x.dtype == np.float64 and POWERS[p].least else []
    for told in (AS_IT_IS, *scaled):  # as it is, for it may have been strange only beside others
        if not by_rows(p, plan)(x, y, np.zeros(1, np.bool_), told, plan.packed, 0, plan.pieces):
            return
    window_norms(x, y, float(p), plan.packed)


# --- other layouts -----------------------------------------------------------------------------------------------


def run_layout(params: LpParams, x: Array) -> Layout | None:
    """The layout of channels last, if there is a kernel for it."""
    layout = laid_out(params, x, "alone")
    return layout if layout.last and layout.channels >= FEWEST and is_direct(layout.plan) else None


def over_runs(p: int, layout: Layout) -> tuple[Any, tuple[Any, ...], int]:
    """The kernel for channels last, as `over_planes`."""
    piece, pieces = piece_of_runs(layout.plan, layout.channels)
    given = layout.plan.packed, layout.channels, piece
    return KERNELS[p].runs, given, layout.planes * layout.plan.outer * pieces


def packed_apart(plan: Plan, rank: int, x: Array) -> Array | None:
    """The plan for planes whose rows stand apart in memory, and planes too, all alike; None if they do not stand so."""
    steps = [stride // x.itemsize for stride in x.strides]
    if x.ndim < 2 or rank < 2 or x.strides[-1] != x.itemsize or min(steps) <= 0 or any(s % x.itemsize for s in x.strides):
        return None
    lead = x.ndim - rank
    axes = [axis for axis in range(lead) if x.shape[axis] > 1]
    if any(steps[a] != steps[b] * x.shape[b] for a, b in pairwise(axes)):
        return None
    sides = x.shape[lead:-1]
    starts = np.add.reduce([i * s for i, s in zip(np.indices(sides), steps[lead:-1], strict=True)]).reshape(-1)
    plane = steps[axes[-1]] if axes else math.prod(x.shape) + steps[lead] * x.shape[lead]
    return packed(plan.line, plan.outer, plane, plan.piece, plan.ptr, starts[plan.rows // plan.width], plan.start, plan.count)
