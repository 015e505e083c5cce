"""`windowgrad conform`: from the words of the command line to a run and its reports."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

from rich.console import Console

from windowgrad.conform.adapter import Implementation
from windowgrad.conform.adapters import ADAPTERS
from windowgrad.conform.case import CHECKS, OPS
from windowgrad.conform.cases import cases
from windowgrad.conform.known import load
from windowgrad.conform.process import Limits
from windowgrad.conform.report.data import as_data
from windowgrad.conform.report.file import write
from windowgrad.conform.report.html import write_html
from windowgrad.conform.report.junit import as_junit
from windowgrad.conform.report.terminal import Bar, show
from windowgrad.conform.rules import RULES
from windowgrad.conform.runner import Plan, run
from windowgrad.errors import OptionError

CASES = 580


@dataclass(frozen=True)
class Request:
    """What the command was asked for."""

    names: Sequence[str] = ()
    adapters: Sequence[str] = ()
    only: Sequence[str] = ()
    cases: int = CASES
    seed: int = 0
    json: Path | None = None
    junit: Path | None = None
    html: Path | None = None
    limits: Limits = field(default_factory=Limits)


def conform(request: Request, console: Console) -> int:
    """Run, write the reports, and give the exit status: 0 if nothing new differs and all that was named is there, else 1."""
    data = examined(request, console)
    show(data, console)
    if request.json is not None:
        write(request.json, json.dumps(data, indent=1, allow_nan=False) + "\n")
    if request.junit is not None:
        write(request.junit, as_junit(data))
    if request.html is not None:
        write_html(request.html, data)
    named = bool(request.names or request.adapters)
    missing = named and not all(implementation["installed"] for implementation in data["implementations"])
    return 1 if data["new"] or missing else 0


def examined(request: Request, console: Console) -> dict[str, Any]:
    """The run as data."""
    adapters = implementations(request.names, request.adapters)
    ops, checks, rules = selected(request.only)
    entries = load()
    plan = Plan(cases(request.cases, request.seed, ops), checks, rules, request.limits, entries)
    start = time.monotonic()
    with Bar(console, len(plan.questions()) * len(adapters)) as bar:
        reports = run(adapters, plan, bar.advance)
    settings = {"cases": request.cases, "seed": request.seed, "only": list(request.only)}
    return as_data(reports, entries, settings, time.monotonic() - start)


def implementations(names: Sequence[str], own: Sequence[str]) -> list[Implementation]:
    """Those asked for by name and those of your own; all that are known if none is asked for."""
    known = {adapter.name: adapter for adapter in ADAPTERS}
    for name in names:
        if name not in known:
            raise OptionError(f"implementation={name!r}: must be one of {', '.join(known)}, or --adapter module:Class")
    chosen = [known[name] for name in names] + [loaded(text) for text in own]
    return chosen or list(ADAPTERS)


def loaded(text: str) -> Implementation:
    """The adapter `module:Class`; the folder the command is called in counts too."""
    module, colon, name = text.partition(":")
    if not (module and colon and name):
        raise OptionError(f"adapter={text!r}: must be module:Class")
    sys.path.insert(0, str(Path.cwd()))
    try:
        found = getattr(import_module(module), name)()
    except (ImportError, AttributeError, TypeError) as error:
        raise OptionError(f"adapter={text!r}: {error}") from None
    finally:
        sys.path.pop(0)
    if not isinstance(found, Implementation):
        raise OptionError(
            f"adapter={text!r}: lacks some of name, title, package, requires, imports, most, supports, call, program"
        )
    return found


def selected(only: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
    """(operators, checks, rules) of `--only` words: each is an operator, a check, or the start of a rule's title."""
    ops = tuple(op for op in OPS if op in only)
    checks = tuple(check for check in CHECKS if check in only)
    rules: list[str] = []
    for word in only:
        if word in OPS or word in CHECKS:
            continue
        matching = [title for title in RULES if word.lower() in title.lower()]
        if not matching:
            raise OptionError(
                f"only={word!r}: must be an operator ({', '.join(OPS)}), {', '.join(CHECKS)}, or a rule such as NaN"
            )
        rules += matching
    return ops or OPS, checks or CHECKS, tuple(rules)
