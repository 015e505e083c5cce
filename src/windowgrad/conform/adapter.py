"""Adapters: an implementation is checked by a generated program that computes a case with its own functions.

The program that is run is the one that is shown as a reproduction. `Adapter` writes most of it; an adapter of your own says
what to import, which arguments the documentation has, and how the call is written.

An adapter has a table of the implementation's own names, by those of our functions. What is not in it, the implementation
does not have, so a new operator is unsupported until somebody writes its name there.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import metadata
from typing import Any, Protocol, runtime_checkable

import numpy as np

from windowgrad.conform.case import Array, Case


@runtime_checkable
class Implementation(Protocol):
    """The protocol of an adapter: what `conform` needs to know of an implementation."""

    @property
    def name(self) -> str:
        """Its name on the command line."""

    @property
    def title(self) -> str:
        """Its name in reports."""

    @property
    def package(self) -> str:
        """The distribution whose version is reported; without it the implementation is not installed."""

    @property
    def requires(self) -> tuple[str, ...]:
        """Other distributions that must be installed too."""

    @property
    def imports(self) -> str:
        """The lines that import it; they are run before the first case."""

    @property
    def most(self) -> int | None:
        """The most checks to run, for an implementation that is slow; None for all."""

    def supports(self, case: Case, check: str) -> str | None:
        """None, or the reason why the implementation does not support this according to its own documentation."""

    def call(self, case: Case) -> str:
        """The expression that computes y from x (and weight, bias)."""

    def program(self, case: Case, check: str) -> str:
        """A complete Python program that leaves the answer in `got`: an array, or a tuple with one gradient per array."""


@runtime_checkable
class Together(Implementation, Protocol):
    """One that is much quicker if it computes several cases in one program."""

    @property
    def at_once(self) -> int:
        """How many."""

    def together(self, cases: Sequence[Case], check: str) -> str:
        """A text that leaves a list in `got`: for each case what `program` leaves, or None: ask it by itself."""


@runtime_checkable
class Masking(Implementation, Protocol):
    """One that is asked cases with a mask too; no other is, so that `supports` need not know of masks."""

    @property
    def masks(self) -> bool:
        """Whether its calls may have `where`, an array of bool that the program then defines."""


class Adapter:
    """Base class of adapters: NumPy arrays in, a call, an array out."""

    name: str = ""
    title: str = ""
    package: str = ""
    requires: tuple[str, ...] = ()
    imports: str = ""
    most: int | None = None
    masks: bool = False
    convert: str = "{}"
    """The expression that converts a NumPy array to one of the implementation."""

    def supports(self, case: Case, check: str) -> str | None:
        """None, or why the implementation does not have this; a base class has values only, no derivatives."""
        return None if check == "forward" else f"it gives no {check}"

    def call(self, case: Case) -> str:
        """The expression that computes y from x (and weight, bias)."""
        raise NotImplementedError

    def indices(self, case: Case) -> str:
        """The expression of the index of each winner in its plane."""
        raise NotImplementedError

    def gradient(self, case: Case) -> str:
        """The lines that leave in `got` the gradient of each array, where g is the gradient of y."""
        raise NotImplementedError

    def tangent(self, case: Case) -> str:
        """The lines that leave in `got` the tangent of y along dx (and dweight, dbias)."""
        raise NotImplementedError

    def program(self, case: Case, check: str) -> str:
        """The whole program, made of all others; it leaves the answer in `got`."""
        arrays = case.arrays | ({} if case.where is None else {"where": case.where})
        arrays |= {"g": case.gradient} if check == "gradient" else case.tangents if check == "tangent" else {}
        lines = ["import numpy as np", *(["from numpy import inf, nan"] if has_words(arrays) else []), self.imports, ""]
        lines += [f"{name} = {self.convert.format(literal(array))}" for name, array in arrays.items()]
        lines.append(
            {
                "forward": lambda: f"got = {self.call(case)}",
                "indices": lambda: f"got = {self.indices(case)}",
                "gradient": lambda: self.gradient(case),
                "tangent": lambda: self.tangent(case),
            }[check]()
        )
        return "\n".join(lines) + "\n"


def version(adapter: Implementation) -> str | None:
    """The installed version, or None if it or something it needs is not installed."""
    try:
        found = [metadata.version(package) for package in (adapter.package, *adapter.requires)]
    except metadata.PackageNotFoundError:
        return None
    return found[0]


def script(program: str, right: str) -> str:
    """The program with two lines more, which print what the specification says and what the implementation gives."""
    return f'{program}\nprint("expected:", {right!r})\nprint("got:     ", got)\n'


# --- words of a program ------------------------------------------------------------------------------------------


def literal(array: Array) -> str:
    """The array as NumPy code."""
    if not array.size:
        return f"np.zeros({array.shape}, dtype=np.{array.dtype.name.replace('bool', 'bool_')})"
    return f"np.array({nested(array.tolist())}, dtype=np.{array.dtype.name.replace('bool', 'bool_')})"


def nested(cells: Any) -> str:
    return f"[{', '.join(map(nested, cells))}]" if isinstance(cells, list) else tidy(cells)


def tidy(cell: Any) -> str:
    return str(int(cell)) if isinstance(cell, float) and cell.is_integer() and abs(cell) < 2**53 else str(cell)


def has_words(arrays: dict[str, Array]) -> bool:
    return any(not np.isfinite(array.astype(np.float64)).all() for array in arrays.values())


def arguments(**given: Any) -> str:
    """Keyword arguments as they are written in a call."""
    return "".join(f", {name}={value!r}" for name, value in given.items())


def arrays_of(case: Case) -> str:
    """x, weight, bias: those that the case has."""
    return ", ".join(case.arrays)


def sides(case: Case) -> tuple[int, ...] | None:
    """The padding as one number per axis, where both sides are equal."""
    return None if "uneven padding" in case.features else tuple(lo for lo, _ in case.padding)


def is_same(case: Case) -> bool:
    """Whether the padding is what "SAME" makes of the sizes: as many outputs as strides fit, an odd cell after."""
    spans = [d * (k - 1) + 1 for k, d in zip(case.kernel, case.dilation, strict=True)]
    totals = [max(0, (-(-n // s) - 1) * s + span - n) for n, s, span in zip(case.spatial, case.stride, spans, strict=True)]
    return case.padding == tuple((total // 2, total - total // 2) for total in totals)


NO_SUCH = "it has no such operator"
NO_TIES = "it has no choice among ties"
NO_MASKS = "it has no masks"


def first_reason(*reasons: tuple[bool, str]) -> str | None:
    """The first reason whose condition is true, or None."""
    return next((why for holds, why in reasons if holds), None)
