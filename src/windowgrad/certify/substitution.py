"""Backward substitution: a linear form over the output becomes one over the input, node by node.

A row is a form Σ A·y + constant that is to be bounded from below. Through an affine node A becomes its adjoint of A. Through a
maximum, cells with A > 0 take a plane below it and cells with A < 0 one above it. The float64 numbers of A count as exact;
what rounding them may have changed, at most γ·|A|·(|W|·|x|), goes to `lost`, and with float32 |A|·|δ| too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from windowgrad.certify.boxes import State
from windowgrad.certify.maps import Scatter
from windowgrad.certify.nodes import Affine, Relaxed
from windowgrad.certify.planes import Partial, Planes
from windowgrad.certify.rounding import SLACK, TINY, UNIT, below, gamma
from windowgrad.certify.rows import Rows, Whole

Array = np.ndarray[Any, Any]


@dataclass
class Forms:
    """Rows of linear forms over several values, and what was left of them so far."""

    rows: dict[int, Rows]
    constant: Array
    lost: Array
    met: dict[int, Array] = field(default_factory=dict)
    """The rows over the outputs of each extreme, negated for a minimum: what its planes were multiplied by."""
    widest: int = 0
    """The most numbers that a row took."""

    def grow(self, amount: Array) -> None:
        """The constants, greater by an amount."""
        self.constant = self.constant + amount
        self.lost += 2 * UNIT * np.abs(self.constant)

    def add(self, state: State, value: int, rows: Rows) -> None:
        """One more part over a value."""
        if value in self.rows:
            rows = self.rows[value].plus(rows)
            self.lost += 2 * UNIT * rows.sizes(state.boxes[value].size) * SLACK
        self.rows[value] = rows


def substituted(state: State, forms: Forms, last: int, planes: Mapping[int, Planes | Partial]) -> Forms:
    """The forms over the input: through the nodes before place `last`, by the planes of each extreme."""
    for node in reversed(state.network.nodes[:last]):
        rows = forms.rows.pop(node.result, None)
        if rows is None:
            continue
        if isinstance(node, Relaxed) and not node.is_cellwise:
            rows = rows.whole()
        if node.result in state.deltas:
            forms.lost += rows.sizes(state.deltas[node.result]) * SLACK
        terms = rows.cells + 16
        if isinstance(node, Affine):
            if not node.is_plain:
                weighed = rows.sizes(state.weights[node.result])
                forms.lost += gamma(node.terms + node.back_terms + terms) * weighed * SLACK + TINY
            if node.is_shifted:
                forms.grow(rows.values(node.constant))
            for source, part in node.parts:
                forms.add(state, source, rows.back(part))
        else:
            taps, weighed = node.taps.shape[1], rows.sizes(state.weights[node.result])
            forms.lost += gamma(2 * taps + node.most + terms) * weighed * SLACK + TINY
            through(state, forms, node, rows if node.sign > 0 else rows.filled(-rows.array), planes[node.result])
            forms.widest = max(forms.widest, rows.cells * taps)
        forms.widest = max([forms.widest, rows.cells, *(each.cells for each in forms.rows.values())])
    return forms


def through(state: State, forms: Forms, node: Relaxed, rows: Rows, chosen: Planes | Partial) -> None:
    """The rows over the cells of an extreme."""
    forms.met[node.result] = rows.array
    scatter: Scatter | None
    if isinstance(chosen, Partial):
        forms.grow(rows.values(chosen.fixed))
        rows, scatter, chosen = Whole(rows.whole().array[:, chosen.windows]), chosen.scatter, chosen.planes
    else:
        scatter = None if node.is_cellwise else node.scatter
    array, signed = rows.array, rows.array if node.sign > 0 else -rows.array
    above = array < 0
    constants = np.where(above, rows.pick(chosen.above_constant), rows.pick(chosen.below_constant))
    forms.grow(np.einsum("ij,ij->i", *(each.reshape(len(array), -1) for each in (array, constants))))
    if scatter is None:
        cells = np.where(above, rows.pick(chosen.above[..., 0]), rows.pick(chosen.below[..., 0]))
        cells *= signed
        forms.add(state, node.sources[0], rows.filled(cells))
        return
    cells = np.where(above[..., None], chosen.above, chosen.below)
    cells *= signed[..., None]
    found = scatter(cells.reshape(len(array), -1))
    for source, part in zip(node.sources, np.split(found, np.cumsum(node.sizes)[:-1], axis=1), strict=True):
        forms.add(state, source, Whole(part))


def least(state: State, forms: Forms) -> Array:
    """The least value of each row on the box of the input, rounded down."""
    rows = forms.rows.get(0)
    if rows is None:
        return below(forms.constant - forms.lost * SLACK)
    middle, radius = state.boxes[0].ball()
    value = forms.constant + rows.values(middle) - rows.sizes(radius)
    lost = forms.lost + gamma(2 * rows.cells + 16) * (rows.sizes(state.boxes[0].size) + np.abs(forms.constant)) + TINY
    return below(value - lost * SLACK)
