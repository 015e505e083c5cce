"""The gradient of windows of any kind: each output's gradient is added to the cell that won it, window after window.

For what `winner_codes` does not say that it `gathers`: large windows, bins, windows far apart. A strip of a plane at a time
(`winner_strips`): it is cleared, then all outputs that see it are looked at, and those that were won by a cell of the strip
are added there while it is in the nearest caches.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from windowgrad.caches import keep
from windowgrad.geometry import Geometry
from windowgrad.kernels.pool.max import winner_strips
from windowgrad.kernels.pool.max.winner_codes import Array, channel_axis, codes_of, outer_sum, pitches
from windowgrad.kernels.pool.max.winner_strips import input_strips, strip_of
from windowgrad.kernels.pool.plan import plan
from windowgrad.kernels.pool.row_pieces import clear
from windowgrad.kernels.runtime.jit import helper, kernel
from windowgrad.kernels.vector.ops import address, later

HEAD = 7
"""Numbers before the lists."""


def scatter_plan(geometry: Geometry, spatial: tuple[int, ...], channels: int) -> Array:
    limits = winner_strips.UNCUT, winner_strips.SPANS
    return kept(codes_of(geometry, spatial).size, geometry, spatial, channels, *limits)


def made(geometry: Geometry, spatial: tuple[int, ...], channels: int, uncut: int, spans: int) -> Array:
    """HEAD numbers, where the windows of each row and of each column begin, how far from there each tap is, and the strips."""
    codes = codes_of(geometry, spatial)
    p = plan(geometry, spatial)
    axes = [*codes.axes, *([channel_axis(channels)] if channels > 1 else [])]
    sizes = pitches([axis.n for axis in axes])
    strips = input_strips(p, spatial, uncut // channels, spans)
    width = p.width * channels
    if codes.are_places:
        rows, columns, offsets = np.zeros(p.outer, dtype=np.int64), np.zeros(p.out, dtype=np.int64), np.zeros(0, dtype=np.int64)
    else:
        begins = [axis.first * pitch for axis, pitch in zip(axes, sizes, strict=True)]
        rows, columns = outer_sum(begins[: len(spatial) - 1]), outer_sum(begins[len(spatial) - 1 :])
        offsets = outer_sum([np.arange(axis.taps) * axis.step * pitch for axis, pitch in zip(axes, sizes, strict=True)])
    head = [len(rows), len(columns), width, p.plane_in * channels, codes.none, len(offsets), len(strips)]
    return np.concatenate([head, rows, columns, offsets, strips.ravel()]).astype(np.int64)


kept = keep(made)


@helper
def scatter_row(codes: Any, g: Any, at: int, out: int, cells: Any, own: int, end: int, begin: int, line: Any) -> None:
    """The gradients of a row of outputs to their winners from `own` to `end`."""
    for j in range(out):
        code = np.int64(codes[at + j])
        if code != line.none:
            place = begin + line.begins[j] + line.offsets[code]
            if own <= place < end:
                cells[place] += g[at + j]


@helper
def scatter_places(codes: Any, g: Any, at: int, out: int, cells: Any, own: int, end: int) -> None:
    """The same, where codes are places."""
    for j in range(out):
        place = np.int64(codes[at + j])
        if own <= place < end:
            cells[place] += g[at + j]


class Line(NamedTuple):
    """Where the windows of a row begin, how far from there each tap is, and the code for no winner."""

    begins: Any
    offsets: Any
    none: int


@kernel
def winner_scatter(codes: Any, g: Any, gx: Any, plan: Any, first: int, last: int) -> None:
    """gx = each gradient at its winner; strips `first` to `last` of all planes."""
    head = address(plan)
    rows, out, width, plane, taps, count = head[0], head[1], head[2], head[3], head[5], head[6]
    row_begins = later(head, HEAD)
    begins = later(row_begins, rows)
    line = Line(begins, later(begins, out), head[4])
    strips = later(line.offsets, taps)
    codes, g, gx = address(codes), address(g), address(gx)
    for job in range(first, last):
        p, strip = job // count, strip_of(strips, job % count)
        cells, own, end = later(gx, p * plane), strip.first * width, strip.last * width
        clear(cells, own, end)
        for row in range(strip.low, strip.high):
            at = (p * rows + row) * out
            if taps > 0:
                scatter_row(codes, g, at, out, cells, own, end, row_begins[row], line)
            else:
                scatter_places(codes, g, at, out, cells, own, end)
