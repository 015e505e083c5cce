"""A figure: panels in rows and columns on paper of its own, so that it can be read on a light and on a dark page."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from functools import cache
from html import escape
from pathlib import Path
from typing import NamedTuple

from windowgrad.drawing.svg import GAP, Drawing, cells
from windowgrad.drawing.views import View, at, described, kind, last_two, slices

CELL = 48
EDGE = 16
LINE = 17
CHARACTER = 7.3
"""How wide a character of a line is, at most."""
NARROWEST, WIDEST = 26, 40
"""How many characters a line of a panel has before it is wrapped, if its cells are not wider: so many at least, and at most."""
LEAST = 420
"""How wide a figure is at least: its heading and its legend are easier to read."""
ROOM = 640
"""How wide the slices of a panel are together before they are wrapped."""

LEGEND = {"s": "seen", "w": "winner", "p": "padding", "o": "past the padding", "m": "left out by the mask"}


class Panel(NamedTuple):
    title: str
    view: View
    lines: Sequence[str]


@cache
def style() -> str:
    return Path(__file__).with_name("figure.css").read_text("utf-8")


def figure(head: str, rows: Sequence[Sequence[Panel]], foot: Sequence[str] = (), cell: int = CELL) -> str:
    """The panels under a heading, with a legend for what is in them and lines below it."""
    drawings = [[(panel, cells(panel.view, cell, ROOM)) for panel in row] for row in rows]
    every = [each for row in drawings for each in row]
    widths = [max(panel_width(*row[i]) for row in drawings if i < len(row)) for i in range(max(map(len, drawings)))]
    inner = max(sum(widths) + 2 * GAP * (len(widths) - 1), LEAST)
    parts, y = [], EDGE
    for text in wrapped(head, inner):
        parts.append(line("f", text, EDGE, y))
        y += LINE
    y += LINE // 2
    for row in drawings:
        x, heights = EDGE, []
        for (panel, drawing), width in zip(row, widths, strict=False):
            parts.append(f'<g transform="translate({x} {y})">{paneled(panel, drawing, width)}</g>')
            heights.append(panel_height(panel, drawing, width))
            x += width + 2 * GAP
        y += max(heights) + GAP
    notes = [text for each in foot for text in wrapped(each, inner)]
    legend, used = legend_of([panel.view for panel, _ in every], inner)
    parts.append(f'<g transform="translate({EDGE} {y})">{legend}</g>')
    y += used
    for text in notes:
        parts.append(line("d", text, EDGE, y))
        y += LINE
    label = escape(". ".join([head, *(f"{described(panel.view)}: {'; '.join(panel.lines)}" for panel, _ in every)]), quote=True)
    return framed("".join(parts), inner + 2 * EDGE, y + EDGE // 2, label)


def framed(parts: str, width: int, height: int, label: str) -> str:
    """The document: a sheet of paper and what is on it."""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="wg-figure" role="img" aria-label="{label}" width="{width}" '
        f'height="{height}" viewBox="0 0 {width} {height}"><style>{style()}</style>'
        f'<rect class="paper" x="0.5" y="0.5" width="{width - 1}" height="{height - 1}" rx="8"/>{parts}</svg>\n'
    )


def paneled(panel: Panel, drawing: Drawing, width: int) -> str:
    y = 14
    parts = []
    for text in wrapped(panel.title, width, 1.17):
        parts.append(line("t", text, 0, y - 12))
        y += LINE
    parts.append(f'<g transform="translate(0 {y - 6})">{drawing.parts}</g>')
    y += drawing.height + 4
    for number, text in enumerate(panel.lines):
        for part in wrapped(text, width):
            parts.append(line("f" if number == 1 else "d", part, 0, y))
            y += LINE
    return "".join(parts)


def panel_width(panel: Panel, drawing: Drawing) -> int:
    longest = max(map(len, panel.lines), default=0)
    return max(drawing.width, int(min(max(longest, NARROWEST), WIDEST) * CHARACTER))


def panel_height(panel: Panel, drawing: Drawing, width: int) -> int:
    lines = len(wrapped(panel.title, width, 1.17)) + sum(len(wrapped(text, width)) for text in panel.lines)
    return drawing.height + 18 + LINE * lines


def wrapped(text: str, width: int, scale: float = 1.0) -> list[str]:
    most = max(int(width / CHARACTER / scale), 12)
    return textwrap.wrap(text, most, break_on_hyphens=False) or [""]


def line(sort: str, text: str, x: int, y: int) -> str:
    return f'<text class="{sort}" x="{x}" y="{y + 12}">{escape(text)}</text>'


def legend_of(views: Sequence[View], width: int) -> tuple[str, int]:
    """What the signs mean that are in the drawings, and how high that is."""
    found = {
        letter
        for view in views
        for part in slices(view)
        for row in last_two(view)[1]
        for column in last_two(view)[2]
        for letter in kind(view, part.plane, at(view, part, row, column)).split()
    }
    parts, x, y = [], 0, 0
    for letter, meaning in LEGEND.items():
        if letter not in found:
            continue
        wide = 26 + int(len(meaning) * CHARACTER) + 14
        if x and x + wide > width:
            x, y = 0, y + LINE
        sort = {"s": "r s", "m": "r s m", "w": "r s"}.get(letter, letter)
        parts.append(f'<rect class="{sort}" x="{x + 1}" y="{y + 1}" width="14" height="14" rx="3"/>')
        if letter == "w":
            parts.append(f'<circle class="w" cx="{x + 8}" cy="{y + 8}" r="5"/>')
        parts.append(line("d", meaning, x + 22, y))
        x += wide
    return "".join(parts), y + LINE + 4
