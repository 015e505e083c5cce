"""Random calls until something breaks: `python tests/fuzz.py memory`, or `api`, or `models`, or several of them.

`memory` computes every operator in guarded memory, on geometries that nobody thinks of, and compares the results with a
reference (fuzz_cases, fuzz_checks). `api` calls every public function with right and wrong arguments (fuzz_api). `models`
loads and runs ONNX models with mistakes (fuzz_models). Each finding is printed with the command that repeats it. The status is
1 if anything was found.
"""

from __future__ import annotations

import argparse
import os
import re
import secrets
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

from support.fuzz_workers import Run

Describe = Callable[[int], str]


def memory(seed: int, only: str | None) -> tuple[Any, Describe]:
    from support import fuzz_cases, fuzz_checks

    fuzz_checks.prepare()
    return (
        lambda number: fuzz_checks.check_many(fuzz_cases.draw(seed, number, only)),
        lambda number: str(fuzz_cases.draw(seed, number, only)),
    )


def api(seed: int, only: str | None) -> tuple[Any, Describe]:
    from support import fuzz_api

    fuzz_api.prepare()
    return lambda number: fuzz_api.check(seed, number, only), lambda number: fuzz_api.describe(seed, number, only)


def models(seed: int, only: str | None) -> tuple[Any, Describe]:
    from support import fuzz_models

    fuzz_models.prepare()
    return lambda number: fuzz_models.check(seed, number, only), lambda number: fuzz_models.describe(seed, number, only)


KINDS: dict[str, Callable[[int, str | None], tuple[Any, Describe]]] = {"memory": memory, "api": api, "models": models}
MOST_ALIKE = 5
"""How many findings that read alike are shown; the others are counted."""


def arguments(given: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python tests/fuzz.py", description="Random calls until something breaks.")
    parser.add_argument(
        "kinds",
        nargs="+",
        choices=KINDS,
        help="memory: operators in guarded memory; api: arguments of any kind; models: ONNX files with mistakes",
    )
    parser.add_argument("--cases", type=int, default=1000, help="how many cases (default 1000)")
    parser.add_argument("--seed", type=int, help="where the cases come from (default: a new one, which is printed)")
    parser.add_argument("--case", type=int, help="only the case with this number, in this process")
    parser.add_argument("--only", help="only this operator, or function")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="end after so many seconds")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1, help="processes (default: one per CPU)")
    told = parser.parse_args(given)
    told.seed = secrets.randbits(32) if told.seed is None else told.seed
    return told


class Screen:
    """Findings as they come, and now and then how far it is."""

    def __init__(self, told: argparse.Namespace, describe: Describe) -> None:
        self.told, self.describe = told, describe
        self.alike: Counter[str] = Counter()
        self.began = self.last = time.monotonic()

    def finding(self, number: int, text: str) -> None:
        kind = re.sub(r": .*", "", text) if "result " in text else re.sub(r"[-+.\d]+", "#", text)[:70]
        self.alike[kind] += 1
        if self.alike[kind] <= MOST_ALIKE:
            only = f" --only {self.told.only}" if self.told.only else ""
            again = f"python tests/fuzz.py {self.told.kinds[0]} --seed {self.told.seed} --case {number}{only}"
            print(f"FOUND {text}\n  {self.describe(number)}\n  {again}", flush=True)

    def progress(self, done: int, found: int) -> None:
        now = time.monotonic()
        if now - self.last >= 10:
            self.last = now
            print(f"{done} of {self.told.cases} cases, {found} findings, {now - self.began:.0f} s", flush=True)

    def end(self, done: int, found: int) -> None:
        for kind, count in self.alike.most_common():
            print(f"{count:6} × {kind}")
        seconds = time.monotonic() - self.began
        print(f"{self.told.kinds[0]}: {done} cases, {found} findings, seed {self.told.seed}, {seconds:.0f} s", flush=True)


def one(told: argparse.Namespace, check: Any, describe: Describe) -> int:
    """The case that was asked for."""
    print(describe(told.case), flush=True)
    wrong = check(told.case)
    print("\n".join(wrong) or "nothing found")
    return 1 if wrong else 0


def main(given: list[str] | None = None) -> int:
    told = arguments(given)
    if len(told.kinds) > 1:  # each in a process of its own, as they change it
        rest = [argument for argument in given or sys.argv[1:] if argument not in told.kinds]
        commands = [[sys.executable, __file__, kind, *rest, "--seed", str(told.seed)] for kind in told.kinds]
        return max(subprocess.run(command).returncode for command in commands)
    print(f"{told.kinds[0]}: seed {told.seed}", flush=True)
    check, describe = KINDS[told.kinds[0]](told.seed, told.only)
    if told.case is not None:
        return one(told, check, describe)
    screen = Screen(told, describe)
    run = Run(check, told.cases, max(1, min(told.workers, told.cases)), told.seconds, screen.finding, screen.progress)
    findings = run.run()
    screen.end(run.done(), len(findings))
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
