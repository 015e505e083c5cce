"""What the specification says: over fractions, or over floats where a cell is NaN or infinite."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from windowgrad.conform.answers import Answer
from windowgrad.conform.case import Array, Case, plain
from windowgrad.dispatch import result_dtype

ROUNDINGS = 4
"""A quotient may be off by a few roundings, as where it is a product with a reciprocal; a difference of meaning is greater."""


@dataclass(frozen=True)
class Difference:
    """The first array of an answer that is not what it should be, and in what: its shape, its cells or its dtype."""

    what: str
    output: str
    expected: Any
    got: Any
    expected_text: str
    got_text: str


def expected(case: Case, check: str) -> dict[str, Array]:
    """The right answer, by the name of each array in it."""
    arrays = list(map(scalars(case), case.arrays.values()))
    op, params = case.meaning, case.params
    if check == "forward":
        return {"y": op.forward(params, *arrays)}
    if check == "indices":
        assert op.with_indices is not None  # only operators that have winners are asked for indices
        return {"indices": op.with_indices(params, *arrays)[1]}
    if check == "gradient":
        pulled = op.vjp(params, *arrays, scalars(case)(case.gradient))
        return {f"gradient of {name}": part for name, part in zip(case.arrays, pulled, strict=True)}
    return {"tangent": op.jvp(params, *arrays, *map(scalars(case), case.tangents.values()))}


def scalars(case: Case) -> Any:
    """What turns an array into one of exact numbers."""
    finite = all(np.isfinite(array.astype(np.float64)).all() for array in case.arrays.values())
    kind = (lambda cell: Fraction(cell if isinstance(cell, float) else int(cell))) if finite else float
    return lambda array: (
        np.frompyfunc(lambda cell: kind(cell.item()), 1, 1)(as_items(array)).astype(object).reshape(array.shape)
    )


def as_items(array: Array) -> Array:
    """The cells as NumPy's own scalars, in an array of objects."""
    items = np.empty(array.shape, dtype=object)
    for place in np.ndindex(*array.shape):
        items[place] = array[place]
    return items


def compared(case: Case, check: str, right: dict[str, Array], got: list[Answer]) -> Difference | None:
    """The first difference, or None."""
    if len(got) != len(right):
        return Difference("shape", "answer", len(right), None, f"{len(right)} arrays", f"{len(got)} arrays")
    roundings = ROUNDINGS if case.is_mean or case.ties == "split" else 0
    kind = str(result_dtype(case.meaning, [array.dtype for array in case.arrays.values()]))
    for (name, wanted), answer in zip(right.items(), got, strict=True):
        found = answer.cells
        if answer.odd:
            return Difference("dtype", name, plain(wanted), None, "int64" if check == "indices" else kind, answer.odd)
        if wanted.shape != answer.shape or found is None:
            shapes = f"shape {wanted.shape}", f"shape {answer.shape}"
            return Difference("shape", name, plain(wanted), None if found is None else plain(found), *shapes)
        wrong = [place for place in np.ndindex(*wanted.shape) if not equal(wanted[place], found[place], found.dtype, roundings)]
        if wrong:
            at = f" at {wrong[0]}" if wanted.ndim else ""
            texts = (f"{shown(array[wrong[0]])}{at}" for array in (wanted, found))
            return Difference("value", name, plain(wanted), plain(found), *texts)
        if check == "forward" and kind != answer.dtype:
            return Difference("dtype", name, plain(wanted), plain(found), kind, answer.dtype)
    return None


def equal(right: Any, got: Any, dtype: np.dtype[Any], roundings: int) -> bool:
    """Whether a cell is the exact number; NaN equals NaN, and a quotient may be a few roundings away."""
    got = got.item()
    if isinstance(got, float) and not math.isfinite(got):
        return bool((math.isnan(got) and right != right) or got == right)
    if right != right or (isinstance(right, float) and math.isinf(right)):
        return False
    room = abs(Fraction(right)) * Fraction(float(np.finfo(dtype).eps)) * roundings if dtype.kind == "f" else 0
    return abs(Fraction(got) - Fraction(right)) <= room


def shown(cell: Any) -> str:
    return f"{float(cell):g}" if not isinstance(cell, Fraction) or cell.denominator > 10**4 else str(cell)


def shown_all(right: dict[str, Array]) -> str:
    """An answer in words, as a reproduction prints it."""
    parts = [f"{name} {np.array2string(words(array), separator=', ', formatter={'all': str})}" for name, array in right.items()]
    return ", ".join(parts)


def words(array: Array) -> Array:
    return np.frompyfunc(shown, 1, 1)(array) if array.size else array
