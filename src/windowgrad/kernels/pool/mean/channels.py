"""Sums of cells that are runs of channels, in registers: for each lane of `whole.sum_plane` a vector of channels.

Some neighbouring channels at a time, as many as a vector of a tile has lanes, which is a line of the cache on AVX-512: their
cells are read once, `run` numbers apart. The additions of a channel are those of a plane that stands alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba import types
from numba.extending import intrinsic

from windowgrad.kernels.vector.loops import Emitter, plus
from windowgrad.kernels.vector.registers import wide
from windowgrad.kernels.vector.types import Vec, constant, vec


def _summing(name: str, doc: str, tree: int) -> Any:
    """`tree`: of so many vectors in the dtype of x, whose sums are float64; 1: all sums are in that of x."""

    def typed(typing: Any, x: Any, at: Any, size: Any, run: Any, left: Any) -> Any:
        lanes, old = vec(x.dtype).lanes, wide(x.dtype)
        v = Vec(types.float64, old.lanes) if tree > 1 else old

        def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            e, source, (at, size, run, left) = Emitter(context, builder, x.dtype), (x, args[0]), args[1:]
            e.v, e.n = old, old.lanes
            into = Emitter(context, builder, v.dtype)
            into.v, into.n = v, v.lanes
            sums = [into.variable(constant(v, 0)) for _ in range(lanes)]

            def add_up(load: Callable[[Any], Any]) -> None:
                def cell(i: Any) -> Any:
                    return load(e.add(at, e.mul(i, run)))

                def add(lane: int, value: Any) -> None:
                    value = builder.fpext(value, into_type) if value.type != into_type else value
                    builder.store(builder.fadd(builder.load(sums[lane]), value), sums[lane])

                into_type = constant(v, 0).type
                whole = builder.and_(size, e.int(-tree * lanes))
                with e.steps(e.int(0), whole, e.int(tree * lanes)) as i:
                    for lane in range(lanes):
                        values = [cell(e.add(i, lane + q * lanes)) for q in range(tree)]
                        while len(values) > 1:
                            values = [plus(e, a, b) for a, b in zip(values[::2], values[1::2], strict=True)]
                        add(lane, values[0])
                with e.steps(whole, size, e.int(lanes)) as i:
                    for lane in range(lanes):
                        with builder.if_then(e.less(e.add(i, lane), size)):
                            add(lane, cell(e.add(i, lane)))

            with builder.if_else(e.less(left, e.n), likely=False) as (part, all_of_it):
                with part:
                    add_up(lambda i: e.load_first(source, i, left))
                with all_of_it:
                    add_up(lambda i: e.load(source, i))
            totals = [builder.load(total) for total in sums]
            while len(totals) > 1:
                half = len(totals) // 2
                totals = [builder.fadd(totals[lane], totals[lane + half]) for lane in range(half)]
            return totals[0]

        number = types.intp
        return v(x, number, number, number, number), emit

    typed.__name__, typed.__doc__ = name, doc
    return intrinsic(typed)


sum_near_runs = _summing(
    "sum_near_runs",
    "The sums of a vector of channels over `size` runs from `at` on, `run` apart, in their dtype; `left` channels are read.",
    1,
)
sum_far_runs = _summing("sum_far_runs", "The same in float64, of trees of eight in the dtype of x.", 8)
