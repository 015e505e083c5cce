"""What is shown of the measurements: lines and a table. Where the benchmarks differ stands in their View."""

from __future__ import annotations

import math
import os
import platform
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import date
from importlib.metadata import version
from pathlib import Path
from typing import Any, Protocol

from allocators import DEFAULT, WARM
from rich.table import Table

OURS, FLOOR = "windowgrad", "floor"


class Case(Protocol):
    """What is measured. In the plot those of one `group` and `rule` are one line."""

    @property
    def rule(self) -> str: ...

    @property
    def name(self) -> str: ...

    @property
    def group(self) -> str: ...

    def described(self) -> dict[str, Any]:
        """For the JSON file."""


@dataclass(frozen=True)
class Row:
    """`settings`: by allocator, the seconds of ours, of each peer and of the floor. `work`: bytes to move, or operations."""

    case: Case
    settings: dict[str, dict[str, float]]
    work: int

    @property
    def times(self) -> dict[str, float]:
        """What is shown where there is room for one: kernels beside kernels, without the page faults of the default."""
        return self.settings.get(WARM) or self.settings[DEFAULT]

    @property
    def peers(self) -> list[str]:
        return [name for name in self.times if name not in (OURS, FLOOR)]

    @property
    def fastest(self) -> str | None:
        return fastest(self.times)

    @property
    def speedup(self) -> float | None:
        """The time of the fastest peer by ours; all of a row hold the data in the same layout."""
        return self.over()

    def over(self, peer: str | None = None, allocator: str | None = None) -> float | None:
        """The time of a peer, or of the fastest, by ours; None where it was not measured."""
        times = self.times if allocator is None else self.settings.get(allocator, {})
        peer = fastest(times) if peer is None else peer
        return times[peer] / times[OURS] if peer in times else None

    @property
    def over_floor(self) -> float:
        return self.times[OURS] / self.times[FLOOR]


def fastest(times: dict[str, float]) -> str | None:
    return min(times.keys() - {OURS, FLOOR}, key=times.__getitem__, default=None)


@dataclass(frozen=True)
class View:
    """How one benchmark shows its rows."""

    title: str
    times: tuple[str, ...]  # the columns of milliseconds
    columns: dict[str, Callable[[Row], str]]  # those after them
    work: str  # what the work counts
    packages: tuple[str, ...]  # whose versions matter


def milliseconds(seconds: float | None) -> str:
    return "-" if seconds is None else f"{seconds * 1e3:.3g}" if seconds < 0.9995 else f"{seconds * 1e3:.0f}"


def times(ratio: float | None) -> str:
    return "-" if ratio is None else f"{ratio:.2f}×" if ratio < 9.995 else f"{ratio:.3g}×" if ratio < 999.5 else f"{ratio:.0f}×"


def speedup(allocator: str) -> Callable[[Row], str]:
    """How many times faster than the fastest peer under this allocator; red where the peer is faster."""

    def cell(row: Row) -> str:
        ratio = row.over(allocator=allocator)
        return f"[red]{times(ratio)}[/red]" if ratio is not None and ratio < 1 else times(ratio)

    return cell


SPEEDUPS = {f"speed-up, {allocator}": speedup(allocator) for allocator in (WARM, DEFAULT)}


def threads_text(threads: int) -> str:
    return f"{threads} threads" if threads > 1 else "1 thread, CPU time"


def shown_allocator(rows: list[Row]) -> str:
    return WARM if WARM in rows[0].settings else DEFAULT


def geometric_mean(ratios: Iterable[float]) -> float:
    logarithms = [math.log(ratio) for ratio in ratios]
    return math.exp(sum(logarithms) / len(logarithms))


def line(view: View, row: Row) -> str:
    """One row as text, for a run that nobody watches."""
    measured = [f"{name} {milliseconds(row.times[name])} ms" for name in view.times if name in row.times]
    measured += [f"{name} {cell(row)}" for name, cell in view.columns.items()]
    return f"{row.case.name}: {', '.join(measured)}"


def table(view: View, rows: list[Row], threads: int) -> Table:
    title = f"Milliseconds, {threads_text(threads)}, best call, {shown_allocator(rows)} allocator; - where there is none"
    shown = Table(title=title, row_styles=["", "dim"])
    shown.add_column("case", min_width=24)
    for name in (*view.times, *view.columns):
        shown.add_column(name.replace(" ", "\n"), justify="right", no_wrap=True)
    for row in rows:
        cells = [milliseconds(row.times.get(name)) for name in view.times]
        shown.add_row(row.case.name, *cells, *(cell(row) for cell in view.columns.values()))
    return shown


def surroundings(view: View, threads: int) -> dict[str, Any]:
    versions = {name: version(name) for name in ("windowgrad", *view.packages, "numba", "numpy")}
    return {
        "date": date.today().isoformat(),
        "cpu": cpu(),
        "threads": threads,
        "load": load(),
        "python": platform.python_version(),
    } | versions


def load() -> float | None:
    """How many processes wanted to run in the last minute, this one included."""
    return round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None


def cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:  # not Linux
        return platform.processor() or platform.machine()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.machine())
