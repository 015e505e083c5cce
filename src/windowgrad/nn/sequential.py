"""Layers one after the other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, overload

import numpy as np

from windowgrad.arguments import counted, shape_of
from windowgrad.errors import KindError, WindowError, show
from windowgrad.nn.layer import Layer, Saying, Shape, check_init, shape_given
from windowgrad.nn.summary import Row


@dataclass(frozen=True, init=False, repr=False)
class Sequential(Layer):
    """Layers applied one after the other; each may be a `Sequential` itself. The parameters are a tuple, one entry per layer.

    Errors and the summary count the layers from 0, as `layers` and the parameters do.
    """

    layers: tuple[Layer, ...]

    def __init__(self, *layers: Layer) -> None:
        for place, layer in enumerate(layers):
            if not isinstance(layer, Layer):
                hint = f"; write {layer.__name__}(...)" if isinstance(layer, type) and issubclass(layer, Layer) else ""
                raise KindError(f"layer {place} of Sequential: {show(layer)} is not a layer{hint}")
        object.__setattr__(self, "layers", layers)

    def __repr__(self) -> str:
        return f"Sequential({', '.join(map(repr, self.layers))})"

    def __len__(self) -> int:
        return len(self.layers)

    def __iter__(self) -> Iterator[Layer]:
        return iter(self.layers)

    @overload
    def __getitem__(self, place: int) -> Layer: ...
    @overload
    def __getitem__(self, place: slice) -> Sequential: ...
    def __getitem__(self, place: int | slice) -> Layer:
        """A layer, or a `Sequential` of some; its parameters are the same entry, or slice, of `params`."""
        return Sequential(*self.layers[place]) if isinstance(place, slice) else self.layers[place]

    @property
    def parts(self) -> dict[str, Layer]:
        """The layers by their places, as in the parameters."""
        return {str(place): layer for place, layer in enumerate(self.layers)}

    def result(self, shape: Shape) -> Shape:
        for place, layer in enumerate(self.layers):
            with self._at(place):
                shape = layer.out_shape(shape)
        return shape

    def out_shape(self, in_shape: Shape) -> Shape:
        """The shape of the output, batch axis included. Nothing is computed; an error names the layer it occurs in."""
        return self.result(shape_given(in_shape))

    def init(self, rng: np.random.Generator, in_shape: Shape, dtype: Any = np.float32) -> tuple[Any, ...]:
        """A tuple of every layer's parameters, drawn in order; nothing is drawn if a layer does not fit."""
        check_init(rng, dtype)
        self.out_shape(in_shape)
        params, shape = [], in_shape
        for place, layer in enumerate(self.layers):
            with self._at(place):
                params.append(layer.init(rng, shape, dtype))
                shape = layer.out_shape(shape)
        return tuple(params)

    def __call__(self, params: Any, x: Any) -> Any:
        """The output for `x`, an array of any kind or a variable of a tape, with these parameters."""
        shape_of("x", x)
        self.check_params(params)
        return self.apply(params, x)

    def train(self, params: Any, x: Any) -> tuple[Any, tuple[Any, ...]]:
        """(the output as in training, the parameters with new statistics), layer by layer."""
        shape_of("x", x)
        self.check_params(params)
        new = []
        for place, (layer, own) in enumerate(zip(self.layers, params, strict=True)):
            with self._at(place):
                x, changed = layer.train(own, x)
                new.append(changed)
        return x, tuple(new)

    def check_params(self, params: Any) -> None:
        """An error unless there is an entry for each layer."""
        if not isinstance(params, (tuple, list)):
            wanted = f"a tuple with one entry for each of {counted('layer', len(self.layers))}"
            raise KindError(f"Sequential: params={show(params)}: must be {wanted}, not {type(params).__name__}")
        if len(params) != len(self.layers):
            has = f"has {counted('entry', len(params))}, must have {len(self.layers)}, one per layer"
            raise WindowError(f"Sequential: params {has}")

    def apply(self, params: Sequence[Any], x: Any) -> Any:
        for place, (layer, own) in enumerate(zip(self.layers, params, strict=True)):
            with self._at(place):
                x = layer(own, x)
        return x

    def rows(self, in_shape: Shape, place: str) -> list[Row]:
        rows, shape = [], in_shape
        for number, layer in enumerate(self.layers):
            with self._at(number):
                rows += layer.rows(shape, f"{place}.{number}" if place else str(number))
                shape = layer.out_shape(shape)
        return rows

    def _at(self, place: int) -> Saying:
        return Saying("layer {} of Sequential, ", place)
