"""The gradient of the trained network once more, in numbers that do not round."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal, localcontext
from fractions import Fraction
from typing import Any

import numpy as np
import optree

import windowgrad as wg
from windowgrad.demo.digits import Digits
from windowgrad.demo.network import CLASSES, network

DIGITS = 40
"""Of decimals, where a smooth maximum has an exp and fractions have none."""


@dataclass(frozen=True)
class Check:
    """How far the gradients are apart at most, beside the largest of them, and how many they are."""

    numbers: str
    apart: float
    largest: float
    count: int


def check(pool: str, params: Any, learned: Digits, images: int = 2) -> Check:
    """The gradient of the squared error on a few images, in float32 and in fractions, by the same function and tape.

    A float32 is a fraction, so both start from the same numbers.
    """
    model = network(pool)
    x, wanted = learned.images[:images], np.eye(CLASSES, dtype=np.float32)[learned.labels[:images]]

    def gradient(params: Any, x: Any, wanted: Any) -> list[Any]:
        return leaves(wg.grad(lambda params: wg.mse(model(params, x), wanted))(params))

    kind: Any = Decimal if pool == "smooth" else Fraction
    with localcontext(prec=DIGITS):
        exact = gradient(*map(each(kind), (params, x, wanted)))
        rounded = gradient(params, x, wanted)
        apart = max(abs(kind(float(a)) - b) for a, b in zip(rounded, exact, strict=True))
        largest = max(map(abs, exact))
    return Check(
        f"decimals of {DIGITS} digits" if pool == "smooth" else "exact fractions", float(apart), float(largest), len(exact)
    )


def each(kind: Callable[[float], Any]) -> Callable[[Any], Any]:
    """From nested arrays to the same with each cell made a `kind`."""
    cells = np.frompyfunc(lambda cell: kind(float(cell)), 1, 1)
    return lambda tree: optree.tree_map(cells, tree)


def leaves(tree: Any) -> list[Any]:
    """Every number of a nested value."""
    return [cell for array in optree.tree_leaves(tree) for cell in array.flat]
