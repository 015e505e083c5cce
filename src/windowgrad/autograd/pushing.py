"""Forward mode: a value and how it moves, carried through every operator together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from windowgrad.autograd.steps import Step
from windowgrad.autograd.tracer import Tracer, check_constant
from windowgrad.dispatch import run, run_pushing
from windowgrad.params import Params
from windowgrad.spec.op import Op


class Pushed(Tracer):
    """value + tangent·ε of one differentiation. A tangent that is None is zero."""

    __slots__ = ("level", "tangent", "value")

    def __init__(self, level: int, value: Any, tangent: Any) -> None:
        self.level, self.value, self.tangent = level, value, tangent

    def __repr__(self) -> str:
        return f"Pushed({self.value!r}, {self.tangent!r})"

    def follow(self, op: Op, rule: str, params: Params, arrays: Sequence[Any], needs: Sequence[bool] | None = None) -> Any:
        for place, array in enumerate(arrays):
            if type(array) is not np.ndarray:
                check_constant(op, rule, arrays, place)
        values, tangents = zip(*(parts(array, self.level) for array in arrays), strict=True)
        if rule == "with_indices":
            y, index = run(op, rule, params, *values)
            return Pushed(self.level, y, Step(op, "forward", params).push(values, tangents)), index
        if rule != "vjp":
            if rule == "forward" and (found := run_pushing(op, params, *values, *tangents)) is not None:
                return Pushed(self.level, *found)
            step = Step(op, rule, params)
            return Pushed(self.level, step.run(values), step.push(values, tangents))
        needed = [True] * (len(values) - 1) if needs is None else needs
        steps = [Step(op, rule, params, place) if need else None for place, need in enumerate(needed)]
        found = run(op, rule, params, *values, needs=needed)
        return tuple(s and Pushed(self.level, y, s.push(values, tangents)) for s, y in zip(steps, found, strict=True))


def parts(array: Any, level: int) -> tuple[Any, Any]:
    """Value and tangent; what is not of this differentiation is a constant."""
    if isinstance(array, Pushed) and array.level == level:
        return array.value, array.tangent
    return array, None
