"""What the specification says: over fractions, or over floats where a cell is NaN or infinite.

A p-norm is rarely a fraction: it is computed over decimals of many digits, and rounded once to a float.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from decimal import Decimal, localcontext
from fractions import Fraction
from typing import Any

import numpy as np

from windowgrad.conform.answers import Answer
from windowgrad.conform.case import Array, Case, plain
from windowgrad.dispatch import result_dtype

ROUNDINGS = 4
"""A quotient may be off by a few roundings, as where it is a product with a reciprocal; a difference of meaning is greater."""
NORM_ROUNDINGS = 16
"""Of a p-norm, which is made of powers, a sum and a root, and of its derivatives, which have powers of quotients."""
DIGITS = 40


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
    if not case.is_norm or not is_finite(case):
        return computed(case, check, Fraction if is_finite(case) else float)
    with localcontext(prec=DIGITS):
        found = computed(case, check, Decimal)
    return {name: each(float, array) for name, array in found.items()}


def computed(case: Case, check: str, kind: type) -> dict[str, Array]:
    """The answer of the specification over scalars of a kind."""

    def scalars(array: Array) -> Array:
        return each(lambda cell: kind(cell.item() if isinstance(cell.item(), float) else int(cell)), as_items(array))

    arrays = list(map(scalars, case.arrays.values()))
    op, params = case.meaning, case.params
    if check == "forward":
        return {"y": op.forward(params, *arrays)}
    if check == "indices":
        assert op.with_indices is not None  # only operators that have winners are asked for indices
        return {"indices": op.with_indices(params, *arrays)[1]}
    if check == "gradient":
        pulled = op.vjp(params, *arrays, scalars(case.gradient))
        return {f"gradient of {name}": part for name, part in zip(case.arrays, pulled, strict=True)}
    return {"tangent": op.jvp(params, *arrays, *map(scalars, case.tangents.values()))}


def is_finite(case: Case) -> bool:
    return all(np.isfinite(array.astype(np.float64)).all() for array in case.arrays.values())


def each(function: Any, array: Array) -> Array:
    """The function of every cell, as objects."""
    found: Array = np.frompyfunc(function, 1, 1)(array).astype(object).reshape(array.shape)
    return found


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
    kind = str(result_dtype(case.meaning, [array.dtype for array in case.arrays.values()]))
    for (name, wanted), answer in zip(right.items(), got, strict=True):
        found = answer.cells
        if answer.odd:
            return Difference("dtype", name, plain(wanted), None, "int64" if check == "indices" else kind, answer.odd)
        if wanted.shape != answer.shape or found is None:
            shapes = f"shape {wanted.shape}", f"shape {answer.shape}"
            return Difference("shape", name, plain(wanted), None if found is None else plain(found), *shapes)
        wrong = wrong_places(case, check, wanted, found, found.dtype)
        if wrong:
            at = f" at {wrong[0]}" if wanted.ndim else ""
            texts = (f"{shown(array[wrong[0]])}{at}" for array in (wanted, found))
            return Difference("value", name, plain(wanted), plain(found), *texts)
        if check == "forward" and kind != answer.dtype:
            return Difference("dtype", name, plain(wanted), plain(found), kind, answer.dtype)
    return None


def wrong_places(case: Case, check: str, right: Array, got: Array, dtype: np.dtype[Any]) -> list[tuple[int, ...]]:
    """Where an answer of some dtype is not the right one."""
    roundings = NORM_ROUNDINGS if case.is_norm else ROUNDINGS if case.is_mean or case.ties == "split" else 0
    wrong = [place for place in np.ndindex(*right.shape) if not equal(right[place], got[place], dtype, roundings)]
    if wrong and case.is_norm and check in ("gradient", "tangent"):
        sizes = magnitudes(case, check)
        return [place for place in wrong if not equal(right[place], got[place], dtype, roundings, sizes[place])]
    return wrong


def magnitudes(case: Case, check: str) -> Array:
    """The derivative of a p-norm with no sign in it: the sum of what is added, whose rounding may be all that cancels leave."""
    (found,) = computed(replace(case, arrays={"x": np.abs(case.x)}), check, float).values()
    return found


def equal(right: Any, got: Any, dtype: np.dtype[Any], roundings: int, size: Any = None) -> bool:
    """Whether a cell is the exact number, or so many roundings of it (or of `size`) away; NaN equals NaN."""
    got = got.item() if isinstance(got, np.generic) else got
    if isinstance(got, float) and not math.isfinite(got):
        return bool((math.isnan(got) and right != right) or got == right)
    if right != right or (isinstance(right, float) and math.isinf(right)):
        return False
    size = right if size is None or not math.isfinite(size) else size
    room = abs(Fraction(size)) * Fraction(float(np.finfo(dtype).eps)) * roundings if dtype.kind == "f" else 0
    return abs(Fraction(got) - Fraction(right)) <= room


def shown(cell: Any) -> str:
    return f"{float(cell):g}" if not isinstance(cell, Fraction) or cell.denominator > 10**4 else str(cell)


def shown_all(right: dict[str, Array]) -> str:
    """An answer in words, as a reproduction prints it."""
    parts = [f"{name} {np.array2string(words(array), separator=', ', formatter={'all': str})}" for name, array in right.items()]
    return ", ".join(parts)


def words(array: Array) -> Array:
    return np.frompyfunc(shown, 1, 1)(array) if array.size else array
