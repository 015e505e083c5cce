"""Random calls until something breaks: `python tests/fuzz.py memory` and `python tests/fuzz.py api`.

`memory` computes every operator in guarded memory, on geometries that nobody thinks of, and compares the results with a
reference (fuzz_cases, fuzz_checks). `api` calls every public function with right and wrong arguments (fuzz_api). Each finding
is printed with the command that repeats it. The status is 1 if anything was found.
"""

from __future__ import annotations

import argparse
import os
import secrets
import sys
import time
from collections.abc import Callable
from typing import Any

from fuzz_workers import Run

Describe = Callable[[int], str]


def memory(seed: int, only: str | None) -> tuple[Any, Describe]:
    import fuzz_cases
    import fuzz_checks

    fuzz_checks.prepare()
    return (
        lambda number: fuzz_checks.check_many(fuzz_cases.draw(seed, number, only)),
        lambda number: str(fuzz_cases.draw(seed, number, only)),
    )


def api(seed: int, only: str | None) -> tuple[Any, Describe]:
    import fuzz_api

    fuzz_api.prepare()
    return lambda number: fuzz_api.check(seed, number, only), lambda number: fuzz_api.describe(seed, number, only)


KINDS: dict[str, Callable[[int, str | None], tuple[Any, Describe]]] = {"memory": memory, "api": api}
MOST_SHOWN = 100


def arguments(given: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python tests/fuzz.py", description="Random calls until something breaks.")
    parser.add_argument("kind", choices=KINDS, help="memory: operators in guarded memory; api: arguments of every kind")
    parser.add_argument("--cases", type=int, default=1000, help="how many cases (default 1000)")
    parser.add_argument("--seed", type=int, help="where the cases come from (default: a new one, which is printed)")
    parser.add_argument("--case", type=int, help="only the case with this number, in this process")
    parser.add_argument("--only", help="only this operator, or function")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="end after so many seconds")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1, help="processes (default: one per CPU)")
    return parser.parse_args(given)


class Screen:
    """Findings as they come, and now and then how far it is."""

    def __init__(self, told: argparse.Namespace, describe: Describe) -> None:
        self.told, self.describe = told, describe
        self.shown = 0
        self.began = self.last = time.monotonic()

    def finding(self, number: int, text: str) -> None:
        self.shown += 1
        if self.shown <= MOST_SHOWN:
            only = f" --only {self.told.only}" if self.told.only else ""
            again = f"python tests/fuzz.py {self.told.kind} --seed {self.told.seed} --case {number}{only}"
            print(f"FOUND {text}\n  {self.describe(number)}\n  {again}", flush=True)

    def progress(self, done: int, found: int) -> None:
        now = time.monotonic()
        if now - self.last >= 10:
            self.last = now
            print(f"{done} of {self.told.cases} cases, {found} findings, {now - self.began:.0f} s", flush=True)


def main(given: list[str] | None = None) -> int:
    told = arguments(given)
    if told.seed is None:
        told.seed = secrets.randbits(32)
    print(f"{told.kind} seed {told.seed}", flush=True)
    check, describe = KINDS[told.kind](told.seed, told.only)
    if told.case is not None:
        print(describe(told.case), flush=True)
        wrong = check(told.case)
        print("\n".join(wrong) or "all is well")
        return 1 if wrong else 0
    screen = Screen(told, describe)
    run = Run(check, told.cases, max(1, min(told.workers, told.cases)), told.seconds, screen.finding, screen.progress)
    findings = run.run()
    print(f"{run.done()} cases, {len(findings)} findings, seed {told.seed}, {time.monotonic() - screen.began:.0f} s")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
