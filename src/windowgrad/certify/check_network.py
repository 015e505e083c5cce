"""What the checker of certificates takes an ONNX file to mean: steps over numbered cells, in integers.

    Sum         cell = Σ weight·cell ÷ (divisor·2^scale) + bias
    Greatest    cell = the greatest of some cells and of a constant, or with sign −1 the least

The cells of the input come first, then those of each step. A value of the file is an array of cell numbers, so operators that
only move cells make no step. Amounts (biases, constants) are integers in units of 2⁻¹⁹²; one that is finer is refused.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from windowgrad.errors import KindError, OptionError, WindowError, show
from windowgrad.geometry import Sliding

Array = np.ndarray[Any, Any]

GRID = 192
BOTTOM = -(1 << 1400)
"""Below every float64 in units of 2⁻¹⁹²: where there is no cell, or no constant."""
MOST = 1 << 23
"""How many weights or taps a step may have: they are Python integers."""


@dataclass(frozen=True)
class Sum:
    name: str
    start: int
    first: Array
    """Where the weights of each cell begin among all; one entry more than cells."""
    cells: Array
    weights: Array
    scale: int
    divisors: Array
    bias: Array
    roundings: int
    """How many roundings lie between a term and the result, at most, in any order of evaluation; 0: nothing is rounded."""
    before: int
    """By how much more than the result its intermediate values may grow."""

    def __len__(self) -> int:
        return len(self.bias)


@dataclass(frozen=True)
class Greatest:
    name: str
    start: int
    number: int
    """Its place among these steps, by which the certificate names it."""
    cells: Array
    """All cells of its sources, one source after the other."""
    taps: Array
    """(outputs, cells of a window): places in `cells`; −1 where there is none."""
    floor: Array
    """The constant; with sign −1 that of the negated cells."""
    sign: int

    def __len__(self) -> int:
        return len(self.taps)


Step = Sum | Greatest


@dataclass(frozen=True)
class Value:
    cells: Array
    rectified: Array | None = None
    """The cells of which it is max(cell, 0), each in its place, if a step has made it so."""


class Network:
    """The steps so far, for an input of one shape."""

    def __init__(self, shape: tuple[int, ...], floats: bool) -> None:
        """`floats`: all constants must be float32 numbers."""
        self.floats = floats
        self.input = Value(np.arange(math.prod(shape)).reshape(shape))
        self.total = self.input.cells.size
        self.number = 0
        self.steps: list[Step] = []
        self.name = ""
        """Of the node that is read."""

    def drop_unused(self, output: Array) -> None:
        """Only the steps that these cells need."""
        wanted = np.zeros(self.total, bool)
        wanted[output] = True
        kept = []
        for step in reversed(self.steps):
            if wanted[step.start : step.start + len(step)].any():
                wanted[step.cells] = True
                kept.append(step)
        self.steps = kept[::-1]

    # --- steps ---------------------------------------------------------------------------------------------------

    def new(self, shape: Sequence[int]) -> Array:
        """New cells of this shape."""
        cells = np.arange(self.total, self.total + math.prod(shape)).reshape(tuple(shape))
        self.total += cells.size
        return cells

    def sum(
        self,
        shape: Sequence[int],
        cells: Array,
        weights: Any,
        bias: Any = None,
        *,
        there: Array | None = None,
        divisors: Any = 1,
        roundings: int | None = None,
        before: int = 1,
    ) -> Value:
        """One cell per entry of `shape`, each the sum of a row of `cells`.

        `weights` are floats, or integers with their scale; `bias` has floats, or units where it has Python integers.
        """
        outputs = math.prod(shape)
        cells = cells.reshape(outputs, -1)
        whole, scale = weights if isinstance(weights, tuple) else integers(self.exact(weights))
        full = np.broadcast_to(whole, cells.shape)
        real = np.ones(cells.shape, bool) if there is None else np.broadcast_to(there, cells.shape)
        counts = real.sum(axis=1)
        amounts = np.broadcast_to(np.asarray(0 if bias is None else bias), shape).reshape(-1)
        amounts = amounts.astype(object) if bias is None or amounts.dtype == object else units(self.exact(amounts))
        most = int(counts.max(initial=0)) + bool(np.any(amounts)) if roundings is None else roundings
        first = np.concatenate([[0], np.cumsum(counts)])
        parts = np.broadcast_to(np.asarray(divisors, object).reshape(-1), (outputs,))
        found = self.new(shape)
        start = self.total - outputs
        self.steps.append(Sum(self.name, start, first, cells[real], full[real], scale, parts, amounts, most, before))
        return Value(found)

    def greatest(self, shape: Sequence[int], sources: Sequence[Value], taps: Array, floor: Any = None, sign: int = 1) -> Value:
        """One cell per row of `taps`; `floor` is in terms of the cells themselves."""
        cells = np.concatenate([source.cells.reshape(-1) for source in sources])
        if floor is None:
            constant = np.full(len(taps), BOTTOM, object)
        else:
            constant = sign * units(self.exact(np.broadcast_to(floor, shape).reshape(-1)))
        if ((taps < 0).all(axis=1) & (constant == BOTTOM)).any():
            raise WindowError("a window has no cell")
        each = np.arange(len(cells))[:, None]
        is_relu = len(sources) == 1 and sign > 0 and np.array_equal(taps, each) and not constant.any()
        rectified = cells if is_relu else None
        if len(sources) == 1 and sign > 0 and sources[0].rectified is not None:
            cells = sources[0].rectified  # the greatest of max(cell, 0) is that of the cells and 0
            constant = np.where((taps >= 0).any(axis=1), np.maximum(constant, 0), constant)
        found = self.new(shape)
        self.steps.append(Greatest(self.name, self.total - len(taps), self.number, cells, taps, constant, sign))
        self.number += 1
        return Value(found, rectified)

    # --- values --------------------------------------------------------------------------------------------------

    def exact(self, array: Any) -> Array:
        """Constants as float64, which must hold them exactly."""
        given = np.asarray(array)
        wide = given.astype(np.float64)
        if given.dtype.kind not in "fiu" or not np.isfinite(wide).all() or not (wide.astype(given.dtype) == given).all():
            raise KindError("its constants must be finite numbers that float64 holds exactly")
        if self.floats and not (wide.astype(np.float32) == wide).all():
            raise KindError("its constants must be float32 numbers")
        return wide

    def variable(self, x: Any) -> Value:
        """A value; constants become cells that cannot move."""
        if isinstance(x, Value):
            return x
        if x is None:
            raise OptionError("an input is missing")
        return self.sum(x.shape, np.zeros((x.size, 0), np.int64), np.zeros(0), x, roundings=0)

    def moved(self, x: Any, move: Callable[[Array], Array]) -> Any:
        """The cells of a value, or a constant, in another arrangement."""
        return Value(move(x.cells)) if isinstance(x, Value) else move(x)


def only(x: Any) -> Array:
    """The cells of an input that must not be constant."""
    if not isinstance(x, Value):
        raise KindError("computes with constants alone: fold them first")
    return x.cells


def constant(name: str, x: Any) -> Array:
    if not isinstance(x, np.ndarray):
        raise KindError(f"{name} must be constant")
    return x


def bounded(*sizes: int) -> None:
    if math.prod(sizes) > MOST:
        raise WindowError(f"has {show(math.prod(sizes))} weights or taps: the checker takes at most {MOST}")


# --- floats as integers ------------------------------------------------------------------------------------------


def parts(x: Array) -> tuple[Array, Array]:
    """Each float as an odd integer, or 0, times a power of two."""
    mantissa, exponent = np.frexp(np.asarray(x, np.float64))
    whole = np.ldexp(mantissa, 53).astype(np.int64)
    lowest = np.where(whole == 0, 1, whole & -whole)
    zeros = np.frexp(lowest.astype(np.float64))[1] - 1
    return (whole >> zeros).astype(object), (exponent.astype(np.int64) - 53 + zeros).astype(object)


def integers(x: Array) -> tuple[Array, int]:
    """(n, scale): floats as n·2^−scale, exactly."""
    odd, exponent = parts(x)
    scale = max(0, -int(min(exponent[odd != 0], default=0)))
    return np.where(odd == 0, 0, odd << np.where(odd == 0, 0, exponent + scale)), scale


def floored(x: Array) -> Array:
    """Floats in units of 2⁻¹⁹², rounded down."""
    odd, exponent = parts(x)
    shift = exponent + GRID
    found: Array = (odd << np.maximum(shift, 0)) >> np.maximum(-shift, 0)
    return found


def ceiled(x: Array) -> Array:
    found: Array = -floored(-np.asarray(x))
    return found


def units(x: Array) -> Array:
    """Floats in units of 2⁻¹⁹², exactly."""
    found = floored(x)
    if (found != ceiled(x)).any():
        raise KindError(f"has a constant that is not a multiple of 2**-{GRID}")
    return found


def product_in_units(x: Array, factor: float) -> Array:
    """Floats times a factor, exactly."""
    (whole, scale), (by, finer) = integers(x), integers(np.array([factor]))
    if scale + finer > GRID:
        raise KindError(f"has a constant that is not a multiple of 2**-{GRID}")
    found: Array = (whole * by.item()) << (GRID - scale - finer)
    return found


# --- windows -----------------------------------------------------------------------------------------------------


Plane = tuple[Sequence[int], Sequence[int], Sequence[int], Sequence[tuple[int, int]], Sequence[int]]
"""Of a plane and the windows on it: sizes, kernel, strides, padding and dilations."""


def sliding(given: Plane) -> tuple[tuple[int, ...], Array]:
    """(grid of outputs, place in the plane of each tap of each output): −1 where a tap lies outside."""
    grid, sides = axes_of(given, False)
    places = np.zeros((1, 1), np.int64)
    for n, at in zip(given[0], sides, strict=True):
        places = crossed(places, np.where((at >= 0) & (at < n), at, -1), n)
    return grid, places


def packed(given: Plane, ceil_mode: bool) -> tuple[tuple[int, ...], Array, Array]:
    """The same with the real taps of each axis first, and how many taps of each output lie in the padded plane."""
    grid, sides = axes_of(given, ceil_mode)
    places, inside = np.zeros((1, 1), np.int64), np.ones(1, np.int64)
    for n, at, (lo, hi) in zip(given[0], sides, given[3], strict=True):
        real = (at >= 0) & (at < n)
        order = np.argsort(~real, axis=1, kind="stable")[:, : max(int(real.sum(axis=1).max()), 1)]
        places = crossed(places, np.take_along_axis(np.where(real, at, -1), order, axis=1), n)
        inside = np.outer(inside, ((at >= -lo) & (at < n + hi)).sum(axis=1)).reshape(-1)
    return grid, places, inside


def axes_of(given: Plane, ceil_mode: bool) -> tuple[tuple[int, ...], list[Array]]:
    """The grid, and of each axis where every tap of every output lies."""
    plane, kernel, strides, padding, dilations = given
    grid = Sliding(kernel, strides, tuple(padding), dilations, ceil_mode).grid(plane)
    bounded(*grid, *kernel)
    if max(n + lo + hi + s + d for n, (lo, hi), s, d in zip(plane, padding, strides, dilations, strict=True)) > 1 << 60:
        raise WindowError("a window reaches beyond 2**60 cells")
    sides = zip(grid, kernel, strides, padding, dilations, strict=True)
    return grid, [(np.arange(m) * s - lo)[:, None] + d * np.arange(k) for m, k, s, (lo, _), d in sides]


def crossed(places: Array, at: Array, n: int) -> Array:
    """Places of some axes and of one more of n cells; −1 where either has none."""
    both = places[:, None, :, None] * n + at[None, :, None, :]
    real = (places >= 0)[:, None, :, None] & (at >= 0)[None, :, None, :]
    return np.where(real, both, -1).reshape(len(places) * len(at), -1)
