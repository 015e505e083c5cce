"""Flax: flax.linen.max_pool and avg_pool, which have the channels last."""

from __future__ import annotations

from typing import Any

from windowgrad.conform.adapter import NO_SUCH, NO_TIES, arguments, first_reason
from windowgrad.conform.adapters.jax import OnJax
from windowgrad.conform.case import Case

NAMES = {"max_pool": "max_pool", "avg_pool": "avg_pool"}


class Flax(OnJax):
    name, title, package, requires = "flax", "Flax", "flax", ("jax",)
    most = 120  # each is compiled by itself
    imports = f"from flax import linen as nn\n{OnJax.imports}"

    def supports(self, case: Case, check: str) -> str | None:
        return first_reason(
            (not case.is_windowed, "it has only max_pool and avg_pool of windows (convolution is JAX's)"),
            (case.op not in NAMES, NO_SUCH),
            (check == "indices", "it gives no indices"),
            ("dilation" in case.features, "pooling has no dilation"),
            (case.ceil_mode, "pooling has no ceil mode"),
            (case.divisor is not None, "avg_pool has no divisor"),
            (not case.has_usual_ties, NO_TIES),
        )

    def call(self, case: Case) -> str:
        options: dict[str, Any] = {"strides": case.stride, "padding": case.padding}
        options |= {"count_include_pad": case.count_include_pad} if case.is_mean else {}
        pooled = f"nn.{NAMES[case.op]}(jnp.moveaxis(x, 1, -1), {case.kernel}{arguments(**options)})"
        return f"jnp.moveaxis({pooled}, -1, 1)"
