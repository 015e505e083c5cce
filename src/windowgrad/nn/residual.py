"""A body beside a shortcut."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from windowgrad.arguments import shape_of
from windowgrad.autograd.arrays import add
from windowgrad.errors import KindError, WindowError, show
from windowgrad.nn.layer import Layer, Saying, Shape, check_init, making, shape_given
from windowgrad.nn.summary import Row

T = TypeVar("T")


@dataclass(frozen=True, repr=False)
class Residual(Layer):
    """body(x) + shortcut(x); without a shortcut, body(x) + x. Both outputs must have the same shape.

    The parameters are a dict: those of the body under "body", those of the shortcut, if there is one, under "shortcut".
    """

    body: Layer
    shortcut: Layer | None = None

    def __post_init__(self) -> None:
        with making(self):
            for name, layer in (("body", self.body), ("shortcut", self.shortcut)):
                if not isinstance(layer, Layer) and (name == "body" or layer is not None):
                    hint = f"; write {layer.__name__}(...)" if isinstance(layer, type) and issubclass(layer, Layer) else ""
                    raise KindError(f"{name}={show(layer)}: must be a layer{hint}")

    @property
    def parts(self) -> dict[str, Layer]:
        """The layers by the names of their parameters."""
        return {"body": self.body} if self.shortcut is None else {"body": self.body, "shortcut": self.shortcut}

    def result(self, shape: Shape) -> Shape:
        shapes = self._each(lambda name, layer: layer.out_shape(shape))
        y, beside = shapes["body"], shapes.get("shortcut", shape)
        if y != beside:
            what = "the shortcut's output" if self.shortcut is not None else "x, which is added to it"
            raise WindowError(f"Residual: the body gives {y} for x of shape {shape}: must be {beside}, the shape of {what}")
        return y

    def out_shape(self, in_shape: Shape) -> Shape:
        """The shape of the output, batch axis included. Nothing is computed; an error names the layer it occurs in."""
        return self.result(shape_given(in_shape))

    def init(self, rng: np.random.Generator, in_shape: Shape, dtype: Any = np.float32) -> dict[str, Any]:
        """The parameters of the body, then those of the shortcut; nothing is drawn if a layer does not fit."""
        check_init(rng, dtype)
        self.out_shape(in_shape)
        return self._each(lambda name, layer: layer.init(rng, in_shape, dtype))

    def __call__(self, params: Any, x: Any) -> Any:
        """The output for `x`, an array of any kind or a variable of a tape, with these parameters."""
        shape_of("x", x)
        self.check_params(params)
        return self.apply(params, x)

    def apply(self, params: Mapping[str, Any], x: Any) -> Any:
        return self._joined(x, self._each(lambda name, layer: layer(params[name], x)))

    def train(self, params: Any, x: Any) -> tuple[Any, dict[str, Any]]:
        """(the output as in training, the parameters with new statistics)."""
        shape_of("x", x)
        self.check_params(params)
        both = self._each(lambda name, layer: layer.train(params[name], x))
        return self._joined(x, {name: y for name, (y, _) in both.items()}), {name: new for name, (_, new) in both.items()}

    def rows(self, in_shape: Shape, place: str) -> list[Row]:
        self.out_shape(in_shape)
        rows = self._each(lambda name, layer: layer.rows(in_shape, f"{place}.{name}" if place else name))
        return [row for part in rows.values() for row in part]

    def _each(self, work: Callable[[str, Layer], T]) -> dict[str, T]:
        """What `work` gives for each part; an error says in which part it happened."""
        found = {}
        for name, layer in self.parts.items():
            with Saying("{} of Residual, ", name):
                found[name] = work(name, layer)
        return found

    def _joined(self, x: Any, outs: Mapping[str, Any]) -> Any:
        beside = outs.get("shortcut", x)
        if tuple(outs["body"].shape) != tuple(beside.shape):  # nothing is broadcast
            self.result(tuple(x.shape))
        return add(outs["body"], beside)

    def check_params(self, params: Any) -> None:
        """An error unless there is an entry for each part."""
        wanted = " and ".join(f'"{name}"' for name in self.parts)
        if not isinstance(params, Mapping):
            raise KindError(f"Residual: params={show(params)}: must be a dict with {wanted}, not {type(params).__name__}")
        if params.keys() != self.parts.keys():
            has = " and ".join(f'"{name}"' for name in params) or "no entries"
            raise WindowError(f"Residual: params has {has}: must have {wanted}")
