"""What is asked on the command line, an operator and the size of its input, and the geometry that answers it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from windowgrad.arguments import axes, counted, ints
from windowgrad.errors import OptionError, WindowError
from windowgrad.facts import Windows
from windowgrad.geometry import Adaptive, Geometry, Global, Sliding, named_padding, sliding
from windowgrad.ops import FAMILIES
from windowgrad.params import TransposeParams


@dataclass(frozen=True)
class Question:
    """One operator on one input size, as asked on the command line."""

    operator: str
    spatial: tuple[int, ...]
    kernel: Any = None
    stride: Any = None
    padding: Any = 0
    dilation: Any = 1
    ceil_mode: bool = False
    output_size: Any = None
    output_padding: Any = 0


@dataclass(frozen=True)
class Answer:
    """The geometry, the grid of panels to draw, and the sizes of the cells drawn in each."""

    geometry: Geometry
    grid: tuple[int, ...]
    cells: tuple[int, ...]
    out: tuple[int, ...]
    subject: str = "output"


def answer(q: Question) -> Answer:
    """The geometry of the question, checked as the function itself would."""
    windows, rank = windows_of(q.operator), len(q.spatial)
    if q.operator[-1] == "d" and q.operator[-2] != str(rank):
        size = "x".join(map(str, q.spatial))
        raise WindowError(f"input={size}: has {counted('axis', rank)}, {q.operator} takes {q.operator[-2]}")
    if windows == "global":
        return _pooled(Global(rank), q.spatial)
    if windows == "adaptive":
        if q.output_size is None:
            raise OptionError(f"--output-size is missing: {q.operator} needs it, for example --output-size 7")
        sizes: Any = axes("output_size", q.output_size, rank)
        return _pooled(Adaptive(sizes), q.spatial)
    if q.kernel is None:
        raise OptionError(f"--kernel is missing: {q.operator} needs it, for example --kernel 3")
    kernel = ints("kernel_size", q.kernel, rank)
    if windows == "sliding":
        return _pooled(sliding(kernel, q.stride, q.padding, q.dilation, q.ceil_mode), q.spatial)
    stride = 1 if q.stride is None else q.stride
    padding: Any = named_padding(q.padding, kernel, stride, q.dilation)
    window = Sliding(kernel, stride, padding, q.dilation)
    if windows == "convolution":
        return _pooled(window, q.spatial)
    extra = TransposeParams(window, 1, q.output_padding).output_padding
    out = window.adjoint(ints("input", q.spatial), extra)
    return Answer(window, q.spatial, out, out, subject="input")


def windows_of(operator: str) -> Windows:
    """The kind of windows that a public function has, by its name, with or without a rank."""
    family = FAMILIES.get(operator[:-2] if operator.endswith(("1d", "2d", "3d")) else operator)
    if family is None:
        pools = ", ".join(family.name for family in FAMILIES.values() if family.windows == "sliding")
        others = " or ".join(f.name for f in FAMILIES.values() if f.windows in ("convolution", "transposed"))
        raise OptionError(
            f"operator={operator!r}: must be {pools}, one of these with the prefix adaptive_ or global_, "
            f"{others}, with or without 1d, 2d, 3d"
        )
    return family.windows


def _pooled(geometry: Geometry, spatial: tuple[int, ...]) -> Answer:
    out = geometry.out_shape(spatial)
    return Answer(geometry, out, spatial, out)
