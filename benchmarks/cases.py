"""What is measured: one operator by one rule, over one geometry, in one shape, dtype and layout of memory."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from windowgrad.geometry import Adaptive, Geometry, Sliding
from windowgrad.geometry import Global as Whole

Array = np.ndarray[Any, Any]
Pairs = tuple[tuple[int, int], ...]

BETA = 1.0  # of smooth max; the peer's composition then needs no scaling passes
NORM = 2  # of a p-norm; the peer's composition then needs no powers but squares and roots
COMPOSED = ("smooth", "lp", "min", "masked max", "masked avg")
"""Operators that PyTorch has as a composition of others only, and that other peers do not have."""
MASKED = "masked "

RULES = ("forward", "backward", "both", "bridge")
"""forward: the call. backward: the pull alone, its forward has run and kept what it keeps. both: forward and pull, as one
step of training has them. bridge: both, on tensors of PyTorch."""


@dataclass(frozen=True)
class Case:
    """`x` is N×C×…; where `last` is set the channels are the fastest axis in memory, and x a transposed view."""

    op: str
    rule: str
    window: str
    geometry: Geometry
    shape: tuple[int, ...]
    last: bool = False
    dtype: str = "float32"

    @property
    def place(self) -> str:
        """What of the case is not the operator and its rule."""
        extra = (", channels last" if self.last else "") + ("" if self.dtype == "float32" else f", {self.dtype}")
        return f"{self.window}, {'×'.join(map(str, self.shape))}{extra}"

    @property
    def name(self) -> str:
        return f"{self.op} {self.rule} {self.place}"

    @property
    def group(self) -> str:
        """Of which line of the plot it is a part."""
        if self.op in COMPOSED:
            return "smooth maximum, p-norm" if self.op in ("smooth", "lp") else "minimum, masked pooling"
        if self.dtype == "uint8":
            return "max of uint8 pictures"
        if not isinstance(self.geometry, Sliding):
            return "max, mean: global, adaptive"
        kind = {1: "signals", 2: "channels last" if self.last else "images"}.get(self.geometry.rank, "volumes")
        return f"max, mean: {kind}"

    def described(self) -> dict[str, Any]:
        layout = "channels last" if self.last else "channels first"
        names = ("op", "rule", "window", "shape", "dtype")
        return {name: getattr(self, name) for name in names} | {"layout": layout}

    @property
    def out_shape(self) -> tuple[int, ...]:
        return self.geometry.out_shape(self.shape)

    @property
    def spatial(self) -> tuple[int, ...]:
        return self.shape[2:]

    def arrays(self) -> tuple[Array, Array]:
        """The input, and the gradient of the output."""
        return cells(self.shape, self.last, 1, self.dtype), cells(self.out_shape, self.last, 2, self.dtype)

    @property
    def reduction(self) -> str:
        """The operator, whether it is masked or not."""
        return self.op.removeprefix(MASKED)

    def mask(self) -> Array | None:
        """Which cells are left: most, and in every window some, so that no peer needs to say what an empty one is."""
        if not self.op.startswith(MASKED):
            return None
        kept = np.random.default_rng(3).random(self.shape) < 0.8
        kept[..., ::2, ::2] = True
        return kept

    def moved(self, x: Array, g: Array) -> tuple[tuple[Array, ...], int]:
        """The arrays that must be read, whatever a forward pass keeps, and how many cells must be written."""
        if self.rule == "forward":
            return (x,), g.size
        if self.rule == "backward":
            return (x, g) if self.op in ("smooth", "lp") else (g,), x.size
        return (x, g), x.size + g.size

    def as_windows(self) -> tuple[tuple[int, ...], tuple[int, ...], Pairs] | None:
        """(kernel, stride, padding) of the same windows, for peers that have no other; None where bins differ in size.

        Padding is that of both sides, with the overhang of ceil mode after it.
        """
        grid = self.geometry.grid(self.spatial)
        if isinstance(self.geometry, Sliding):
            kernel, stride = self.geometry.kernel, self.geometry.stride
            ends = zip(self.geometry.padding, kernel, stride, grid, self.spatial, strict=True)
            return kernel, stride, tuple((p, max(q, (m - 1) * s + k - n - p)) for (p, q), k, s, m, n in ends)
        if any(n % m for n, m in zip(self.spatial, grid, strict=True)):
            return None
        bins = tuple(n // m for n, m in zip(self.spatial, grid, strict=True))
        return bins, bins, ((0, 0),) * len(bins)

    @property
    def hangs_over(self) -> bool:
        """Whether the last window of an axis reaches past the padding."""
        windows = self.as_windows()
        return isinstance(self.geometry, Sliding) and windows is not None and windows[2] != self.geometry.padding


@lru_cache(maxsize=2)
def cells(shape: tuple[int, ...], last: bool, seed: int, dtype: str = "float32") -> Array:
    """Random cells: N×C×… in memory, or N×…×C seen as N×C×…"""
    stored, rng = (shape[0], *shape[2:], shape[1]) if last else shape, np.random.default_rng(seed)
    if dtype == "uint8":
        found: Array = rng.integers(0, 256, stored, dtype)
    else:
        found = rng.standard_normal(stored, dtype="float64" if dtype == "float64" else "float32").astype(dtype, copy=False)
    return np.moveaxis(found, -1, 1) if last else found


def nbytes(dtype: str, *counts: int) -> int:
    return sum(counts) * np.dtype(dtype).itemsize


# --- the fixed grid --------------------------------------------------------------------------------------------------

SLIDING = (  # name, geometry, shape of one image
    ("2×2 s2", Sliding((2, 2), 2), (64, 112, 112)),
    ("3×3 s2 p1", Sliding((3, 3), 2, 1), (64, 112, 112)),
    ("3×3 s1 p1", Sliding((3, 3), 1, 1), (64, 56, 56)),
    ("7×7 s1 p3", Sliding((7, 7), 1, 3), (64, 56, 56)),
)
BINS = (
    ("global", Whole(2), (64, 56, 56)),
    ("adaptive 7×7", Adaptive((7, 7)), (64, 112, 112)),
    ("adaptive 7×7", Adaptive((7, 7)), (64, 50, 50)),
)
OTHERS = (
    ("3×3×3 s2 p1", Sliding((3, 3, 3), 2, 1), (16, 32, 56, 56)),
    ("2×2×2×2 s2", Sliding((2, 2, 2, 2), 2), (8, 16, 16, 16, 16)),
    *BINS,
)
SIGNALS = (
    ("2 s2", Sliding((2,), 2), (1, 1, 1 << 22)),
    ("3 s2 p1", Sliding((3,), 2, 1), (8, 16, 100_003)),
    ("64 s1", Sliding((64,), 1), (1, 2, 1 << 20)),
)
SHORT = (  # parts of a recording, and the end of a network for signals
    ("adaptive 8", Adaptive((8,)), (1, 1, 160_000)),
    ("global", Whole(1), (32, 16, 1000)),
)
LARGE = (
    ("4 s4", Sliding((4,), 4), (16, 1, 1 << 22)),
    ("3×3 s2 p1", Sliding((3, 3), 2, 1), (1, 1, 8192, 8192)),
    ("2×2×2 s2", Sliding((2, 2, 2), 2), (1, 1, 512, 512, 512)),
)
PICTURES = (  # as a camera and as a loader of batches give them
    ("2×2 s2", Sliding((2, 2), 2), (1, 3, 1080, 1920)),
    ("3×3 s2 p1", Sliding((3, 3), 2, 1), (32, 3, 224, 224)),
)
OPS = ("max", "avg", "smooth")


def grid() -> Iterator[Case]:
    """Every row of the benchmark; rows over the same arrays stand together."""
    for last, ops, windows in ((False, OPS, SLIDING + OTHERS), (True, ("max", "avg"), SLIDING)):
        for name, geometry, image in windows:
            for batch in (1, 32):
                for op in ops:
                    for rule in rules_of(op, geometry, last):
                        yield Case(op, rule, name, geometry, (batch, *image), last)
    for name, geometry, shape in SIGNALS:
        for op in OPS:
            for rule in ("forward", "backward", "both"):
                yield Case(op, rule, name, geometry, shape)
    for name, geometry, shape in SHORT:
        for op in ("max", "avg"):
            for rule in ("forward", "backward", "both") if isinstance(geometry, Whole) else ("forward",):  # JAX takes seconds
                yield Case(op, rule, name, geometry, shape)
    for name, geometry, image in SLIDING[:3]:
        for rule in ("forward", "backward", "both"):
            yield Case("lp", rule, name, geometry, (32, *image))
    for name, geometry, image in SLIDING[:2]:
        for rule in ("forward", "both"):
            yield Case("lp", rule, name, geometry, (1, *image), True)
    for name, geometry, image in SLIDING[:3]:
        for op in ("min", "masked max", "masked avg"):
            for rule in ("forward", "backward", "both"):
                yield Case(op, rule, name, geometry, (32, *image))
    for name, geometry, image in SLIDING[1:3] + BINS[:1]:
        for op in OPS:
            for rule in ("forward", "backward"):
                yield Case(op, rule, name, geometry, (8, *image), dtype="float64")
    for name, geometry, image in SLIDING[:3]:
        for last in (False, True):
            for op in ("max", "avg"):
                for rule in ("forward", "both"):
                    yield Case(op, rule, name, geometry, (8, *image), last, "float16")
    for name, geometry, shape in PICTURES:
        for last in (False, True):
            yield Case("max", "forward", name, geometry, shape, last, "uint8")
    for name, geometry, shape in LARGE:
        for op in ("max", "avg"):
            yield Case(op, "forward", name, geometry, shape)


def rules_of(op: str, geometry: Geometry, last: bool) -> tuple[str, ...]:
    """The tensors of PyTorch are measured where it has an operator of its own."""
    if last:
        return RULES[:3]
    if geometry.rank != 2:
        return ("forward", "backward")
    return RULES[:3] if op == "smooth" else RULES


def size_of(shape: tuple[int, ...], geometry: Geometry, dtype: str = "float32") -> int:
    """Bytes of a case's arrays: x, y, and the gradients of both."""
    return nbytes(dtype, 2 * math.prod(shape), 2 * math.prod(geometry.out_shape(shape)))
