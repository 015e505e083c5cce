"""The static types of the public functions that exist in several ranks: one signature per family.

`S` is what `kernel_size` and `output_size` may be: a tuple in the rank-free function, also an int where the rank is known.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, Protocol, TypeAlias, TypeVar, overload

from windowgrad.arguments import Padding, Size

A = TypeVar("A")
S = TypeVar("S", contravariant=True)

Ties = Literal["first", "all", "split"]
Empty = Literal["zero", "raise"]
Pair: TypeAlias = tuple[A | None, A | None] | None
Bins = int | None | Sequence[int | None]


class MaxPool(Protocol[S]):
    @overload
    def __call__(
        self,
        x: A,
        kernel_size: S,
        stride: Size | None = None,
        padding: Padding = 0,
        dilation: Size = 1,
        ceil_mode: bool = False,
        return_indices: Literal[False] = False,
        *,
        ties: Ties = "first",
        empty: Empty = "zero",
        out: A | None = None,
    ) -> A: ...
    @overload
    def __call__(
        self,
        x: A,
        kernel_size: S,
        stride: Size | None = None,
        padding: Padding = 0,
        dilation: Size = 1,
        ceil_mode: bool = False,
        *,
        return_indices: Literal[True],
        ties: Ties = "first",
        empty: Empty = "zero",
        out: Pair[A] = None,
    ) -> tuple[A, A]: ...


class AvgPool(Protocol[S]):
    def __call__(
        self,
        x: A,
        kernel_size: S,
        stride: Size | None = None,
        padding: Padding = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
        *,
        dilation: Size = 1,
        out: A | None = None,
    ) -> A: ...


class SmoothMaxPool(Protocol[S]):
    def __call__(
        self,
        x: A,
        kernel_size: S,
        stride: Size | None = None,
        padding: Padding = 0,
        dilation: Size = 1,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        *,
        beta: Any,
        out: A | None = None,
    ) -> A: ...


class AdaptiveMaxPool(Protocol[S]):
    @overload
    def __call__(
        self, x: A, output_size: S, return_indices: Literal[False] = False, *, ties: Ties = "first", out: A | None = None
    ) -> A: ...
    @overload
    def __call__(
        self, x: A, output_size: S, return_indices: Literal[True], *, ties: Ties = "first", out: Pair[A] = None
    ) -> tuple[A, A]: ...


class AdaptiveAvgPool(Protocol[S]):
    def __call__(self, x: A, output_size: S, *, out: A | None = None) -> A: ...


class AdaptiveSmoothMaxPool(Protocol[S]):
    def __call__(self, x: A, output_size: S, *, beta: Any, out: A | None = None) -> A: ...


class GlobalMaxPool(Protocol):
    def __call__(self, x: A, *, keepdims: bool = True, ties: Ties = "all", out: A | None = None) -> A: ...


class GlobalAvgPool(Protocol):
    def __call__(self, x: A, *, keepdims: bool = True, out: A | None = None) -> A: ...


class GlobalSmoothMaxPool(Protocol):
    def __call__(self, x: A, *, keepdims: bool = True, beta: Any, out: A | None = None) -> A: ...


class Conv(Protocol):
    def __call__(
        self,
        x: A,
        weight: A,
        bias: A | None = None,
        stride: Size = 1,
        padding: Padding | Literal["valid", "same"] = 0,
        dilation: Size = 1,
        groups: int = 1,
        *,
        out: A | None = None,
    ) -> A: ...


class ConvTranspose(Protocol):
    def __call__(
        self,
        x: A,
        weight: A,
        bias: A | None = None,
        stride: Size = 1,
        padding: Padding = 0,
        output_padding: Size = 0,
        groups: int = 1,
        dilation: Size = 1,
        *,
        out: A | None = None,
    ) -> A: ...
