"""Batch normalisation. In training the moments of the batch, else the running ones, which training returns as a value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from windowgrad.arguments import MOST_AXES, as_int, flag, shape_of
from windowgrad.autograd.arrays import add, multiply, stop_gradient, subtract, where
from windowgrad.autograd.arrays.arithmetic import shaped
from windowgrad.autograd.arrays.normalise import Moments, NormaliseParams, batch_norm, inverse_root, moments
from windowgrad.autograd.arrays.rules import cast
from windowgrad.autograd.steps import is_lazy, untraced
from windowgrad.errors import OptionError, WindowError, show
from windowgrad.nn.layer import Layer, Saying, Shape, check_init, checked, making, shape_given
from windowgrad.nn.optimise import between


@dataclass(frozen=True, repr=False)
class BatchNorm(Layer):
    """(x − mean) ÷ √(variance + eps) · weight + bias, with one number of each per channel, the index on `axis`.

    In training (`train`) mean and variance are those of the batch; the new running ones, with a part `momentum` of the
    batch's, are returned. A call uses the running ones, which count as constants: no gradient goes to them.
    """

    axis: int = 1
    eps: Any = 1e-5
    momentum: Any = 0.1
    affine: bool = True

    statistics: ClassVar[tuple[str, ...]] = ("running_mean", "running_var")

    def __post_init__(self) -> None:
        with making(self):
            object.__setattr__(self, "axis", as_int("axis", self.axis, -MOST_AXES))
            object.__setattr__(self, "affine", flag("affine", self.affine))
            object.__setattr__(self, "eps", between("eps", self.eps, np.inf))
            object.__setattr__(self, "momentum", between("momentum", self.momentum, np.inf))
            if self.momentum > 1:
                raise OptionError(f"momentum={show(self.momentum)}: must be at least 0 and at most 1")

    @property
    def options(self) -> NormaliseParams:
        """What the operator is told."""
        return NormaliseParams(self.axis, self.eps)

    def sizes(self, shape: Shape) -> dict[str, Shape]:
        if not -len(shape) <= self.axis < len(shape):
            raise WindowError(f"x of shape {shape}: has no axis {self.axis}, on which the channels should be")
        channels: Shape = (shape[self.axis],)
        if not channels[0]:
            raise WindowError(f"x of shape {shape}: has no channels, must have at least one")
        names = (*(("weight", "bias") if self.affine else ()), *self.statistics)
        return dict.fromkeys(names, channels)

    def result(self, shape: Shape) -> Shape:
        self.sizes(shape)
        return shape

    def init(self, rng: np.random.Generator, in_shape: Shape, dtype: Any = np.float32) -> dict[str, Any]:
        """Weights and variances of 1, biases and means of 0; nothing is drawn."""
        kind = check_init(rng, dtype)
        self.out_shape(in_shape)
        ones = ("weight", "running_var")
        return {
            name: (np.ones if name in ones else np.zeros)(size, kind)
            for name, size in self.sizes(shape_given(in_shape)).items()
        }

    def apply(self, params: Mapping[str, Any], x: Any) -> Any:
        beside = self.options.beside(tuple(x.shape))
        mean, variance = (constant(params[name]) for name in self.statistics)
        scale = inverse_root(add(variance, self.eps))
        if not self.affine:
            return multiply(subtract(x, shaped(mean, beside)), shaped(scale, beside))
        scale = multiply(params["weight"], scale)
        shift = subtract(params["bias"], multiply(mean, scale))
        return add(multiply(x, shaped(scale, beside)), shaped(shift, beside))

    def train(self, params: Any, x: Any) -> tuple[Any, Any]:
        """(the output with the moments of the batch, the parameters with new running ones). Nothing is changed in place."""
        with Saying("{!r}: ", self):
            shape = shape_of("x", x)
            params = checked(params, self.sizes(shape), shape)
            count = self.options.count(shape)
            if count < 2:
                raise WindowError(f"x of shape {shape}: training needs at least 2 cells per channel, here {count}")
            found = moments(self.options, constant(x))
            weight, bias = (params["weight"], params["bias"]) if self.affine else _neutral(params)
            y = batch_norm(x, weight, bias, self.axis, self.eps, found)
            return y, {**params, **self._moved(params, found, count)}

    def _moved(self, params: Mapping[str, Any], found: Moments, count: int) -> dict[str, Any]:
        """The running statistics after a batch; the variance that is kept is the unbiased one, as in PyTorch."""
        old = [constant(params[name]) for name in self.statistics]
        new = found.mean, found.variance * _ratio(found.variance, count)
        return {name: _mixed(a, b, self.momentum) for name, a, b in zip(self.statistics, old, new, strict=True)}


def constant(x: Any) -> Any:
    """x without what is differentiated, by us or by its framework."""
    x = untraced(x)
    return x if isinstance(x, np.ndarray) or is_lazy(x) else stop_gradient(x)


def _ratio(like: Any, count: int) -> Any:
    """count ÷ (count − 1), exact beside objects."""
    return Fraction(count, count - 1) if like.dtype == object else count / (count - 1)


def _mixed(old: Any, new: Any, part: Any) -> Any:
    """`part` of the new and the rest of the old, in the dtype of the old; infinity is a result, not a warning."""
    if old.dtype == object:
        return old * (1 - part) + new * part
    return cast(add(multiply(old, 1 - float(part)), multiply(new, float(part))), old.dtype)


def _neutral(params: Mapping[str, Any]) -> tuple[Any, Any]:
    """The weight and the bias that change nothing."""
    mean = constant(params["running_mean"])
    nowhere = np.zeros(mean.shape, bool)
    return where(nowhere, mean, 1), where(nowhere, mean, 0)
