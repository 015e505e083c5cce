"""Padding and its adjoint on Dask arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import dask.array as da

from windowgrad.bridges.dask.kinds import derivative
from windowgrad.dispatch import facts_of
from windowgrad.spec.op import Op


def compute(op: Op, rule: str, params: Any, arrays: Sequence[Any]) -> Any:
    x, changed = arrays[0], arrays[-1]
    grows = facts_of(op).grows == (rule != "vjp")
    if rule != "forward":
        changed = changed.astype(derivative(x.dtype, changed.dtype))
    widths = ((0, 0),) * (x.ndim - len(params.padding)) + params.padding
    result = (
        da.pad(changed, widths)
        if grows
        else changed[tuple(slice(lo, n - hi) for n, (lo, hi) in zip(changed.shape, widths, strict=True))]
    )
    return (result,) if rule == "vjp" else result
