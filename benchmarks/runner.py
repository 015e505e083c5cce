"""What every benchmark does: read the options, measure the rows that are asked for, show them, write the files."""

from __future__ import annotations

import argparse
import os
import random
import shlex
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import report
import stored
import torch
from allocators import DEFAULT, FEW, WARM, Timed, Worker, faults
from plot import write_plot
from rich.console import Console, RenderableType
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from timing import THREADS, Clock

from windowgrad.kernels.runtime.threads import set_num_threads

RESULTS = Path(__file__).parent / "results"
ALLOCATORS = {DEFAULT: (DEFAULT,), WARM: (WARM,), "both": (WARM, DEFAULT)}
RANDOM_ROUNDS, RANDOM_SECONDS = 4, 2.0


class WrongResultError(Exception):
    """Two implementations disagree."""


@dataclass(frozen=True)
class Benchmark:
    """`measured`: from a case, the names of peers, rounds and seconds to its times, in a process of its own.

    `random`: cases from their number and a seed. `also`: what is measured once, after all rows of the grid.
    """

    name: str
    description: str
    cases: list[Any]
    peers: tuple[str, ...]
    measured: Callable[[Any, tuple[str, ...], int, float], Timed]
    view: report.View
    summary: Callable[[list[report.Row]], Iterable[RenderableType]]
    seconds: float
    also: Callable[[], dict[str, Any]] = dict
    random: Callable[[int, int], Iterable[Any]] | None = None


def main(benchmark: Benchmark) -> int:
    options, console = arguments(benchmark), Console()
    if not console.is_terminal:
        console = Console(width=150)  # a file has room
    every = list(benchmark.random(options.random, options.seed)) if benchmark.random and options.random else benchmark.cases
    cases = [case for case in every if options.only in case.name]
    if not cases:
        console.print(f"no row has {options.only!r} in its name; one is {every[0].name!r}", markup=False)
        return 2
    if every is not benchmark.cases:
        console.print(f"{options.random} random cases, --seed {options.seed}", highlight=False)
    workers = {allocator: Worker(allocator, begin, options.threads) for allocator in ALLOCATORS[options.allocator]}
    try:
        probe(workers, console)
        rows = run(benchmark, cases, workers, options, console)
    except WrongResultError as error:
        console.print(str(error), markup=False, style="red")
        return 1
    finally:
        for worker in workers.values():
            worker.stop()
    if rows:
        show(benchmark, rows, len(rows) == len(benchmark.cases) and every is benchmark.cases, options, console)
    return 0 if len(rows) == len(cases) else 130


def begin(threads: int) -> None:
    """What a process that measures does first. JAX has as many threads as the process has cores, so it gets no more."""
    torch.set_num_threads(threads)
    set_num_threads(threads)
    if threads == 1:
        Clock.count_cpu_time()
    if hasattr(os, "sched_setaffinity") and threads < len(cores := os.sched_getaffinity(0)):
        os.sched_setaffinity(0, random.sample(sorted(cores), threads))


def probe(workers: dict[str, Worker], console: Console) -> None:
    """Say what the settings do on this system: a warm allocator has no faults."""
    found = {allocator: worker.call(faults) for allocator, worker in workers.items()}
    shown = ", ".join(f"{allocator} {count}" for allocator, count in found.items())
    console.print(f"page faults of an allocation of 64 MiB after others: {shown}; load {report.load()}", highlight=False)
    if found.get(WARM, 0) > FEW:
        console.print("the warm allocator is not: this C library does not keep its memory", style="red")


def run(
    benchmark: Benchmark, cases: list[Any], workers: dict[str, Worker], options: argparse.Namespace, console: Console
) -> list[report.Row]:
    """All rows, or those that were done before Ctrl-C. The settings share the seconds of a row, one right after the other."""
    rows: list[report.Row] = []
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    asked = tuple(options.peers or benchmark.peers), options.rounds, options.seconds / len(workers)
    try:
        with Progress(*columns, console=console) as progress:
            task = progress.add_task("", total=len(cases))
            for case in cases:
                progress.update(task, description=case.name)
                found = {allocator: worker.call(benchmark.measured, case, *asked) for allocator, worker in workers.items()}
                times = {allocator: timed.times for allocator, timed in found.items()}
                rows.append(report.Row(case, times, next(iter(found.values())).work))
                progress.advance(task)
                if not console.is_terminal:
                    console.print(report.line(benchmark.view, rows[-1]), soft_wrap=True, highlight=False)
    except KeyboardInterrupt:
        console.print(f"stopped after {len(rows)} of {len(cases)} rows")
    return rows


def show(benchmark: Benchmark, rows: list[report.Row], complete: bool, options: argparse.Namespace, console: Console) -> None:
    """The table and the summary; the files that were asked for, and, when all rows of the grid were run, all of them."""
    console.print(report.table(benchmark.view, rows, options.threads))
    for part in benchmark.summary(rows):
        console.print(part, highlight=False)
    set_num_threads(options.threads)
    also = benchmark.also() if complete else {}
    for name, value in also.items():
        console.print(f"{name}: {', '.join(f'{key} {number}' for key, number in value.items())}", highlight=False)
    view, command = benchmark.view, f"python benchmarks/{benchmark.name}.py {shlex.join(sys.argv[1:])}".strip()
    done = stored.Run(view.title, command, report.surroundings(view, options.threads), view.work, rows, also)
    if path := options.json or (complete and default(benchmark, "json")):
        stored.write(done, path)
        console.print(f"wrote {path}", markup=False, soft_wrap=True)
    if path := options.plot or (complete and default(benchmark, "png")):
        write_plot([done], path)
        console.print(f"wrote {path}", markup=False, soft_wrap=True)


def default(benchmark: Benchmark, suffix: str) -> Path:
    return RESULTS / f"{benchmark.name}.{suffix}"


def arguments(benchmark: Benchmark) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=benchmark.description)
    example = benchmark.cases[0].name.partition(",")[0]
    files = [f"default benchmarks/results/{benchmark.name}.{suffix}, when all rows are run" for suffix in ("json", "png")]
    parser.add_argument("--only", default="", metavar="SUBSTRING", help=f'rows with this in their name, such as "{example}"')
    if benchmark.random:
        parser.add_argument("--random", type=int, default=0, metavar="N", help="N random cases instead of the grid")
        parser.add_argument("--seed", type=int, default=0, help="of the random cases (default 0)")
    parser.add_argument("--peers", nargs="+", choices=benchmark.peers, help="only these")
    allocators = "of the C library: as it is, keeping all memory, or the one after the other (default)"
    parser.add_argument("--allocator", choices=ALLOCATORS, default="both", help=allocators)
    threads = f"of everybody (default {THREADS}); 1 counts CPU time, and is for a busy machine"
    parser.add_argument("--threads", type=int, default=THREADS, help=threads)
    parser.add_argument("--rounds", type=int, help=f"turns of each in a row (default 7; {RANDOM_ROUNDS} for random cases)")
    seconds = f"a row takes about this long at most (default {benchmark.seconds:g}; {RANDOM_SECONDS:g} for random cases)"
    parser.add_argument("--seconds", type=float, help=seconds)
    parser.add_argument("--json", type=Path, help=files[0])
    parser.add_argument("--plot", type=Path, help=files[1])
    options = parser.parse_args()
    is_random = bool(benchmark.random and options.random)
    if options.rounds is None:
        options.rounds = RANDOM_ROUNDS if is_random else 7
    if options.seconds is None:
        options.seconds = RANDOM_SECONDS if is_random else benchmark.seconds
    if min(options.rounds, options.threads) < 1 or options.seconds <= 0 or (benchmark.random and options.random < 0):
        parser.error("--rounds, --threads, --seconds and --random must be positive")
    return options
