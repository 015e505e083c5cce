"""Equinox: the pooling layers of eqx.nn, which take one sample, so a batch is jax.vmap."""

from __future__ import annotations

from windowgrad.conform.adapter import NO_SUCH, NO_TIES, arguments, first_reason
from windowgrad.conform.adapters.jax import OnJax
from windowgrad.conform.case import Case

LAYERS = {
    "max_pool": "MaxPool",
    "avg_pool": "AvgPool",
    "adaptive_max_pool": "AdaptiveMaxPool",
    "adaptive_avg_pool": "AdaptiveAvgPool",
}


class Equinox(OnJax):
    name, title, package, requires = "equinox", "Equinox", "equinox", ("jax",)
    imports = f"import equinox as eqx\n{OnJax.imports}"
    most = 90  # a map over the batch of a bin at a time compiles slowly

    def supports(self, case: Case, check: str) -> str | None:
        return first_reason(
            (case.windows not in ("sliding", "adaptive"), "it has windows and adaptive pooling (convolution is JAX's)"),
            (case.op not in LAYERS, NO_SUCH),
            (case.rank > 3, "it pools one to three axes"),
            (check == "indices", "it gives no indices"),
            ("dilation" in case.features, "pooling has no dilation"),
            (not case.count_include_pad, "AvgPool counts the padding"),
            (case.divisor is not None, "AvgPool has no divisor"),
            (not case.has_usual_ties, NO_TIES),
            (case.group == "empty batch", "a layer takes one sample"),
        )

    def call(self, case: Case) -> str:
        layer = f"eqx.nn.{LAYERS[case.op]}{case.rank}d"
        if case.windows == "adaptive":
            return f"jax.vmap({layer}({case.output_size}))(x)"
        options = arguments(stride=case.stride, padding=case.padding, use_ceil=case.ceil_mode)
        return f"jax.vmap({layer}({case.kernel}{options}))(x)"
