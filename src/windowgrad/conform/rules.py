"""Which rule of docs/semantics.md a check is about."""

from __future__ import annotations

from windowgrad.conform.case import Case
from windowgrad.facts import Windows

RULES = {
    "1. Size": "#1-size",
    "2. Padding and max": "#2-padding-and-max",
    "3. Empty window": "#3-empty-window",
    "4. Ties": "#4-ties",
    "5. NaN": "#5-nan",
    "6. Mean": "#6-mean",
    "8. Types and error": "#8-types-and-error",
    "9. Empty batch": "#9-empty-batch",
    "Adaptive pooling": "#rules-for-calls",
    "Indices": "#rules-for-calls",
    "Masks": "#masks",
    "p-norm": "#p-norm",
    "Convolution": "#convolution",
    "Transposed convolution": "#transposed-convolution",
}
"""The title of each rule, and where it stands on the page."""

OF_WINDOWS: dict[Windows, str] = {"convolution": "Convolution", "transposed": "Transposed convolution"}
OF_GROUP = {"empty batch": "9. Empty batch", "empty windows": "3. Empty window", "NaN": "5. NaN", "large": "8. Types and error"}


def rule_of(case: Case, check: str, kind: str = "agrees", what: str = "") -> str:
    """The rule that a check of this case is about; after a difference, the rule that it breaks."""
    if what == "shape":
        return "1. Size"
    if what == "dtype" or (kind == "refuses" and case.x.dtype.kind != "f"):
        return "8. Types and error"
    if kind == "refuses" and case.is_windowed and case.features & {"padding over half", "kernel beyond input"}:
        return "1. Size"
    if case.where is not None:
        return "Masks"
    if case.group in OF_GROUP:
        return OF_GROUP[case.group]
    if case.windows in OF_WINDOWS:
        return OF_WINDOWS[case.windows]
    if case.has_winners and case.group == "tied" and check != "forward":
        return "4. Ties"
    if check == "indices":
        return "Indices"
    if case.windows == "adaptive" and not case.is_norm:
        return "Adaptive pooling"
    return "6. Mean" if case.is_mean else "p-norm" if case.is_norm else "2. Padding and max"
