"""PyTorch: torch.nn.functional."""

from __future__ import annotations

from typing import Any

from windowgrad.conform.adapter import NO_SUCH, NO_TIES, Adapter, arguments, arrays_of, first_reason, sides
from windowgrad.conform.case import Case

NAMES = {
    "max_pool": "F.max_pool{}d",
    "avg_pool": "F.avg_pool{}d",
    "adaptive_max_pool": "F.adaptive_max_pool{}d",
    "adaptive_avg_pool": "F.adaptive_avg_pool{}d",
    "global_max_pool": "torch.amax",
    "global_avg_pool": "torch.mean",
    "lp_pool": "F.lp_pool{}d",
    "global_lp_pool": "torch.linalg.vector_norm",
    "conv": "F.conv{}d",
    "conv_transpose": "F.conv_transpose{}d",
}
"""The function of so many axes."""
MASKED = {
    "global_max_pool": "torch.masked.amax",
    "global_avg_pool": "torch.masked.mean",
    "global_lp_pool": "torch.masked.norm",
}
"""The function with a mask."""


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
    name, title, package, masks = "torch", "PyTorch", "torch", True

    def supports(self, case: Case, check: str) -> str | None:
        return first_reason(
            (case.op not in NAMES, NO_SUCH),
            (case.rank > 3, "it pools and convolves one to three axes"),
            ("uneven padding" in case.features, "padding is one number per axis"),
            (case.is_mean and "dilation" in case.features, "avg_pool has no dilation"),
            (case.where is not None and case.op not in MASKED, "only reductions of whole axes have masks"),
            (case.is_norm and bool(case.features & {"padding", "dilation"}), "lp_pool has neither padding nor dilation"),
            (case.is_mean and case.rank == 1 and case.divisor is not None, "avg_pool1d has no divisor_override"),
            (not case.has_usual_ties, NO_TIES),
            (case.is_windowed and case.dtype == "bool", "it has no max pooling of bool"),
        )

    def call(self, case: Case) -> str:
        name, window = NAMES[case.op].format(case.rank), {"stride": case.stride, "padding": sides(case)}
        norm = f"{case.norm_type}, " if case.is_norm else ""
        if case.windows == "global":
            name, mask = (name, "") if case.where is None else (MASKED[case.op], ", mask=where")
            return f"{name}(x, {norm}{tuple(range(-case.rank, 0))}, keepdim=True{mask})"
        if case.windows == "adaptive":
            return f"{name}(x, {case.output_size})"
        if case.is_norm:
            kernel, stride = (case.kernel[0], case.stride[0]) if case.rank == 1 else (case.kernel, case.stride)
            return f"{name}(x, {norm}{kernel}{arguments(stride=stride, ceil_mode=case.ceil_mode)})"
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
