"""Planes chosen for each form: t and w of every window by gradient ascent on the bound. Any choice is sound, so any stop is.

The bound of a row is linear in the coefficients that it puts on the cells of a window, and the factor of a coefficient is the
cell's value in the relaxed network at the worst input of that row. So one substitution backwards and one evaluation forwards
give all derivatives:

    ∂/∂w_k = A⁺·(x_k − L)          ∂/∂t = A⁻·(1 − Σ (x_k − l_k) ÷ (u_k − l_k) over the cells with u_k > t)
"""

from __future__ import annotations

from functools import cached_property
from time import perf_counter
from typing import Any

import numpy as np

from windowgrad.certify.cells import Cells
from windowgrad.certify.linear import Analysis
from windowgrad.certify.maps import Scatter
from windowgrad.certify.nodes import Affine, Extreme, Relaxed
from windowgrad.certify.planes import Partial, Planes, likely, planes, second
from windowgrad.certify.substitution import Forms, least

Array = np.ndarray[Any, Any]

STEPS = 40
RATE = 0.3


class Choice:
    """The free numbers of the undecided windows of an extreme, for each row: t by a sigmoid between L and U, w by a softmax.

    The softmax has one share more, for the constant. A cell that cannot be greater than L has none.
    """

    def __init__(self, node: Extreme, cells: Cells, rows: int) -> None:
        low, high = cells.ends
        self.node, self.windows = node, np.flatnonzero(high > low)
        self.cells = Cells(*(part[self.windows] for part in cells))
        self.taps = node.taps[self.windows]
        self.fixed = np.where(high > low, 0.0, low)
        self.low, self.high = self.cells.ends
        self.lows = np.where(self.taps < 0, 0.0, self.cells.lo)
        self.rates = 1 / np.where(self.cells.hi > self.cells.lo, self.cells.hi - self.cells.lo, np.inf)
        share = np.clip((second(self.cells) - self.low) / (self.high - self.low), 0.02, 0.98)
        first = likely(self.cells)
        odds = 6 * np.concatenate([first, 1 - first.sum(axis=1, keepdims=True)], axis=1)
        odds[:, :-1][self.cells.hi <= self.low[:, None]] = -np.inf
        self.t = np.repeat(np.log(share / (1 - share))[None], rows, axis=0)
        self.w = np.repeat(odds[None], rows, axis=0)
        self.best = self.t.copy(), self.w.copy()
        self.set()

    def set(self) -> None:
        """The planes of the free numbers as they are now."""
        self.s, self.share = sigmoid(self.t), softmax(self.w)
        t = np.clip(self.low + self.s * (self.high - self.low), self.low, self.high)
        self.planes = planes(self.cells, t, self.share[..., :-1] * (1 - 2.0**-40 * self.share.shape[-1]))

    @cached_property
    def scatter(self) -> Scatter:
        return Scatter(self.taps.reshape(-1), sum(self.node.sizes))

    @property
    def partial(self) -> Partial:
        return Partial(self.windows, self.planes, self.scatter, self.fixed)

    def keep(self, better: Array) -> None:
        """Remember the free numbers of some rows."""
        for best, now in zip(self.best, (self.t, self.w), strict=True):
            best[better] = now[better]

    def values(self, met: Array, x: Array) -> Array:
        """The outputs of the relaxed network for each row, from the cells of the undecided windows."""
        p, found = self.planes, np.repeat(self.fixed[None], len(met), axis=0)
        below, above = dots(x, p.below) + p.below_constant, dots(x, p.above) + p.above_constant
        found[:, self.windows] = np.where(met[:, self.windows] > 0, below, above)
        return found

    def slopes(self, met: Array, x: Array) -> tuple[Array, Array]:
        """The derivatives of the bounds in the free numbers; `x` are the cells of each window in the relaxed network."""
        met = met[:, self.windows]
        up, down = np.maximum(met, 0.0), np.minimum(met, 0.0)
        part = dots(x - self.lows, np.where(self.planes.above > 0, self.rates, 0.0))
        dt = down * (1 - part) * (self.high - self.low) * self.s * (1 - self.s)
        gain = x - self.low[:, None]
        gain *= up[..., None]
        mean = dots(self.share[..., :-1], gain)
        dw = np.empty(self.share.shape)
        dw[..., :-1] = gain - mean[..., None]
        dw[..., -1] = -mean
        dw *= self.share
        return dt, dw


def dots(a: Array, b: Array) -> Array:
    """Inner products along the last axis."""
    found: Array = np.einsum("...k,...k->...", a, b)
    return found


def sigmoid(x: Array) -> Array:
    found: Array = 1 / (1 + np.exp(-np.clip(x, -60, 60)))
    return found


def softmax(x: Array) -> Array:
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    found: Array = e / e.sum(axis=-1, keepdims=True)
    return found


class Adam:
    """Gradient ascent with moments, on several arrays in place."""

    def __init__(self, arrays: list[Array], rate: float) -> None:
        self.arrays, self.rate, self.count = arrays, rate, 0
        self.moments = [(np.zeros_like(array), np.zeros_like(array)) for array in arrays]

    def step(self, slopes: list[Array]) -> None:
        self.count += 1
        for array, slope, (m, v) in zip(self.arrays, slopes, self.moments, strict=True):
            m += 0.1 * (slope - m)
            v += 0.001 * (slope * slope - v)
            array += self.rate * (m / (1 - 0.9**self.count)) / (np.sqrt(v / (1 - 0.999**self.count)) + 1e-12)


def optimised(
    analysis: Analysis, rows: Array, constant: Array, steps: int = STEPS, until: float = np.inf
) -> tuple[Array, dict[int, Planes]]:
    """The best lower bounds of forms over the output, and the planes that give them; it stops at the time `until`."""
    state, network = analysis.state, analysis.network
    best = analysis.bound(rows, constant)
    count = len(rows)
    made = [Choice(node, state.cells(node), count) for node in network.nodes if isinstance(node, Extreme)]
    choices = {choice.node.result: choice for choice in made if len(choice.windows)}
    improved = np.zeros(count, bool)
    adam = Adam([array for choice in choices.values() for array in (choice.t, choice.w)], RATE)
    for _ in range(steps):
        if perf_counter() > until:
            break
        forms = analysis.forms(rows, constant, analysis.taken | {node: each.partial for node, each in choices.items()})
        found = least(state, forms)
        better = found > best
        best, improved = np.where(better, found, best), improved | better
        for choice in choices.values():
            choice.keep(better)
        adam.step(slopes(analysis, forms, choices))
        for choice in choices.values():
            choice.set()
    return best, kept(analysis, choices, improved)


def kept(analysis: Analysis, choices: dict[int, Choice], improved: Array) -> dict[int, Planes]:
    """The planes of each row: the closed form, or the best choice where that was better."""
    found = {
        node: Planes(*(np.repeat(part[None], len(improved), axis=0) for part in chosen))
        for node, chosen in analysis.planes.items()
    }
    for node, choice in choices.items():
        choice.t, choice.w = choice.best
        choice.set()
        for old, new in zip(found[node], choice.planes, strict=True):
            old[np.ix_(improved, choice.windows)] = new[improved]
    return found


def slopes(analysis: Analysis, forms: Forms, choices: dict[int, Choice]) -> list[Array]:
    """The derivatives in all free numbers, by all values of the relaxed network at the worst input of each row."""
    box, rows = analysis.state.boxes[0], forms.rows[0].whole().array
    values = {0: np.where(rows > 0, box.lo, box.hi)}
    found: list[Array] = []
    for node in analysis.network.nodes:
        if isinstance(node, Affine):
            total = node.constant
            for source, part in node.parts:
                total = total + part.forward(values[source])
            values[node.result] = total
            continue
        met = forms.met.get(node.result, np.zeros((len(rows), len(node.taps))))
        if node.result in choices:
            choice = choices[node.result]
            x = seen(node, choice.taps, values)
            values[node.result] = node.sign * choice.values(met, x)
            found += choice.slopes(met, x)
        else:
            x, p = seen(node, node.taps, values), analysis.planes[node.result]
            below, above = dots(x, p.below) + p.below_constant, dots(x, p.above) + p.above_constant
            values[node.result] = node.sign * np.where(met > 0, below, above)
    return found


def seen(node: Relaxed, taps: Array, values: dict[int, Array]) -> Array:
    """The cells of windows for every row, negated for a minimum; 0 where there is none."""
    rows = (
        np.concatenate([values[source] for source in node.sources], axis=1)
        if len(node.sources) > 1
        else values[node.sources[0]]
    )
    found: Array = rows[:, taps]
    if node.sign < 0:
        found = -found
    if node.absent is not None:
        found[:, taps < 0] = 0.0
    return found
