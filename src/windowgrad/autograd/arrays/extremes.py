"""The greatest and the least along axes, and absolute values. NaN wins; cells that tie share the gradient evenly."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import numpy as np

from windowgrad.autograd.arrays.arithmetic import EACH, shaped, subtract
from windowgrad.autograd.arrays.choosing import GREATEST, WINS, share
from windowgrad.autograd.arrays.functions import floats
from windowgrad.autograd.arrays.operands import operand
from windowgrad.autograd.arrays.records import AlikeParams, EachParams, ReduceParams
from windowgrad.autograd.arrays.reductions import sum as total
from windowgrad.autograd.arrays.rules import Array, by_cell, by_ufunc, native_op, repeated_like
from windowgrad.dispatch import run
from windowgrad.dtypes import is_float
from windowgrad.errors import WindowError, WindowgradError
from windowgrad.functional.call import show_call
from windowgrad.functional.remember import remember
from windowgrad.params import Params, Shape
from windowgrad.spec import order, scalar
from windowgrad.spec.dual import Dual

A = TypeVar("A")


@dataclass(frozen=True)
class ExtremeParams(ReduceParams):
    """The same as for a sum, but there must be a cell."""

    def out_shape(self, *shapes: Shape) -> Shape:
        (x,) = shapes
        out = super().out_shape(x)
        if not self.count(x) and 0 not in out:
            raise WindowError(f"x of shape {x}: an empty array has no greatest or least element")
        return out


@dataclass(frozen=True)
class SplitParams(AlikeParams):
    """`dx` at the winners along `axis`, divided by their number, and 0 elsewhere; `own` is "max" or "min"."""

    reduce: ExtremeParams
    own: str


def max(x: A, axis: int | Sequence[int] | None = None, keepdims: bool = False) -> A:  # noqa: A001  # NumPy's name for it
    """The greatest element over `axis`, over several axes, or over all. Elements that tie share the gradient evenly.

    >>> wg.max(np.array([[1.0, 5.0], [7.0, 2.0]]), axis=1)
    array([5., 7.])
    >>> wg.grad(wg.max)(np.array([3.0, 1.0, 3.0]))
    array([0.5, 0. , 0.5])
    """
    try:
        y: A = run(MAX, "forward", extreme(axis, keepdims), operand(x))
        return y
    except WindowgradError as error:
        show_call(error, max, locals())
        raise


def min(x: A, axis: int | Sequence[int] | None = None, keepdims: bool = False) -> A:  # noqa: A001  # NumPy's name for it
    """The least element over `axis`, over several axes, or over all. Elements that tie share the gradient evenly.

    >>> wg.min(np.array([[1.0, 5.0], [7.0, 2.0]]), axis=1)
    array([1., 2.])
    """
    try:
        y: A = run(MIN, "forward", extreme(axis, keepdims), operand(x))
        return y
    except WindowgradError as error:
        show_call(error, min, locals())
        raise


def abs(x: A) -> A:  # noqa: A001  # NumPy's name for it
    """The absolute value, elementwise; the derivative at 0 is 0.

    >>> wg.abs(np.array([-2.0, 3.0]))
    array([2., 3.])
    """
    try:
        y: A = run(ABS, "forward", EACH, operand(x))
        return y
    except WindowgradError as error:
        show_call(error, abs, locals())
        raise


extreme = remember(ExtremeParams)


def split(params: SplitParams, x: Any, dx: Any) -> Any:
    """dx at the winners, shared evenly, and 0 elsewhere: linear in dx."""
    return run(SPLIT, "forward", params, x, dx)


# --- rules -------------------------------------------------------------------------------------------------------


def _extreme(own: str, params: ExtremeParams, x: Array) -> Any:
    """The first of the winners in row-major order, as its index says: which zero a reduction of NumPy's takes is not said."""
    rows = in_rows(x, params.axes(x.shape))
    wide = rows.astype(np.float32) if x.dtype.name == "bfloat16" else rows
    place = np.argmax(wide, axis=-1) if own == "max" else np.argmin(wide, axis=-1)
    return np.take_along_axis(rows, place[..., None], axis=-1).reshape(params.out_shape(x.shape))


def in_rows(x: Array, axes: tuple[int, ...]) -> Array:
    """The cells of `axes` along one last axis."""
    kept = [axis for axis in range(x.ndim) if axis not in axes]
    count = math.prod(x.shape[axis] for axis in axes)
    return x.transpose(*kept, *sorted(axes)).reshape(*(x.shape[axis] for axis in kept), count)


def _extreme_objects(own: str, params: ExtremeParams, x: Array) -> Any:
    rows = in_rows(x, params.axes(x.shape))
    found = np.empty(rows.shape[:-1], object)
    for place in np.ndindex(*found.shape):
        found[place] = best_of(own, list(rows[place]))
    return found.reshape(params.out_shape(x.shape))


def best_of(own: str, values: list[Any]) -> Any:
    """The winner. Of dual numbers that tie the mean: the value is the same, and the derivative is shared."""
    best = order.extreme(values, WINS[own], own)
    ties = [value for value in values if scalar.same(value, best)] if isinstance(best, Dual) else [best]
    return best if len(ties) == 1 else mean_of(ties)


def mean_of(values: list[Any]) -> Any:
    whole = values[0]
    for value in values[1:]:
        whole = whole + value
    return whole / len(values)


def _extreme_push(own: str, params: ExtremeParams, x: Any, dx: Any) -> Any:
    return total(split(SplitParams(params, own), x, dx), params.axis, params.keepdims)


def _extreme_pull(own: str, params: ExtremeParams, x: Any, g: Any) -> tuple[Any]:
    return (split(SplitParams(params, own), x, repeated_like(shaped(g, params.kept(x.shape)), x)),)


def _split(params: SplitParams, x: Array, dx: Array) -> Any:
    axes = params.reduce.axes(x.shape)
    top = _extreme(params.own, ExtremeParams(axes, True), x)
    winners = (x == top) | ((x != x) & (top != top))
    return shared(winners, np.add.reduce(winners, axis=axes, keepdims=True), floats(dx))


def shared(winners: Array, count: Array, dx: Array) -> Array:
    """dx at the winners, divided by their count, which may be beyond float16."""
    wide = np.dtype(np.float32) if is_float(dx.dtype) and dx.dtype.itemsize == 2 else dx.dtype
    part = np.asarray(dx.astype(wide, copy=False) / count.astype(wide)).astype(dx.dtype, copy=False)
    return np.where(winners, part, np.zeros((), dx.dtype))


def _split_objects(params: SplitParams, x: Array, dx: Array) -> Any:
    axes = params.reduce.axes(x.shape)
    rows, moved = in_rows(x, axes), in_rows(dx, axes)
    found = np.empty(rows.shape, object)
    for place in np.ndindex(*rows.shape[:-1]):
        found[place] = np.array([*shares_of(params.own, list(rows[place]), list(moved[place])), None], object)[:-1]
    kept = [axis for axis in range(x.ndim) if axis not in axes]
    places = [*kept, *sorted(axes)]
    return found.reshape([x.shape[axis] for axis in places]).transpose(np.argsort(places))


def shares_of(own: str, values: list[Any], moved: list[Any]) -> list[Any]:
    wins = WINS[own]
    best = values[0]
    for value in values[1:]:
        best = value if wins(value, best) else best
    order.check_order(best, values, own)
    winners = [scalar.same(value, best) for value in values]
    count = sum(winners)
    return [
        scalar.zero_like(d) if not won else d if count == 1 else scalar.divide(d, count)
        for d, won in zip(moved, winners, strict=True)
    ]


def _split_push(params: SplitParams, x: Any, dx: Any, _: Any, ddx: Any) -> Any:
    return split(params, x, ddx)


def _split_pull(params: SplitParams, x: Any, dx: Any, g: Any) -> tuple[None, Any]:
    return None, split(params, x, g)


def abs_cell(a: Any) -> Any:
    if isinstance(a, Dual):
        nought = scalar.zero_like(a)
        return -a if scalar.greater(nought, a) else a if scalar.greater(a, nought) else nought
    return a.__abs__() if hasattr(a, "__abs__") else -a if scalar.greater(scalar.zero_like(a), a) else a


def _abs_push(params: Params, x: Any, dx: Any) -> Any:
    """dx above 0, −dx below, and half of each at 0."""
    zero = operand(0, "x", x)
    return subtract(share(GREATEST, x, zero, dx), share(GREATEST, zero, x, dx))


def _abs_pull(params: Params, x: Any, g: Any) -> tuple[Any]:
    return (_abs_push(params, x, g),)


def _extreme_op(own: str) -> Any:
    rules: list[Callable[..., Any]] = [
        partial(rule, own) for rule in (_extreme, _extreme_objects, _extreme_push, _extreme_pull)
    ]
    return native_op(own, ExtremeParams, *rules)


MAX, MIN = _extreme_op("max"), _extreme_op("min")
SPLIT = native_op("split", SplitParams, _split, _split_objects, _split_push, _split_pull, inputs=("x", "dx"))
ABS = native_op("abs", EachParams, partial(by_ufunc, np.abs), partial(by_cell, abs_cell), _abs_push, _abs_pull)
