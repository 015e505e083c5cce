"""What is shown of the measurements: a table, a JSON file, a plot."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from cases import Case
from peers import PEERS, THREADS
from rich.table import Table

OURS, FLOOR = "windowgrad", "floor"
COLOURS = {"max": "#2f6db3", "avg": "#e08a1e", "smooth": "#3f9c5a"}


@dataclass(frozen=True)
class Row:
    """`times` in seconds, by name; `size`: the bytes that must be moved."""

    case: Case
    times: dict[str, float]
    size: int

    @property
    def fastest(self) -> str | None:
        """The fastest peer; all of a row hold the data in the same layout."""
        return min(self.times.keys() & PEERS.keys(), key=self.times.__getitem__, default=None)

    @property
    def speedup(self) -> float | None:
        """The time of the fastest peer by ours."""
        return None if self.fastest is None else self.times[self.fastest] / self.times[OURS]

    @property
    def over_floor(self) -> float:
        return self.times[OURS] / self.times[FLOOR]


def milliseconds(seconds: float | None) -> str:
    return "-" if seconds is None else f"{seconds * 1e3:.3g}" if seconds < 0.9995 else f"{seconds * 1e3:.0f}"


def times(ratio: float | None) -> str:
    return "-" if ratio is None else f"{ratio:.2f}×" if ratio < 9.995 else f"{ratio:.3g}×" if ratio < 999.5 else f"{ratio:.0f}×"


def line(row: Row) -> str:
    """One row as text, for a run that nobody watches."""
    measured = ", ".join(f"{name} {milliseconds(seconds)} ms" for name, seconds in row.times.items())
    return f"{row.case.name}: {measured}; {times(row.speedup)} the fastest peer, {times(row.over_floor)} the floor"


def table(rows: list[Row]) -> Table:
    shown = Table(title=f"Milliseconds, float32, {THREADS} threads, best call; - where a peer has none", row_styles=["", "dim"])
    shown.add_column("case", min_width=24)
    for name in (OURS, *PEERS, FLOOR, "speed-up over fastest peer", "time over floor"):
        shown.add_column(name.replace(" ", "\n"), justify="right", no_wrap=True)
    for row in rows:
        cells = [milliseconds(row.times.get(name)) for name in (OURS, *PEERS, FLOOR)]
        shown.add_row(row.case.name, *cells, coloured(row), times(row.over_floor))
    return shown


def coloured(row: Row) -> str:
    """Red where a peer is faster."""
    return f"[red]{times(row.speedup)}[/red]" if row.speedup is not None and row.speedup < 1 else times(row.speedup)


def summary(rows: list[Row]) -> str:
    ratios = sorted(row.speedup for row in rows if row.speedup is not None)
    if not ratios:
        return "no peer has any of these rows"
    least, middle = ratios[0], ratios[len(ratios) // 2]
    wins = sum(ratio > 1 for ratio in ratios)
    return f"faster than every peer in {wins} of {len(ratios)} rows that have one; least {times(least)}, median {times(middle)}"


# --- files -------------------------------------------------------------------------------------------------------


@contextmanager
def whole(path: Path) -> Iterator[Path]:
    """A name to write to; the file gets its own name when it is complete."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{os.getpid()}-{path.name}")
    try:
        yield temporary
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def write_json(rows: list[Row], path: Path) -> None:
    content = {"measured_with": surroundings(), "rows": [record(row) for row in rows]}
    with whole(path) as temporary:
        temporary.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def record(row: Row) -> dict[str, Any]:
    case = row.case
    return {
        "op": case.op,
        "rule": case.rule,
        "window": case.window,
        "shape": case.shape,
        "layout": "channels last" if case.last else "channels first",
        "bytes": row.size,
        "milliseconds": {name: round(seconds * 1e3, 5) for name, seconds in row.times.items()},
        "fastest_peer": row.fastest,
        "speedup": row.speedup and round(row.speedup, 4),
        "over_floor": round(row.over_floor, 4),
    }


def surroundings() -> dict[str, Any]:
    packages = ("windowgrad", "torch", "jax", "onnxruntime", "numba", "numpy")
    return {"cpu": cpu(), "threads": THREADS, "python": platform.python_version()} | {name: version(name) for name in packages}


def cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:  # not Linux
        return platform.processor() or platform.machine()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.machine())


# --- plot --------------------------------------------------------------------------------------------------------


def write_plot(rows: list[Row], path: Path) -> None:
    """A bar per row: how many times faster than the fastest peer. A place has its bars for max, avg and smooth together."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    from matplotlib.ticker import LogLocator, NullLocator

    places = list(dict.fromkeys(row.case.place for row in rows))
    rules = [rule for rule in ("forward", "backward") if any(row.case.rule == rule for row in rows)]
    figure, panels = plt.subplots(
        1,
        len(rules),
        sharey=True,
        squeeze=False,
        figsize=(4.5 + 4.5 * len(rules), 1.6 + 0.5 * len(places)),
        layout="constrained",
    )
    ratios = [row.speedup for row in rows if row.speedup is not None] or [1.0]
    for panel, rule in zip(panels[0], rules, strict=True):
        draw(panel, rule, [row for row in rows if row.case.rule == rule], places)
        panel.set_xlim(min(0.5, *ratios) / 1.3, max(2, *ratios) * 2.5)
        panel.xaxis.set_major_locator(LogLocator(subs=(1, 3)))
        panel.xaxis.set_minor_locator(NullLocator())
    panels[0][0].set_yticks(range(len(places)), places)
    panels[0][0].set_ylim(len(places) - 0.4, -0.6)
    handles = [plt.Rectangle((0, 0), 1, 1, color=COLOURS[op]) for op in COLOURS]
    figure.legend(handles, [f"{op} pooling" for op in COLOURS], loc="outside upper right", ncols=3, frameon=False)
    figure.suptitle(f"windowgrad: speed-up over the fastest peer, float32, {THREADS} threads", x=0.01, ha="left", weight="bold")
    with whole(path) as temporary:
        figure.savefig(temporary, dpi=110, format=path.suffix.lstrip(".") or "png")
    plt.close(figure)


def draw(panel: Any, rule: str, rows: list[Row], places: list[str]) -> None:
    height = 0.8 / len(COLOURS)
    for row in rows:
        at = places.index(row.case.place) + (list(COLOURS).index(row.case.op) - 1) * height
        if row.speedup is None:
            panel.text(1.06, at, "no peer", va="center", fontsize=7, color="0.55")
            continue
        panel.barh(at, row.speedup - 1, height * 0.92, left=1, color=COLOURS[row.case.op])  # from the line at 1×
        panel.text(max(row.speedup, 1) * 1.06, at, times(row.speedup), va="center", fontsize=7)
    panel.set_xscale("log")
    panel.axvline(1, color="black", linewidth=1)
    panel.xaxis.set_major_formatter(lambda value, _: f"{value:g}×")
    panel.set_xlabel("times faster (left of 1×: slower)")
    panel.set_title(rule, loc="left")
    panel.grid(axis="x", color="0.9")
    panel.set_axisbelow(True)
    panel.tick_params(axis="y", length=0)
    for side in ("top", "right", "left"):
        panel.spines[side].set_visible(False)
