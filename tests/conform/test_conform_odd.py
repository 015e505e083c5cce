"""Odd answers, adapters and texts are results like any other, and every report can be written of them."""

from __future__ import annotations

import io
import json
from xml.etree import ElementTree

import pytest
from rich.console import Console

from support import conform_adapters as fakes
from windowgrad.conform import command
from windowgrad.conform.case import CHECKS
from windowgrad.conform.cases import cases
from windowgrad.conform.command import Request, as_json, examined
from windowgrad.conform.report.data import as_data
from windowgrad.conform.report.html import as_html
from windowgrad.conform.report.junit import as_junit
from windowgrad.conform.report.terminal import show
from windowgrad.conform.runner import Plan, run
from windowgrad.conform.text import printable
from windowgrad.errors import OptionError

FEW = [case for case in cases(60, 0, ("avg_pool",)) if case.dtype == "float32" and case.group == "plain"][:1]
RAISES = "class Bad(Exception):\n    def __str__(self): raise ValueError('no words')\n    __repr__ = __str__\n"
NASTY = "\x00\x07\x1b[2J\x7f\x85\ud800\udfff\ufffe\uffff]]>[/]&<evil>\u202e"

ODD = {
    "got = np.ones(3) * 1j": "an array of dtype complex128",
    "got = np.datetime64('2001-01-01')": "an array of dtype datetime64[D]",
    "got = np.array([np.timedelta64(1, 's')])": "an array of dtype timedelta64[s]",
    "got = np.array([object(), None], dtype=object)": "an array of dtype object",
    "got = 'text'": "an array of dtype <U4",
    "got = b'\\xff\\x00'": "an array of dtype |S",
    "got = {'y': 1}": "an array of dtype object",
    "got = np.zeros(2, dtype=[('a', 'f4')])": "an array of dtype [('a', '<f4')]",
    "got = np.ma.array([1.0], mask=[True])": "a masked array",
    "got = [[[1], [1, 2]]]": "a list that NumPy cannot read",
    "class A:\n    def __array__(self, *a, **k): raise KeyError('\\ud800')\ngot = A()": "a A that NumPy cannot read (KeyError",
    f"{RAISES}class A:\n    def __array__(self, *a, **k): raise Bad\ngot = A()": "a A that NumPy cannot read (Bad",
    "import torch\ngot = torch.ones(2, dtype=torch.bfloat16)": "a Tensor that NumPy cannot read (TypeError",
    "got = ()": "0 arrays",
    "got = [1] * 10**6": "64 arrays",
    "got = np.zeros((2**10, 2**10))": "shape (1024, 1024)",
    "got = np.zeros((1,) * 40)": "shape (1, 1, 1",
    "got = np.zeros((0, 3))": "shape (0, 3)",
}
REFUSED = {
    f"{RAISES}raise Bad": "Bad: (its message cannot be shown)",
    "raise ValueError('\\ud800\\x00\\x1b[31m<b>[/]')": "ValueError: \\ud800\\x00\\x1b[31m<b>[/]",
    "raise ValueError('x' * 10**7)": "ValueError: xxx",
    "def f(): f()\nf()": "RecursionError",
    "\x00": "SyntaxError: source code string cannot contain null bytes",
    "'\ud800'": "UnicodeEncodeError",
}


class Says(fakes.Exact):
    """Its program is the given one."""

    name, title = "says", "Says"

    def __init__(self, text):
        self.text = text

    def program(self, case, check):
        return f"import numpy as np\n{self.text}\n"


def result_of(adapter, checks=("forward",)):
    (report,) = run([adapter], Plan(FEW, checks, shrinking=0))
    assert len(report.results) == len(checks)
    all_reports([report])
    return report.results[0]


def all_reports(reports):
    """Every report of a run, as text; it must be possible to write and to read it."""
    data = as_data(reports, (), {"cases": 1, "seed": 0, "only": []}, 1.0)
    console = Console(file=io.StringIO(), width=100, force_terminal=True)
    show(data, console)
    texts = [as_json(data), as_junit(data), as_html(data), console.file.getvalue()]
    for text in texts:
        text.encode("utf-8")
    json.loads(texts[0])
    ElementTree.fromstring(texts[1])
    return texts


@pytest.mark.parametrize("program", ODD)
def test_an_odd_answer_differs(program):
    result = result_of(Says(program))
    assert (result.kind, result.what) == ("differs", "shape" if ODD[program][0] in "0126s" else "dtype")
    assert result.difference.got_text.startswith(ODD[program])


@pytest.mark.parametrize("program", REFUSED)
def test_an_odd_error_is_refused(program):
    result = result_of(Says(program))
    assert result.kind == "refuses"
    assert result.message.startswith(REFUSED[program])
    assert len(result.message) < 3000


@pytest.mark.parametrize("cells", ["np.float16([1, np.nan])", "np.longdouble([1, np.inf])", "np.uint64([2**64 - 1])", "[True]"])
def test_numbers_of_every_type_are_read(cells):
    assert result_of(Says(f"got = {cells}")).what == "shape"


@pytest.mark.parametrize("payload", ["0x7fc12345", "0xffc00001", "0x7f800001"])
def test_a_nan_is_a_nan_whatever_its_bits(payload):
    result = result_of(Says(f"got = np.full({FEW[0].out_shape}, {payload}, np.uint32).view(np.float32)"))
    assert (result.what, result.difference.got_text.split()[0]) == ("value", "nan")


class Raises(fakes.Exact):
    """One of its methods does not do what it should."""

    name, title = "raises", "Raises"

    def __init__(self, method, what):
        def method_of_it(*_):
            if isinstance(what, BaseException):
                raise what
            return what

        setattr(self, method, method_of_it)


class WordlessError(Exception):
    def __str__(self):
        raise ValueError("no words")


@pytest.mark.parametrize("what", [KeyError("\ud800<b>"), WordlessError(), SystemExit(3), 5])
@pytest.mark.parametrize("method", ["supports", "program"])
def test_a_method_of_an_adapter_that_fails_is_one_result(method, what):
    result = result_of(Raises(method, what))
    assert result.kind == "crashes"
    assert result.message.startswith(f"the adapter's {method} ")


@pytest.mark.parametrize("what", [KeyError("\ud800<b>"), WordlessError(), SystemExit(3), 5])
def test_a_call_that_cannot_be_written_is_one_result_too(what):
    assert result_of(Raises("call", what)).kind in ("crashes", "refuses")


def test_one_implementation_that_fails_is_not_the_end_of_the_others():
    adapters = [Raises("supports", ValueError("no")), fakes.Exact(), Says("os._exit(1)")]
    reports = run(adapters, Plan(FEW, CHECKS, shrinking=0))
    assert [{result.kind for result in report.results} for report in reports] == [{"crashes"}, {"agrees"}, {"refuses"}]


def test_no_text_spoils_a_report():
    class Nasty(Says):
        name, title = f"a{NASTY}", f"b{NASTY}"

        def call(self, case):
            return f"c{NASTY}"

    (report,) = run([Nasty(f"raise ValueError({NASTY!r})")], Plan(FEW, ("forward",), shrinking=0))
    report.version = f"1{NASTY}"
    texts = all_reports([report])
    clean = printable(NASTY)
    assert clean.startswith("\\x00\\x07\\x1b[2J\\x7f\\x85\\ud800\\udfff\\ufffe\\uffff]]>")
    assert json.loads(texts[0])["implementations"][0]["title"] == f"b{clean}"
    suite = ElementTree.fromstring(texts[1])[0]
    assert suite.get("name") == f"b{clean} 1{clean}"
    assert suite.find(".//testcase").get("classname") == f"conform.a{clean}"
    assert f"c{clean}" in suite.find(".//testcase").get("name")
    assert "<evil>" not in texts[2]
    assert "&lt;evil&gt;" in texts[2]
    assert "[2J" in texts[3]
    assert "\x1b[2J" not in texts[3]


@pytest.mark.parametrize("number", [*range(0x20), *range(0x7F, 0xA0), 0xD800, 0xDFFF, 0xFFFE, 0xFFFF])
def test_every_character_that_xml_forbids_is_replaced(number):
    found = printable(f"a{chr(number)}b")
    assert ElementTree.fromstring(f"<x>{found}</x>").text == found
    assert (found == f"a{chr(number)}b") == (chr(number) in "\t\n")


# --- adapters that cannot be used --------------------------------------------------------------------------------

MODULE = """
from windowgrad.conform import Adapter

class Fine(Adapter):
    name, title, package = "fine", "Fine", "numpy"

class Twin(Fine):
    title = "Twin"

class Numbered(Fine):
    name = 5

class Nameless(Fine):
    package = " "

class Listed(Fine):
    requires = "numpy"

class None_(Fine):
    most = 0

class Together(Fine):
    at_once = 0

    def together(self, cases, check):
        return "got = []"

class Exits(Fine):
    def __init__(self):
        raise SystemExit("bye")

class Fails(Fine):
    def __init__(self):
        raise RuntimeError("broken")
"""


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["Numbered"], "name, title and package must be strings that are not blank"),
        (["Nameless"], "name, title and package must be strings that are not blank"),
        (["Listed"], "requires must be a tuple of names"),
        (["None_"], "most must be a positive number or None"),
        (["Together"], "at_once must be a positive number"),
        (["Exits"], "bye"),
        (["Fails"], "broken"),
        (["Fine", "Twin"], "its name 'fine' is already taken"),
    ],
)
def test_an_adapter_that_cannot_be_used_is_refused(names, message, tmp_path, monkeypatch):
    (tmp_path / "odd_adapters.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    adapters = [f"odd_adapters:{name}" for name in names]
    with pytest.raises(OptionError) as caught:
        examined(Request(adapters=adapters), Console(quiet=True))
    assert str(caught.value) == f"adapter={adapters[-1]!r}: {message}"


def test_an_implementation_that_is_named_twice_is_asked_once():
    assert [adapter.name for adapter in command.implementations(["scipy", "scipy"], [])] == ["scipy"]
