"""An operator is one record: its name, its three rules, and what is true of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from windowgrad.facts import Facts
from windowgrad.params import Params


@dataclass(frozen=True, eq=False)  # a record is itself and nothing else: it stands in the keys of caches
class Op:
    """`forward(params, *xs) -> y`, `jvp(params, *xs, *dxs) -> dy`, `vjp(params, *xs, g) -> (gx, …)`, one per input."""

    name: str
    params: type[Params]
    forward: Callable[..., Any]
    jvp: Callable[..., Any]
    vjp: Callable[..., tuple[Any, ...]]
    exact: bool
    """It needs no more than + − × ÷ and comparison, so fractions stay fractions."""
    linear: bool = False
    """It is linear in its first input (and, if it has a weight, bilinear with it)."""
    inputs: tuple[str, ...] = ("x",)
    optional: int = 0
    """How many of the last inputs may be left out."""
    with_indices: Callable[..., tuple[Any, Any]] | None = None
    """`(params, x) -> (y, the flat index of each winner in its plane, −1 where there is none)`."""
    curve: Callable[..., Any] | None = None
    """`(rules, params, xs, dxs, exs) -> D²f(x)[dx, ex]`: the derivative of the jvp in x along `exs`. None: it is 0."""
    curve_back: Callable[..., tuple[Any, ...]] | None = None
    """`(rules, params, xs, dxs, g) -> ∇ₓ⟨g, J(x)·dx⟩`, one per input: the adjoint of `curve` in `exs`. None: it is 0.

    Both are written with the rules of `rules`, the same operator on arrays of any kind, so they can be differentiated again.
    `curve_back` may also take `needs`: which of its gradients are wanted. Those that are not may be None.
    """
    native: bool = False
    """Its rules are written for arrays of any kind, machine numbers included; it has no kernel."""
    composed: Callable[..., Any] | None = None
    """`(params, *xs) -> y`: the forward rule written with other operators, for arrays that are computed piece by piece."""
    label: str = ""
    """The name it is called by, such as max_pool2d."""
    facts: Facts | None = None
    """What the table of operators says of it besides its meaning, its kernels among them. None: it is in no table."""
