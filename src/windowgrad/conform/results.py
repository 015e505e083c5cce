"""What a run found: one result per case and check, and one finding per kind of difference with its smallest case."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from windowgrad.arguments import counted
from windowgrad.conform.case import Case
from windowgrad.conform.expected import Difference
from windowgrad.tables import table

KINDS = ("agrees", "differs", "refuses", "crashes", "unsupported")
BAD = ("differs", "refuses", "crashes")


@dataclass(frozen=True, eq=False)
class Result:
    """The answer to one check of one case. `message` is the error, how it crashed, or why it is not supported."""

    case: Case
    number: int
    check: str
    kind: str
    difference: Difference | None = None
    message: str = ""
    together: bool = False
    """Whether it was computed by one program with other cases."""

    @property
    def what(self) -> str:
        return self.difference.what if self.difference else ""

    @property
    def signature(self) -> tuple[str, ...]:
        """Results with the same signature show the same thing, as far as can be told from outside.

        What is refused is known by the error, whatever the cells and whichever check ran into it first.
        """
        if self.kind == "refuses":
            return self.case.op, self.kind, headline(self.message)
        group = self.case.group if self.what == "value" else ""
        return self.case.op, self.kind, headline(self.message), self.check, self.what, group


def headline(message: str) -> str:
    """The first words of an error, without the numbers in it."""
    return re.sub(r"\d+", "#", message.partition("\n")[0])[:70]


@dataclass(eq=False)
class Finding:
    """Results that show the same thing, and the smallest case that shows it."""

    results: list[Result]
    smallest: Result
    rule: str
    call: str
    script: str
    expected: Any
    known: str | None = None
    """The identifier of the entry among the known differences, or None: it is new."""
    was_shrunk: bool = False

    @property
    def described(self) -> str:
        return f"{self.smallest.kind}, {self.rule}: {self.call}"

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        lines = [("kind", self.smallest.kind), ("rule", self.rule), ("check", self.smallest.check), ("call", self.call)]
        lines += [("known", self.known or "no: it is new"), ("shown by", counted("case", len(self.results)))]
        lines += [("message", self.smallest.message)] * bool(self.smallest.message)
        return table(self.smallest.case.op, lines)


@dataclass(eq=False)
class Report:
    """One implementation. `version` is None if it is not installed."""

    name: str
    title: str
    version: str | None
    results: list[Result] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    seconds: float = 0.0
    left_out: int = 0
    """How many checks that it supports were not asked, because it takes long over each."""
    finished: bool = True
    """Whether the run came to its end."""
    untried: str | None = None
    """The newest version that the known differences were tried with, if the installed one is newer."""

    @property
    def asked(self) -> int:
        return len(self.results) - self.count("unsupported")

    def count(self, kind: str) -> int:
        return sum(result.kind == kind for result in self.results)

    @property
    def new(self) -> list[Finding]:
        return [finding for finding in self.findings if finding.known is None]

    def _repr_html_(self) -> str:
        """What a notebook shows: how often it agrees, and what differs."""
        counts = ", ".join(f"{self.count(kind)} {kind}" for kind in KINDS if self.count(kind))
        lines = [("version", self.version or "not installed"), ("checks", counts or "none"), ("seconds", f"{self.seconds:.3g}")]
        lines += [(finding.known or "new", finding.described) for finding in self.findings]
        return table(self.title, lines)
