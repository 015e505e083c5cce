"""Maximum and minimum of Dask arrays along axes, chunk by chunk, and the even split of a derivative among the winners."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import dask.array as da
import numpy as np

from windowgrad.dtypes import float_of, is_float
from windowgrad.spec.op import Op

Array = Any
"""A Dask array; Dask has few types."""
da_: Any = da


def best(op: Op, params: Any, x: Array) -> Array:
    """The winners of the chunks, and of those the winner by the same rule."""
    if not x.size:
        return da_.zeros(params.out_shape(x.shape), dtype=x.dtype)
    rule = partial(best_block, op, params)
    return da_.reduction(
        x, rule, rule, combine=rule, axis=params.axes(x.shape), keepdims=params.keepdims, dtype=x.dtype, concatenate=True
    )


def best_block(op: Op, params: Any, x: Any, axis: Any, keepdims: bool) -> Any:
    return op.forward(replace(params, axis=axis, keepdims=keepdims), np.asarray(x))


def split(whole_axes: Callable[..., Array], op: Op, params: Any, x: Array, dx: Array) -> Array:
    """The greatest, who equals it, how many do, and an even part of dx for each. Objects along `axis` are one chunk."""
    axes = params.reduce.axes(x.shape)
    if x.dtype == object or dx.dtype == object or not x.size or not axes:
        return whole_axes(op, params, x, dx, axes)
    reduce: Any = np.max if params.own == "max" else np.min
    top = da_.reduction(x, reduce, reduce, axis=axes, keepdims=True, dtype=x.dtype, concatenate=True)
    winners = together(ties, np.dtype(bool), x, top)
    count = da_.reduction(winners, count_true, np.sum, axis=axes, keepdims=True, dtype=np.int64, concatenate=True)
    return together(shared, float_of(dx.dtype), winners, count, dx)


def together(function: Callable[..., Any], dtype: np.dtype[Any], *arrays: Array) -> Array:
    """Block by block, of arrays that are broadcast together."""
    names = tuple(range(arrays[0].ndim))
    given = [each for x in arrays for each in (x, names)]
    return da_.blockwise(function, names, *given, dtype=dtype, meta=np.empty((0,) * len(names), dtype))


def ties(x: Any, top: Any) -> Any:
    return np.asarray((x == top) | ((x != x) & (top != top)))


def count_true(x: Any, axis: Any, keepdims: bool) -> Any:
    return np.sum(x, axis=axis, keepdims=keepdims, dtype=np.int64)


def shared(winners: Any, count: Any, dx: Any) -> Any:
    dtype = float_of(dx.dtype)
    wide = np.float32 if is_float(dtype) and dtype.itemsize == 2 else dtype
    part = np.asarray(dx, wide) / np.asarray(count, wide)
    return np.where(winners, np.asarray(part, dtype), np.zeros((), dtype))
