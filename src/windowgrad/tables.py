"""Small tables for notebooks: what `_repr_html_` of results returns. All text is escaped."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape


def table(
    title: str,
    lines: Sequence[Sequence[str]],
    heads: Sequence[str] = (),
    total: Sequence[str] = (),
    right: Sequence[str] = (),
) -> str:
    """Lines under their heads, and a total; the columns whose heads are in `right` are numbers."""
    sides = ["right" if head in right else "left" for head in heads or [""] * len(lines[0])]
    body = "".join(_row("td", entries, sides) for entries in lines)
    head = f"<thead>{_row('th', heads, sides)}</thead>" if heads else ""
    foot = f"<tfoot>{_row('th', total, sides)}</tfoot>" if total else ""
    return f"<table><caption>{escape(title)}</caption>{head}<tbody>{body}</tbody>{foot}</table>"


def _row(tag: str, entries: Sequence[str], sides: Sequence[str]) -> str:
    cells = [f'<{tag} style="text-align: {side}">{escape(text)}</{tag}>' for text, side in zip(entries, sides, strict=True)]
    return f"<tr>{''.join(cells)}</tr>"


MOST = 5
"""How many clauses of a property are shown."""


def stated(clauses: Sequence[Sequence[object]]) -> list[tuple[str, str]]:
    """What is said of an output, a line for each clause: one of its inequalities holds."""
    lines = [("property", " or ".join(map(str, clause)) or "nothing") for clause in clauses[:MOST]]
    return lines + [("", f"and {len(clauses) - MOST} more")] * (len(clauses) > MOST)
