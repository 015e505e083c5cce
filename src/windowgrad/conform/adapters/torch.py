"""PyTorch: torch.nn.functional, eager and compiled."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from windowgrad.conform.adapter import NO_SUCH, NO_TIES, Adapter, arguments, arrays_of, first_reason, literal, sides
from windowgrad.conform.case import Case

NAMES = {
    "max_pool": "F.max_pool{}d",
    "avg_pool": "F.avg_pool{}d",
    "adaptive_max_pool": "F.adaptive_max_pool{}d",
    "adaptive_avg_pool": "F.adaptive_avg_pool{}d",
    "global_max_pool": "torch.amax",
    "global_avg_pool": "torch.mean",
    "conv": "F.conv{}d",
    "conv_transpose": "F.conv_transpose{}d",
}
"""The function of so many axes."""


class OnTorch(Adapter):
    """Derivatives by torch.autograd and torch.func.jvp."""

    imports = "import torch\nimport torch.nn.functional as F"
    convert = "torch.from_numpy({})"

    def gradient(self, case: Case) -> str:
        needed = "\n".join(f"{name}.requires_grad_()" for name in case.arrays)
        return f"{needed}\ny = {self.call(case)}\ngot = torch.autograd.grad(y, ({arrays_of(case)},), g)"

    def tangent(self, case: Case) -> str:
        primals, tangents = arrays_of(case), ", ".join(case.tangents)
        return f"y, got = torch.func.jvp(lambda {primals}: {self.call(case)}, ({primals},), ({tangents},))"


class Torch(OnTorch):
    name, title, package = "torch", "PyTorch", "torch"

    def supports(self, case: Case, check: str) -> str | None:
        return first_reason(
            (case.op not in NAMES, NO_SUCH),
            (case.rank > 3, "it pools and convolves one to three axes"),
            ("uneven padding" in case.features, "padding is one number per axis"),
            (case.is_mean and "dilation" in case.features, "avg_pool has no dilation"),
            (case.is_mean and case.rank == 1 and case.divisor is not None, "avg_pool1d has no divisor_override"),
            (not case.has_usual_ties, NO_TIES),
            (case.is_windowed and case.dtype == "bool", "it has no max pooling of bool"),
        )

    def call(self, case: Case) -> str:
        name, window = NAMES[case.op].format(case.rank), {"stride": case.stride, "padding": sides(case)}
        if case.windows == "global":
            return f"{name}(x, {tuple(range(-case.rank, 0))}, keepdim=True)"
        if case.windows == "adaptive":
            return f"{name}(x, {case.output_size})"
        if case.is_windowed:
            options: dict[str, Any] = {} if case.is_mean else {"dilation": case.dilation}
            options |= {"ceil_mode": case.ceil_mode}
            options |= {"count_include_pad": case.count_include_pad} if case.is_mean else {}
            options |= {} if case.divisor is None else {"divisor_override": case.divisor}
            return f"{name}(x, {case.kernel}{arguments(**window, **options)})"
        extra = {"output_padding": case.output_padding} if case.is_transposed else {}
        return f"{name}({arrays_of(case)}{arguments(**window, **extra, groups=case.groups, dilation=case.dilation)})"

    def indices(self, case: Case) -> str:
        return f"{self.call(case)[:-1]}, return_indices=True)[1]"


class Compiled(Torch):
    """Several functions are compiled as one graph: the C++ compiler takes seconds for each program, however short."""

    name, title = "torch.compile", "torch.compile"
    most = 100
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
