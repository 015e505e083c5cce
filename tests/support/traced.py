"""A recorder in forty lines: an array that notes what made it, and gradients that are recorded too."""

from __future__ import annotations

from typing import Any

import numpy as np

from windowgrad import dispatch
from windowgrad.autograd.arrays import add
from windowgrad.spec import Op


class Traced:
    """An array, and the operator and inputs it comes from."""

    __array_ufunc__ = None

    def __init__(self, value: Any, made_by: tuple[Op, Any, tuple[Any, ...]] | None = None) -> None:
        self.value, self.made_by = np.asarray(value), made_by
        self.shape, self.dtype, self.ndim = self.value.shape, self.value.dtype, self.value.ndim

    def __windowgrad__(self, op: Op, rule: str, params: Any, arrays: Any) -> Traced:
        assert rule == "forward", "derivatives are made of forward rules"
        plain = [a.value if isinstance(a, Traced) else a for a in arrays]
        assert all(type(a) is np.ndarray for a in plain)
        return Traced(dispatch.run(op, "forward", params, *plain), (op, params, tuple(arrays)))


def gradients(y: Traced, *xs: Traced) -> list[Any]:
    """The gradients of a scalar in `xs`, traced themselves; None where it does not depend on one."""
    found: dict[int, Any] = {id(y): Traced(np.ones_like(y.value))}
    for node in reversed(in_order(y)):
        g = found.get(id(node))
        if g is None or node.made_by is None:
            continue
        op, params, arrays = node.made_by
        for array, part in zip(arrays, op.vjp(params, *arrays, g), strict=True):
            if isinstance(array, Traced) and part is not None:
                found[id(array)] = add(found[id(array)], part) if id(array) in found else part
    return [found.get(id(x)) for x in xs]


def in_order(y: Traced) -> list[Traced]:
    """Everything that y is made of, inputs before what is made of them."""
    seen: set[int] = set()
    order: list[Traced] = []

    def visit(node: Traced) -> None:
        if id(node) not in seen:
            seen.add(id(node))
            for array in node.made_by[2] if node.made_by else ():
                if isinstance(array, Traced):
                    visit(array)
            order.append(node)

    visit(y)
    return order
