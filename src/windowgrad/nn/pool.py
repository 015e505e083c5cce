"""What pooling layers share: all follows from the function a layer names and its arguments, by the table of operators."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, ClassVar, Literal

import numpy as np

from windowgrad.arguments import Padding, Size, axes, flag
from windowgrad.errors import KindError, OptionError, show
from windowgrad.facts import Family
from windowgrad.functional.signatures import Named
from windowgrad.geometry import Adaptive, Geometry, Global, Sliding, sliding
from windowgrad.nn.layer import Layer, Shape, check_init, making, shape_given
from windowgrad.ops import FAMILIES, meaning
from windowgrad.params import PoolParams


class Pool(Layer):
    """What all pooling layers share: the shape rule is that of the operator's parameters.

    A layer names its function and has a field for each of its arguments; all else follows from the table of operators.
    """

    function: ClassVar[Callable[..., Any]]

    @property
    def family(self) -> Family:
        """What the table says of the function."""
        return FAMILIES[self.function.__name__]

    @property
    @abstractmethod
    def window(self) -> Geometry:
        """The regions that are pooled."""

    @cached_property
    def options(self) -> PoolParams:
        """What the operator is told."""
        record: Any = meaning(self.family.operator).params
        made: PoolParams = record(self.window, *(getattr(self, name) for name in self.family.options))
        return made

    @cached_property
    def given(self) -> dict[str, Any]:
        """What the function is called with."""
        names = (name for name in self.family.arguments if name not in ("x", "*", "return_indices", "where", "out"))
        return {name: getattr(self, name) for name in names}

    def __post_init__(self) -> None:
        with making(self):
            self._settle()
            _ = self.options, self.given  # now: torch.compile does not follow a property that is yet to be computed

    def _settle(self) -> None:
        """Make the arguments plain, so that equal layers compare equal."""

    def result(self, shape: Shape) -> Shape:
        out = self.options.out_shape(shape)
        self.options.check(shape)
        return out

    def apply(self, params: Mapping[str, Any], x: Any) -> Any:
        return self.function(x, **self.given)


class Window(Pool):
    """Pooling over windows."""

    kernel_size: tuple[int, ...]
    stride: Size | None
    padding: Padding | Named
    dilation: Size
    ceil_mode: bool

    @property
    def window(self) -> Sliding:
        return sliding(kernel_sizes(self.kernel_size), self.stride, self.padding, self.dilation, self.ceil_mode)

    def _settle(self) -> None:
        kernel_sizes(self.kernel_size)
        object.__setattr__(self, "ceil_mode", flag("ceil_mode", self.ceil_mode))
        window = self.window
        set_window(self, window, stride=None if window.stride == window.kernel else short(window.stride))


class Bins(Pool):
    """Pooling over adaptive bins."""

    output_size: tuple[int | None, ...]

    @property
    def window(self) -> Adaptive:
        return Adaptive(self.output_size)

    def _settle(self) -> None:
        if isinstance(self.output_size, int):
            raise KindError(f"output_size={show(self.output_size)}: {per_axis(self.output_size)}")
        object.__setattr__(self, "output_size", self.window.output_size)


class Everything(Pool):
    """Pooling over the last `rank` axes as a whole."""

    rank: int
    keepdims: bool

    @property
    def window(self) -> Global:
        return Global(self.rank, self.keepdims)

    def _settle(self) -> None:
        whole = self.window
        object.__setattr__(self, "rank", whole.rank)
        object.__setattr__(self, "keepdims", whole.keepdims)


class LearnsBeta(Pool):
    """A smooth maximum, whose β may be the layer's parameter."""

    beta: Any
    learn_beta: bool | Literal["channel"]

    def _settle(self) -> None:
        super()._settle()
        if not (isinstance(self.learn_beta, bool) or (isinstance(self.learn_beta, str) and self.learn_beta == "channel")):
            raise OptionError(f'learn_beta={show(self.learn_beta)}: must be False, True or "channel"')

    def sizes(self, shape: Shape) -> dict[str, Shape]:
        if not self.learn_beta:
            return {}
        lead, _ = self.window.split(shape)
        return {"beta": () if self.learn_beta is True else lead[-1:]}

    def init(self, rng: np.random.Generator, in_shape: Shape, dtype: Any = np.float32) -> Any:
        """β as it was given, for inputs of this shape; nothing is drawn."""
        kind = check_init(rng, dtype)
        self.out_shape(in_shape)
        return {name: np.full(size, float(self.beta), kind) for name, size in self.sizes(shape_given(in_shape)).items()}

    def apply(self, params: Mapping[str, Any], x: Any) -> Any:
        return self.function(x, **{**self.given, **params})


# --- arguments in their shortest form ----------------------------------------------------------------------------


def kernel_sizes(value: Any) -> tuple[int, ...]:
    """One entry per axis: a layer has no rank but this."""
    if isinstance(value, int):
        raise KindError(f"kernel_size={show(value)}: {per_axis(value)}")
    return axes("kernel_size", value)  # type: ignore[return-value]  # read as integers by the geometry


def per_axis(value: int) -> str:
    v = show(value)
    return f"must be a tuple with one entry per axis; write ({v},) for one axis, ({v}, {v}) for two"


def set_window(layer: Layer, window: Sliding, **more: object) -> None:
    """The window's arguments in the shortest form that means the same, so that equal layers compare equal; and `more`."""
    plain: dict[str, object] = {
        "kernel_size": window.kernel,
        "padding": short([lo if lo == hi else (lo, hi) for lo, hi in window.padding]),
        "dilation": short(window.dilation),
        **more,
    }
    for name, value in plain.items():
        object.__setattr__(layer, name, value)


def short(entries: Sequence[Any]) -> Any:
    """A lone integer where it says the same on every axis."""
    first = entries[0]
    return first if isinstance(first, int) and all(entry == first for entry in entries) else tuple(entries)
