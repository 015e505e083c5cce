"""A case read back from the data of a report, and what its answers mean cell by cell."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

from windowgrad.conform.case import Array, Case
from windowgrad.conform.expected import expected, wrong_places
from windowgrad.geometry import place_of

Place = tuple[int, ...]


def case_of(data: dict[str, Any]) -> Case:
    """The case that `Case.as_json` wrote."""
    arrays = {name: array_of(found, data["dtype"]) for name, found in data["arrays"].items()}
    given = {name: tuples(value) for name, value in data["arguments"].items()}
    if "weight" in arrays:
        given["kernel"] = tuple(arrays["weight"].shape[2:])
    if "where" in data:
        given["where"] = array_of(data["where"], "bool")
    return Case(data["op"], arrays, **given)


def array_of(found: dict[str, Any], dtype: str) -> Array:
    cells = [float(cell) if isinstance(cell, str) else cell for cell in flat(found["cells"])]
    return np.array(cells, dtype=dtype).reshape(found["shape"])


def tuples(value: Any) -> Any:
    return tuple(map(tuples, value)) if isinstance(value, (list, tuple)) else value


def flat(cells: Any) -> list[Any]:
    return [cell for part in cells for cell in flat(part)] if isinstance(cells, list) else [cells]


def shape_of(cells: Any) -> Place:
    """The shape of nested lists; an empty list is an axis of length 0, and hides those after it."""
    return (len(cells), *(shape_of(cells[0]) if cells else ())) if isinstance(cells, list) else ()


def at(cells: Any, place: Place) -> Any:
    for index in place:
        cells = cells[index]
    return cells


def differing(case: Case, check: str, right: Any, got: Any) -> set[Place]:
    """The places of an answer whose cells are not what they should be; none if the shapes differ already."""
    shape = shape_of(right)
    if got is None or shape_of(got) != shape:
        return set()
    kind = np.dtype(case.dtype if case.x.dtype.kind == "f" else np.float64)
    return set(wrong_places(case, check, as_objects(right, shape, exact), as_objects(got, shape, number), kind))


def as_objects(cells: Any, shape: Place, kind: Callable[[Any], Any]) -> Array:
    found = np.empty(shape, dtype=object)
    for place in itertools.product(*map(range, shape)):
        found[place] = kind(at(cells, place))
    return found


def number(cell: Any) -> Any:
    return float(cell) if isinstance(cell, str) else cell


def exact(cell: Any) -> Any:
    """A cell of the specification's answer: a fraction, or a float that is none."""
    return float(cell) if cell in ("nan", "inf", "-inf") else Fraction(cell)


def winners(case: Case) -> dict[Place, list[Place]]:
    """Of each output that has a winner the cells of its plane that win by the specification: the first, or all equals."""
    if not case.has_winners or not case.x.size:
        return {}
    first = expected(case, "indices")["indices"]
    found = {}
    for place in np.ndindex(*first.shape):
        index = int(first[place])
        plane = case.x[place[:2]]
        found[place] = [] if index < 0 else equals(case, place, plane, index)
    return found


def equals(case: Case, place: Place, plane: Array, index: int) -> list[Place]:
    winner = place_of(index, plane.shape)
    if case.ties == "first":
        return [winner]
    best = plane[winner]
    taps = [tap for tap in case.geometry.taps(place[2:], case.spatial) if case.there[place[:2] + tap]]
    return [tap for tap in taps if plane[tap] == best or (plane[tap] != plane[tap] and best != best)]
