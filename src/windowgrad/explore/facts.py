"""What the page knows of other implementations: the known differences that its settings can meet, as plain data."""

from __future__ import annotations

from fnmatch import fnmatch
from typing import Any

from windowgrad.conform.adapters import ADAPTERS
from windowgrad.conform.case import CHECKS, LARGE, OPS
from windowgrad.conform.known import Known, load

DTYPES = {"jax": ("float32",), "onnx": ("float32",), "onnxruntime": ("float32",), "torch": ("float64",)}
"""The dtype of the program that the page shows; without one, a difference counts if it is there in both."""
BOTH = ("float32", "float64")
FEATURES = frozenset(
    (
        "padding",
        "uneven padding",
        "padding differs by axis",
        "padding over half",
        "padding over dilated half",
        "padding or a stride of ceil mode over kernel",
        "dilation",
        "stride",
        "stride one",
        "ceil mode",
        "overhang",
        "kernel beyond input",
        "divisor",
        "without padding in the count",
        "output padding",
        "window of -inf",
        "bias",
        "more bins than cells",
    )
)
"""The words of `Case.features` that notes.js can tell of a state; it has one channel of floats, and no mask."""
NEVER = frozenset(
    (
        "torch-mean-kernels",  # integers and float16
        "onnx-max-pads-refused",  # as onnx-max-pads-dropped
        "onnx-transposed-output-padding",  # a program that the page does not show: it says so itself
        "onnxruntime-transposed-output-padding",
        "onnxruntime-pads",
    )
)
"""Entries that cover more questions than they are about, and of which the page knows better."""


def facts() -> dict[str, Any]:
    """The data of the page."""
    return {"known": [entry for known in load() for entry in entries(known)]}


def entries(known: Known) -> list[dict[str, Any]]:
    """One entry for each implementation that it is about; none if it cannot be decided from a state."""
    ops = [op for op in OPS if not known.ops or any(fnmatch(op, name) for name in known.ops)]
    decided = FEATURES.issuperset(known.features) and known.id not in NEVER and "empty batch" not in known.groups
    if not decided or not ops:
        return []
    return [
        {
            "id": known.id,
            "name": adapter.name,
            "title": adapter.title,
            "kind": known.kind,
            "what": known.what,
            "reference": known.reference,
            "versions": known.versions,
            "checks": list(known.checks or CHECKS),
            "ops": ops,
            "groups": list(known.groups),
            "ranks": list(known.ranks),
            "features": list(known.features),
            "without": list(known.without),
            "large": LARGE["float32"] if dtypes_of(adapter.name) == ("float32",) else None,
        }
        for adapter in ADAPTERS
        if fnmatch(adapter.name, known.implementation) and covers(known, dtypes_of(adapter.name))
    ]


def dtypes_of(name: str) -> tuple[str, ...]:
    return DTYPES.get(name, BOTH)


def covers(known: Known, dtypes: tuple[str, ...]) -> bool:
    return not known.dtypes or all(any(fnmatch(dtype, name) for name in known.dtypes) for dtype in dtypes)
