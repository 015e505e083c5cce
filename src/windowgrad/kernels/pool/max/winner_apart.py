"""The gradient of windows that do not overlap where channels stand last: each output is handed out to the cells of its window.

Chosen by `winner_codes.are_apart`. Every cell is a tap of one window at most, so there is nothing to add up: a row of cells is
one row of gradients, each run of channels once for every tap along the row, where its code is the number of that tap.

    codes       | 0 3 1 2 |          cells of the first row of windows      | g . . . | . . g . |
    gradient    | g g g g |          cells of the second                    | . . . g | . g . . |

A row of cells at a time, straight from memory to memory; the plan is that of `winner_pairs`.

Measured, float32, two threads: 2×2 windows with a stride of 2 on 112×112×64 take 39 µs (`winner_near` 57), 8×8 windows on
4×96×96×64 70 (`winner_scatter` 138), 2×2×2 windows on 24×16×56×56×16 1.5 ms (4.0). Where the caches are passed by, both take
as long as memory.
"""

from __future__ import annotations

from typing import Any

from numba import types
from numba.extending import intrinsic

from windowgrad.kernels.pool.max.winner_pairs import HEAD
from windowgrad.kernels.pool.row_pieces import clear
from windowgrad.kernels.runtime.jit import kernel
from windowgrad.kernels.vector.half import cells
from windowgrad.kernels.vector.loops import Emitter
from windowgrad.kernels.vector.ops import address, later
from windowgrad.kernels.vector.past import fills_lines, put, settled
from windowgrad.kernels.vector.types import Vec, as_held, constant, llvm, read, spread

AHEAD = 1024
"""How many numbers before they are handed out the lines of gradients are asked for, where these are larger than the caches."""

COMMON = (2, 3)
"""Numbers of taps along a row that have a loop of their own."""


@intrinsic
def hand_out(typing: Any, codes: Any, g: Any, gx: Any, tap: Any, taps: Any, run: Any, past: Any) -> Any:
    """gx[t·run:] = the run of gradients where its code is `tap` + t, else 0, for t = 0, …, `taps` − 1.

    As many channels as a vector has lanes, or twice as many, are taken at a time; there are at least so many. Runs are written
    past the caches, and lines of gradients asked for ahead, if `past`; then they fill lines.
    """

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        e, target, (tap, taps, run, past) = Emitter(context, builder, gx.dtype), (gx, args[2]), args[3:7]
        code = types.Integer.from_bitwidth(codes.dtype.bitwidth, True)

        def name(t: Any, n: int) -> Any:
            return spread(builder, builder.trunc(e.add(tap, t), llvm(Vec(code, n)).element), n)

        def each(n: int, write: Any) -> None:
            """write(the place of tap t, the gradients that it won) for all taps, of n channels from c on."""
            part, few = Vec(e.v.dtype, n), Vec(code, n)

            def share(some: Any, paid: Any, t: Any, c: Any) -> None:
                won = builder.select(builder.icmp_signed("==", some, name(t, n)), paid, constant(part, 0.0))
                write(e.add(e.mul(run, t), c), won, part)

            def of(c: Any) -> tuple[Any, Any]:
                with builder.if_then(past, likely=False):
                    for source in ((codes, args[0]), (g, args[1])):
                        e.fetch(source, e.add(c, AHEAD))
                some = read(context, builder, codes, args[0], c, few)
                return some, builder.fadd(constant(part, 0.0), read(context, builder, g, args[1], c, part))

            def known(number: int) -> None:
                with e.whole_steps(run, n) as c:
                    some, paid = of(c)
                    for t in range(number):
                        share(some, paid, e.int(t), c)

            def any_number() -> None:
                with e.whole_steps(run, n) as c:
                    some, paid = of(c)
                    with e.steps(e.int(0), taps, e.int(1)) as t:
                        share(some, paid, t, c)

            e.by_number(taps, COMMON, known, any_number)

        def store(i: Any, won: Any, part: Vec) -> None:
            won, held = as_held(builder, gx, won, part)
            put(builder, won, e.place(target, i, held), held, past)

        with builder.if_else(e.less(run, 2 * e.n)) as (narrow, wide):
            with narrow:
                each(e.n, store)
            with wide:
                each(2 * e.n, store)
        return context.get_dummy_value()

    index = types.intp
    return types.void(codes, g, gx, index, index, index, types.boolean), emit


@kernel
def winner_apart(codes: Any, g: Any, gx: Any, plan: Any, run: int, taps: int, stride: int, first: int, last: int) -> None:
    """gx = each gradient at its winner; rows of cells `first` to `last` of all planes, `run` channels, as many as a vector has
    lanes or more. Windows have `taps` cells side by side along a row, `stride` cells apart.
    """
    head, size = address(plan), gx.nbytes
    rows, width, out, before = head[0], head[1], head[2], head[4]
    outputs = later(head, HEAD)
    names = later(outputs, rows)
    codes, g, gx = address(codes), cells(g), cells(gx)
    past = size >= head[5] and fills_lines(gx, run)
    plane, i = first // rows, first % rows
    for row in range(first, last):
        begin, done = row * width, 0
        if outputs[i] >= 0:
            at = plane * head[3] + outputs[i]
            for j in range(out):
                start = j * stride - before
                low, high = max(start, 0), min(start + taps, width)
                if low < high:
                    if done < low:
                        clear(gx, (begin + done) * run, (begin + low) * run)
                    some, more, cell = later(codes, (at + j) * run), later(g, (at + j) * run), later(gx, (begin + low) * run)
                    hand_out(some, more, cell, names[i] + low - start, high - low, run, past)
                    done = high
        clear(gx, (begin + done) * run, (begin + width) * run)
        i += 1
        if i == rows:
            plane, i = plane + 1, 0
    if past:
        settled()
