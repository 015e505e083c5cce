"""`windowgrad conform` as it is called: what it prints and writes, what it calls known, and how it ends."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from fnmatch import fnmatch
from importlib.metadata import version
from xml.etree import ElementTree

import pytest
from rich.console import Console

from support.paths import TESTS
from windowgrad.conform import command, known
from windowgrad.conform.adapters import ADAPTERS
from windowgrad.conform.command import Request, conform, examined
from windowgrad.conform.report.html import as_html
from windowgrad.conform.report.junit import as_junit
from windowgrad.conform.report.terminal import show
from windowgrad.errors import OptionError

ENTRY = """
[[known]]
id = "divisor"
implementation = "wrong-divisor"
versions = ">=0"
rule = "6. Mean"
kind = "differs"
what = "it always counts the padding"
reference = "written on the wall"
ops = ["avg_pool"]
"""
OUTDATED = ENTRY.replace('"divisor"', '"gone"').replace('"differs"', '"refuses"')
WRONG = Request(adapters=["support.conform_adapters:WrongDivisor"], only=["avg_pool", "forward"], cases=40)


@pytest.fixture
def quiet():
    return Console(quiet=True)


@pytest.fixture
def entries(monkeypatch, tmp_path):
    """What is known, for this test."""

    def set_to(text):
        (tmp_path / "known.toml").write_text(text or "known = []")
        monkeypatch.setattr(command, "load", lambda: known.load(tmp_path / "known.toml"))
        monkeypatch.setattr(command, "load_tried", lambda: known.load_tried(tmp_path / "known.toml"))

    return set_to


def recorder():
    """A console that keeps what is printed on it."""
    return Console(record=True, width=120, file=io.StringIO())


def test_a_new_difference_is_status_1_and_a_known_one_is_0(entries, quiet):
    entries("")
    assert conform(WRONG, quiet) == 1
    entries(ENTRY)
    assert conform(WRONG, quiet) == 0


def test_an_entry_is_about_the_versions_it_names(entries, quiet):
    entries(ENTRY.replace(">=0", "<0.0.1") + '[tried]\nwrong-divisor = "0.0.1"\n')
    assert conform(WRONG, quiet) == 1


TRIED = '[tried]\nwrong-divisor = "0.0.1"\n'


def test_an_entry_is_about_newer_versions_too_and_these_are_said_to_be_untried(entries):
    entries(ENTRY + TRIED)
    console = recorder()
    data = examined(WRONG, Console(quiet=True))
    assert data["implementations"][0]["newest_tried"] == "0.0.1"
    assert conform(WRONG, console) == 0
    note = (
        f"Exact {data['implementations'][0]['version']} is newer than 0.0.1, the newest version that the known differences were"
    )
    assert note in console.export_text()
    assert note in as_html(data)
    assert ElementTree.fromstring(as_junit(data)).find(".//property[@name='newest version tried']").get("value") == "0.0.1"


def test_a_version_that_was_tried_is_not_said_to_be_untried(entries, quiet):
    entries(ENTRY + TRIED.replace("0.0.1", "99"))
    assert examined(WRONG, quiet)["implementations"][0]["newest_tried"] is None


@pytest.mark.parametrize(
    ("version", "newest"),
    [("1.22.0", None), ("1.22.0+cpu", None), ("1.22", None), ("1.22.1", "1.22.0"), ("2.0rc1", "1.22.0"), ("junk", "1.22.0")],
)
def test_a_newer_version_is_told_by_its_number(version, newest):
    assert known.newest_tried({"onnx": "1.22.0"}, "onnx", version) == newest
    assert known.newest_tried({}, "onnx", version) is None


@pytest.mark.parametrize("versions", [">=1.16,<1.23", "<=1.22.0", "==1.22.0", "~=1.22.0", "==1.*"])
def test_an_entry_may_not_end_where_nobody_has_looked(entries, versions):
    entries(ENTRY.replace(">=0", versions) + '[tried]\nwrong-divisor = "1.22.0"\n')
    with pytest.raises(
        OptionError, match=r"known.toml: divisor: versions '.*' must not end at .*: the newest version tried is 1.22.0"
    ):
        command.load()
    entries(ENTRY.replace(">=0", ">=1.16,!=1.17,<1.23") + '[tried]\nwrong-divisor = "1.23.2"\n')
    assert len(command.load()) == 1


def test_every_implementation_with_entries_has_a_version_that_was_tried():
    tried, entries = known.load_tried(), known.load()
    for adapter in ADAPTERS:
        if any(fnmatch(adapter.name, entry.implementation) for entry in entries):
            assert known.newest_tried(tried, adapter.name, version(adapter.package)) is None, f"try {adapter.name} and say so"


def test_onnx_1_23_is_known_as_1_22_is():
    entries = known.load()
    assert known.applying(entries, "onnx", "1.23.2") == known.applying(entries, "onnx", "1.22.0") != ()


# --- how many are asked --------------------------------------------------------------------------------------------


def asked(most, adapter="support.conform_adapters:Slow"):
    request = Request(adapters=[adapter], only=["avg_pool", "forward"], cases=40, most=most)
    data = examined(request, Console(quiet=True))
    (report,) = data["implementations"]
    assert report["asked"] == sum(report["counts"].values()) - report["counts"]["unsupported"]
    assert sum(report["counts"].values()) + report["left_out"] == 40
    return data, report


@pytest.mark.parametrize(("most", "count"), [(None, 7), (5, 5), (10**6, None), (0, None)])
def test_the_number_asked_is_an_option_and_said(most, count):
    data, report = asked(most)
    supported = 40 - report["counts"]["unsupported"]
    assert 10 < supported < 40
    assert (report["asked"], report["left_out"]) == (count or supported, supported - count if count else 0)
    words = f"{count} of {supported}" if count else str(supported)
    assert f'<td class="asked">{words}</td>' in as_html(data)
    console = recorder()
    show(data, console)
    assert (f"ran {words} checks that it supports" in console.export_text()) == bool(count)


def test_torch_compile_is_asked_a_hundred():
    (compiled,) = (adapter for adapter in ADAPTERS if adapter.name == "torch.compile")
    assert compiled.most >= 100


# --- entries that no longer hold -----------------------------------------------------------------------------------


def test_an_entry_that_no_longer_holds_gives_a_warning(entries):
    entries(ENTRY + OUTDATED)
    console = recorder()
    assert conform(WRONG, console) == 0
    text = console.export_text()
    assert "note: known difference gone no longer occurs in Exact" in text
    assert "difference divisor" not in text


def test_a_wrong_word_in_the_entries_is_an_error(entries):
    entries(ENTRY.replace('"6. Mean"', '"66. Mean"'))
    with pytest.raises(OptionError, match=r"known.toml: divisor: rule '66. Mean' must be one of 1. Size, "):
        command.load()
    entries(ENTRY + 'operators = ["avg_pool"]')
    with pytest.raises(OptionError, match="unexpected keyword argument 'operators'"):
        command.load()


def test_the_entries_of_the_package_are_well_formed():
    found = known.load()
    assert len({entry.id for entry in found}) == len(found) > 20
    assert all(entry.what and entry.reference and entry.versions for entry in found)


def test_json_holds_all_that_a_page_needs(entries, tmp_path, quiet):
    entries("")
    request = Request(WRONG.names, WRONG.adapters, WRONG.only, WRONG.cases, json=tmp_path / "found.json")
    conform(request, quiet)
    data = json.loads((tmp_path / "found.json").read_text(), parse_constant=pytest.fail)
    assert data["settings"] == {"cases": 40, "seed": 0, "only": ["avg_pool", "forward"], "most": None}
    (implementation,) = data["implementations"]
    assert (implementation["name"], implementation["title"], implementation["installed"]) == ("wrong-divisor", "Exact", True)
    assert sum(implementation["counts"].values()) == len(implementation["results"])
    assert sum(sum(row.values()) for row in implementation["matrix"].values()) == len(implementation["results"])
    finding = implementation["findings"][0]
    assert finding["kind"] == "differs"
    assert finding["anchor"] == "docs/semantics.md#6-mean"
    assert finding["call"].startswith("wg.avg_pool(x, (")
    assert finding["known"] is None
    assert finding["difference"]["what"] == "value"
    assert finding["expected"]["y"] != finding["got"]["y"]
    assert finding["case"]["arguments"]["count_include_pad"] is False
    assert finding["case"]["arrays"]["x"]["shape"] == [1, 1, len(finding["case"]["arrays"]["x"]["cells"][0][0])]
    assert "print" in finding["script"]
    shown = [result for result in implementation["results"] if result.get("finding") == 0]
    assert [result["case"] for result in shown] == finding["cases"]
    assert {case["case"] for case in data["cases"]} == {result["case"] for result in implementation["results"]}


def test_junit_fails_on_new_differences_only(entries, quiet):
    entries("")
    new = ElementTree.fromstring(as_junit(examined(WRONG, quiet)))
    assert len(new.findall(".//failure")) == int(new.find("testsuite").get("failures")) == 1
    assert "wg.avg_pool" in new.find(".//failure").text
    entries(ENTRY)
    old = ElementTree.fromstring(as_junit(examined(WRONG, quiet)))
    assert not old.findall(".//failure")
    assert "written on the wall" in old.find(".//system-out").text


def test_what_is_not_installed_is_said_and_skipped_and_is_no_success_when_it_was_named(quiet):
    data = examined(Request(adapters=["support.conform_adapters:NotThere"], cases=3), quiet)
    assert data["implementations"][0]["installed"] is False
    assert ElementTree.fromstring(as_junit(data)).find(".//skipped").get("message") == "not installed"
    console = recorder()
    assert conform(Request(adapters=["support.conform_adapters:NotThere"], cases=3), console) == 1
    assert "not installed" in console.export_text()


def test_the_terminal_shows_the_smallest_case(entries):
    entries("")
    console = recorder()
    conform(WRONG, console)
    text = console.export_text()
    assert "differs in the forward · rule 6. Mean · plain, float32" in text
    assert "expected [" in text
    assert "1 new difference, 0 known" in text


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        (Request(["pytorch"]), "implementation='pytorch': must be one of windowgrad, "),
        (Request(adapters=["json"]), "adapter='json': must be module:Class"),
        (Request(adapters=["json:JSONDecoder"]), "adapter='json:JSONDecoder': must have name"),
        (Request(adapters=["no_such:A"]), "adapter='no_such:A': No module named 'no_such'"),
        (Request(["windowgrad"], only=["median"]), "only='median': must be an operator"),
    ],
)
def test_a_wrong_argument_is_named(request_, message, quiet):
    with pytest.raises(OptionError) as caught:
        examined(request_, quiet)
    assert str(caught.value).startswith(message)


def test_the_command_ends_with_the_status(tmp_path):
    code = "from windowgrad.cli import main; main()"
    words = [
        "conform",
        "--adapter",
        "support.conform_adapters:WrongDivisor",
        "--only",
        "avg_pool",
        "--only",
        "forward",
        "--cases",
        "30",
    ]
    done = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True, cwd=TESTS)
    assert done.returncode == 1, done.stderr
    assert "1 new difference" in done.stdout
