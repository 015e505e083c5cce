"""The measurements as a picture: a bar per row, to the right of the line at 1× where this project is faster."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from allocators import DEFAULT
from report import Row, View, shown_allocator, threads_text, times

from windowgrad.saving import replacing

BAR = 0.16  # inches
RULES = {"forward": "forward", "backward": "backward", "both": "forward and backward"}  # those that have a panel


def write_plot(view: View, rows: list[Row], path: Path, threads: int) -> None:
    """How many times faster than the fastest peer, both with a warm allocator; a tick where the default one would end the bar.

    A place has the bars of its series together.
    """
    rows = [row for row in rows if row.case.rule in RULES]
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    from matplotlib.ticker import LogLocator, NullLocator

    places = list(dict.fromkeys(row.case.place for row in rows))
    rules = [rule for rule in RULES if any(row.case.rule == rule for row in rows)]
    size = (4.5 + 4.5 * len(rules), 1.6 + BAR * len(view.colours) * 1.05 * len(places))
    figure, panels = plt.subplots(1, len(rules), sharey=True, squeeze=False, figsize=size, layout="constrained")
    ratios = [row.speedup for row in rows if row.speedup is not None] or [1.0]
    for panel, rule in zip(panels[0], rules, strict=True):
        draw(view, panel, rule, [row for row in rows if row.case.rule == rule], places)
        panel.set_xlim(min(0.5, *ratios) / 1.3, max(2, *ratios) * 2.5)
        panel.xaxis.set_major_locator(LogLocator(subs=(1, 3)))
        panel.xaxis.set_minor_locator(NullLocator())
    panels[0][0].set_yticks(range(len(places)), places)
    panels[0][0].set_ylim(len(places) - 0.4, -0.6)
    handles = [plt.Rectangle((0, 0), 1, 1, color=colour) for colour in view.colours.values()]
    figure.legend(handles, list(view.colours), loc="outside upper right", ncols=len(handles), frameon=False)
    tick = " (tick: default)" if len(rows[0].settings) > 1 else ""
    figure.suptitle(
        f"windowgrad: {view.subject}, {threads_text(threads)}, {shown_allocator(rows)} allocator{tick}",
        x=0.01,
        ha="left",
        weight="bold",
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as file:
        figure.savefig(file, dpi=110, format=path.suffix.lstrip(".") or "png")
    plt.close(figure)


def draw(view: View, panel: Any, rule: str, rows: list[Row], places: list[str]) -> None:
    height, series = 0.8 / len(view.colours), list(view.colours)
    for row in rows:
        at = places.index(row.case.place) + (series.index(row.case.series) - (len(series) - 1) / 2) * height
        if row.speedup is None:
            panel.text(1.06, at, "no peer", va="center", fontsize=7, color="0.55")
            continue
        panel.barh(at, row.speedup - 1, height * 0.92, left=1, color=view.colours[row.case.series])  # from the line at 1×
        usual = row.over(allocator=DEFAULT)
        if usual is not None and usual != row.speedup:
            panel.vlines(usual, at - height * 0.46, at + height * 0.46, color="black", linewidth=1)
        panel.text(max(row.speedup, usual or 1, 1) * 1.06, at, times(row.speedup), va="center", fontsize=7)
    panel.set_xscale("log")
    panel.axvline(1, color="black", linewidth=1)
    panel.xaxis.set_major_formatter(lambda value, _: f"{value:g}×")
    panel.set_xlabel("times faster (left of 1×: slower)")
    panel.set_title(RULES[rule], loc="left")
    panel.grid(axis="x", color="0.9")
    panel.set_axisbelow(True)
    panel.tick_params(axis="y", length=0)
    for side in ("top", "right", "left"):
        panel.spines[side].set_visible(False)
