"""Pooling of the cells that a mask leaves: `where` of the public functions, and NumPy's masked arrays."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from windowgrad.arguments import is_masked
from windowgrad.dispatch import constant
from windowgrad.errors import KindError
from windowgrad.ops import OPS
from windowgrad.params import Mask, MaxParams, PoolParams
from windowgrad.spec.op import Op


def masked(op: Op, params: PoolParams, x: Any, where: Any, out: Any, return_indices: bool) -> Any:
    """The result over the cells where `where` is True and x, if it is a masked array, is not masked.

    Of a masked array it is one too, masked where a window has no cell left.
    """
    if not is_masked(x):
        return pooled(op, replace(params, where=as_mask(where, keeps=type(x) is not np.ndarray)), x, out, return_indices)
    if out is not None:
        raise KindError("out: not supported with a masked array")
    there = ~np.ma.getmaskarray(x)
    left = there if where is None else there & as_mask(where).over(x.shape)
    result = pooled(op, replace(params, where=Mask(left)), x.data, None, return_indices)
    nothing = ~some_left(params, left)
    if return_indices:
        y, index = result
        return np.ma.MaskedArray(y, mask=nothing), np.ma.MaskedArray(index, mask=nothing)
    return np.ma.MaskedArray(result, mask=nothing)


def as_mask(where: Any, keeps: bool = False) -> Mask:
    """The mask; one that is its own copy if the call `keeps` it, for derivatives and programs that outlive the call."""
    if isinstance(where, (bool, np.bool_)):
        where = np.asarray(where)
    array = constant("where", where)
    return Mask(array.copy() if keeps and isinstance(where, np.ndarray) else array)


def pooled(op: Op, params: PoolParams, x: Any, out: Any, return_indices: bool) -> Any:
    rule = op.with_indices if return_indices and op.with_indices is not None else op.forward
    return rule(params, x) if out is None else rule(params, x, out=out)


def some_left(params: PoolParams, left: Any) -> Any:
    """Whether each window has a cell that is left."""
    return OPS["max_pool"].forward(MaxParams(params.geometry), left)
