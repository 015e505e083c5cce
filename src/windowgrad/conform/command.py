"""`windowgrad conform`: from the words of the command line to a run and its reports."""

from __future__ import annotations

import json
import signal
import sys
import time
from collections.abc import Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

from rich.console import Console

from windowgrad.conform.adapter import Implementation, Together
from windowgrad.conform.adapters import ADAPTERS
from windowgrad.conform.case import CHECKS, OPS
from windowgrad.conform.cases import cases
from windowgrad.conform.known import load, load_tried
from windowgrad.conform.process import Limits
from windowgrad.conform.report.data import as_data
from windowgrad.conform.report.file import write
from windowgrad.conform.report.html import as_html
from windowgrad.conform.report.junit import as_junit
from windowgrad.conform.report.terminal import Bar, show
from windowgrad.conform.rules import RULES
from windowgrad.conform.runner import Plan, run
from windowgrad.conform.stop import Stop, on_signals
from windowgrad.errors import OptionError
from windowgrad.saving import check_place

CASES = 100 * len(OPS)
"""Enough for all rows that cover pairs, which are about 90 of a function, and some random ones."""


@dataclass(frozen=True)
class Request:
    """The options of the command."""

    names: Sequence[str] = ()
    adapters: Sequence[str] = ()
    only: Sequence[str] = ()
    cases: int = CASES
    seed: int = 0
    json: Path | None = None
    junit: Path | None = None
    html: Path | None = None
    limits: Limits = field(default_factory=Limits)
    most: int | None = None

    @property
    def reports(self) -> dict[str, Path]:
        """The files to write, by the name of the option."""
        named = {"json": self.json, "junit": self.junit, "html": self.html}
        return {option: path for option, path in named.items() if path is not None}


def conform(request: Request, console: Console) -> int:
    """Run, write the reports, and give the exit status: 0 if nothing new differs and all that was named is there, else 1.

    A run that SIGINT, SIGTERM or SIGHUP ends is reported as far as it came; its status is 128 and the number of the signal.
    """
    check_reports(request)
    with Stop() as stop, on_signals(stop):
        data = examined(request, console, stop)
        failed = write_reports(request, data)
        with suppress(OSError) if data["interrupted"] else nullcontext():  # SIGHUP says that the terminal is gone
            show(data, console)
    if failed:
        raise OptionError("; ".join(failed))
    if data["interrupted"]:
        return 128 + signal.Signals[data["interrupted"]]
    named = bool(request.names or request.adapters)
    missing = named and not all(implementation["installed"] for implementation in data["implementations"])
    return 1 if data["new"] or missing else 0


def check_reports(request: Request) -> None:
    """Raise an error for reports that cannot be written, before hours are spent on them."""
    seen: dict[Path, str] = {}
    for option, path in request.reports.items():
        check_place(option, path)
        if other := seen.get(path.resolve()):
            raise OptionError(f"{option}={str(path)!r}: is also the file of {other}")
        seen[path.resolve()] = option


def write_reports(request: Request, data: dict[str, Any]) -> list[str]:
    """Write every report that can be written, and tell of the others."""
    makers = {"json": as_json, "junit": as_junit, "html": as_html}
    failed = []
    for option, path in request.reports.items():
        try:
            write(path, makers[option](data))
        except OSError as error:
            failed.append(f"{option}={str(path)!r}: cannot be written: {error.strerror}")
    return failed


def as_json(data: dict[str, Any]) -> str:
    return json.dumps(data, indent=1, allow_nan=False) + "\n"


def examined(request: Request, console: Console, stop: Stop | None = None) -> dict[str, Any]:
    """The run as data."""
    adapters = implementations(request.names, request.adapters)
    ops, checks, rules = selected(request.only)
    entries = load()
    asked = cases(request.cases, request.seed, ops)
    plan = Plan(asked, checks, rules, request.limits, entries, most=request.most, tried=load_tried())
    start = time.monotonic()
    with Bar(console, len(plan.questions()) * len(adapters)) as bar:
        reports = run(adapters, plan, bar.advance, stop)
    settings = {"cases": request.cases, "seed": request.seed, "only": list(request.only), "most": request.most}
    return as_data(reports, entries, settings, time.monotonic() - start, stop.reason if stop else "")


def implementations(names: Sequence[str], own: Sequence[str]) -> list[Implementation]:
    """Those asked for by name and those of your own; all that are known if none is asked for."""
    known = {adapter.name: adapter for adapter in ADAPTERS}
    for name in names:
        if name not in known:
            raise OptionError(f"implementation={name!r}: must be one of {', '.join(known)}, or --adapter module:Class")
    chosen = [known[name] for name in dict.fromkeys(names)]
    for text in dict.fromkeys(own):
        adapter = loaded(text)
        if any(adapter.name == other.name for other in chosen):
            raise OptionError(f"adapter={text!r}: its name {adapter.name!r} is already taken")
        chosen.append(adapter)
    return chosen or list(ADAPTERS)


def loaded(text: str) -> Implementation:
    """The adapter `module:Class`; the folder the command is called in counts too."""
    module, colon, name = text.partition(":")
    if not (module and colon and name):
        raise OptionError(f"adapter={text!r}: must be module:Class")
    sys.path.insert(0, str(Path.cwd()))
    try:
        found = getattr(import_module(module), name)()
    except (Exception, SystemExit) as error:
        raise OptionError(f"adapter={text!r}: {error}") from None
    finally:
        sys.path.pop(0)
    if not isinstance(found, Implementation):
        raise OptionError(
            f"adapter={text!r}: must have name, title, package, requires, imports, most, supports, call and program"
        )
    check_adapter(text, found)
    return found


def check_adapter(text: str, found: Implementation) -> None:
    """Raise an error for attributes of a wrong type."""
    most = found.most
    wanted = {
        "name, title and package": all(isinstance(t, str) and t.strip() for t in (found.name, found.title, found.package)),
        "imports": isinstance(found.imports, str),
        "requires": isinstance(found.requires, tuple) and all(isinstance(t, str) and t.strip() for t in found.requires),
        "most": most is None or (isinstance(most, int) and most > 0),
        "at_once": not isinstance(found, Together) or (isinstance(found.at_once, int) and found.at_once > 0),
    }
    kinds = {
        "imports": "a string",
        "requires": "a tuple of names",
        "most": "a positive number or None",
        "at_once": "a positive number",
    }
    for names, holds in wanted.items():
        if not holds:
            raise OptionError(f"adapter={text!r}: {names} must be {kinds.get(names, 'strings that are not blank')}")


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
