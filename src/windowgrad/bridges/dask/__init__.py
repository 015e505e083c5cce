"""Dask arrays: every operator, lazily, on chunks of any size. The result is that of one call on the whole array.

The array operators (`array_ops`) are Dask's own functions around our rules; windows are graphs made here.

Each chunk of a result is one task. It gets the cells its windows see, which may come from several chunks, and computes with
the geometry of that part, so the values are those of the whole. Regions that reach over many chunks are reduced chunk
by chunk, and what is found there is combined in a tree.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import dask.array as da
import numpy as np

from windowgrad.bridges.dask import array_ops, convolution, padding, pooling, sharpness, unpooling
from windowgrad.checks import argument_names, check_array, check_dtype, check_shapes
from windowgrad.errors import KindError, show
from windowgrad.foreign import computes_itself
from windowgrad.params import ConvParams, Params, PoolParams, SharpParams, UnpoolParams
from windowgrad.spec.op import Op


def compute(array: Any, op: Op, rule: str, params: Params, arrays: Sequence[Any], needs: tuple[bool, ...] | None = None) -> Any:
    """One rule of one operator; all is checked now, and computed when it is asked for."""
    names = argument_names(op, rule, len(arrays))
    if not all(isinstance(each, (da.Array, np.ndarray)) for each in arrays):
        for name, each in zip(names, arrays, strict=True):
            if computes_itself(type(each)) is None:  # type: ignore[arg-type]  # mypy holds that a type has no hash
                check_array(name, each)
        return NotImplemented
    for name, each in zip(names, arrays, strict=True):
        check_dtype(name, each.dtype)
        if isinstance(each, np.ndarray):
            check_array(name, each)
        if any(np.isnan(n) for n in each.shape):
            unknown = f"{name}: a Dask array with chunks of unknown sizes, {each.shape}"
            raise KindError(f"{unknown}; call {name}.compute_chunk_sizes()")
    check_shapes(rule, params, names, [(each.shape, each.dtype) for each in arrays], stored=False)
    params = params if any(each.dtype == object for each in arrays) else params.machine()
    params.check_dtypes(*(each.dtype for each in arrays))
    given = [each if isinstance(each, da.Array) else lazily(name, each) for name, each in zip(names, arrays, strict=True)]
    if op.native:
        return array_ops.compute(op, rule, params, given, needs)
    if isinstance(params, SharpParams):
        return sharpness.compute(op, rule, params, given, needs)
    if isinstance(params, PoolParams):
        return pooling.compute(op, rule, params, given)
    if isinstance(params, ConvParams):
        return convolution.compute(op, rule, params, given, needs)
    if isinstance(params, UnpoolParams):
        return unpooling.compute(op, rule, params, given, needs)
    return padding.compute(op, rule, params, given)


def constant(name: str, array: Any) -> Any:
    """Nothing is known of a Dask array before it is computed."""
    raise KindError(f"{name}: must be a NumPy array where x is no Dask array; call {name}.compute()")


def lazily(name: str, array: Any) -> Any:
    """A NumPy array as one chunk."""
    try:
        return da.from_array(array, chunks=-1)  # type: ignore[no-untyped-call]  # Dask has few types
    except (RuntimeError, ValueError, TypeError) as error:  # too many axes, or elements that it cannot name
        raise KindError(f"{name}: Dask cannot hold this array of {array.dtype}: {show(str(error))}") from None
