"""The bounds of a certificate, derived again in integers for one box of inputs.

Boxes are integers in units of u = 2⁻¹⁹² and are rounded outwards. A form Σ A·cell + constant is bounded from below by replacing
each cell by what its step says, from the last step to the first; A is in units of u, the constant in units of u².

    sum         A·W ÷ divisor is rounded down, by less than u: it costs at most u·|least value of the cell|
    greatest    A > 0:  max x ≥ Σ w·x + (1 − Σ w)·L       w ≥ 0, Σ w ≤ 1, L the greatest lower end: a smaller w is another w
                A < 0:  max x ≤ t + Σ a·(x − l)           t ≥ L, a ≥ (u − t)⁺ ÷ (u − l): a greater a is another a

so rounding A·w and A·a down needs no care. For float32, each sum has an error of at most γ·(Σ |W|·|x| + |b|) + 2n·η, which is
added to its box and costs |A| times that in a form; γ = m ÷ (2²⁴ − m) for m roundings, η = 2⁻¹⁴⁹.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from windowgrad.certify.check_network import BOTTOM, GRID, Array, Greatest, Network, Sum, ceiled, floored
from windowgrad.errors import OptionError

LEAST_32 = 1 << (GRID - 149)
GREATEST_32 = (2**24 - 1) << (104 + GRID)
AT_ONCE = 64
"""Rows of a substitution at once: a form may reach every cell."""


class RejectedError(OptionError):
    """A certificate that does not prove what it says."""


class Planes:
    """t and w of each window of a step, for every form or for each row by itself, and the box that they are right for."""

    def __init__(self, step: Greatest, lo: Array, hi: Array) -> None:
        ends = (lo, hi) if step.sign > 0 else (-hi, -lo)
        there = step.taps >= 0
        self.step, self.there = step, there
        self.lo, self.hi = (np.where(there, end[step.taps], BOTTOM) for end in ends)
        self.least, self.most = (np.maximum(end.max(axis=1, initial=BOTTOM), step.floor) for end in (self.lo, self.hi))
        self.choices: list[tuple[Array, Array]] = []

    def choose(self, t: Array, w: Array) -> None:
        """Take t (rows, outputs) and w (rows, outputs, taps)."""
        upper, lower = ceiled(t), floored(w)
        if (upper < self.least).any():
            raise RejectedError(f"{self.step.name}: t is below the greatest lower end of a window")
        if (lower < 0).any() or (lower.sum(axis=-1) > 1 << GRID).any():
            raise RejectedError(f"{self.step.name}: w must not be negative, and its sum over a window not above 1")
        self.choices.append((upper, lower))

    def through(self, rows: Array, outputs: Array, a: Array, own: bool) -> tuple[Array, Array, Array, Array]:
        """The forms a·output over the cells: (entry, cell, coefficient) and the constant of each entry."""
        t, w = self.choices[-1 if own else 0]
        at = np.minimum(rows, len(t) - 1)
        lo, hi, tops = self.lo[outputs], self.hi[outputs], t[at, outputs][:, None]
        a = a * self.step.sign
        above, wide = (hi > tops) & (a < 0)[:, None], np.where(hi > lo, hi - lo, 1)
        c = np.where(above, a[:, None] * (hi - tops) // wide, 0)
        c = np.where((a > 0)[:, None] & self.there[outputs], a[:, None] * w[at, outputs] >> GRID, c)
        totals = np.where(a > 0, (a - c.sum(axis=1)) * self.least[outputs], a * tops[:, 0] - (c * lo * above).sum(axis=1))
        entry, tap = np.nonzero(c != 0)
        return entry, self.step.cells[self.step.taps[outputs[entry], tap]], self.step.sign * c[entry, tap], totals


class Bounds:
    """The boxes of all cells of a network, step by step, and what is claimed of them."""

    def __init__(self, network: Network, lo: Array, hi: Array, claims: Mapping[str, Array], rows: int) -> None:
        """`claims` are the arrays of one leaf; `rows` is how many inequalities the property has."""
        self.network, self.claims, self.rows = network, claims, rows
        self.lo, self.hi = np.zeros(network.total, object), np.zeros(network.total, object)
        self.lo[: lo.size], self.hi[: hi.size] = floored(lo.reshape(-1)), ceiled(hi.reshape(-1))
        self.errors: dict[int, Array] = {}
        self.planes: dict[int, Planes] = {}
        for place, step in enumerate(network.steps):
            low, high = self.sum(step) if isinstance(step, Sum) else self.greatest(step, place)
            self.lo[step.start : step.start + len(step)] = low
            self.hi[step.start : step.start + len(step)] = high

    # --- boxes ---------------------------------------------------------------------------------------------------

    def sum(self, step: Sum) -> tuple[Array, Array]:
        lo, hi, rising = self.lo[step.cells], self.hi[step.cells], step.weights > 0
        part = step.divisors << step.scale
        low = summed(step.weights * np.where(rising, lo, hi), step.first) // part + step.bias
        high = -(summed(-step.weights * np.where(rising, hi, lo), step.first) // part) + step.bias
        if not self.network.floats or not step.roundings:
            return low, high
        size = -(summed(-abs(step.weights) * np.maximum(abs(lo), abs(hi)), step.first) // part) + abs(step.bias)
        m, terms = step.roundings, int(np.diff(step.first).max(initial=0)) + 1
        if m >= 1 << 23:
            raise RejectedError(f"{step.name}: sums of {terms} terms have no bound in float32")
        error = -(-m * size // ((1 << 24) - m)) + 2 * terms * LEAST_32
        if (step.before * (size + error) >= GREATEST_32).any():
            raise RejectedError(f"{step.name}: may overflow float32 on the box")
        self.errors[step.start] = error
        return low - error, high + error

    def greatest(self, step: Greatest, place: int) -> tuple[Array, Array]:
        """Its box, after its claims have been verified; then they count."""
        cells, count = step.cells, len(step)
        lo, hi = floored(self.claim(step, "lo", cells.shape)), ceiled(self.claim(step, "hi", cells.shape))
        if (lo > hi).any():
            raise RejectedError(f"{step.name}: a claimed box is empty")
        for end, wrong, sign in ((lo, lo > self.lo[cells], 1), (-hi, hi < self.hi[cells], -1)):
            places = np.flatnonzero(wrong)
            for block in np.split(places, range(AT_ONCE, len(places), AT_ONCE)):
                rows = np.arange(len(block))
                found = self.least(rows, cells[block], np.full(len(block), sign << GRID, object), len(block), place)
                if (found < end[block] << GRID).any():
                    at = int(block[np.argmax(found < end[block] << GRID)])
                    raise RejectedError(
                        f"{step.name}: the claimed {'lower' if sign > 0 else 'upper'} end of cell {at} does not follow"
                    )
        self.lo[cells], self.hi[cells] = np.maximum(lo, self.lo[cells]), np.minimum(hi, self.hi[cells])
        planes = self.planes[step.start] = Planes(step, lo, hi)
        planes.choose(self.claim(step, "t", (count,))[None], self.claim(step, "w", step.taps.shape)[None])
        if f"{step.number}/rows_t" in self.claims:
            own = self.claim(step, "rows_t", (self.rows, count)), self.claim(step, "rows_w", (self.rows, *step.taps.shape))
            planes.choose(*own)
        return (planes.least, planes.most) if step.sign > 0 else (-planes.most, -planes.least)

    def claim(self, step: Greatest, name: str, shape: tuple[int, ...]) -> Array:
        found = self.claims.get(f"{step.number}/{name}")
        if found is None or found.shape != shape:
            has = "is missing" if found is None else f"has shape {found.shape}, must be {shape}"
            raise RejectedError(f"{step.name}: {step.number}/{name} {has}")
        return found

    # --- forms ---------------------------------------------------------------------------------------------------

    def least(self, rows: Array, cells: Array, a: Array, count: int, last: int | None = None, own: bool = False) -> Array:
        """Lower bounds of `count` forms Σ a·cell, through the steps before place `last`; `own`: by planes of each row."""
        constant = np.zeros(count, object)
        for step in reversed(self.network.steps[:last]):
            mine = (cells >= step.start) & (cells < step.start + len(step))
            if not mine.any():
                continue
            took, outputs, b = rows[mine], cells[mine] - step.start, a[mine]
            if isinstance(step, Sum):
                entry, new, c, totals = self.through(step, outputs, b)
            else:
                entry, new, c, totals = self.planes[step.start].through(took, outputs, b, own)
            np.add.at(constant, took, totals)
            rows, cells, a = joined(
                np.concatenate([rows[~mine], took[entry]]), np.concatenate([cells[~mine], new]), np.concatenate([a[~mine], c])
            )
        np.add.at(constant, rows, a * np.where(a > 0, self.lo[cells], self.hi[cells]))
        return constant

    def through(self, step: Sum, outputs: Array, a: Array) -> tuple[Array, Array, Array, Array]:
        """As `Planes.through`."""
        counts = np.diff(step.first)[outputs]
        entry = np.repeat(np.arange(len(outputs)), counts)
        place = np.arange(len(entry)) + np.repeat(step.first[outputs] - np.cumsum(counts) + counts, counts)
        c = a[entry] * step.weights[place] // (step.divisors[outputs] << step.scale)[entry]
        new = step.cells[place]
        lost = counts.astype(object) * max(0, -min(self.lo[new], default=0))
        totals = a * step.bias[outputs] - lost
        if step.start in self.errors:
            totals = totals - abs(a) * self.errors[step.start][outputs]
        return entry, new, c, totals


def summed(values: Array, first: Array) -> Array:
    """The sums of the parts of an array that begin at `first`, the last of which is its end; 0 of an empty part."""
    found = np.zeros(len(first) - 1, object)
    full = np.diff(first) > 0
    if full.any():
        found[full] = np.add.reduceat(values, first[:-1][full])
    return found


def joined(rows: Array, cells: Array, a: Array) -> tuple[Array, Array, Array]:
    """The same forms, with one entry per row and cell."""
    if not len(rows):
        return rows, cells, a
    order = np.lexsort((cells, rows))
    rows, cells, a = rows[order], cells[order], a[order]
    new = np.flatnonzero(np.concatenate([[True], (np.diff(rows) != 0) | (np.diff(cells) != 0)]))
    return rows[new], cells[new], np.add.reduceat(a, new)
