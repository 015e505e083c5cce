"""What every benchmark does: read the options, measure the rows that are asked for, show them, write the files."""

from __future__ import annotations

import argparse
import gc
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import report
import torch
from plot import write_plot
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from timing import THREADS

from windowgrad.kernels.runtime.threads import set_num_threads

RESULTS = Path(__file__).parent / "results"


class WrongResultError(Exception):
    """Two implementations disagree."""


@dataclass(frozen=True)
class Benchmark:
    """`measured`: from a case, rounds and seconds to its row. `also`: what is measured once, after all rows."""

    name: str
    description: str
    cases: list[Any]
    measured: Callable[[Any, int, float], report.Row]
    view: report.View
    summary: Callable[[list[report.Row]], str]
    seconds: float
    also: Callable[[], dict[str, Any]] = dict


def main(benchmark: Benchmark) -> int:
    options, console = arguments(benchmark), Console()
    if not console.is_terminal:
        console = Console(width=150)  # a file has room
    cases = [case for case in benchmark.cases if options.only in case.name]
    if not cases:
        console.print(f"no row has {options.only!r} in its name; one is {benchmark.cases[0].name!r}", markup=False)
        return 2
    torch.set_num_threads(THREADS)
    set_num_threads(THREADS)
    try:
        rows = run(benchmark, cases, options, console)
    except WrongResultError as error:
        console.print(str(error), markup=False, style="red")
        return 1
    if rows:
        show(benchmark, rows, options, console)
    return 0 if len(rows) == len(cases) else 130


def run(benchmark: Benchmark, cases: list[Any], options: argparse.Namespace, console: Console) -> list[report.Row]:
    """All rows, or those that were done before Ctrl-C."""
    rows: list[report.Row] = []
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    gc.disable()  # a collection is nobody's own time
    try:
        with Progress(*columns, console=console) as progress:
            task = progress.add_task("", total=len(cases))
            for case in cases:
                progress.update(task, description=case.name)
                rows.append(benchmark.measured(case, options.rounds, options.seconds))
                gc.collect()
                progress.advance(task)
                if not console.is_terminal:
                    console.print(report.line(benchmark.view, rows[-1]), soft_wrap=True, highlight=False)
    except KeyboardInterrupt:
        console.print(f"stopped after {len(rows)} of {len(cases)} rows")
    finally:
        gc.enable()
    return rows


def show(benchmark: Benchmark, rows: list[report.Row], options: argparse.Namespace, console: Console) -> None:
    """The table and the summary; the files that were asked for, and, when all rows were run, all of them."""
    console.print(report.table(benchmark.view, rows))
    console.print(benchmark.summary(rows), highlight=False)
    complete = len(rows) == len(benchmark.cases)
    also = benchmark.also() if complete else {}
    for name, value in also.items():
        console.print(f"{name}: {', '.join(f'{key} {number}' for key, number in value.items())}", highlight=False)
    if path := options.json or (complete and default(benchmark, "json")):
        report.write_json(benchmark.view, rows, path, also)
        console.print(f"wrote {path}", markup=False, soft_wrap=True)
    if path := options.plot or (complete and default(benchmark, "png")):
        write_plot(benchmark.view, rows, path)
        console.print(f"wrote {path}", markup=False, soft_wrap=True)


def default(benchmark: Benchmark, suffix: str) -> Path:
    return RESULTS / f"{benchmark.name}.{suffix}"


def arguments(benchmark: Benchmark) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=benchmark.description)
    example = benchmark.cases[0].name.partition(",")[0]
    files = [f"default benchmarks/results/{benchmark.name}.{suffix}, when all rows are run" for suffix in ("json", "png")]
    parser.add_argument("--only", default="", metavar="SUBSTRING", help=f'rows with this in their name, such as "{example}"')
    parser.add_argument("--rounds", type=int, default=7, help="turns of each implementation in a row (default 7)")
    seconds = f"a row takes about this long at most (default {benchmark.seconds:g})"
    parser.add_argument("--seconds", type=float, default=benchmark.seconds, help=seconds)
    parser.add_argument("--json", type=Path, help=files[0])
    parser.add_argument("--plot", type=Path, help=files[1])
    options = parser.parse_args()
    if options.rounds < 1 or options.seconds <= 0:
        parser.error("--rounds and --seconds must be positive")
    return options
