"""Equinox: the pooling layers of eqx.nn, which take one sample, so a batch is jax.vmap."""

from __future__ import annotations

from windowgrad.conform.adapter import arguments, first_reason
from windowgrad.conform.adapters.jax import NO_TIES, OnJax
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
            (case.op not in LAYERS, "it has windows and adaptive pooling (convolution is JAX's)"),
            (case.rank > 3, "it pools one to three axes"),
            (check == "indices", "it gives no indices"),
            ("dilation" in case.features, "pooling has no dilation"),
            (case.op == "avg_pool" and not case.count_include_pad, "AvgPool counts the padding"),
            (case.divisor is not None, "AvgPool has no divisor"),
            (case.ties != "first", NO_TIES),
            (case.group == "empty batch", "a layer takes one sample"),
        )

    def call(self, case: Case) -> str:
        layer = f"eqx.nn.{LAYERS[case.op]}{case.rank}d"
        if case.op.startswith("adaptive"):
            return f"jax.vmap({layer}({case.output_size}))(x)"
        options = arguments(stride=case.stride, padding=case.padding, use_ceil=case.ceil_mode)
        return f"jax.vmap({layer}({case.kernel}{options}))(x)"
