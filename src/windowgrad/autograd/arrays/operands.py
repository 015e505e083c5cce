"""Operands of array functions: a Python number takes the dtype of the array it meets, as in NumPy."""

from __future__ import annotations

from decimal import Decimal
from numbers import Complex, Integral, Real
from typing import Any

import numpy as np

from windowgrad.dtypes import is_float, is_supported
from windowgrad.errors import OptionError, show
from windowgrad.foreign import number_beside

PLAIN = frozenset({int, float, bool})
SAFE = 2**15
"""Up to here no float overflows."""


def operands(a: Any, b: Any, names: tuple[str, str] = ("a", "b")) -> tuple[Any, Any]:
    """Both as arrays. What is neither array nor number stays as it is: dispatch says what is wrong with it."""
    if is_array(a) and is_array(b):
        return a, b
    return operand(a, names[0], b), operand(b, names[1], a)


def operand(x: Any, name: str = "x", beside: Any = None) -> Any:
    """`x` as an array; a number gets the dtype it has beside the array `beside`."""
    if type(x) not in PLAIN:
        if is_array(x):
            return x
        if isinstance(x, np.generic):
            return np.asarray(x)
        if not is_number(x):
            return x
    dtype = getattr(beside, "dtype", None)
    if dtype is not None and not isinstance(dtype, np.dtype) and isinstance(x, Real):
        own = number_beside(name, x, beside)
        if own is not None:
            return own
    if not isinstance(dtype, np.dtype) or not (dtype.kind == "O" or is_supported(dtype)):  # dispatch says what is wrong with it
        return np.asarray(x) if type(x) in PLAIN else boxed(x)
    return boxed(x) if dtype.kind == "O" or not isinstance(x, Real) else weak(x, name, dtype)


def is_array(x: Any) -> bool:
    """Whether it is NumPy's array or one that computes for itself."""
    return type(x) is np.ndarray or hasattr(type(x), "__windowgrad__")


def is_number(x: Any) -> bool:
    """Whether it is a real number, perhaps of somebody's own kind: it multiplies and compares, and is no array or sequence."""
    if isinstance(x, type) or any(hasattr(x, name) for name in ("shape", "__windowgrad__", "__array__", "__len__")):
        return False
    if isinstance(x, (Real, Decimal)):
        return True
    return not isinstance(x, Complex) and hasattr(x, "__mul__") and hasattr(x, "__gt__")


def boxed(x: Any) -> np.ndarray[Any, Any]:
    """One object as an array without axes."""
    box = np.empty((), dtype=object)
    box[()] = x
    return box


def weak(x: Any, name: str, dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """A Python number in the dtype it has beside `dtype`: a float of its size, or an integer where both are integers."""
    if isinstance(x, bool):
        return np.asarray(x)
    if not is_float(dtype):
        dtype = np.result_type(dtype, 0 if isinstance(x, Integral) else 0.0)
    try:
        number = int(x) if isinstance(x, Integral) else float(x)
        if is_float(dtype) and not -SAFE < number < SAFE:
            with np.errstate(over="ignore"):
                return np.array(number, dtype=dtype)
        return np.array(number, dtype=dtype)
    except (OverflowError, TypeError):  # bfloat16 says that a large integer is no number
        raise OptionError(f"{name}={show(x)}: does not fit into {dtype}, the dtype it takes from the other operand") from None
