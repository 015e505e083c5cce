"""Numbers in the few characters that a drawing has for them."""

from __future__ import annotations

from typing import Any


def digits(cell: Any, most: int = 4) -> str:
    """A number in a few characters; a fraction to so many digits, a whole number to a few more."""
    if isinstance(cell, bool):
        return "T" if cell else "F"
    if isinstance(cell, float):
        whole = cell.is_integer() and abs(cell) < 10**7
        cell = f"{cell:.{7 if whole else most}g}".replace("e+", "e")
    return str(cell).replace("-", "−")
