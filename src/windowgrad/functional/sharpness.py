"""Smooth maxima whose β is an array: how the public functions that take `beta` reach the operator that differentiates it."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from windowgrad.arguments import is_masked
from windowgrad.functional.masks import masked
from windowgrad.ops import called
from windowgrad.params import SharpParams
from windowgrad.spec.op import Op

operator = lru_cache(maxsize=32)(lambda label: called("sharp_smooth_max_pool", label))


def is_array(beta: Any) -> bool:
    """Whether β is an array of any kind; NumPy's numbers are numbers."""
    return isinstance(getattr(beta, "shape", None), (tuple, list)) and not isinstance(beta, (np.generic, type))


def sharpened(label: str, params: SharpParams, x: Any, beta: Any, out: Any, where: Any) -> Any:
    op: Op = operator(label)
    if where is not None or is_masked(x):
        return masked(op, params, x, where, out, False, beta)
    return op.forward(params, x, beta) if out is None else op.forward(params, x, beta, out=out)
