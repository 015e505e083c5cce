"""A run: every implementation is asked every case in a process of its own, and what differs is made small."""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from windowgrad.conform.adapter import Implementation, script, version
from windowgrad.conform.answers import array_of
from windowgrad.conform.case import CHECKS, Array, Case
from windowgrad.conform.cases import in_turn
from windowgrad.conform.expected import compared, expected, shown_all
from windowgrad.conform.known import Known, applying, explained_by
from windowgrad.conform.process import Limits, Worker
from windowgrad.conform.results import BAD, Finding, Report, Result
from windowgrad.conform.rules import rule_of
from windowgrad.conform.shrink import shrunk

Answers = dict[tuple[int, str], dict[str, Array]]
Question = tuple[int, Case, str]
Progress = Callable[[str, int], None]


@dataclass(frozen=True)
class Plan:
    """What is asked: the cases, of each the checks that are wanted, and how long a process may take."""

    cases: Sequence[Case]
    checks: Sequence[str]
    rules: Sequence[str] = ()
    limits: Limits = field(default_factory=Limits)
    known: tuple[Known, ...] = ()
    shrinking: float = 10
    """For how many seconds the differences of one implementation are made smaller."""

    def questions(self) -> list[Question]:
        return [
            (number, case, check)
            for number, case in enumerate(self.cases)
            for check in case.checks
            if check in self.checks and (not self.rules or rule_of(case, check) in self.rules)
        ]


def run(adapters: Sequence[Implementation], plan: Plan, progress: Progress = lambda name, asked: None) -> list[Report]:
    """One report per adapter, in their order. As many processes work at a time as there are cores; the slow ones start first,
    and windowgrad on arrays of others last, when the kernels are compiled."""
    questions = plan.questions()
    right = {(number, check): expected(case, check) for number, case, check in questions}
    with ThreadPoolExecutor(max_workers=os.cpu_count() or 1) as pool:
        order = sorted(adapters, key=lambda adapter: (adapter.name.startswith("windowgrad."), adapter.most is None))
        jobs = {adapter.name: pool.submit(examine, adapter, plan, questions, right, progress) for adapter in order}
        return [jobs[adapter.name].result() for adapter in adapters]


def examine(adapter: Implementation, plan: Plan, questions: list[Question], right: Answers, progress: Progress) -> Report:
    """Ask one implementation everything."""
    report = Report(adapter.name, adapter.title, version(adapter))
    if report.version is None:
        return report
    start = time.monotonic()
    entries = applying(plan.known, report.name, report.version)
    with Worker(f"import numpy as np\n{adapter.imports}\n", plan.limits) as worker:
        for number, case, check in chosen(adapter, questions):
            report.results.append(asked(adapter, worker, number, case, check, right[number, check]))
            progress(adapter.name, 1)
        deadline = time.monotonic() + plan.shrinking
        report.findings = findings(adapter, worker, report.results, entries, deadline)
    report.seconds = time.monotonic() - start
    return report


def chosen(adapter: Implementation, questions: list[Question]) -> list[Question]:
    """All questions; of an implementation that takes long over each, a few of every sort that it supports."""
    if adapter.most is None:
        return questions
    sorts: dict[Any, list[Question]] = {}
    for question in questions:
        _, case, check = question
        if adapter.supports(case, check) is None:
            sorts.setdefault((case.op, case.group, check, "dilation" in case.features), []).append(question)
    few = itertools.islice(in_turn(*map(iter, sorts.values())), adapter.most)
    return sorted(few, key=lambda question: (question[0], CHECKS.index(question[2])))


def asked(adapter: Implementation, worker: Worker, number: int, case: Case, check: str, right: dict[str, Array]) -> Result:
    why = adapter.supports(case, check)
    if why is not None:
        return Result(case, number, check, "unsupported", message=why)
    answer = worker.ask(adapter.program(case, check))
    if "crash" in answer:
        return Result(case, number, check, "crashes", message="; ".join([answer["crash"], *answer.get("said", [])]))
    if "error" in answer:
        return Result(case, number, check, "refuses", message=answer["error"])
    difference = compared(case, check, right, [array_of(part) for part in answer["arrays"]])
    return Result(case, number, check, "differs" if difference else "agrees", difference)


def findings(
    adapter: Implementation, worker: Worker, results: list[Result], entries: tuple[Known, ...], deadline: float
) -> list[Finding]:
    """What is wrong, sorted by what it shows, the new before the known; each with its smallest case."""
    together: dict[Any, list[Result]] = {}
    for result in results:
        if result.kind in BAD:
            together.setdefault((explained_by(entries, result) or "", result.signature), []).append(result)
    found = []
    for (known, _), same in sorted(together.items(), key=lambda item: item[0]):
        smallest = min(same, key=lambda result: (CHECKS.index(result.check), result.case.size))
        was_shrunk = time.monotonic() < deadline and smallest.kind != "crashes"
        if was_shrunk:
            smallest = smaller(adapter, worker, smallest, deadline)
        found.append(finding(adapter, same, smallest, known or None, was_shrunk))
    return found


def smaller(adapter: Implementation, worker: Worker, result: Result, deadline: float) -> Result:
    """The same difference in the smallest case that was found."""
    best = result

    def shows(case: Case) -> bool:
        nonlocal best
        if time.monotonic() > deadline or adapter.supports(case, result.check) is not None or result.check not in case.checks:
            return False
        again = asked(adapter, worker, result.number, case, result.check, expected(case, result.check))
        if again.signature != result.signature:
            return False
        best = again
        return True

    shrunk(result.case, shows)
    return best


def finding(adapter: Implementation, same: list[Result], smallest: Result, known: str | None, was_shrunk: bool) -> Finding:
    case, check = smallest.case, smallest.check
    right = expected(case, check)
    rule = rule_of(case, check, smallest.kind, smallest.what)
    text = script(adapter, case, check, shown_all(right))
    return Finding(same, smallest, rule, adapter.call(case), text, right, known, was_shrunk)
