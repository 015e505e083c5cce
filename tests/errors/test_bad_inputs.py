"""Bad input is refused with a text that helps, and nothing is half done."""

from __future__ import annotations

import tracemalloc
from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

import windowgrad as wg
from support import (
    bad_inputs,
    bad_inputs_api,
    bad_inputs_array_ops,
    bad_inputs_arrays,
    bad_inputs_conv,
    bad_inputs_options,
    bad_inputs_out,
    bad_inputs_records,
)
from windowgrad.kernels.runtime import buffers

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
        bad_inputs_api,
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
    assert len(case.text) < 500
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


class Endless(Sequence):
    """A hundred million entries that nobody may look at."""

    def __len__(self):
        return 10**8

    def __getitem__(self, place):
        raise AssertionError("an entry was looked at")

    def __repr__(self):
        return "Endless()"


@pytest.mark.parametrize(
    "call",
    [
        lambda: wg.pool_out_shape(Endless(), 2),
        lambda: wg.conv_out_shape((5,), Endless()),
        lambda: wg.conv_transpose_out_shape((5,), Endless()),
        lambda: wg.max_pool(bad_inputs.X, Endless()),
        lambda: wg.max_pool2d(bad_inputs.X, 2, stride=Endless()),
        lambda: wg.max_pool2d(bad_inputs.X, 2, padding=(Endless(), 0)),
        lambda: wg.pad(bad_inputs.X, Endless()),
        lambda: wg.nn.Linear(3).out_shape(Endless()),
        lambda: wg.geometry.Sliding((2,)).out_shape(Endless()),
    ],
)
def test_an_endless_argument_is_refused_by_its_length(call):
    with pytest.raises(wg.WindowError):
        call()


def test_a_buffer_cap_of_any_size_is_set_at_once():
    before = wg.get_buffer_cap()
    try:
        wg.set_buffer_cap(1 << 100000)
        assert wg.get_buffer_cap() == 1 << 100000
        assert len(buffers.current_pool().idle) < 200
    finally:
        wg.set_buffer_cap(before)


LONG = {
    "text": "x" * 10**6,
    "nested": [["y" * 100] * 20] * 20,
    "dict": dict.fromkeys(range(10**5), "z" * 50),
    "set": set(range(10**5)),
    "array": np.arange(10**6).astype(str),
    "tuple": tuple(range(1000)),
    "fraction": Fraction(10**5000, 3),
    "bytes": b"b" * 10**6,
}


def raised(call):
    """What a call raises: an error of ours, or that of a file that is not there; None if all is well."""
    try:
        call()
    except (wg.WindowgradError, OSError) as error:
        return error


@pytest.mark.parametrize("name", LONG)
def test_no_message_is_longer_than_500_characters(name):
    """Whatever is shown, and wherever: the value, the node, the layer, the call."""
    value = LONG[name]
    many = np.zeros((1,) * 64)
    tape = wg.Tape()
    x = tape.leaf(many, name="n" * 1000)
    calls = [
        lambda: wg.max_pool(value, value, value, value, value),
        lambda: wg.max_pool2d(bad_inputs.X, 2, ties=value, empty=value),
        lambda: wg.conv(many, many, many, value, value, value, value),
        lambda: wg.matmul(x, value),
        lambda: wg.max_pool2d(x, value),
        lambda: wg.grad(lambda x: x)(value),
        lambda: wg.grad(lambda x: x, value)(1.0),
        lambda: wg.nn.Sequential(value),
        lambda: wg.nn.Conv(value, value, value),
        lambda: wg.nn.Sequential(*[wg.nn.Sequential(wg.nn.ReLU())] * 2)(value, many),
        lambda: wg.nn.sgd(value),
        lambda: wg.nn.load_extra(value),
        lambda: tape.backward(value),
    ]
    lengths = [len(str(error)) for error in map(raised, calls) if isinstance(error, wg.WindowgradError)]
    assert len(lengths) > 10
    assert max(lengths) < 500


def test_objects_of_more_axes_than_numpys_flat_has_are_computed():
    """`numpy.ndarray.flat` ends at 32 axes."""
    x = np.full((1,) * 33 + (2,), Fraction(1, 3))
    assert wg.max_pool1d(x, 2).ravel().tolist() == [Fraction(1, 3)]
    assert wg.avg_pool1d(x, 2).ravel().tolist() == [Fraction(1, 3)]
    assert wg.relu(x).ravel().tolist() == [Fraction(1, 3)] * 2
    assert wg.grad(wg.sum)(x).shape == x.shape


def test_an_axis_may_be_an_array_without_axes():
    x = np.arange(6.0).reshape(2, 3)
    one = np.array(1)
    assert wg.log_softmax(x, axis=one).tolist() == wg.log_softmax(x, axis=1).tolist()
    assert wg.sum(x, axis=one).tolist() == [3, 12]
    assert wg.flatten(x, one).shape == (2, 3)
    assert wg.avg_pool1d(x, 3, divisor_override=np.array(2)).tolist() == [[1.5], [6]]


def test_gradients_of_decimals_are_checked():
    x = np.array([Decimal(1), Decimal(2)])
    wg.check_grads(lambda x: x * x, x, order=2)
    wg.check_grads(wg.sum, x)


def test_a_mapping_of_gradients_says_what_is_in_it():
    """A missing node is a KeyError too, so `in` and `get` work."""
    tape = wg.Tape()
    x = tape.leaf(1.0, name="x")
    grads = tape.backward(x)
    assert "x" in grads
    assert x in grads
    assert "y" not in grads
    assert grads.get("y") is None
