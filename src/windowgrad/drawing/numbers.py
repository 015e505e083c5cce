"""Numbers in the few characters that a drawing has for them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from windowgrad.errors import cut

MOST_TERMS = 12
"""How many terms of a sum are written."""


def digits(cell: Any, most: int = 4) -> str:
    """A number in a few characters; a fraction to so many digits, a whole number to a few more."""
    if isinstance(cell, bool):
        return "T" if cell else "F"
    if isinstance(cell, float):
        whole = cell.is_integer() and abs(cell) < 10**7
        cell = f"{cell:.{7 if whole else most}g}".replace("e+", "e")
    return str(cell).replace("-", "−")


def term(cell: Any) -> str:
    """A number in a formula."""
    return cut(digits(cell), 24)


def equals(value: Any, dtype: str) -> str:
    """`= 7`, or `≈ 0.333333` where digits are left out that numbers of this dtype have."""
    text = cut(digits(value, 6), 40)
    if not isinstance(value, float) or value != value:
        return f"= {text}"
    rounded = getattr(np, dtype, np.float64)(text.replace("−", "-"))
    return f"{'=' if rounded == value else '≈'} {text}"


def listed(terms: Sequence[str]) -> list[str]:
    """The terms, or the first and the last of many."""
    if len(terms) <= MOST_TERMS:
        return list(terms)
    return [*terms[: MOST_TERMS - 2], f"… {len(terms) - MOST_TERMS + 1} more …", terms[-1]]


def added(terms: Sequence[str]) -> str:
    """A sum as it is written: a term that begins with a minus is subtracted."""
    first, *rest = listed(terms)
    return first + "".join(f" − {text[1:]}" if text.startswith("−") else f" + {text}" for text in rest)
