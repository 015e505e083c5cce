"""The parameters of an operator: one frozen record per operator, checked when it is made.

A record also knows the operator's shape rule, so a wrong shape is an error before any work is done.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import cached_property
from numbers import Complex, Rational, Real
from typing import Any, Self

import numpy as np

from windowgrad.arguments import Pairs, as_int, counted, flag, ints, pairs
from windowgrad.dtypes import machine_float
from windowgrad.errors import KindError, OptionError, WindowError, show
from windowgrad.geometry import Geometry, Global, Sliding, resized

Shape = tuple[int, ...]

TIES = ("first", "all", "split")
EMPTY = ("zero", "raise")
DUPLICATES = ("last", "add")
BORDERS = ("constant", "reflect", "replicate", "circular")


def _one_of(name: str, value: object, allowed: Sequence[str]) -> None:
    if not isinstance(value, str) or value not in allowed:
        raise OptionError(f"{name}={show(value)}: must be one of {', '.join(map(repr, allowed))}")


AT_ONCE = 1 << 16
"""How many windows of an axis are checked at a time."""


class Mask:
    """Which cells of an array are there: True where one counts. It equals itself alone, so its cells may be any."""

    lazy: bool = False
    """Whether it is a Dask array, for another."""

    def __init__(self, where: Any, lazy: bool = False) -> None:
        self.array: Any = where
        self.lazy = lazy
        is_array = lazy or isinstance(where, np.ndarray)
        if not is_array or where.dtype != np.bool_:
            kind = f"an array of {where.dtype}" if is_array else type(where).__name__
            raise KindError(f"where: must be an array of bool, not {kind}")

    def __repr__(self) -> str:
        return f"Mask(bool{self.array.shape})"

    def over(self, shape: Sequence[int]) -> Any:
        """The mask of every cell of an array of `shape`."""
        try:
            return np.broadcast_to(self.array, shape)
        except ValueError:
            raise WindowError(f"where of shape {self.array.shape}: must broadcast to {tuple(shape)}, the shape of x") from None


def no_cell(out: Sequence[int]) -> WindowError:
    """The error for a window of which the mask leaves nothing."""
    return WindowError(f'empty="raise": the window of output {tuple(map(int, out))} has no cell that `where` leaves')


class Params(ABC):
    """Base of all parameter records. A record is frozen, so it can be part of a cache key if it is `lasting`."""

    where: Mask | None = None

    @property
    def lasting(self) -> bool:
        """Whether it holds plain values only, no objects of a user's own types."""
        return True

    def machine(self) -> Any:
        """The same record with plain values only, for arrays that hold machine numbers."""
        return self

    @abstractmethod
    def out_shape(self, *shapes: Shape) -> Shape:
        """The shape of the output for inputs of these shapes, or an error that says what does not fit."""

    def check(self, *shapes: Shape) -> None:  # noqa: B027  # most records check nothing more
        """Raise an error for what is not allowed although the output has a shape."""

    def check_dtypes(self, *dtypes: np.dtype[Any]) -> None:  # noqa: B027  # most records fit every dtype
        """Raise an error for an option that arrays of these dtypes cannot hold."""


@dataclass(frozen=True)
class PoolParams(Params):
    """A reduction over the regions of `geometry`; of cells that `where` leaves out it knows nothing."""

    geometry: Geometry
    where: Mask | None = field(default=None, kw_only=True, repr=False)

    def __post_init__(self) -> None:
        if not isinstance(self.geometry, Geometry):
            raise KindError(f"geometry={show(self.geometry)}: must be Sliding, Adaptive or Global")

    @property
    def lasting(self) -> bool:
        return self.where is None

    @cached_property
    def plain(self) -> Self:
        """The same record without a mask."""
        return self if self.where is None else replace(self, where=None)

    def masked_by(self, mask: Mask) -> Self:
        """The same record with a mask; what was right is not checked again."""
        plain, made = self if self.where is None else self.plain, object.__new__(type(self))
        made.__dict__.update(self.__dict__, where=mask, plain=plain)
        return made

    def out_shape(self, *shapes: Shape) -> Shape:
        (x,) = shapes
        if self.where is not None:
            self.where.over(x)
        return self.geometry.out_shape(x)


@dataclass(frozen=True)
class MaxParams(PoolParams):
    """`ties`: which of several equal maxima gets the gradient. `empty`: whether a window without real cells is 0 or fails."""

    ties: str = "first"
    empty: str = "zero"

    def __post_init__(self) -> None:
        super().__post_init__()
        _one_of("ties", self.ties, TIES)
        _one_of("empty", self.empty, EMPTY)

    def check(self, *shapes: Shape) -> None:
        if self.empty == "zero":
            return
        _, spatial = self.geometry.split(shapes[0])
        for axis, (n, m) in enumerate(zip(spatial, self.geometry.grid(spatial), strict=False)):
            for first in range(0, m, AT_ONCE):
                table = self.geometry.table(axis, n, (first, min(first + AT_ONCE, m)))
                if not table.count.all():
                    window = first + int(table.count.argmin())
                    raise WindowError(f'empty="raise": window {window} on axis {axis} covers no cell of the input')


class MinParams(MaxParams):
    """The same for the least value."""


@dataclass(frozen=True)
class MeanParams(PoolParams):
    """The divisor: all cells of the window inside the padded input, only the real ones, or `divisor_override`."""

    count_include_pad: bool = True
    divisor_override: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "count_include_pad", flag("count_include_pad", self.count_include_pad))
        if self.divisor_override is not None:
            object.__setattr__(self, "divisor_override", as_int("divisor_override", self.divisor_override, 1))


@dataclass(frozen=True)
class SmoothParams(PoolParams):
    """`beta` ≠ 0: how sharp the maximum is (negative: a minimum). Padded cells count as zeros or are left out."""

    beta: Any
    count_include_pad: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "count_include_pad", flag("count_include_pad", self.count_include_pad))
        _check_beta(self.beta)

    @property
    def lasting(self) -> bool:
        return super().lasting and type(self.beta) in (int, float)

    def machine(self) -> SmoothParams:
        return self if self.lasting else replace(self, beta=machine_float("beta", self.beta))


@dataclass(frozen=True)
class SharpParams(PoolParams):
    """The same with β as an input: one number, or one for each entry of the axis before the windows.

    `order` k is 0, except for what higher derivatives are made of: there the result is E[(x − y)ᵏ] under the softmax weights
    instead of y, the smooth maximum (`spec/sharpness.py`).
    """

    count_include_pad: bool = True
    order: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "count_include_pad", flag("count_include_pad", self.count_include_pad))
        object.__setattr__(self, "order", as_int("order", self.order, 0))

    @property
    def kept_axes(self) -> int:
        """How many axes of the output come after that of the channels."""
        return len(self.geometry.grid((1,) * self.geometry.rank)) if isinstance(self.geometry, Global) else self.geometry.rank

    def out_shape(self, *shapes: Shape) -> Shape:
        x, beta = shapes
        lead, _ = self.geometry.split(x)
        if beta and beta != lead[-1:]:
            each = f" or ({show(lead[-1])},), one for each entry of the axis before the windows" if lead else ""
            raise WindowError(f"beta of shape {show(beta)}: must be (){each}")
        return super().out_shape(x)

    def check_dtypes(self, *dtypes: np.dtype[Any]) -> None:
        if dtypes[1].kind == "b":
            raise KindError("beta: unsupported dtype bool; must be real numbers")


def _check_beta(beta: Any) -> None:
    if isinstance(beta, (bool, np.bool_)) or not (isinstance(beta, (Real, Decimal)) or _is_scalar(beta)):
        shape = getattr(beta, "shape", ())
        kind = f"an array of shape {shape}" if shape else type(beta).__name__
        raise KindError(f"beta={show(beta)}: must be a real number, not {kind}")
    if isinstance(beta, (Real, Decimal)) and not _is_finite(beta):
        raise OptionError(f"beta={show(beta)}: must be finite; max_pool is the limit")
    if _may_be_zero(beta):
        raise OptionError(f"beta={show(beta)}: must not be zero; the smooth maximum tends to infinity there")


def _may_be_zero(value: Any) -> bool:
    """Whether it is neither above 0 nor below: 0 itself, a dual number whose value is 0, an interval around 0."""
    try:
        return not (value > 0 or value < 0)
    except TypeError:  # a scalar that has no < but may have ==
        return bool(value == 0)


def _is_scalar(value: Any) -> bool:
    """Whether it may be a user's own real type: it multiplies and compares, and is not an array, sequence or complex number."""
    known = isinstance(value, (str, bytes, Sequence, Complex)) or hasattr(value, "shape")
    return not known and hasattr(value, "__mul__") and hasattr(value, "__gt__")


def _is_finite(value: Any) -> bool:
    """Whether a real number is finite; exact ones always are, however large."""
    return isinstance(value, Rational) or (value.is_finite() if isinstance(value, Decimal) else math.isfinite(value))


@dataclass(frozen=True)
class LpParams(PoolParams):
    """`norm_type` is p ≥ 1, finite.

    `order` k is 1, except in windows of one cell: there the derivative rules multiply by sign(x)ᵏ·|x|^(1−k), the derivative of
    |x| for k = 1, and for k > 1 what its higher derivatives are made of (`spec/pnorm.py`).
    """

    norm_type: int | float
    order: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "norm_type", _as_norm(self.norm_type))
        object.__setattr__(self, "order", as_int("order", self.order, 1))
        if self.order > 1 and self.geometry != Sliding((1,) * self.geometry.rank):
            raise OptionError(f"order={show(self.order)}: must be 1, except in windows of one cell")


def _as_norm(p: Any) -> int | float:
    if isinstance(p, (bool, np.bool_)) or not isinstance(p, (Real, Decimal)):
        raise KindError(f"norm_type={show(p)}: must be a real number, not {type(p).__name__}")
    if not _is_finite(p):
        raise OptionError(f"norm_type={show(p)}: must be finite; max_pool of |x| is the limit")
    if p < 1:
        raise OptionError(f"norm_type={show(p)}: must be at least 1")
    number = machine_float("norm_type", p)
    return int(number) if number.is_integer() else number


@dataclass(frozen=True)
class ConvParams(Params):
    """Cross-correlation over `window`; the channels are split into `groups`, each convolved by itself."""

    window: Sliding
    groups: int = 1

    def __post_init__(self) -> None:
        if not isinstance(self.window, Sliding):
            raise KindError(f"window={show(self.window)}: must be a Sliding geometry")
        object.__setattr__(self, "groups", as_int("groups", self.groups, 1))

    def out_shape(self, *shapes: Shape) -> Shape:
        x, w = shapes[:2]
        self._check_weight(x, w)
        channels = _channels(x, self.window.rank)
        if channels != w[1] * self.groups:
            raise WindowError(
                f"weight of shape {show(w)} with groups={show(self.groups)} expects {counted('channel', w[1] * self.groups)}, "
                f"but x of shape {show(x)} has {show(channels)}"
            )
        if w[0] % self.groups:
            raise WindowError(f"groups={show(self.groups)}: must divide the {show(w[0])} output channels of weight {show(w)}")
        _check_bias(shapes[2:], w[0])
        lead, spatial = self.window.split(x)
        return (*lead[:-1], w[0], *self.window.grid(spatial))

    def _check_weight(self, x: Shape, w: Shape) -> None:
        rank = self.window.rank
        if len(w) != rank + 2:
            raise WindowError(f"weight of shape {show(w)}: must have {rank + 2} axes (two for channels, {rank} for the window)")
        if w[2:] != self.window.kernel:
            raise WindowError(
                f"weight of shape {show(w)}: its window is {show(w[2:])}, must be kernel_size={show(self.window.kernel)}"
            )
        if len(x) < rank + 1:
            raise WindowError(f"x of shape {show(x)}: must have at least {rank + 1} axes (channels and {rank} for the window)")


@dataclass(frozen=True)
class TransposeParams(ConvParams):
    """The adjoint of `ConvParams`: `window` is that of the convolution it is the adjoint of."""

    output_padding: tuple[int, ...] = 0  # type: ignore[assignment]  # a single integer becomes one per axis below

    def __post_init__(self) -> None:
        super().__post_init__()
        w = self.window
        extra = ints("output_padding", self.output_padding, w.rank, least=0)
        object.__setattr__(self, "output_padding", extra)
        for axis, (e, s, d) in enumerate(zip(extra, w.stride, w.dilation, strict=True)):
            if e >= s and e >= d:
                than = f"the stride ({show(s)}) or the dilation ({show(d)})"
                raise WindowError(f"output_padding={show(e)} on axis {axis}: must be smaller than {than}")

    def out_shape(self, *shapes: Shape) -> Shape:
        x, w = shapes[:2]
        self._check_weight(x, w)
        channels = _channels(x, self.window.rank)
        if channels != w[0]:
            raise WindowError(
                f"weight of shape {show(w)} expects {counted('channel', w[0])}, but x of shape {show(x)} has {show(channels)}"
            )
        if w[0] % self.groups:
            raise WindowError(f"groups={show(self.groups)}: must divide the {show(w[0])} input channels of weight {show(w)}")
        _check_bias(shapes[2:], w[1] * self.groups)
        lead, spatial = self.window.split(x)
        return (*lead[:-1], w[1] * self.groups, *self.window.adjoint(spatial, self.output_padding))


def _channels(x: Shape, rank: int) -> int:
    return x[len(x) - rank - 1]


def _check_bias(bias: Sequence[Shape], channels: int) -> None:
    for shape in bias:
        if shape != (channels,):
            raise WindowError(f"bias of shape {show(shape)}: must be ({show(channels)},), one entry per output channel")


@dataclass(frozen=True)
class PadParams(Params):
    """Zeros around the last axes (`pad`); `UnpadParams` removes the same cells."""

    padding: Pairs

    def __post_init__(self) -> None:
        object.__setattr__(self, "padding", pairs("padding", self.padding))

    def out_shape(self, *shapes: Shape) -> Shape:
        return resized(shapes[0], self.padding, 1)


class UnpadParams(PadParams):
    """The adjoint of `PadParams`."""

    def out_shape(self, *shapes: Shape) -> Shape:
        return resized(shapes[0], self.padding, -1)


@dataclass(frozen=True)
class ExtendParams(PadParams):
    """Cells around the last axes that follow from those inside by `mode`, or are all `value` ("constant")."""

    mode: str = "constant"
    value: Any = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        _one_of("mode", self.mode, BORDERS)
        number = isinstance(self.value, (Real, Decimal)) or _is_scalar(self.value)
        if not number or isinstance(self.value, (bool, np.bool_)):
            raise KindError(f"value={show(self.value)}: must be a real number, not {type(self.value).__name__}")
        if self.mode != "constant" and not (isinstance(self.value, (Real, Decimal)) and self.value == 0):
            raise OptionError(f'value={show(self.value)}: has no meaning with mode="{self.mode}"; it is for mode="constant"')

    @property
    def lasting(self) -> bool:
        return type(self.value) in (int, float)

    def machine(self) -> ExtendParams:
        return self if self.lasting else replace(self, value=machine_float("value", self.value, finite=False))

    def check_dtypes(self, *dtypes: np.dtype[Any]) -> None:
        dtype = dtypes[0]
        if dtype.kind == "O":
            return
        value: Any = self.value if isinstance(self.value, Rational) else machine_float("value", self.value, finite=False)
        if dtype.kind in "biu":
            least, most = (0, 1) if dtype.kind == "b" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
            if not (least <= value <= most and value == int(value)):
                wanted = f"must be an integer from {least} to {most}"
                raise OptionError(f"value={show(self.value)}: {wanted} for x of dtype {dtype}")


@dataclass(frozen=True)
class UnpoolParams(Params):
    """The adjoint's sizes of `window`, or `output_size`; `duplicates`: what becomes of cells with the same index."""

    window: Sliding
    output_size: tuple[int, ...] | None = None
    duplicates: str = "last"

    def __post_init__(self) -> None:
        if not isinstance(self.window, Sliding):
            raise KindError(f"window={show(self.window)}: must be a Sliding geometry")
        if self.output_size is not None:
            object.__setattr__(self, "output_size", ints("output_size", self.output_size, self.window.rank))
        _one_of("duplicates", self.duplicates, DUPLICATES)

    def out_shape(self, *shapes: Shape) -> Shape:
        x, indices = shapes
        lead, spatial = self.window.split(x)
        if indices != x:
            raise WindowError(f"indices of shape {show(indices)}: must be {show(x)}, the shape of x")
        return lead + (self.output_size or self.window.adjoint(spatial, (0,) * self.window.rank))

    def check_dtypes(self, *dtypes: np.dtype[Any]) -> None:
        if dtypes[1].kind not in "iuO":
            raise KindError(f"indices: unsupported dtype {dtypes[1]}; must be integers")


def out_of_range(cell: Shape, index: int, plane: Shape) -> WindowError:
    """The error for an index that is not in the plane."""
    last = math.prod(plane) - 1
    wanted = f"must be -1 or from 0 to {show(last)}, an index into the output plane {show(plane)}"
    return WindowError(f"indices[{', '.join(map(str, cell))}]={show(index)}: {wanted}")
