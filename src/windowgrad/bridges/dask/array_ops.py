"""The array operators (arithmetic, sums, shapes, matmul, losses) on Dask arrays, lazily, by Dask's own functions.

Blocks are computed by the operator's own forward rule where a block needs nothing of its neighbours, so their cells are those
of a NumPy array, bit for bit. Sums are taken chunk by chunk, as NumPy takes them, and combined in float64. The other rules of
these operators are written with the operators themselves, so they are lazy too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import dask.array as da
import numpy as np
from dask.base import tokenize

from windowgrad.bridges.dask.extremes import best, split
from windowgrad.bridges.dask.indexing import indexed, scattered
from windowgrad.dispatch import asked
from windowgrad.dtypes import float_of, is_float, native
from windowgrad.errors import WindowError
from windowgrad.spec.op import Op
from windowgrad.spec.scalar import divide

Array = Any
"""A Dask array; Dask has few types."""
da_: Any = da
Axes = tuple[int, ...]


def compute(op: Op, rule: str, params: Any, arrays: Sequence[Array], needs: Sequence[bool] | None = None) -> Any:
    if rule != "forward":
        return asked(getattr(op, rule), params, *arrays, needs=needs)
    if op.composed is not None:
        return op.composed(params, *arrays)
    forward: Callable[..., Array] = FORWARD.get(op.name, cellwise)
    return forward(op, params, *map(plain, arrays))


def plain(x: Array) -> Array:
    """In this machine's byte order, and without empty chunks: Dask's broadcasting takes the first of an axis of length 1."""
    sizes = tuple(tuple(filter(None, each)) or (0,) for each in x.chunks)
    x = x if x.dtype.isnative else x.astype(x.dtype.newbyteorder("="))
    return x if sizes == x.chunks else x.rechunk(sizes)


# --- blocks ------------------------------------------------------------------------------------------------------


@np.errstate(all="ignore")
def block(function: Callable[..., Any], *blocks: Any) -> Any:
    """What runs on a worker. NaN and infinity are results, not warnings; a block without axes may have become a scalar."""
    return np.asarray(function(*(native(np.asarray(each)) for each in blocks)))


def result_dtype(op: Op, params: Any, arrays: Sequence[Array]) -> np.dtype[Any]:
    """The dtype of the result: that of the rule on arrays of the same dtypes with one cell each."""
    if any(x.dtype == object for x in arrays):
        return np.dtype(object)
    small = [np.zeros((1,) * x.ndim, x.dtype) for x in arrays]
    dtype: np.dtype[Any] = block(partial(op.forward, params), *small).dtype
    return dtype


def blockwise(op: Op, params: Any, out: Axes, arrays: Sequence[tuple[Array, Axes]], new: dict[int, int] | None = None) -> Array:
    """The forward rule on blocks whose axes are named by numbers; an axis of length 1 is broadcast."""
    given = [x for x, _ in arrays]
    dtype = result_dtype(op, params, given)
    return da_.blockwise(
        partial(block, partial(op.forward, params)),
        out,
        *(each for pair in arrays for each in pair),
        name=f"{op.name}-{tokenize(op.name, params, dtype, [x.name for x in given])}",
        new_axes=new or {},
        concatenate=True,
        meta=np.empty((0,) * len(out), dtype),
    )


def named(ndim: int) -> Axes:
    """Names of axes: counted from the end, so that arrays of fewer axes are aligned there. Others are 0, 1 and so on."""
    return tuple(range(-ndim, 0))


def cellwise(op: Op, params: Any, *arrays: Array) -> Array:
    """Cell by cell, of arrays that are broadcast together."""
    rank = max(x.ndim for x in arrays)
    return blockwise(op, params, named(rank), [(x, named(x.ndim)) for x in arrays])


def whole(x: Array, *axes: int) -> Array:
    """The same array in one chunk along these axes."""
    return x.rechunk({axis % x.ndim: -1 for axis in axes}) if x.ndim else x


# --- sums --------------------------------------------------------------------------------------------------------


def wide_of(dtype: np.dtype[Any], is_mean: bool) -> Any:
    """In what a chunk is summed: floats of 16 bits in float32, integers for a mean in float64, all others as NumPy does."""
    if is_float(dtype):
        return np.float32 if dtype.itemsize == 2 else None
    return np.float64 if is_mean and dtype.kind != "O" else None


def part(wide: Any, x: Any, axis: Any, keepdims: bool) -> Any:
    return block(partial(np.add.reduce, axis=axis, keepdims=keepdims, dtype=wide), x)


def combined(parts: Any, axis: Any, keepdims: bool) -> Any:
    """Parts are added in float64 if they are floats."""
    wide = np.float64 if is_float(parts.dtype) else None
    return block(partial(np.add.reduce, axis=axis, keepdims=keepdims, dtype=wide), parts)


@np.errstate(all="ignore")
def settled(count: int | None, kind: Any, parts: Any, axis: Any, keepdims: bool) -> Any:
    """The last step: all parts together, divided by `count` if it is a mean, and rounded once to the dtype `kind`."""
    y = combined(parts, axis, keepdims)
    if count is not None:
        y = np.frompyfunc(divide, 2, 1)(y, count) if kind == np.dtype(object) else y / np.float64(count)
    return np.asarray(y, dtype=kind)


def added_up(x: Array, axes: tuple[int, ...], keepdims: bool, count: int | None, dtype: Any) -> Array:
    if not axes:
        return x.map_blocks(partial(settled, count, dtype, axis=(), keepdims=keepdims), dtype=dtype)
    first, last = partial(part, wide_of(x.dtype, count is not None)), partial(settled, count, dtype)
    return da_.reduction(x, first, last, combine=combined, axis=axes, keepdims=keepdims, dtype=dtype, concatenate=True)


def reduced(is_mean: bool, op: Op, params: Any, x: Array) -> Array:
    """Sum and mean."""
    count = params.count(x.shape) if is_mean else None
    if count == 0 and x.dtype == object:
        raise WindowError(f"x of shape {x.shape}: mean of an empty array of objects")
    return added_up(x, params.axes(x.shape), params.keepdims, count, result_dtype(op, params, [x]))


def sum_to(op: Op, params: Any, x: Array) -> Array:
    """What was repeated to the shape of x is summed."""
    new = x.ndim - len(params.shape)
    axes = tuple(axis for axis, n in enumerate(x.shape) if axis < new or (n != 1 and params.shape[axis - new] == 1))
    summed: Any = np.add.reduce(np.zeros(1, x.dtype))
    y = added_up(x, axes, True, None, x.dtype if x.dtype == object else summed.dtype)
    return y[(0,) * new] if new else y


def in_one_chunk(op: Op, params: Any, x: Array, dx: Array, axes: Axes) -> Array:
    """Two arrays of one shape by the rule itself, with `axes` in one chunk."""
    return cellwise(op, params, whole(x, *axes), whole(dx, *axes))


# --- shapes ------------------------------------------------------------------------------------------------------


def reshaped(op: Op, params: Any, x: Array) -> Array:
    shape = params.out_shape(x.shape)
    try:
        return x.reshape(shape)
    except NotImplementedError:  # neither shape's axes are products of the other's
        return x.reshape(-1).reshape(shape)


def transposed(op: Op, params: Any, x: Array) -> Array:
    return x.transpose(params.order(x.shape))


def repeated(op: Op, params: Any, x: Array) -> Array:
    """Cut as it is asked for; else axes that are as they were keep their chunks, and others are cut by Dask's own measure."""
    new, shape = len(params.shape) - x.ndim, params.shape
    kept = {axis: axis - new for axis, n in enumerate(shape) if axis >= new and x.shape[axis - new] == n}
    if params.chunks is not None:
        return da_.broadcast_to(x.rechunk({own: params.chunks[axis] for axis, own in kept.items()}), shape, params.chunks)
    wanted = tuple(x.chunks[kept[axis]] if axis in kept else "auto" for axis in range(len(shape)))
    return da_.broadcast_to(x, shape, da_.core.normalize_chunks(wanted, shape=shape, dtype=x.dtype))


# --- matrices, rows ----------------------------------------------------------------------------------------------


def multiplied(op: Op, params: Any, a: Array, b: Array) -> Array:
    """Products of blocks, which are added up; floats of 16 bits as float32."""
    dtype = result_dtype(op, params, [a, b])
    wide = np.dtype(np.float32) if is_float(dtype) and dtype.itemsize == 2 else dtype
    rows, columns = a[None, :] if a.ndim == 1 else a, b[:, None] if b.ndim == 1 else b
    lead = max(rows.ndim, columns.ndim) - 2
    products = da_.blockwise(
        partial(block, partial(product, wide)),
        (*named(lead), 0, 1, 2),
        *(rows, (*named(rows.ndim - 2), 0, 1), columns, (*named(columns.ndim - 2), 1, 2)),
        adjust_chunks={1: 1},
        name=f"{op.name}-{tokenize(op.name, dtype, rows.name, columns.name)}",
        meta=np.empty((0,) * (lead + 3), wide),
    )
    y = added_up(products, (lead + 1,), False, None, dtype)
    return y[(..., *(0 if x.ndim == 1 else slice(None) for x in (a, b)))]


def product(wide: Any, a: Any, b: Any) -> Any:
    """With an axis for the blocks that are added up."""
    return np.matmul(a.astype(wide, copy=False), b.astype(wide, copy=False))[..., None, :]


def concatenated(op: Op, params: Any, *arrays: Array) -> Array:
    return da_.concatenate(alike(op, params, arrays), axis=params.axis)


def stacked(op: Op, params: Any, *arrays: Array) -> Array:
    return da_.stack(alike(op, params, arrays), axis=params.axis)


def alike(op: Op, params: Any, arrays: Sequence[Array]) -> list[Array]:
    dtype = result_dtype(op, params, arrays)
    return [x.astype(dtype) for x in arrays]


def softmax(op: Op, params: Any, x: Array) -> Array:
    """Softmax or its logarithm: along an axis of one chunk by the rule itself; else a row is reduced chunk by chunk."""
    axis = params.axis % x.ndim
    if x.dtype == object or x.numblocks[axis] == 1 or not x.size:
        return cellwise(op, params, whole(x, axis))
    dtype = float_of(x.dtype)
    wide = x.astype(np.float32 if dtype.itemsize == 2 else dtype)
    top = da_.reduction(wide, greatest, greatest, axis=axis, keepdims=True, dtype=wide.dtype, concatenate=True)
    rest = da_.map_blocks(minus, wide, top, dtype=wide.dtype)
    weights = da_.map_blocks(exponential, rest, dtype=wide.dtype)
    sums = added_up(weights, (axis,), True, None, wide.dtype)
    if op.name == "softmax":
        return da_.map_blocks(quotient, weights, sums, dtype=wide.dtype).astype(dtype)
    return da_.map_blocks(normal, rest, sums, dtype=wide.dtype).astype(dtype)


def greatest(x: Any, axis: Any, keepdims: bool) -> Any:
    return np.max(x, axis=axis, keepdims=keepdims, initial=-np.inf)


@np.errstate(all="ignore")
def minus(x: Any, y: Any) -> Any:
    return x - y


@np.errstate(all="ignore")
def exponential(x: Any) -> Any:
    return np.exp(x)


@np.errstate(all="ignore")
def normal(rest: Any, sums: Any) -> Any:
    return rest - np.log(sums)


@np.errstate(all="ignore")
def quotient(weights: Any, sums: Any) -> Any:
    return weights / sums


def picked(op: Op, params: Any, x: Array, labels: Array) -> Array:
    """From each row the cell of its label; rows are brought together. A wrong label is found out when it is computed."""
    rows = named(labels.ndim)
    return blockwise(op, params, rows, [(whole(x, -1), (*rows, 0)), (labels, rows)])


def placed(op: Op, params: Any, x: Array, labels: Array) -> Array:
    rows = named(x.ndim)
    return blockwise(op, params, (*rows, 0), [(x, rows), (labels, rows)], {0: params.classes})


FORWARD: dict[str, Callable[..., Array]] = {
    "sum": partial(reduced, False),
    "mean": partial(reduced, True),
    "max": best,
    "min": best,
    "split": partial(split, in_one_chunk),
    "sum_to": sum_to,
    "broadcast_to": repeated,
    "reshape": reshaped,
    "flatten": reshaped,
    "transpose": transposed,
    "matmul": multiplied,
    "concatenate": concatenated,
    "stack": stacked,
    "index": indexed,
    "scatter": scattered,
    "softmax": softmax,
    "log_softmax": softmax,
    "pick": picked,
    "place": placed,
}
"""Operators that are not computed cell by cell."""
