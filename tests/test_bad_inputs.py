"""Bad input is refused with a text that helps, and nothing is half done."""

from __future__ import annotations

import tracemalloc

import bad_inputs
import bad_inputs_array_ops
import bad_inputs_arrays
import bad_inputs_conv
import bad_inputs_options
import bad_inputs_out
import bad_inputs_records
import numpy as np
import pytest

import windowgrad as wg

CASES = [
    case
    for group in (
        bad_inputs,
        bad_inputs_options,
        bad_inputs_arrays,
        bad_inputs_conv,
        bad_inputs_records,
        bad_inputs_out,
        bad_inputs_array_ops,
    )
    for case in group.CASES
]
NAMED = (bad_inputs.X, bad_inputs.ROW, bad_inputs.WEIGHT, bad_inputs.TURNED)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_the_error_says_what_is_wrong_and_where(case):
    before = [array.tobytes() for array in NAMED]
    with pytest.raises(wg.WindowgradError) as caught:
        case.call()
    assert type(caught.value) is case.error
    assert str(caught.value) == case.text
    assert [array.tobytes() for array in NAMED] == before


def test_every_case_has_its_own_name():
    assert len({case.id for case in CASES}) == len(CASES)


@pytest.mark.parametrize("error", [wg.WindowError, wg.OptionError, wg.KindError])
def test_ordinary_handlers_catch_every_error(error):
    assert issubclass(error, wg.WindowgradError)
    assert issubclass(error, TypeError if error is wg.KindError else ValueError)


def test_a_missing_beta_is_named_by_python_itself():
    with pytest.raises(TypeError, match=r"smooth_max_pool2d\(\) missing 1 required keyword-only argument: 'beta'"):
        wg.smooth_max_pool2d(bad_inputs.X, 2)


@pytest.mark.parametrize(
    "call",
    [
        lambda x: wg.max_pool1d(x, 2, padding=10**12),
        lambda x: wg.avg_pool1d(x, 2, padding=10**12),
        lambda x: wg.smooth_max_pool1d(x, 2, padding=10**12, beta=1.0),
        lambda x: wg.adaptive_max_pool1d(x, 10**12),
        lambda x: wg.conv1d(x, np.ones((1, 1, 2)), padding=10**12),
        lambda x: wg.conv_transpose1d(x, np.ones((1, 1, 2)), stride=10**12),
        lambda x: wg.pad(x, (10**12,)),
    ],
    ids=["max_pool", "avg_pool", "smooth_max_pool", "adaptive_max_pool", "conv", "conv_transpose", "pad"],
)
def test_an_output_that_cannot_be_allocated_is_refused_before_any_work(call):
    with pytest.raises(wg.WindowError):
        call(bad_inputs.ROW)  # once before: what a first call imports is not what is measured
    tracemalloc.start()
    try:
        with pytest.raises(wg.WindowError, match=r"output of shape \(1, \d+\): needs .* this machine has .* of memory"):
            call(bad_inputs.ROW)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 2**20


def test_a_call_is_shown_once_though_functions_call_each_other():
    with pytest.raises(wg.WindowError) as caught:
        wg.global_max_pool2d(bad_inputs.ROW[0])
    assert str(caught.value).count("[") == 1


def test_long_arguments_are_cut_and_unprintable_ones_do_not_hide_the_error():
    with pytest.raises(wg.KindError) as caught:
        wg.max_pool2d(list(range(10**5)), 2)
    assert len(str(caught.value)) < 300
    with pytest.raises(wg.WindowError) as caught:
        wg.max_pool2d(bad_inputs.X, (-(10**5000), 10**5000))
    assert str(caught.value).startswith("kernel_size=-2**16609… on axis 0: must be at least 1 [max_pool2d(")


def test_a_message_looks_at_the_first_entries_of_a_long_list_only():
    class Counted(list):
        looked = 0

        def __getitem__(self, key):
            Counted.looked += 1
            return super().__getitem__(key)

    with pytest.raises(wg.KindError, match=r"must be a NumPy array, not .*x=\[0, 1, 2, .*…"):
        wg.max_pool1d(Counted(range(10**7)), 2)
    assert Counted.looked == 1  # one slice, not ten million entries
