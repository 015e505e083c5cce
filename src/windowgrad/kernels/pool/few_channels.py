"""Windows two cells apart along a row whose cells are runs of a few channels: images of two to four channels, channels last.

`thinning` is to such a row what `window_spans` is to others. The rows that an output row sees stand in a buffer, folded; of two
vectors the taps are combined, all cells alike, and a shuffle keeps every second run. With three channels, `.` is left out:

    buffer    a a a . . . b b b . . . c c c . …      the taps of each lane are `step` numbers apart
    outputs   a a a b b b …                          as many whole runs as a vector has room for, at a time

Measured on 32×3×224×224, one thread: the maximum of 3×3 windows takes 0.24 ms for bytes and 1.9 for float32, the mean 1.8.
Where every cell was a row of its own, these took 4.3, 7.3 and 3.6 ms; moving the bytes takes 0.07 and 0.4.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from numba import types
from numba.extending import intrinsic

from windowgrad.geometry import Geometry
from windowgrad.kernels.pool.plan import Plan, regularity
from windowgrad.kernels.pool.window_spans import DIRECT
from windowgrad.kernels.vector.loops import Combine, Emitter
from windowgrad.kernels.vector.types import lane_order

RUNS = (2, 3, 4)
"""Channels of a cell."""

TAPS = (2, 3)
"""Numbers of taps that have a loop of their own."""

LONGEST = 1 << 14
"""Numbers of a row: a buffer of them stays in the second cache."""


@lru_cache(maxsize=1024)
def has_few_channels(geometry: Geometry, shape: tuple[int, ...]) -> bool:
    """Whether cells of an array of this shape stay together in their rows, if its channels stand last."""
    lead, spatial = geometry.split(shape)
    if not lead or lead[-1] not in RUNS or spatial[-1] * lead[-1] > LONGEST:
        return False
    kernel, stride, before = regularity(geometry, spatial[-1])
    return stride == 2 and kernel <= DIRECT and before * lead[-1] <= LONGEST


def is_thinned(p: Plan) -> bool:
    """Whether the rows of a plan are those that `has_few_channels` keeps together."""
    return p.run in RUNS and p.stride == 2


def thinning(combine: Combine) -> Any:
    """thin(buffer, y, at, out, run, taps, step): y[at:at + out] = the windows of the buffer, two runs apart.

    All lengths count numbers. A run is one of RUNS. Both arrays are addresses. The buffer has room for 2·out numbers and two
    vectors from the last tap of the first window on.
    """

    @intrinsic
    def thin(typing: Any, buffer: Any, y: Any, at: Any, out: Any, run: Any, taps: Any, step: Any) -> Any:
        def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            e = Emitter(context, builder, buffer.dtype)
            source, target, (at, out, run, taps, step) = (buffer, args[0]), (y, args[1]), args[2:]

            def few(i: Any, count: int) -> Any:
                total = e.load(source, i)
                for tap in range(1, count):
                    total = combine(e, total, e.load(source, e.add(i, e.mul(step, tap))))
                return total

            def any_number(i: Any) -> Any:
                total = e.variable(e.load(source, i))
                with e.steps(e.add(i, step), e.add(i, e.mul(step, taps)), step) as k:
                    builder.store(combine(e, builder.load(total), e.load(source, k)), total)
                return builder.load(total)

            def sweep(run: int, total: Any) -> None:
                kept = e.n // run * run
                order = lane_order([lane // run * 2 * run + lane % run if lane < kept else 0 for lane in range(e.n)])
                with e.steps(e.int(0), out, e.int(kept)) as j:
                    i, left = e.mul(j, 2), builder.sub(out, j)
                    tops = builder.shuffle_vector(total(i), total(e.add(i, e.n)), order)
                    with builder.if_else(e.less(left, e.n), likely=False) as (last, whole):
                        with last:
                            e.store_first(target, e.add(at, j), tops, left)
                        with whole:  # what is behind the runs is written again
                            e.store(target, e.add(at, j), tops)

            def of_run(run: int) -> None:
                e.by_number(taps, TAPS, lambda count: sweep(run, lambda i: few(i, count)), lambda: sweep(run, any_number))

            e.by_number(run, RUNS, of_run, lambda: None)
            return context.get_dummy_value()

        whole = types.intp
        return types.void(buffer, y, whole, whole, whole, whole, whole), emit

    return thin
