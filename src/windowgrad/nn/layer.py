"""The base of all layers: a description that knows its shapes, makes its parameters and applies them.

A layer of your own is a frozen dataclass derived from `Layer` with `result` and `apply`, and `sizes` if it has parameters.
"""

from __future__ import annotations

import dataclasses
import math
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import TracebackType
from typing import Any, ClassVar, TypeAlias

import numpy as np

from windowgrad.arguments import ints, shape_of
from windowgrad.errors import KindError, WindowError, WindowgradError, show
from windowgrad.memory import refuse_unallocatable
from windowgrad.nn.summary import Row, Summary, listed, summed

Shape: TypeAlias = tuple[int, ...]


class Layer(ABC):
    """An immutable description of a layer. It holds no parameters: `init` returns them, and every call is given them."""

    statistics: ClassVar[tuple[str, ...]] = ()
    """The names of parameters that are measured in training, not learnt: no gradient goes to them."""

    # --- what a layer says of itself ---

    @abstractmethod
    def result(self, shape: Shape) -> Shape:
        """The shape of the output for an input of this shape, or an error that says what does not fit."""

    def sizes(self, shape: Shape) -> dict[str, Shape]:
        """The shapes of the parameters for an input of this shape, by name; the weight is the first."""
        return {}

    def work(self, shape: Shape) -> int:
        """The number of multiply-adds for an input of this shape."""
        return 0

    @abstractmethod
    def apply(self, params: Any, x: Any) -> Any:
        """The output; the parameters have the names and the shapes of `sizes`."""

    # --- what follows from it ---

    def out_shape(self, in_shape: Shape) -> Shape:
        """The shape of the output, batch axis included. Nothing is computed; an error names the layer it occurs in."""
        shape = shape_given(in_shape)
        with Saying("{!r}: ", self):
            return self.result(shape)

    def init(self, rng: np.random.Generator, in_shape: Shape, dtype: Any = np.float32) -> Any:
        """Parameters for inputs of this shape, drawn uniformly from ±1/√fan_in, as PyTorch does by default.

        `fan_in` is the number of weights per entry of the weight's first axis. The same generator gives the same
        numbers for every dtype; nothing is drawn if the shape does not fit.
        """
        kind = check_init(rng, dtype)
        self.out_shape(in_shape)
        with Saying("{!r}: ", self):
            return drawn(rng, self.sizes(shape_given(in_shape)), kind)

    def __call__(self, params: Any, x: Any) -> Any:
        """The output for `x`, an array of any kind or a variable of a tape, with these parameters."""
        with Saying("{!r}: ", self):
            shape = shape_of("x", x)
            return self.apply(checked(params, self.sizes(shape), shape), x)

    def train(self, params: Any, x: Any) -> tuple[Any, Any]:
        """(the output as in training, the parameters with new statistics). Nothing is changed in place.

        Only a layer with statistics, such as `BatchNorm`, computes something else in training; all others give
        `self(params, x)` and `params`.
        """
        return self(params, x), params

    def summary(self, in_shape: Shape) -> Summary:
        """A table of every layer's output shape, parameters and multiply-adds, with totals: a string, to be printed.

        A notebook shows it as a table, and for a layer by itself, whose input is not known, the layers it is made of.
        """
        shape = shape_given(in_shape)
        return summed(type(self).__name__, shape, self.rows(shape, ""))

    def rows(self, in_shape: Shape, place: str) -> list[Row]:
        """The rows of the layer in the table; `place` is its position, as in `params`."""
        out = self.out_shape(in_shape)
        learnt = (size for name, size in self.sizes(in_shape).items() if name not in self.statistics)
        parameters = sum(map(math.prod, learnt))
        return [Row(place, repr(self), out, parameters, self.work(in_shape))]

    @property
    def parts(self) -> Mapping[str, Layer] | None:
        """The layers it is made of, by their places in the parameters; None for a layer that computes by itself."""
        return None

    def _leaves(self, place: str) -> list[tuple[str, str]]:
        """(place, layer) of every layer that computes by itself."""
        if self.parts is None:
            return [(place, repr(self))]
        inside = (part._leaves(f"{place}.{name}" if place else name) for name, part in self.parts.items())
        return [line for lines in inside for line in lines]

    def _repr_html_(self) -> str:
        return listed(type(self).__name__, self._leaves("")).html()

    def __repr__(self) -> str:
        return described(self, repr)


def shape_given(in_shape: object) -> Shape:
    """The shape of an input, checked to be possible for an array."""
    shape = ints("in_shape", in_shape, least=0)
    for axis, n in enumerate(shape):
        if n > sys.maxsize:
            raise WindowError(f"in_shape={show(n)} on axis {axis}: too large for an array")
    return shape


def described(layer: Layer, written: Callable[[Any], str]) -> str:
    """The layer as it could be written: the arguments that are not the default's."""
    given = []
    for field in dataclasses.fields(layer):  # type: ignore[arg-type]  # every layer is a dataclass
        value = getattr(layer, field.name)
        if type(value) is not type(field.default) or value != field.default:
            given.append(f"{field.name}={written(value)}")
    return f"{type(layer).__name__}({', '.join(given)})"


@contextmanager
def making(layer: Layer) -> Iterator[None]:
    """Around the checks of a new layer: an error shows what was to be made."""
    try:
        yield
    except WindowgradError as error:
        error.call = error.call or described(layer, show)
        raise


class Saying:
    """Around the work of a layer: an error says first where it happened. Nothing is written while all is well."""

    __slots__ = ("pattern", "where")

    def __init__(self, pattern: str, where: object) -> None:
        self.pattern, self.where = pattern, where

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if isinstance(error, WindowgradError):
            error.args = (self.pattern.format(self.where) + str(error.args[0]), *error.args[1:])


# --- parameters --------------------------------------------------------------------------------------------------


def check_init(rng: object, dtype: Any) -> np.dtype[Any]:
    """The dtype of new parameters, once the generator and the dtype are what they must be."""
    if not isinstance(rng, np.random.Generator):
        raise KindError(f"rng={show(rng)}: must be a numpy.random.Generator; write numpy.random.default_rng(seed)")
    for kind in map(np.dtype, (np.float16, np.float32, np.float64)):
        if isinstance(dtype, (str, type, np.dtype)) and kind == dtype:
            return kind
    raise KindError(f"dtype={show(dtype)}: must be float16, float32 or float64")


def drawn(rng: np.random.Generator, sizes: dict[str, Shape], dtype: np.dtype[Any]) -> dict[str, Any]:
    if not sizes:
        return {}
    for name, size in sizes.items():
        refuse_unallocatable(size, 8, name)
    fan_in = math.prod(next(iter(sizes.values()))[1:])
    bound = 1 / math.sqrt(fan_in)
    return {name: rng.uniform(-bound, bound, size).astype(dtype) for name, size in sizes.items()}


def checked(params: Any, sizes: dict[str, Shape], shape: Shape) -> Mapping[str, Any]:
    """`params`, which has exactly the names and shapes it must have for an input of this shape."""
    if not isinstance(params, (dict, Mapping)):  # most are a dict, which is found out faster
        wanted = f"a dict with {_listed(sizes)}" if sizes else "an empty dict"
        raise KindError(f"params={show(params)}: must be {wanted}, not {type(params).__name__}")
    if params.keys() != sizes.keys():
        has = _listed({str(name): () for name in params})
        shapes = f", of shapes {' and '.join(map(str, sizes.values()))}" if sizes else ""
        raise WindowError(f"params has {has}: must have {_listed(sizes)}{shapes}")
    for name, size in sizes.items():
        if (given := shape_of(f'params["{name}"]', params[name])) != size:
            raise WindowError(f'params["{name}"] of shape {given}: must be {size} for x of shape {shape}')
    return params


def _listed(sizes: Mapping[str, Shape]) -> str:
    return " and ".join(f'"{name}"' for name in sizes) or "no entries"
