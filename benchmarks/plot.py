"""The measurements as a picture of one screen: per group of rows a range, its rows as dots, its median, a line at 1×.

To the right of the line this project is faster. Every row is a dot; one to the left has a colour of its own. It is drawn from
rows in memory, or from JSON files that `--json` of a benchmark wrote:

    python benchmarks/plot.py docs/speed-pooling.json --picture pooling.png
    python benchmarks/plot.py docs/speed-pooling.json docs/speed-convolution.json --brief --picture speed.png
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from matplotlib.figure import Figure
from report import Row, threads_text, times
from stored import Run, read

from windowgrad.saving import replacing

RULES = {"forward": "forward", "backward": "backward", "both": "both", "bridge": "both, on tensors"}
LINE, WIDTH, LEFT, RIGHT, ABOVE, BELOW = 0.23, 7.6, 2.2, 1.5, 0.82, 0.38  # inches: of a line, of the picture, around the lines
FASTER, SLOWER, RANGE, QUIET = "#2f6db3", "#d1495b", "#c9d8ea", "0.45"
FIRST = "PyTorch"  # the peer whose median is shown beside that of the fastest
TICKS = (0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 100, 300, 1000)


@dataclass(frozen=True)
class Line:
    """A line of the picture; without ratios it is a heading. `first`: the ratios to PyTorch, where there are other peers."""

    label: str
    ratios: list[float]
    first: list[float]

    @property
    def shown(self) -> list[float]:
        """What the axis must have room for."""
        return self.ratios + ([median(self.first)] if self.first else [])


def write_plot(runs: list[Run], path: Path, brief: bool = False) -> None:
    """A part per run. `brief`: one line per group, else one per group and rule."""
    parts = [list(brief_lines(run.rows) if brief else ruled_lines(run.rows)) for run in runs]
    every = [ratio for lines in parts for line in lines for ratio in line.shown] or [1.0]
    heights = [LINE * len(lines) for lines in parts]
    top = size = sum(heights) + len(parts) * (ABOVE + BELOW)
    figure = Figure(figsize=(WIDTH, size))
    for run, lines, height in zip(runs, parts, heights, strict=True):
        top -= ABOVE + height
        panel = figure.add_axes((LEFT / WIDTH, top / size, 1 - (LEFT + RIGHT) / WIDTH, height / size))
        top -= BELOW
        draw(panel, run, lines)
        panel.set_xlim(min(0.5, *every) / 1.25, max(2, *every) * 1.25)
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as file:
        figure.savefig(file, dpi=120, format=path.suffix.lstrip(".") or "png", metadata={"Software": None})


# --- lines ---------------------------------------------------------------------------------------------------------


def grouped(rows: list[Row]) -> dict[str, list[Row]]:
    """Rows that have a peer, by group; the groups that win most come first."""
    groups: dict[str, list[Row]] = {}
    for row in rows:
        if row.speedup is not None:
            groups.setdefault(row.case.group, []).append(row)
    return dict(sorted(groups.items(), key=lambda entry: -median(ratios_of(entry[1]))))


def ratios_of(rows: list[Row]) -> list[float]:
    return [row.speedup for row in rows if row.speedup is not None]


def by_rule(rows: list[Row]) -> dict[str, list[Row]]:
    found = {rule: [row for row in rows if row.case.rule == rule] for rule in RULES}
    return {rule: chosen for rule, chosen in found.items() if chosen}


def brief_lines(rows: list[Row]) -> Iterator[Line]:
    for group, chosen in grouped(rows).items():
        yield line_of(group, chosen)


def ruled_lines(rows: list[Row]) -> Iterator[Line]:
    for group, chosen in grouped(rows).items():
        yield Line(group, [], [])
        for rule, some in by_rule(chosen).items():
            yield line_of(RULES[rule], some)


def line_of(label: str, rows: list[Row]) -> Line:
    return Line(label, ratios_of(rows), beside_first(rows))


def beside_first(rows: list[Row]) -> list[float]:
    """Beside PyTorch alone; empty where no row has another peer, since that is then the same."""
    several = any(len(row.peers) > 1 for row in rows)
    return [ratio for row in rows if (ratio := row.over(FIRST)) is not None] if several else []


# --- drawing -------------------------------------------------------------------------------------------------------


def draw(panel: Any, run: Run, lines: list[Line]) -> None:
    for place, line in enumerate(lines):
        if line.ratios:
            draw_line(panel, place, line)
    panel.set_yticks(range(len(lines)), [line.label for line in lines])
    for line, label in zip(lines, panel.get_yticklabels(), strict=True):
        label.set_fontweight("normal" if line.ratios else "bold")
    panel.set_ylim(len(lines) - 0.5, -0.5)
    panel.set_xscale("log")
    panel.set_xticks(TICKS, [f"{tick:g}×" for tick in TICKS])
    panel.minorticks_off()
    panel.tick_params(axis="y", length=0, labelsize=9.5)
    panel.axvline(1, color="black", linewidth=1)
    panel.grid(axis="x", color="0.9")
    panel.set_axisbelow(True)
    panel.spines[["top", "right", "left"]].set_visible(False)
    small: dict[str, Any] = {"va": "bottom", "fontsize": 9}
    panel.text(1 / 1.06, -0.6, "← slower", ha="right", color=SLOWER, **small)
    panel.text(1.06, -0.6, "faster →", ha="left", color=FASTER, **small)
    if any(line.first for line in lines):
        place: dict[str, Any] = {"transform": panel.get_yaxis_transform(), "ha": "right", "color": QUIET}
        panel.text(1, -0.6, f"◇ median beside {FIRST} alone", **place, **small)
    in_column(panel, -0.6, ("median", "faster in"), (QUIET, QUIET), "bottom")
    first, second = title(run)
    above: dict[str, Any] = {"xycoords": "axes fraction", "textcoords": "offset points", "va": "bottom"}
    panel.annotate(first, (0, 1), (-72 * LEFT + 6, 36), weight="bold", fontsize=10.5, **above)
    panel.annotate(second, (0, 1), (-72 * LEFT + 6, 21), fontsize=9.5, **above)


def draw_line(panel: Any, place: int, line: Line) -> None:
    """The range, the rows, the median as a tick, that beside PyTorch as a diamond; then the median and how many are faster."""
    ratios = line.ratios
    panel.plot([min(ratios), max(ratios)], [place, place], color=RANGE, linewidth=6, solid_capstyle="round", zorder=1)
    colours = [FASTER if ratio > 1 else SLOWER for ratio in ratios]
    panel.scatter(ratios, [place] * len(ratios), s=13, c=colours, alpha=0.75, linewidths=0, zorder=3)
    middle = median(ratios)
    panel.plot([middle, middle], [place - 0.36, place + 0.36], color="black", linewidth=2.2, zorder=4)
    if line.first:
        panel.plot(median(line.first), place, "D", color="black", markerfacecolor="white", markersize=5, zorder=5)
    ahead = sum(ratio > 1 for ratio in ratios)
    counted = f"{ahead} of {len(ratios)}"
    in_column(panel, place, (times(middle), counted), ("black", "black" if ahead == len(ratios) else SLOWER), "center")


def in_column(panel: Any, place: float, texts: tuple[str, str], colours: tuple[str, str], align: str) -> None:
    """Texts to the right of a line, each right-aligned in its column."""
    for text, colour, inches in zip(texts, colours, (0.62, 1.42), strict=True):
        at = 1 + inches / (WIDTH - LEFT - RIGHT)
        panel.text(at, place, text, transform=panel.get_yaxis_transform(), ha="right", va=align, fontsize=9, color=colour)


def title(run: Run) -> tuple[str, str]:
    """What is compared, and the result of all rows."""
    ratios = ratios_of(run.rows)
    ahead = sum(ratio > 1 for ratio in ratios)
    fastest = f"the fastest of {', '.join(run.peers[:-1])} and {run.peers[-1]}" if len(run.peers) > 1 else run.peers[0]
    first = f" ({FIRST} alone: {times(median(some))})" if (some := beside_first(run.rows)) else ""
    result = f"faster in {ahead} of {len(ratios)} rows, {times(median(ratios))} in the median{first}"
    return f"{run.title} beside {fastest}", f"{result}; {threads_text(run.measured_with['threads'])}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", type=Path, nargs="+", help="JSON files of benchmarks")
    parser.add_argument("--brief", action="store_true", help="one line per group, for all rules together")
    parser.add_argument("--picture", type=Path, required=True)
    options = parser.parse_args()
    write_plot([read(path) for path in options.rows], options.picture, options.brief)


if __name__ == "__main__":
    main()
