"""windowgrad itself, on the arrays of each framework it has a bridge to."""

from __future__ import annotations

from windowgrad.conform.adapter import Adapter, arguments, arrays_of
from windowgrad.conform.adapters.jax import OnJax
from windowgrad.conform.adapters.torch import OnTorch
from windowgrad.conform.case import OPS, Case
from windowgrad.ops import FAMILIES, meaning

PARAMS = sorted({meaning(FAMILIES[name].operator).params.__name__ for name in OPS})


class OnNumPy(Adapter):
    name, title, package = "windowgrad", "windowgrad", "windowgrad"
    imports = "import windowgrad as wg"
    masks = True

    def supports(self, case: Case, check: str) -> str | None:
        return None

    def call(self, case: Case) -> str:
        if case.is_convolution:
            return f"wg.{case.op}({arrays_of(case)}{arguments(**case.arguments)})"
        given = dict(case.arguments)
        given |= {"divisor_override": given.pop("divisor")} if "divisor" in given else {}
        norm = f"{given.pop('norm_type')}, " if "norm_type" in given else ""
        first = given.pop("kernel", given.pop("output_size", case.rank))
        mask = "" if case.where is None else ", where=where"
        return f"wg.{case.op}(x, {norm}{first}{arguments(**given)}{mask})"

    def indices(self, case: Case) -> str:
        return f"{self.call(case)[:-1]}, return_indices=True)[1]"

    def gradient(self, case: Case) -> str:
        names = arrays_of(case)
        return f"y, pull = wg.vjp(lambda {names}: {self.call(case)}, {names})\ngot = pull(g)"

    def tangent(self, case: Case) -> str:
        names, tangents = arrays_of(case), ", ".join(case.tangents)
        return f"y, got = wg.jvp(lambda {names}: {self.call(case)}, ({names},), ({tangents},))"


class TorchTensors(OnTorch, OnNumPy):
    name, title = "windowgrad.torch", "windowgrad on PyTorch"
    imports = f"{OnTorch.imports}\n{OnNumPy.imports}"
    requires = ("torch",)


class JaxArrays(OnJax, OnNumPy):
    name, title = "windowgrad.jax", "windowgrad on JAX"
    imports = f"{OnNumPy.imports}\n{OnJax.imports}"
    requires = ("jax",)


class DaskArrays(OnNumPy):
    """In chunks of two cells along every axis. Derivatives are the rules themselves: Dask has none of its own."""

    name, title = "windowgrad.dask", "windowgrad on Dask"
    imports = (
        "from dataclasses import replace\n"
        "import dask.array as da\n"
        "from windowgrad.geometry import Adaptive, Global, Sliding\n"
        "from windowgrad.ops import OPS\n"
        f"from windowgrad.params import {', '.join(sorted(['Mask', *PARAMS]))}\n"
        f"{OnNumPy.imports}"
    )
    convert, requires = "da.from_array({}, chunks=2)", ("dask",)

    def params(self, case: Case) -> str:
        return repr(case.params) if case.where is None else f"replace({case.params!r}, where=Mask(where, lazy=True))"

    def gradient(self, case: Case) -> str:
        return f"got = OPS[{case.meaning.name!r}].vjp({self.params(case)}, {arrays_of(case)}, g)"

    def tangent(self, case: Case) -> str:
        tangents = ", ".join(case.tangents)
        return f"got = OPS[{case.meaning.name!r}].jvp({self.params(case)}, {arrays_of(case)}, {tangents})"
