"""One question to an implementation: an operator, its arguments and its arrays; and what kind of question it is."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, get_args

import numpy as np

from windowgrad.facts import Family, Windows
from windowgrad.geometry import Adaptive, Geometry, Global, Sliding
from windowgrad.ops import FAMILIES, meaning
from windowgrad.params import Mask, Params
from windowgrad.routes import facts_of
from windowgrad.spec.op import Op
from windowgrad.spec.scalar import windows

Array = np.ndarray[Any, np.dtype[Any]]

OPS = tuple(
    family.name for kind in get_args(Windows) for family in FAMILIES.values() if family.windows == kind and family.factors
)
"""The public functions whose rows in the table of operators say what to vary: windows, bins, whole planes, convolutions."""
CHECKS = ("forward", "indices", "gradient", "tangent")
GROUPS = ("tie-free", "tied", "plain", "NaN", "infinite", "empty windows", "large", "empty batch")
LARGE = {"float16": 2**14, "float32": 2.0**125, "int8": 60}
"""Cells at least this great are `large`: sums of a few of them pass what the type holds."""
LARGE_POWER = {"float16": 2**9, "float32": 2.0**90}
"""The same of a p-norm, whose powers pass what the type holds although the norm does not."""


@dataclass(frozen=True, eq=False)
class Case:
    """`arrays` are x of shape (batch, channels, *spatial) and, for convolutions, weight and perhaps bias, in the case's dtype.

    Every size is one entry per spatial axis and `padding` one (before, after) pair; what an operator does not have is empty.
    `where` is a mask that broadcasts to x, False where a cell is left out, or None. Only adapters with `masks` are asked it.
    """

    op: str
    arrays: dict[str, Array]
    kernel: tuple[int, ...] = ()
    stride: tuple[int, ...] = ()
    padding: tuple[tuple[int, int], ...] = ()
    dilation: tuple[int, ...] = ()
    ceil_mode: bool = False
    count_include_pad: bool = True
    divisor: int | None = None
    ties: str = "first"
    output_size: tuple[int, ...] = ()
    groups: int = 1
    output_padding: tuple[int, ...] = ()
    norm_type: int | float = 2
    where: Array | None = None

    @property
    def x(self) -> Array:
        return self.arrays["x"]

    @cached_property
    def dtype(self) -> str:
        return str(self.x.dtype)

    @property
    def rank(self) -> int:
        return self.x.ndim - 2

    @property
    def spatial(self) -> tuple[int, ...]:
        return tuple(self.x.shape[2:])

    # --- what the table of operators says of it ---------------------------------------------------------------------

    @property
    def family(self) -> Family:
        """The row of its function."""
        return FAMILIES[self.op]

    @property
    def meaning(self) -> Op:
        """The operator's record in the specification, with what is known of it."""
        return meaning(self.family.operator)

    @property
    def windows(self) -> Windows:
        return self.family.windows

    @property
    def is_windowed(self) -> bool:
        """Whether it is pooling by sliding windows."""
        return self.windows == "sliding"

    @property
    def is_convolution(self) -> bool:
        return "weight" in self.meaning.inputs

    @property
    def is_transposed(self) -> bool:
        return self.windows == "transposed"

    @property
    def is_mean(self) -> bool:
        return facts_of(self.meaning).partial_results == "mean"

    @property
    def is_norm(self) -> bool:
        return facts_of(self.meaning).partial_results == "p-norm"

    @property
    def has_winners(self) -> bool:
        """Whether a result is one of the cells of its window."""
        return self.meaning.with_indices is not None

    @property
    def has_usual_ties(self) -> bool:
        """Whether `ties` is the function's default, or it has none."""
        return bool(self.ties == dict(self.family.factors).get("ties", ("first",))[0])

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments its function has, by name."""
        return {name: getattr(self, name) for name in self.family.case_arguments}

    @cached_property
    def geometry(self) -> Geometry:
        if self.windows == "adaptive":
            return Adaptive(self.output_size)
        if self.windows == "global":
            return Global(self.rank)
        return Sliding(self.kernel, self.stride, self.padding, self.dilation, self.ceil_mode)

    @cached_property
    def params(self) -> Params:
        """The record of the specification; it raises a WindowError where the arguments have no meaning."""
        given: list[Any] = [self.geometry, *(getattr(self, name) for name in facts_of(self.meaning).case_options)]
        mask: dict[str, Any] = {} if self.where is None else {"where": Mask(self.where)}
        return self.meaning.params(*given, **mask)

    @cached_property
    def out_shape(self) -> tuple[int, ...]:
        return self.params.out_shape(*(array.shape for array in self.arrays.values()))

    @property
    def gradient(self) -> Array:
        """The gradient that arrives at the output."""
        return ramp(self.out_shape, self.dtype)

    @property
    def tangents(self) -> dict[str, Array]:
        """The direction in which each array moves."""
        return {f"d{name}": ramp(array.shape, self.dtype) for name, array in self.arrays.items()}

    @property
    def checks(self) -> tuple[str, ...]:
        """What is compared: derivatives where the cells are floats, indices where there is a winner in a window.

        Not the index of a global winner, which no other implementation returns.
        """
        derivatives = self.x.dtype.kind == "f" and self.group != "large"
        indices = "return_indices" in self.family.arguments and self.windows != "global"
        return ("forward", *("indices",) * indices, *("gradient", "tangent") * derivatives)

    # --- what is peculiar about it ---------------------------------------------------------------------------------

    @cached_property
    def there(self) -> Array:
        """Which cells of x the mask leaves."""
        return np.broadcast_to(True if self.where is None else self.where, self.x.shape)

    @cached_property
    def group(self) -> str:
        """The kind of its input, told from the cells themselves; those that the mask leaves out do not matter."""
        seen = self.arrays | {"x": self.x[self.there]}
        cells = np.concatenate([array.ravel().astype(np.float64) for array in seen.values()])
        if not self.x.size:
            return "empty batch"
        if self.has_empty_window:
            return "empty windows"
        if np.isnan(cells).any():
            return "NaN"
        if np.isinf(cells).any():
            return "infinite"
        if self.has_winners:
            return "tied" if self.has_ties else "tie-free"
        large = (LARGE_POWER if self.is_norm else LARGE).get(self.dtype, math.inf)
        return "large" if np.abs(cells).max() >= large else "plain"

    @property
    def has_empty_window(self) -> bool:
        if self.where is not None:
            return any(not window.taps for window in windows(self.geometry, self.x.shape, Mask(self.where)))
        return not self.is_convolution and not all(table.count.all() for table in self.geometry.tables(self.spatial))

    @property
    def has_ties(self) -> bool:
        """Whether two cells of a plane are equal; a window may not see both, but such a case is not called tie-free."""
        planes, left = (array.reshape(-1, math.prod(self.spatial)) for array in (self.x, self.there))
        return any(len(np.unique(plane[kept])) < kept.sum() for plane, kept in zip(planes, left, strict=True))

    @property
    def has_window_of_zeros(self) -> bool:
        """Whether every cell that some window sees is 0."""
        where = None if self.where is None else Mask(self.where)
        return any(not any(self.x[tap] for tap in seen.taps) for seen in windows(self.geometry, self.x.shape, where))

    @cached_property
    def features(self) -> frozenset[str]:
        """What its arguments have beyond the defaults, in words that known differences are told by."""
        pads = list(zip(self.padding, self.kernel, self.dilation, strict=True))
        words = {
            "padding": any(lo or hi for lo, hi in self.padding),
            "uneven padding": any(lo != hi for lo, hi in self.padding),
            "padding differs by axis": len(set(self.padding)) > 1,
            "padding over half": any(max(pad) > k // 2 for pad, k, _ in pads),
            "padding over dilated half": any(max(pad) > (d * (k - 1) + 1) // 2 for pad, k, d in pads),
            "padding or a stride of ceil mode over kernel": self.has_much_padding,
            "dilation": any(d > 1 and k > 1 for d, k in zip(self.dilation, self.kernel, strict=True)),
            "stride": any(s > 1 for s in self.stride),
            "stride one": bool(self.stride) and set(self.stride) == {1},
            "ceil mode": self.ceil_mode,
            "overhang": self.has_overhang,
            "kernel beyond input": any(k > n for k, n in zip(self.kernel, self.spatial, strict=False)),
            "divisor": self.divisor is not None,
            "without padding in the count": not self.count_include_pad,
            "groups": self.groups > 1,
            "output padding": any(self.output_padding),
            "window of -inf": self.has_lowest_window,
            "integers": self.x.dtype.kind in "iu",
            "bool": self.x.dtype.kind == "b",
            "bias": "bias" in self.arrays,
            "mask": self.where is not None,
            "norm one": self.is_norm and self.norm_type == 1,
            "odd norm": self.is_norm and self.norm_type % 2 == 1,
            "norm between whole numbers": self.is_norm and self.norm_type % 1 != 0,
            "negative cells": self.is_norm and bool((self.x < 0).any()),
            "window of zeros": self.is_norm and self.has_window_of_zeros,
            "more bins than cells": any(m > n for m, n in zip(self.output_size, self.spatial, strict=False)),
        }
        return frozenset(word for word, holds in words.items() if holds)

    @property
    def has_overhang(self) -> bool:
        """Whether ceil mode adds a window here."""
        if not self.ceil_mode:
            return False
        return self.geometry.grid(self.spatial) != Sliding(self.kernel, self.stride, self.padding, self.dilation).grid(
            self.spatial
        )

    @property
    def has_much_padding(self) -> bool:
        """Whether padding is larger than the kernel, with a stride more after it where ceil mode finds room left."""
        sides = zip(self.spatial, self.padding, self.kernel, self.stride, strict=False)
        return any(max(lo, hi + (s if self.ceil_mode and (n + lo + hi - k) % s else 0)) > k for n, (lo, hi), k, s in sides)

    @property
    def has_lowest_window(self) -> bool:
        """Whether the winner of some window is −∞."""
        if not self.has_winners or not np.isneginf(self.x.astype(np.float64)).any():
            return False
        return any(cell == -math.inf for cell in self.meaning.forward(self.params, self.x.astype(object)).flat)

    @property
    def size(self) -> tuple[int, ...]:
        """Smaller is simpler: cells, rank, then how much its arguments say."""
        cells = sum(array.size for array in self.arrays.values())
        return cells, self.rank, len(self.features), sum(self.kernel) + sum(self.stride) + sum(map(sum, self.padding))

    def as_json(self) -> dict[str, Any]:
        arrays = {name: {"shape": list(array.shape), "cells": plain(array)} for name, array in self.arrays.items()}
        described = {"op": self.op, "rank": self.rank, "dtype": self.dtype, "group": self.group, "arguments": self.arguments}
        mask = {} if self.where is None else {"where": {"shape": list(self.where.shape), "cells": plain(self.where)}}
        return described | {"features": sorted(self.features), "arrays": arrays} | mask


def ramp(shape: tuple[int, ...], dtype: str) -> Array:
    """Small positive integers in a pattern that no permutation of cells keeps; those of float16 sum up exactly."""
    period = 2 if dtype == "float16" else 5
    return (1 + np.arange(math.prod(shape)) * 3 % period).reshape(shape).astype(dtype)


def plain(array: Any) -> Any:
    """Nested lists of what JSON can say: numbers; NaN, infinities and fractions as words."""
    return (
        [plain(part) for part in array]
        if getattr(array, "ndim", 0)
        else word(array.item() if hasattr(array, "item") else array)
    )


def word(cell: Any) -> Any:
    if isinstance(cell, (bool, int, str)):
        return cell
    if isinstance(cell, float):
        return cell if math.isfinite(cell) else str(cell)
    return int(cell) if cell.denominator == 1 else str(cell)
