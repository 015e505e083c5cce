"""Smooth maxima whose β is an array: how the public functions that take `beta` reach the operator that differentiates it."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from windowgrad.errors import KindError
from windowgrad.ops import called
from windowgrad.params import SharpParams
from windowgrad.spec.op import Op

operator = lru_cache(maxsize=32)(lambda label: called("sharp_smooth_max_pool", label))


def is_array(beta: Any) -> bool:
    """Whether β is an array of any kind; NumPy's numbers are numbers."""
    return isinstance(getattr(beta, "shape", None), (tuple, list)) and not isinstance(beta, (np.generic, type))


def sharpened(label: str, params: SharpParams, x: Any, beta: Any, out: Any, where: Any) -> Any:
    for name, given in (("out", out), ("where", where)):
        if given is not None:
            raise KindError(f"{name}: not supported with an array as beta")
    op: Op = operator(label)
    return op.forward(params, x, beta)
