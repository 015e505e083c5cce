"""Keras with its JAX backend: keras.ops, channels first."""

from __future__ import annotations

from windowgrad.conform.adapter import NO_SUCH, NO_TIES, arguments, first_reason, is_same
from windowgrad.conform.adapters.jax import OnJax
from windowgrad.conform.case import Case

NAMES = {
    "max_pool": "max_pool",
    "avg_pool": "average_pool",
    "adaptive_max_pool": "adaptive_max_pool",
    "adaptive_avg_pool": "adaptive_average_pool",
    "global_max_pool": "GlobalMaxPooling",
    "global_avg_pool": "GlobalAveragePooling",
    "conv": "conv",
}


class Keras(OnJax):
    name, title, package, requires = "keras", "Keras (JAX)", "keras", ("jax",)
    most = 100  # each is compiled by itself
    imports = f'import os\n\nos.environ["KERAS_BACKEND"] = "jax"\nimport keras\n{OnJax.imports}'

    def supports(self, case: Case, check: str) -> str | None:
        padded = "padding" in case.features
        return first_reason(
            (check == "indices", "it gives no indices"),
            (case.is_transposed, 'its transposed convolution has a padding of its own ("valid" or "same")'),
            (case.op not in NAMES, NO_SUCH),
            (padded and not is_same(case), 'padding is "valid" or "same"'),
            (case.ceil_mode, "pooling has no ceil mode"),
            (not case.is_convolution and "dilation" in case.features, "pooling has no dilation"),
            ("dilation" in case.features and "stride" in case.features, "strides and dilation_rate exclude each other"),
            (case.is_mean and padded and case.count_include_pad, "its documentation does not say whether padding is counted"),
            (case.divisor is not None, "average_pool has no divisor"),
            (not case.has_usual_ties, NO_TIES),
            (case.windows == "adaptive" and case.rank != 2, "adaptive pooling takes a tensor of rank 4"),
        )

    def call(self, case: Case) -> str:
        name, order = NAMES[case.op], {"data_format": "channels_first"}
        if case.windows == "global":
            return f"keras.layers.{name}{case.rank}D(data_format='channels_first', keepdims=True, dtype=x.dtype.name)(x)"
        if case.windows == "adaptive":
            return f"keras.ops.{name}(x, {case.output_size}{arguments(**order)})"
        options = {"strides": case.stride, "padding": "same" if "padding" in case.features else "valid", **order}
        if case.is_convolution:
            bias = f" + bias.reshape(-1{', 1' * case.rank})" if "bias" in case.arrays else ""
            kernel = f"weight.transpose({(*range(2, case.rank + 2), 1, 0)})"
            return f"keras.ops.{name}(x, {kernel}{arguments(**options, dilation_rate=case.dilation)}){bias}"
        return f"keras.ops.{name}(x, {case.kernel}{arguments(**options)})"
