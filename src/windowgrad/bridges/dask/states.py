"""What is known of a region after some of its cells were seen, for each reduction; it runs on a worker.

part     (one box of cells)     -> state
combine  (two states)           -> state
finish   (the state of all)     -> the result
share    (states of a chunk and of all, g) -> what of g the cells of the chunk get, as if they were the whole region

winner      value, index, and, where ties or tangents need them, how many are equal and the tangent
mean        the sum, in float64
smooth max  the smooth maximum in float64, and the tangent; where no cell was seen yet, the infinity that adds nothing
p-norm      the norm in float64, and the tangent
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial, reduce
from typing import Any

import numpy as np

from windowgrad.bridges.dask.blocks import in_the_whole, nothing, pool_params, sides, summable
from windowgrad.bridges.dask.cuts import Cut, clipped, line
from windowgrad.bridges.dask.graph import Block, joined
from windowgrad.dispatch import run
from windowgrad.geometry import Sliding
from windowgrad.ops import meaning
from windowgrad.params import LpParams, MaxParams, MeanParams, PoolParams, SmoothParams
from windowgrad.routes import facts_of
from windowgrad.spec.op import Op

MOST = 1 << 22
"""Cells that are turned into wider floats at a time."""

State = tuple[Any, ...]
Cuts = tuple[Cut, ...]


def outer(factors: Sequence[Any]) -> Any:
    """The product of one array per axis, over all axes."""
    return reduce(np.multiply.outer, factors)


def outputs_of(cuts: Cuts) -> tuple[int, ...]:
    return tuple(cut.outputs[1] - cut.outputs[0] for cut in cuts)


def regions(params: PoolParams, spatial: Sequence[int], cuts: Cuts) -> tuple[Any, Any]:
    """(real cells, real and padded cells) of the whole regions of these outputs, as float64."""
    tables = [
        (params.geometry.table(axis, n), slice(*cut.outputs)) for axis, (n, cut) in enumerate(zip(spatial, cuts, strict=True))
    ]
    real = outer([np.asarray(table.count[some], np.float64) for table, some in tables])
    return real, outer([np.asarray(table.count[some] + table.padded[some], np.float64) for table, some in tables])


# --- maximum, minimum --------------------------------------------------------------------------------------------


def same(a: Any, b: Any) -> Any:
    return (a == b) | ((a != a) & (b != b))


class Winner:
    """Of a maximum or a minimum; `beats(a, b)` says of two numbers whether a is the winner. NaN wins over every number."""

    def __init__(self, beats: Callable[[Any, Any], Any]) -> None:
        self.beats = beats

    def totals(self, params: MaxParams, dtype: Any) -> list[Any]:
        return [dtype, np.dtype(np.int64), np.dtype(np.float64)][: 2 if params.ties == "first" else 3]

    def absent(self, rule: str, params: MaxParams, shape: tuple[int, ...], dtype: Any) -> State:
        more = (params.ties != "first" and rule in ("jvp", "vjp")) + (rule == "jvp")
        return np.zeros(shape, dtype), np.full(shape, -1), *(np.zeros(shape) for _ in range(more))

    def part(self, op: Op, rule: str, params: MaxParams, spatial: tuple[int, ...], cuts: Cuts, x: Any, dx: Any = None) -> State:
        first = params.ties == "first"
        local = pool_params(params, spatial, cuts, empty="zero", ties="first" if first else "all")
        value, index = run(op, "with_indices", local, x)
        state, wide = [value, in_the_whole(index, spatial, cuts)], summable(x)
        if not first and rule in ("jvp", "vjp"):
            state.append(run(op, "jvp", local, wide, np.ones(x.shape, wide.dtype if wide.dtype.kind == "f" else float)))
        if rule == "jvp":
            state.append(run(op, "jvp", local, wide, summable(dx)))
        return tuple(state[:2]) + tuple(np.asarray(each, np.float64) for each in state[2:])

    def combine(self, params: MaxParams, a: State, b: State) -> State:
        seen = (a[1] >= 0) & (b[1] >= 0)
        tie = seen & same(a[0], b[0])
        beats = self.beats(b[0], a[0]) | ((b[0] != b[0]) & (a[0] == a[0]))
        later = (b[1] >= 0) & ((a[1] < 0) | beats | (tie & (b[1] < a[1])))
        chosen = [np.where(later, other, one) for one, other in zip(a, b, strict=True)]
        if params.ties != "first":
            chosen[2:] = [np.where(tie, one + other, c) for one, other, c in zip(a[2:], b[2:], chosen[2:], strict=True)]
        return tuple(chosen)

    def finish(self, rule: str, params: MaxParams, spatial: tuple[int, ...], cuts: Cuts, state: State) -> Any:
        if rule == "jvp":
            return state[-1] / np.maximum(state[2], 1) if params.ties == "split" else state[-1]
        return state[0] if rule == "forward" else state

    def share(
        self, params: MaxParams, spatial: tuple[int, ...], cuts: Cuts, own: State, total: State, g: Any
    ) -> tuple[Any, Any]:
        first = params.ties == "first"
        local = pool_params(params, spatial, cuts, empty="zero", ties="first" if first else "all")
        mine = (own[1] >= 0) & ((own[1] == total[1]) if first else same(own[0], total[0]))
        wide = summable(g)
        if params.ties == "split":
            wide = wide / np.maximum(total[2], 1).astype(wide.dtype if wide.dtype.kind == "f" else float)
        return local, np.where(mine, wide, np.zeros((), wide.dtype))


# --- mean --------------------------------------------------------------------------------------------------------


def divisor(params: MeanParams, spatial: tuple[int, ...], cuts: Cuts) -> Any:
    if params.divisor_override is not None:
        return float(params.divisor_override)
    real, inside = regions(params, spatial, cuts)
    return inside if params.count_include_pad else np.maximum(real, 1)


class Mean:
    @staticmethod
    def totals(params: MeanParams, dtype: Any) -> list[Any]:
        return []

    @staticmethod
    def absent(rule: str, params: MeanParams, shape: tuple[int, ...], dtype: Any) -> State:
        return (np.zeros(shape),)

    @staticmethod
    def part(op: Op, rule: str, params: MeanParams, spatial: tuple[int, ...], cuts: Cuts, x: Any) -> State:
        return (run(op, "forward", pool_params(params, spatial, cuts, divisor_override=1), wide(x)),)

    @staticmethod
    def combine(params: MeanParams, a: State, b: State) -> State:
        return (a[0] + b[0],)

    @staticmethod
    def finish(rule: str, params: MeanParams, spatial: tuple[int, ...], cuts: Cuts, state: State) -> Any:
        return state[0] / divisor(params, spatial, cuts)

    @staticmethod
    def share(params: MeanParams, spatial: tuple[int, ...], cuts: Cuts, own: State, total: State, g: Any) -> tuple[Any, Any]:
        return pool_params(params, spatial, cuts, divisor_override=1), wide(g) / divisor(params, spatial, cuts)


# --- smooth maximum ----------------------------------------------------------------------------------------------


def weight(a: Any, top: Any, beta: float) -> Any:
    """exp(β·(a − top)); 1 where they are equal, also where both are infinite."""
    return np.where(a == top, 1.0, np.exp(beta * (a - top)))


class Smooth:
    @staticmethod
    def totals(params: SmoothParams, dtype: Any) -> list[Any]:
        return [np.dtype(np.float64)]

    @staticmethod
    def absent(rule: str, params: SmoothParams, shape: tuple[int, ...], dtype: Any) -> State:
        return np.full(shape, -np.inf if params.beta > 0 else np.inf), *([np.zeros(shape)] if rule == "jvp" else [])

    @staticmethod
    def part(op: Op, rule: str, params: SmoothParams, spatial: tuple[int, ...], cuts: Cuts, x: Any, dx: Any = None) -> State:
        local = pool_params(params, spatial, cuts, count_include_pad=False)
        seen = outer([table.count for table in local.geometry.tables(sides(cuts))]) > 0
        (nothing, *_), x = Smooth.absent(rule, params, (), x.dtype), wide(x)
        value = np.where(seen, run(op, "forward", local, x), nothing)
        return (value, run(op, "jvp", local, x, wide(dx))) if rule == "jvp" else (value,)

    @staticmethod
    def combine(params: SmoothParams, a: State, b: State) -> State:
        beta = float(params.beta)
        y = np.logaddexp(beta * a[0], beta * b[0]) / beta
        if len(a) == 1:
            return (y,)
        one, other = weight(a[0], y, beta), weight(b[0], y, beta)
        return y, (one * a[1] + other * b[1]) / (one + other)

    @staticmethod
    def finish(rule: str, params: SmoothParams, spatial: tuple[int, ...], cuts: Cuts, state: State) -> Any:
        beta, (real, inside) = float(params.beta), regions(params, spatial, cuts)
        padded = inside - real if params.count_include_pad else inside * 0
        seen, y = real + padded > 0, state[0]
        whole = np.where(seen, np.where(padded > 0, np.logaddexp(beta * y, np.log(padded)) / beta, y), 0.0)
        if rule == "jvp":
            return np.where(real > 0, state[1] * weight(y, whole, beta), 0.0)
        return whole if rule == "forward" else (whole,)

    @staticmethod
    def share(params: SmoothParams, spatial: tuple[int, ...], cuts: Cuts, own: State, total: State, g: Any) -> tuple[Any, Any]:
        local = pool_params(params, spatial, cuts, count_include_pad=False)
        return local, wide(g) * weight(own[0], total[0], float(params.beta))


# --- p-norm ------------------------------------------------------------------------------------------------------


def part_of(a: Any, y: Any, p: float) -> Any:
    """(a ÷ y)^(p−1), the derivative of the norm y of several norms in one of them, a; 0 where y is 0."""
    ratio = np.where(a == y, 1.0, a / np.where(y == 0, 1.0, y))  # infinities too
    return np.where(y == 0, 0.0, ratio ** (p - 1))


class Norm:
    @staticmethod
    def totals(params: LpParams, dtype: Any) -> list[Any]:
        return [np.dtype(np.float64)]

    @staticmethod
    def absent(rule: str, params: LpParams, shape: tuple[int, ...], dtype: Any) -> State:
        return np.zeros(shape), *([np.zeros(shape)] if rule == "jvp" else [])

    @staticmethod
    def part(op: Op, rule: str, params: LpParams, spatial: tuple[int, ...], cuts: Cuts, x: Any, dx: Any = None) -> State:
        local, x = pool_params(params, spatial, cuts), wide(x)
        y = run(op, "forward", local, x)
        return (y, run(op, "jvp", local, x, wide(dx))) if rule == "jvp" else (y,)

    @staticmethod
    def combine(params: LpParams, a: State, b: State) -> State:
        pair, both = LpParams(Sliding((2,)), params.norm_type), np.stack([a[0], b[0]], axis=-1)
        y = run(meaning("lp_pool"), "forward", pair, both)[..., 0]
        if len(a) == 1:
            return (y,)
        return y, part_of(a[0], y, params.norm_type) * a[1] + part_of(b[0], y, params.norm_type) * b[1]

    @staticmethod
    def finish(rule: str, params: LpParams, spatial: tuple[int, ...], cuts: Cuts, state: State) -> Any:
        return state[-1] if rule in ("forward", "jvp") else state

    @staticmethod
    def share(params: LpParams, spatial: tuple[int, ...], cuts: Cuts, own: State, total: State, g: Any) -> tuple[Any, Any]:
        return pool_params(params, spatial, cuts), wide(g) * part_of(own[0], total[0], params.norm_type)


REDUCTIONS: dict[str | None, Any] = {
    # the partial results of an operator, by the table of operators
    "maximum": Winner(np.greater),
    "minimum": Winner(np.less),
    "mean": Mean,
    "logsumexp": Smooth,
    "p-norm": Norm,
}


def reduction(name: str) -> Any:
    """How the partial results of an operator are combined."""
    return REDUCTIONS[facts_of(meaning(name)).partial_results]


# --- tasks -------------------------------------------------------------------------------------------------------


def wide(array: Any) -> Any:
    return array.astype(np.float64, copy=False)


def boxes(params: PoolParams, spatial: tuple[int, ...], cuts: Cuts, planes: int) -> Iterator[Cuts]:
    """The part in boxes of few cells."""
    sizes = sides(cuts)
    if planes * math.prod(sizes) <= MOST or max(sizes) == 1:
        yield cuts
        return
    axis = sizes.index(max(sizes))
    low, high = cuts[axis].cells
    for cells in ((low, (low + high) // 2), ((low + high) // 2, high)):
        cut = clipped(line(params.geometry, axis, spatial[axis]), cuts[axis].outputs, cells)
        if cut is not None:
            yield from boxes(params, spatial, (*cuts[:axis], cut, *cuts[axis + 1 :]), planes)


@np.errstate(all="ignore")
def found_in(name: str, rule: str, params: PoolParams, spatial: tuple[int, ...], block: Block, *pieces: Any) -> State:
    """The state after the cells of one part, which may have none."""
    arrays, cuts = [*map(joined, pieces)], block.cuts
    x, rank = arrays[0], len(cuts)
    lead, states, state = x.shape[: x.ndim - rank], reduction(name), None
    for some in boxes(params, spatial, cuts, math.prod(lead)) if x.size else ():
        place = tuple(slice(a.cells[0] - b.cells[0], a.cells[1] - b.cells[0]) for a, b in zip(some, cuts, strict=True))
        found = states.part(meaning(name), rule, params, spatial, some, *(each[(..., *place)] for each in arrays))
        state = found if state is None else states.combine(params, state, found)
    if state is None:
        state = states.absent(rule, params, (*lead, *outputs_of(cuts)), x.dtype)
    return state  # type: ignore[no-any-return]


@np.errstate(all="ignore")
def joint(name: str, params: PoolParams, states: list[State]) -> State:
    """The state after all these."""
    return reduce(partial(reduction(name).combine, params), states)


@np.errstate(all="ignore")
def finished(name: str, rule: str, params: PoolParams, spatial: tuple[int, ...], dtype: Any, block: Block, state: Any) -> Any:
    """The result, or of a vjp what `share` needs to know of the whole."""
    result = reduction(name).finish(rule, params, spatial, block.cuts, joined(state))
    return result if isinstance(result, tuple) else result.astype(dtype)


@np.errstate(all="ignore")
def shared_back(name: str, params: PoolParams, spatial: tuple[int, ...], dtype: Any, block: Block, *pieces: Any) -> Any:
    """The gradient of one chunk."""
    x, g, *total = map(joined, pieces)
    gx, cuts = np.zeros(x.shape, dtype), block.cuts
    lead = x.ndim - len(cuts)
    starts = [job.ranges[0][0] for job in block.jobs[lead:]]
    place: Any = (..., *(slice(cut.cells[0] - at, cut.cells[1] - at) for cut, at in zip(cuts, starts, strict=True)))
    cells = x[place]
    if cells.size:
        own = found_in(name, "vjp", params, spatial, block, cells) if total else ()
        local, shared = reduction(name).share(params, spatial, cuts, own, tuple(total), g)
        given = cells if total else nothing(cells.shape, x.dtype)
        gx[place] = run(meaning(name), "vjp", local, given, shared)[0]
    return gx
