"""Checks of `conform` as tests of pytest: one for each implementation, operator and rule.

An implementation is asked when the first of its tests runs, about the operators whose tests were selected.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from windowgrad.conform.adapter import Implementation, version
from windowgrad.conform.case import OPS
from windowgrad.conform.cases import cases
from windowgrad.conform.command import CASES, implementations, selected
from windowgrad.conform.known import Known, load, load_tried
from windowgrad.conform.results import Finding, Report, Result
from windowgrad.conform.rules import RULES, rule_of
from windowgrad.conform.runner import Plan, run
from windowgrad.errors import OptionError


def items_of(session: pytest.Session, config: pytest.Config) -> Iterator[pytest.Item]:
    """The tests of all implementations that the command line names."""
    named = config.getoption("--windowgrad-conform")
    count, seed = config.getoption("--windowgrad-cases") or CASES, config.getoption("--windowgrad-seed")
    own = [name for name in named if ":" in name]
    try:
        adapters = implementations([name for name in named if name not in own], own)
        ops, checks, rules = selected(config.getoption("--windowgrad-only"))
    except OptionError as error:
        raise pytest.UsageError(f"--windowgrad-conform: {error}") from None
    plan = Plan(cases(count, seed, ops), checks, rules, known=load(), tried=load_tried())
    order = {title: place for place, title in enumerate(RULES)}
    groups = {(case.op, rule_of(case, check)) for _, case, check in plan.questions()}
    for adapter in adapters:
        if version(adapter) is None:
            raise pytest.UsageError(f"--windowgrad-conform: {adapter.name} is not installed")
        asked = Asked.from_parent(session, name=adapter.name, nodeid=f"windowgrad-conform/{adapter.name}")
        asked.adapter, asked.plan = adapter, plan
        for op, rule in sorted(groups, key=lambda group: (OPS.index(group[0]), order[group[1]])):
            item = Checks.from_parent(asked, name=f"{op}[{rule}]")
            item.op, item.rule = op, rule
            item.add_marker("windowgrad_conform")
            yield item


class Asked(pytest.Collector):
    """One implementation, and what it answered."""

    adapter: Implementation
    plan: Plan
    found: Report | None = None

    def collect(self) -> list[pytest.Item]:
        return []

    def report(self) -> Report:
        if self.found is None:
            wanted = {item.op for item in self.session.items if isinstance(item, Checks) and item.parent is self}
            plan = Plan(
                [case for case in self.plan.cases if case.op in wanted],
                self.plan.checks,
                self.plan.rules,
                known=self.plan.known,
                tried=self.plan.tried,
            )
            (self.found,) = run([self.adapter], plan)
        return self.found


class Checks(pytest.Item):
    """The checks of one operator that are about one rule: they fail together, with the smallest case of each new difference."""

    op: str
    rule: str

    def runtest(self) -> None:
        assert isinstance(self.parent, Asked)
        report, plan = self.parent.report(), self.parent.plan
        mine = [result for result in report.results if self.is_about(result)]
        findings = [finding for finding in report.findings if any(map(self.is_about, finding.results))]
        if new := [finding for finding in findings if finding.known is None]:
            raise DifferenceError("\n\n".join(map(described, new)))
        if findings:
            pytest.xfail("; ".join(dict.fromkeys(known_words(plan.known, finding) for finding in findings)))
        if all(result.kind == "unsupported" for result in mine):
            reasons = dict.fromkeys(result.message for result in mine)
            pytest.skip("; ".join(reasons) or "left out: it is asked a sample only")

    def is_about(self, result: Result) -> bool:
        return result.case.op == self.op and rule_of(result.case, result.check) == self.rule

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        return str(excinfo.value) if isinstance(excinfo.value, DifferenceError) else super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[str, None, str]:
        return self.parent.nodeid if self.parent else "", None, f"{self.parent.name if self.parent else ''}: {self.name}"


class DifferenceError(AssertionError):
    """A difference that no entry explains."""


def described(finding: Finding) -> str:
    """A difference: the call, what came out and what should have, and a program that shows it."""
    smallest = finding.smallest
    difference = smallest.difference
    what = f"expected {difference.expected_text}, got {difference.got_text}" if difference else smallest.message
    head = f"{smallest.kind} in the {smallest.check}: {finding.call}\n{what} (rule {finding.rule})"
    return f"{head}\n\nThis program shows it:\n\n{finding.script}"


def known_words(entries: tuple[Known, ...], finding: Finding) -> str:
    entry = next(entry for entry in entries if entry.id == finding.known)
    return f"known ({entry.id}): {entry.what}"
