"""How a row stands in the memory of `winner_rows`, and where its taps are: what follows from the windows along it alone."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from windowgrad.caches import keep
from windowgrad.kernels.pool.plan import Array, Plan

Line = tuple[int, int, int, int, int, int, int]


class Layout(NamedTuple):
    """The arguments of the kernels that reduce rows first, in their order.

    `line` is (width, out, taps, stride, before, step, run), in numbers of the row but for taps and stride; where channels stand
    last, a cell is a run of them. `sizes` is (pitch, length, slack, part): the numbers that a row of
    outputs takes, those of one phase of a padded row, how far beside its windows a row is looked at when it is spread, and
    those of one phase of a row of the gradient. All are whole vectors, with room for what runs past the end.
    """

    line: Line
    sizes: tuple[int, int, int, int]
    offset: Array
    """Where the cells of each tap start in a row that is split into phases."""
    name: Array
    back_phase: Array
    """The cells of phase p can be the taps back_name[back_phase[p]:back_phase[p + 1]] …"""
    back_offset: Array
    """… of the windows that stand so far from them."""
    back_name: Array
    edges: Array
    """The windows whose first tap is no cell, …"""
    initial: Array
    """… and which tap of theirs is the first that is one; −1 if none is."""


def layout(p: Plan, lanes: int) -> Layout:
    line = p.width, p.out, p.kernel, p.stride, p.before, p.step, p.run
    return kept(p.out, line, lanes)


def made(line: Line, lanes: int) -> Layout:
    taps, stride, run = line[2], line[3], line[6]
    width, out, before, step = line[0] // run, line[1] // run, line[4] // run, line[5] // run  # in cells

    def whole(cells: int) -> int:
        return -(-cells // lanes) * lanes

    length = whole(max(before + width, (out - 1) * stride + (taps - 1) * step + 1) // stride * run + run) + 2 * lanes
    slack = whole(((taps - 1) * step + before + width) // stride * run) + 2 * lanes
    name = np.arange(taps, dtype=np.int64)
    back = [[t for t in range(taps) if (phase + before - t * step) % stride == 0] for phase in range(stride)]
    back_name = np.array([t for entry in back for t in entry], dtype=np.int64)
    phases = np.repeat(np.arange(stride), [len(entry) for entry in back])
    first = np.arange(out) * stride - before  # where tap 0 of each window stands
    skipped = np.maximum(0, -(first // step))
    skipped[(skipped >= taps) | (first + skipped * step >= width)] = -1
    skipped = np.repeat(skipped, run)
    edges = np.flatnonzero(skipped)
    return Layout(
        line,
        (whole(out * run), length, slack, whole(-(-width // stride) * run)),
        name * step % stride * length + name * step // stride * run,
        name,
        np.cumsum([0, *map(len, back)], dtype=np.int64),
        (phases + before - back_name * step) // stride * run,
        back_name,
        edges,
        skipped[edges],
    )


kept = keep(made)
