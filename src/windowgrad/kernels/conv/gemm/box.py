"""Boxes: cells of a plane copied once, with zeros between rows, so that each tap is a load from elsewhere (`layout`).

Of several images in a box, panels may begin anew with each (`box_runs`): 16 images of 64 channels, 3×3 on 56×56, take 0.99 of
the time, with a residual 0.98.

Measured and rejected: a box that is as wide as the grid of pixels, of which no lane is lost, and loads under masks where a tap
meets the padding. The loop of products takes 1.06 times as long, which is more than the lanes do.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from windowgrad.kernels.conv import plan
from windowgrad.kernels.conv.gemm.times import PIECE, pack_time
from windowgrad.kernels.conv.plan import Gather, Shape
from windowgrad.kernels.conv.shapes import Pass
from windowgrad.kernels.vector.registers import VECTORS


class Box(NamedTuple):
    """Boxes for the pixels of a gather: the sides of the box, phases of the stride, and for each tap its phase and shift."""

    grid: Shape
    phases: tuple[Shape, ...]
    taps: tuple[tuple[int, int], ...]
    pixels: int
    """Of an image, from the first to the last."""
    lead: int
    halo: int


def box_of(gather: Gather) -> Box:
    """Sides are long enough for the zeros that a tap meets before and after a row; both are the same zeros."""
    grid, size, step, table = (a.tolist() for a in gather.own_axes)
    rank = len(grid)
    taps = [table[i : i + rank] for i in range(0, len(table), rank)]
    sides = []
    for axis in range(rank):
        side = grid[axis]
        for tap in taps:
            shift, phase = divmod(tap[axis], step[axis])
            cells = -(-(size[axis] - phase) // step[axis])
            side = max(side, cells, grid[axis] + shift, cells - shift)
        sides.append(side)
    strides = plan.strides(tuple(sides))
    phases = tuple(dict.fromkeys(tuple(t % s for t, s in zip(tap, step, strict=True)) for tap in taps))
    shifts = [sum(t // s * n for t, s, n in zip(tap, step, strides, strict=True)) for tap in taps]
    places = [phases.index(tuple(t % s for t, s in zip(tap, step, strict=True))) for tap in taps]
    last = sum((n - 1) * s for n, s in zip(grid, strides, strict=True))
    lead = max(0, -min(shifts))
    return Box(
        tuple(sides),
        phases,
        tuple(zip(places, shifts, strict=True)),
        last + 1,
        lead,
        lead + max(0, *shifts),
    )


def panels_met(gather: Gather, box: Box, images: int, length: int) -> float:
    """How many panels of pixels in a box have a real one, about; the others are jumped over.

    Along the last two axes real pixels follow each other with small gaps; between one such slice and the next, gaps are large.
    """
    grid = [1, *gather.own_axes[0].tolist()]
    slices, reach = images * math.prod(grid[:-2]), (grid[-2] - 1) * box.grid[-1] + grid[-1]
    return min(box_pixels(box, images) / length, float(slices * (reach / length + 1)))


def box_pixels(box: Box, images: int) -> int:
    """The pixels of all images in one run."""
    return (images - 1) * math.prod(box.grid) + box.pixels


def box_runs(box: Box, images: int, length: int, some_panels: int) -> int:
    """Each image is a run of its own where its panels need no more cells than it has: then none has the lanes between two of
    them, a row of the box and more. It must have as many panels as are taken at a time, or more boxes would be copied. Where
    images are two panels apart, whole panels are jumped over anyway."""
    panels, between = -(-box.pixels // length), math.prod(box.grid) - box.pixels
    return images if panels * length - box.pixels <= between < 2 * length and panels >= some_panels else 1


def is_boxed(one: Pass, gather: Gather, box: Box, budget: int, length: int) -> bool:
    """Whether a box takes less time than packing: fewer copies, but more lanes. `budget`: cells for all boxes of a channel."""
    taps, boxes = len(gather.places), len(box.phases)
    if taps > plan.STEPS or boxes * (2 * box.halo + length) > budget:
        return False
    panels, (all_panels, copying) = one.images * gather.pixels / length, box_copies(one, gather, box, budget, length)
    rows = VECTORS * max(one.rows, 4 / VECTORS)
    return all_panels * (rows + copying) < panels * (rows + pack_time(gather, length))


def box_copies(one: Pass, gather: Gather, box: Box, budget: int, length: int) -> tuple[float, float]:
    """How many panels of a box are computed, about, and how long copying each takes for each k."""
    taps, boxes, all_panels = len(gather.places), len(box.phases), panels_met(gather, box, one.images, length)
    some = min(all_panels, (budget / boxes - box.halo) / length)
    return all_panels, PIECE * (VECTORS + length / box.grid[-1]) * boxes / taps * (1 + box.halo / length / some)
