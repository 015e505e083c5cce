"""Maximum over a region. Padded cells are absent. Ties go by `ties`; NaN is the greatest value; no cell at all gives 0."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from windowgrad.geometry import Cell
from windowgrad.params import MaxParams
from windowgrad.spec import selection
from windowgrad.spec.op import Op
from windowgrad.spec.order import extreme
from windowgrad.spec.scalar import Array, cells, greater, zero_of


def winner(x: Array, taps: Iterable[Cell]) -> Cell | None:
    """The tap whose value is the greatest, the first in row-major order among equals; None if there is no tap."""
    return selection.winner(x, taps, greater, "max")


def value(x: Array, taps: Iterable[Cell]) -> Any:
    """The greatest value; 0 if there is no tap. Cells without a winner may have a maximum of their own."""
    among = [x[tap] for tap in taps]
    return extreme(among, greater, "max") if among else zero_of(x)


def forward(params: MaxParams, x: Any) -> Array:
    return selection.forward(params, x, value)


def with_indices(params: MaxParams, x: Any) -> tuple[Array, Array]:
    """The maximum, and the flat index of its first winner in the spatial plane (−1 if there is no cell)."""
    x = cells(x)
    return forward(params, x), selection.indices(params, x, winner)


def jvp(params: MaxParams, x: Any, dx: Any) -> Array:
    """The tangent at the winner; with several winners their sum ("all") or their mean ("split")."""
    return selection.jvp(params, x, dx, winner)


def vjp(params: MaxParams, x: Any, g: Any) -> tuple[Array]:
    """The gradient goes to the winner; with several winners all of it to each ("all") or an even part ("split")."""
    return selection.vjp(params, x, g, winner)


OP = Op(name="max_pool", params=MaxParams, forward=forward, jvp=jvp, vjp=vjp, with_indices=with_indices, exact=True)
