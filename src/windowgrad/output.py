"""`out=`: the caller's array that a result is written to. It is checked before any work and written after all checks.

A kernel writes straight into it where that is safe. Elsewhere (another layout, memory shared with an input, a dtype that
is computed in a wider one) the result is computed in a temporary array and copied, so no input is overwritten too early.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from windowgrad.arguments import is_masked
from windowgrad.errors import KindError, OptionError, WindowError, show

Array = np.ndarray[Any, Any]

INDICES = np.dtype(np.int64)


def check(rule: str, out: Any, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
    """Check that `out` can hold the result of a rule: one array, or a pair for values and indices."""
    if rule == "forward":
        check_array("out", out, shape, dtype)
    else:
        if not isinstance(out, (tuple, list)) or len(out) != 2:
            kind = f"{type(out).__name__} of length {len(out)}" if isinstance(out, (tuple, list)) else type(out).__name__
            raise KindError(f"out: must be a pair (values, indices) with return_indices, not {kind}; either may be None")
        for name, array, wanted in zip(("out[0]", "out[1]"), out, (dtype, INDICES), strict=True):
            if array is not None:
                check_array(name, array, shape, wanted)
        if all(array is not None for array in out) and np.may_share_memory(*out):
            raise OptionError("out: its two arrays must not share memory")


def check_array(name: str, array: Any, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
    if is_masked(array):
        raise KindError(f"{name}: must be a plain NumPy array of {dtype}{shape}, not a masked array")
    if not isinstance(array, np.ndarray):
        raise KindError(f"{name}={show(array)}: must be a NumPy array of {dtype}{shape}, not {type(array).__name__}")
    if array.dtype != dtype:
        raise KindError(f"{name} of dtype {array.dtype}: must be {dtype}, the dtype of the result")
    if array.shape != shape:
        raise WindowError(f"{name} of shape {array.shape}: must be {shape}, the shape of the result")
    if not array.flags.writeable:
        raise OptionError(f"{name}: is read-only, must be writable")
    if array.size and any(step == 0 and n > 1 for step, n in zip(array.strides, array.shape, strict=True)):
        raise OptionError(f"{name} with strides {array.strides}: its elements must not overlap in memory")


def room(out: Array | None, arrays: Sequence[Array]) -> Array | None:
    """`out` as a plain array if a kernel may write to it while it reads the arrays: contiguous, no memory shared with them."""
    if out is None or not out.flags.carray or any(np.may_share_memory(out, array) for array in arrays):
        return None
    return np.asarray(out)


def placed(result: Array, out: Array | None) -> Array:
    """The result in `out`: copied, unless it was computed there."""
    if out is None:
        return result
    if not np.may_share_memory(result, out):
        np.copyto(out, result, casting="equiv")
    return out
