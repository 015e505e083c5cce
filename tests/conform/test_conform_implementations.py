"""The implementations themselves: windowgrad agrees everywhere, and the others differ where they are known to."""

from __future__ import annotations

import re
import subprocess
import sys

import numpy as np
import pytest

from windowgrad.conform.adapter import NO_SUCH, script
from windowgrad.conform.adapters import ADAPTERS
from windowgrad.conform.case import CHECKS, OPS, Case
from windowgrad.conform.cases import cases
from windowgrad.conform.expected import expected, shown_all
from windowgrad.conform.known import load
from windowgrad.conform.runner import Plan, run

BY_NAME = {adapter.name: adapter for adapter in ADAPTERS}
nan, inf = np.nan, np.inf


def reports(names, plan):
    return {report.name: report for report in run([BY_NAME[name] for name in names], plan)}


def test_windowgrad_agrees_through_every_bridge():
    few = [case for case in cases(240) if case.dtype == "float32"][:40]
    assert {case.op for case in few} == set(OPS)
    names = [name for name in BY_NAME if name.startswith("windowgrad")]
    for report in reports(names, Plan(few, CHECKS)).values():
        assert [(finding.call, finding.smallest.message) for finding in report.findings] == [], report.name
        assert report.count("agrees") == len(report.results) > 100


SMOOTH = [
    Case("smooth_max_pool", {"x": np.zeros((1, 1, 4))}, (2,), (2,), ((0, 0),), (1,)),
    Case("adaptive_smooth_max_pool", {"x": np.zeros((1, 1, 4))}, output_size=(2,)),
    Case("global_smooth_max_pool", {"x": np.zeros((1, 1, 4))}),
]


@pytest.mark.parametrize("case", SMOOTH, ids=lambda case: case.op)
@pytest.mark.parametrize("name", [name for name in BY_NAME if not name.startswith("windowgrad")])
def test_an_operator_that_no_adapter_has_a_name_for_is_unsupported(name, case):
    """A smooth maximum is an operator of the table, and of no framework."""
    assert all(BY_NAME[name].supports(case, check) for check in CHECKS)
    if case.windows == "sliding":
        assert BY_NAME[name].supports(case, "forward") == NO_SUCH


def test_a_minimum_is_compared_where_an_implementation_has_one():
    found = reports(["scipy", "scikit-image"], Plan(cases(120, 0, ("min_pool",)), ("forward",)))
    for report in found.values():
        assert report.count("agrees") == report.asked > 5


# --- found without being told ------------------------------------------------------------------------------------


def shown(reports, name, **wanted):
    """The findings of an implementation of which these things are true."""
    return [
        finding
        for finding in reports[name].findings
        if all(getattr(finding.smallest, key, None) == value for key, value in wanted.items() if key != "features")
        and finding.smallest.case.features.issuperset(wanted.get("features", ()))
    ]


@pytest.fixture(scope="module")
def quick():
    """The quick ones are asked much, with nothing known."""
    return reports(["torch", "onnx", "onnxruntime"], Plan(cases(400, 0, ("max_pool", "avg_pool")), CHECKS))


@pytest.fixture(scope="module")
def slow():
    """Those that compile each case are asked what is dilated or large."""
    asked = cases(400, 0, ("max_pool", "avg_pool"))
    dilated = [case for case in asked if case.op == "max_pool" and "dilation" in case.features and not case.ceil_mode][:6]
    large = [case for case in asked if case.group == "large" and case.dtype == "float16"][:6]
    return reports(["jax", "flax"], Plan(dilated + large, ("forward", "gradient"), shrinking=5))


def rule_and_kind(found):
    return {(finding.rule, finding.smallest.kind, finding.smallest.case.op, finding.smallest.check) for finding in found}


def test_onnx_reference_max_pool_of_stride_1_has_the_wrong_shape(quick):
    found = shown(quick, "onnx", kind="differs", what="shape", features=["padding", "stride one"])
    assert ("1. Size", "differs", "max_pool", "forward") in rule_and_kind(found)


def test_onnx_reference_average_pool_shifts_the_data_in_ceil_mode(quick):
    found = shown(quick, "onnx", kind="differs", what="value", features=["ceil mode"])
    assert ("6. Mean", "differs", "avg_pool", "forward") in rule_and_kind(found)


def test_onnx_reference_drops_real_nan(quick):
    assert ("5. NaN", "differs", "max_pool", "forward") in rule_and_kind(shown(quick, "onnx", what="value"))


def test_pytorch_gives_the_index_of_the_last_nan(quick):
    (found,) = [f for f in shown(quick, "torch", check="indices", what="value") if f.rule == "5. NaN"]
    assert np.isnan(found.smallest.case.x).sum() > 1
    assert found.smallest.difference.got > found.smallest.difference.expected


def test_pytorch_refuses_integers_in_max_pool1d(quick):
    refused = [f.smallest for f in shown(quick, "torch", kind="refuses") if "max_pool1d_impl" in f.smallest.message]
    assert {result.case.dtype for result in refused} >= {"int64", "int32", "uint8"}


def test_pytorch_refuses_padding_over_half_the_kernel(quick):
    found = shown(quick, "torch", kind="refuses", features=["padding over half"])
    assert {f.smallest.case.op for f in found} == {"max_pool", "avg_pool"}


def test_jax_has_no_reverse_mode_for_a_dilated_maximum(slow):
    (found,) = shown(slow, "jax", kind="refuses", check="gradient", features=["dilation"])
    assert "VJP not implemented" in found.smallest.message


def test_flax_overflows_in_the_mean_of_float16(slow):
    (found,) = shown(slow, "flax", kind="differs", what="value")
    assert found.smallest.case.dtype == "float16"
    assert "inf" in str(found.smallest.difference.got)


def test_nothing_of_the_quick_ones_is_new():
    entries = load()
    names = ["torch", "onnx", "onnxruntime", "scipy", "scikit-image"]
    found = reports(names, Plan(cases(250), CHECKS, known=entries, shrinking=0))
    assert {name: [finding.call for finding in found[name].new] for name in names} == {name: [] for name in names}


# --- reproductions -----------------------------------------------------------------------------------------------


def window(op, cells, kernel, **more):
    sizes = {"stride": (1,), "padding": ((0, 0),), "dilation": (1,)} | more.pop("window", {})
    return Case(op, {"x": np.array([[cells]], dtype=more.pop("dtype", "float32"))}, kernel=(kernel,), **sizes, **more)


DIFFERENT = [
    ("torch", "indices", window("max_pool", [nan, nan], 2)),
    ("jax", "gradient", window("max_pool", [nan, 0], 2)),
    ("flax", "forward", window("avg_pool", [2**15, 2**15], 2, dtype="float16")),
    ("equinox", "forward", Case("adaptive_max_pool", {"x": np.float32([[[0, 1, 0]]])}, output_size=(2,))),
    ("keras", "gradient", Case("global_max_pool", {"x": np.float32([[[1, 1]]])}, ties="all")),
    ("onnx", "forward", window("max_pool", [0, nan], 2)),
    ("onnxruntime", "forward", window("max_pool", [nan], 1)),
    ("tinygrad", "gradient", window("max_pool", [1, 1], 2)),
    ("scipy", "forward", window("avg_pool", [-inf, 0, 0, 0, 0], 3, window={"padding": ((1, 1),)})),
    ("scikit-image", "forward", window("avg_pool", [1, 2], 1, dtype="uint8")),
]


def test_every_implementation_with_a_known_difference_has_a_reproduction_below():
    assert {entry.implementation.strip("*") for entry in load()} - {"torch.compile"} == {name for name, *_ in DIFFERENT}


@pytest.mark.parametrize(("name", "check", "case"), DIFFERENT, ids=[name for name, *_ in DIFFERENT])
def test_a_reproduction_shows_the_difference(name, check, case):
    text = script(BY_NAME[name].program(case, check), shown_all(expected(case, check)))
    assert "windowgrad" not in text
    text += "print(np.asarray(got[0] if isinstance(got, (tuple, list)) else got).dtype)\n"
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", text], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    right, *got, dtype = done.stdout.splitlines()
    same = np.array_equal(numbers_in(right), numbers_in(" ".join(got)), equal_nan=True)
    assert not same or dtype != BY_DTYPE[name]


BY_DTYPE = {"scikit-image": "float32"}  # the one whose numbers are right and whose dtype is not


def numbers_in(text):
    """The numbers of the nested lists that a script printed."""
    return [float(word) for word in re.findall(r"(?<![\w.])-?(?:\d+\.?\d*(?:e[+-]?\d+)?|inf|nan)", text.partition("[")[2])]
