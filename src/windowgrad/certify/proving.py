"""Whether a property holds on a box: attack, bound, optimise, and split the box while time is left."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

import numpy as np

from windowgrad.autograd.program import Program
from windowgrad.certify.attack import STARTS, Counterexample, search
from windowgrad.certify.attack import STEPS as ATTACK_STEPS
from windowgrad.certify.cells import Box
from windowgrad.certify.linear import MEMORY, Analysis
from windowgrad.certify.nodes import Network
from windowgrad.certify.optimised import STEPS, optimised
from windowgrad.certify.planes import Planes
from windowgrad.certify.properties import Property
from windowgrad.tables import stated, table

Array = np.ndarray[Any, Any]
Cuts = tuple[tuple[int, float, bool], ...]
"""The axis and the place of each cut that leads to a part of a box, and whether the part lies above it."""
Progress = Callable[[float, int], None]
"""Told the share of the volume that is proved, and how many boxes are left."""
Answer = Callable[[str, list[float], float, Counterexample | None, list["Leaf"]], "Result"]


BRIEF = 5
"""The steps of an attack that costs next to nothing."""


@dataclass(frozen=True)
class Leaf:
    """A part of the box on which the property is proved, and by which planes."""

    box: Box
    analysis: Analysis
    planes: dict[int, Planes] | None
    """Those of the rows of the property, where they were optimised; else the analysis has them."""
    bounds: Array
    """Lower bounds of c·y − b, one per inequality of the property."""
    cuts: Cuts = ()
    """How the box was cut to get to it: the cell of the input, where, and whether it is the part above."""


@dataclass
class Result:
    """The answer. `verdict` is "holds", "violated" or "unknown"; `margins` are lower bounds of each clause on the whole box."""

    verdict: str
    margins: list[float]
    seconds: float
    proved: float
    """The share of the volume on which the property is proved; 1 if it holds."""
    counterexample: Counterexample | None = None
    leaves: list[Leaf] = field(default_factory=list, repr=False)
    network: Network | None = field(default=None, repr=False)
    goal: Property | None = field(default=None, repr=False)
    arithmetic: str = "real"

    @property
    def margin(self) -> float:
        """The least of the margins."""
        return min(self.margins, default=np.inf)

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        lines = [("verdict", self.verdict), ("margin", f"{self.margin:.6g}"), ("proved", f"{self.proved:.4%} of the box")]
        lines += [("arithmetic", self.arithmetic), ("boxes", f"{len(self.leaves):,}"), ("seconds", f"{self.seconds:.3g}")]
        if self.network is not None:
            lines += [("input", str(self.network.in_shape)), ("output", str(self.network.shape))]
        if self.goal is not None:
            lines += stated(self.goal.clauses)
        return table("certify.prove", lines)


@dataclass(frozen=True)
class Plan:
    """What `prove` was asked."""

    method: str
    floats: bool
    seconds: float | None
    attacks: bool
    splits: bool
    memory: int = MEMORY
    steps: int = STEPS
    seed: int = 0


def proved(
    program: Program, network: Network, box: Box, goal: Property, plan: Plan, progress: Progress | None = None
) -> Result:
    """The answer for one box."""
    began = perf_counter()
    until = np.inf if plan.seconds is None else began + plan.seconds
    goal.check(network.sizes[network.output])
    arithmetic = "float32" if plan.floats else "real"

    def answer(verdict: str, margins: list[float], share: float, found: Counterexample | None, leaves: list[Leaf]) -> Result:
        return Result(verdict, margins, perf_counter() - began, share, found, leaves, network, goal, arithmetic)

    def attacked(starts: int, steps: int) -> Counterexample | None:
        share = until if plan.seconds is None else began + 0.2 * plan.seconds
        return search(program, network, box, goal, plan.floats, plan.seed, share, starts, steps) if plan.attacks else None

    nothing = [float("nan")] * len(goal.clauses)
    if (found := attacked(1, BRIEF)) is not None:
        return answer("violated", nothing, 0.0, found, [])
    prover = Prover(network, goal, plan, until)
    first = prover.bound(box)
    if min(prover.margins(first), default=np.inf) <= 0:
        if (found := attacked(STARTS, ATTACK_STEPS)) is not None:
            return answer("violated", nothing, 0.0, found, [])
        first = prover.improved(first)
    margins = prover.margins(first)
    if min(margins, default=np.inf) > 0:
        return answer("holds", margins, 1.0, None, [first])
    if not plan.splits or plan.seconds is None:
        return answer("unknown", margins, 0.0, None, [])
    return splitting(prover, program, box, first, answer, progress)


class Prover:
    """Bounds of one property on boxes."""

    def __init__(self, network: Network, goal: Property, plan: Plan, until: float) -> None:
        self.network, self.goal, self.plan, self.until = network, goal, plan, until
        cells = network.sizes[network.output]
        self.inequalities = goal.rows
        self.rows = np.array([each.row(cells) for each in self.inequalities]).reshape(len(self.inequalities), cells)
        self.constants = -np.array([each.ceiling for each in self.inequalities])

    def part(self, box: Box, cuts: Cuts) -> Leaf:
        """The best bounds on a part of the box, in any thread."""
        with np.errstate(all="ignore"):
            return self.improved(self.bound(box, cuts))

    def bound(self, box: Box, cuts: Cuts = ()) -> Leaf:
        """Bounds of all inequalities on a box, by closed forms."""
        analysis = Analysis(self.network, box, self.plan.floats, self.plan.memory, self.rows, self.until)
        found = analysis.bound(self.rows, self.constants)
        return Leaf(box, analysis, None, found, cuts)

    def improved(self, leaf: Leaf) -> Leaf:
        """The same with planes chosen for each inequality, if the method does so and the closed forms prove too little."""
        if self.plan.method != "optimised" or min(self.margins(leaf), default=np.inf) > 0:
            return leaf
        best, planes = optimised(leaf.analysis, self.rows, self.constants, self.plan.steps, self.until)
        return Leaf(leaf.box, leaf.analysis, planes, best, leaf.cuts)

    def margins(self, leaf: Leaf) -> list[float]:
        values = dict(zip(self.inequalities, leaf.bounds.tolist(), strict=True))
        return [float(margin) for margin in self.goal.margins(values)]

    def influence(self, leaf: Leaf) -> Array:
        """How much each cell of the input can move the worst clause, in the relaxed network."""
        worst = int(np.argmin(self.margins(leaf)))
        number = max((self.inequalities.index(each) for each in self.goal.clauses[worst]), key=lambda i: leaf.bounds[i])
        slope = leaf.analysis.slope(self.rows[number : number + 1])
        reach: Array = np.abs(slope[0]) * (leaf.box.hi - leaf.box.lo)
        return reach


def splitting(prover: Prover, program: Program, box: Box, first: Leaf, answer: Answer, progress: Progress | None) -> Result:
    """Bisect the box with the worst margin along the axis that moves it most, until all is proved or the time is over.

    The two halves of a box are bounded at once, each by a thread. When it is interrupted, what is proved is kept.
    """
    done: list[Leaf] = []
    queue = [(min(prover.margins(first)), 0, 1.0, first)]
    current, count, share, stopped = first, 0, 0.0, False
    floor = [np.inf] * len(prover.goal.clauses)
    try:
        with ThreadPoolExecutor(2) as threads:
            while queue and perf_counter() < prover.until:
                _, _, volume, current = heapq.heappop(queue)
                for part in threads.map(prover.part, *zip(*parts_of(current, prover.influence(current)), strict=True)):
                    margins = prover.margins(part)
                    if min(margins) > 0:
                        done.append(part)
                        share += volume / 2
                        floor = list(map(min, floor, margins))
                        continue
                    count += 1
                    heapq.heappush(queue, (min(margins), count, volume / 2, part))
                    if prover.plan.attacks:
                        told = program, prover.network, part.box, prover.goal, prover.plan.floats, count, prover.until
                        if (found := search(*told, 1, BRIEF)) is not None:
                            return answer("violated", margins, share, found, [])
                if progress is not None:
                    progress(share, len(queue))
    except KeyboardInterrupt:
        stopped = True  # in the middle of `current`, of which a half may be missing
    if not queue and not stopped:
        return answer("holds", floor, 1.0, None, done)
    left = [prover.margins(leaf) for leaf in [current] * stopped + [leaf for *_, leaf in queue]]
    return answer("unknown", [min(each) for each in zip(floor, *left, strict=True)], share, None, done)


def parts_of(leaf: Leaf, influence: Array) -> list[tuple[Box, Cuts]]:
    """The halves of a box along the axis of the greatest influence, each with the cuts that lead to it."""
    axis = int(np.argmax(influence))
    below, above = halves(leaf.box, axis)
    cut = float(below.hi[axis])
    return [(below, (*leaf.cuts, (axis, cut, False))), (above, (*leaf.cuts, (axis, cut, True)))]


def halves(box: Box, axis: int) -> list[Box]:
    """The two halves of a box: they share the cut, so nothing is lost between them."""
    cut = 0.5 * box.lo[axis] + 0.5 * box.hi[axis]
    first, second = box.hi.copy(), box.lo.copy()
    first[axis] = second[axis] = cut
    return [Box(box.lo, first), Box(second, box.hi)]
