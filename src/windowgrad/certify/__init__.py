"""Certified bounds: what a network cannot leave when its input stays in a box.

    lower, upper = certify.bounds((model, params), lo, hi)

`net` is a pair (model, params) of `nn`, a network loaded from a file, or any function of x that can be recorded. `lo` and `hi`
are the ends of a batch of boxes. Bounds hold for the network in real arithmetic over the stored weights (`arithmetic="real"`),
or for every evaluation in float32, whatever the order of its sums (`"float32"`); docs/certify.md says exactly what is covered.
"""

from __future__ import annotations

from time import perf_counter
from typing import Any

import numpy as np

from windowgrad.arguments import as_int, flag
from windowgrad.certify.boxes import propagated
from windowgrad.certify.cells import Box
from windowgrad.certify.linear import MEMORY, Analysis
from windowgrad.certify.nodes import Network
from windowgrad.certify.optimised import optimised
from windowgrad.certify.properties import Inequality, Property, label_stays
from windowgrad.certify.proving import Plan, Progress, Result, proved
from windowgrad.certify.rules import network_of
from windowgrad.certify.source import box_ends, recorded
from windowgrad.errors import KindError, OptionError, WindowError, show
from windowgrad.tables import table

__all__ = ["Inequality", "Property", "Result", "bounds", "label_stays", "prove"]

Array = np.ndarray[Any, Any]
MOST_SHOWN = 20
"""How many cells of an output a table of bounds has."""
METHODS = ("box", "linear", "optimised")
ARITHMETICS = ("real", "float32")


class Bounds(tuple[Array, Array]):
    """(lower, upper), which a notebook shows as a table."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        lower, upper = self
        places = list(np.ndindex(*lower.shape))
        lines = [(str(place), f"{lower[place]:.6g}", f"{upper[place]:.6g}") for place in places[:MOST_SHOWN]]
        more = len(places) - len(lines)
        lines += [(f"and {more:,} more", "", "")] * bool(more)
        return table(f"bounds {lower.shape}", lines, ("output", "lower", "upper"), right=("lower", "upper"))


def bounds(
    net: Any, lo: Array, hi: Array, *, method: str = "linear", arithmetic: str = "real", seconds: float | None = None
) -> Bounds:
    """(lower, upper): no input between `lo` and `hi` gives an output outside. Both are float64, for each box of the batch.

    Args:
        net: a pair (model, params), a loaded network, or a function of x.
        lo: the lower ends, the first axis counts the boxes.
        hi: the upper ends.
        method: "box" (intervals, fastest), "linear" (backward substitution) or "optimised" (tightest).
        arithmetic: "real", or "float32" for every evaluation in float32.
        seconds: how long "optimised" may take for all boxes; None: a fixed number of steps.

    >>> model = nn.Sequential(nn.Conv(2, (2,)), nn.MaxPool((2,)))
    >>> params = ({"weight": np.array([[[1.0, -1.0]], [[1.0, 1.0]]]), "bias": np.zeros(2)}, {})
    >>> certify.bounds((model, params), np.zeros((1, 1, 3)), np.ones((1, 1, 3)))
    (array([[[-0.5],
            [ 0. ]]]), array([[[1.],
            [2.]]]))
    """
    check_option("method", method, METHODS)
    check_option("arithmetic", arithmetic, ARITHMETICS)
    low, high = box_ends(lo, hi)
    nodes = network_of(recorded(net, (1, *low.shape[1:])))
    until = np.inf if seconds is None else perf_counter() + seconds
    given = [Box(a.reshape(-1), b.reshape(-1)) for a, b in zip(low, high, strict=True)]
    with np.errstate(all="ignore"):
        found = [one_box(nodes, box, method, arithmetic == "float32", until) for box in given]
    shape = (len(low), *nodes.shape[1:])
    lower, upper = (np.array([ends[side] for ends in found]).reshape(shape) for side in (0, 1))
    return Bounds((lower, upper))


def prove(
    net: Any,
    lo: Array,
    hi: Array,
    property: Property,  # noqa: A002  # what it is called
    *,
    method: str = "optimised",
    arithmetic: str = "real",
    seconds: float | None = None,
    attack: bool = True,
    split: bool = True,
    memory: int = MEMORY,
    progress: Progress | None = None,
) -> Result:
    """Whether a property of the output holds for every input between `lo` and `hi`.

    Args:
        net: a pair (model, params), a loaded network, or a function of x.
        lo: the lower ends of one box, with a batch axis of one.
        hi: the upper ends.
        property: what is to be proved, such as `label_stays(7, 10)`.
        method: "linear" (closed-form planes) or "optimised" (planes chosen for each inequality).
        arithmetic: "real", or "float32" for every evaluation in float32.
        seconds: the time limit; without one the box is not split.
        attack: search for a counterexample first.
        split: bisect the box while time is left.
        memory: the bytes that a block of rows may take.
        progress: called with the share of the volume that is proved and the number of boxes left, while boxes are split.

    Returns:
        A `Result` whose verdict is "holds", "violated" (with a confirmed counterexample) or "unknown" (with the best bounds).

    >>> model = nn.Sequential(nn.Linear(2))
    >>> params = ({"weight": np.array([[1.0, 0.0], [0.0, 1.0]]), "bias": np.zeros(2)},)
    >>> certify.prove((model, params), np.array([[2.0, 0.0]]), np.array([[3.0, 1.0]]), certify.label_stays(0, 2)).verdict
    'holds'
    """
    check_option("method", method, METHODS[1:])
    check_option("arithmetic", arithmetic, ARITHMETICS)
    if not isinstance(property, Property):
        raise KindError(f"property={show(property)}: must be a Property; see certify.label_stays and certify.vnnlib.read")
    if seconds is not None and not (isinstance(seconds, (int, float)) and seconds > 0):
        raise OptionError(f"seconds={show(seconds)}: must be a positive number, or None")
    low, high = box_ends(lo, hi)
    if len(low) != 1:
        raise WindowError(f"lo of shape {low.shape}: must be one box, with a first axis of 1")
    program = recorded(net, low.shape)
    plan = Plan(
        method, arithmetic == "float32", seconds, flag("attack", attack), flag("split", split), as_int("memory", memory, 1)
    )
    with np.errstate(all="ignore"):  # what overflows is refused by name
        return proved(program, network_of(program), Box(low.reshape(-1), high.reshape(-1)), property, plan, progress)


def one_box(nodes: Network, box: Box, method: str, floats: bool, until: float) -> tuple[Array, Array]:
    """Bounds of the output on one box."""
    interval = propagated(nodes, box, floats).boxes[nodes.output]
    if method == "box":
        return interval
    analysis = Analysis(nodes, box, floats)
    cells = len(interval.lo)
    rows = np.concatenate([np.eye(cells), -np.eye(cells)])
    if method == "linear":
        found = analysis.bound(rows, np.zeros(2 * cells))
    else:
        found, _ = optimised(analysis, rows, np.zeros(2 * cells), until=until)
    return np.fmax(found[:cells], interval.lo), np.fmin(-found[cells:], interval.hi)


def check_option(name: str, value: object, allowed: tuple[str, ...]) -> None:
    if not isinstance(value, str) or value not in allowed:
        raise OptionError(f"{name}={show(value)}: must be one of {', '.join(map(repr, allowed))}")
