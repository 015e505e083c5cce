"""Batch normalisation with the statistics of the batch, and what it needs: 1 ÷ √x. `nn.BatchNorm` is made of it.

y = (x − mean) ÷ √(variance + eps) · weight + bias, where mean and variance are those of all cells with the same index on one
axis, the channel. Both move with x, and the derivatives say so. Floats are computed by a kernel: sums in float64, cells in the
dtype of the array (16 bits in float32). Everything else is written with the operators of this package.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cache, partial, reduce
from numbers import Rational
from typing import Any, NamedTuple

import numpy as np

from windowgrad.autograd.arrays.arithmetic import EACH, add, divide, multiply, shaped, subtract
from windowgrad.autograd.arrays.functions import floats
from windowgrad.autograd.arrays.records import EachParams, axis_of
from windowgrad.autograd.arrays.reductions import mean
from windowgrad.autograd.arrays.reductions import sum as total
from windowgrad.autograd.arrays.rules import Array, by_cell, cast, native_op
from windowgrad.dispatch import run
from windowgrad.dtypes import conv_dtype, float_of, is_float, native
from windowgrad.errors import OptionError, WindowError, show
from windowgrad.interrupts import put_off
from windowgrad.loading import loading
from windowgrad.params import Params, Shape
from windowgrad.spec import powers, scalar

Needs = tuple[bool, ...]


class Moments(NamedTuple):
    """The mean and the variance (biased: divided by the count) of each channel."""

    mean: Any
    variance: Any


@dataclass(frozen=True)
class NormaliseParams(Params):
    """`known` are the moments of x where somebody has computed them already; they are not part of the meaning."""

    axis: int = 1
    eps: Any = 1e-5
    known: Moments | None = field(default=None, compare=False, repr=False)

    @property
    def lasting(self) -> bool:
        return self.known is None and type(self.eps) is float

    def out_shape(self, *shapes: Shape) -> Shape:
        x, weight, bias = shapes
        channels = (x[axis_of("axis", self.axis, x)],)
        for name, shape in (("weight", weight), ("bias", bias)):
            if shape != channels:
                raise WindowError(f"{name} of shape {shape}: must be {channels}, one per channel of x of shape {x}")
        return x

    def check(self, *shapes: Shape) -> None:
        if not self.count(shapes[0]):
            raise WindowError(f"x of shape {shapes[0]}: has no cells, so its batch has no mean and no variance")

    def others(self, x: Shape) -> tuple[int, ...]:
        """The axes over which is summed."""
        own = axis_of("axis", self.axis, x)
        return tuple(axis for axis in range(len(x)) if axis != own)

    def beside(self, x: Shape) -> Shape:
        """The shape that one number per channel has beside x."""
        own = axis_of("axis", self.axis, x)
        return tuple(n if axis == own else 1 for axis, n in enumerate(x))

    def count(self, x: Shape) -> int:
        """How many cells a channel has."""
        return math.prod([x[axis] for axis in self.others(x)])  # a list, which torch.compile can follow


def batch_norm(x: Any, weight: Any, bias: Any, axis: int, eps: Any, known: Moments | None = None) -> Any:
    """x, normalised with the moments of the batch."""
    return run(BATCH_NORM, "forward", NormaliseParams(axis, eps, known), x, weight, bias)


def inverse_root(x: Any) -> Any:
    """1 ÷ √x, elementwise. An irrational root of a fraction is rounded to float64: the one rounding there is."""
    return run(INVERSE_ROOT, "forward", EACH, x)


def moments(params: NormaliseParams, x: Any) -> Moments:
    """The moments of each channel: of floats in float64, else written with operators."""
    if is_kernels(x):
        x = held(x)
        with np.errstate(all="ignore"):  # infinity is a result, not a warning
            return Moments(*_kernels().moments(x, _extent(params, x)))
    axes = params.others(x.shape)
    middle = mean(x, axes, True)
    apart = subtract(x, middle)
    return Moments(mean(x, axes), mean(multiply(apart, apart), axes))


@cache
def _kernels() -> Any:
    """It loads Numba, so not before it is needed."""
    with put_off(), loading:
        from windowgrad.kernels.elementwise import normalise
    return normalise


def _extent(params: NormaliseParams, x: Array) -> Any:
    return _kernels().Extent.of(x.shape, axis_of("axis", params.axis, x.shape))


def is_kernels(*xs: Any) -> bool:
    """Whether the kernels are for arrays like these."""
    return all(type(x) is np.ndarray and x.dtype.kind != "O" for x in xs)


def held(x: Array) -> Array:
    """As floats that the kernels compute with."""
    x = floats(native(x))
    return x.astype(np.float32) if x.dtype.itemsize == 2 else x


def together(*xs: Any) -> np.dtype[Any]:
    """The float dtype of a result of all of them."""
    return reduce(conv_dtype, (float_of(x.dtype) for x in xs))


# --- one cell ----------------------------------------------------------------------------------------------------


def inverse_root_cell(a: Any) -> Any:
    if isinstance(a, Rational):
        return 1 / rational_root(Fraction(a))
    if isinstance(a, float):
        return 1 / math.sqrt(a) if a > 0 else math.inf if a == 0 else math.nan
    root = powers.square_root(a)
    return scalar.exp(scalar.log(a) / -2) if root is None else 1 / root


def rational_root(a: Fraction) -> Fraction:
    """√a where it is rational; else the float64 nearest to it, as a fraction."""
    if a <= 0:
        raise OptionError(f"{show(a)}: 1 ÷ √x needs a positive x; give eps a positive value")
    return Fraction(powers.root(a, 2))


# --- rules -------------------------------------------------------------------------------------------------------


def _inverse_root(params: Params, x: Array) -> Any:
    x = floats(x)
    wide = x.astype(np.float32) if x.dtype.itemsize == 2 else x
    return (np.ones((), wide.dtype) / np.sqrt(wide)).astype(x.dtype, copy=False)


def _inverse_root_push(params: Params, x: Any, dx: Any) -> Any:
    root = inverse_root(x)
    return divide(multiply(dx, multiply(root, multiply(root, root))), -2)


def _inverse_root_pull(params: Params, x: Any, g: Any) -> tuple[Any]:
    return (_inverse_root_push(params, x, g),)


def _normalised(params: NormaliseParams, x: Array, weight: Array, bias: Array) -> Any:
    """By the kernels; the result has the dtype of all three together."""
    dtype = together(x, weight, bias)
    cells = held(x).astype(held(np.empty(0, dtype)).dtype, copy=False)
    found, extent = params.known or moments(params, cells), _extent(params, cells)
    scale = weight / np.sqrt(found.variance + float(params.eps))
    return _kernels().scaled(cells, found.mean, scale, bias, extent).astype(dtype, copy=False)


def _composed(params: NormaliseParams, x: Any, weight: Any, bias: Any) -> Any:
    """The same with operators; 16 bits in float32."""
    given = (x, weight, bias)
    if all(each.dtype.kind != "O" for each in given):
        dtype = together(*given)
        if dtype.itemsize == 2:
            x, weight, bias = (cast(each, np.dtype(np.float32)) for each in given)
            return cast(_composed(params, x, weight, bias), dtype)
    beside = params.beside(x.shape)
    _, normal = _parts(params, x)
    return add(multiply(normal, shaped(weight, beside)), shaped(bias, beside))


def _parts(params: NormaliseParams, x: Any) -> tuple[Any, Any]:
    """1 ÷ √(variance + eps) in the shape of one number per channel beside x, and x normalised."""
    axes = params.others(x.shape)
    apart = subtract(x, mean(x, axes, True))
    eps = params.eps if x.dtype.kind == "O" else float(params.eps)
    root = inverse_root(add(mean(multiply(apart, apart), axes, True), eps))
    return root, multiply(apart, root)


def _push(params: NormaliseParams, x: Any, weight: Any, bias: Any, dx: Any, dweight: Any, dbias: Any) -> Any:
    x, weight, dx, dweight = map(_wide, (x, weight, dx, dweight))
    axes, beside = params.others(x.shape), params.beside(x.shape)
    root, normal = _parts(params, x)
    moved = _straightened(multiply(dx, root), normal, axes)
    moved = add(multiply(moved, shaped(weight, beside)), multiply(normal, shaped(dweight, beside)))
    return add(moved, shaped(dbias, beside))


def _straightened(v: Any, normal: Any, axes: tuple[int, ...]) -> Any:
    """v less its mean, and less its part along `normal`: what remains when the moments of the batch are kept."""
    return subtract(subtract(v, mean(v, axes, True)), multiply(normal, mean(multiply(normal, v), axes, True)))


def _pull(
    params: NormaliseParams, x: Any, weight: Any, bias: Any, g: Any, needs: Needs = (True, True, True)
) -> tuple[Any, ...]:
    if is_kernels(x, weight, g):
        return _pull_numbers(params, x, weight, g, needs)
    x, weight, g = map(_wide, (x, weight, g))
    axes, beside = params.others(x.shape), params.beside(x.shape)
    root, normal = _parts(params, x)
    gx = multiply(_straightened(multiply(g, shaped(weight, beside)), normal, axes), root) if needs[0] else None
    return gx, total(multiply(g, normal), axes) if needs[1] else None, total(g, axes) if needs[2] else None


@np.errstate(all="ignore")
def _pull_numbers(params: NormaliseParams, x: Array, weight: Array, g: Array, needs: Needs) -> tuple[Any, ...]:
    kind = held(np.empty(0, together(x, g))).dtype
    x, g = (np.ascontiguousarray(held(each), kind) for each in (x, g))
    kernels, extent = _kernels(), _extent(params, x)
    found = params.known or moments(params, x)
    root = 1 / np.sqrt(found.variance + float(params.eps))
    first, second = kernels.pair_sums(g, x, np.zeros(extent.channels), np.ascontiguousarray(found.mean, np.float64), extent)
    gx = None
    if needs[0]:
        slope = second / extent.cells * root * root
        gx = kernels.pulled(g, x, first / extent.cells, found.mean, slope, weight * root, extent)
    return gx, (second * root).astype(kind), first.astype(kind)


def _wide(x: Any) -> Any:
    return cast(x, np.dtype(np.float32)) if is_float(x.dtype) and x.dtype.itemsize == 2 else x


INVERSE_ROOT = native_op(
    "inverse_root",
    EachParams,
    _inverse_root,
    partial(by_cell, inverse_root_cell),
    _inverse_root_push,
    _inverse_root_pull,
    exact=False,
)
BATCH_NORM = native_op(
    "batch_norm",
    NormaliseParams,
    _normalised,
    _composed,
    _push,
    _pull,
    exact=False,
    inputs=("x", "weight", "bias"),
    composed=_composed,
)
