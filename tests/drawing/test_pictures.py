"""What notebooks show of geometries and of results, with the text of users escaped; and the pictures of the pages."""

from __future__ import annotations

import runpy
from xml.etree import ElementTree

import numpy as np
import pytest

from support.paths import DOCS, ROOT
from windowgrad import certify, nn
from windowgrad.certify.check import Verdict
from windowgrad.conform.case import Case
from windowgrad.conform.results import Finding, Report, Result
from windowgrad.geometry import Adaptive, Global, Sliding


def titles(svg):
    texts = ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")
    return [text.text for text in texts if text.get("class") == "t"]


def table(html):
    return [["".join(cell.itertext()) for cell in row] for row in ElementTree.fromstring(html).iter("tr")]


@pytest.mark.parametrize(
    ("geometry", "panels"),
    [
        (Sliding((3, 3), 2, 1), [f"output ({i}, {j})" for i in range(2) for j in range(3)]),
        (Sliding((3,), 2, 1, ceil_mode=True), ["output 0", "output 1", "output 2"]),
        (Sliding((2,), 1, 7), ["output 0", "output 1", "output 2"]),
        (Sliding((2, 2, 2)), [f"output (0, {i}, {j})" for i in range(2) for j in range(3)]),
        (Adaptive((2, None)), [f"output ({i}, {j})" for i in range(2) for j in range(3)]),
        (Adaptive((10**6,)), ["output 0", "output 1", "output 2"]),
        (Global(2), ["output (0, 0)"]),
        (Global(1, keepdims=False), ["output 0"]),
    ],
)
def test_a_geometry_shows_its_first_windows(geometry, panels):
    assert titles(geometry._repr_svg_()) == panels


@pytest.mark.parametrize("geometry", [Sliding((11,)), Sliding((10**9, 10**9)), Sliding((3,), dilation=10**6)])
def test_a_window_too_large_for_a_picture_has_none(geometry):
    assert geometry._repr_svg_() is None


def test_bounds_and_proofs_are_tables():
    net = nn.Sequential(nn.Linear(2)), ({"weight": np.eye(2), "bias": np.zeros(2)},)
    lo, hi = np.array([[2.0, 0.0]]), np.array([[3.0, 1.0]])
    bounds = certify.bounds(net, lo, hi)
    lower, upper = bounds
    assert isinstance(bounds, tuple)
    assert repr(bounds) == repr((lower, upper))
    assert table(bounds._repr_html_())[:2] == [["output", "lower", "upper"], ["(0, 0)", "2", "3"]]
    many = certify.Bounds((np.zeros((1, 30)), np.ones((1, 30))))
    assert table(many._repr_html_())[-1] == ["and 10 more", "", ""]
    found = dict(map(tuple, table(certify.prove(net, lo, hi, certify.label_stays(0, 2))._repr_html_())))
    assert (found["verdict"], found["property"], found["input"]) == ("holds", "y[0] − y[1] > 0", "(1, 2)")


def test_a_checked_certificate_is_a_table():
    accepted = Verdict(True, None, "real", np.zeros((1, 2)), np.ones((1, 2)), (("y[0] > 1",),) * 7, 4)
    lines = table(accepted._repr_html_())
    assert lines[:3] == [["verdict", "accepted"], ["arithmetic", "real"], ["boxes", "4"]]
    assert lines[-2:] == [["property", "y[0] > 1"], ["", "and 2 more"]]
    assert table(Verdict(False, "<b>&")._repr_html_()) == [["verdict", "rejected"], ["reason", "<b>&"]]


def test_a_report_of_conform_is_a_table_and_so_is_a_finding():
    result = Result(
        Case("max_pool", {"x": np.zeros((1, 1, 2))}, (2,), (1,), ((0, 0),), (1,)), 0, "forward", "refuses", message="<i>no"
    )
    finding = Finding([result], result, "4. Ties", "f(<x>)", "script", None)
    report = Report("peer", "A <b>peer</b>", "1.0", [result], [finding])
    assert table(finding._repr_html_())[3] == ["call", "f(<x>)"]
    assert table(finding._repr_html_())[-1] == ["message", "<i>no"]
    assert table(report._repr_html_()) == [
        ["version", "1.0"],
        ["checks", "1 refuses"],
        ["seconds", "0"],
        ["new", "refuses, 4. Ties: f(<x>)"],
    ]
    assert "<b>" not in report._repr_html_()


def test_the_pictures_of_the_page_are_what_its_command_draws():
    drawn = runpy.run_path(str(ROOT / "tools" / "draw_windows.py"))["pictures"]()
    page = (DOCS / "explain.md").read_text("utf-8")
    for name, picture in drawn.items():
        assert DOCS.joinpath(name).read_text("utf-8") == picture
        assert f"]({name})" in page
