"""The report on a terminal: a table of kinds, then every new difference with its smallest case."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from windowgrad.conform.report.junit import headline

COLUMNS = {"agrees": "green", "differs": "red", "refuses": "yellow", "crashes": "magenta", "unsupported": "dim"}


def show(data: dict[str, Any], console: Console) -> None:
    console.print(table(data))
    for implementation in data["implementations"]:
        for finding in implementation["findings"]:
            if finding["known"] is None:
                show_finding(implementation, finding, console)
        for entry in implementation["outdated"]:
            console.print(f"[yellow]warning[/]: known difference {entry['id']} no longer holds for {title(implementation)}")
    console.print(last_line(data), highlight=False)


def table(data: dict[str, Any]) -> Table:
    found = Table(box=None, pad_edge=False)
    found.add_column("implementation")
    for kind, style in COLUMNS.items():
        found.add_column(kind, justify="right", style=style)
    for word in ("known", "new"):
        found.add_column(word, justify="right")
    for implementation in data["implementations"]:
        if not implementation["installed"]:
            found.add_row(implementation["title"], "not installed", style="dim")
            continue
        counts = [str(implementation["counts"][kind] or "·") for kind in COLUMNS]
        new = sum(finding["known"] is None for finding in implementation["findings"])
        known = len(implementation["findings"]) - new
        found.add_row(title(implementation), *counts, str(known or "·"), f"[bold red]{new}[/]" if new else "·")
    return found


def title(implementation: dict[str, Any]) -> str:
    return f"{implementation['title']} {implementation['version'] or ''}".strip()


def show_finding(implementation: dict[str, Any], finding: dict[str, Any], console: Console) -> None:
    """The call, the cells that went in, what came out and what should have."""
    console.print()
    head = f"[bold]{title(implementation)}[/] [{COLUMNS[finding['kind']]}]{finding['kind']}[/] in the {finding['check']}"
    console.print(f"{head} · rule {finding['rule']} · {finding['case']['group']}, {finding['case']['dtype']}", highlight=False)
    console.print(f"  {escape(finding['call'])}", highlight=False, soft_wrap=True)
    for name, array in finding["case"]["arrays"].items():
        console.print(f"  {name} = {escape(str(array['cells']))}", highlight=False, soft_wrap=True)
    if "difference" in finding:
        for word in ("expected", "got"):
            cells = finding[word].get(finding["difference"]["output"])
            console.print(f"  {word:8} {escape(str(cells))}", highlight=False, soft_wrap=True)
    if finding["message"] or finding["difference"]["what"] != "value":
        console.print(f"  {escape(headline(finding))}", highlight=False, soft_wrap=True)


def last_line(data: dict[str, Any]) -> str:
    asked = sum(sum(i["counts"].values()) - i["counts"]["unsupported"] for i in data["implementations"])
    new, known = data["new"], sum(len(i["findings"]) for i in data["implementations"]) - data["new"]
    ending = f"{new} new differences" if new != 1 else "1 new difference"
    return f"\n{asked} checks of {len(data['cases'])} cases in {data['seconds']:g} s: {ending}, {known} known"


class Bar:
    """A progress bar over all implementations, for terminals."""

    def __init__(self, console: Console, total: int) -> None:
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        self.progress = Progress(*columns, console=console, transient=True, disable=not console.is_terminal)
        self.task = self.progress.add_task("asking", total=total)

    def __enter__(self) -> Bar:
        self.progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.progress.stop()

    def advance(self, name: str, by: int) -> None:
        self.progress.update(self.task, advance=by, description=name)
