"""What is measured: one operator, forward or backward, over one geometry, in one shape and one layout of memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from windowgrad.geometry import Adaptive, Geometry, Sliding
from windowgrad.geometry import Global as Whole

Array = np.ndarray[Any, Any]

BETA = 1.0  # of smooth max; the peer's composition then needs no scaling passes


@dataclass(frozen=True)
class Case:
    """`x` is N×C×…; where `last` is set the channels are the fastest axis in memory, and x a transposed view."""

    op: str
    rule: str
    window: str
    geometry: Geometry
    shape: tuple[int, ...]
    last: bool = False

    @property
    def place(self) -> str:
        """What of the case is not the operator and its rule."""
        return f"{self.window}, {'×'.join(map(str, self.shape))}{', channels last' if self.last else ''}"

    @property
    def name(self) -> str:
        return f"{self.op} {self.rule} {self.place}"

    @property
    def series(self) -> str:
        return f"{self.op} pooling"

    def described(self) -> dict[str, Any]:
        layout = "channels last" if self.last else "channels first"
        return {"op": self.op, "rule": self.rule, "window": self.window, "shape": self.shape, "layout": layout}

    @property
    def out_shape(self) -> tuple[int, ...]:
        return self.geometry.out_shape(self.shape)

    @property
    def spatial(self) -> tuple[int, ...]:
        return self.shape[2:]

    def arrays(self) -> tuple[Array, Array]:
        """The input, and the gradient of the output."""
        return normal(self.shape, self.last, 1), normal(self.out_shape, self.last, 2)

    def moved(self, x: Array, g: Array) -> tuple[tuple[Array, ...], tuple[int, ...]]:
        """The arrays that must be read, and the shape of the one that must be written."""
        if self.rule == "forward":
            return (x,), self.out_shape
        return (g,) if self.op == "avg" else (x, g), self.shape

    def as_windows(self) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]] | None:
        """(kernel, stride, padding) of the same windows, for peers that have no other; None where bins differ in size."""
        if isinstance(self.geometry, Sliding):
            return self.geometry.kernel, self.geometry.stride, tuple(before for before, _ in self.geometry.padding)
        grid = self.geometry.grid(self.spatial)
        if any(n % m for n, m in zip(self.spatial, grid, strict=True)):
            return None
        bins = tuple(n // m for n, m in zip(self.spatial, grid, strict=True))
        return bins, bins, (0,) * len(bins)


@lru_cache(maxsize=2)
def normal(shape: tuple[int, ...], last: bool, seed: int) -> Array:
    """Random cells: N×C×… in memory, or N×…×C seen as N×C×…"""
    stored = (shape[0], *shape[2:], shape[1]) if last else shape
    cells = np.random.default_rng(seed).standard_normal(stored, dtype=np.float32)
    return np.moveaxis(cells, -1, 1) if last else cells


SLIDING = (  # name, geometry, shape of one image
    ("2×2 s2", Sliding((2, 2), 2), (64, 112, 112)),
    ("3×3 s2 p1", Sliding((3, 3), 2, 1), (64, 112, 112)),
    ("3×3 s1 p1", Sliding((3, 3), 1, 1), (64, 56, 56)),
    ("7×7 s1 p3", Sliding((7, 7), 1, 3), (64, 56, 56)),
)
OTHERS = (
    ("3×3×3 s2 p1", Sliding((3, 3, 3), 2, 1), (16, 32, 56, 56)),
    ("2×2×2×2 s2", Sliding((2, 2, 2, 2), 2), (8, 16, 16, 16, 16)),
    ("global", Whole(2), (64, 56, 56)),
    ("adaptive 7×7", Adaptive((7, 7)), (64, 112, 112)),
    ("adaptive 7×7", Adaptive((7, 7)), (64, 50, 50)),
)
LARGE = (
    ("4 s4", Sliding((4,), 4), (16, 1, 1 << 22)),
    ("3×3 s2 p1", Sliding((3, 3), 2, 1), (1, 1, 8192, 8192)),
    ("2×2×2 s2", Sliding((2, 2, 2), 2), (1, 1, 512, 512, 512)),
)


def grid() -> Iterator[Case]:
    """Every row of the benchmark; rows over the same arrays stand together."""
    for last, ops, windows in ((False, ("max", "avg", "smooth"), SLIDING + OTHERS), (True, ("max", "avg"), SLIDING)):
        for name, geometry, image in windows:
            for batch in (1, 32):
                for op in ops:
                    for rule in ("forward", "backward"):
                        yield Case(op, rule, name, geometry, (batch, *image), last)
    for name, geometry, shape in LARGE:
        for op in ("max", "avg"):
            yield Case(op, "forward", name, geometry, shape)
