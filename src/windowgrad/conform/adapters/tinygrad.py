"""tinygrad, on its Python device, which needs no compiler."""

from __future__ import annotations

from typing import Any

from windowgrad.conform.adapter import Adapter, arguments, arrays_of, first_reason
from windowgrad.conform.case import Case


class Tinygrad(Adapter):
    name, title, package = "tinygrad", "tinygrad", "tinygrad"
    most = 60  # each is compiled by itself, and interpreted
    imports = 'import os\n\nos.environ.setdefault("DEV", "PYTHON")\nfrom tinygrad import Tensor\n'
    convert = "Tensor({})"

    def supports(self, case: Case, check: str) -> str | None:
        return first_reason(
            (check == "tangent", "it has no forward mode"),
            (case.op.startswith("adaptive"), "it has no adaptive pooling"),
            (case.divisor is not None, "avg_pool2d has no divisor"),
            (case.ties != ("all" if case.op == "global_max_pool" else "first"), "it has no choice among ties"),
        )

    def call(self, case: Case) -> str:
        axes = tuple(range(-case.rank, 0))
        if case.op == "global_max_pool":
            return f"x.max({axes}, keepdim=True)"
        if case.op == "global_avg_pool":
            return f"x.mean({axes}, keepdim=True)"
        pads = tuple(side for pair in reversed(case.padding) for side in pair)
        options: dict[str, Any] = {"stride": case.stride, "dilation": case.dilation, "padding": pads}
        if case.reduction == "conv":
            options |= {"groups": case.groups}
            options |= {"output_padding": case.output_padding} if case.op == "conv_transpose" else {}
            more = ", ".join(name for name in case.arrays if name != "x")
            return f"x.{case.op}2d({more}{arguments(**options)})"
        options |= {"ceil_mode": case.ceil_mode}
        options |= {"count_include_pad": case.count_include_pad} if case.op == "avg_pool" else {}
        return f"x.{case.op}2d({case.kernel}{arguments(**options)})"

    def indices(self, case: Case) -> str:
        return f"{self.call(case)[:-1]}, return_indices=True)[1].numpy()"

    def gradient(self, case: Case) -> str:
        return f"y = {self.call(case)}\ngot = tuple(part.numpy() for part in y.gradient({arrays_of(case)}, gradient=g))"

    def program(self, case: Case, check: str) -> str:
        text = super().program(case, check)
        return text.rstrip("\n") + ".numpy()\n" if check == "forward" else text
