"""Between machine numbers and fractions: exactly one way, correctly rounded the other. And which dtype a result has."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
INTEGERS = [np.dtype(name) for name in ("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")]
FLOATS = [np.dtype(np.float16), BFLOAT16, np.dtype(np.float32), np.dtype(np.float64)]
DTYPES = INTEGERS + FLOATS

PRECISION = {"float16": (11, -14), "bfloat16": (8, -126), "float32": (24, -126), "float64": (53, -1022)}
"""Bits of the significand, and the exponent of the smallest normal number."""


def fractions_of(array: Any) -> Any:
    """The array as exact fractions."""
    kind = float if array.dtype in FLOATS else int
    out = np.empty(array.shape, dtype=object)
    out.reshape(-1)[:] = [Fraction(kind(cell)) for cell in array.flat]
    return out


def nearest(q: Fraction, dtype: np.dtype[Any]) -> Any:
    """The number of a float dtype nearest to q, ties to even. Nothing here overflows."""
    bits, smallest = PRECISION[dtype.name]
    if q == 0:
        return dtype.type(0)
    exponent = math.floor(math.log2(abs(q.numerator)) - math.log2(q.denominator))
    exponent += (abs(q) >= Fraction(2) ** (exponent + 1)) - (abs(q) < Fraction(2) ** exponent)
    quantum = Fraction(2) ** (max(exponent, smallest) - bits + 1)
    return dtype.type(float(round(q / quantum) * quantum))


def rounded(array: Any, dtype: np.dtype[Any]) -> Any:
    """An array of fractions in `dtype`: rounded once for floats; for integers the fractions must be whole."""
    if dtype in FLOATS:
        cells = [nearest(Fraction(cell), dtype) for cell in array.flat]
    else:
        assert all(Fraction(cell).denominator == 1 for cell in array.flat)
        cells = [int(cell) for cell in array.flat]
    return np.array(cells, dtype=dtype).reshape(array.shape)


def same_bits(found: Any, expected: Any) -> bool:
    """The same dtype, shape and bits."""
    return (found.dtype, found.shape, found.tobytes()) == (expected.dtype, expected.shape, expected.tobytes())


# --- the dtype of a result ---------------------------------------------------------------------------------------


def mean_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Floats stay; integers of 8 and 16 bits become float32, longer ones float64."""
    small = ("bool", "int8", "uint8", "int16", "uint16")
    return dtype if dtype in FLOATS else np.dtype("float32" if dtype.name in small else "float64")


def conv_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Integers are summed exactly, 8-bit ones in int32 and the others in int64."""
    return dtype if dtype in FLOATS else np.dtype("int32" if dtype.name in ("bool", "int8", "uint8") else "int64")


def forward_dtype(op: str, dtype: np.dtype[Any]) -> np.dtype[Any]:
    rule = {
        "avg_pool": mean_dtype,
        "smooth_max_pool": mean_dtype,
        "sharp_smooth_max_pool": mean_dtype,
        "lp_pool": mean_dtype,
        "conv": conv_dtype,
        "conv_transpose": conv_dtype,
    }
    return rule.get(op, lambda kept: kept)(dtype)


def derivative_dtype(belongs_to: np.dtype[Any], given: np.dtype[Any]) -> np.dtype[Any]:
    """That of the float it belongs to; beside integers that of the tangent or gradient, as a float."""
    return belongs_to if belongs_to in FLOATS else mean_dtype(given)
