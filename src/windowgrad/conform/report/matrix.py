"""The conformance matrix: a run reduced to counts and differences, and the page that shows them.

    windowgrad conform --json found.json
    python -m windowgrad.conform.report.matrix found.json docs

writes docs/conformance.json and docs/matrix.md; without the first file only the page, from the data that is stored.
"""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from html import escape
from pathlib import Path
from string import Template
from typing import Any

from windowgrad.conform.case import OPS
from windowgrad.conform.known import load
from windowgrad.conform.report.file import write
from windowgrad.conform.results import BAD

FORMAT = 1
DATA, PAGE = "conformance.json", "matrix.md"
TEMPLATE = Path(__file__).with_name("matrix_page.md")
SIGNS = {"agrees": "✓", "differs": "≠", "refuses": "✗", "crashes": "⚡", "unsupported": "–"}

# --- from a run to the data ------------------------------------------------------------------------------------------


def reduced(data: dict[str, Any]) -> dict[str, Any]:
    """What the page needs of the data of a run: counts by operator and by rule, and every difference in words."""
    ops = {case["case"]: case["op"] for case in data["cases"]}
    kept = {name: data[name] for name in ("date", "settings", "versions", "seconds", "rules")}
    implementations = [of_implementation(found, ops) for found in data["implementations"]]
    return {"format": FORMAT} | kept | {"cases": len(ops), "operators": list(OPS), "implementations": implementations}


def of_implementation(found: dict[str, Any], ops: dict[int, str]) -> dict[str, Any]:
    about = {name: found[name] for name in ("name", "title", "version", "asked", "left_out", "seconds")}
    by_op: dict[str, Counter[str]] = {}
    by_rule: dict[str, Counter[str]] = {}
    told: list[Counter[str]] = [Counter() for _ in found["findings"]]
    for result in found["results"]:
        op = ops[result["case"]]
        by_op.setdefault(op, Counter())[result["kind"]] += 1
        by_rule.setdefault(result["rule"], Counter())[result["kind"]] += 1
        if "finding" in result:
            told[result["finding"]][f"{op} {result['check']}"] += 1
    rules = {entry.id: entry.rule for entry in load()}
    differences: dict[str, dict[str, Any]] = {}
    for finding, checks in zip(found["findings"], told, strict=True):
        entry = finding["known"]
        key = entry["id"] if entry else f"new {len(differences)}"
        words = (
            {"id": entry["id"], "what": entry["what"], "reference": entry["reference"]}
            if entry
            else {"what": f"{finding['call']}: {summary(finding)}"}
        )
        about_it = {"kind": finding["kind"], "rule": rules.get(key, finding["rule"]), "checks": {}}
        one = differences.setdefault(key, words | about_it)
        one["checks"] = dict(sorted((Counter(one["checks"]) + checks).items()))
    return about | {"operators": by_op, "rules": by_rule, "differences": list(differences.values())}


def summary(finding: dict[str, Any]) -> str:
    difference = finding.get("difference")
    return f"expected {difference['expected']}, got {difference['got']}" if difference else str(finding["message"])


# --- from the data to the page ---------------------------------------------------------------------------------------


def page(json_path: Path | str) -> str:
    """The page as Markdown with tables, made from the stored data."""
    data = json.loads(Path(json_path).read_text("utf-8"))
    installed = [found for found in data["implementations"] if found["version"] is not None]
    numbers = numbered(installed)
    sections = "\n".join(section(found, data, numbers) for found in installed if found["differences"])
    return Template(TEMPLATE.read_text("utf-8")).substitute(
        date=data["date"],
        cases=f"{data['cases']:,}",
        checks=f"{sum(found['asked'] for found in installed):,}",
        count=len(installed),
        seed=data["settings"]["seed"],
        minutes=max(1, round(data["seconds"] / 60)),
        versions=", ".join(f"{name} {value}" for name, value in data["versions"].items()),
        new=new_words(installed),
        operators=table(installed, "operators", data["operators"], numbers),
        rules=table(installed, "rules", [rule["title"] for rule in data["rules"]], numbers),
        sections=sections,
    )


def numbered(installed: list[dict[str, Any]]) -> dict[str, int]:
    """The number of every known difference, in the order of the page. What several share has one."""
    ids = [difference["id"] for found in installed for difference in found["differences"] if "id" in difference]
    return {name: number for number, name in enumerate(dict.fromkeys(ids), 1)}


def new_words(installed: list[dict[str, Any]]) -> str:
    count = sum("id" not in difference for found in installed for difference in found["differences"])
    return "All differences were known." if not count else f"{count} of the differences are new: they are in no list yet."


def table(installed: list[dict[str, Any]], by: str, columns: list[str], numbers: dict[str, int]) -> str:
    head = ["implementation", "checks", *(f"`{name}`" if by == "operators" else name for name in columns)]
    rows = [head, ["---", "--:", *("---" for _ in columns)]]
    for found in installed:
        asked = f"{found['asked']:,}" + (f" of {found['asked'] + found['left_out']:,}" if found["left_out"] else "")
        cells = [cell(found, by, name, numbers) for name in columns]
        rows.append([f"{found['title']} {found['version']}", asked, *cells])
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def cell(found: dict[str, Any], by: str, name: str, numbers: dict[str, int]) -> str:
    """How often it agrees, and the numbers of its differences, each a link."""
    counts = found[by].get(name, {})
    parts = [f"{SIGNS['agrees']}&nbsp;{counts['agrees']}"] if counts.get("agrees") else []
    about = [difference for difference in found["differences"] if is_about(difference, by, name)]
    for kind in BAD:
        same = [difference for difference in about if difference["kind"] == kind]
        if same:
            parts.append(f"{SIGNS[kind]}&nbsp;{' '.join(link(difference, numbers) for difference in same)}")
    if not parts:
        return SIGNS["unsupported"] if counts.get("unsupported") else ""
    return "<br>".join(parts)


def is_about(difference: dict[str, Any], by: str, name: str) -> bool:
    if by == "rules":
        return bool(difference["rule"] == name)
    return any(check.split()[0] == name for check in difference["checks"])


def link(difference: dict[str, Any], numbers: dict[str, int]) -> str:
    if "id" not in difference:
        return "<b>new</b>"
    title = escape(difference["what"], quote=True).replace("|", "&#124;")
    return f'<a href="#{difference["id"]}" title="{title}">{numbers[difference["id"]]}</a>'


def section(found: dict[str, Any], data: dict[str, Any], numbers: dict[str, int]) -> str:
    """The differences of an implementation in words; one that was told before is only named."""
    anchors = {rule["title"]: rule["anchor"].removeprefix("docs/") for rule in data["rules"]}
    earlier = data["implementations"][: data["implementations"].index(found)]
    before = {difference.get("id") for other in earlier for difference in other["differences"]} - {None}
    lines = [f"### {found['title']} {found['version']}", ""]
    shared = [link(difference, numbers) for difference in found["differences"] if difference.get("id") in before]
    if shared:
        lines += [f"It shares differences {', '.join(shared)} with those above.", ""]
    for difference in found["differences"]:
        if difference.get("id") not in before:
            lines += [entry(difference, anchors, numbers), ""]
    return "\n".join(lines)


def entry(difference: dict[str, Any], anchors: dict[str, str], numbers: dict[str, int]) -> str:
    name = difference.get("id")
    head = f'<a id="{name}"></a>**{numbers[name]}. `{name}`**' if name else "**New**"
    by_op: dict[str, list[str]] = {}
    for check in difference["checks"]:
        op, _, what = check.partition(" ")
        by_op.setdefault(op, []).append(what)
    about = ", ".join(f"`{op}` ({', '.join(checks)})" for op, checks in by_op.items())
    count = sum(difference["checks"].values())
    where = f"{difference['kind'].capitalize()} in {count} check{'s' if count != 1 else ''} of {about}."
    rule = f"Rule: [{difference['rule']}]({anchors[difference['rule']]})."
    source = f" Reference: {referenced(difference['reference'])}." if "reference" in difference else ""
    return f"{head}: {plainly(difference['what'])}.<br>{where} {rule}{source}"


def plainly(text: str) -> str:
    """Text with nothing that Markdown takes for something else."""
    return re.sub(r"([*_<>|\\])", r"\\\1", text)


def referenced(text: str) -> str:
    """A reference with links to pages of this site and to the web."""
    if page_ := re.match(r"docs/([\w-]+\.md), (.*)", text):
        return f"[{plainly(page_[2])}]({page_[1]})"
    parts = re.split(r"(https?://[^\s<>\"']*[^\s<>\"'.,:;)])", text)
    return "".join(f"<{part}>" if number % 2 else plainly(part) for number, part in enumerate(parts))


def main(arguments: list[str]) -> None:
    """[found.json] folder"""
    *found, folder = map(Path, arguments)
    if found:
        data = reduced(json.loads(found[0].read_text("utf-8")))
        write(folder / DATA, json.dumps(data, indent=1, ensure_ascii=False, allow_nan=False) + "\n")
    write(folder / PAGE, page(folder / DATA))


if __name__ == "__main__":
    main(sys.argv[1:])
