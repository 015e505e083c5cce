"""The table of a network: as plain text, and as what a notebook shows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from windowgrad.tables import table

NUMBERS = ("parameters", "multiply-adds")
HEADS = ("", "layer", "output shape", *NUMBERS)


@dataclass(frozen=True)
class Row:
    """One layer: where it stands, how it is written, and what it costs."""

    place: str
    layer: str
    out_shape: tuple[int, ...]
    parameters: int
    multiply_adds: int


class Table(NamedTuple):
    """Every line has an entry for each of the heads; the total is empty if nothing is counted."""

    title: str
    heads: Sequence[str]
    lines: Sequence[Sequence[str]]
    total: Sequence[str] = ()

    def text(self) -> str:
        """Columns as wide as their widest entry; numbers to the right; no space at the end of a line."""
        every = [self.heads, *self.lines, self.total]
        widths = [max(map(len, column)) for column in zip(*every, strict=True)]
        text = [_line(entries, widths) for entries in every]
        rule = "-" * max(map(len, text))
        return "\n".join([self.title, "", text[0], rule, *text[1:-1], rule, text[-1]])

    def html(self) -> str:
        return table(self.title, self.lines, self.heads, self.total, NUMBERS)


class Summary(str):
    """The table as text, to be printed; a notebook shows it as a table."""

    __slots__ = ("table",)
    table: Table

    def __new__(cls, table: Table) -> Summary:
        made = super().__new__(cls, table.text())
        made.table = table
        return made

    def __reduce__(self) -> tuple[type[Summary], tuple[Table]]:
        return Summary, (self.table,)

    def _repr_html_(self) -> str:
        return self.table.html()


def summed(name: str, in_shape: tuple[int, ...], rows: Sequence[Row]) -> Summary:
    """The table of a network on an input of this shape."""
    lines = [(r.place, r.layer, str(r.out_shape), f"{r.parameters:,}", f"{r.multiply_adds:,}") for r in rows]
    total = ("", "total", "", f"{sum(r.parameters for r in rows):,}", f"{sum(r.multiply_adds for r in rows):,}")
    return Summary(Table(f"{name} on an input of shape {in_shape}", HEADS, lines, total))


def listed(name: str, lines: Sequence[tuple[str, str]]) -> Table:
    """The layers alone, (place, layer), where no input is known."""
    return Table(name, HEADS[:2], lines)


def _line(entries: Sequence[str], widths: Sequence[int]) -> str:
    place, layer, shape, *numbers = entries
    left = [text.ljust(width) for text, width in zip((place, layer, shape), widths, strict=False)]
    right = [text.rjust(width) for text, width in zip(numbers, widths[3:], strict=True)]
    return "  ".join([*left, *right][0 if widths[0] else 1 :]).rstrip()
