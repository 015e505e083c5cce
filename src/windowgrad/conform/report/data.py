"""The reports as plain data: what `--json` writes, and what every other report can be made from."""

from __future__ import annotations

import datetime
import platform
from importlib.metadata import version
from typing import Any

from windowgrad.conform.case import plain
from windowgrad.conform.known import Known, outdated
from windowgrad.conform.results import KINDS, Finding, Report, Result
from windowgrad.conform.rules import RULES, rule_of
from windowgrad.conform.text import all_printable

FORMAT = 1


def as_data(
    reports: list[Report], entries: tuple[Known, ...], settings: dict[str, Any], seconds: float, interrupted: str = ""
) -> dict[str, Any]:
    """Everything, in dictionaries and lists. Cells that are no numbers in JSON are words: "nan", "inf", "1/3".

    No string has a character that a file, XML or a terminal could not take.
    """
    by_id = {entry.id: entry for entry in entries}
    data = {
        "format": FORMAT,
        "date": datetime.date.today().isoformat(),
        "settings": settings,
        "versions": versions(),
        "seconds": round(seconds, 1),
        "interrupted": interrupted or None,
        "rules": [{"title": title, "anchor": f"docs/semantics.md{anchor}"} for title, anchor in RULES.items()],
        "cases": cases_of(reports),
        "implementations": [implementation(report, by_id, entries) for report in reports],
        "new": sum(len(report.new) for report in reports),
    }
    found: dict[str, Any] = all_printable(data)
    return found


def versions() -> dict[str, str]:
    """On what the run was made, besides the implementations themselves."""
    packages = {name: version(name.lower()) for name in ("windowgrad", "NumPy")}
    return packages | {"Python": platform.python_version(), platform.system(): platform.machine()}


def cases_of(reports: list[Report]) -> list[dict[str, Any]]:
    cases = {result.number: result.case for report in reports for result in report.results}
    return [{"case": number} | cases[number].as_json() for number in sorted(cases)]


def implementation(report: Report, by_id: dict[str, Known], entries: tuple[Known, ...]) -> dict[str, Any]:
    places = {id(result): place for place, found in enumerate(report.findings) for result in found.results}
    return {
        "name": report.name,
        "title": report.title,
        "version": report.version,
        "installed": report.version is not None,
        "seconds": round(report.seconds, 1),
        "finished": report.finished,
        "asked": report.asked,
        "left_out": report.left_out,
        "newest_tried": report.untried,
        "counts": {kind: report.count(kind) for kind in KINDS},
        "matrix": matrix(report),
        "results": [result_data(result, places.get(id(result))) for result in report.results],
        "findings": [finding_data(finding, by_id) for finding in report.findings],
        "outdated": [{"id": entry.id, "what": entry.what} for entry in outdated(entries, report)],
    }


def matrix(report: Report) -> dict[str, dict[str, int]]:
    """How many checks of each rule ended how; a difference counts for the rule that it breaks."""
    broken = {id(result): finding.rule for finding in report.findings for result in finding.results}
    table: dict[str, dict[str, int]] = {}
    for result in report.results:
        rule = broken.get(id(result)) or rule_of(result.case, result.check)
        row = table.setdefault(rule, dict.fromkeys(KINDS, 0))
        row[result.kind] += 1
    return table


def result_data(result: Result, finding: int | None) -> dict[str, Any]:
    data: dict[str, Any] = {"case": result.number, "check": result.check, "kind": result.kind}
    data["rule"] = rule_of(result.case, result.check, result.kind, result.what)
    if result.message:
        data["message"] = result.message
    if finding is not None:
        data["finding"] = finding
    return data


def finding_data(finding: Finding, by_id: dict[str, Known]) -> dict[str, Any]:
    smallest, difference = finding.smallest, finding.smallest.difference
    entry = by_id.get(finding.known or "")
    data: dict[str, Any] = {
        "kind": smallest.kind,
        "rule": finding.rule,
        "anchor": f"docs/semantics.md{RULES[finding.rule]}",
        "check": smallest.check,
        "op": smallest.case.op,
        "call": finding.call,
        "case": smallest.case.as_json(),
        "shrunk": finding.was_shrunk,
        "given": given(smallest),
        "expected": {name: plain(array) for name, array in finding.expected.items()},
        "message": smallest.message,
        "script": finding.script,
        "cases": sorted({result.number for result in finding.results}),
        "known": None if entry is None else {"id": entry.id, "what": entry.what, "reference": entry.reference},
    }
    if difference is not None:
        texts = {"expected": difference.expected_text, "got": difference.got_text}
        data["difference"] = {"what": difference.what, "output": difference.output} | texts
        data["got"] = {} if difference.got is None else {difference.output: difference.got}
    return data


def given(result: Result) -> dict[str, Any]:
    """What came in besides the arrays of the case: the gradient, or the tangents."""
    if result.check == "gradient":
        return {"g": plain(result.case.gradient)}
    return {name: plain(array) for name, array in result.case.tangents.items()} if result.check == "tangent" else {}
