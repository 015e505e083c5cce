"""The gradient of windows that do not overlap and have two cells side by side along the row: 2×2 with a stride of 2.

Chosen by `winner_codes.are_pairs`. Every cell is a tap of one window at most, so there is nothing to add up: a row of cells is
one row of gradients, each where its code is the number of the one or the other tap, interleaved.

    codes       2 0 1 3          cells of the first row of windows: taps 0 and 1      . g g . . g . .
    gradient    g g g g          cells of the second: taps 2 and 3                    g . . . . . . g

A row of cells at a time, straight from memory to memory: `winner_gather` keeps sums in a buffer between, and took twice as long
on planes of 27×27.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import types
from numba.extending import intrinsic

from windowgrad.caches import keep
from windowgrad.geometry import Geometry
from windowgrad.kernels.pool.max.winner_codes import Array, codes_of, outer_sum, pitches
from windowgrad.kernels.pool.row_pieces import clear
from windowgrad.kernels.runtime.jit import helper, unrolled_kernel
from windowgrad.kernels.runtime.last_cache import least_past
from windowgrad.kernels.vector.half import cells
from windowgrad.kernels.vector.loops import Emitter
from windowgrad.kernels.vector.ops import address, lanes, later
from windowgrad.kernels.vector.past import fills_lines, put_past, settled
from windowgrad.kernels.vector.types import Vec, as_held, constant, lane_order, llvm, read, spread

HEAD = 6
"""Numbers before the lists."""


def pair_plan(geometry: Geometry, spatial: tuple[int, ...]) -> Array:
    """(rows of cells, cells of a row, outputs of a row, outputs, padding before rows, from how many bytes on gradients are
    written past the caches), outputs and first tap of each row.
    """
    return kept(math.prod(spatial[:-1]), geometry, spatial)


def made(geometry: Geometry, spatial: tuple[int, ...]) -> Array:
    *outer, last = axes = codes_of(geometry, spatial).axes
    outputs, taps, nobody = [], [], []
    for axis, out, name in zip(outer, pitches([a.out for a in axes]), pitches([a.taps for a in axes]), strict=False):
        cell = np.arange(axis.n)
        window, tap = np.divmod(cell + axis.before, axis.stride)
        nobody.append((window >= axis.out) | (tap % axis.step != 0) | (tap // axis.step >= axis.taps))
        outputs.append(window * out)
        taps.append(tap // axis.step * name)
    rows = np.where(outer_sum(nobody) > 0, -1, outer_sum(outputs))
    head = [len(rows), last.n, last.out, math.prod(a.out for a in axes), last.before, least_past()]
    return np.concatenate([head, rows, outer_sum(taps)]).astype(np.int64)


kept = keep(made)


def expanding(double: int, half: int, past: bool = False) -> Any:
    """expand(codes, g, gx, tap, pairs): the cells of so many windows, at least as many as are expanded at a time.

    Those are the lanes of a vector, or twice or half of them. The last ones are expanded together with some before them. Past
    the caches, the cells of as many windows as are expanded at a time fill a line, and pairs are a multiple of them.
    """

    @intrinsic
    def expand(typing: Any, codes: Any, g: Any, gx: Any, tap: Any, pairs: Any) -> Any:
        def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            e = Emitter(context, builder, gx.dtype)
            n = e.n * double // half
            target, tap, pairs, part = (gx, args[2]), args[3], args[4], Vec(e.v.dtype, n)
            few = Vec(types.Integer.from_bitwidth(codes.dtype.bitwidth, True), n)
            names = [spread(builder, builder.trunc(e.add(tap, side), llvm(few).element), n) for side in range(2)]

            def store(sides: list[Any], j: Any) -> None:
                for first in (0, n):
                    mixed = builder.shuffle_vector(*sides, lane_order([i // 2 + n * (i % 2) for i in range(first, first + n)]))
                    mixed, held = as_held(builder, gx, mixed, part)
                    builder.store(mixed, e.place(target, e.add(j, j, first), held)).align = held.dtype.bitwidth // 8

            def store_line(sides: list[Any], j: Any) -> None:
                mixed = builder.shuffle_vector(*sides, lane_order([i // 2 + n * (i % 2) for i in range(2 * n)]))
                mixed, line = as_held(builder, gx, mixed, Vec(e.v.dtype, 2 * n))
                put_past(builder, mixed, e.place(target, e.add(j, j), line), line)

            with e.whole_steps(pairs, n) as j:
                some = read(context, builder, codes, args[0], j, few)
                paid = builder.fadd(constant(part, 0.0), read(context, builder, g, args[1], j, part))
                sides = [builder.select(builder.icmp_signed("==", some, name), paid, constant(part, 0.0)) for name in names]
                (store_line if past else store)(sides, j)
            return context.get_dummy_value()

        index = types.intp
        return types.void(codes, g, gx, index, index), emit

    return expand


expand_many, expand_some, expand_few = expanding(2, 1), expanding(1, 1), expanding(1, 2)
expand_past = expanding(1, 1, past=True)


@helper
def expand_row(codes: Any, g: Any, gx: Any, tap: int, out: int, width: int) -> None:
    """A row of cells, of which `width` are in the array."""
    n, pairs = lanes(gx), min(out, width // 2)
    if pairs >= 2 * n:
        expand_many(codes, g, gx, tap, pairs)
    elif pairs >= n:
        expand_some(codes, g, gx, tap, pairs)
    elif 2 * pairs >= n:
        expand_few(codes, g, gx, tap, pairs)
    else:
        pairs = 0
    for cell in range(2 * pairs, width):
        gx[cell] = 0
        if cell // 2 < out and codes[cell // 2] == tap + cell % 2:
            gx[cell] += g[cell // 2]


@unrolled_kernel
def winner_pairs(codes: Any, g: Any, gx: Any, plan: Any, first: int, last: int) -> None:
    """gx = each gradient at its winner; rows of cells `first` to `last` of all planes."""
    head, size = address(plan), gx.nbytes
    rows, width, out, before = head[0], head[1], head[2], head[4]
    outputs = later(head, HEAD)
    taps = later(outputs, rows)
    codes, g, gx = address(codes), cells(g), cells(gx)
    past = size >= head[5] and before == 0 and width == 2 * out and fills_lines(gx, width)
    plane, i = first // rows, first % rows
    for row in range(first, last):
        if outputs[i] < 0:
            clear(gx, row * width, row * width + width)
        else:
            at = plane * head[3] + outputs[i]
            some, more, begin = later(codes, at), later(g, at), later(gx, row * width)
            if before == 1:  # the first cell is the second of its window
                begin[0] = 0
                if some[0] == taps[i] + 1:
                    begin[0] += more[0]
            if past:
                expand_past(some, more, begin, taps[i], out)
            else:
                expand_row(
                    later(some, before), later(more, before), later(begin, before), taps[i], out - before, width - before
                )
        i += 1
        if i == rows:
            plane, i = plane + 1, 0
    if past:
        settled()
