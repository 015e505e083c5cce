"""JAX's own windowed operations, and what every adapter on top of JAX shares."""

from __future__ import annotations

import math
from typing import Any

from windowgrad.conform.adapter import NO_SUCH, NO_TIES, Adapter, arguments, arrays_of, first_reason
from windowgrad.conform.case import Case

NAMES = {
    "max_pool": "lax.max",
    "avg_pool": "lax.add",
    "global_max_pool": "jnp.max",
    "global_avg_pool": "jnp.mean",
    "global_lp_pool": "jnp.linalg.vector_norm",
    "conv": "lax.conv_general_dilated",
    "conv_transpose": "lax.conv_transpose",
}
"""Functions of whole planes and of two arrays, and what lax.reduce_window reduces windows by."""


class OnJax(Adapter):
    """Derivatives by jax.vjp and jax.jvp."""

    imports = "import jax\nimport jax.numpy as jnp\nfrom jax import lax"
    convert = "jnp.asarray({})"

    def program(self, case: Case, check: str) -> str:
        """With 64-bit types if the case has them; otherwise as JAX comes."""
        before, arrays, after = super().program(case, check).partition("\nx = ")
        return f'{before}\njax.config.update("jax_enable_x64", {case.x.dtype.itemsize == 8}){arrays}{after}'

    def gradient(self, case: Case) -> str:
        names = arrays_of(case)
        return f"y, pull = jax.vjp(lambda {names}: {self.call(case)}, {names})\ngot = pull(g)"

    def tangent(self, case: Case) -> str:
        names, tangents = arrays_of(case), ", ".join(case.tangents)
        return f"y, got = jax.jvp(lambda {names}: {self.call(case)}, ({names},), ({tangents},))"


class Lax(OnJax):
    name, title, package, masks = "jax", "JAX", "jax", True
    most = 200  # each is compiled by itself

    def supports(self, case: Case, check: str) -> str | None:
        counted = case.count_include_pad and "padding" in case.features
        return first_reason(
            (check == "indices", "reduce_window gives no indices"),
            (case.windows == "adaptive", "it has no adaptive pooling"),
            (case.op not in NAMES, NO_SUCH),
            (case.where is not None and case.windows != "global", "reduce_window has no mask"),
            (case.where is not None and case.is_norm, "vector_norm has no mask"),
            (case.ceil_mode, "reduce_window has no ceil mode"),
            (not case.has_usual_ties, NO_TIES),
            (
                case.is_mean and case.is_windowed and not counted and case.divisor is None and case.group == "empty windows",
                "a mean is written by the user",
            ),
            (case.is_transposed and case.groups > 1, "lax.conv_transpose has no groups"),
        )

    def call(self, case: Case) -> str:
        name = NAMES[case.op]
        if case.windows == "global":
            norm = f", ord={case.norm_type}" if case.is_norm else ""
            start = f", initial={lowest(case)}" if case.where is not None and case.has_winners else ""
            mask = "" if case.where is None else f"{start}, where=where"
            return f"{name}(x, axis={tuple(range(-case.rank, 0))}, keepdims=True{norm}{mask})"
        if case.is_windowed and not case.is_mean:
            return self.window(case, "x", lowest(case), name)
        if case.is_windowed:
            total = self.window(case, "x", "0", name)
            if case.divisor or case.count_include_pad:
                return f"{total} / {case.divisor or math.prod(case.kernel)}"
            return f"{total} / {self.window(case, 'jnp.ones_like(x)', '0', name)}"
        bias = f" + bias.reshape(-1{', 1' * case.rank})" if "bias" in case.arrays else ""
        if case.is_transposed:
            return f"{transposed(case)}{bias}"
        options = arguments(rhs_dilation=case.dilation, feature_group_count=case.groups)
        return f"{name}(x, weight, {case.stride}, {case.padding}{options}){bias}"

    def window(self, case: Case, x: str, start: str, reduce: str) -> str:
        """lax.reduce_window; the first two axes are left alone."""
        sizes: dict[str, Any] = {"window_dimensions": (1, 1, *case.kernel), "window_strides": (1, 1, *case.stride)}
        sizes |= {"padding": ((0, 0), (0, 0), *case.padding)}
        sizes |= {"window_dilation": (1, 1, *case.dilation)} if "dilation" in case.features else {}
        return f"lax.reduce_window({x}, np.array({start}, x.dtype), {reduce}{arguments(**sizes)})"


def lowest(case: Case) -> str:
    """What a maximum starts from."""
    return {"f": "-np.inf", "b": "False"}.get(case.x.dtype.kind, f"np.iinfo(np.{case.dtype}).min")


def transposed(case: Case) -> str:
    """lax.conv_transpose pads the input spread out, so that a kernel reaches over its edges."""
    reach = [d * (k - 1) for k, d in zip(case.kernel, case.dilation, strict=True)]
    pads = tuple((r - lo, r - hi + extra) for r, (lo, hi), extra in zip(reach, case.padding, case.output_padding, strict=True))
    letters = "DHW"[3 - case.rank :]
    numbers = (f"NC{letters}", f"OI{letters}", f"NC{letters}")
    options = arguments(rhs_dilation=case.dilation, dimension_numbers=numbers, transpose_kernel=True)
    return f"lax.conv_transpose(x, weight, {case.stride}, {pads}{options})"
