"""PyTorch's functions, compiled by torch.compile."""

from __future__ import annotations

from collections.abc import Sequence

from windowgrad.conform.adapter import arrays_of, literal
from windowgrad.conform.adapters.torch import Torch
from windowgrad.conform.case import Case


class Compiled(Torch):
    """Several functions are compiled as one graph: the C++ compiler takes seconds for each program, however short."""

    name, title = "torch.compile", "torch.compile"
    most, masks = 100, False
    at_once = 24

    def supports(self, case: Case, check: str) -> str | None:
        return super().supports(case, check) or ("a compiled function has no forward mode" if check == "tangent" else None)

    def program(self, case: Case, check: str) -> str:
        names, whole = arrays_of(case), self.indices(case) if check == "indices" else self.call(case)
        text = super().program(case, check)
        return text.replace(whole, f"torch.compile(lambda {names}: {whole}, dynamic=False)({names})")

    def together(self, cases: Sequence[Case], check: str) -> str:
        lines = ["import numpy as np", "from numpy import inf, nan", self.imports, "", "asked = []"]
        for case in cases:
            function = f"lambda {arrays_of(case)}: {self.indices(case) if check == 'indices' else self.call(case)}"
            arrays = ", ".join(self.convert.format(literal(array)) for array in case.arrays.values())
            gradient = self.convert.format(literal(case.gradient)) if check == "gradient" else None
            lines.append(f"asked.append(({function}, ({arrays},), {gradient}))")
        return "\n".join(lines) + TOGETHER


TOGETHER = """
def gradients(outputs, chosen):
    arrays = [array for _, inputs, _ in chosen for array in inputs]
    found = iter(torch.autograd.grad(outputs, arrays, [g for _, _, g in chosen]))
    return [tuple(next(found) for _ in inputs) for _, inputs, _ in chosen]


def runs(function, inputs, g):
    try:
        outputs = [function(*inputs)]
        if g is not None:
            gradients(outputs, [(function, inputs, g)])
    except Exception:
        return False  # what eager PyTorch refuses is compiled by itself
    return True


for _, inputs, g in asked:
    for array in inputs if g is not None else ():
        array.requires_grad_()
places = [place for place, each in enumerate(asked) if runs(*each)]
chosen = [asked[place] for place in places]
got = [None] * len(asked)
if chosen:
    functions = [function for function, _, _ in chosen]
    compiled = torch.compile(lambda arrays: [f(*a) for f, a in zip(functions, arrays)], dynamic=False)
    outputs = compiled([inputs for _, inputs, _ in chosen])
    for place, answer in zip(places, gradients(outputs, chosen) if chosen[0][2] is not None else outputs):
        got[place] = answer
"""
