"""tinygrad, on its Python device, which needs no compiler."""

from __future__ import annotations

from typing import Any

from windowgrad.conform.adapter import NO_SUCH, NO_TIES, Adapter, arguments, arrays_of, first_reason
from windowgrad.conform.case import Case

NAMES = {
    "max_pool": "max_pool2d",
    "avg_pool": "avg_pool2d",
    "global_max_pool": "max",
    "global_avg_pool": "mean",
    "conv": "conv2d",
    "conv_transpose": "conv_transpose2d",
}


class Tinygrad(Adapter):
    name, title, package = "tinygrad", "tinygrad", "tinygrad"
    most = 60  # each is compiled by itself, and interpreted
    imports = 'import os\n\nos.environ.setdefault("DEV", "PYTHON")\nfrom tinygrad import Tensor\n'
    convert = "Tensor({})"

    def supports(self, case: Case, check: str) -> str | None:
        return first_reason(
            (check == "tangent", "it has no forward mode"),
            (case.windows == "adaptive", "it has no adaptive pooling"),
            (case.op not in NAMES, NO_SUCH),
            (case.divisor is not None, "avg_pool2d has no divisor"),
            (not case.has_usual_ties, NO_TIES),
        )

    def call(self, case: Case) -> str:
        call = f"x.{NAMES[case.op]}"
        if case.windows == "global":
            return f"{call}({tuple(range(-case.rank, 0))}, keepdim=True)"
        pads = tuple(side for pair in reversed(case.padding) for side in pair)
        options: dict[str, Any] = {"stride": case.stride, "dilation": case.dilation, "padding": pads}
        if case.is_convolution:
            options |= {"groups": case.groups}
            options |= {"output_padding": case.output_padding} if case.is_transposed else {}
            more = ", ".join(name for name in case.arrays if name != "x")
            return f"{call}({more}{arguments(**options)})"
        options |= {"ceil_mode": case.ceil_mode}
        options |= {"count_include_pad": case.count_include_pad} if case.is_mean else {}
        return f"{call}({case.kernel}{arguments(**options)})"

    def indices(self, case: Case) -> str:
        return f"{self.call(case)[:-1]}, return_indices=True)[1].numpy()"

    def gradient(self, case: Case) -> str:
        return f"y = {self.call(case)}\ngot = tuple(part.numpy() for part in y.gradient({arrays_of(case)}, gradient=g))"

    def program(self, case: Case, check: str) -> str:
        text = super().program(case, check)
        return text.rstrip("\n") + ".numpy()\n" if check == "forward" else text
