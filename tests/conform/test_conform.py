"""`conform` finds what is wrong with an implementation, and makes it small."""

from __future__ import annotations

import json
import subprocess
import sys
from decimal import Decimal
from itertools import combinations
from random import Random

import numpy as np
import pytest

from support import conform_adapters as fakes
from support.paths import ROOT
from windowgrad.conform.adapters import ADAPTERS
from windowgrad.conform.answers import Answer
from windowgrad.conform.case import CHECKS, GROUPS, OPS, Case
from windowgrad.conform.cases import FACTORS, cases, covering, possible
from windowgrad.conform.command import CASES
from windowgrad.conform.expected import NORM_ROUNDINGS, compared, expected, magnitudes
from windowgrad.conform.pairwise import pairwise
from windowgrad.conform.process import Limits, Worker
from windowgrad.conform.rules import RULES, rule_of
from windowgrad.conform.runner import Plan, run
from windowgrad.conform.stop import Stop

# --- cases -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cells", "padding", "ceil_mode", "much"),
    [(5, (1, 1), True, True), (4, (1, 1), True, False), (5, (1, 1), False, False), (5, (3, 0), False, True)],
)
def test_a_stride_of_ceil_mode_counts_as_padding_only_where_room_is_left(cells, padding, ceil_mode, much):
    """An implementation that pads by it refuses these cases, so an entry is not stale if none of them was asked."""
    case = Case("max_pool", {"x": np.zeros((1, 1, cells))}, (2,), (2,), (padding,), (1,), ceil_mode)
    assert ("padding or a stride of ceil mode over kernel" in case.features) == much


@pytest.mark.parametrize("op", OPS)
def test_every_two_levels_that_can_meet_do(op):
    factors, judge = FACTORS[op], possible(op)
    rows = list(pairwise(factors, judge, Random(0)))
    met = {pair for row in rows for pair in combinations(sorted(row.items(), key=lambda item: item[0]), 2)}
    for a, b in combinations(sorted(factors), 2):
        for i in factors[a]:
            for j in factors[b]:
                assert ((a, i), (b, j)) in met or not judge({a: i, b: j}), (a, i, b, j)
    assert all(judge(row) for row in rows)


def test_the_default_holds_every_row_of_the_cover():
    assert sum(1 for op in OPS for _ in covering(op, 0)) < CASES


def test_a_seed_always_gives_the_same_cases():
    one, again, other = (json.dumps([case.as_json() for case in cases(60, seed)]) for seed in (3, 3, 4))
    assert one == again
    assert one != other


def test_the_cases_of_an_operator_do_not_depend_on_the_others():
    """So that an operator that is added changes no question that was asked before."""
    alone = [case.as_json() for case in cases(150, 0, ("max_pool",))]
    among = [case.as_json() for case in cases(300, 0, ("avg_pool", "max_pool")) if case.op == "max_pool"]
    assert alone == among[:150]


def test_cases_are_what_their_group_says():
    found = cases(CASES)
    assert {case.group for case in found} == set(GROUPS)
    for case in found:
        planes, left = (array.reshape(-1, int(np.prod(case.spatial))) for array in (case.x, case.there))
        if case.group == "tie-free":
            assert all(len(set(plane[kept].tolist())) == kept.sum() for plane, kept in zip(planes, left, strict=True))
        seen = [array.astype(float) for array in (*case.arrays.values(), case.x[case.there])[1:]]
        if case.group not in ("NaN", "infinite", "empty windows"):
            assert all(np.isfinite(array).all() for array in seen)
        assert (case.group == "NaN") == bool(np.isnan(seen[-1]).any()) or case.where is not None
        assert (case.group == "empty windows") == case.has_empty_window


def test_every_expected_number_is_held_exactly_by_the_dtype():
    """So what differs differs in meaning. Of a mean that is its sum; the quotient may be rounded."""
    for case in cases(CASES):
        if case.group in ("large", "NaN", "infinite") or case.is_mean or case.is_norm:
            continue
        for check in case.checks:
            for cell in (cell for array in expected(case, check).values() for cell in array.flat):
                if check != "indices" and case.dtype.startswith("float") and case.ties != "split":
                    assert np.dtype(case.dtype).type(float(cell)) == cell


def test_masks_leave_out_what_their_level_says():
    masked = [case for case in cases(CASES) if case.where is not None]
    for op in OPS:
        shares = {case.there.mean() for case in masked if case.op == op}
        assert (0 in shares and 1 not in shares and len(shares) > 3) or op.startswith("conv")
    assert any(case.where.shape == case.spatial for case in masked)
    assert any(np.isnan(case.x[~case.there]).any() for case in masked)
    assert any(np.isinf(case.x[~case.there]).any() for case in masked)
    for case in masked:
        assert all(cell == cell for cell in expected(case, "forward")["y"].flat)
        assert not any(expected(case, "gradient")["gradient of x"][~case.there])


def test_a_norm_is_expected_to_the_last_digit_and_may_be_some_roundings_away():
    case = Case("global_lp_pool", {"x": np.array([[[1.0, 1.0]]])}, norm_type=3)
    (y,) = expected(case, "forward")["y"].flat
    assert y == float(Decimal(2) ** (Decimal(1) / 3))
    right = expected(case, "forward")
    off = [np.array([[[y * (1 + n * 2.0**-52)]]]) for n in (15, 18)]
    assert compared(case, "forward", right, [Answer.of(off[0])]) is None
    assert compared(case, "forward", right, [Answer.of(off[1])]).what == "value"


def test_the_derivative_of_a_norm_may_round_by_what_is_added_where_that_cancels():
    x = np.array([[[2.0, -2.0, 1.0]]])
    case = Case("lp_pool", {"x": x}, (3,), (1,), ((0, 0),), (1,), norm_type=3)
    right = expected(case, "tangent")
    (wanted,), (size,) = right["tangent"].flat, magnitudes(case, "tangent").flat
    assert abs(wanted) < size / 2
    near, far = (np.array([[[wanted + share * NORM_ROUNDINGS * 2.0**-52 * size]]]) for share in (0.9, 1.1))
    assert compared(case, "tangent", right, [Answer.of(near)]) is None
    assert compared(case, "tangent", right, [Answer.of(far)]).what == "value"


def test_a_rule_is_one_of_the_page():
    anchors = {
        line.strip("# \n").lower() for line in (ROOT / "docs/semantics.md").read_text().splitlines() if line.startswith("#")
    }
    titles = {"".join(c for c in title if c.isalnum() or c in " -").replace(" ", "-") for title in anchors}
    assert {anchor.strip("#") for anchor in RULES.values()} <= titles
    assert {rule_of(case, check) for case in cases(300) for check in case.checks} <= set(RULES)


# --- differences -------------------------------------------------------------------------------------------------


def findings(adapter, ops, checks=CHECKS, count=60, **limits):
    (report,) = run([adapter], Plan(cases(count, 0, ops), checks, limits=Limits(**limits)))
    return report


def test_the_specification_agrees_with_itself():
    report = findings(fakes.Exact(), OPS, count=120)
    assert report.count("agrees") == len(report.results) > 250


PLANTED = [
    (fakes.WrongDivisor(), ("avg_pool",), "6. Mean", {"forward", "gradient", "tangent"}),
    (fakes.PadOrder(), ("max_pool",), "2. Padding and max", {"forward", "indices", "gradient", "tangent"}),
    (fakes.PadOrder(), ("conv",), "Convolution", {"forward", "gradient", "tangent"}),
    (fakes.LastTie(), ("max_pool",), "4. Ties", {"indices", "gradient", "tangent"}),
    (fakes.WrongGradient(), ("avg_pool",), "6. Mean", {"gradient"}),
]


@pytest.mark.parametrize(("adapter", "ops", "rule", "checks"), PLANTED, ids=lambda value: getattr(value, "name", None))
def test_a_planted_mistake_is_found_and_shrunk(adapter, ops, rule, checks):
    report = findings(adapter, ops, count=100)
    found = [finding for finding in report.findings if finding.smallest.what == "value"]
    assert {finding.smallest.check for finding in found} == checks
    assert rule in {finding.rule for finding in found}
    for finding in found:
        case = finding.smallest.case
        assert max(case.spatial) <= 6
        assert case.rank == 1 or finding.rule != rule or case.group == "infinite"
        assert case.x.shape[:2] == (1, 1)
        assert finding.was_shrunk


def test_a_difference_is_shown_by_its_own_script():
    report = findings(fakes.WrongDivisor(), ("avg_pool",), ("forward",))
    script = report.findings[0].script
    printed = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    right, wrong = (line.split(":", 1)[1].strip() for line in printed.splitlines())
    assert right != f"y {wrong}"
    assert "wg.avg_pool" in script


def test_a_crash_a_hang_and_too_much_memory_are_results_and_not_the_end():
    report = findings(fakes.Ends(), ("max_pool",), count=4, seconds=6, memory=2**28)
    assert {result.case.rank for result in report.results} >= {1, 2}
    ends = {result.check: (result.kind, result.message) for result in report.results if result.case.rank == 1}
    assert ends["forward"] == ("crashes", "it was killed by SIGSEGV")
    assert ends["indices"] == ("crashes", "no answer after 6 seconds")
    assert ends["gradient"] == ("crashes", "it took more than 0.25 GiB of memory")
    assert ends["tangent"] == ("refuses", "RuntimeError: no")
    assert {result.kind for result in report.results if result.case.rank > 1} == {"agrees"}


def test_cases_that_are_computed_together_have_the_results_they_have_alone():
    one, many = (findings(adapter, ("avg_pool",), ("forward",), 40) for adapter in (fakes.WrongDivisor(), fakes.InBatches()))
    assert any(result.together for result in many.results)
    assert {(result.case.dtype, result.case.rank) for result in many.results} >= {("float64", 2), ("float32", 3)}
    told = [[(r.number, r.check, r.kind, r.what) for r in report.results] for report in (one, many)]
    assert told[0] == told[1]
    assert [finding.smallest.together for finding in many.findings] == [False] * len(many.findings)
    assert [finding.call for finding in one.findings] == [finding.call for finding in many.findings]


def test_a_difference_that_only_shows_together_says_so():
    report = findings(fakes.Disturbed(), ("avg_pool",), ("forward",), 8)
    assert {result.kind for result in report.results} == {"differs"}
    assert {finding.smallest.message for finding in report.findings} == {"in one program with other cases; by itself it agrees"}


def test_an_adapter_that_knows_nothing_of_masks_is_asked_none():
    masked = [case for case in cases(CASES, 0, ("max_pool",)) if case.where is not None][:3]
    unaware, aware = (run([adapter], Plan(masked, ("forward",)))[0] for adapter in (fakes.Unaware(), fakes.Exact()))
    assert {(result.kind, result.message) for result in unaware.results} == {("unsupported", "it has no masks")}
    assert {result.kind for result in aware.results} == {"agrees"}


def test_a_mask_that_is_ignored_is_found_and_shrunk():
    masked = [case for case in cases(CASES, 0, ("avg_pool",)) if case.where is not None]
    (report,) = run([fakes.IgnoresMasks()], Plan(masked, ("forward",)))
    smallest = [finding.smallest.case for finding in report.findings if finding.rule == "Masks"]
    assert min(case.x.size for case in smallest) <= 2
    assert all((~case.there).any() for case in smallest)
    assert "where = np.array(" in report.findings[0].script


def test_what_is_not_installed_is_not_counted():
    report = findings(fakes.NotThere(), OPS)
    assert (report.version, report.results) == (None, [])


def test_what_cannot_be_imported_crashes():
    report = findings(fakes.CannotImport(), ("max_pool",), ("forward",), count=2)
    assert {result.kind for result in report.results} == {"crashes"}
    assert "No module named 'no_such_module'" in report.results[0].message


def test_a_worker_says_what_a_program_left():
    with Stop() as stop, Worker("import numpy as np", Limits(), stop) as worker:
        words = worker.ask("import numpy as np\ngot = np.array([1.5, np.nan, -np.inf], np.float32)")
        assert words["arrays"] == [{"shape": [3], "dtype": "float32", "cells": [1.5, "nan", "-inf"]}]
        assert worker.ask("import os; os._exit(3)")["crash"] == "it exited with status 3"
        two = worker.ask("import numpy as np\ngot = (np.int8(1), np.ones(2, bool))")
        assert [part["dtype"] for part in two["arrays"]] == ["int8", "bool"]


def test_a_dtype_and_a_shape_are_part_of_an_answer():
    case = next(case for case in cases(80) if case.op == "avg_pool" and case.dtype == "float32" and case.group == "plain")
    right = expected(case, "forward")
    exact = np.vectorize(float)(right["y"])
    assert compared(case, "forward", right, [Answer.of(exact.astype(np.float32))]) is None
    assert compared(case, "forward", right, [Answer.of(exact)]).what == "dtype"
    assert compared(case, "forward", right, [Answer.of(exact[..., :-1])]).what == "shape"
    assert compared(case, "forward", right, [Answer.of((exact + 1).astype(np.float32))]).what == "value"


def test_every_adapter_is_about_a_screen_long():
    for path in (ROOT / "src/windowgrad/conform/adapters").glob("*.py"):
        assert len(path.read_text().splitlines()) < 120, path
    assert len({adapter.name for adapter in ADAPTERS}) == len(ADAPTERS)
