"""A value under differentiation. It stands wherever an array stands, and every operator on it is followed.

Differentiations nest: each has a level, higher the later it began, and an operator is followed by the highest level among its
arguments. To that level all others are constants, and computing on them lets the lower levels follow in turn. The level goes
with the value, so there is no state to restore when something fails, and threads cannot see each other's.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, NoReturn

import numpy as np

from windowgrad.autograd import arrays as ops
from windowgrad.dispatch import check_array, is_followed
from windowgrad.errors import KindError
from windowgrad.params import Params
from windowgrad.spec.op import Op

next_level = itertools.count(1).__next__


class Tracer:
    """What all values under differentiation share: shape, dtype and arithmetic. `value` may be a tracer of a lower level."""

    __slots__ = ()
    __array_ufunc__ = None  # so that NumPy leaves `array + tracer` to the tracer
    value: Any
    level: int

    def __windowgrad__(self, op: Op, rule: str, params: Params, arrays: Sequence[Any]) -> Any:
        level = self.level
        for array in arrays:
            if isinstance(array, Tracer) and array.level > level:
                return NotImplemented
        if op.native and rule != "forward":  # its rules are written with operators that are followed one by one
            return getattr(op, rule)(params, *arrays)
        return self.follow(op, rule, params, arrays)

    def follow(self, op: Op, rule: str, params: Params, arrays: Sequence[Any], needs: Sequence[bool] | None = None) -> Any:
        """Compute, and remember what differentiating takes. Of a vjp only the gradients in `needs`, the others are None."""
        raise NotImplementedError

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.value.shape)

    @property
    def dtype(self) -> np.dtype[Any]:
        dtype: np.dtype[Any] = self.value.dtype
        return dtype

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        size: int = self.value.size
        return size

    @property
    def chunks(self) -> Any:
        """How a Dask array is cut; None for others."""
        return getattr(self.value, "chunks", None)

    @property
    def T(self) -> Any:  # noqa: N802  # NumPy's name
        return ops.transpose(self)

    def sum(self, axis: Any = None, keepdims: bool = False) -> Any:
        return ops.sum(self, axis, keepdims)

    def mean(self, axis: Any = None, keepdims: bool = False) -> Any:
        return ops.mean(self, axis, keepdims)

    def reshape(self, *shape: Any) -> Any:
        return ops.reshape(self, shape[0] if len(shape) == 1 else shape)

    def __add__(self, other: Any) -> Any:
        return ops.add(self, other)

    def __radd__(self, other: Any) -> Any:
        return ops.add(other, self)

    def __sub__(self, other: Any) -> Any:
        return ops.subtract(self, other)

    def __rsub__(self, other: Any) -> Any:
        return ops.subtract(other, self)

    def __mul__(self, other: Any) -> Any:
        return ops.multiply(self, other)

    def __rmul__(self, other: Any) -> Any:
        return ops.multiply(other, self)

    def __truediv__(self, other: Any) -> Any:
        return ops.divide(self, other)

    def __rtruediv__(self, other: Any) -> Any:
        return ops.divide(other, self)

    def __matmul__(self, other: Any) -> Any:
        return ops.matmul(self, other)

    def __rmatmul__(self, other: Any) -> Any:
        return ops.matmul(other, self)

    def __neg__(self) -> Any:
        return ops.negative(self)

    def __float__(self) -> float:
        return float(self.value)

    def __array__(self, *_: Any, **__: Any) -> NoReturn:
        raise KindError("a value under differentiation is no NumPy array: its derivative would be lost; take its .value")

    def __bool__(self) -> NoReturn:
        raise KindError("a value under differentiation is neither true nor false; decide by its .value")

    def _compared(self, other: Any) -> NoReturn:
        raise KindError("a value under differentiation is neither greater nor less than another; compare its .value")

    __gt__ = __lt__ = __ge__ = __le__ = _compared


def as_value(name: str, value: Any) -> Any:
    """An array, a tracer or what computes for itself; a number becomes an array with no axes."""
    if is_followed(type(value)):
        return value
    if not hasattr(value, "shape") and not isinstance(value, (str, bytes, list, tuple, dict, set, type(None))):
        value = np.asarray(value)
    if isinstance(value, np.generic):
        value = np.asarray(value)
    check_array(name, value)
    return value


def highest(arrays: Sequence[Any]) -> Tracer | None:
    """The tracer that follows an operator on these arrays."""
    return max((array for array in arrays if isinstance(array, Tracer)), key=lambda tracer: tracer.level, default=None)
