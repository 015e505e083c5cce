"""How the ratios of many rows are distributed: the median, the slow end, and which row is the worst."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median

import numpy as np
from report import Row, times
from rich.console import RenderableType
from rich.table import Table


def summary(rows: list[Row], peers: tuple[str, ...]) -> Iterator[RenderableType]:
    """Per operator and rule, and over all: against the first of the peers, and against the fastest in each row."""
    allocators = tuple(rows[0].settings)
    several = any(len(row.times.keys() & set(peers)) > 1 for row in rows)
    for peer in (peers[0], None) if several else (None,):
        shown = Table(title=f"times as fast as {peer or 'the fastest peer'}, by allocator", title_justify="left")
        shown.add_column("rows")
        for heading in ("number", *(f"{a}: {what}" for a in allocators for what in ("median", "10th %", "worst", "faster"))):
            shown.add_column(heading.replace(": ", ":\n"), justify="right", no_wrap=True)
        for name, chosen in groups(rows).items():
            if cells := [cell for allocator in allocators for cell in found(chosen, peer, allocator)]:
                shown.add_row(name, str(sum(row.over(peer) is not None for row in chosen)), *cells)
        yield shown
        yield "\n".join(worst(rows, peer, allocators))


def groups(rows: list[Row]) -> dict[str, list[Row]]:
    kinds: dict[str, list[Row]] = {}
    for row in rows:
        described = row.case.described()
        for kind in (f"{described['op']} {described['rule']}", f"all {described['rule']}", "all"):
            kinds.setdefault(kind, []).append(row)
    return dict(sorted(kinds.items(), key=lambda entry: (entry[0].startswith("all"), entry[0] == "all")))


def found(rows: list[Row], peer: str | None, allocator: str) -> list[str]:
    ratios = [ratio for row in rows if (ratio := row.over(peer, allocator)) is not None]
    if not ratios:
        return []
    faster = sum(ratio > 1 for ratio in ratios) / len(ratios)
    return [times(median(ratios)), times(float(np.percentile(ratios, 10))), times(min(ratios)), f"{faster:.0%}"]


def worst(rows: list[Row], peer: str | None, allocators: tuple[str, ...]) -> Iterator[str]:
    """The slowest row of each operator and rule by name, with its ratio under each setting."""
    yield f"slowest beside {peer or 'the fastest peer'}:"
    for name, chosen in groups(rows).items():
        compared = [row for row in chosen if row.over(peer) is not None]
        if compared and not name.startswith("all"):
            row = min(compared, key=lambda row: row.over(peer) or 0.0)
            yield f"  {', '.join(f'{times(row.over(peer, a))} {a}' for a in allocators)}: {row.case.name}"
