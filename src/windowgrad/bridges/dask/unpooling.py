"""Max unpooling on Dask arrays: block by block along the leading axes, with whole planes in each block.

An index may point anywhere in its plane, so planes are not cut.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import dask.array as da
import numpy as np

from windowgrad.bridges.dask.kinds import derivative
from windowgrad.dispatch import result_dtype, run
from windowgrad.ops import meaning
from windowgrad.params import UnpoolParams
from windowgrad.spec.op import Op


def compute(op: Op, rule: str, params: UnpoolParams, arrays: Sequence[Any], needs: Sequence[bool] | None) -> Any:
    rank = params.window.rank
    x, indices, *rest = arrays
    lead = x.ndim - rank
    shape = params.out_shape(x.shape, indices.shape)
    planes = {lead + axis: -1 for axis in range(rank)}
    chunks = x.rechunk(planes).chunks
    cut = [each.rechunk((*chunks[:lead], *each.shape[lead:])) for each in (x, indices, *rest)]
    if rule == "vjp":
        wanted = (True, True) if needs is None else needs
        dtype = derivative(x.dtype, rest[0].dtype)
        gx = blocks(op, rule, params, cut, dtype, chunks)
        still = da.zeros(indices.shape, dtype=derivative(np.dtype(bool), rest[0].dtype), chunks=indices.chunks)
        return tuple(g if need else None for g, need in zip((gx, still), wanted, strict=True))
    dtype = result_dtype(op, [x.dtype, indices.dtype]) if rule == "forward" else derivative(x.dtype, rest[0].dtype)
    grown = (*chunks[:lead], *((n,) for n in shape[lead:]))
    return blocks(op, rule, params, cut, dtype, grown)


def blocks(op: Op, rule: str, params: UnpoolParams, cut: Sequence[Any], dtype: Any, chunks: Any) -> Any:
    options = {"op": op.name, "rule": rule, "params": params, "dtype": dtype, "chunks": chunks}
    return da.map_blocks(block, *cut, **options)  # type: ignore[no-untyped-call]


def block(*arrays: Any, op: str, rule: str, params: UnpoolParams) -> Any:
    """One rule on the planes of a block; of a vjp the gradient of x."""
    found = run(meaning(op), rule, params, *arrays, needs=(True, False) if rule == "vjp" else None)
    return found[0] if rule == "vjp" else found
