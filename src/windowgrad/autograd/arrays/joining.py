"""Several arrays as one: concatenate and stack."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate
from typing import Any

import numpy as np

from windowgrad.arguments import MOST_AXES, as_int
from windowgrad.autograd.arrays.choosing import alike
from windowgrad.autograd.arrays.indexing import Cut, index_by
from windowgrad.autograd.arrays.operands import operand
from windowgrad.autograd.arrays.records import LEAST, axis_of
from windowgrad.autograd.arrays.rules import Array, native_op
from windowgrad.autograd.arrays.shapes import reshape
from windowgrad.dispatch import run
from windowgrad.errors import KindError, WindowError, WindowgradError, show
from windowgrad.functional.call import show_call
from windowgrad.functional.remember import remember
from windowgrad.params import Params, Shape
from windowgrad.spec.op import Op


@dataclass(frozen=True)
class JoinParams(Params):
    """One after the other along an axis that each of them has."""

    axis: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "axis", as_int("axis", self.axis, LEAST))

    def out_shape(self, *shapes: Shape) -> Shape:
        first = shapes[0]
        axis = axis_of("axis", self.axis, first, "arrays[0]")
        for i, shape in enumerate(shapes):
            if (len(shape), shape[:axis], shape[axis + 1 :]) != (len(first), first[:axis], first[axis + 1 :]):
                wanted = f"must have the sizes of arrays[0] of shape {first} on every axis but axis {axis}"
                raise WindowError(f"arrays[{i}] of shape {shape}: {wanted}")
        return (*first[:axis], sum(shape[axis] for shape in shapes), *first[axis + 1 :])


@dataclass(frozen=True)
class StackParams(Params):
    """One after the other along a new axis."""

    axis: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "axis", as_int("axis", self.axis, LEAST))

    def place(self, rank: int) -> int:
        """Where the new axis is among those of the result."""
        if not -rank - 1 <= self.axis <= rank:
            raise WindowError(
                f"axis={show(self.axis)}: must be from {-rank - 1} to {rank}, the new axis of arrays of rank {rank}"
            )
        return self.axis % (rank + 1)

    def out_shape(self, *shapes: Shape) -> Shape:
        first = shapes[0]
        axis = self.place(len(first))
        for i, shape in enumerate(shapes):
            if shape != first:
                raise WindowError(f"arrays[{i}] of shape {shape}: must be {first}, the shape of arrays[0]")
        if len(first) >= MOST_AXES:
            raise WindowError(f"arrays[0] of {len(first)} axes: an array has at most {MOST_AXES} axes")
        return (*first[:axis], len(shapes), *first[axis:])


def concatenate(arrays: Sequence[Any], axis: int | None = 0) -> Any:
    """The arrays one after the other along `axis`; with `axis=None` each is flattened first. Dtypes promote as NumPy's do.

    >>> wg.concatenate([np.ones((1, 2)), np.zeros((1, 2))], axis=1)
    array([[1., 1., 0., 0.]])
    """
    try:
        parts = several(arrays)
        if axis is None:
            parts, axis = [reshape(part, (-1,)) for part in parts], 0
        params = joined_along(axis)
        if len(parts) > AT_ONCE:
            parts = grouped(concatenating, params, parts)
        return run(concatenating(len(parts)), "forward", params, *parts)
    except WindowgradError as error:
        show_call(error, concatenate, locals())
        raise


def stack(arrays: Sequence[Any], axis: int = 0) -> Any:
    """Arrays of one shape one after the other along a new axis, which is `axis` of the result.

    >>> wg.stack([np.ones(2), np.zeros(2)], axis=1)
    array([[1., 0.],
           [1., 0.]])
    """
    try:
        parts = several(arrays)
        params = stacked_along(axis)
        if len(parts) > AT_ONCE:
            return concatenate(grouped(stacking, params, parts), axis)
        return run(stacking(len(parts)), "forward", params, *parts)
    except WindowgradError as error:
        show_call(error, stack, locals())
        raise


def several(arrays: Any) -> list[Any]:
    """The arrays; numbers among them take the dtype of the first that is an array."""
    if not isinstance(arrays, (tuple, list)):
        raise KindError(f"arrays: must be a tuple or list of arrays, not {type(arrays).__name__}")
    if not arrays:
        raise WindowError(f"arrays={arrays!r}: must have at least one array")
    beside = next((array for array in arrays if hasattr(array, "dtype")), None)
    return [operand(array, f"arrays[{i}]", beside) for i, array in enumerate(arrays)]


def grouped(record: Callable[[int], Op], params: Params, arrays: list[Any]) -> list[Any]:
    """Many arrays joined by so many at once, and what comes of them again: a call costs the more the more arrays it has."""
    if all(hasattr(array, "shape") for array in arrays):
        params.out_shape(*(tuple(array.shape) for array in arrays))  # an error that counts them all
    groups = [arrays[i : i + AT_ONCE] for i in range(0, len(arrays), AT_ONCE)]
    joined = [run(record(len(group)), "forward", params, *group) for group in groups]
    if len(joined) <= AT_ONCE:
        return joined
    return grouped(concatenating, joined_along(params.axis), joined)  # type: ignore[attr-defined]  # both records have it


AT_ONCE = 64
"""The most arrays that are joined by one call."""

joined_along, stacked_along = remember(JoinParams), remember(StackParams)


# --- rules -------------------------------------------------------------------------------------------------------


def _concatenate(params: JoinParams, *xs: Array) -> Any:
    return np.concatenate(alike(*xs), params.axis)


def _concatenate_objects(params: JoinParams, *xs: Array) -> Any:
    return np.concatenate(xs, params.axis)


def _concatenate_push(params: JoinParams, *arrays: Any) -> Any:
    return concatenate(arrays[len(arrays) // 2 :], params.axis)


def _concatenate_pull(params: JoinParams, *arrays: Any, needs: Sequence[bool] | None = None) -> tuple[Any, ...]:
    *xs, g = arrays
    axis = params.axis % g.ndim
    ends = list(accumulate(x.shape[axis] for x in xs))
    cuts = [Cut(end - x.shape[axis], end) for x, end in zip(xs, ends, strict=True)]
    return tuple(along(g, axis, cut) if needs is None or needs[i] else None for i, cut in enumerate(cuts))


def _stack(params: StackParams, *xs: Array) -> Any:
    return np.stack(alike(*xs), params.axis)


def _stack_objects(params: StackParams, *xs: Array) -> Any:
    return np.stack(xs, params.axis)


def _stack_push(params: StackParams, *arrays: Any) -> Any:
    return stack(arrays[len(arrays) // 2 :], params.axis)


def _stack_pull(params: StackParams, *arrays: Any, needs: Sequence[bool] | None = None) -> tuple[Any, ...]:
    *xs, g = arrays
    axis = params.axis % g.ndim
    return tuple(along(g, axis, i) if needs is None or needs[i] else None for i in range(len(xs)))


def along(x: Any, axis: int, entry: Cut | int) -> Any:
    """x with one entry of an index, on `axis`."""
    return index_by(x, (*[Cut()] * axis, entry, *[Cut()] * (x.ndim - axis - 1)))


@lru_cache(maxsize=256)
def concatenating(count: int) -> Op:
    """The record for so many arrays."""
    return native_op(
        "concatenate",
        JoinParams,
        _concatenate,
        _concatenate_objects,
        _concatenate_push,
        _concatenate_pull,
        inputs=tuple(f"arrays[{i}]" for i in range(count)),
    )


@lru_cache(maxsize=256)
def stacking(count: int) -> Op:
    """The record for so many arrays."""
    return native_op(
        "stack",
        StackParams,
        _stack,
        _stack_objects,
        _stack_push,
        _stack_pull,
        inputs=tuple(f"arrays[{i}]" for i in range(count)),
    )


CONCATENATE, STACK = concatenating(2), stacking(2)
