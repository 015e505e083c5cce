"""Sum and mean. Floats of 16 bits are summed in float32."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np

from windowgrad.autograd.arrays.arithmetic import divide, shaped
from windowgrad.autograd.arrays.operands import operand
from windowgrad.autograd.arrays.records import ReduceParams
from windowgrad.autograd.arrays.rules import Array, added, cast, native_op, repeated_like, total
from windowgrad.dispatch import run
from windowgrad.dtypes import float_of, is_float
from windowgrad.errors import WindowError, WindowgradError
from windowgrad.functional.call import show_call
from windowgrad.functional.remember import remember
from windowgrad.spec import scalar

A = TypeVar("A")


def sum(x: A, axis: int | Sequence[int] | None = None, keepdims: bool = False) -> A:  # noqa: A001  # NumPy's name for it
    """The sum over `axis`, over several axes, or over all. Integers are summed in 64 bits."""
    try:
        y: A = run(SUM, "forward", reduction(axis, keepdims), operand(x))
        return y
    except WindowgradError as error:
        show_call(error, sum, locals())
        raise


def mean(x: A, axis: int | Sequence[int] | None = None, keepdims: bool = False) -> A:
    """The mean over `axis`, over several axes, or over all. Integers give float64, those of 8 and 16 bits float32.

    The mean of no cells is NaN, and an error where there is no NaN: over objects.
    """
    try:
        y: A = run(MEAN, "forward", reduction(axis, keepdims), operand(x))
        return y
    except WindowgradError as error:
        show_call(error, mean, locals())
        raise


reduction = remember(ReduceParams)


def divided(x: Any, count: int) -> Any:
    """x ÷ count. A count may be beyond float16, so 16 bits are divided in float32."""
    if x.dtype.itemsize > 2 or not is_float(x.dtype):
        return divide(x, count)
    return cast(divide(cast(x, np.dtype(np.float32)), count), x.dtype)


# --- rules -------------------------------------------------------------------------------------------------------


def _sum(params: ReduceParams, x: Array) -> Any:
    return total(x, params.axes(x.shape), params.keepdims)


def _sum_push(params: ReduceParams, x: Any, dx: Any) -> Any:
    return sum(dx, params.axis, params.keepdims)


def _sum_pull(params: ReduceParams, x: Any, g: Any) -> tuple[Any]:
    return (repeated_like(shaped(g, params.kept(x.shape)), x),)


def averaged(x: Array, axes: tuple[int, ...], keepdims: bool, count: int) -> Any:
    """The sum in a float that holds it, divided, in the dtype that a mean has."""
    dtype = float_of(x.dtype)
    wide = np.float32 if dtype.itemsize == 2 else dtype if is_float(x.dtype) else np.float64
    y = added(x, axis=axes, keepdims=keepdims, dtype=wide)
    return np.asarray(y / np.asarray(count, dtype=wide), dtype=dtype)


def averaged_objects(x: Array, axes: tuple[int, ...], keepdims: bool, count: int) -> Any:
    y = added(x, axis=axes, keepdims=keepdims)
    if not count and np.size(y):
        raise WindowError(f"x of shape {x.shape}: mean of an empty array of objects")
    return np.frompyfunc(scalar.divide, 2, 1)(y, count)


def _mean(params: ReduceParams, x: Array) -> Any:
    return averaged(x, params.axes(x.shape), params.keepdims, params.count(x.shape))


def _mean_objects(params: ReduceParams, x: Array) -> Any:
    return averaged_objects(x, params.axes(x.shape), params.keepdims, params.count(x.shape))


def _mean_push(params: ReduceParams, x: Any, dx: Any) -> Any:
    return mean(dx, params.axis, params.keepdims)


def _mean_pull(params: ReduceParams, x: Any, g: Any) -> tuple[Any]:
    return (repeated_like(shaped(divided(g, params.count(x.shape)), params.kept(x.shape)), x),)


SUM = native_op("sum", ReduceParams, _sum, _sum, _sum_push, _sum_pull, linear=True)
MEAN = native_op("mean", ReduceParams, _mean, _mean_objects, _mean_push, _mean_pull, linear=True)
