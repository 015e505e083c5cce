"""The report on a terminal: a table of kinds, then every new difference with its smallest case."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from windowgrad.conform.report.junit import headline, title
from windowgrad.conform.text import printable

COLUMNS = {"agrees": "green", "differs": "red", "refuses": "yellow", "crashes": "magenta", "unsupported": "dim"}


def show(data: dict[str, Any], console: Console) -> None:
    console.print(table(data))
    for implementation in data["implementations"]:
        for finding in implementation["findings"]:
            if finding["known"] is None:
                show_finding(implementation, finding, console)
        for note in [*about_asked(implementation), *notes(implementation)]:
            console.print(Text.assemble(("note", "yellow"), f": {note}"), soft_wrap=True)
    console.print(Text(last_line(data)), soft_wrap=True)


def about_asked(implementation: dict[str, Any]) -> list[str]:
    """That it was not asked everything."""
    if not implementation["left_out"]:
        return []
    return [f"{title(implementation)}: ran {asked(implementation)} checks that it supports; --most 0 runs all of them"]


def notes(implementation: dict[str, Any]) -> list[str]:
    """What a reader should know about the known differences of an implementation."""
    found = []
    if implementation["newest_tried"]:
        found.append(
            f"{title(implementation)} is newer than {implementation['newest_tried']}, "
            f"the newest version that the known differences were tested with"
        )
    for entry in implementation["outdated"]:
        found.append(f"known difference {entry['id']} no longer occurs in {title(implementation)}")
    return found


def table(data: dict[str, Any]) -> Table:
    found = Table(box=None, pad_edge=False)
    found.add_column("implementation")
    for kind, style in COLUMNS.items():
        found.add_column(kind, justify="right", style=style)
    for word in ("known", "new"):
        found.add_column(word, justify="right")
    for implementation in data["implementations"]:
        if not implementation["installed"]:
            found.add_row(Text(implementation["title"]), "not installed", style="dim")
            continue
        counts = [str(implementation["counts"][kind] or "·") for kind in COLUMNS]
        new = sum(finding["known"] is None for finding in implementation["findings"])
        known = len(implementation["findings"]) - new
        last = f"[bold red]{new}[/]" if new else "·"
        found.add_row(Text(title(implementation)), *counts, str(known or "·"), last)
    return found


def asked(implementation: dict[str, Any]) -> str:
    """How many checks were asked, and of how many that it supports."""
    count = implementation["asked"]
    if not implementation["finished"]:
        return f"{count}, stopped"
    return f"{count} of {count + implementation['left_out']}" if implementation["left_out"] else str(count)


def show_finding(implementation: dict[str, Any], finding: dict[str, Any], console: Console) -> None:
    """The call, the cells that went in, what came out and what should have."""
    console.print()
    kind, where = finding["kind"], f"{finding['case']['group']}, {finding['case']['dtype']}"
    about = f" in the {finding['check']} · rule {finding['rule']} · {where}"
    lines = [f"  {finding['call']}"]
    lines += [f"  {name} = {array['cells']}" for name, array in given_arrays(finding["case"]).items()]
    if "difference" in finding:
        output = finding["difference"]["output"]
        lines += [f"  {word:8} {finding[word][output]}" for word in ("expected", "got") if output in finding[word]]
    if finding["message"] or finding["difference"]["what"] != "value":
        lines.append(f"  {headline(finding)}")
    console.print(Text.assemble((title(implementation), "bold"), " ", (kind, COLUMNS[kind]), about), soft_wrap=True)
    for line in lines:
        console.print(Text(line), soft_wrap=True)


def given_arrays(case: dict[str, Any]) -> dict[str, Any]:
    """The arrays of a case, and its mask."""
    return {**case["arrays"], **({"where": case["where"]} if "where" in case else {})}


def last_line(data: dict[str, Any]) -> str:
    count = sum(implementation["asked"] for implementation in data["implementations"])
    new, known = data["new"], sum(len(i["findings"]) for i in data["implementations"]) - data["new"]
    ending = f"{new} new differences" if new != 1 else "1 new difference"
    early = f"interrupted by {data['interrupted']}: " if data["interrupted"] else ""
    return f"\n{early}{count} checks of {len(data['cases'])} cases in {data['seconds']:g} s: {ending}, {known} known"


class Bar:
    """A progress bar over all implementations, for terminals."""

    def __init__(self, console: Console, total: int) -> None:
        columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        self.progress = Progress(*columns, console=console, transient=True, disable=not console.is_terminal)
        self.task = self.progress.add_task("checking", total=total)

    def __enter__(self) -> Bar:
        self.progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(OSError):  # a terminal that is gone must not take the results with it
            self.progress.stop()

    def advance(self, name: str, by: int) -> None:
        self.progress.update(self.task, advance=by, description=printable(name))
