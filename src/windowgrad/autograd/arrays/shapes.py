"""The same elements under another shape. Results share memory with their inputs where NumPy's do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from windowgrad.autograd.arrays.operands import operand
from windowgrad.autograd.arrays.records import FlattenParams, PermuteParams, ReshapeParams
from windowgrad.autograd.arrays.rules import Array, native_op
from windowgrad.dispatch import run
from windowgrad.errors import WindowgradError
from windowgrad.functional.call import show_call
from windowgrad.functional.remember import remember
from windowgrad.params import Params

A = TypeVar("A")


def reshape(x: A, shape: int | Sequence[int]) -> A:
    """The same elements in row-major order with another `shape`; one entry of it may be −1, which is inferred."""
    try:
        y: A = run(RESHAPE, "forward", reshaping(shape), operand(x))
        return y
    except WindowgradError as error:
        show_call(error, reshape, locals())
        raise


def flatten(x: A, start_axis: int = 1) -> A:
    """All axes from `start_axis` on flattened into one; by default all but the first, the batch."""
    try:
        y: A = run(FLATTEN, "forward", flattening(start_axis), operand(x))
        return y
    except WindowgradError as error:
        show_call(error, flatten, locals())
        raise


def transpose(x: A, axes: Sequence[int] | None = None) -> A:
    """The axes in the order of `axes`, or reversed."""
    try:
        y: A = run(TRANSPOSE, "forward", permuting(axes), operand(x))
        return y
    except WindowgradError as error:
        show_call(error, transpose, locals())
        raise


reshaping, flattening, permuting = remember(ReshapeParams), remember(FlattenParams), remember(PermuteParams)


# --- rules -------------------------------------------------------------------------------------------------------


def _reshape(params: Params, x: Array) -> Array:
    return x.reshape(params.out_shape(x.shape))


def _reshape_push(params: ReshapeParams, x: Any, dx: Any) -> Any:
    return reshape(dx, params.shape)


def _reshape_pull(params: Params, x: Any, g: Any) -> tuple[Any]:
    return (reshape(g, x.shape),)


def _flatten_push(params: FlattenParams, x: Any, dx: Any) -> Any:
    return flatten(dx, params.start_axis)


def _transpose(params: PermuteParams, x: Array) -> Array:
    return x.transpose(params.axes)


def _transpose_push(params: PermuteParams, x: Any, dx: Any) -> Any:
    return transpose(dx, params.axes)


def _transpose_pull(params: PermuteParams, x: Any, g: Any) -> tuple[Any]:
    order = params.order(x.shape)
    return (transpose(g, tuple(map(order.index, range(len(order))))),)


RESHAPE = native_op("reshape", ReshapeParams, _reshape, _reshape, _reshape_push, _reshape_pull, linear=True)
FLATTEN = native_op("flatten", FlattenParams, _reshape, _reshape, _flatten_push, _reshape_pull, linear=True)
TRANSPOSE = native_op("transpose", PermuteParams, _transpose, _transpose, _transpose_push, _transpose_pull, linear=True)
