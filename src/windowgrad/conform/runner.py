"""A run: every implementation is asked every case in a process of its own, and what differs is made small."""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from windowgrad.conform.adapter import Implementation, version
from windowgrad.conform.ask import Answers, Question, results, unsupported
from windowgrad.conform.case import CHECKS, Case
from windowgrad.conform.cases import in_turn
from windowgrad.conform.expected import expected
from windowgrad.conform.findings import findings
from windowgrad.conform.known import Known, applying, newest_tried
from windowgrad.conform.process import Limits, Worker
from windowgrad.conform.results import Report, Result
from windowgrad.conform.rules import rule_of
from windowgrad.conform.stop import Stop, StoppedError

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
    most: int | None = None
    """At most so many checks of each implementation, 0 for all of them; None is what each adapter says."""
    tried: Mapping[str, str] = field(default_factory=dict)
    """The newest version of each implementation that the known differences were tried with."""

    def questions(self) -> list[Question]:
        return [
            (number, case, check)
            for number, case in enumerate(self.cases)
            for check in case.checks
            if check in self.checks and (not self.rules or rule_of(case, check) in self.rules)
        ]


def run(
    adapters: Sequence[Implementation],
    plan: Plan,
    progress: Progress = lambda name, asked: None,
    stop: Stop | None = None,
) -> list[Report]:
    """One report per adapter, in their order. As many processes work at a time as there are cores; the slow ones start first,
    and windowgrad on arrays of others last, when the kernels are compiled. After `stop` the reports hold what is known then."""
    if stop is None:
        with Stop() as own:
            return run(adapters, plan, progress, own)
    questions = plan.questions()
    right: Answers = {}
    for number, case, check in questions:
        if stop.reason:
            break
        right[number, check] = expected(case, check)
    with ThreadPoolExecutor(max_workers=os.cpu_count() or 1) as pool:
        order = sorted(adapters, key=lambda adapter: (adapter.name.startswith("windowgrad."), adapter.most is None))
        jobs = {id(adapter): pool.submit(examine, adapter, plan, questions, right, progress, stop) for adapter in order}
        try:
            return [jobs[id(adapter)].result() for adapter in adapters]
        except BaseException:
            stop.set("an error")  # so that the others end too
            raise


def examine(
    adapter: Implementation, plan: Plan, questions: list[Question], right: Answers, progress: Progress, stop: Stop
) -> Report:
    """Ask one implementation everything, or what there is time for."""
    report = Report(adapter.name, adapter.title, version(adapter))
    if report.version is None:
        return report
    start = time.monotonic()
    report.untried = newest_tried(plan.tried, report.name, report.version)
    entries = applying(plan.known, report.name, report.version)
    try:
        stop.check()
        some, report.results, report.left_out = chosen(adapter, plan.most, questions)
        progress(adapter.name, len(questions) - len(some))
        with Worker(f"import numpy as np\n{adapter.imports}\n", plan.limits, stop) as worker:
            for result in results(adapter, worker, some, right, lambda count: progress(adapter.name, count)):
                report.results.append(result)
            put_in_order(report)
            report.findings = findings(adapter, worker, report.results, entries, time.monotonic() + plan.shrinking)
    except StoppedError:
        report.finished = False
        put_in_order(report)
        report.findings = findings(adapter, None, report.results, entries, 0)
    report.seconds = time.monotonic() - start
    return report


def put_in_order(report: Report) -> None:
    report.results.sort(key=lambda result: (result.number, CHECKS.index(result.check)))


def chosen(adapter: Implementation, most: int | None, questions: list[Question]) -> tuple[list[Question], list[Result], int]:
    """The questions to ask, the results of those that it does not support, and how many are left out.

    All are asked; of an implementation that takes long over each, a few of every sort.
    """
    told: list[Result] = []
    sorts: dict[Any, list[Question]] = {}
    for question in questions:
        _, case, check = question
        result = unsupported(adapter, question)
        if result is None:
            sorts.setdefault((case.op, case.group, check, "dilation" in case.features), []).append(question)
        else:
            told.append(result)
    count = sum(map(len, sorts.values()))
    cap = (adapter.most if most is None else most) or count
    few = itertools.islice(in_turn(*map(iter, sorts.values())), cap)
    some = sorted(few, key=lambda question: (question[0], CHECKS.index(question[2])))
    return some, told, count - len(some)
