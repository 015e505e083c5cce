"""The dtypes of results, known before anything is computed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from windowgrad.dispatch import result_dtype
from windowgrad.dtypes import derivative_of
from windowgrad.spec.op import Op

DType = np.dtype[Any]


def derivative(primal: DType, *given: DType) -> DType:
    """The dtype of a derivative of `primal`, from those of the tangents or of the gradient."""
    if any(dtype.kind == "O" for dtype in (primal, *given)):
        return np.dtype(object)
    plain = [dtype.newbyteorder("=") for dtype in given]
    return derivative_of(primal.newbyteorder("="), plain[0] if len(plain) == 1 else np.result_type(*plain))


def pushed(op: Op, rule: str, arrays: Sequence[Any]) -> DType:
    """The dtype of a result or of its tangent."""
    dtypes = [each.dtype for each in arrays]
    if rule != "jvp":
        return result_dtype(op, dtypes)
    half = len(dtypes) // 2
    if any(dtype.kind == "O" for dtype in dtypes):
        return np.dtype(object)
    return derivative(result_dtype(op, dtypes[:half]), *dtypes[half:])
