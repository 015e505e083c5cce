"""Numerical and exact checks of the derivatives of a function."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from numbers import Real
from typing import Any

import numpy as np

from windowgrad.arguments import as_int
from windowgrad.autograd import trees
from windowgrad.autograd.transforms import Function, jvp, vjp
from windowgrad.errors import GradientError, KindError, OptionError, show
from windowgrad.routes import NOT_SCALARS, cell_kinds
from windowgrad.spec.scalar import divide

Leaves = list[Any]
HIGHEST = 16  # each order takes twice the time of the one before
LARGEST = sys.float_info.max


def check_grads(f: Function, *primals: Any, order: int = 1, tolerance: float | None = None, seed: int = 0) -> None:
    """Raise a `GradientError` unless the derivatives of f at `primals` are right, to the given order.

    Along random directions, ⟨g, J·dx⟩ must equal ⟨Jᵀ·g, dx⟩ (forward and backward mode agree), and J·dx must match a finite
    difference of f. Over fractions the first check has no tolerance. Order 2 checks the derivatives of J·dx and of Jᵀ·g in
    the same way. `tolerance` is relative; by default it follows from the precision of the dtype.
    """
    if isinstance(order, bool) or not isinstance(order, int) or not 1 <= order <= HIGHEST:
        raise OptionError(f"order={show(order)}: must be an integer from 1 to {HIGHEST}")
    if tolerance is not None and (
        isinstance(tolerance, bool) or not isinstance(tolerance, Real) or not 0 <= widened(tolerance) <= LARGEST
    ):
        raise OptionError(f"tolerance={show(tolerance)}: must be None or a finite, non-negative number")
    tolerance = None if tolerance is None else float(tolerance)
    _check(f, primals, order, tolerance, np.random.default_rng(as_int("seed", seed, 0)), "f")


def widened(tolerance: Any) -> Any:
    """A number of Python's: one of NumPy's may be too narrow for what it is compared with."""
    return tolerance.item() if isinstance(tolerance, np.generic) else tolerance


def _check(f: Function, primals: tuple[Any, ...], order: int, tolerance: float | None, rng: Any, name: str) -> None:
    xs, structure = trees.values("primals", primals)
    for x in xs:
        check_cells(x)
    dxs = [_direction(x, rng) for x in xs]
    tangents = trees.unflatten(structure, dxs)
    y, dy = jvp(f, primals, tangents)
    again, pull = vjp(f, *primals)
    ys, out = trees.values("result", y)
    gs = [_direction(part, rng) for part in ys]
    g = trees.unflatten(out, gs)
    if not all(map(_same, ys, trees.flatten(again)[0])):
        raise GradientError(f"{name}: its value differs between forward mode and backward mode")
    pushed, pulled = trees.flatten(dy)[0], trees.flatten(pull(g))[0]
    exact = all(_is_exact(a) for a in (*xs, *ys, *pushed, *pulled))
    loose = _tolerance((*xs, *ys)) if tolerance is None else tolerance
    ours, scale = _dot(gs, pushed), _dot([abs(p) for p in gs], [abs(p) for p in pushed])
    _agree(f"{name}: ⟨g, J·dx⟩ of jvp and ⟨Jᵀ·g, dx⟩ of vjp", ours, _dot(pulled, dxs), scale, 0 if exact else loose)
    step = _step(xs)
    with np.errstate(all="ignore"):  # f computes with plain numbers here
        ahead, behind = (trees.flatten(f(*trees.unflatten(structure, _moved(xs, dxs, way * step))))[0] for way in (1, -1))
    slope = _slope(ahead, behind, 2 * step)
    _agree(f"{name}: ⟨g, J·dx⟩ of jvp and of finite differences", ours, _dot(gs, slope), scale, loose)
    if order > 1:
        _check(lambda *p: jvp(f, p, tangents)[1], primals, order - 1, tolerance, rng, f"the jvp of {name}")
        _check(lambda *p: vjp(f, *p)[1](g), primals, order - 1, tolerance, rng, f"the vjp of {name}")


@np.errstate(all="ignore")
def _moved(xs: Leaves, dxs: Leaves, step: Any) -> Leaves:
    return [x + step * dx for x, dx in zip(xs, dxs, strict=True)]


@np.errstate(all="ignore")
def _slope(ahead: Leaves, behind: Leaves, step: Any) -> Leaves:
    return [np.asarray((np.asarray(a) - np.asarray(b)) / step) for a, b in zip(ahead, behind, strict=True)]


@np.errstate(all="ignore")
def _agree(what: str, a: Any, b: Any, scale: Any, tolerance: float) -> None:
    size = max(abs(scale), abs(b))
    kind = next((kind for kind in (Decimal, Fraction) if isinstance(size, kind)), None)
    loose: Any = tolerance if kind is None else kind(tolerance)  # decimals do not mix with floats, large fractions are none
    try:
        agree = abs(a - b) <= loose * size
    except TypeError as error:  # somebody's function mixes kinds of numbers
        raise KindError(f"{what}: {show(a)} and {show(b)} cannot be compared: {error}") from None
    if not agree:
        raise GradientError(f"{what} differ: {show(a)} and {show(b)}")


def check_cells(x: Any) -> None:
    """A function that looks at none of its arguments would take what is no number, too."""
    for kind in cell_kinds(x) if x.dtype == object and isinstance(x, np.ndarray) else ():
        if issubclass(kind, NOT_SCALARS):
            raise KindError(f"primals: unsupported elements of type {kind.__name__}; must be real numbers")


def _direction(x: Any, rng: Any) -> Any:
    """Random numbers of the same kind."""
    if x.dtype != object:
        return rng.standard_normal(x.shape).astype(x.dtype if x.dtype.kind == "f" else float)
    kind = type(x.reshape(-1)[0]) if x.size else Fraction
    try:
        drawn = np.frompyfunc(lambda n: divide(kind(int(n)), kind(4)), 1, 1)(rng.integers(-9, 10, x.shape))
    except Exception as error:  # somebody's own class
        raise KindError(f"primals: cannot draw a random direction for elements of type {kind.__name__}: {error}") from None
    return np.asarray(drawn, dtype=object).reshape(x.shape)


def _step(xs: Leaves) -> Any:
    """How far to go: where rounding and bending cost about the same."""
    for x in xs:
        if x.dtype == object and x.size:
            return divide(type(x.reshape(-1)[0])(1), 10**7)
    return float(_precision(xs) ** (1 / 3))


def _tolerance(arrays: Sequence[Any]) -> float:
    return float(20 * _precision(arrays) ** (1 / 2)) if _precision(arrays) > 1e-10 else 1e-6


def _precision(arrays: Sequence[Any]) -> float:
    return max((float(np.finfo(a.dtype).eps) for a in arrays if a.dtype.kind == "f"), default=2.0**-52)


def _is_exact(array: Any) -> bool:
    return bool(array.dtype == object and all(isinstance(cell, (int, Fraction)) for cell in array.reshape(-1)))


@np.errstate(all="ignore")
def _dot(left: Leaves, right: Leaves) -> Any:
    arrays = map(np.asarray, (*left, *right))  # NumPy makes lone numbers of arrays without axes
    wide = [a if a.dtype == object else a.astype(float) for a in arrays]
    return sum(np.sum(a * b) for a, b in zip(wide[: len(left)], wide[len(left) :], strict=True))


def _same(a: Any, b: Any) -> bool:
    return bool(np.array_equal(np.asarray(a), np.asarray(b), equal_nan=a.dtype.kind == "f"))
