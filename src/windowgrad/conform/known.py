"""Known differences: a data file that says who, in which versions, what, and where it is written.

A result is known if an entry covers its case and check, and names its kind. An entry no longer holds if enough questions that
it covers were asked and none of them was answered so. The file also names the newest version of each implementation that was
tried. An entry ends before a version only if that version was tried: till then it is about all newer ones too.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from packaging.specifiers import SpecifierSet
from packaging.version import InvalidVersion, Version

from windowgrad.conform.case import CHECKS, GROUPS, OPS, Case
from windowgrad.conform.results import BAD, Report, Result
from windowgrad.conform.rules import RULES
from windowgrad.errors import OptionError

ENOUGH = 8
"""So many questions must have been asked before an entry is said to hold no longer."""
DATA = Path(__file__).with_name("known.toml")


@dataclass(frozen=True)
class Known:
    """One entry. An empty list covers everything; `features` are all needed, those in `without` are all missing."""

    id: str
    implementation: str
    versions: str
    rule: str
    kind: str
    what: str
    reference: str
    ops: tuple[str, ...] = ()
    checks: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    dtypes: tuple[str, ...] = ()
    ranks: tuple[int, ...] = ()
    features: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    error: str = ""
    """A piece of the message, for what is refused."""

    def covers(self, case: Case, check: str) -> bool:
        """Whether the entry speaks of this question."""
        allowed = (
            (self.ops, case.op),
            (self.checks, check),
            (self.groups, case.group),
            (self.dtypes, case.dtype),
            (self.ranks, case.rank),
        )
        return (
            all(not names or any(fnmatch(str(value), str(name)) for name in names) for names, value in allowed)
            and case.features.issuperset(self.features)
            and case.features.isdisjoint(self.without)
        )

    def explains(self, result: Result) -> bool:
        return self.kind == result.kind and self.error in result.message and self.covers(result.case, result.check)


def load(path: Path = DATA) -> tuple[Known, ...]:
    """The entries of a data file; a word that means nothing is an error."""
    found = []
    tried = load_tried(path)
    for number, table in enumerate(tomllib.loads(path.read_text("utf-8"))["known"]):
        lists: dict[str, Any] = {name: tuple(value) if isinstance(value, list) else value for name, value in table.items()}
        try:
            entry = Known(**lists)
            SpecifierSet(entry.versions)
        except (TypeError, ValueError) as error:
            raise OptionError(f"{path.name}: entry {number} ({table.get('id')}): {error}") from None
        check(path, entry)
        check_end(path, entry, tried)
        found.append(entry)
    return tuple(found)


def load_tried(path: Path = DATA) -> dict[str, str]:
    """The newest version of each implementation that the entries were tried with."""
    found: dict[str, str] = tomllib.loads(path.read_text("utf-8")).get("tried", {})
    for name, version in found.items():
        try:
            Version(version)
        except (InvalidVersion, TypeError):
            raise OptionError(f"{path.name}: tried: {name} = {version!r} must be a version") from None
    return found


def check_end(path: Path, entry: Known, tried: dict[str, str]) -> None:
    """Refuse an entry that ends after the newest version that was tried: nobody knows that it ends there."""
    newest = min((Version(v) for name, v in tried.items() if fnmatch(name, entry.implementation)), default=None)
    for part in SpecifierSet(entry.versions):
        if part.operator in (">=", ">", "!="):
            continue
        if part.operator != "<" or newest is None or Version(part.version) > newest:
            raise OptionError(
                f"{path.name}: {entry.id}: versions {entry.versions!r} must not end at {part}: "
                f"the newest version tried is {newest or 'not given'}"
            )


def check(path: Path, entry: Known) -> None:
    right: tuple[tuple[str, Any, Any], ...] = (
        ("kind", (entry.kind,), BAD),
        ("rule", (entry.rule,), RULES),
        ("ops", entry.ops, OPS),
        ("checks", entry.checks, CHECKS),
        ("groups", entry.groups, GROUPS),
    )
    for name, values, allowed in right:
        for value in values:
            if not any(fnmatch(word, value) for word in allowed):
                raise OptionError(f"{path.name}: {entry.id}: {name} {value!r} must be one of {', '.join(allowed)}")


def applying(entries: tuple[Known, ...], name: str, version: str | None) -> tuple[Known, ...]:
    """The entries about the installed version of an implementation."""
    number = parsed(version)
    if number is None:
        return ()
    return tuple(
        e for e in entries if fnmatch(name, e.implementation) and SpecifierSet(e.versions).contains(number, prereleases=True)
    )


def newest_tried(tried: Mapping[str, str], name: str, version: str) -> str | None:
    """The newest version of an implementation that was tried, if the installed one is newer."""
    number = parsed(version)
    if name not in tried or (number is not None and Version(number.public) <= Version(tried[name])):
        return None
    return tried[name]


def parsed(version: str | None) -> Version | None:
    try:
        return Version(version or "")
    except InvalidVersion:
        return None


def explained_by(entries: tuple[Known, ...], result: Result) -> str | None:
    return next((entry.id for entry in entries if entry.explains(result)), None)


def outdated(entries: tuple[Known, ...], report: Report) -> list[Known]:
    """The entries whose questions were asked, enough of them, and none was answered as they say."""
    asked = [result for result in report.results if result.kind != "unsupported"]
    about = applying(entries, report.name, report.version)
    return [
        entry
        for entry in about
        if not any(entry.explains(result) for result in asked)
        and sum(entry.covers(result.case, result.check) for result in asked) >= ENOUGH
    ]
