"""Flax: flax.linen.max_pool and avg_pool, which have the channels last."""

from __future__ import annotations

from typing import Any

from windowgrad.conform.adapter import arguments, first_reason
from windowgrad.conform.adapters.jax import NO_TIES, OnJax
from windowgrad.conform.case import Case


class Flax(OnJax):
    name, title, package, requires = "flax", "Flax", "flax", ("jax",)
    most = 120  # each is compiled by itself
    imports = f"from flax import linen as nn\n{OnJax.imports}"

    def supports(self, case: Case, check: str) -> str | None:
        return first_reason(
            (not case.is_windowed, "it has only max_pool and avg_pool of windows (convolution is JAX's)"),
            (check == "indices", "it gives no indices"),
            ("dilation" in case.features, "pooling has no dilation"),
            (case.ceil_mode, "pooling has no ceil mode"),
            (case.divisor is not None, "avg_pool has no divisor"),
            (case.ties != "first", NO_TIES),
        )

    def call(self, case: Case) -> str:
        options: dict[str, Any] = {"strides": case.stride, "padding": case.padding}
        options |= {"count_include_pad": case.count_include_pad} if case.op == "avg_pool" else {}
        pooled = f"nn.{case.op}(jnp.moveaxis(x, 1, -1), {case.kernel}{arguments(**options)})"
        return f"jnp.moveaxis({pooled}, -1, 1)"
