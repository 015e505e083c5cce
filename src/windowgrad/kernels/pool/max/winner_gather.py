"""The gradient of small windows that are one or two cells apart: each cell adds up the outputs that it won, by vectors.

For what `winner_codes` says that it `gathers`. A cell can be a tap of a few windows only, which stand at fixed distances from
it: `entries` of (distance in the codes, distance in the gradient, number of the tap), in the order of the windows.

    codes       . . . 4 . . . 3 . . .        cell c is tap 4 of this window and tap 3 of the next: the sum of the gradients
    gradient    . . . g . . . g . . .        whose code is that number
    cells             c

No edge needs a test: an entry that reaches into another row or another plane finds the code of a cell that is not c, because a
window's place and its tap give the place of one cell only. So each row of cells is one run, all planes are one array, and a
thread owns the rows that it writes. Near both ends of the arrays, entries are looked at one by one.

Which entries a row has depends on where it stands between windows: its kind. With a stride of 2 along the row, even and odd
cells are computed one after the other and interleaved.
"""

from __future__ import annotations

import math
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from numba import types
from numba.extending import intrinsic

from windowgrad.caches import keep
from windowgrad.geometry import Geometry
from windowgrad.kernels.pool.max.winner_codes import Array, Axis, channel_axis, codes_of, outer_sum, pitches
from windowgrad.kernels.pool.row_pieces import clear
from windowgrad.kernels.runtime.jit import helper, kernel
from windowgrad.kernels.vector.loops import Emitter
from windowgrad.kernels.vector.ops import address, alive, lanes, later
from windowgrad.kernels.vector.types import Vec, constant, llvm, read, spread

AT_ONCE = 4
"""Vectors of cells that are computed together."""

LONG = 1024
"""Rows are joined until they have so many cells."""

HEAD = 11
"""Numbers before the lists."""


class Row(NamedTuple):
    """Where the row of cells begins in the codes, in the gradient and in gx, and its first entry of each phase."""

    code: int
    gradient: int
    cell: int
    entries: Any


class Lists(NamedTuple):
    """The entries."""

    code: Any
    gradient: Any
    name: Any


# --- the plan ----------------------------------------------------------------------------------------------------


def gather_plan(geometry: Geometry, spatial: tuple[int, ...], channels: int) -> Array:
    """HEAD numbers, for each row its kind and its places, for each kind and phase its first entry, and the entries."""
    return kept(math.prod(spatial[:-1]), geometry, spatial, channels)


def made(geometry: Geometry, spatial: tuple[int, ...], channels: int) -> Array:
    axes = list(codes_of(geometry, spatial).axes)
    axes += [channel_axis(channels)] if channels > 1 else []
    names, grids, outs, sizes = (pitches([getattr(a, field) for a in axes]) for field in ("taps", "grid", "out", "n"))
    joined = len(axes) - 1
    while joined > 0 and is_flat(axes[joined]) and axes[joined - 1].stride == 1 and sizes[joined] * axes[joined].n < LONG:
        joined -= 1
    outer, strides = axes[:joined], [a.stride for a in axes[:joined]]
    stride, width = axes[-1].stride, sizes[joined] * axes[joined].n
    lists = [phases(a) for a in axes[:-1]]
    entries, ptr = [], [0]
    for kind in product(*map(range, strides)):
        for last in phases(axes[-1]):
            found = product(*(lists[a][kind[a] if a < joined else 0] for a in range(len(lists))), last)
            entries += [
                (
                    sum(d * p for (d, _), p in zip(each, grids, strict=True)),
                    sum(d * p for (d, _), p in zip(each, outs, strict=True)),
                    sum(t * p for (_, t), p in zip(each, names, strict=True)),
                )
                for each in found
            ]
            ptr.append(len(entries))
    i = [np.arange(a.n) for a in outer]
    kinds = outer_sum([c % a.stride * p for c, a, p in zip(i, outer, pitches(strides), strict=True)])
    nobody = outer_sum([(c // a.stride >= a.grid).astype(np.int64) for c, a in zip(i, outer, strict=True)]) > 0
    places = [outer_sum([c // a.stride * p for c, a, p in zip(i, outer, each, strict=False)]) for each in (grids, outs)]
    by_column = np.array(entries, dtype=np.int64).reshape(-1, 3).T
    low, high = by_column.min(axis=1, initial=0), by_column.max(axis=1, initial=0)
    run = min(-(-width // stride), axes[-1].grid) if joined == len(axes) - 1 else width
    planes = grids[0] * axes[0].grid, outs[0] * axes[0].out
    head = [len(kinds), width, stride, run, *planes, len(entries), low[0], high[0], low[1], high[1]]
    return np.concatenate([head, np.where(nobody, -1, kinds), *places, ptr, *by_column]).astype(np.int64)


kept = keep(made)


def is_flat(axis: Axis) -> bool:
    """Whether neighbours on the axis before it are as far apart in all arrays."""
    return axis.stride == 1 and axis.n == axis.out == axis.grid


def phases(axis: Axis) -> list[list[tuple[int, int]]]:
    """For the cells of each phase, which windows may be theirs, counted from their own, and as which tap."""
    found = []
    for phase in range(axis.stride):
        taps = (t for t in reversed(range(axis.taps)) if (phase + axis.before - t * axis.step) % axis.stride == 0)
        found.append([((phase + axis.before - t * axis.step) // axis.stride, t) for t in taps])
    return found


# --- the kernel --------------------------------------------------------------------------------------------------


@intrinsic
def collect(typing: Any, codes: Any, g: Any, gx: Any, row: Any, lists: Any, stride: Any, run: Any, width: Any) -> Any:
    """A row of gx; all its entries lie in the arrays, with so many behind them as are read together."""

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        e = Emitter(context, builder, gx.dtype)
        target = (gx, args[2])
        at_code, at_gradient, at, entries = (builder.extract_value(args[3], field) for field in range(4))
        columns = [(lists.types[k], builder.extract_value(args[4], k)) for k in range(3)]
        stride, run, width = args[5:]
        few, names = Vec(codes.dtype, e.n), Vec(types.Integer.from_bitwidth(gx.dtype.bitwidth, True), e.n)
        pointers = (row.types[3], entries)

        def sums(j: Any, phase: Any, vectors: int) -> list[Any]:
            """What the cells j, j + 1, … of a phase have won."""
            totals = [e.variable(constant(e.v, 0.0)) for _ in range(vectors)]
            for total in totals:
                builder.store(constant(e.v, 0.0), total)
            with e.steps(e.cell(pointers, phase), e.cell(pointers, e.add(phase, 1)), e.int(1)) as entry:
                code, gradient, name = (e.cell(column, entry) for column in columns)
                wanted = spread(builder, builder.trunc(name, llvm(names).element) if e.n == 8 else name, e.n)
                code, gradient = e.add(at_code, code, j), e.add(at_gradient, gradient, j)
                for k, total in enumerate(totals):
                    some = read(context, builder, codes, args[0], e.add(code, k * e.n), few)
                    won = builder.icmp_signed("==", builder.zext(some, llvm(names)), wanted)
                    paid = builder.load(total)
                    more = builder.fadd(paid, e.load((g, args[1]), e.add(gradient, k * e.n)))
                    builder.store(builder.select(won, more, paid), total)
            return [builder.load(total) for total in totals]

        def put(j: Any, cells: Any) -> None:
            """So many of them as are in the row."""
            left = builder.sub(width, j)
            with builder.if_else(e.less(left, e.n), likely=False) as (last, whole):
                with last, builder.if_then(e.less(e.int(0), left)):
                    e.store_first(target, e.add(at, j), cells, left)
                with whole:
                    e.store(target, e.add(at, j), cells)

        def block(j: Any, vectors: int) -> None:
            with builder.if_else(e.equal(stride, 1)) as (one, two):
                with one:
                    for k, total in enumerate(sums(j, e.int(0), vectors)):
                        put(e.add(j, k * e.n), total)
                with two:
                    pairs = zip(sums(j, e.int(0), vectors), sums(j, e.int(1), vectors), strict=True)
                    for k, (even, odd) in enumerate(pairs):
                        for half in range(2):
                            order = [(half * e.n + lane) // 2 + e.n * (lane % 2) for lane in range(e.n)]
                            mixed = builder.shuffle_vector(even, odd, constant_order(order))
                            put(e.add(j, j, (2 * k + half) * e.n), mixed)

        start = e.variable(e.int(0))
        with e.steps(e.int(0), e.add(run, -e.n), e.int(AT_ONCE * e.n)) as j:
            block(j, AT_ONCE)
            builder.store(e.add(j, AT_ONCE * e.n), start)
        with e.steps(builder.load(start), run, e.int(e.n)) as j:
            block(j, 1)
        return context.get_dummy_value()

    whole = types.intp
    return types.void(codes, g, gx, row, lists, whole, whole, whole), emit


def constant_order(order: list[int]) -> Any:
    v = Vec(types.int32, len(order))
    made = constant(v, 0)
    made.constant = [made.type.element(lane) for lane in order]
    return made


@helper
def collect_slowly(codes: Any, g: Any, gx: Any, row: Any, lists: Any, stride: int, low: int, high: int, sizes: Any) -> None:
    """Cells `low` to `high` of a row, whose entries may lie outside."""
    for c in range(low, high):
        j, cell = c // stride, row.cell + c
        gx[cell] = 0
        for entry in range(row.entries[c % stride], row.entries[c % stride + 1]):
            code, gradient = row.code + j + lists.code[entry], row.gradient + j + lists.gradient[entry]
            if 0 <= code < sizes[0] and 0 <= gradient < sizes[1] and codes[code] == lists.name[entry]:
                gx[cell] += g[gradient]


@helper
def entries_inside(row: Any, lists: Any, stride: int, run: int, reach: int, sizes: Any, space: Any, some: Any) -> Any:
    """(low, high) and, in `some`, the entries of a row that lie in the arrays for any of its cells; for those from low to high,
    all of them do, with so many behind them as are read together. The first entries of each phase go to `space`."""
    low, high, count = 0, run, 0
    for phase in range(stride):
        space[phase] = count
        for entry in range(row.entries[phase], row.entries[phase + 1]):
            code, gradient = row.code + lists.code[entry], row.gradient + lists.gradient[entry]
            if code + run > 0 and gradient + run > 0 and code < sizes[0] and gradient < sizes[1]:
                low = max(low, -code, -gradient)
                high = min(high, sizes[0] - code - reach, sizes[1] - gradient - reach)
                some.code[count], some.gradient[count], some.name[count] = (
                    lists.code[entry],
                    lists.gradient[entry],
                    lists.name[entry],
                )
                count += 1
    space[stride] = count
    low = min(low, run)
    return low, max(low, high)


@helper
def near_end(
    codes: Any, g: Any, gx: Any, row: Any, lists: Any, stride: int, run: int, width: int, sizes: Any, some: Any, phases: Any
) -> None:
    """Part of a row near the ends of the arrays; `some` and `phases` have room for its entries."""
    low, high = entries_inside(row, lists, stride, run, AT_ONCE * lanes(gx), sizes, phases, some)
    part = Row(row.code + low, row.gradient + low, row.cell + low * stride, phases)
    collect(codes, g, gx, part, some, stride, high - low, min(width, high * stride) - low * stride)
    collect_slowly(codes, g, gx, row, lists, stride, 0, min(width, low * stride), sizes)
    collect_slowly(codes, g, gx, row, lists, stride, high * stride, width, sizes)


@kernel
def winner_gather(codes: Any, g: Any, gx: Any, plan: Any, first: int, last: int) -> None:
    """gx = each gradient at its winner; rows of cells `first` to `last` of all planes."""
    head = address(plan)
    rows, width, stride, run, count = head[0], head[1], head[2], head[3], head[6]
    kinds = later(head, HEAD)
    code_rows = later(kinds, rows)
    gradient_rows = later(code_rows, rows)
    ptr = later(gradient_rows, rows)
    column = later(head, len(plan) - 3 * count)
    lists, sizes, reach = (
        Lists(column, later(column, count), later(column, 2 * count)),
        (len(codes), len(g)),
        AT_ONCE * lanes(gx),
    )
    room = np.empty(3 * count + stride + 1, np.int64)
    few = address(room)
    some, phases = Lists(few, later(few, count), later(few, 2 * count)), later(few, 3 * count)
    codes, g, gx = address(codes), address(g), address(gx)
    plane, i, cell, full = first // rows, first % rows, first * width, min(run * stride, width)
    for _ in range(first, last):
        if kinds[i] < 0:
            clear(gx, cell, cell + width)
        else:
            row = Row(plane * head[4] + code_rows[i], plane * head[5] + gradient_rows[i], cell, later(ptr, kinds[i] * stride))
            inside = row.code + head[7] >= 0 and row.code + head[8] + run + reach <= sizes[0]
            if inside and row.gradient + head[9] >= 0 and row.gradient + head[10] + run + reach <= sizes[1]:
                collect(codes, g, gx, row, lists, stride, run, full)
            else:
                for start in range(0, run, 2 * reach):
                    part = Row(row.code + start, row.gradient + start, cell + start * stride, row.entries)
                    size = min(2 * reach, run - start)
                    near_end(
                        codes, g, gx, part, lists, stride, size, min(full - start * stride, size * stride), sizes, some, phases
                    )
            clear(gx, cell + full, cell + width)
        cell, i = cell + width, i + 1
        if i == rows:
            plane, i = plane + 1, 0
    alive(room)
