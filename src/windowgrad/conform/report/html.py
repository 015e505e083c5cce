"""The report as one page that needs nothing else: no network, no script or font from anywhere."""

from __future__ import annotations

import base64
import hashlib
import re
from collections import Counter
from html import escape
from pathlib import Path
from string import Template
from typing import Any

from windowgrad.conform.report.html_finding import SIGNS, WORDS, as_details, badge
from windowgrad.conform.report.junit import title
from windowgrad.conform.report.terminal import asked, last_line, notes

FOLDER = Path(__file__).parent
FILTERS = {"implementation": "Implementation", "op": "Operator", "rule": "Rule", "kind": "Result", "state": "Known or new"}


def as_html(data: dict[str, Any]) -> str:
    """The page of a run's data. Agreeing cases are only counted; each difference has all that is needed to see it."""
    names: Counter[str] = Counter()
    style, script = (FOLDER.joinpath(name).read_text("utf-8") for name in ("html_page.css", "html_page.js"))
    return Template(FOLDER.joinpath("html_page.html").read_text("utf-8")).substitute(
        style=style,
        script=script,
        style_hash=digest(style),
        script_hash=digest(script),
        gist=escape(last_line(data).strip()),
        versions=escape(", ".join(f"{name} {value}" for name, value in data["versions"].items())),
        settings=escape(settings(data["settings"])),
        legend=" ".join(badge(kind) for kind in SIGNS),
        matrix=matrix(data),
        filters="".join(filter_of(name, label, data) for name, label in FILTERS.items()),
        findings="".join(section(implementation, names) for implementation in data["implementations"]),
    )


def digest(text: str) -> str:
    """By which a browser knows that a style or a script is the page's own."""
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def settings(given: dict[str, Any]) -> str:
    most = "" if given.get("most") is None else f", at most {given['most']} checks of each" if given["most"] else ", all checks"
    only = f", only {', '.join(given['only'])}" if given["only"] else ""
    return f"{given['cases']} cases, seed {given['seed']}{most}{only}"


# --- the matrix --------------------------------------------------------------------------------------------------


def matrix(data: dict[str, Any]) -> str:
    rules = [rule["title"] for rule in data["rules"]]
    head = "".join(f'<th scope="col">{escape(rule)}</th>' for rule in rules)
    rows = "".join(row(implementation, rules) for implementation in data["implementations"])
    corner = '<th scope="col">Implementation</th><th scope="col">Asked</th>'
    return f'<table class="matrix"><thead><tr>{corner}{head}</tr></thead><tbody>{rows}</tbody></table>'


def row(implementation: dict[str, Any], rules: list[str]) -> str:
    name = f"{escape(implementation['title'])} <small>{escape(implementation['version'] or '')}</small>"
    if not implementation["installed"]:
        return f'<tr><th scope="row">{name}</th><td class="absent" colspan="{len(rules) + 1}">not installed</td></tr>'
    count = f'<td class="asked">{escape(asked(implementation))}</td>'
    return f'<tr><th scope="row">{name}</th>{count}{"".join(cell(implementation, rule) for rule in rules)}</tr>'


def cell(implementation: dict[str, Any], rule: str) -> str:
    """The counts of one implementation and one rule; a button where there is something to show."""
    counts = {kind: count for kind, count in implementation["matrix"].get(rule, {}).items() if count}
    about = [finding for finding in implementation["findings"] if finding["rule"] == rule]
    new = sum(finding["known"] is None for finding in about)
    lines = "".join(
        f'<span class="{kind}"><i aria-hidden="true">{SIGNS[kind]}</i> {count}<span class="hidden"> {WORDS[kind]}</span></span>'
        for kind, count in counts.items()
    )
    colour = next((kind for kind in ("crashes", "differs", "refuses", "agrees", "unsupported") if kind in counts), "nothing")
    if not about:
        return f'<td class="{colour}">{lines}</td>'
    word = f'<b class="new">{new} new</b>' if new else '<b class="known">known</b>'
    where = f"{title(implementation)}, {rule}: show {len(about)} difference{'s' if len(about) > 1 else ''}"
    marks = f'data-implementation="{escape(implementation["name"])}" data-rule="{escape(rule)}"'
    return (
        f'<td class="{colour}{"" if new else " quiet"}"><button type="button" {marks} title="{escape(where)}">{lines}{word}'
        f'<span class="hidden"> {escape(where)}</span></button></td>'
    )


# --- filters and findings ----------------------------------------------------------------------------------------


def filter_of(name: str, label: str, data: dict[str, Any]) -> str:
    """A list of the values that differences have."""
    found: dict[str, str] = {}
    for implementation in data["implementations"]:
        for finding in implementation["findings"]:
            values = {"implementation": implementation["name"], "state": "new" if finding["known"] is None else "known"}
            value = values.get(name) or finding[name]
            found[value] = title(implementation) if name == "implementation" else value
    order = [rule["title"] for rule in data["rules"]] if name == "rule" else list(found)
    options = "".join(f'<option value="{escape(v)}">{escape(found[v])}</option>' for v in order if v in found)
    return f'<label>{label}<select name="{name}" autocomplete="off"><option value="">all</option>{options}</select></label>'


def section(implementation: dict[str, Any], seen: Counter[str]) -> str:
    """The differences of one implementation, and notes about what is known of it."""
    findings, words = implementation["findings"], notes(implementation)
    if not findings and not words:
        return ""
    told = "".join(f'<p class="note">{escape(note)}</p>' for note in words)
    names = named(implementation["name"], findings, seen)
    parts = "".join(as_details(implementation, finding, name) for finding, name in zip(findings, names, strict=True))
    return f'<section class="implementation"><h3>{escape(title(implementation))}</h3>{told}{parts}</section>'


def named(implementation: str, findings: list[dict[str, Any]], seen: Counter[str]) -> list[str]:
    """What each difference is linked by: words, and a number where they say the same."""
    names = []
    for finding in findings:
        words = (implementation, finding["op"], finding["check"], finding["kind"], finding["case"]["group"])
        name = re.sub(r"[^A-Za-z0-9_.]+", "-", "-".join(words)).strip("-").lower()
        seen[name] += 1
        names.append(name if seen[name] == 1 else f"{name}-{seen[name]}")
    return names
