"""Interval propagation: for every value, a box that its cells cannot leave.

An affine node maps the middle of its input's box, and its radius by absolute coefficients; both are widened by what float64
may lose (`rounding.py`). With `arithmetic="float32"` the box also holds every value that an evaluation in float32 can give,
whatever the order of its sums:   y = W·x + b + δ,   |δ| ≤ γ_m·(|W|·|x| + |b|) + 2n·η,   u = 2⁻²⁴, η = 2⁻¹⁴⁹.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from windowgrad.certify.cells import Box, Cells
from windowgrad.certify.curves import curve_ends, smooth_ends
from windowgrad.certify.maps import Map
from windowgrad.certify.nodes import Affine, Curve, Extreme, Network, Node, Relaxed, Smooth
from windowgrad.certify.rounding import LEAST_32, MOST_TERMS, SLACK, TINY, UNIT_32, above, below, gamma
from windowgrad.errors import WindowError

Array = np.ndarray[Any, Any]
GREATEST_32 = float(np.finfo(np.float32).max)


@dataclass
class State:
    """What is known so far of the values of a network for one box of inputs."""

    network: Network
    floats: bool
    """Every evaluation in float32 is covered, not only that in real arithmetic."""
    boxes: dict[int, Box] = field(default_factory=dict)
    weights: dict[int, Array] = field(default_factory=dict)
    """Of each affine node |W|·|x| + |b|, and of each extreme what stands for it: rounding is relative to them."""
    deltas: dict[int, Array] = field(default_factory=dict)
    """|δ| of each node that an evaluation rounds."""

    def cells(self, node: Relaxed) -> Cells:
        boxes = [self.boxes[source] for source in node.sources]
        lo, hi = (np.concatenate(ends) if len(boxes) > 1 else ends[0] for ends in zip(*boxes, strict=True))
        lo, hi = (lo, hi) if node.sign > 0 else (-hi, -lo)
        cells = Cells(lo[node.taps], hi[node.taps], floor_of(node))
        if node.absent is not None:
            cells.lo[node.absent] = cells.hi[node.absent] = -np.inf
        return cells

    def step(self, node: Node) -> None:
        """The box of the next node, from those before it."""
        self.boxes[node.result] = self.affine(node) if isinstance(node, Affine) else self.relaxed(node)

    def affine(self, node: Affine) -> Box:
        boxes = [self.boxes[source] for source, _ in node.parts]
        maps = [part for _, part in node.parts]
        if node.terms > MOST_TERMS:
            raise WindowError(f"{node.name}: sums of {node.terms} terms have no bounds")
        weight = mapped(node.absolute, [box.size for box in boxes]) + np.abs(node.constant)
        most = GREATEST_32 / (1 + gamma(node.roundings, UNIT_32)) / node.divisor / SLACK if self.floats else np.inf
        if not (weight < most).all():
            raise WindowError(f"{node.name}: may overflow {'float32' if self.floats else 'float64'} on this box")
        self.weights[node.result] = weight
        if not node.roundings:
            ends = [mapped(maps, list(end)) + node.constant for end in zip(*boxes, strict=True)]  # a negative swaps them
            return Box(np.minimum(*ends), np.maximum(*ends))
        middles, radii = zip(*(box.ball() for box in boxes), strict=True)
        middle, radius = mapped(maps, middles) + node.constant, mapped(node.absolute, radii)
        lost = 2 * gamma(node.terms + 8) * (radius + weight) * SLACK + TINY
        if self.floats:
            self.deltas[node.result] = gamma(node.roundings, UNIT_32) * weight * SLACK + 2 * node.terms * LEAST_32
            lost = lost + self.deltas[node.result] * SLACK
        reach = above(radius + lost)
        return Box(below(middle - reach), above(middle + reach))

    def relaxed(self, node: Relaxed) -> Box:
        cells = self.cells(node)
        low, high = ends_of(node, cells)
        sizes = np.maximum(np.abs(cells.lo), np.abs(cells.hi))
        if node.absent is not None:
            sizes[node.absent] = 0.0
        self.weights[node.result] = sizes.sum(axis=1) + 4 * (np.maximum(np.abs(low), np.abs(high)) + width_of(node))
        if self.floats and not isinstance(node, Extreme):
            delta = ASSUMED * UNIT_32 * (np.maximum(np.abs(low), np.abs(high)) + width_of(node)) * SLACK + LEAST_32
            self.deltas[node.result] = delta
            low, high = below(low - delta), above(high + delta)
        return Box(low, high) if node.sign > 0 else Box(-high, -low)


ASSUMED = 16
"""In units of 2⁻²⁴·(|y| + (1 + log n)/β), of tanh and the logistic function 2⁻²⁴·(|y| + 1): what float32 libraries are taken
to lose in a function that has no bound for every order of its operations."""


def floor_of(node: Relaxed) -> Array:
    """The constant among the cells of each window."""
    if isinstance(node, Extreme):
        return node.floor
    return np.where(node.zeros > 0, 0.0, -np.inf) if isinstance(node, Smooth) else np.full(len(node.taps), -np.inf)


def ends_of(node: Relaxed, cells: Cells) -> tuple[Array, Array]:
    """The least and the greatest value of each output."""
    if isinstance(node, Smooth):
        return smooth_ends(node, cells)
    return curve_ends(node, cells) if isinstance(node, Curve) else cells.ends


def width_of(node: Relaxed) -> Any:
    """What the constants of its planes have besides values of the cells and of the output."""
    if isinstance(node, Smooth):
        return (1 + np.log(node.taps.shape[1] + node.zeros.max(initial=0.0))) / node.beta
    return 1.0 if isinstance(node, Curve) else 0.0


def mapped(maps: Sequence[Map], arrays: Sequence[Array]) -> Array:
    """The sum of what each map makes of its array."""
    found: Array = maps[0].forward(arrays[0][None])[0]
    for part, array in zip(maps[1:], arrays[1:], strict=True):
        found = found + part.forward(array[None])[0]
    return found


def propagated(network: Network, box: Box, floats: bool) -> State:
    """All boxes by intervals alone."""
    state = State(network, floats, {0: box})
    for node in network.nodes:
        state.step(node)
    return state
