"""The one-sided directional derivative: what (f(x + t·dx) − f(x)) ÷ t tends to for t > 0, also at ties and kinks.

Where cells tie in a maximum, the one that grows fastest along dx wins for every small t, so the derivative is the greatest dx
among the winners; of a minimum the least. A p-norm of zeros grows as the p-norm of dx. It is positively homogeneous, not
linear, so it has no adjoint: a transform of functions, not a rule for ties. It composes: all these functions are Lipschitz,
and everything else is differentiable.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cmp_to_key
from typing import Any

import numpy as np

from windowgrad.autograd import arrays as ops
from windowgrad.autograd.arrays.choosing import MAXIMUM, MINIMUM, WINS, masked
from windowgrad.autograd.arrays.extremes import ABS, MAX, MIN, in_rows
from windowgrad.autograd.arrays.functions import RELU, gate
from windowgrad.autograd.arrays.indexing import index
from windowgrad.autograd.pushing import Pushed, parts
from windowgrad.autograd.steps import Step, still
from windowgrad.autograd.tracer import bottom
from windowgrad.dispatch import run
from windowgrad.errors import KindError
from windowgrad.params import Params
from windowgrad.spec import scalar
from windowgrad.spec.op import Op
from windowgrad.spec.order import check_order


class Directed(Pushed):
    """value + tangent·ε for ε > 0: among cells that tie, the tangents decide."""

    __slots__ = ()

    def follow(self, op: Op, rule: str, params: Params, arrays: Sequence[Any], needs: Sequence[bool] | None = None) -> Any:
        if rule not in ("forward", "with_indices"):
            raise KindError(f"directional: f must not differentiate, but it asks for the {rule} of {op.label or op.name}")
        values, tangents = zip(*(parts(array, self.level) for array in arrays), strict=True)
        moved = moved_by(op, params, values, tangents)
        if rule == "forward":
            return Directed(self.level, run(op, rule, params, *values), moved)
        y, places = run(op, rule, params, *values)
        return Directed(self.level, y, moved), places


def moved_by(op: Op, params: Params, values: Sequence[Any], tangents: Sequence[Any]) -> Any:
    """How the result moves when the values begin to move along `tangents`; None if it does not."""
    if all(tangent is None for tangent in tangents):
        return None
    rule = KINKS.get(op) or pooling_rule(op)
    if rule is None:
        return Step(op, "forward", params).push(values, tangents)
    filled = [still(x) if dx is None else dx for x, dx in zip(values, tangents, strict=True)]
    for value in (*values, *filled):
        if not isinstance(bottom(value), np.ndarray):
            raise KindError(f"directional: {op.label or op.name} needs NumPy arrays, not {type(bottom(value)).__name__}")
    return rule(op, params, values, filled)


# --- kinks -------------------------------------------------------------------------------------------------------


def along_relu(op: Op, params: Params, xs: Sequence[Any], dxs: Sequence[Any]) -> Any:
    """dx above 0, max(dx, 0) at 0."""
    (x,), (dx,) = xs, dxs
    return ops.add(gate(x, dx), masked(equal(x, 0), ops.relu(dx)))


def along_abs(op: Op, params: Params, xs: Sequence[Any], dxs: Sequence[Any]) -> Any:
    """±dx, and |dx| at 0."""
    (x,), (dx,) = xs, dxs
    return ops.where(equal(x, 0), ops.abs(dx), Step(op, "forward", params).push(xs, dxs))


def along_pair(op: Op, params: Params, xs: Sequence[Any], dxs: Sequence[Any]) -> Any:
    """The tangent of the winner; of two that tie, the greater of a maximum, the lesser of a minimum."""
    (da, db), (a, b) = dxs, map(bottom, xs)
    both, first = is_nan(a) & is_nan(b), is_nan(a) & ~is_nan(b)
    ahead = np.asarray(a > b if op is MAXIMUM else a < b, bool) | first
    best = ops.maximum(da, db) if op is MAXIMUM else ops.minimum(da, db)
    return ops.where(equal(a, b) | both, best, ops.where(ahead, da, db))


def along_axis(op: Op, params: Any, xs: Sequence[Any], dxs: Sequence[Any]) -> Any:
    """The tangent of the cell that wins over all, ties decided by the tangents."""
    (x,), (dx,) = xs, dxs
    axes = params.axes(x.shape)
    ranks = in_rows(ranked(x, dx, op is MIN), axes)
    winners = np.argmin(ranks, axis=-1) if op is MIN else np.argmax(ranks, axis=-1)
    kept = [axis for axis in range(dx.ndim) if axis not in axes]
    rows = ops.reshape(ops.transpose(dx, (*kept, *sorted(axes))), (winners.size, params.count(x.shape)))
    return ops.reshape(index(rows, (np.arange(winners.size), winners.reshape(-1))), params.out_shape(x.shape))


def along_windows(op: Op, params: Any, xs: Sequence[Any], dxs: Sequence[Any]) -> Any:
    """The same in each window of a pooling that takes a winner; 0 where a window is empty."""
    x, dx = xs[0], dxs[0]
    ranks = ranked(x, dx, op.facts is not None and op.facts.partial_results == "minimum")
    _, places = run(op, "with_indices", params, ranks, *xs[1:])
    lead, spatial = params.geometry.split(x.shape)
    planes = math.prod(lead)
    rows = places.reshape(planes, places.size // max(planes, 1))
    found = index(ops.reshape(dx, (planes, math.prod(spatial))), (np.arange(planes)[:, None], np.maximum(rows, 0)))
    return ops.reshape(masked(rows >= 0, found), places.shape)


def along_norms(op: Op, params: Any, xs: Sequence[Any], dxs: Sequence[Any]) -> Any:
    """The derivative of a p-norm, and at its kinks the norm of the tangents: at 0, and for p = 1 wherever a cell is 0."""
    (x,), (dx,) = xs, dxs
    dy = Step(op, "forward", params).push(xs, dxs)
    if params.norm_type == 1:
        return ops.add(dy, run(op, "forward", params, masked(equal(x, 0), dx)))
    return ops.where(equal(run(op, "forward", params, x), 0), run(op, "forward", params, dx), dy)


def pooling_rule(op: Op) -> Callable[..., Any] | None:
    """The rule of a pooling that is not differentiable everywhere."""
    if op.with_indices is not None:
        return along_windows
    return along_norms if op.facts is not None and op.facts.partial_results == "p-norm" else None


KINKS: dict[Op, Callable[..., Any]] = {
    RELU: along_relu,
    ABS: along_abs,
    MAXIMUM: along_pair,
    MINIMUM: along_pair,
    MAX: along_axis,
    MIN: along_axis,
}
"""Array functions that are not differentiable everywhere."""


# --- order -------------------------------------------------------------------------------------------------------


def ranked(x: Any, dx: Any, is_least: bool) -> Any:
    """The place of each cell among all, by x, and by dx where x is equal. NaN is the greatest, or of a minimum the least."""
    xs, dxs = (np.asarray(bottom(array)) for array in (x, dx))
    if object in (xs.dtype, dxs.dtype):
        cells = list(zip(xs.reshape(-1), dxs.reshape(-1), strict=True))
        key: Any = cmp_to_key(lambda a, b: compared(a, b, is_least))
        order: Any = sorted(range(len(cells)), key=lambda place: key(cells[place]))
    else:
        keys = [(key, is_nan(key) != is_least) for key in (dxs, xs)]  # the last key counts first
        order = np.lexsort([part.reshape(-1) for pair in keys for part in pair])
    ranks = np.empty(xs.size, np.int64)
    ranks[order] = np.arange(xs.size)
    return ranks.reshape(xs.shape)


def compared(a: Any, b: Any, is_least: bool) -> int:
    """−1, 0 or 1: whether the first pair of x and dx comes before the second, is equal, or comes after it."""
    wins = WINS["min" if is_least else "max"]
    for one, other in zip(a, b, strict=True):
        check_order(one, (other,))
        if wins(one, other) or wins(other, one):
            return -1 if wins(one, other) == is_least else 1
    return 0


def equal(a: Any, b: Any) -> Any:
    return np.asarray(bottom(a) == bottom(b), bool)


def is_nan(x: Any) -> Any:
    return np.asarray(np.frompyfunc(scalar.is_nan, 1, 1)(x) if x.dtype == object else x != x, bool)
