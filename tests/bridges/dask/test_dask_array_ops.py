"""The array operators, the layers and the transforms take Dask arrays, stay lazy, and give what they give of NumPy arrays."""

from __future__ import annotations

import random
from fractions import Fraction

import dask
import dask.array as da
import numpy as np
import pytest
from dask.core import get_dependencies
from hypothesis import given, settings
from hypothesis import strategies as st

import windowgrad as wg
from support.array_cases import OPS, SITUATIONS, constants
from support.chunked import lazy, same_numbers
from support.strategies import whole_numbers
from windowgrad import nn
from windowgrad.autograd.arrays import ARRAY_OPS, records
from windowgrad.autograd.arrays.normalise import NormaliseParams
from windowgrad.errors import KindError, OptionError, WindowError

pytestmark = pytest.mark.usefixtures("one_thread")
some = settings(max_examples=settings.default.max_examples // 5)
ROUNDED = {
    "divide",
    "mean",
    "exp",
    "log",
    "log_or_zero",
    "tanh",
    "sigmoid",
    "softmax",
    "log_softmax",
    "cross_entropy",
    "mse",
    "sqrt",
    "erf",
    "bell",
    "power",
    "batch_norm",
    "inverse_root",
}
"""Their results, or sums of them, are rounded; of all others not one bit may differ."""


@pytest.fixture
def one_thread():
    with dask.config.set(scheduler="sync"):
        yield


def draw_case(data, name):
    """(params, inputs, tangents, gradient) of whole numbers as float32; labels have no tangent that counts."""
    params, shapes = data.draw(SITUATIONS[name])
    if name == "batch_norm":
        params = NormaliseParams(params.axis, 0.25)
    if name == "cast":
        params = records.CastParams(np.dtype(np.float64))
    xs = [np.asarray(data.draw(whole_numbers(shape)), np.float32) for shape in shapes]
    if name in ("log", "log_or_zero", "sqrt", "power", "inverse_root"):
        xs = [np.asarray(np.abs(x) + 1) for x in xs]
    if name == "divide":
        xs[1] = np.where(xs[1] == 0, np.float32(1), xs[1])
    dxs = [np.asarray(data.draw(whole_numbers(shape)), np.float32) for shape in shapes]
    constant = data.draw(constants(name, shapes))
    if constant is not None:
        xs.insert(*constant)
        dxs.insert(constant[0], np.zeros(constant[1].shape, np.float32))
    shape = OPS[name].forward(params, *xs).shape
    return params, xs, dxs, np.asarray(data.draw(whole_numbers(shape)), np.float32)


@pytest.mark.parametrize("name", [op.name for op in ARRAY_OPS])
@some
@given(data=st.data())
def test_every_rule_of_every_operator_gives_what_it_gives_in_one_piece(name, data):
    params, xs, dxs, g = draw_case(data, name)
    op, rng = OPS[name], random.Random(data.draw(st.integers(0, 2**30)))
    cut, dcut, gcut = [lazy(x, rng) for x in xs], [lazy(dx, rng) for dx in dxs], lazy(g, rng)
    found = [op.forward(params, *cut), op.jvp(params, *cut, *dcut), *op.vjp(params, *cut, gcut)]
    wanted = [op.forward(params, *xs), op.jvp(params, *xs, *dxs), *op.vjp(params, *xs, g)]
    for lazily, whole in zip(found, wanted, strict=True):
        assert (lazily is None) == (whole is None)
        if whole is not None:
            assert isinstance(lazily, da.Array)
            assert (lazily.shape, lazily.dtype) == (whole.shape, whole.dtype)
            value = np.asarray(lazily.compute())
            if name in ROUNDED:
                np.testing.assert_allclose(value, whole, rtol=1e-5, atol=1e-5)
            else:
                assert same_numbers(value, whole), (value, whole)


FUNCTIONS = {
    "abs": wg.abs,
    "add": lambda x: wg.add(x, x[::-1]),
    "clip": lambda x: wg.clip(x, 0, 1),
    "concatenate": lambda x: wg.concatenate([x, x[:2]]),
    "cross_entropy": lambda x: wg.cross_entropy(x, np.arange(6) % 8),
    "divide": lambda x: wg.divide(x, 3),
    "exp": wg.exp,
    "flatten": wg.flatten,
    "log": wg.log,
    "log_softmax": wg.log_softmax,
    "max": lambda x: wg.max(x, 1),
    "min": lambda x: wg.min(x, keepdims=True),
    "maximum": lambda x: wg.maximum(x, x[::-1]),
    "minimum": lambda x: wg.minimum(x, x[:1]),
    "matmul": lambda x: wg.matmul(x, wg.transpose(x)),
    "mean": wg.mean,
    "mse": lambda x: wg.mse(x, 1),
    "multiply": lambda x: wg.multiply(x, x[:1]),
    "negative": wg.negative,
    "power": lambda x: wg.power(x, 2),
    "relu": wg.relu,
    "reshape": lambda x: wg.reshape(x, (4, -1)),
    "sigmoid": wg.sigmoid,
    "sign": wg.sign,
    "erf": wg.erf,
    "softmax": wg.softmax,
    "sqrt": wg.sqrt,
    "stack": lambda x: wg.stack([x, x[::-1]], -1),
    "stop_gradient": wg.stop_gradient,
    "subtract": lambda x: wg.subtract(1, x),
    "sum": wg.sum,
    "tanh": wg.tanh,
    "transpose": wg.transpose,
    "where": lambda x: wg.where(x > 3, x, 0),
}
SUMS = {"cross_entropy", "softmax", "log_softmax", "matmul", "mean", "mse", "sum"}
FLOATS = {"exp", "log", "tanh", "sigmoid", "erf", "softmax", "log_softmax", "cross_entropy", "sqrt"}
DTYPES = ["bool", "int8", "uint16", "int64", "float16", "float32", "float64", ">f4", "object"]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_dtype_gives_what_it_gives_in_one_piece(name, dtype):
    x = np.random.default_rng(0).integers(0, 2 if dtype == "bool" else 9, (6, 8)).astype(dtype)
    if dtype == "object":
        x = np.frompyfunc(float if name in FLOATS else Fraction, 1, 1)(x + 1)
    cut = da.from_array(x, ((5, 1), (3, 3, 2)))
    if name in ("negative", "sign") and dtype == "bool":
        with pytest.raises(KindError, match=f"{name}: unsupported dtype bool"):
            FUNCTIONS[name](cut)
        return
    whole, lazily = FUNCTIONS[name](x), FUNCTIONS[name](cut)
    assert (lazily.shape, lazily.dtype) == (whole.shape, whole.dtype)
    value = np.asarray(lazily.compute())
    assert (value.shape, value.dtype) == (whole.shape, whole.dtype)
    if name in SUMS and not (dtype == "object" and name not in FLOATS):
        near = 2e-3 if whole.dtype == np.float16 else 1e-5
        np.testing.assert_allclose(value.astype(float), whole.astype(float), rtol=near, atol=near)
    else:
        assert same_numbers(value, whole)


def test_nan_and_infinity_are_results_and_not_warnings():
    x = np.array([[-np.inf] * 4, [np.inf, 1, 2, 3], [np.nan, 1, 2, 3], [0, -1, 1e30, 5]], np.float32)
    cut = da.from_array(x, (2, 3))
    for name, function in FUNCTIONS.items():
        if name != "cross_entropy":
            np.testing.assert_allclose(function(cut).compute(), function(x), rtol=1e-6, err_msg=name)


def test_sums_are_combined_in_a_wider_float():
    ones = np.full((300, 40), 9, np.float16)  # 108,000 is beyond float16, its mean is not
    assert wg.mean(da.from_array(ones, 7)).compute() == 9
    x = np.random.default_rng(1).standard_normal(50_000).astype(np.float32)
    exact = sum(map(Fraction, x.tolist()))
    found = Fraction(float(wg.sum(da.from_array(x, 100)).compute()))
    assert abs(found - exact) <= abs(Fraction(float(wg.sum(x))) - exact) + Fraction(1, 2**20)


def test_a_mean_of_large_integers_does_not_wrap_around():
    x = np.full(8, 2**62)
    assert wg.mean(da.from_array(x, 4)).compute() == wg.mean(x) == 2.0**62


def test_arrays_of_many_axes_are_computed():
    x = da.ones((1,) * 60 + (2, 3), chunks=2)
    assert wg.sum(wg.relu(x)).compute() == 6


def test_an_empty_array_is_summed_and_has_no_mean():
    x = da.zeros((0, 3), chunks=2)
    assert wg.sum(x).compute() == 0
    assert np.isnan(wg.mean(x).compute())
    assert wg.sum(x, 0).compute().tolist() == [0, 0, 0]
    with pytest.raises(WindowError, match="mean of an empty array of objects"):
        wg.mean(x.astype(object))


# --- laziness ----------------------------------------------------------------------------------------------------


def never(shape, chunks):
    """An array that cannot be computed."""
    return da.zeros(shape, chunks=chunks).map_blocks(lambda block: 1 / 0, dtype=float, meta=np.empty((0,) * len(shape)))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_nothing_is_computed_before_it_is_asked_for(name):
    y = FUNCTIONS[name](never((6, 8), (4, 3)))
    with pytest.raises(ZeroDivisionError):
        y.compute()


def test_results_and_gradients_may_be_larger_than_memory():
    x = da.zeros((1 << 14, 1 << 14, 1 << 10), chunks=(1 << 12, 1 << 12, 256), dtype=np.float32)
    assert wg.relu(wg.add(x, 1)).chunks == x.chunks
    gradient = wg.grad(lambda x: wg.mean(wg.multiply(x, wg.exp(x))))(x)
    assert (gradient.chunks, gradient.dtype) == (x.chunks, x.dtype)
    value, moved = wg.jvp(lambda x, y: wg.sum(wg.divide(x, y)), (x, x), (x, x))
    assert value.shape == moved.shape == ()


def test_no_task_of_a_sum_needs_many_chunks():
    x = da.zeros((64, 4096, 4096), chunks=(4, 512, 512), dtype=np.float32)
    tasks = dict(wg.mean(x).__dask_graph__())
    assert max(len(get_dependencies(tasks, key)) for key in tasks) <= 16


def test_the_same_call_has_the_same_name_and_another_call_another():
    x = da.from_array(np.ones((6, 8)), 3)
    for function in FUNCTIONS.values():
        assert function(x).name == function(x).name
        assert function(x).name != function(x + 1).name
    assert wg.sum(x, 0).name != wg.sum(x, 1).name


@pytest.mark.processes
def test_processes_compute_the_same():
    x = np.random.default_rng(2).standard_normal((6, 8)).astype(np.float32)
    cut = da.from_array(x, 4)
    with dask.config.set(scheduler="processes", num_workers=2):
        found = dask.compute(wg.relu(cut), wg.log_softmax(cut), wg.cross_entropy(cut, np.arange(6)))
    for value, whole in zip(found, (wg.relu(x), wg.log_softmax(x), wg.cross_entropy(x, np.arange(6))), strict=True):
        np.testing.assert_allclose(value, whole, rtol=1e-6)


# --- layers and transforms -----------------------------------------------------------------------------------------

MODEL = nn.Sequential(
    nn.Conv(4, (3, 3), padding=1), nn.ReLU(), nn.MaxPool((2, 2)), nn.Flatten(), nn.Linear(12), nn.Tanh(), nn.Linear(10)
)
IMAGES, LABELS = np.random.default_rng(3).standard_normal((8, 1, 8, 8)).astype(np.float32), np.arange(8) % 10
PARAMS = MODEL.init(np.random.default_rng(4), IMAGES.shape)


def test_layers_take_dask_arrays():
    found = MODEL(PARAMS, da.from_array(IMAGES, (3, 1, 5, 8)))
    assert isinstance(found, da.Array)
    assert found.chunks[0] == (3, 3, 2)
    np.testing.assert_allclose(found.compute(), MODEL(PARAMS, IMAGES), rtol=1e-5, atol=1e-6)


def test_a_loss_over_chunks_has_the_gradient_of_the_whole():
    def loss(images, labels):
        return wg.value_and_grad(lambda params: wg.cross_entropy(MODEL(params, images), labels))(PARAMS)

    lazily = loss(da.from_array(IMAGES, (3, 1, 5, 8)), da.from_array(LABELS, 5))
    (value, gradients), (whole, wanted) = dask.compute(*lazily), loss(IMAGES, LABELS)
    np.testing.assert_allclose(value, whole, rtol=1e-6)
    for found, right in zip(gradients, wanted, strict=True):
        for name in right:
            np.testing.assert_allclose(found[name], right[name], rtol=1e-5, atol=1e-6, err_msg=name)
    adam = nn.adam(1e-3)
    params, _ = adam.update(PARAMS, gradients, adam.init(PARAMS))
    assert isinstance(params[0]["weight"], np.ndarray)


def test_transforms_differentiate_in_dask_arrays():
    x = np.random.default_rng(5).standard_normal((6, 8))
    cut = da.from_array(x, ((1, 5), (3, 3, 2)))

    def f(x):
        return wg.sum(wg.multiply(wg.avg_pool2d(wg.exp(x), 2), 3.0)) + wg.mean(x @ x.T)

    for found, whole in [
        (wg.grad(f)(cut), wg.grad(f)(x)),
        (wg.jvp(f, (cut,), (cut,))[1], wg.jvp(f, (x,), (x,))[1]),
        (wg.hvp(f, (cut,), (cut,))[0], wg.hvp(f, (x,), (x,))[0]),
        (wg.vjp(lambda x: wg.max_pool2d(wg.relu(x), 2), cut)[1](np.ones((3, 4)))[0],
         wg.vjp(lambda x: wg.max_pool2d(wg.relu(x), 2), x)[1](np.ones((3, 4)))[0]),
    ]:  # fmt: skip
        assert isinstance(found, da.Array)
        np.testing.assert_allclose(found.compute(), whole, rtol=1e-12, atol=1e-12)
    wg.check_grads(f, cut)
    tape = wg.Tape()
    assert isinstance(tape.backward(f(tape.leaf(cut, name="x")))["x"], da.Array)


def test_slices_that_begin_outside_are_numpys():
    x = np.arange(24.0).reshape(2, 3, 4)
    cut = da.from_array(x, 2)
    for key in ((..., slice(-9, 0, -1)), (slice(9, None, -1), 1), (0, slice(-9, 9), slice(None, None, -2)), ([1, 0], ..., 2)):
        assert np.array_equal(wg.vjp(lambda x, key=key: x[key], cut)[0].compute(), x[key])


# --- refusals ----------------------------------------------------------------------------------------------------


def test_wrong_shapes_dtypes_and_kinds_are_refused_at_once():
    x = never((6, 8), (4, 3))
    with pytest.raises(WindowError, match=r"a of shape \(6, 8\) and b of shape \(6, 7\).*\[add\("):
        wg.add(x, x[:, :7])
    with pytest.raises(WindowError, match=r"shape=\(5, 5\): has 25 elements"):
        wg.reshape(x, (5, 5))
    with pytest.raises(WindowError, match="axis=2"):
        wg.sum(x, 2)
    with pytest.raises(KindError, match="complex128"):
        wg.exp(x.astype(complex))
    with pytest.raises(KindError, match=r"x: a Dask array with chunks of unknown sizes.*x.compute_chunk_sizes\(\)"):
        wg.relu(x[x > 0])
    with pytest.raises(KindError, match="b: must be a NumPy array, not list"):
        wg.add(x, [1, 2])


def test_a_wrong_label_is_found_out_when_it_is_computed():
    loss = wg.cross_entropy(da.zeros((6, 8), chunks=3), da.full(6, 8, chunks=2))
    with pytest.raises(OptionError, match=r"labels: 8 at .*, must be from 0 to 7"):
        loss.compute()
