"""The public names: signatures, names and docstrings, pickling, and how arrays of other types take part."""

from __future__ import annotations

import doctest
import inspect
import pickle

import numpy as np
import pytest

import windowgrad as wg
from windowgrad import dispatch
from windowgrad.geometry import Adaptive, Sliding
from windowgrad.ops import OPS
from windowgrad.params import (
    ConvParams,
    ExtendParams,
    LpParams,
    MaxParams,
    MeanParams,
    MinParams,
    PadParams,
    SharpParams,
    SmoothParams,
    TransposeParams,
    UnpadParams,
    UnpoolParams,
)

SIGNATURES = """
max_pool(x, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False, *, ties="first",\
  empty="zero", where=None, out=None)
min_pool(x, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False, *, ties="first",\
  empty="zero", where=None, out=None)
avg_pool(x, kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True, divisor_override=None, *, dilation=1,\
  where=None, out=None)
smooth_max_pool(x, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, count_include_pad=True, *, beta,\
  where=None, out=None)
lp_pool(x, norm_type, kernel_size, stride=None, ceil_mode=False, *, padding=0, dilation=1, where=None, out=None)
adaptive_max_pool(x, output_size, return_indices=False, *, ties="first", empty="zero", where=None, out=None)
adaptive_min_pool(x, output_size, return_indices=False, *, ties="first", empty="zero", where=None, out=None)
adaptive_avg_pool(x, output_size, *, where=None, out=None)
adaptive_smooth_max_pool(x, output_size, *, beta, where=None, out=None)
adaptive_lp_pool(x, norm_type, output_size, *, where=None, out=None)
global_max_pool(x, rank, *, keepdims=True, return_indices=False, ties="all", empty="zero", where=None, out=None)
global_min_pool(x, rank, *, keepdims=True, return_indices=False, ties="all", empty="zero", where=None, out=None)
global_avg_pool(x, rank, *, keepdims=True, where=None, out=None)
global_smooth_max_pool(x, rank, *, keepdims=True, beta, where=None, out=None)
global_lp_pool(x, norm_type, rank, *, keepdims=True, where=None, out=None)
conv(x, weight, bias=None, stride=1, padding=0, dilation=1, groups=1, *, out=None)
conv_transpose(x, weight, bias=None, stride=1, padding=0, output_padding=0, groups=1, dilation=1, *, output_size=None, out=None)
"""
SHAPES = """
pool_out_shape(spatial, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False)
conv_out_shape(spatial, kernel_size, stride=1, padding=0, dilation=1)
conv_transpose_out_shape(spatial, kernel_size, stride=1, padding=0, output_padding=0, dilation=1)
adaptive_bins(n, m)
pad(x, padding, mode="constant", value=0)
unpad(x, padding)
reduce_windows(x, geometry, f, init=None)
max_unpool(x, indices, kernel_size, stride=None, padding=0, output_size=None, *, duplicates="last")
max_unpool1d(x, indices, kernel_size, stride=None, padding=0, output_size=None, *, duplicates="last")
max_unpool2d(x, indices, kernel_size, stride=None, padding=0, output_size=None, *, duplicates="last")
max_unpool3d(x, indices, kernel_size, stride=None, padding=0, output_size=None, *, duplicates="last")
"""
ARRAYS = """
add(a, b)
subtract(a, b)
multiply(a, b)
divide(a, b)
negative(x)
matmul(a, b)
sum(x, axis=None, keepdims=False)
mean(x, axis=None, keepdims=False)
max(x, axis=None, keepdims=False)
min(x, axis=None, keepdims=False)
abs(x)
reshape(x, shape)
flatten(x, start_axis=1)
transpose(x, axes=None)
relu(x)
exp(x)
log(x)
tanh(x)
sigmoid(x)
erf(x)
sign(x)
sqrt(x)
power(a, b)
maximum(a, b)
minimum(a, b)
where(condition, a, b)
clip(x, low=None, high=None)
concatenate(arrays, axis=0)
stack(arrays, axis=0)
stop_gradient(x)
softmax(x, axis=-1)
log_softmax(x, axis=-1)
cross_entropy(logits, labels)
mse(x, target)
"""


def table(text):
    return dict(line.split("(", 1) for line in text.split("\n") if line)


def ranked(name, arguments):
    """The function in three ranks: a global function has its rank in its name."""
    return {f"{name}{rank}d": arguments.replace("rank, ", "") for rank in (1, 2, 3)}


ALL = table(SIGNATURES) | table(SHAPES) | table(ARRAYS)
for family, line in table(SIGNATURES).items():
    ALL |= ranked(family, line)


@pytest.mark.parametrize("name", sorted(ALL))
def test_the_signature_is_the_designs(name):
    wanted = {}
    exec(f"def {name}({ALL[name]}: pass", wanted)
    ours, theirs = (inspect.signature(f).parameters.values() for f in (getattr(wg, name), wanted[name]))
    assert [(p.name, p.kind, p.default) for p in ours] == [(p.name, p.kind, p.default) for p in theirs]


def test_every_function_of_the_design_is_public_and_every_public_function_is_in_it():
    assert {name for name in wg.__all__ if inspect.isfunction(getattr(wg, name))} >= set(ALL)
    assert set(wg.functional.__all__) | set(wg.autograd.arrays.__all__) == set(ALL)


@pytest.mark.parametrize("name", sorted(wg.__all__))
def test_every_public_name_says_what_it_is(name):
    thing = getattr(wg, name)
    assert thing.__doc__
    assert thing.__doc__.strip()
    assert thing.__name__ == (f"windowgrad.{name}" if inspect.ismodule(thing) else name)


@pytest.mark.parametrize("name", sorted(ALL))
def test_every_function_pickles_as_itself(name):
    function = getattr(wg, name)
    assert pickle.loads(pickle.dumps(function)) is function
    assert function.__qualname__ == name
    assert all(p.annotation is not inspect.Parameter.empty for p in inspect.signature(function).parameters.values())


X, W = np.arange(16.0).reshape(1, 4, 4), np.ones((1, 1, 2, 2))
WINDOW = Sliding((2, 2), 1, 1)
CALLS = {
    "max_pool": (MaxParams(WINDOW, "all"), X),
    "min_pool": (MinParams(WINDOW, "all"), X),
    "avg_pool": (MeanParams(Adaptive((2, None))), X),
    "smooth_max_pool": (SmoothParams(WINDOW, 0.5), X),
    "lp_pool": (LpParams(WINDOW, 3), X),
    "sharp_smooth_max_pool": (SharpParams(WINDOW), X, np.array(0.5)),
    "conv": (ConvParams(WINDOW), X, W),
    "conv_transpose": (TransposeParams(WINDOW), X, W),
    "max_unpool": (UnpoolParams(WINDOW), X, np.zeros(X.shape, int)),
    "pad": (PadParams((1, 1)), X),
    "extend": (ExtendParams((1, 1), "reflect"), X),
    "unpad": (UnpadParams((1, 1)), X),
}


@pytest.mark.parametrize("name", sorted(OPS))
def test_every_record_and_its_parameters_pickle_and_still_compute(name):
    params, *arrays = CALLS[name]
    op, copied = pickle.loads(pickle.dumps((OPS[name], params)))
    assert (op.name, op.params, op.inputs, op.exact, op.linear, copied) == (
        *(getattr(OPS[name], field) for field in ("name", "params", "inputs", "exact", "linear")),
        params,
    )
    y = OPS[name].forward(params, *arrays)
    assert np.array_equal(op.forward(copied, *arrays), y)
    for ours, theirs in zip(op.vjp(copied, *arrays, y), OPS[name].vjp(params, *arrays, y), strict=True):
        assert np.array_equal(ours, theirs)


def test_the_table_of_operators_cannot_be_written():
    with pytest.raises(TypeError):
        OPS["max_pool"] = None


# --- an array type of one's own ----------------------------------------------------------------------------------


class Boxed:
    """An array in a box, with a note of what was asked of it."""

    def __init__(self, array):
        self.array, self.shape, self.asked = array, array.shape, []

    def __windowgrad__(self, op, rule, params, arrays):
        self.asked.append((op.name, rule, type(params), len(arrays)))
        result = dispatch.run(op, rule, params, *(a.array if isinstance(a, Boxed) else a for a in arrays))
        return tuple(map(Boxed, result)) if isinstance(result, tuple) else Boxed(result)


class Passing(Boxed):
    """An array that leaves the work to the next one."""

    def __windowgrad__(self, op, rule, params, arrays):
        self.asked.append(op.name)
        return NotImplemented


def test_an_array_that_announces_itself_gets_the_call_and_returns_its_own_kind():
    box = Boxed(X)
    y = wg.max_pool2d(box, 2)
    assert isinstance(y, Boxed)
    assert y.array.tolist() == wg.max_pool2d(X, 2).tolist()
    assert box.asked == [("max_pool", "forward", MaxParams, 1)]


def test_indices_and_derivatives_are_asked_for_by_their_rule():
    box = Boxed(X)
    value, index = wg.max_pool2d(box, 2, return_indices=True)
    assert (value.array.tolist(), index.array.tolist()) == tuple(a.tolist() for a in wg.max_pool2d(X, 2, return_indices=True))
    params = MaxParams(Sliding((2, 2)))
    (gx,) = OPS["max_pool"].vjp(params, box, value)
    assert gx.array.tolist() == OPS["max_pool"].vjp(params, X, value.array)[0].tolist()
    assert OPS["max_pool"].jvp(params, box, X).array.tolist() == value.array.tolist()
    assert [rule for _, rule, _, _ in box.asked] == ["with_indices", "vjp", "jvp"]


def test_arrays_are_asked_in_the_order_of_the_arguments_until_one_answers():
    first, second, third = Passing(X), Boxed(W), Boxed(np.ones(1))
    y = wg.conv2d(X, second, third)
    assert y.array.tolist() == wg.conv2d(X, W, np.ones(1)).tolist()
    assert (len(second.asked), len(third.asked)) == (1, 0)
    assert wg.conv2d(first, second).array.tolist() == wg.conv2d(X, W).tolist()
    assert (first.asked, len(second.asked)) == (["conv"], 2)


def test_an_array_on_which_all_pass_is_refused_by_its_name():
    with pytest.raises(wg.KindError, match=r"x: must be a NumPy array, not test_public_api.Passing"):
        wg.max_pool2d(Passing(X), 2)


def test_an_error_inside_an_announced_array_still_shows_the_call():
    with pytest.raises(wg.WindowError, match=r"the padded input has 4 .* \[max_pool2d\("):
        wg.max_pool2d(Boxed(X), 5)


EXAMPLES = sorted(
    name for name in wg.__all__ if ">>> " in (getattr(wg, name).__doc__ or "") and name not in wg.functional.__all__
)


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_example_in_a_docstring_prints_what_it_says(name):
    finder, runner = doctest.DocTestFinder(recurse=False), doctest.DocTestRunner(verbose=False)
    (found,) = finder.find(getattr(wg, name), name, globs={"wg": wg, "np": np})
    assert runner.run(found).failed == 0
