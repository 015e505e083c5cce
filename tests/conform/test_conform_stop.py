"""A run that is ended from outside ends its workers, and leaves reports of what it knows."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
from xml.etree import ElementTree

import pytest
from rich.console import Console

from support.paths import TESTS
from windowgrad.conform import command
from windowgrad.conform.command import Request, conform
from windowgrad.conform.process import Limits
from windowgrad.errors import OptionError

PATIENCE = 60.0
START = """
import signal, sys
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
    signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
{before}
from windowgrad.cli import main
sys.argv[0] = "windowgrad"
main()
"""
"""The signals are as in a terminal, even if the tests run in the background, where SIGINT is ignored."""
REPORTS = ("json", "junit", "html")


class Run:
    """The command on an implementation that agrees twice and then waits for ever in a child of its own session."""

    def __init__(self, folder, before="", output=subprocess.PIPE):
        self.folder, pipe = folder, folder / "alive"
        os.mkfifo(pipe)
        self.alive = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
        options = ["--adapter", "support.conform_adapters:Waits", "--only", "max_pool", "--cases", "9", "--seconds", "600"]
        for kind in REPORTS:
            options += [f"--{kind}", str(folder / f"found.{kind}")]
        self.process = subprocess.Popen(
            [sys.executable, "-c", START.format(before=before), "conform", *options],
            cwd=TESTS,
            env={**os.environ, "CONFORM_TEST_PIPE": str(pipe)},
            stdout=output,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def __enter__(self):
        assert self.next() == b"here", self.process.communicate()
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.communicate()
        os.close(self.alive)

    def next(self):
        """What is written to the pipe next; empty when nobody is left who could write."""
        poll = select.poll()
        poll.register(self.alive, select.POLLIN)
        assert poll.poll(PATIENCE * 1000), "nothing happened"
        return os.read(self.alive, 4)

    def end(self, number):
        self.process.send_signal(number)
        printed, _ = self.process.communicate(timeout=PATIENCE)
        return self.process.returncode, printed


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_the_workers_and_leaves_the_reports(tmp_path, number):
    with Run(tmp_path) as run:
        status, printed = run.end(number)
        assert (status, run.next()) == (128 + number, b"")
    assert f"interrupted by {number.name}: 2 checks" in printed
    assert "Traceback" not in printed
    data = json.loads((tmp_path / "found.json").read_text())
    (report,) = data["implementations"]
    assert (data["interrupted"], report["finished"], report["counts"]["agrees"]) == (number.name, False, 2)
    suite = ElementTree.parse(tmp_path / "found.junit").getroot()[0]
    assert suite.get("errors") == "1"
    assert suite.find(".//error").get("message") == f"interrupted by {number.name} after 2 checks"
    assert f"interrupted by {number.name}" in (tmp_path / "found.html").read_text()
    assert {path.name for path in tmp_path.iterdir()} == {"alive", *(f"found.{kind}" for kind in REPORTS)}


def test_a_terminal_that_is_gone_does_not_take_the_reports_with_it(tmp_path):
    terminal, output = os.openpty()
    with Run(tmp_path, output=output) as run:
        os.close(output)
        os.close(terminal)
        status, _ = run.end(signal.SIGHUP)
        assert run.next() == b""
    assert json.loads((tmp_path / "found.json").read_text())["interrupted"] == "SIGHUP"
    assert status in (128 + signal.SIGHUP, 120)  # 120: Python could not flush what it printed


def test_a_signal_that_is_ignored_stays_so(tmp_path):
    with Run(tmp_path, "signal.signal(signal.SIGHUP, signal.SIG_IGN)") as run:
        run.process.send_signal(signal.SIGHUP)
        status, _ = run.end(signal.SIGTERM)
        assert status == 128 + signal.SIGTERM


def test_nothing_survives_a_command_that_is_killed(tmp_path):
    with Run(tmp_path) as run:
        status, _ = run.end(signal.SIGKILL)
        assert (status, run.next()) == (-signal.SIGKILL, b"")


def test_handlers_are_put_back():
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)]
    conform(Request(adapters=["support.conform_adapters:Exact"], only=["max_pool", "forward"], cases=2), Console(quiet=True))
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)] == before


# --- reports -----------------------------------------------------------------------------------------------------


def no_run(*_):
    raise AssertionError("it was run")


@pytest.mark.parametrize("kind", REPORTS)
@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("nowhere/found", "the folder {0}/nowhere does not exist"),
        ("", "is a folder; only a regular file can be replaced"),
        ("pipe", "is a named pipe; only a regular file can be replaced"),
        ("file/found", "the folder {0}/file does not exist"),
        ("x" * 300, "cannot be written: File name too long"),
        ("a\0b", "must be a file name: embedded null byte"),
    ],
)
def test_a_report_that_cannot_be_written_is_refused_before_the_run(tmp_path, monkeypatch, kind, name, why):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "file").touch()
    monkeypatch.setattr(command, "examined", no_run)
    path = tmp_path / name
    with pytest.raises(OptionError) as caught:
        conform(Request(**{kind: path}), Console(quiet=True))
    assert str(caught.value) == f"{kind}={path}: {why.format(tmp_path)}"
    assert {found.name for found in tmp_path.iterdir()} == {"pipe", "file"}


def test_two_reports_are_two_files(tmp_path, monkeypatch):
    monkeypatch.setattr(command, "examined", no_run)
    with pytest.raises(OptionError, match="is also the file of json"):
        conform(Request(json=tmp_path / "a", html=tmp_path / "." / "a"), Console(quiet=True))


def test_a_report_that_fails_in_the_end_does_not_take_the_others_with_it(tmp_path, monkeypatch):
    folder = tmp_path / "gone"
    folder.mkdir()
    examined = command.examined

    def remove_and_run(*given):
        folder.rmdir()
        return examined(*given)

    monkeypatch.setattr(command, "examined", remove_and_run)
    request = Request(
        adapters=["support.conform_adapters:Exact"],
        only=["max_pool", "forward"],
        cases=2,
        json=folder / "found.json",
        html=tmp_path / "found.html",
        limits=Limits(),
    )
    with pytest.raises(OptionError, match=r"json='.*found.json': cannot be written: No such file or directory"):
        conform(request, Console(quiet=True))
    assert (tmp_path / "found.html").exists()
