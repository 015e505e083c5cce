"""Pooling of the cells that a mask leaves: `where` of the public functions, and NumPy's masked arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from windowgrad.arguments import is_masked
from windowgrad.errors import KindError
from windowgrad.foreign import constant, is_lazy
from windowgrad.ops import OPS
from windowgrad.params import Mask, MaxParams, PoolParams
from windowgrad.spec.op import Op


def masked(op: Op, params: PoolParams, x: Any, where: Any, out: Any, return_indices: bool, *more: Any) -> Any:
    """The result over the cells where `where` is True and x, if it is a masked array, is not masked; `more` arrays beside x.

    Of a masked array it is one too, masked where a window has no cell left.
    """
    if not is_masked(x):
        return pooled(op, params.masked_by(as_mask(where, x)), (x, *more), out, return_indices)
    if out is not None:
        raise KindError("out: not supported with a masked array")
    there = ~np.ma.getmaskarray(x)
    left = there if where is None else there & as_mask(where, x).over(x.shape)
    result = pooled(op, params.masked_by(Mask(left)), (x.data, *more), None, return_indices)
    nothing = ~some_left(params, left)
    if return_indices:
        y, index = result
        return np.ma.MaskedArray(y, mask=nothing), np.ma.MaskedArray(index, mask=nothing)
    return np.ma.MaskedArray(result, mask=nothing)


def as_mask(where: Any, x: Any) -> Mask:
    """The mask of x; of an array that is not NumPy's a copy, for derivatives and programs that outlive the call."""
    if isinstance(where, (bool, np.bool_)):
        where = np.asarray(where)
    if is_lazy(type(where)) and type(where) is type(untraced(x)):
        return Mask(where, lazy=True)
    array = constant("where", where)
    if isinstance(array, Mask):
        return array
    keeps = isinstance(array, np.ndarray) and array is where and type(x) is not np.ndarray
    return Mask(array.copy() if keeps else array)


def untraced(x: Any) -> Any:
    """The array that a traced value is made of."""
    while hasattr(type(x), "__windowgrad__") and hasattr(x, "value"):
        x = x.value
    return x


def pooled(op: Op, params: PoolParams, arrays: Sequence[Any], out: Any, return_indices: bool) -> Any:
    rule = op.with_indices if return_indices and op.with_indices is not None else op.forward
    return rule(params, *arrays) if out is None else rule(params, *arrays, out=out)


def some_left(params: PoolParams, left: Any) -> Any:
    """Whether each window has a cell that is left."""
    return OPS["max_pool"].forward(MaxParams(params.geometry), left)
