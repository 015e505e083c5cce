"""How fast pooling is, beside PyTorch, JAX and ONNX Runtime, and beside the time that moving the same bytes takes.

All run on the same arrays in turns, float32 on two threads, and the best call of each counts. Before a row is timed, what
this project computes is compared with its peers: a wrong result stops the benchmark.

    make bench
    python benchmarks/pooling.py --only "max forward 3×3"
"""

from __future__ import annotations

import argparse
import gc
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import report
import torch
from cases import Array, Case, grid
from floor import floor
from peers import PEERS, THREADS, array_of, composed, ours
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from windowgrad.kernels.threads import set_num_threads

RESULTS = Path(__file__).parent / "results"
TURN = 0.02  # seconds; a short call is repeated for so long in its turn
PAUSE = 0.01  # seconds before a turn: the threads of PyTorch and ONNX Runtime spin for a while after their work
TIED = 1e-5  # the part of a peer's gradient that may lie elsewhere: equal maxima, of which JAX may take another

Call = Callable[[], Any]


class WrongResultError(Exception):
    """Two implementations disagree."""


def measured(case: Case, rounds: int, seconds: float) -> report.Row:
    """The case, checked and timed."""
    x, g = case.arrays()
    calls: dict[str, Call] = {report.OURS: ours(case, x, g)}
    calls |= {name: call for name, prepare in PEERS.items() if (call := prepare(case, x, g)) is not None}
    check(case, x, g, calls)
    calls[report.FLOOR] = floor(case, x, g)
    calls[report.FLOOR]()  # compiles it
    sources, written = case.moved(x, g)
    size = sum(source.nbytes for source in sources) + 4 * int(np.prod(written))
    return report.Row(case, best(calls, rounds, seconds), size)


def check(case: Case, x: Array, g: Array, calls: dict[str, Call]) -> None:
    """Ours is what the peers compute. This also warms everybody up: whatever compiles has compiled."""
    result = calls[report.OURS]()
    for peer in [name for name in calls if name != report.OURS]:
        differ = differing(result, array_of(case, peer, calls[peer]()))
        allowed = 0 if peer == "PyTorch" or (case.op, case.rule) != ("max", "backward") else TIED * result.size
        if differ > allowed:
            raise WrongResultError(f"{case.name}: {differ} of {result.size} cells are not those of {peer}")
    if len(calls) == 1:  # one image is enough to see a wrong kernel, and its windows cut out still fit into memory
        differ = differing(result[:1], composed(case, x[:1], g[:1]))
        if differ:
            raise WrongResultError(f"{case.name}: {differ} cells of the first image are wrong")


def differing(a: Array, b: Array) -> int:
    """How many cells are not close; image by image, since a large comparison needs several times its memory."""
    if a.shape != b.shape or a.dtype != b.dtype:
        raise WrongResultError(f"{a.dtype}{a.shape} is not {b.dtype}{b.shape}")
    return sum(int(np.sum(~np.isclose(one, other, rtol=1e-4, atol=1e-5))) for one, other in zip(a, b, strict=True))


def best(calls: dict[str, Call], rounds: int, seconds: float) -> dict[str, float]:
    """The shortest time of each, in turns. Who has used up its part of `seconds` is left out of further rounds."""
    times, spent = dict.fromkeys(calls, float("inf")), dict.fromkeys(calls, 0.0)
    for _ in range(rounds):
        for name, call in calls.items():
            if spent[name] < seconds / len(calls):
                time.sleep(PAUSE)
                shortest, used = turn(call)
                times[name], spent[name] = min(times[name], shortest), spent[name] + used
    return times


def turn(call: Call) -> tuple[float, float]:
    """(the shortest call, all of them): calls one after the other until the turn is over. The result dies within its call."""
    shortest, start = float("inf"), time.perf_counter()
    while True:
        before = time.perf_counter()
        call()
        after = time.perf_counter()
        shortest = min(shortest, after - before)
        if after - start > TURN:
            return shortest, after - start


def run(cases: list[Case], rounds: int, seconds: float, console: Console) -> list[report.Row]:
    """All rows, or those that were done before Ctrl-C."""
    rows: list[report.Row] = []
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    gc.disable()  # a collection is nobody's own time
    try:
        with Progress(*columns, console=console) as progress:
            task = progress.add_task("", total=len(cases))
            for case in cases:
                progress.update(task, description=case.name)
                rows.append(measured(case, rounds, seconds))
                gc.collect()
                progress.advance(task)
                if not console.is_terminal:
                    console.print(report.line(rows[-1]), soft_wrap=True, highlight=False)
    except KeyboardInterrupt:
        console.print(f"stopped after {len(rows)} of {len(cases)} rows")
    finally:
        gc.enable()
    return rows


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Pooling beside PyTorch, JAX and ONNX Runtime.")
    parser.add_argument("--only", default="", metavar="SUBSTRING", help='rows with this in their name, such as "avg backward"')
    parser.add_argument("--rounds", type=int, default=7, help="turns of each implementation in a row (default 7)")
    parser.add_argument("--seconds", type=float, default=10, help="a row takes about this long at most (default 10)")
    parser.add_argument("--json", type=Path, help=f"default {shown(RESULTS / 'pooling.json')}, when all rows are run")
    parser.add_argument("--plot", type=Path, help=f"default {shown(RESULTS / 'pooling.png')}, when all rows are run")
    options = parser.parse_args()
    if options.rounds < 1 or options.seconds <= 0:
        parser.error("--rounds and --seconds must be positive")
    return options


def shown(path: Path) -> str:
    return f"{path.parent.parent.name}/{path.parent.name}/{path.name}"


def main() -> int:
    options, console = arguments(), Console()
    if not console.is_terminal:
        console = Console(width=150)  # a file has room
    everything = list(grid())
    cases = [case for case in everything if options.only in case.name]
    if not cases:
        console.print(f"no row has {options.only!r} in its name; one is {everything[0].name!r}", markup=False)
        return 2
    torch.set_num_threads(THREADS)
    set_num_threads(THREADS)
    try:
        rows = run(cases, options.rounds, options.seconds, console)
    except WrongResultError as error:
        console.print(str(error), markup=False, style="red")
        return 1
    if rows:
        console.print(report.table(rows))
        console.print(report.summary(rows))
    whole = len(rows) == len(everything)
    for path, write in ((options.json, report.write_json), (options.plot, report.write_plot)):
        target = path or (RESULTS / f"pooling.{'json' if write is report.write_json else 'png'}" if whole else None)
        if target and rows:
            write(rows, target)
            console.print(f"wrote {target}", markup=False, soft_wrap=True)
    return 0 if len(rows) == len(cases) else 130


if __name__ == "__main__":
    sys.exit(main())
