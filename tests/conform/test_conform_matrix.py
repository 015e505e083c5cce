"""The conformance matrix is made of the stored run, and the pages for maintainers name what exists."""

from __future__ import annotations

import json
import re
import shlex

import pytest
import yaml
from rich.console import Console
from typer.main import get_command

from support.paths import ROOT
from windowgrad.cli import app
from windowgrad.conform.case import OPS
from windowgrad.conform.command import Request, examined
from windowgrad.conform.known import load
from windowgrad.conform.report.matrix import DATA, PAGE, main, page, reduced
from windowgrad.conform.rules import RULES

STORED = ROOT / "docs" / DATA
WORKFLOW = ROOT / "examples/conform-workflow.yml"


def test_the_page_is_what_the_stored_data_gives():
    assert (ROOT / "docs" / PAGE).read_text("utf-8") == page(STORED), "python -m windowgrad.conform.report.matrix docs"


def test_the_stored_run_covers_every_operator_and_rule():
    data = json.loads(STORED.read_text("utf-8"))
    assert data["operators"] == list(OPS)
    assert [rule["title"] for rule in data["rules"]] == list(RULES)
    own = data["implementations"][0]
    assert set(own["operators"]) == set(OPS)
    assert all(set(counts) == {"agrees"} for counts in own["operators"].values())


def test_every_difference_of_the_page_is_an_entry_with_its_words():
    entries = {entry.id: entry for entry in load()}
    data = json.loads(STORED.read_text("utf-8"))
    found = [difference for one in data["implementations"] for difference in one["differences"]]
    assert len(found) > 50
    for difference in found:
        entry = entries[difference["id"]]
        assert (difference["what"], difference["reference"], difference["rule"]) == (entry.what, entry.reference, entry.rule)


def test_every_link_of_the_page_has_its_place():
    text = page(STORED)
    anchors = re.findall(r'<a id="([^"]+)">', text)
    assert len(set(anchors)) == len(anchors)
    assert set(re.findall(r'href="#([^"]+)"', text)) == set(anchors)
    for target in re.findall(r"\]\(([\w-]+\.md)", text):
        assert (ROOT / "docs" / target).exists(), target


def test_a_run_is_reduced_to_its_counts_and_differences(tmp_path):
    wanted = ["support.conform_adapters:WrongDivisor", "support.conform_adapters:NotThere"]
    run = examined(Request(adapters=wanted, only=["avg_pool", "forward"], cases=40), Console(quiet=True))
    (tmp_path / "found.json").write_text(json.dumps(run))
    main([str(tmp_path / "found.json"), str(tmp_path)])
    data = json.loads((tmp_path / DATA).read_text("utf-8"))
    assert data == json.loads(json.dumps(reduced(run)))
    wrong, missing = data["implementations"]
    assert wrong["operators"] == {"avg_pool": {k: n for k, n in run["implementations"][0]["counts"].items() if n}}
    (difference,) = wrong["differences"]
    assert difference["rule"] == "6. Mean"
    assert difference["checks"] == {"avg_pool forward": len(run["implementations"][0]["findings"][0]["cases"])}
    assert missing["version"] is None
    text = (tmp_path / PAGE).read_text("utf-8")
    assert "1 of the differences are new" in text
    assert "≠&nbsp;<b>new</b>" in text
    assert missing["title"] not in text


# --- the workflow ----------------------------------------------------------------------------------------------------


def commands():
    steps = yaml.safe_load(WORKFLOW.read_text())["jobs"]["conform"]["steps"]
    return [step["run"] for step in steps if "run" in step]


def test_the_page_shows_the_workflow_itself():
    assert f"```yaml\n{WORKFLOW.read_text()}```\n" in (ROOT / "docs/conform-in-ci.md").read_text("utf-8")


@pytest.mark.parametrize("text", commands())
def test_a_command_of_the_workflow_exists(text):
    program, *words = shlex.split(re.sub(r"\$\{\{.*?\}\}", "1", text))
    options = {word.partition("=")[0] for word in words if word.startswith("--")}
    if program == "windowgrad":
        known = {name for option in get_command(app).commands[words[0]].params for name in option.opts}
    elif program == "pytest":
        known = {*re.findall(r'"(--windowgrad-[a-z]+)"', (ROOT / "src/windowgrad_pytest.py").read_text()), "--junitxml"}
    else:
        assert words[:3] == ["-m", "pip", "install"]
        version = re.search(r'^version = "(.*)"', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)[1]
        assert f"windowgrad=={version}" in words
        known = set()
    assert options <= known
