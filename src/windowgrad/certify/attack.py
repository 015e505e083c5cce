"""A search for a counterexample: projected gradient descent on the margin of a property, from several starts in the box.

What is searched is the network that a user holds, in float64 for "real" and in float32 for "float32". A point that seems to
violate the property is confirmed: over exact fractions or by bounds at that point for "real", by the float32 evaluation itself
for "float32". Nothing that is not confirmed is reported.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np

from windowgrad.autograd.arrays import max as greatest
from windowgrad.autograd.arrays import min as smallest
from windowgrad.autograd.arrays import reshape, stack
from windowgrad.autograd.arrays import sum as total
from windowgrad.autograd.program import Program, Value
from windowgrad.autograd.transforms import value_and_grad
from windowgrad.certify.boxes import propagated
from windowgrad.certify.cells import Box
from windowgrad.certify.nodes import Network
from windowgrad.certify.properties import Property

Array = np.ndarray[Any, Any]

STARTS = 8
STEPS = 40
MOST_EXACT = 1 << 21
"""The most multiply-adds that are evaluated over fractions; larger networks are confirmed by bounds at the point."""


class Counterexample(NamedTuple):
    """An input of the box, and the output there."""

    x: Array
    y: Array


def search(
    program: Program, network: Network, box: Box, goal: Property, floats: bool, seed: int, until: float, starts: int, steps: int
) -> Counterexample | None:
    """A confirmed counterexample, if one is found in time."""
    rng = np.random.default_rng(seed)
    dtype = np.float32 if floats else np.float64
    lo, hi = inner_ends(box, dtype)
    if (lo > hi).any():
        return None  # no float32 number lies in the box
    margin = margin_of(program, goal, dtype)
    for start in range(starts):
        x = 0.5 * lo + 0.5 * hi if not start else lo + (hi - lo) * rng.random(len(lo)).astype(dtype)
        for step in range(steps):
            if perf_counter() > until:
                return None
            value, slope = margin(np.clip(x, lo, hi))
            if value <= 0 and (found := confirmed(program, network, np.clip(x, lo, hi), goal, floats)) is not None:
                return found
            x = np.clip(x - (hi - lo) * dtype(0.5 * 0.93**step) * np.sign(slope), lo, hi)
    return None


def inner_ends(box: Box, dtype: Any) -> tuple[Array, Array]:
    """The ends of the box as numbers of the dtype that lie inside it."""
    lo, hi = box.lo.astype(dtype), box.hi.astype(dtype)
    lo = np.where(lo < box.lo, np.nextafter(lo, dtype(np.inf)), lo)
    return lo, np.where(hi > box.hi, np.nextafter(hi, dtype(-np.inf)), hi)


def margin_of(program: Program, goal: Property, dtype: Any) -> Callable[[Array], tuple[float, Array]]:
    """The margin of the weakest clause at a point, and its gradient."""
    rows = goal.rows
    shape = program.inputs[0].shape
    output: Any = program.outputs[0]
    places = sorted({place for each in rows for place, _ in each.terms})
    matrix = np.zeros((len(rows), len(places)), dtype)
    for number, each in enumerate(rows):
        for place, factor in each.terms:
            matrix[number, places.index(place)] = factor
    bounds = np.array([float(each.bound) for each in rows], dtype)
    clauses = [[rows.index(each) for each in clause] for clause in goal.clauses]
    cells = np.array(places, np.int64)
    narrow = constants_as(program, dtype)

    def weakest(x: Any) -> Any:
        y = reshape(narrow(reshape(x, shape)), (int(np.prod(output.shape)),))[cells]
        margins = total(matrix * y, axis=1) - bounds
        return smallest(stack([greatest(margins[np.array(clause)]) for clause in clauses]))

    def both(x: Array) -> tuple[float, Array]:
        value, slope = value_and_grad(weakest)(x)
        return float(value), slope

    return both


def constants_as(program: Program, dtype: Any) -> Program:
    """The same program with its constants in another dtype."""
    calls = tuple(
        call._replace(arguments=tuple(a if isinstance(a, Value) else a.astype(dtype) for a in call.arguments))
        for call in program.calls
    )
    return program._replace(calls=calls)


def confirmed(program: Program, network: Network, x: Array, goal: Property, floats: bool) -> Counterexample | None:
    """The point with its output, if the property is certainly violated there."""
    shape = program.inputs[0].shape
    if floats:
        y = constants_as(program, np.float32)(x.astype(np.float32).reshape(shape))
        violated = violates(goal, [Fraction(float(cell)) for cell in y.reshape(-1)])
        return Counterexample(x.reshape(shape), y) if violated else None
    wide = x.astype(np.float64)
    if work(network) <= MOST_EXACT:
        exact = fractions_of(program)(np.array([Fraction(float(cell)) for cell in wide], object).reshape(shape))
        violated = violates(goal, list(exact.reshape(-1)))
        y = exact.astype(np.float64)
    else:
        ends = propagated(network, Box(wide, wide), False).boxes[network.output]
        least, most = ([Fraction(float(cell)) for cell in end] for end in ends)
        upper = {
            each: sum((factor * (most if factor > 0 else least)[place] for place, factor in each.terms), -each.bound)
            for each in goal.rows
        }
        violated = min(goal.margins(upper)) <= 0
        y = (0.5 * ends.lo + 0.5 * ends.hi).reshape(network.shape)
    return Counterexample(wide.reshape(shape), y) if violated else None


def violates(goal: Property, y: list[Fraction]) -> bool:
    """Whether an exact output violates a clause."""
    return bool(min(goal.margins({each: each.margin(y) for each in goal.rows})) <= 0)


def fractions_of(program: Program) -> Program:
    """The same program over exact fractions."""

    def exact(array: Array) -> Array:
        found = np.empty(array.size, object)
        found[:] = [Fraction(cell) for cell in array.reshape(-1).astype(np.float64).tolist()]
        return found.reshape(array.shape)

    calls = tuple(
        call._replace(arguments=tuple(a if isinstance(a, Value) else exact(a) for a in call.arguments))
        for call in program.calls
    )
    return program._replace(calls=calls)


def work(network: Network) -> int:
    """About how many multiply-adds an evaluation takes."""
    found = 0
    for node in network.nodes:
        found += len(getattr(node, "constant", ())) * getattr(node, "terms", 1) + getattr(node, "taps", np.empty(0)).size
    return found
