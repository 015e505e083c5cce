"""The table of a network, as plain text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Row:
    """One layer: where it stands, how it is written, and what it costs."""

    place: str
    layer: str
    out_shape: tuple[int, ...]
    parameters: int
    multiply_adds: int


def table(name: str, in_shape: tuple[int, ...], rows: Sequence[Row]) -> str:
    """Columns as wide as their widest entry; numbers to the right; no space at the end of a line."""
    lines = [("", "layer", "output shape", "parameters", "multiply-adds")]
    lines += [(r.place, r.layer, str(r.out_shape), f"{r.parameters:,}", f"{r.multiply_adds:,}") for r in rows]
    lines += [("", "total", "", f"{sum(r.parameters for r in rows):,}", f"{sum(r.multiply_adds for r in rows):,}")]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    text = [_line(entries, widths) for entries in lines]
    rule = "-" * max(map(len, text))
    return "\n".join([f"{name} on an input of shape {in_shape}", "", text[0], rule, *text[1:-1], rule, text[-1]])


def _line(entries: Sequence[str], widths: Sequence[int]) -> str:
    place, layer, shape, *numbers = entries
    left = [text.ljust(width) for text, width in zip((place, layer, shape), widths, strict=False)]
    right = [text.rjust(width) for text, width in zip(numbers, widths[3:], strict=True)]
    return "  ".join([*left, *right][0 if widths[0] else 1 :]).rstrip()
