"""Minimum over a region. Padded cells are absent. Ties go by `ties`; NaN wins over every number; no cell at all gives 0."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from windowgrad.geometry import Cell
from windowgrad.params import MinParams
from windowgrad.spec import selection
from windowgrad.spec.op import Op
from windowgrad.spec.order import extreme
from windowgrad.spec.scalar import Array, cells, is_nan, zero_of


def less(a: Any, b: Any) -> bool:
    """The order of minimum: NaN comes before every number and equals NaN; −0.0 equals 0.0."""
    if is_nan(a) or is_nan(b):
        return is_nan(a) and not is_nan(b)
    return bool(b > a)


def winner(x: Array, taps: Iterable[Cell]) -> Cell | None:
    """The tap whose value is the least, the first in row-major order among equals; None if there is no tap."""
    return selection.winner(x, taps, less, "min")


def value(x: Array, taps: Iterable[Cell]) -> Any:
    """The least value; 0 if there is no tap. Cells without a winner may have a minimum of their own."""
    among = [x[tap] for tap in taps]
    return extreme(among, less, "min") if among else zero_of(x)


def forward(params: MinParams, x: Any) -> Array:
    return selection.forward(params, x, value)


def with_indices(params: MinParams, x: Any) -> tuple[Array, Array]:
    """The minimum, and the flat index of its first winner in the spatial plane (−1 if there is no cell)."""
    x = cells(x)
    return forward(params, x), selection.indices(params, x, winner)


def jvp(params: MinParams, x: Any, dx: Any) -> Array:
    """The tangent at the winner; with several winners their sum ("all") or their mean ("split")."""
    return selection.jvp(params, x, dx, winner)


def vjp(params: MinParams, x: Any, g: Any) -> tuple[Array]:
    """The gradient goes to the winner; with several winners all of it to each ("all") or an even part ("split")."""
    return selection.vjp(params, x, g, winner)


OP = Op(name="min_pool", params=MinParams, forward=forward, jvp=jvp, vjp=vjp, with_indices=with_indices, exact=True)
