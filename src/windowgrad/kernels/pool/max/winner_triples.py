"""The gradient of windows of three cells along the row, two apart: each cell adds up the outputs near it that it won.

Chosen by `winner_codes.are_triples`, with the plan of `winner_near`: which rows of outputs see a row of cells, in the order of
the windows; so sums are those of `winner_scatter`, in the same order. Cells of a row stand in pairs. The first of a pair is the
middle tap of its own window, the second the last tap of that one and the first tap of the next one. Where rows have no padding
before them, their first cell is in no pair:

    windows   |0 1 2|                          codes       c d …      first cells     g where c is 1
                  |0 1 2|                      gradients   g h …      second cells    g where c is 2, and h where d is 0
    cells        [a b] . .

So, with padding, the stores of a row begin where it begins, and gradients that are larger than the caches are written past them
(`vector.past`). Measured, 3×3 with a stride of 2, padded, two threads: 1.15 ms on 32×64×112×112 (`winner_scatter` 2.4), 0.042
on one image (0.056); rows of 28 outputs take the same either way, rows of 14 take 1.25 times as long here, as the last pairs of
a row are masked. When pairs were a cell further on, and the first and last cells of each row were added one by one, all this
took 1.6 to 2.2 times as long.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba import types
from numba.extending import intrinsic

from windowgrad.kernels.pool.max.winner_near import COMMON, HEAD
from windowgrad.kernels.pool.row_pieces import clear
from windowgrad.kernels.runtime.jit import helper, unrolled_kernel
from windowgrad.kernels.vector.half import cells
from windowgrad.kernels.vector.loops import Emitter
from windowgrad.kernels.vector.ops import address, later
from windowgrad.kernels.vector.past import fills_lines, put, settled
from windowgrad.kernels.vector.types import (
    Vec,
    as_held,
    constant,
    first_lanes,
    lane_order,
    llvm,
    read,
    read_some,
    spread,
    write_some,
)

Both = tuple[Any, Any]
"""The sums of the first cells and of the second cells of pairs; or the masks of their own windows and of the next ones."""

TAPS = 3


@intrinsic
def collect(
    typing: Any, codes: Any, g: Any, gx: Any, outputs: Any, taps: Any, count: Any, out: Any, width: Any, past: Any
) -> Any:
    """gx[:width] = the sums of pairs of cells, which `count` rows of `out` outputs see, from outputs[k] and taps[k] on.

    Two vectors of pairs at a time; the last ones, which have no next window or too few cells, with masks.
    """

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        e = Emitter(context, builder, gx.dtype)
        n = 2 * e.n
        part, few = Vec(e.v.dtype, n), Vec(types.Integer.from_bitwidth(codes.dtype.bitwidth, True), n)
        zero, (count, out, width, past) = constant(part, 0.0), args[5:]

        def entry(k: Any) -> tuple[Any, list[Any]]:
            """Where it begins, and the names of its taps."""
            tap = e.cell((taps, args[4]), k)
            names = [builder.trunc(e.add(tap, t), llvm(few).element) for t in range(TAPS)]
            return e.cell((outputs, args[3]), k), [spread(builder, name, n) for name in names]

        def winning(place: Any, mask: Any) -> Callable[[Any, Any], Any]:
            """From (total, name of a tap) to the total and the gradients, from this output on, that the tap won."""
            if mask is None:
                code, paid = (read(context, builder, *a, place, v) for a, v in (((codes, args[0]), few), ((g, args[1]), part)))
            else:
                code = read_some(context, builder, codes, args[0], place, mask, constant(few, 0), few)
                paid = read_some(context, builder, g, args[1], place, mask, zero, part)

            def added(total: Any, name: Any) -> Any:
                won = builder.icmp_signed("==", code, name)
                won = won if mask is None else builder.and_(won, mask)
                return builder.select(won, builder.fadd(total, paid), total)

            return added

        def with_entry(totals: Both, at: Any, names: list[Any], masks: Both) -> Both:
            own, following = winning(at, masks[0]), winning(e.add(at, 1), masks[1])
            return own(totals[0], names[1]), following(own(totals[1], names[2]), names[0])

        def store(totals: Both, j: Any, whole: bool) -> None:
            for k in (0, n):
                mixed = builder.shuffle_vector(*totals, lane_order([i // 2 + n * (i % 2) for i in range(k, k + n)]))
                cell = e.add(e.mul(j, 2), k)
                mixed, held = as_held(builder, gx, mixed, part)
                place, left = e.place((gx, args[2]), cell, held), builder.sub(width, cell)
                if whole:
                    put(builder, mixed, place, held, past)
                    continue
                with builder.if_then(builder.icmp_signed(">=", left, e.int(n))):
                    put(builder, mixed, place, held, past)
                with builder.if_then(builder.and_(e.less(left, n), builder.icmp_signed(">", left, e.int(0)))):
                    write_some(builder, mixed, place, first_lanes(builder, held, left), held)

        def row(sums: Callable[[Any, Both], Both]) -> None:
            """First as many pairs at a time as have all their cells, windows and next windows."""
            following, pairs = builder.sub(out, e.int(1)), builder.sdiv(width, e.int(2))
            inside = builder.select(builder.icmp_signed("<", following, pairs), following, pairs)
            inside = e.mul(builder.sdiv(inside, e.int(n)), n)
            with e.steps(e.int(0), inside, e.int(n)) as j:
                store(sums(j, (None, None)), j, True)
            with e.steps(inside, builder.sdiv(e.add(width, 1), e.int(2)), e.int(n)) as j:
                masks = first_lanes(builder, part, builder.sub(out, j)), first_lanes(builder, part, builder.sub(following, j))
                store(sums(j, masks), j, False)

        def known(number: int) -> None:
            entries = [entry(e.int(k)) for k in range(number)]

            def sums(j: Any, masks: Both) -> Both:
                totals = zero, zero
                for at, names in entries:
                    totals = with_entry(totals, e.add(at, j), names, masks)
                return totals

            row(sums)

        def any_number() -> None:
            kept = e.variable(zero), e.variable(zero)

            def loaded() -> Both:
                return builder.load(kept[0]), builder.load(kept[1])

            def sums(j: Any, masks: Both) -> Both:
                for total in kept:
                    builder.store(zero, total)
                with e.steps(e.int(0), count, e.int(1)) as k:
                    at, names = entry(k)
                    for total, found in zip(kept, with_entry(loaded(), e.add(at, j), names, masks), strict=True):
                        builder.store(found, total)
                return loaded()

            row(sums)

        e.by_number(count, COMMON, known, any_number)
        return context.get_dummy_value()

    index = types.intp
    return types.void(codes, g, gx, outputs, taps, index, index, index, types.boolean), emit


@helper
def first_cell(codes: Any, g: Any, cells: Any, outputs: Any, taps: Any, count: int) -> None:
    """The first cell of a row without padding is the first tap of the first window."""
    cells[0] = 0
    for k in range(count):
        if codes[outputs[k]] == taps[k]:
            cells[0] += g[outputs[k]]


@unrolled_kernel
def winner_triples(codes: Any, g: Any, gx: Any, plan: Any, first: int, last: int) -> None:
    """gx = each gradient at its winner; rows of cells `first` to `last` of all planes."""
    head, size = address(plan), gx.nbytes
    rows, width, out, entries = head[0], head[1], head[2], head[5]
    ptr, alone = later(head, HEAD), 1 - head[4]
    outputs = later(ptr, rows + 1)
    taps = later(outputs, entries)
    codes, g, gx = address(codes), cells(g), cells(gx)
    past = size >= head[7] and alone == 0 and fills_lines(gx, width)
    plane, i = first // rows, first % rows
    for row in range(first, last):
        begin, some, more = later(gx, row * width), later(codes, plane * head[3]), later(g, plane * head[3])
        count, seers, names = ptr[i + 1] - ptr[i], later(outputs, ptr[i]), later(taps, ptr[i])
        if count == 0:
            clear(begin, 0, width)
        else:
            if alone:
                first_cell(some, more, begin, seers, names, count)
            collect(some, more, later(begin, alone), seers, names, count, out, width - alone, past)
        i += 1
        if i == rows:
            plane, i = plane + 1, 0
    if past:
        settled()
