"""The peak memory of a call, estimated before any work: its results, and copies of arrays that kernels cannot read.

A kernel reads contiguous arrays of a dtype it computes with. Any other array (a strided view, a `broadcast_to` of any size,
float16, an integer dtype) is copied: as a whole, or by the pooling operators one block at a time.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from windowgrad.kernels.pool.sections import sides_of
from windowgrad.memory import refuse_peak
from windowgrad.params import MaxParams, Params, PoolParams, Shape, SmoothParams

Array = np.ndarray[Any, Any]

LEAST = 1 << 22
"""A call with fewer cells is not checked."""

BLOCK = 1 << 22
"""Cells a pooling kernel copies at a time, unless one window has more."""


def refuse(
    rule: str, params: Params, names: Sequence[str], arrays: Sequence[Array], result: np.dtype[Any], copies_x: bool = False
) -> None:
    """Raise an error if a call needs more memory than this machine has; `result` is the output's dtype.

    `copies_x`: the kernels of the operator make a copy of x besides.
    """
    needs = outputs(rule, params, names, arrays, result)
    for name, array in zip(names, arrays, strict=True):
        whole = array.size * array.itemsize if copies_x and name == "x" else 0
        if size := whole + copied(rule, params, arrays[0].shape, array, result):
            needs[f"a copy of {name}"] = size
    refuse_peak(needs)


def outputs(rule: str, params: Params, names: Sequence[str], arrays: Sequence[Array], result: np.dtype[Any]) -> dict[str, int]:
    """The bytes of what a rule returns."""
    if rule == "vjp":
        inputs = zip(names[:-1], arrays[:-1], strict=True)
        return {f"the gradient of {name}": array.size * max(array.itemsize, 4) for name, array in inputs}
    inputs_of = arrays[: len(arrays) // 2] if rule == "jvp" else arrays
    size = math.prod(params.out_shape(*(array.shape for array in inputs_of)))
    saved = 8 if isinstance(params, SmoothParams) else 1
    return {"the output": size * (result.itemsize + {"with_indices": 8, "saving": saved}.get(rule, 0))}


def copied(rule: str, params: Params, shape: Shape, array: Array, result: np.dtype[Any]) -> int:
    """The bytes of the copy made of one of the arrays of a call, of which the first, the input of a pooling, has this shape."""
    width = width_in_copy(rule, params, array.dtype, result)
    if array.flags.c_contiguous and array.itemsize == width:
        return 0
    most = at_once(params, shape)
    return (array.size if most is None else min(array.size, most)) * width


def width_in_copy(rule: str, params: Params, dtype: np.dtype[Any], result: np.dtype[Any]) -> int:
    """The bytes of a cell as kernels read it: if they are those of the dtype, a contiguous array is not copied."""
    if rule == "forward" and isinstance(params, MaxParams):  # these are compared as they are
        return dtype.itemsize * (1 if dtype.itemsize in (1, 8) or dtype.name in ("int32", "float32") else 2)
    return max(4, dtype.itemsize, result.itemsize)


def at_once(params: Params, shape: Shape) -> int | None:
    """The most cells of an array that are copied at a time, None for all; `shape` is that of the input of a pooling."""
    if not isinstance(params, PoolParams):
        return None
    _, spatial = params.geometry.split(shape)
    sides = sides_of(params.geometry, spatial)
    return None if sides is None else max(BLOCK, math.prod(side.reach(1) for side in sides))
