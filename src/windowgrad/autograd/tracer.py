"""Traced values. A traced value can be used wherever an array can, and every operator on it is followed.

Differentiations nest: each has a level, higher the later it began, and an operator is followed by the highest level among its
arguments. To that level all others are constants, and computing on them lets the lower levels follow in turn. The level goes
with the value, so there is no state to restore when something fails, and threads cannot see each other's.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NoReturn

import numpy as np

from windowgrad.arguments import is_int
from windowgrad.autograd import arrays as ops
from windowgrad.autograd.arrays.indexing import index
from windowgrad.autograd.arrays.rules import cast
from windowgrad.checks import argument_names, check_array
from windowgrad.dispatch import asked
from windowgrad.dtypes import is_float
from windowgrad.errors import KindError, WindowError, WindowgradError, show
from windowgrad.foreign import is_followed
from windowgrad.params import Params
from windowgrad.routes import cell_kinds
from windowgrad.spec.op import Op

next_level = itertools.count(1).__next__


class Tracer:
    """Base of all traced values: shape, dtype and arithmetic. `value` may be a tracer of a lower level."""

    __slots__ = ()
    __array_priority__ = np.inf  # so that NumPy leaves `array + tracer` to the tracer, and no other of its functions
    value: Any
    level: int

    def __windowgrad__(
        self, op: Op, rule: str, params: Params, arrays: Sequence[Any], needs: Sequence[bool] | None = None
    ) -> Any:
        if len(arrays) > 1:
            level = self.level
            for array in arrays:
                if isinstance(array, Tracer) and array.level > level:
                    return NotImplemented
        if op.native and rule != "forward":  # its rules are written with operators that are followed one by one
            return asked(getattr(op, rule), params, *arrays, needs=needs)
        return self.follow(op, rule, params, arrays, needs)

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
        """The chunks of a Dask array; None for others."""
        return getattr(self.value, "chunks", None)

    @property
    def T(self) -> Any:  # noqa: N802  # NumPy's name
        return ops.transpose(self)

    def sum(self, axis: Any = None, keepdims: bool = False, *, out: None = None, dtype: None = None) -> Any:
        check_unset("sum", out=out, dtype=dtype)
        return ops.sum(self, axis, keepdims)

    def mean(self, axis: Any = None, keepdims: bool = False, *, out: None = None, dtype: None = None) -> Any:
        check_unset("mean", out=out, dtype=dtype)
        return ops.mean(self, axis, keepdims)

    def max(self, axis: Any = None, keepdims: bool = False, *, out: None = None) -> Any:
        check_unset("max", out=out)
        return ops.max(self, axis, keepdims)

    def min(self, axis: Any = None, keepdims: bool = False, *, out: None = None) -> Any:
        check_unset("min", out=out)
        return ops.min(self, axis, keepdims)

    def reshape(self, *shape: Any) -> Any:
        return ops.reshape(self, shape[0] if len(shape) == 1 else shape)

    def ravel(self) -> Any:
        return ops.reshape(self, -1)

    flatten = ravel  # of all axes, as NumPy's

    def transpose(self, *axes: Any) -> Any:
        return ops.transpose(self, axes[0] if len(axes) == 1 and not is_int(axes[0]) else axes or None)

    def astype(self, dtype: Any) -> Any:
        """The same numbers in another float dtype."""
        try:
            wanted = np.dtype(dtype)
        except (TypeError, ValueError, RecursionError):
            raise KindError(f"astype(dtype={show(dtype)}): must be a dtype") from None
        if not is_float(wanted):
            said = f"must be a float dtype: the gradient would be lost; x.value.astype({str(wanted)!r}) is a constant"
            raise KindError(f"astype(dtype={str(wanted)!r}): {said}")
        return self if wanted == self.dtype else cast(self, wanted.newbyteorder("="))

    def __getitem__(self, key: Any) -> Any:
        return index(self, key)

    def __setitem__(self, key: Any, value: Any) -> NoReturn:
        raise KindError("a traced value cannot be written to; make a new one, with wg.where or wg.concatenate")

    def __len__(self) -> int:
        if not self.shape:
            raise KindError("len(x): a traced value without axes has no length")
        return self.shape[0]

    def __iter__(self) -> Iterator[Any]:
        if not self.shape:
            raise KindError("cannot iterate over a traced value without axes")
        return (self[i] for i in range(len(self)))

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

    def __pow__(self, other: Any) -> Any:
        return ops.power(self, other)

    def __rpow__(self, other: Any) -> Any:
        return ops.power(other, self)

    def __neg__(self) -> Any:
        return ops.negative(self)

    def __pos__(self) -> Any:
        return self

    def __abs__(self) -> Any:
        return ops.abs(self)

    def __bool__(self) -> bool:
        """Whether it differs from 0: a comparison, as in NumPy. An array of several elements has no truth value."""
        if self.size != 1:
            raise KindError(f"the truth value of {self.size} elements is ambiguous; write (x > 0).all() or .any()")
        return bool(bottom(self))

    def __eq__(self, other: object) -> Any:
        return compared(operator.eq, self, other)

    def __ne__(self, other: object) -> Any:
        return compared(operator.ne, self, other)

    def __lt__(self, other: Any) -> Any:
        return compared(operator.lt, self, other)

    def __le__(self, other: Any) -> Any:
        return compared(operator.le, self, other)

    def __gt__(self, other: Any) -> Any:
        return compared(operator.gt, self, other)

    def __ge__(self, other: Any) -> Any:
        return compared(operator.ge, self, other)

    __hash__ = object.__hash__  # by identity, for sets and dicts: equal values are not one variable

    # Conversions to a plain number are errors: the number would be a constant, and its derivative silently 0.

    def __float__(self) -> NoReturn:
        self._refuse("float({})")

    def __int__(self) -> NoReturn:
        self._refuse("int({})")

    def __complex__(self) -> NoReturn:
        self._refuse("complex({})")

    __index__ = __trunc__ = __int__

    def __round__(self, *_: Any) -> NoReturn:
        self._refuse("round({})", "round(float({}))")

    def __floor__(self) -> NoReturn:
        self._refuse("math.floor({})")

    def __ceil__(self) -> NoReturn:
        self._refuse("math.ceil({})")

    def __array__(self, *_: Any, **__: Any) -> NoReturn:
        self._refuse("numpy.asarray({})", to="NumPy")

    def item(self, *_: Any) -> NoReturn:
        self._refuse("{}.item()")

    def tolist(self) -> NoReturn:
        self._refuse("{}.tolist()", to="a list")

    def _refuse(self, conversion: str, look: str | None = None, to: str = "a number") -> NoReturn:
        value, path = self, "x"
        while isinstance(value, Tracer):
            value, path = value.value, f"{path}.value"
        lost = f"{conversion.format('x')}: cannot convert a traced value to {to}: the gradient would be lost"
        shown = f"{(look or conversion).format(path)} for the plain number{'' if self.size == 1 else 's'}"
        raise KindError(f"{lost}; use functions of wg, such as wg.exp(x), or {shown}")


def check_unset(name: str, **given: Any) -> None:
    """NumPy's functions call the method of their name with these, which may not be given."""
    for argument, value in given.items():
        if value is not None:
            raise KindError(f"{argument}: not supported by {name} of a traced value; use wg.{name}")


def check_constant(op: Op, rule: str, arrays: Sequence[Any], place: int) -> None:
    """Beside a traced value, an array of a framework with derivatives of its own is refused: one of both would be lost."""
    if op.native and not is_followed(type(arrays[place])):
        check_array(argument_names(op, rule, len(arrays))[place], arrays[place])


def bottom(value: Any) -> Any:
    """The plain value below all tracers."""
    while isinstance(value, Tracer):
        value = value.value
    return value


def compared(how: Callable[[Any, Any], Any], a: Any, b: Any) -> Any:
    """A comparison of the values, as NumPy does it: a bool, or an array of them. A branch follows what it compared."""
    a, b = bottom(a), bottom(b)
    for value in (a, b):
        own: Any = type(value)
        if hasattr(own, "__windowgrad__") and own.__eq__ is object.__eq__:
            raise KindError(f"cannot compare {_named(value)}: its type defines no comparisons")
    try:
        return how(a, b)
    except WindowgradError:
        raise
    except (TypeError, ValueError) as error:
        kind = KindError if isinstance(error, TypeError) else WindowError
        raise kind(f"cannot compare {_named(a)} with {_named(b)}: {error}") from None


def _named(value: Any) -> str:
    if isinstance(value, (np.ndarray, np.generic)):
        return f"an array of {value.dtype}{value.shape}"
    return f"an object of type {type(value).__name__}"


PLAIN = frozenset(map(np.dtype, "?bBhHiIlLqQefd"))
"""The dtypes of most arrays, all of them supported."""
NUMBERS = (bool, int, float)
NO_VALUES = (str, bytes, range, slice, list, tuple, dict, set, frozenset, type(None))
"""Types that are not values, and are not converted: a range may be endless."""


def as_value(name: str, value: Any) -> Any:
    """An array, a tracer or what computes for itself; a number becomes an array with no axes."""
    if type(value) is np.ndarray and value.dtype in PLAIN:
        return value
    if type(value) in NUMBERS and (number := np.asarray(value)).dtype.kind != "O":
        return number
    if type(value) is not np.ndarray and is_followed(type(value)):
        return value
    if not hasattr(value, "shape") and not isinstance(value, NO_VALUES):
        value = np.asarray(value)
    if isinstance(value, np.generic):
        value = np.asarray(value)
    check_array(name, value)
    if value.dtype.kind == "O":
        cell_kinds(value)
    return value
