"""What is shown of the measurements: lines, a table, a JSON file. Where the benchmarks differ stands in their View."""

from __future__ import annotations

import json
import math
import platform
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, Protocol

from rich.table import Table
from timing import THREADS

from windowgrad.saving import replacing

OURS, FLOOR = "windowgrad", "floor"


class Case(Protocol):
    """What is measured. In the plot those of one `place` stand together, with a panel per `rule` and a colour per `series`."""

    rule: str

    @property
    def name(self) -> str: ...

    @property
    def place(self) -> str: ...

    @property
    def series(self) -> str: ...

    def described(self) -> dict[str, Any]:
        """For the JSON file."""


@dataclass(frozen=True)
class Row:
    """`times` in seconds: ours, that of each peer, and the floor under them. `work`: the bytes to move, or the operations."""

    case: Case
    times: dict[str, float]
    work: int

    @property
    def fastest(self) -> str | None:
        """The fastest peer; all of a row hold the data in the same layout."""
        return min(self.times.keys() - {OURS, FLOOR}, key=self.times.__getitem__, default=None)

    @property
    def speedup(self) -> float | None:
        """The time of the fastest peer by ours."""
        return None if self.fastest is None else self.times[self.fastest] / self.times[OURS]

    @property
    def over_floor(self) -> float:
        return self.times[OURS] / self.times[FLOOR]


@dataclass(frozen=True)
class View:
    """How one benchmark shows its rows."""

    subject: str  # what the plot is about, such as "speed-up over the fastest peer"
    times: tuple[str, ...]  # the columns of milliseconds
    columns: dict[str, Callable[[Row], str]]  # those after them
    colours: dict[str, str]  # of the series, in their order
    work: str  # what the work counts
    packages: tuple[str, ...]  # whose versions matter


def milliseconds(seconds: float | None) -> str:
    return "-" if seconds is None else f"{seconds * 1e3:.3g}" if seconds < 0.9995 else f"{seconds * 1e3:.0f}"


def times(ratio: float | None) -> str:
    return "-" if ratio is None else f"{ratio:.2f}×" if ratio < 9.995 else f"{ratio:.3g}×" if ratio < 999.5 else f"{ratio:.0f}×"


def speedup(row: Row) -> str:
    """Red where a peer is faster."""
    return f"[red]{times(row.speedup)}[/red]" if row.speedup is not None and row.speedup < 1 else times(row.speedup)


def geometric_mean(ratios: Iterable[float]) -> float:
    logarithms = [math.log(ratio) for ratio in ratios]
    return math.exp(sum(logarithms) / len(logarithms))


def line(view: View, row: Row) -> str:
    """One row as text, for a run that nobody watches."""
    measured = [f"{name} {milliseconds(row.times[name])} ms" for name in view.times if name in row.times]
    measured += [f"{name} {cell(row)}" for name, cell in view.columns.items()]
    return f"{row.case.name}: {', '.join(measured)}"


def table(view: View, rows: list[Row]) -> Table:
    shown = Table(title=f"Milliseconds, float32, {THREADS} threads, best call; - where there is none", row_styles=["", "dim"])
    shown.add_column("case", min_width=24)
    for name in (*view.times, *view.columns):
        shown.add_column(name.replace(" ", "\n"), justify="right", no_wrap=True)
    for row in rows:
        cells = [milliseconds(row.times.get(name)) for name in view.times]
        shown.add_row(row.case.name, *cells, *(cell(row) for cell in view.columns.values()))
    return shown


# --- files -------------------------------------------------------------------------------------------------------


def write_json(view: View, rows: list[Row], path: Path, extra: dict[str, Any]) -> None:
    content = {"measured_with": surroundings(view)} | extra | {"rows": [record(view, row) for row in rows]}
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as file:
        file.write((json.dumps(content, indent=1, ensure_ascii=False) + "\n").encode())


def record(view: View, row: Row) -> dict[str, Any]:
    return row.case.described() | {
        view.work: row.work,
        "milliseconds": {name: round(seconds * 1e3, 5) for name, seconds in row.times.items()},
        "fastest_peer": row.fastest,
        "speedup": row.speedup and round(row.speedup, 4),
        "over_floor": round(row.over_floor, 4),
    }


def surroundings(view: View) -> dict[str, Any]:
    versions = {name: version(name) for name in ("windowgrad", *view.packages, "numba", "numpy")}
    return {"cpu": cpu(), "threads": THREADS, "python": platform.python_version()} | versions


def cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:  # not Linux
        return platform.processor() or platform.machine()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.machine())
