"""One difference as HTML: the call, the rule it breaks, the windows drawn, both answers, and how to see it for yourself."""

from __future__ import annotations

import itertools
import re
from html import escape
from typing import Any

from windowgrad.conform.case import Case
from windowgrad.conform.report.html_case import Place, at, case_of, differing, flat, shape_of, tuples, winners
from windowgrad.conform.report.html_rules import SENTENCES
from windowgrad.conform.report.html_svg import reach, window
from windowgrad.conform.report.junit import headline
from windowgrad.drawing.numbers import digits
from windowgrad.drawing.svg import drawn
from windowgrad.drawing.views import shown

SIGNS = {"agrees": "✓", "differs": "≠", "refuses": "!", "crashes": "✕", "unsupported": "–"}
WORDS = {kind: kind for kind in SIGNS} | {"unsupported": "not supported"}
MOST_WINDOWS = 6
MOST_CELLS = 400


def as_details(implementation: dict[str, Any], finding: dict[str, Any], name: str) -> str:
    """The finding, folded; the line that stays is what is wrong in a few words."""
    state = "new" if finding["known"] is None else "known"
    data = {"implementation": implementation["name"], "op": finding["op"], "rule": finding["rule"], "kind": finding["kind"]}
    marks = "".join(f' data-{key}="{escape(value)}"' for key, value in (data | {"state": state}).items())
    summary = (
        f'{badge(finding["kind"])}<span class="state {state}">{state}</span>'
        f'<span class="what"><code>{escape(finding["op"])}</code> {escape(finding["check"])} · {escape(finding["rule"])}</span>'
        f'<span class="gist">{escape(gist(finding))}</span>'
    )
    inside = f"<summary>{summary}</summary>{body(implementation, finding, name)}"
    return f'<details class="finding" id="{name}"{marks}>{inside}</details>'


def badge(kind: str) -> str:
    return f'<span class="kind {kind}"><i aria-hidden="true">{SIGNS[kind]}</i> {WORDS[kind]}</span>'


def gist(finding: dict[str, Any]) -> str:
    text = headline(finding)
    return text if len(text) <= 140 else f"{text[:139]}…"


def body(implementation: dict[str, Any], finding: dict[str, Any], name: str) -> str:
    case = case_of(finding["case"])
    title = f"{implementation['title']} {implementation['version']}"
    wrong = {
        key: differing(case, finding["check"], right, finding.get("got", {}).get(key))
        for key, right in finding["expected"].items()
    }
    parts = (
        known(finding["known"]),
        facts(title, finding),
        f"<h4>Call</h4><pre class=call><code>{escape(finding['call'])}</code></pre>",
        windows(case, finding, wrong),
        answers(finding, wrong),
        rule(finding),
        f'<h4>Reproduce</h4><div class="script"><button type="button" class="copy">Copy</button>'
        f'<pre tabindex="0"><code>{escape(finding["script"])}</code></pre></div>',
        f'<p class="here"><a href="#{name}">Link to this difference</a></p>',
    )
    return f'<div class="body">{"".join(parts)}</div>'


def known(entry: dict[str, Any] | None) -> str:
    if entry is None:
        return '<p class="note new">New: not in the list of known differences.</p>'
    reference = linked(entry["reference"])
    return f'<p class="note">Known (<code>{escape(entry["id"])}</code>): {escape(entry["what"])}. <cite>{reference}</cite></p>'


def linked(text: str) -> str:
    """The text escaped, its web addresses as links."""
    parts = re.split(r"(https?://[^\s<>\"']*[^\s<>\"'.,:;)])", text)
    return "".join(
        f'<a href="{escape(part)}" rel="noreferrer">{escape(part)}</a>' if number % 2 else escape(part)
        for number, part in enumerate(parts)
    )


def facts(title: str, finding: dict[str, Any]) -> str:
    case, count = finding["case"], len(finding["cases"])
    which = "the smallest that was found" if finding["shrunk"] else "one of them"
    rows = {
        "Implementation": title,
        "Check": finding["check"],
        "Input": f"{case['group']}, {case['dtype']}, shape {tuple(case['arrays']['x']['shape'])}",
        "Arguments": ", ".join(f"{name}={tuples(value)}" for name, value in case["arguments"].items()) or "none",
        "Mask": str(case["where"]["cells"]).replace("True", "1").replace("False", "0") if "where" in case else "",
        "Shown by": f"{count} case{'s' if count != 1 else ''}; this is {which}",
    }
    found = "".join(f"<div><dt>{name}</dt><dd>{escape(value)}</dd></div>" for name, value in rows.items() if value)
    return f'<dl class="facts">{found}</dl>'


def rule(finding: dict[str, Any]) -> str:
    sentences = "".join(f"<p>{marked(text)}</p>" for text in SENTENCES[finding["rule"]])
    cite = f"<cite>{escape(finding['anchor'].partition('#')[0])}, {escape(finding['rule'])}</cite>"
    return f"<h4>The rule</h4><blockquote>{sentences}{cite}</blockquote>"


def marked(text: str) -> str:
    """The little Markdown that the sentences have."""
    text = re.sub(r"`([^`]*)`", r"<code>\1</code>", escape(text, quote=False))
    text = re.sub(r"\*\*([^*]*)\*\*", r"<b>\1</b>", text)
    return " · ".join(part.strip() for part in text.strip("|").split(" | ")) if text.startswith("|") else text


# --- windows -----------------------------------------------------------------------------------------------------


def windows(case: Case, finding: dict[str, Any], wrong: dict[str, set[Place]]) -> str:
    """The windows where the answers differ, or the first ones."""
    if not case.x.size:
        return ""
    chosen, more = selected(case, finding["check"], wrong)
    won = winners(case)
    figures = []
    for place in chosen:
        svg = drawn(reach(case, place) if case.is_transposed else window(case, place, won.get(place, [])))
        if svg:
            figures.append(f"<figure>{svg}<figcaption>{caption(case, finding, place, wrong)}</figcaption></figure>")
    if not figures:
        return ""
    rest = f'<p class="more">and {more} more</p>' if more else ""
    head = "Input cells of an output" if case.is_transposed else "Windows"
    return f'<h4>{head}</h4><div class="figures">{"".join(figures)}{rest}</div>'


def selected(case: Case, check: str, wrong: dict[str, set[Place]]) -> tuple[list[Place], int]:
    """The outputs to draw, and how many more differ."""
    outputs: list[Place] = list(itertools.product(*map(range, case.out_shape)))
    if check != "gradient":
        found = sorted(set().union(*wrong.values()) & set(outputs))
    elif case.is_transposed:
        found = []
    else:
        cells = wrong.get("gradient of x", set())
        found = [o for o in outputs if any(touches(case, o, cell) for cell in cells)]
    chosen = found or outputs
    return chosen[:MOST_WINDOWS], max(0, len(found) - MOST_WINDOWS)


def touches(case: Case, output: Place, cell: Place) -> bool:
    """Whether the window of an output sees a cell of the input."""
    same = output[0] == cell[0] if case.is_convolution else output[:2] == cell[:2]
    return same and cell[2:] in case.geometry.taps(output[2:], case.spatial)


def caption(case: Case, finding: dict[str, Any], place: Place, wrong: dict[str, set[Place]]) -> str:
    """Which output it is, what should be there and what is."""
    channel = "" if case.out_shape[:2] == (1, 1) else f" of y[{place[0]}, {place[1]}]"
    words = [f"{'output' if case.is_transposed else 'window'} {shown(place[2:])}{channel}"]
    if finding["check"] == "gradient":
        return f"<b>{words[0]}</b> gets g = {number(at(finding['given']['g'], place))}"
    for key, right in finding["expected"].items():
        words.append(f"expected {number(at(right, place))}")
        if place in wrong[key]:
            words.append(f'<span class="bad">got {number(at(finding["got"][key], place))}</span>')
    return f"<b>{words[0]}</b> {', '.join(words[1:])}"


# --- arrays ------------------------------------------------------------------------------------------------------


def given(finding: dict[str, Any]) -> str:
    """All arrays that go in."""
    arrays = {name: array["cells"] for name, array in finding["case"]["arrays"].items()} | finding["given"]
    shapes = {name: tuple(array["shape"]) for name, array in finding["case"]["arrays"].items()}
    return "".join(array(name, cells, set(), shapes.get(name)) for name, cells in arrays.items())


def answers(finding: dict[str, Any], wrong: dict[str, set[Place]]) -> str:
    """What went in, what the specification says, and what came."""
    right = "".join(array(key, cells, wrong[key]) for key, cells in finding["expected"].items())
    got = "".join(array(key, cells, wrong.get(key, set())) for key, cells in finding.get("got", {}).items())
    if "difference" in finding and finding["difference"]["what"] != "value":
        words = f"{finding['difference']['got']} instead of {finding['difference']['expected']}"
        got = f'<p class="message bad">{escape(words)}</p>{got}'
    if finding["message"]:
        got += f'<pre class="message">{escape(finding["message"])}</pre>'
    columns = {"Given": given(finding), "Expected": right, "Got": got}
    sections = "".join(f'<section class="{name.lower()}"><h4>{name}</h4>{cells}</section>' for name, cells in columns.items())
    return f'<div class="answers">{sections}</div>'


def array(name: str, cells: Any, wrong: set[Place], shape: Place | None = None) -> str:
    """An array as tables, one per plane."""
    shape = shape_of(cells) if shape is None else shape
    label = f'<span class="name">{escape(name)} <small>{escape(str(shape))}</small></span>'
    if not flat(cells):
        return f'<div class="array">{label}<p class="more">no cells</p></div>'
    if len(flat(cells)) > MOST_CELLS:
        return f'<div class="array">{label}<p class="more">{len(flat(cells))} cells: see the script</p></div>'
    lead = shape[:-2]
    planes = [plane(at(cells, place), place, wrong, any(n > 1 for n in lead)) for place in itertools.product(*map(range, lead))]
    return f'<div class="array">{label}{"".join(planes)}</div>'


def plane(cells: Any, before: Place, wrong: set[Place], labelled: bool) -> str:
    rank = len(shape_of(cells))
    rows = cells if rank == 2 else [cells] if rank == 1 else [[cells]]
    lines = []
    for i, row in enumerate(rows):
        places = [(*before, *(i, j)[2 - rank :]) for j in range(len(row))]
        lines.append(
            "".join(f"<td{' class=bad' if o in wrong else ''}>{number(c)}</td>" for o, c in zip(places, row, strict=True))
        )
    caption = f"<caption>[{', '.join(map(str, before))}]</caption>" if labelled else ""
    return f"<table class=cells>{caption}{''.join(f'<tr>{line}</tr>' for line in lines)}</table>"


def number(cell: Any) -> str:
    return escape(digits(cell, 8))
