"""Smooth maxima with β as an array, on Dask arrays: block by block along the leading axes, with whole planes in each block.

The gradient of β is the sum of those of the blocks, in their order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import dask.array as da
import numpy as np

from windowgrad.bridges.dask.kinds import derivative, pushed
from windowgrad.dispatch import run
from windowgrad.ops import meaning
from windowgrad.params import Mask, SharpParams
from windowgrad.spec.op import Op

da_: Any = da  # Dask has few types


def compute(op: Op, rule: str, params: SharpParams, arrays: Sequence[Any], needs: Sequence[bool] | None) -> Any:
    x, beta = arrays[:2]
    lead = x.ndim - params.geometry.rank
    chunks = x.rechunk(dict.fromkeys(range(lead, x.ndim), -1)).chunks
    out = params.out_shape(x.shape, beta.shape)
    inside, outside = tuple(range(x.ndim)), tuple(range(lead)) + tuple(range(x.ndim, x.ndim + len(out) - lead))
    numbers = (lead - 1,) if beta.ndim else ()
    new = dict(zip(outside[lead:], out[lead:], strict=True))
    x = x.rechunk(chunks)
    beta = beta.rechunk((chunks[lead - 1],) if beta.ndim else ())
    known = [x, inside, beta, numbers]
    if params.where is not None:  # its part of a block comes last of what is known
        mask = da_.broadcast_to(da_.asarray(params.where.array), x.shape).rechunk(chunks)
        known, params = [*known, mask, inside], replace(params, where=None)
    if rule == "vjp":
        g = arrays[2].rechunk((*chunks[:lead], *out[lead:]))
        by_x, by_beta = (True, True) if needs is None else needs
        gx = gb = None
        if by_x:
            dtype = derivative(x.dtype, g.dtype)
            pull = partial(block, op.name, rule, params, len(known) > 4, 0)
            gx = blocks(pull, inside, *known, g, outside, dtype=dtype, concatenate=True)
        if by_beta:
            gb = total(op, params, lead, known, (g, outside), derivative(beta.dtype, g.dtype))
        return gx, gb
    rest: list[Any] = []
    if rule == "jvp":
        rest = [arrays[2].rechunk(chunks), inside, arrays[3].rechunk(beta.chunks), numbers]
    function, dtype = partial(block, op.name, rule, params, len(known) > 4, None), pushed(op, rule, arrays)
    return blocks(function, outside, *known, *rest, new_axes=new, dtype=dtype, concatenate=True)


def blocks(*given: Any, **options: Any) -> Any:
    return da.blockwise(*given, **options)  # type: ignore[no-untyped-call]


def total(op: Op, params: SharpParams, lead: int, known: list[Any], given: tuple[Any, Any], dtype: Any) -> Any:
    """The gradient of β: one row of sums for each block, added."""
    beta = known[2]
    pull = partial(block, op.name, "vjp", params, len(known) > 4, 1, lead)
    rows = blocks(
        pull,
        tuple(range(lead)),
        *known,
        *given,
        dtype=dtype if dtype.kind == "O" else np.float64,
        concatenate=True,
        adjust_chunks={axis: lambda _: 1 for axis in range(lead - (1 if beta.ndim else 0))},
    )
    return rows.sum(axis=tuple(range(lead - (1 if beta.ndim else 0)))).astype(dtype)


def block(name: str, rule: str, params: SharpParams, has_mask: bool, place: int | None, *arrays: Any) -> Any:
    """One rule on the planes of a block; of a vjp the gradient at `place`, with an axis of length 1 for each that is summed."""
    given = list(arrays[1:] if place == 1 else arrays)
    if has_mask:
        params = replace(params, where=Mask(given.pop(2)))
    if place != 1:
        found = run(meaning(name), rule, params, *given, needs=None if place is None else (True, False))
        return found if place is None else found[0]
    wide = [each if each.dtype == object else each.astype(np.float64) for each in given]
    found = run(meaning(name), rule, params, *wide, needs=(False, True))[1]
    return found.reshape((1,) * (arrays[0] - found.ndim) + found.shape)
