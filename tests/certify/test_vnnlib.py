"""VNN-LIB files are read exactly, and what is wrong with one is said with its line."""

import gzip
import re
from fractions import Fraction

import numpy as np
import pytest

from windowgrad.certify import vnnlib
from windowgrad.certify.properties import Inequality, Property, ceiled, exactly, floored, label_stays
from windowgrad.errors import KindError, OptionError, WindowError

HEAD = "(declare-const X_0 Real)(declare-const X_1 Real)(declare-const Y_0 Real)(declare-const Y_1 Real)\n"
BOX = "(assert (<= X_0 0.5))(assert (>= X_0 -0.1))(assert (<= X_1 1))(assert (>= X_1 0))\n"


def one(text):
    (question,) = vnnlib.parsed(HEAD + BOX + text)
    return question


def shown(question):
    return [[str(each) for each in clause] for clause in question.property.clauses]


def test_the_box_is_rounded_outwards():
    question = one("(assert (<= Y_0 0.0))")
    assert question.hi.tolist() == [0.5, 1.0]
    low = Fraction(question.lo[0])
    assert low <= Fraction(-1, 10) < Fraction(np.nextafter(question.lo[0], 1))
    text = HEAD + "(assert (<= X_0 0.1))(assert (>= X_0 0.1))(assert (<= X_1 1))(assert (>= X_1 0))(assert (<= Y_0 0))"
    (point,) = vnnlib.parsed(text)
    assert Fraction(point.lo[0]) < Fraction(1, 10) < Fraction(point.hi[0])


@pytest.mark.parametrize(
    ("text", "clauses"),
    [
        ("(assert (<= Y_0 Y_1))", [["y[0] − y[1] > 0"]]),
        ("(assert (>= Y_0 Y_1))", [["− y[0] + y[1] > 0"]]),
        ("(assert (<= Y_0 -1))(assert (<= Y_1 -1))", [["y[0] > -1", "y[1] > -1"]]),
        ("(assert (or (and (<= Y_0 -1)) (and (>= Y_1 2) (<= Y_0 0.25))))", [["y[0] > -1"], ["− y[1] > -2", "y[0] > 1/4"]]),
        (
            "(assert (and (<= Y_0 1) (or (<= Y_1 2) (<= Y_1 Y_0))))",
            [["y[0] > 1", "y[1] > 2"], ["y[0] > 1", "− y[0] + y[1] > 0"]],
        ),
        ("(assert (<= (+ (* 2 Y_0) (- Y_1) 3) 1e-1))", [["2·y[0] − y[1] > -29/10"]]),
        ("(assert (= Y_0 1.5))", [["y[0] > 3/2", "− y[0] > -3/2"]]),
    ],
)
def test_what_must_not_happen_becomes_what_must_hold(text, clauses):
    """The file describes the unsafe outputs as a disjunction of cases; each case must be violated by one of its parts."""
    assert shown(one(text)) == clauses


def test_boxes_in_a_disjunction_are_questions_of_their_own():
    sides = "(assert (<= X_1 1))(assert (>= X_1 0))"
    cases = "(and (<= X_0 1) (>= X_0 0) (<= Y_0 0)) (and (<= X_0 3) (>= X_0 2) (<= Y_1 0))"
    text = f"{HEAD}{sides}(assert (or {cases}))"
    first, second = vnnlib.parsed(text)
    assert (first.lo.tolist(), first.hi.tolist(), shown(first)) == ([0, 0], [1, 1], [["y[0] > 0"]])
    assert (second.lo.tolist(), second.hi.tolist(), shown(second)) == ([2, 0], [3, 1], [["y[1] > 0"]])


def test_an_empty_box_asks_nothing():
    assert (
        vnnlib.parsed(HEAD + "(assert (<= X_0 0))(assert (>= X_0 1))(assert (<= X_1 1))(assert (>= X_1 0))(assert (<= Y_0 0))")
        == []
    )


def test_comments_lines_and_compressed_files(tmp_path):
    text = "; a comment (with a parenthesis\n" + HEAD + BOX + "(assert ; and one here\n (<= Y_0\n 0))"
    (tmp_path / "p.vnnlib").write_text(text)
    (tmp_path / "p.vnnlib.gz").write_bytes(gzip.compress(text.encode()))
    for name in ("p.vnnlib", "p.vnnlib.gz"):
        assert shown(vnnlib.read(tmp_path / name)[0]) == [["y[0] > 0"]]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("(assert (<= Z_0 1))", "line 3: 'Z_0': must be X_0, X_1, … or Y_0, Y_1, …"),
        ("(assert (<= Y_7 1))", "line 3: Y_7: is not declared"),
        ("(declare-const Y_4 Real)", "line 3: 'Y_4': must be declared after Y_3"),
        ("(assert (<= X_0 Y_0))", "line 3: inputs must stand alone, compared with a number"),
        ("(assert (<= (* Y_0 Y_1) 1))", "must be linear"),
        ("(assert (~ Y_0 1))", "must be and, or, <=, <, >=, > or = of two terms"),
        ("(assert (<= Y_0 1)", "line 3: a ( without its )"),
        (")", "line 3: a ) without its ("),
        ("assert", "line 3: 'assert' outside of parentheses"),
        ("(push 1)", "must be a declare-const or an assert"),
        ("(" * 200, "nested more than 100 deep"),
        ("(assert (<= Y_0 1e99999))", "line 3: '1e99999': must be X_0"),
        ("(assert (and " + "(or (<= Y_0 0) (<= Y_1 0))" * 30 + "))", "more than 65536 cases"),
    ],
)
def test_a_wrong_file_is_refused_with_its_line(text, message):
    with pytest.raises(OptionError, match=re.escape(message)):
        vnnlib.parsed(HEAD + BOX + text)


def test_an_input_without_a_bound_is_named():
    with pytest.raises(OptionError, match=re.escape("X_1 has no lower bound")):
        vnnlib.parsed(HEAD + "(assert (<= X_0 0.5))(assert (>= X_0 0))(assert (<= X_1 1))(assert (<= Y_0 0))")


def test_a_file_that_cannot_be_read_is_refused(tmp_path):
    with pytest.raises(OptionError, match="cannot be read"):
        vnnlib.read(tmp_path / "missing.vnnlib")
    (tmp_path / "odd.vnnlib").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(OptionError, match="not a text file"):
        vnnlib.read(tmp_path / "odd.vnnlib")
    (tmp_path / "odd.vnnlib.gz").write_bytes(b"no gzip")
    with pytest.raises(OptionError, match="cannot be read"):
        vnnlib.read(tmp_path / "odd.vnnlib.gz")


def test_a_compressed_file_cannot_fill_the_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(vnnlib, "LARGEST", 1000)
    (tmp_path / "large.vnnlib.gz").write_bytes(gzip.compress(b" " * 100_000))
    with pytest.raises(OptionError, match="is larger than"):
        vnnlib.read(tmp_path / "large.vnnlib.gz")


# --- properties --------------------------------------------------------------------------------------------------


def test_an_inequality_has_integer_coefficients_and_an_exact_bound():
    found = Inequality.of({0: Fraction(1, 2), 3: -0.25, 2: 0}, 0.1)
    assert found.terms == ((0, 2), (3, -1))
    assert found.bound == 4 * Fraction(0.1)
    assert found.margin([Fraction(1), 0, 0, Fraction(1)]) == 1 - found.bound
    assert found.row(5).tolist() == [2, 0, 0, -1, 0]


def test_rounding_to_floats_is_outwards():
    for x in (Fraction(1, 3), Fraction(-1, 3), Fraction(1, 2), Fraction(10) ** 30 + 1):
        assert Fraction(floored(x)) <= x <= Fraction(ceiled(x))
        assert x == Fraction(1, 2) or floored(x) < ceiled(x)


def test_label_stays_has_a_clause_for_every_other_label():
    assert [[str(each) for each in clause] for clause in label_stays(1, 3).clauses] == [
        ["− y[0] + y[1] > 0"],
        ["y[1] − y[2] > 0"],
    ]
    with pytest.raises(OptionError, match=re.escape("label=3: must be below 3, the number of classes")):
        label_stays(3, 3)


def test_a_property_of_cells_that_are_not_there_is_refused():
    with pytest.raises(WindowError, match=re.escape("speaks of y[2], but the output has 2 cells")):
        label_stays(2, 3).check(2)


def test_numbers_that_are_none_are_refused():
    with pytest.raises(KindError, match="must be an integer, a fraction or a float"):
        exactly("bound", "1")
    with pytest.raises(OptionError, match="must be finite"):
        exactly("bound", float("inf"))
    with pytest.raises(KindError, match="must be a tuple of Inequality"):
        Property(((1,),))
