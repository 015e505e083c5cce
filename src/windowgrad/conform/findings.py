"""What is wrong, each difference once and in the smallest case that shows it."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

from windowgrad.conform.adapter import Implementation, script
from windowgrad.conform.ask import AdapterError, asked, of_adapter, why_not
from windowgrad.conform.case import CHECKS, Case
from windowgrad.conform.expected import expected, shown_all
from windowgrad.conform.known import Known, explained_by
from windowgrad.conform.process import Worker
from windowgrad.conform.results import BAD, Finding, Result
from windowgrad.conform.rules import rule_of
from windowgrad.conform.shrink import shrunk


def findings(
    adapter: Implementation, worker: Worker | None, results: list[Result], entries: tuple[Known, ...], deadline: float
) -> list[Finding]:
    """What is wrong, sorted by what it shows, the new before the known; each with its smallest case, if there is a worker."""
    together: dict[Any, list[Result]] = {}
    for result in results:
        if result.kind in BAD:
            together.setdefault((explained_by(entries, result) or "", result.signature), []).append(result)
    found = []
    for (known, _), same in sorted(together.items(), key=lambda item: item[0]):
        smallest = min(same, key=lambda result: (CHECKS.index(result.check), result.case.size))
        if worker is not None and smallest.together and not known:  # it takes long, and what is known has been seen
            smallest = by_itself(adapter, worker, smallest)
        elif smallest.together:
            smallest = replace(smallest, message="in one program with other cases")
        was_shrunk = worker is not None and time.monotonic() < deadline and smallest.kind != "crashes" and not smallest.together
        if worker is not None and was_shrunk:
            smallest = smaller(adapter, worker, smallest, deadline)
        found.append(finding(adapter, same, smallest, known or None, was_shrunk))
    return found


def by_itself(adapter: Implementation, worker: Worker, result: Result) -> Result:
    """A difference that was found among other cases, asked again by its own program, which is the one that is shown."""
    question = result.number, result.case, result.check
    again = asked(adapter, worker, question, expected(result.case, result.check))
    if again.signature == result.signature:
        return again
    return replace(result, message=f"in one program with other cases; by itself it {again.kind}")


def smaller(adapter: Implementation, worker: Worker, result: Result, deadline: float) -> Result:
    """The same difference in the smallest case that was found."""
    best = result

    def shows(case: Case) -> bool:
        nonlocal best
        if time.monotonic() > deadline or not supports(adapter, case, result.check) or result.check not in case.checks:
            return False
        again = asked(adapter, worker, (result.number, case, result.check), expected(case, result.check))
        if again.signature != result.signature:
            return False
        best = again
        return True

    shrunk(result.case, shows)
    return best


def supports(adapter: Implementation, case: Case, check: str) -> bool:
    try:
        return why_not(adapter, case, check) is None
    except AdapterError:
        return False


def finding(adapter: Implementation, same: list[Result], smallest: Result, known: str | None, was_shrunk: bool) -> Finding:
    case, check = smallest.case, smallest.check
    right = expected(case, check)
    rule = rule_of(case, check, smallest.kind, smallest.what)
    try:
        call = of_adapter(adapter, "call", str, case)
    except AdapterError as error:
        call = f"({error})"
    try:
        text = script(of_adapter(adapter, "program", str, case, check), shown_all(right))
    except AdapterError as error:
        text = f"# {error}\n"
    return Finding(same, smallest, rule, call, text, right, known, was_shrunk)
