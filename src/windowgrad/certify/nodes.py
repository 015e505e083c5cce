"""A program as bounds see it: affine nodes and relaxed ones, on flat arrays of cells.

    affine     y = Σ map(source) + constant
    extreme    y = the greatest (or the least) of some cells of its sources, and of a constant
    smooth     y = (1/β)·log Σ exp(β·x) over some cells, and zeros
    curve      y = tanh x or sigmoid x

A ReLU is the extreme of a cell and 0. A maximum whose cells are all outputs of a ReLU takes the cells before it and 0 instead:
max(0, x₁, …) has tighter planes than a maximum of ReLUs. Values that other nodes read keep their own ReLU.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from windowgrad.certify.maps import Map, Scatter, Selection

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Affine:
    """y = Σ map(source) + constant."""

    result: int
    parts: tuple[tuple[int, Map], ...]
    constant: Array
    name: str

    @property
    def sources(self) -> tuple[int, ...]:
        return tuple(source for source, _ in self.parts)

    @cached_property
    def absolute(self) -> tuple[Map, ...]:
        """The maps with absolute coefficients."""
        return tuple(part.absolute() for _, part in self.parts)

    @cached_property
    def terms(self) -> int:
        return sum(part.terms for _, part in self.parts) + 1

    @cached_property
    def is_shifted(self) -> bool:
        """Whether its constant is not 0."""
        return bool(self.constant.any())

    @cached_property
    def is_plain(self) -> bool:
        """Whether it only adds values: its adjoint copies rows, without rounding."""
        return not self.is_shifted and all(isinstance(part, Selection) and part.whole for _, part in self.parts)

    @cached_property
    def back_terms(self) -> int:
        return max(part.back_terms for _, part in self.parts)

    @cached_property
    def divisor(self) -> float:
        """How many times as large as the outputs sums inside may be."""
        return max(part.divisor for _, part in self.parts)

    @cached_property
    def roundings(self) -> int:
        """How many roundings an evaluation puts on a term, at most; 0 where cells are only moved."""
        within = max(part.roundings for _, part in self.parts)
        adds = len(self.parts) - 1 + self.is_shifted
        apart = all(isinstance(part, Selection) and part.holes for _, part in self.parts)  # side by side, not added
        return 0 if apart else within + adds


@dataclass(frozen=True)
class Relaxed:
    """Each output is a function of the cells at its taps, which count through all sources. Bounds take planes for it.

    `sign` −1: it is the negative of a function of the negated cells, as a minimum is of a maximum.
    """

    result: int
    sources: tuple[int, ...]
    sizes: tuple[int, ...]
    taps: Array
    """(outputs, cells of a window); −1 where there is no cell."""
    sign: int
    name: str
    number: int
    """Its place among the relaxed nodes of the network, before any were fused: how a certificate names it."""

    @cached_property
    def scatter(self) -> Scatter:
        """From what each window puts on its cells to all cells."""
        return Scatter(self.taps.reshape(-1), sum(self.sizes))

    @cached_property
    def most(self) -> int:
        """How many windows see a cell, at most."""
        return int(np.bincount(self.taps.reshape(-1) + 1)[1:].max(initial=1))

    @cached_property
    def is_cellwise(self) -> bool:
        """Whether each output is a function of the cell in its own place."""
        return (
            self.taps.shape[1] == 1
            and self.sizes == (len(self.taps),)
            and bool((self.taps[:, 0] == np.arange(len(self.taps))).all())
        )

    @cached_property
    def absent(self) -> Array | None:
        """Where a window has no cell; None if all windows are full."""
        gone = self.taps < 0
        return gone if gone.any() else None


@dataclass(frozen=True)
class Extreme(Relaxed):
    """The greatest of the cells, and of a constant."""

    floor: Array
    """One constant per output, −∞ where there is none; with `sign` −1 it is that of the negated cells."""


@dataclass(frozen=True)
class Smooth(Relaxed):
    """The smooth maximum of the cells and some zeros, β > 0; with `sign` −1 of the negated cells, which is that with β < 0."""

    beta: float
    zeros: Array
    """How many zeros each output counts: its padded cells."""


@dataclass(frozen=True)
class Curve(Relaxed):
    """tanh or the logistic function of one cell each: increasing, convex below 0 and concave above."""

    logistic: bool


Node = Affine | Relaxed


@dataclass(frozen=True)
class Network:
    """The nodes in order, and how many cells each value has. Value 0 is the input."""

    nodes: tuple[Node, ...]
    sizes: dict[int, int]
    output: int
    shape: tuple[int, ...]
    """Of the output."""
    in_shape: tuple[int, ...]


def fused(nodes: Sequence[Node]) -> list[Node]:
    """Each maximum of outputs of one ReLU as one of the cells before it, and 0."""
    made = {node.result: node for node in nodes}
    found: list[Node] = []
    for node in nodes:
        inner = made.get(node.sources[0]) if isinstance(node, Extreme) and len(node.sources) == 1 else None
        if isinstance(node, Extreme) and node.sign > 0 and isinstance(inner, Extreme) and is_relu(inner):
            floor = np.maximum(node.floor, np.where((node.taps >= 0).any(axis=1), 0.0, -np.inf))
            name = f"{inner.name}+{node.name}"
            found.append(Extreme(node.result, inner.sources, inner.sizes, node.taps, 1, name, node.number, floor))
        else:
            found.append(node)
    return found


def is_relu(node: Extreme) -> bool:
    """Whether each output is the greater of the same cell and 0."""
    return node.sign > 0 and node.is_cellwise and not node.floor.any()


def only_needed(nodes: Sequence[Node], output: int) -> list[Node]:
    """Without the nodes that nothing reads."""
    wanted, found = {output}, []
    for node in reversed(nodes):
        if node.result in wanted:
            wanted.update(node.sources)
            found.append(node)
    return found[::-1]
