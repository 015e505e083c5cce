"""The parameters of the array operators, and their shape rules."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from windowgrad.arguments import MOST_AXES, as_int, counted, flag
from windowgrad.errors import KindError, WindowError, show
from windowgrad.params import Params, Shape

LEAST = -(2**63)


def entries(name: str, value: object, least: int) -> tuple[int, ...]:
    """Integers of at least `least`; a single one becomes a tuple."""
    if isinstance(value, (tuple, list)):
        if len(value) > MOST_AXES:
            has = f"has {counted('entry', len(value))}, an array has at most {MOST_AXES} axes"
            raise WindowError(f"{name}={show(value)}: {has}")
        return tuple(as_int(name, entry, least, f" at {place}") for place, entry in enumerate(value))
    if isinstance(value, (Sequence, set, dict)) or value is None or (isinstance(value, np.ndarray) and value.ndim):
        raise KindError(f"{name}={show(value)}: must be an integer or a tuple of integers, not {type(value).__name__}")
    return (as_int(name, value, least),)


def axis_of(name: str, axis: int, x: Shape, said: str = "x") -> int:
    """The axis of `x`, counted from the front; `said` is what the array is called."""
    if not -len(x) <= axis < len(x):
        wanted = f"must be from {-len(x)} to {len(x) - 1} for {said} of shape {x}" if x else f"{said} of shape () has no axes"
        raise WindowError(f"{name}={show(axis)}: {wanted}")
    return axis % len(x)


def axes_of(name: str, axes: Sequence[int], x: Shape) -> tuple[int, ...]:
    found = tuple(axis_of(name, axis, x) for axis in axes)
    if len(set(found)) < len(found):
        raise WindowError(f"{name}={show(tuple(axes))}: must not name an axis of x of shape {x} twice")
    return found


def broadcast(said: str, *shapes: Shape) -> Shape:
    """The shape of two arrays together: aligned at the end, an axis of length 1 is repeated. `said` is how to name both."""
    rank = max(map(len, shapes))
    a, b = ((1,) * (rank - len(shape)) + shape for shape in shapes)
    for axis, (n, m) in enumerate(zip(a, b, strict=True)):
        if n != m and 1 not in (n, m):
            sizes = f"sizes {n} and {m} on axis {axis - rank} must be equal, or one of them 1"
            raise WindowError(f"{said.format(*shapes)}: cannot be broadcast together, {sizes}")
    return tuple(m if n == 1 else n for n, m in zip(a, b, strict=True))


def repeats(x: Shape, shape: Shape) -> bool:
    """Whether an array of shape `x` can be repeated to `shape`."""
    return len(x) <= len(shape) and all(n in (1, m) for n, m in zip(reversed(x), reversed(shape), strict=False))


@dataclass(frozen=True)
class EachParams(Params):
    """Elementwise, of one array."""

    def out_shape(self, *shapes: Shape) -> Shape:
        (x,) = shapes
        return x


@dataclass(frozen=True)
class PairParams(Params):
    """Elementwise, of two arrays that are broadcast together."""

    def out_shape(self, *shapes: Shape) -> Shape:
        a, b = shapes
        return a if a == b else broadcast("a of shape {} and b of shape {}", a, b)


@dataclass(frozen=True)
class AlikeParams(Params):
    """Elementwise, of two arrays of the same shape."""

    def out_shape(self, *shapes: Shape) -> Shape:
        x, dx = shapes
        if x != dx:
            raise WindowError(f"dx of shape {dx}: must be {x}, the shape of x")
        return x


@dataclass(frozen=True)
class CastParams(Params):
    """The same numbers in another dtype."""

    dtype: np.dtype[Any]

    def out_shape(self, *shapes: Shape) -> Shape:
        (x,) = shapes
        return x


@dataclass(frozen=True)
class RepeatParams(Params):
    """Repeated along new axes in front and along axes of length 1. `chunks` is how a Dask array is to be cut then."""

    shape: Shape
    chunks: tuple[tuple[int, ...], ...] | None = None

    def out_shape(self, *shapes: Shape) -> Shape:
        (x,) = shapes
        if not repeats(x, self.shape):
            raise WindowError(f"shape={self.shape}: x of shape {x} cannot be broadcast to it")
        return self.shape


@dataclass(frozen=True)
class CollectParams(Params):
    """The adjoint of `RepeatParams`: summed to `shape`."""

    shape: Shape

    def out_shape(self, *shapes: Shape) -> Shape:
        (x,) = shapes
        if not repeats(self.shape, x):
            raise WindowError(f"shape={self.shape}: x of shape {x} cannot be summed to it")
        return self.shape


@dataclass(frozen=True)
class ReduceParams(Params):
    """One number over `axis` (one, several, or None for all), whose axes are kept with length 1 or removed."""

    axis: tuple[int, ...] | None = None
    keepdims: bool = False

    def __post_init__(self) -> None:
        if self.axis is not None:
            object.__setattr__(self, "axis", entries("axis", self.axis, LEAST))
        object.__setattr__(self, "keepdims", flag("keepdims", self.keepdims))

    def axes(self, x: Shape) -> tuple[int, ...]:
        return tuple(range(len(x))) if self.axis is None else axes_of("axis", self.axis, x)

    def kept(self, x: Shape) -> Shape:
        """The shape of the output with its axes kept."""
        gone = self.axes(x)
        return tuple(1 if axis in gone else n for axis, n in enumerate(x))

    def count(self, x: Shape) -> int:
        """How many elements are reduced to one."""
        return math.prod(x[axis] for axis in self.axes(x))

    def out_shape(self, *shapes: Shape) -> Shape:
        (x,) = shapes
        gone = self.axes(x)
        return self.kept(x) if self.keepdims else tuple(n for axis, n in enumerate(x) if axis not in gone)


@dataclass(frozen=True)
class ReshapeParams(Params):
    """The same cells in row-major order under another shape; one entry may be −1: what is left."""

    shape: tuple[int, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "shape", entries("shape", self.shape, -1))
        if self.shape.count(-1) > 1:
            raise WindowError(f"shape={show(self.shape)}: must not have more than one −1")

    def out_shape(self, *shapes: Shape) -> Shape:
        (x,) = shapes
        cells, known = math.prod(x), math.prod(n for n in self.shape if n != -1)
        if -1 not in self.shape:
            if known != cells:
                raise WindowError(f"shape={show(self.shape)}: has {counted('element', known)}, x of shape {x} has {cells}")
            return self.shape
        if not known or cells % known:
            has = f"x of shape {x} has {counted('element', cells)}, not a multiple of {known}"
            raise WindowError(f"shape={show(self.shape)}: {has}")
        return tuple(cells // known if n == -1 else n for n in self.shape)


@dataclass(frozen=True)
class FlattenParams(Params):
    """All axes from `start_axis` on become one."""

    start_axis: int = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "start_axis", as_int("start_axis", self.start_axis, LEAST))

    def out_shape(self, *shapes: Shape) -> Shape:
        (x,) = shapes
        start = axis_of("start_axis", self.start_axis, x)
        return (*x[:start], math.prod(x[start:]))


@dataclass(frozen=True)
class PermuteParams(Params):
    """The axes in another order; None turns them around."""

    axes: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        if self.axes is not None:
            object.__setattr__(self, "axes", entries("axes", self.axes, LEAST))

    def order(self, x: Shape) -> tuple[int, ...]:
        if self.axes is None:
            return tuple(reversed(range(len(x))))
        if len(self.axes) != len(x):
            has = f"has {counted('entry', len(self.axes))}, x of shape {x} has {counted('axis', len(x))}"
            raise WindowError(f"axes={show(self.axes)}: {has}")
        return axes_of("axes", self.axes, x)

    def out_shape(self, *shapes: Shape) -> Shape:
        (x,) = shapes
        return tuple(x[axis] for axis in self.order(x))


@dataclass(frozen=True)
class MatmulParams(Params):
    """Rows of `a` times columns of `b`; a vector is a row on the left and a column on the right, and its axis goes."""

    def out_shape(self, *shapes: Shape) -> Shape:
        for name, shape in zip("ab", shapes, strict=True):
            if not shape:
                raise WindowError(f"{name} of shape (): must have at least one axis; use multiply to scale by a number")
        a, b = shapes
        if a[-1] != b[-2:][0]:
            axis = max(-2, -len(b))
            raise WindowError(
                f"b of shape {b}: must have size {a[-1]} on axis {axis}, the size of the last axis of a of shape {a}"
            )
        lead = broadcast("the leading axes {} of a and {} of b", a[:-2], b[:-2])
        return lead + a[:-1][-1:] + (b[-1:] if len(b) > 1 else ())


@dataclass(frozen=True)
class SoftmaxParams(Params):
    """Along one axis."""

    axis: int = -1

    def __post_init__(self) -> None:
        object.__setattr__(self, "axis", as_int("axis", self.axis, LEAST))

    def out_shape(self, *shapes: Shape) -> Shape:
        (x,) = shapes
        axis_of("axis", self.axis, x)
        return x


@dataclass(frozen=True)
class PickParams(Params):
    """From each row of `x`, the cell that its label names."""

    def out_shape(self, *shapes: Shape) -> Shape:
        return labelled("x", *shapes)


@dataclass(frozen=True)
class PlaceParams(Params):
    """The adjoint of `PickParams`: each cell in a row of `classes` zeros, where its label says."""

    classes: int

    def out_shape(self, *shapes: Shape) -> Shape:
        x, labels = shapes
        labelled("the row", (*x, self.classes), labels)
        return (*x, self.classes)


@dataclass(frozen=True)
class CrossEntropyParams(Params):
    """One label per row of logits; the mean over all rows."""

    def out_shape(self, *shapes: Shape) -> Shape:
        labelled("logits", *shapes)
        return ()


def labelled(name: str, x: Shape, labels: Shape) -> Shape:
    if not x or not x[-1]:
        raise WindowError(f"{name} of shape {x}: must have at least one class on its last axis")
    if labels != x[:-1]:
        raise WindowError(f"labels of shape {labels}: must be {x[:-1]}, the shape of {name} without its last axis")
    return labels


@dataclass(frozen=True)
class MseParams(Params):
    """The mean of the squared differences; the target is like x, or one number."""

    def out_shape(self, *shapes: Shape) -> Shape:
        x, target = shapes
        if target not in (x, ()):
            raise WindowError(f"target of shape {target}: must be {x}, the shape of x, or a scalar")
        return ()
