"""Resize and Upsample: cells between those of x, axis by axis, as the nearest cell or on the line between two.

Where an output lies between the cells of x is computed over fractions, so no rounding decides which cell is the nearest. What
is computed of x is an index, and for lines a weighted sum of two: a linear map with exact weights over fractions.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from windowgrad.autograd.arrays import add, multiply, reshape, where
from windowgrad.autograd.arrays.rules import broadcast_to
from windowgrad.dtypes import is_float
from windowgrad.errors import OptionError, WindowError, show
from windowgrad.memory import refuse_unallocatable
from windowgrad.onnx.graph import Node
from windowgrad.onnx.kinds import number
from windowgrad.onnx.operators.shaping import along
from windowgrad.onnx.operators.values import Array, all_axes, choice, dtype_in, exactly, given, integers, known, numbers

HALF = Fraction(1, 2)
COORDINATES = (
    "half_pixel",
    "half_pixel_symmetric",
    "pytorch_half_pixel",
    "align_corners",
    "asymmetric",
    "tf_half_pixel_for_nn",
    "tf_crop_and_resize",
)
NEAREST = ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")
POLICIES = ("stretch", "not_larger", "not_smaller")


class Line(NamedTuple):
    """How the cells along an axis are resized."""

    n: int
    """How many there are."""
    out: int
    """How many there will be."""
    scale: Fraction
    start: Fraction
    end: Fraction
    """The part of the axis that is seen, from 0 to 1, by `tf_crop_and_resize`."""
    coordinates: str


class Taps(NamedTuple):
    """For each output along an axis, its two neighbours in x and the weight of the second, which is 0 for nearest cells."""

    first: Array
    second: Array
    above: Array
    below: int
    """The weights are above ÷ below."""
    outside: Array
    """Which outputs lie outside of x, and get the extrapolation value."""


def resized(node: Node, x: Any, *inputs: Any) -> Any:
    """By scales before opset 11; then by a region, scales and sizes, one of which is left out or empty."""
    mode = choice(node, "mode", ("nearest", "linear", "cubic"), "nearest")
    if mode == "cubic" or node.get("antialias", 0):
        raise OptionError("mode='cubic': not supported" if mode == "cubic" else "antialias=1: not supported")
    if node.opset < 11:
        return upsampled(node, x, *inputs)
    roi, scales, sizes = (*(None if each is None or 0 in each.shape else each for each in inputs), None, None, None)[:3]
    if (scales is None) == (sizes is None):
        raise OptionError("scales, sizes: exactly one of them must be given")
    shape = tuple(x.shape)
    axes = all_axes(given(node, "axes", None), shape)
    coordinates = choice(node, "coordinate_transformation_mode", COORDINATES, "half_pixel")
    spans = regions(roi, len(axes)) if coordinates == "tf_crop_and_resize" else [(Fraction(0), Fraction(1))] * len(axes)
    ns = [shape[axis] for axis in axes]
    if scales is not None:
        factors = fractions("scales", scales, len(axes))
        outs = [scaled(n, factor, end - start) for n, factor, (start, end) in zip(ns, factors, spans, strict=True)]
    else:
        outs = list(integers("sizes", sizes))
        if len(outs) != len(axes) or any(out < min(n, 1) for n, out in zip(ns, outs, strict=True)):
            raise WindowError(f"sizes={show(tuple(outs))}: must be {len(axes)} sizes of at least 1")
        outs, factors = fitting(choice(node, "keep_aspect_ratio_policy", POLICIES, "stretch"), ns, outs)
    lines = {
        axis: Line(n, out, factor, *span, coordinates)
        for axis, n, out, factor, span in zip(axes, ns, outs, factors, spans, strict=True)
    }
    rounding = choice(node, "nearest_mode", NEAREST, "round_prefer_floor") if mode == "nearest" else ""
    return interpolated(x, lines, rounding, node.get("extrapolation_value", 0.0))


def upsampled(node: Node, x: Any, scales: Any = None) -> Any:
    """By scales, which are an attribute before opset 9: x_original = x_resized / scale, and the cell before it.

    ONNX does not say more; if there are fewer cells than before, ONNX Runtime takes the one after it, and so it is here.
    """
    mode = choice(node, "mode", ("nearest", "linear"), "nearest")
    scales = np.asarray(node.get("scales"), np.float32) if scales is None else scales
    shape = tuple(x.shape)
    factors = fractions("scales", scales, len(shape))
    lines = {
        axis: Line(n, scaled(n, factor, Fraction(1)), factor, Fraction(0), Fraction(1), "asymmetric")
        for axis, (n, factor) in enumerate(zip(shape, factors, strict=True))
    }
    return interpolated(x, lines, "before or after" if mode == "nearest" else "", 0.0)


def fractions(name: str, values: Any, count: int) -> list[Fraction]:
    """Positive scales, one for each axis."""
    found = [exactly(name, value) for value in known(name, values).reshape(-1)]
    if len(found) != count or any(factor <= 0 for factor in found):
        raise WindowError(f"{name}={show(tuple(map(float, found)))}: must be {count} numbers greater than 0")
    return found


def regions(roi: Any, count: int) -> list[tuple[Fraction, Fraction]]:
    if roi is None:
        raise OptionError("roi: must be given with coordinate_transformation_mode='tf_crop_and_resize'")
    found = [exactly("roi", value) for value in known("roi", roi).reshape(-1)]
    if len(found) != 2 * count:
        raise WindowError(f"roi has {len(found)} entries: must have {2 * count}, a start for each axis, then an end for each")
    return list(zip(found[:count], found[count:], strict=True))


def scaled(n: int, factor: Fraction, part: Fraction) -> int:
    """floor(n · part · factor), in float32 as shape inference has it: 10 · 0.7 is 7, though 0.7 in float32 is less."""
    return math.floor(np.float32(n) * np.float32(float(part)) * np.float32(float(factor)))


def fitting(policy: str, ns: Sequence[int], outs: Sequence[int]) -> tuple[list[int], list[Fraction]]:
    """Sizes and scales: as given, or by one scale for all axes, rounded with halves up."""
    factors = [Fraction(out, n) if n else Fraction(1) for n, out in zip(ns, outs, strict=True)]
    if policy == "stretch":
        return list(outs), factors
    one = min(factors) if policy == "not_larger" else max(factors)
    return [math.floor(one * n + HALF) for n in ns], [one] * len(ns)


# --- where an output lies ----------------------------------------------------------------------------------------


def original(line: Line, place: int) -> Fraction:
    """The coordinate in x of an output, by the formulas of ONNX. `length_resized` is the number of outputs."""
    n, out, scale, start, end, coordinates = line
    if coordinates == "asymmetric":
        return place / scale
    if coordinates == "align_corners":
        return Fraction(place * (n - 1), out - 1) if out > 1 else Fraction(0)
    if coordinates == "tf_crop_and_resize":
        if out > 1:
            return start * (n - 1) + place * (end - start) * (n - 1) / (out - 1)
        return HALF * (start + end) * (n - 1)
    if coordinates == "tf_half_pixel_for_nn":
        return (place + HALF) / scale if scale != 1 else Fraction(place)  # which are the axes of batch and channels
    if coordinates == "pytorch_half_pixel" and out == 1:
        return Fraction(0)
    shift = Fraction(n, 2) * (1 - out / (scale * n)) if coordinates == "half_pixel_symmetric" else 0
    return shift + (place + HALF) / scale - HALF


def places(line: Line) -> tuple[Array, int]:
    """The coordinates of all outputs as integers over one denominator: each is a multiple of the first step after the first."""
    first = original(line, 0)
    step = original(line, 1) - first
    below = math.lcm(first.denominator, step.denominator)
    start, stride = int(first * below), int(step * below)
    fits = 4 * (abs(start) + line.out * abs(stride) + below) < 2**63
    return start + stride * np.arange(line.out).astype(np.int64 if fits else object), below


def nearest(rounding: str, above: Array, below: int) -> Array:
    """The cells nearest to above ÷ below, in integers."""
    if rounding == "floor":
        return above // below
    if rounding == "ceil":
        return -(-above // below)
    return (2 * above + below) // (2 * below) if rounding == "round_prefer_ceil" else -((below - 2 * above) // (2 * below))


@lru_cache(maxsize=64)
def taps(line: Line, rounding: str) -> Taps:
    """The cells outside of x are those of its edge; `rounding` is empty for lines between cells."""
    above, below = places(line) if line.out else (np.zeros(0, np.int64), 1)
    outside = np.zeros(line.out, bool)
    if line.coordinates == "tf_crop_and_resize":
        outside = ((above < 0) | (above > (line.n - 1) * below)).astype(bool)
    if rounding == "before or after":
        rounding = "ceil" if line.scale < 1 else "floor"
    first = nearest(rounding or "floor", above, below)
    cells = first.clip(0, line.n - 1).astype(np.int64)
    if rounding:
        return Taps(cells, cells, np.zeros(line.out, np.int64), below, outside)
    return Taps(cells, (first + 1).clip(0, line.n - 1).astype(np.int64), above % below, below, outside)


# --- cells -------------------------------------------------------------------------------------------------------


def interpolated(x: Any, lines: dict[int, Line], rounding: str, extrapolation: float) -> Any:
    shape, dtype = tuple(x.shape), dtype_in(x)
    outs = [lines[axis].out if axis in lines else n for axis, n in enumerate(shape)]
    for axis, (n, out) in enumerate(zip(shape, outs, strict=True)):
        if out and not n:
            raise WindowError(f"sizes={show(tuple(outs))}: x of shape {shape} has no cells on axis {axis}")
    refuse_unallocatable(outs, dtype.itemsize)
    exact = dtype.kind == "O"
    whole = not (rounding or exact or is_float(dtype))
    y = numbers("X", x).astype(np.float64) if whole else x  # integers are interpolated in float64, and rounded towards 0
    outside = np.zeros((), bool)
    for axis, line in lines.items():
        found = taps(line, rounding)
        y = between(y, axis, found)
        outside = outside | found.outside.reshape(-1, *(1,) * (len(shape) - axis - 1))
    y = y.astype(dtype) if whole else y
    if not outside.any():
        return y
    return where(outside, number(extrapolation, x) if exact else np.asarray(extrapolation).astype(dtype), y)


def between(x: Any, axis: int, found: Taps) -> Any:
    """(1 − w)·first + w·second along an axis."""
    first = taken(x, axis, found.first)
    if not ((found.above != 0) & (found.first != found.second)).any():
        return first
    w = weights(found, dtype_in(x)).reshape(-1, *(1,) * (len(x.shape) - axis - 1))
    return add(multiply(first, 1 - w), multiply(taken(x, axis, found.second), w))


def weights(found: Taps, dtype: np.dtype[Any]) -> Array:
    """Fractions for objects, else rounded to the dtype."""
    if dtype.kind == "O":
        return np.array([*(Fraction(int(above), found.below) for above in found.above), None], object)[:-1]
    return (found.above / found.below).astype(np.float64).astype(dtype)


def taken(x: Any, axis: int, cells: Array) -> Any:
    """The cells of an axis: by a slice, by repeating each, or one by one. The first two are faster to differentiate."""
    n, count = int(x.shape[axis]), len(cells)
    if count == n and (cells == np.arange(n)).all():
        return x
    step = int(cells[1] - cells[0]) if count > 1 else 1
    if step > 0 and (np.diff(cells) == step).all():
        return along(x, axis, slice(int(cells[0]), int(cells[-1]) + 1, step) if count else slice(0, 0))
    if n and count % n == 0 and (cells == np.arange(count) // (count // n)).all():
        shape = tuple(x.shape)
        apart = reshape(x, (*shape[: axis + 1], 1, *shape[axis + 1 :]))
        repeated = broadcast_to(apart, (*shape[: axis + 1], count // n, *shape[axis + 1 :]))
        return reshape(repeated, (*shape[:axis], count, *shape[axis + 1 :]))
    return along(x, axis, cells)


TABLE: dict[str, Callable[..., Any]] = {"Resize": resized, "Upsample": upsampled}
