"""One rule of one operator as a function that can itself be differentiated, forward and backward.

An operator's record has f (forward), J(x)·dx (jvp) and J(x)ᵀ·g (vjp). The derivatives of the last two need nothing new but
how J bends with x (`curve`, `curve_back`), and those are written with the same three rules. So every order follows.
A tangent or a gradient that is None is zero, and nothing is computed for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from windowgrad.autograd.arrays import add
from windowgrad.autograd.arrays.arithmetic import elementwise, large
from windowgrad.autograd.tracer import Tracer
from windowgrad.dispatch import asked, chosen, run, takes_needs
from windowgrad.dtypes import float_of
from windowgrad.ops import OPS
from windowgrad.params import Params
from windowgrad.spec.op import Op
from windowgrad.spec.scalar import grid, zero_of


class Step(NamedTuple):
    """`rule` is "forward", "jvp" or "vjp"; of a vjp, `place` is the input whose gradient this is."""

    op: Op
    rule: str
    params: Params
    place: int = 0

    def run(self, values: Sequence[Any]) -> Any:
        """The function itself."""
        if self.rule != "vjp":
            return run(self.op, self.rule, self.params, *values)
        *xs, g = values
        return pulled(self.op, self.params, xs, g, only(self.place, xs))[self.place]

    def push(self, values: Sequence[Any], tangents: Sequence[Any]) -> Any:
        """How the result moves when the values move by `tangents`; None if it does not."""
        op, params = self.op, self.params
        if self.rule == "forward":
            return pushed(op, params, values, tangents)
        if self.rule == "jvp":
            half = len(values) // 2
            xs, dxs, exs = values[:half], values[half:], tangents[:half]
            bent = op.curve(OPS[op.name], params, xs, dxs, exs) if op.curve and moves(exs) else None
            return plus(pushed(op, params, xs, tangents[half:]), bent)
        (*xs, g), (*exs, dg) = values, tangents
        straight = None if dg is None else pulled(op, params, xs, dg, only(self.place, xs))[self.place]
        return plus(straight, self.bent(xs, exs, g, only(self.place, xs))[self.place])

    def pull(self, values: Sequence[Any], g: Any, needs: Sequence[bool]) -> Sequence[Any]:
        """The gradient of ⟨g, result⟩ in each of the values that is needed."""
        op, params = self.op, self.params
        if self.rule == "forward":
            return pulled(op, params, values, g, needs)
        if self.rule == "jvp":
            half = len(values) // 2
            xs, dxs = values[:half], values[half:]
            along = pulled(op, params, xs, g, needs[half:]) if any(needs[half:]) else (None,) * half
            return (*self.bent(xs, dxs, g, needs[:half]), *along)
        *xs, inner = values
        moved = [g if place == self.place else None for place in range(len(xs))]
        return (*self.bent(xs, moved, inner, needs[:-1]), pushed(op, params, xs, moved) if needs[-1] else None)

    def pull_at(self, places: tuple[int, ...], values: Sequence[Any], g: Any, needs: Sequence[bool]) -> Sequence[Any]:
        """The same of the values at `places`, of which `needs` speaks."""
        found = self.pull(values, g, among(len(values), places, tuple(needs)))
        return [found[place] for place in places]

    def bent(self, xs: Sequence[Any], dxs: Sequence[Any], g: Any, needs: Sequence[bool]) -> Sequence[Any]:
        """The gradients of ⟨g, J(x)·dx⟩ in each x that needs it."""
        if self.op.curve_back is None or not any(needs) or not moves(dxs):
            return (None,) * len(xs)
        return asked(self.op.curve_back, OPS[self.op.name], self.params, xs, dxs, g, needs=needs)  # type: ignore[no-any-return]


def step_name(op: Op, rule: str) -> str:
    """What errors and drawings call a rule of an operator."""
    name = op.label or op.name
    return name if rule == "forward" else f"{name}.{rule}"


def pushed(op: Op, params: Params, xs: Sequence[Any], dxs: Sequence[Any]) -> Any:
    """J(x)·dx. Where it is bilinear, f(dx, w) and f(x, dw), of which either may be missing."""
    if not moves(dxs):
        return None
    if op.linear and op.curve and any(dx is None for dx in dxs[:2]):  # linear in each of two
        (x, w), (dx, dw) = xs[:2], dxs[:2]
        bias = [db for db in dxs[2:] if db is not None]
        if dx is None and dw is None:
            dx = still(x)
        return run(op, "forward", params, x if dx is None else dx, w if dw is None else dw, *bias)
    filled = [still(x) if dx is None else dx for x, dx in zip(xs, dxs, strict=True)]
    return op.jvp(params, *xs, *filled) if op.native else run(op, "jvp", params, *xs, *filled)


def pulled(op: Op, params: Params, xs: Sequence[Any], g: Any, needs: Sequence[bool], saved: Any = None) -> Sequence[Any]:
    """J(x)ᵀ·g for the inputs that need it; `saved` is what the forward rule saved for it."""
    if op.native:  # written with operators, each of which is dispatched by itself
        if takes_needs(op.vjp):
            return op.vjp(params, *xs, g, needs=needs)
        return chosen(op.vjp(params, *xs, g), needs)
    return run(op, "vjp", params, *xs, g, needs=needs, saved=saved)  # type: ignore[no-any-return]


def pulled_from(op: Op, params: Params, xs: Sequence[Any], saved: Any, g: Any, needs: Sequence[bool]) -> Sequence[Any]:
    """The same, with the gradient last."""
    if op.native:
        return pulled(op, params, xs, g, needs)
    return run(op, "vjp", params, *xs, g, needs=needs, saved=saved)  # type: ignore[no-any-return]


def pulled_at(
    places: tuple[int, ...], op: Op, params: Params, xs: Sequence[Any], saved: Any, g: Any, needs: Sequence[bool]
) -> Sequence[Any]:
    """The same of the inputs at `places`, of which `needs` speaks."""
    found = pulled(op, params, xs, g, among(len(xs), places, tuple(needs)), saved)
    return (found[places[0]],) if len(places) == 1 else [found[place] for place in places]


@lru_cache(maxsize=1024)
def among(count: int, places: tuple[int, ...], needs: tuple[bool, ...]) -> tuple[bool, ...]:
    """The needs of all `count` inputs, of which those at `places` have some."""
    wanted = dict(zip(places, needs, strict=True))
    return tuple(wanted.get(place, False) for place in range(count))


def moves(tangents: Sequence[Any]) -> bool:
    return any(tangent is not None for tangent in tangents)


def only(place: int, xs: Sequence[Any]) -> tuple[bool, ...]:
    return tuple(place == i for i in range(len(xs)))


def zeros_like(x: Any) -> Any:
    """A derivative of x that is zero."""
    return np.zeros(x.shape, dtype=derivative_dtype(x))


def still(x: Any) -> Any:
    """The same as the tangent of an input that does not move: as lazy as the input is."""
    inner = untraced(x)
    return np.zeros_like(inner, dtype=derivative_dtype(inner)) if is_lazy(inner) else zeros_like(x)


def derivative_dtype(x: Any) -> np.dtype[Any]:
    dtype: np.dtype[Any] = float_of(x.dtype) if x.dtype.kind in "biu" else x.dtype
    return dtype


def ones_like(x: Any) -> Any:
    """Ones of the same kind as the cells, so that a decimal goes back as decimals."""
    x = untraced(x)
    if is_lazy(x):
        return np.ones_like(x)
    ones = np.ones(x.shape, dtype=x.dtype)
    if x.dtype == object and isinstance(x, np.ndarray) and x.size:
        ones[...] = zero_of(x) + 1
    return ones


def untraced(x: Any) -> Any:
    while isinstance(x, Tracer):
        x = x.value
    return x


def is_lazy(x: Any) -> bool:
    """Whether it is an array of another library for which NumPy's functions make arrays of that library, such as Dask's."""
    kind = type(x)
    return not issubclass(kind, np.ndarray) and hasattr(kind, "__array_function__") and not hasattr(kind, "__windowgrad__")


def as_derivative(given: Any) -> Any:
    """A tangent or a gradient; integers become floats, for the unsigned ones have no negative."""
    is_whole = isinstance(given, np.ndarray) and given.dtype.kind in "biu"
    return given.astype(float_of(given.dtype)) if is_whole else given


def plus(a: Any, b: Any) -> Any:
    """a + b, where None is zero. Infinity is a result, not a warning."""
    if a is None:
        return b
    if b is None:
        return a
    if large(a, b):
        return elementwise().added(a, b)
    return added(a, b) if isinstance(a, np.ndarray) and isinstance(b, np.ndarray) else add(a, b)


@np.errstate(all="ignore")
def added(a: Any, b: Any) -> Any:
    return grid(a + b)
