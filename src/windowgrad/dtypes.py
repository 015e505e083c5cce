"""Which NumPy dtypes are supported, which dtype sums are computed in, and the dtype of results."""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np

from windowgrad.errors import KindError, OptionError, show

DType = np.dtype[Any]


def is_float(dtype: DType) -> bool:
    return dtype.type in (np.float16, np.float32, np.float64) or dtype.name == "bfloat16"


def is_half(dtype: DType) -> bool:
    """Whether it is one of the floats of 16 bits."""
    return dtype.type is np.float16 or dtype.name == "bfloat16"


def is_supported(dtype: DType) -> bool:
    """bool, integers of 8 to 64 bits, floats of 16 to 64 bits; bfloat16 where ml_dtypes has brought it."""
    return dtype.kind in "biu" or is_float(dtype)


def native(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The array in this machine's byte order, as a plain ndarray."""
    if type(array) is np.ndarray and array.dtype.isnative:
        return array
    return np.asarray(array, dtype=array.dtype.newbyteorder("="))


def unchanged(dtype: DType, *_: DType) -> DType:
    """The dtype of a result that is one of the cells of the first input."""
    return dtype


@cache
def float_of(dtype: DType) -> DType:
    """The float in which a mean of `dtype` is given: floats stay, integers become float64, those of 8 and 16 bits float32."""
    if is_float(dtype):
        return dtype
    return np.dtype(np.float32 if dtype.itemsize <= 2 else np.float64)


def float_of_first(dtype: DType, *_: DType) -> DType:
    """The same of the first of several inputs."""
    return float_of(dtype)


def derivative_of(primal: DType, given: DType) -> DType:
    """A derivative has the dtype of what it belongs to; beside integers, that of the tangent or gradient it is made from."""
    return primal if is_float(primal) else float_of(given)


@cache
def promoted(*dtypes: DType) -> DType:
    """As NumPy promotes them; bfloat16, which it cannot promote with most others, counts among others as float32."""
    kinds = set(dtypes)
    return np.result_type(*(np.float32 if d.name == "bfloat16" and len(kinds) > 1 else d for d in kinds))


def conv_dtype(*dtypes: DType) -> DType:
    """Floats promote (see `promoted`). Integers are summed exactly: 8-bit ones in int32, all others in int64."""
    if any(is_float(d) for d in dtypes):
        return promoted(*dtypes)
    return np.dtype(np.int32 if all(d.itemsize == 1 for d in dtypes) else np.int64)


def machine_float(name: str, value: Any, finite: bool = True) -> float:
    """An option of any exact kind as a float64; one beyond its range is refused, and infinity if it must be finite."""
    try:
        number = float(value)
    except TypeError:  # a dual number, an interval
        wanted = f"must be a plain real number for numeric arrays, not {type(value).__name__}"
        raise KindError(f"{name}={show(value)}: {wanted}; use x.astype(object) to compute with it") from None
    except OverflowError:
        number = math.inf
    if (math.isinf(number) and (finite or value != number)) or (number == 0) != (value == 0):
        size = "large" if number else "small"
        raise OptionError(f"{name}={show(value)}: too {size} for float64; use x.astype(object) to compute exactly")
    return number
