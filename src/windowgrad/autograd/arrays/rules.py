"""How rules become a record, and the linear operators that give a derivative the shape and dtype of what it belongs to.

The rule forward gets NumPy arrays. The rules jvp and vjp are written with the functions of this package only, so an array
that records what is done to it can be differentiated again, to any order. A gradient may be the array `g` itself or a view
of it, and two gradients may be one array, so nothing is added to them in place. A vjp whose gradients are each a computation
of their own takes `needs`, and leaves out those that are not wanted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import Any

import numpy as np

from windowgrad.autograd.arrays.operands import boxed
from windowgrad.autograd.arrays.records import CastParams, CollectParams, RepeatParams
from windowgrad.dispatch import run, takes_needs
from windowgrad.dtypes import is_float
from windowgrad.errors import KindError
from windowgrad.params import Params, Shape
from windowgrad.spec.op import Op
from windowgrad.spec.scalar import cells

Array = np.ndarray[Any, np.dtype[Any]]
Rule = Callable[..., Any]


def added(x: Any, **told: Any) -> Any:
    """NumPy's sum of a C-ordered array: of another layout NumPy adds the cells in another order. It may be a lone object."""
    if isinstance(x, np.ndarray) and not (x.flags.c_contiguous and x.flags.aligned):
        x = x.copy(order="C")
    return np.add.reduce(x, **told)


def native_op(
    name: str,
    params: type[Params],
    numbers: Rule,
    objects: Rule,
    jvp: Rule,
    vjp: Rule,
    *,
    exact: bool = True,
    linear: bool = False,
    inputs: tuple[str, ...] = ("x",),
    composed: Rule | None = None,
) -> Op:
    """A record whose forward rule is `numbers` over machine numbers and `objects` over any other scalars."""
    push, pull = partial(pushed, jvp), partial(pulled, vjp, takes_needs(vjp))
    forward: Rule = Forward(numbers, objects)
    return Op(name, params, forward, push, pull, exact, linear, inputs, native=True, composed=composed)


class Forward:
    """The forward rule. What comes out is an array, also where NumPy gives a scalar for an array without axes."""

    def __init__(self, numbers: Rule, objects: Rule) -> None:
        self.numbers, self.objects = numbers, objects

    def __call__(self, params: Params, *xs: Array) -> Array:
        for x in xs:
            if x.dtype.kind == "O":
                y = self.objects(params, *map(cells, xs))
                return y if isinstance(y, np.ndarray) else boxed(y)
        y = self.numbers(params, *xs)
        return y if type(y) is np.ndarray else np.asarray(y)


def pushed(jvp: Rule, params: Params, *arrays: Any) -> Any:
    """The tangent of the output; each tangent is taken in the dtype of its input."""
    xs, dxs = arrays[: len(arrays) // 2], arrays[len(arrays) // 2 :]
    return jvp(params, *xs, *map(in_dtype_of, xs, dxs))


def pulled(vjp: Rule, chooses: bool, params: Params, *arrays: Any, needs: Sequence[bool] | None = None) -> tuple[Any, ...]:
    """The gradients of the inputs, each in the shape and dtype of its input; None is zero, or not in `needs`.

    `chooses` says that the rule takes `needs`.
    """
    found = vjp(params, *arrays) if needs is None or not chooses else vjp(params, *arrays, needs=needs)
    fitting: list[Any] = []
    for place, g in enumerate(found):
        if g is None or (needs is not None and not needs[place]):
            fitting.append(None)
        elif g.shape == (x := arrays[place]).shape and g.dtype == x.dtype:
            fitting.append(g)
        else:
            fitting.append(in_dtype_of(x, sum_to(g, x.shape)))
    return tuple(fitting)


def in_dtype_of(x: Any, dx: Any) -> Any:
    """A derivative has the dtype of the float it belongs to; beside integers it keeps its own."""
    if dx.dtype == x.dtype or dx.dtype.kind == "O" or not is_float(x.dtype):
        return dx
    return cast(dx, x.dtype)


def by_ufunc(ufunc: Callable[..., Any], params: Params, *xs: Array) -> Any:
    """A function of NumPy's on whole arrays."""
    try:
        return ufunc(*xs)
    except TypeError:  # there is no minus of bool
        kinds = ("dtypes " if len(xs) > 1 else "dtype ") + " and ".join(str(x.dtype) for x in xs)
        raise KindError(f"{ufunc.__name__}: unsupported {kinds}; convert it first, for example with astype(int)") from None


def by_cell(function: Callable[..., Any], params: Params, *xs: Array) -> Any:
    """A function of one cell each."""
    return np.frompyfunc(function, len(xs), 1)(*xs)


# --- dtype and shape ---------------------------------------------------------------------------------------------


def cast(x: Any, dtype: np.dtype[Any]) -> Any:
    return run(CAST, "forward", casting(dtype), x)


def broadcast_to(x: Any, shape: Shape, chunks: Any = None) -> Any:
    """Repeated along axes it does not have, or has with length 1."""
    return x if x.shape == shape else run(BROADCAST_TO, "forward", repeating(shape, chunks), x)


def repeated_like(x: Any, like: Any) -> Any:
    """Repeated to the shape of an array, and cut as it is if it is one of Dask's."""
    return broadcast_to(x, like.shape, getattr(like, "chunks", None))


def sum_to(x: Any, shape: Shape) -> Any:
    """The adjoint of `broadcast_to`: what was repeated is summed."""
    return x if x.shape == shape else run(SUM_TO, "forward", collecting(shape), x)


casting, repeating, collecting = (lru_cache(maxsize=256)(record) for record in (CastParams, RepeatParams, CollectParams))


def total(x: Array, axes: tuple[int, ...], keepdims: bool) -> Any:
    """Sums as NumPy's; floats of 16 bits are summed in float32."""
    wide = np.float32 if x.dtype.itemsize == 2 and is_float(x.dtype) else None
    y = added(x, axis=axes, keepdims=keepdims, dtype=wide)
    return y if wide is None else y.astype(x.dtype)


def _cast(params: CastParams, x: Array) -> Array:
    return x.astype(params.dtype)


def _cast_push(params: CastParams, x: Any, dx: Any) -> Any:
    return cast(dx, params.dtype)


def _cast_pull(params: CastParams, x: Any, g: Any) -> tuple[Any]:
    return (g,)  # and into the dtype of x, as every gradient


def _repeat(params: RepeatParams, x: Array) -> Array:
    y = np.empty(params.shape, x.dtype)
    np.copyto(y, x)
    return y


def _repeat_push(params: RepeatParams, x: Any, dx: Any) -> Any:
    return broadcast_to(dx, params.shape, params.chunks)


def _repeat_pull(params: RepeatParams, x: Any, g: Any) -> tuple[Any]:
    return (g,)  # and summed to the shape of x, as every gradient


def _collect(params: CollectParams, x: Array) -> Array:
    new = x.ndim - len(params.shape)
    axes = tuple(axis for axis, n in enumerate(x.shape) if axis < new or (n != 1 and params.shape[axis - new] == 1))
    return np.reshape(total(x, axes, keepdims=True), params.shape)


def _collect_push(params: CollectParams, x: Any, dx: Any) -> Any:
    return sum_to(dx, params.shape)


def _collect_pull(params: CollectParams, x: Any, g: Any) -> tuple[Any]:
    return (repeated_like(g, x),)


CAST = native_op("cast", CastParams, _cast, _cast, _cast_push, _cast_pull, linear=True)
BROADCAST_TO = native_op("broadcast_to", RepeatParams, _repeat, _repeat, _repeat_push, _repeat_pull, linear=True)
SUM_TO = native_op("sum_to", CollectParams, _collect, _collect, _collect_push, _collect_pull, linear=True)
