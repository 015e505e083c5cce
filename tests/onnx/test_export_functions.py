"""Functions of arrays as ONNX: what is recorded, several inputs and outputs, the batch, and what is refused."""

from __future__ import annotations

import os

import numpy as np
import onnx
import pytest

import windowgrad as wg
from support.export_cases import by_runtime
from windowgrad import nn
from windowgrad.autograd.arrays.choosing import GREATEST, share
from windowgrad.autograd.arrays.losses import place
from windowgrad.autograd.arrays.normalise import batch_norm
from windowgrad.errors import KindError, OptionError, WindowError
from windowgrad.onnx import export
from windowgrad.onnx.exporting import writer

RNG = np.random.default_rng(0)
MASK = RNG.random((6, 7)) < 0.6
W = RNG.standard_normal((5, 3)).astype(np.float32)
ROWS = np.array([[2, 0], [-1, 1]])


def check(f, *arrays, units=4):
    """ONNX Runtime is within `units` roundings of the greatest value of the result; integers and bools are the same."""
    names = {f"in_{number}": array.shape for number, array in enumerate(arrays)}
    model = export(f, None, names, dtype={name: array.dtype for name, array in zip(names, arrays, strict=True)})
    wanted = f(*arrays)
    for got, want in zip(by_runtime(model, *arrays), wanted if isinstance(wanted, tuple) else (wanted,), strict=True):
        assert got.shape == want.shape
        assert got.dtype == want.dtype
        if want.dtype.kind == "f":
            top = np.max(np.abs(want), initial=1.0)
            assert np.all(np.abs(got - want) <= units * np.finfo(want.dtype).eps * top)
        else:
            assert np.array_equal(got, want)
    return model


X = RNG.standard_normal((4, 6, 7)).astype(np.float32)

ELEMENTWISE = {
    "add": lambda x: x + 1.5,
    "subtract": lambda x: 2 - x,
    "multiply": lambda x: x * x,
    "divide": lambda x: x / (x * x + 1),
    "negative": lambda x: -x,
    "abs": wg.abs,
    "exp": wg.exp,
    "log": lambda x: wg.log(wg.abs(x) + 1),
    "tanh": wg.tanh,
    "sigmoid": wg.sigmoid,
    "sqrt": lambda x: wg.sqrt(wg.abs(x)),
    "erf": wg.erf,
    "sign": wg.sign,
    "power": lambda x: x**3,
    "relu": wg.relu,
    "maximum": lambda x: wg.maximum(x, 0.5),
    "minimum": lambda x: wg.minimum(x, x * 2),
    "clip": lambda x: wg.clip(x, -0.5, 0.5),
    "where": lambda x: wg.where(MASK, x, 0),
    "stop_gradient": wg.stop_gradient,
    "softmax": wg.softmax,
    "softmax on axis 1": lambda x: wg.softmax(x, 1),
    "log_softmax": lambda x: wg.log_softmax(x, -2),
}
SHAPES = {
    "sum": wg.sum,
    "sum over axes": lambda x: wg.sum(x, (0, 2)),
    "mean": lambda x: wg.mean(x, 1, True),
    "max": lambda x: wg.max(x, -1),
    "min": lambda x: wg.min(x, (1, 2)),
    "reshape": lambda x: wg.reshape(x, (-1, 7, 6)),
    "reshape to fixed sizes": lambda x: wg.reshape(x, (4, 42)),
    "flatten": wg.flatten,
    "flatten from axis 0": lambda x: wg.flatten(x, 0),
    "flatten the last": lambda x: wg.flatten(x, 2),
    "transpose": wg.transpose,
    "transpose to an order": lambda x: wg.transpose(x, (0, 2, 1)),
    "matmul": lambda x: wg.matmul(x, np.linspace(-1, 1, 21, dtype=np.float32).reshape(7, 3)),
    "concatenate": lambda x: wg.concatenate([x, x * 2, np.ones((4, 1, 7), np.float32)], 1),
    "stack": lambda x: wg.stack([x, -x], -1),
    "pad": lambda x: wg.pad(x, ((1, 2), (0, 3))),
    "pad with a value": lambda x: wg.pad(x, ((1, 2),), "constant", 0.1),
    "pad, circular": lambda x: wg.pad(x, ((9, 1), (2, 0)), "circular"),
    "unpad": lambda x: wg.unpad(x, ((1, 2), (0, 3))),
}
INDEXING = {
    "an integer": lambda x: x[:, 2],
    "a negative integer": lambda x: x[..., -1],
    "slices": lambda x: x[:, 1:5:2, ::-1],
    "a slice backwards": lambda x: x[:, 4:1:-2],
    "a new axis": lambda x: x[:, None, :, 3],
    "an array": lambda x: x[:, ROWS],
    "an array and an integer": lambda x: x[:, ROWS, 2],
    "an array and an integer apart": lambda x: x[1, :, ROWS],
    "two arrays": lambda x: x[:, ROWS, ROWS + 1],
    "two arrays, and a new axis between": lambda x: x[:, ROWS, None, ROWS],
    "two arrays, the first on the batch": lambda x: x[ROWS, :, ROWS],
    "negative integers in arrays": lambda x: x[[-1, 0], [2, -3]],
    "bools": lambda x: x[:, MASK],
    "everything": lambda x: x[...],
}


@pytest.mark.parametrize("f", ELEMENTWISE.values(), ids=ELEMENTWISE)
def test_elementwise_functions(f):
    check(f, X)


@pytest.mark.filterwarnings("ignore:export. the batch is fixed")
@pytest.mark.parametrize("f", SHAPES.values(), ids=SHAPES)
def test_functions_of_shapes_and_reductions(f):
    check(f, X, units=8)


@pytest.mark.filterwarnings("ignore:export. the batch is fixed")
@pytest.mark.parametrize("f", INDEXING.values(), ids=INDEXING)
def test_indexing(f):
    check(f, X)


MASKED = {
    "max": lambda x: wg.max_pool2d(x, 2, where=MASK),
    "min, with padding": lambda x: wg.min_pool2d(x, 3, 2, 1, where=MASK),
    "mean": lambda x: wg.avg_pool2d(x, 2, where=MASK),
    "mean of real cells": lambda x: wg.avg_pool2d(x, 3, 2, 1, count_include_pad=False, where=MASK),
    "mean of real and padded cells": lambda x: wg.avg_pool2d(x, 3, 2, 1, where=MASK),
    "smooth": lambda x: wg.smooth_max_pool2d(x, 3, 2, 1, beta=2.0, where=MASK),
    "smooth without padding": lambda x: wg.smooth_max_pool2d(x, 3, 2, 1, count_include_pad=False, beta=-2.0, where=MASK),
    "norm": lambda x: wg.lp_pool2d(x, 2, 2, where=MASK),
    "a mask without axes": lambda x: wg.max_pool2d(x, 2, where=np.array(False)),
    "bins": lambda x: wg.adaptive_max_pool2d(x, (4, 3), where=MASK),
}


@pytest.mark.parametrize("f", MASKED.values(), ids=MASKED)
def test_constant_masks(f):
    check(f, X, units=16)


INDICES = {
    "windows": lambda x: wg.max_pool2d(x, 2, return_indices=True),
    "padded windows": lambda x: wg.max_pool2d(x, 3, 2, 1, return_indices=True),
    "windows without a cell": lambda x: wg.max_pool2d(x, 2, 2, 3, return_indices=True),
    "the least": lambda x: wg.min_pool2d(x, 2, 1, return_indices=True),
    "bins": lambda x: wg.adaptive_max_pool2d(x, (4, 3), return_indices=True),
    "everything": lambda x: wg.global_max_pool(x, 2, return_indices=True),
}


@pytest.mark.parametrize("shape", [(2, 3, 6, 7), (4, 6, 7)], ids=str)
@pytest.mark.parametrize("f", INDICES.values(), ids=INDICES)
def test_indices_of_winners(f, shape):
    x = RNG.integers(-3, 3, shape).astype(np.float32)  # with ties
    check(f, x)


@pytest.mark.parametrize("duplicates", ["last", "add"])
def test_unpooling(duplicates):
    def f(x):
        y, indices = wg.max_pool2d(x, 3, 2, 1, return_indices=True)
        return wg.max_unpool2d(y, indices, 3, 2, 1, output_size=(6, 7), duplicates=duplicates)

    check(f, X)


def test_integers_keep_their_dtypes():
    x = RNG.integers(-50, 50, (2, 3, 8)).astype(np.int8)
    check(lambda x: wg.max_pool1d(x, 3, 2, 1), x)
    for dtype in (np.int16, np.int32, np.int64, np.uint8, np.uint16):
        check(lambda x: wg.max_pool1d(x, 3, 2, 1), x.astype(dtype))
        check(lambda x: wg.min_pool1d(x, 3, 2, 2), x.astype(dtype))
        check(lambda x: wg.global_max_pool(x, 1), x.astype(dtype))
    check(lambda x: wg.max_pool1d(x, 3), x > 0)
    check(lambda x: wg.sum(x, 2), x)
    check(lambda x: wg.avg_pool1d(x, 2), x)
    check(lambda x: x / 3, x.astype(np.int64))


def test_losses_and_several_inputs():
    logits, labels = X[:, :, 0], np.array([1, 0, 5, 2])
    model = check(wg.cross_entropy, logits, labels)
    assert [given.name for given in model.graph.input] == ["in_0", "in_1"]
    assert {given.type.tensor_type.shape.dim[0].dim_param for given in model.graph.input} == {"N"}
    check(wg.mse, X, X[::-1].copy())


def test_the_moments_of_the_batch():
    weight, bias = np.linspace(1, 2, 6, dtype=np.float32), np.linspace(-1, 3, 6, dtype=np.float32)
    check(lambda x: batch_norm(x, weight, bias, 1, 1e-3), X, units=16)


def test_outputs_are_named_also_where_they_are_inputs_constants_or_twice_the_same():
    def f(a, b):
        y = wg.relu(a)
        return {"first": y, "second": [y, b, np.ones(2, np.float32)]}

    model = export(f, None, {"a": (2, 3), "b": (3,)}, batch=None)
    assert [given.name for given in model.graph.output] == ["y_0", "y_1", "y_2", "y_3"]
    a, b = X[:2, 0, :3], X[0, 0, :3]
    for got, want in zip(by_runtime(model, a, b), [np.maximum(a, 0)] * 2 + [b, np.ones(2)], strict=True):
        assert np.array_equal(got, want)


def test_a_function_may_have_parameters():
    params = {"layers": [{"w": W}]}
    model = export(lambda params, x: x @ params["layers"][0]["w"], params, (2, 5))
    assert [each.name for each in model.graph.initializer] == ["layers.0.w"]


def test_a_transposed_constant_is_stored_as_it_lies_in_memory():
    model = export(lambda x: wg.matmul(x, W.T), None, (2, 3))
    assert [node.op_type for node in model.graph.node] == ["Transpose", "MatMul"]
    assert tuple(model.graph.initializer[0].dims) == W.shape


def test_parameters_keep_their_names_however_they_lie_in_memory():
    params = {"slice": W[::2, ::2], "turned": np.asfortranarray(W[:3]), "row": np.ones((1, 3), np.float32).T}

    def f(params, x):
        return x @ params["slice"], x @ params["turned"] @ params["row"], x @ params["slice"]

    model = export(f, params, (2, 3))
    assert [each.name for each in model.graph.initializer] == ["slice", "turned", "row"]
    x = X[:2, 0, :3]
    for got, want in zip(by_runtime(model, x), f(params, x), strict=True):
        assert np.allclose(got, want, rtol=1e-5, atol=1e-6)


# --- the batch -----------------------------------------------------------------------------------------------------


def test_the_batch_has_any_size_where_shapes_follow_from_it():
    def f(x):
        y = wg.reshape(x, (x.shape[0], 42))
        return wg.sum(y, 1), wg.mean(y, 0), wg.concatenate([y, y * 2], 1)

    model = export(f, None, (4, 6, 7))
    for n in (1, 4, 9):
        x = RNG.standard_normal((n, 6, 7)).astype(np.float32)
        for got, want in zip(by_runtime(model, x), f(x), strict=True):
            assert np.allclose(got, want, rtol=1e-5, atol=1e-5)


FIXED = {
    "elsewhere than on its first axis": lambda x: wg.transpose(x),
    "a constant that depends on it": lambda x: x + np.arange(x.shape[0], dtype=np.float32)[:, None, None],
    "the options of index depend on it": lambda x: x[: x.shape[0] - 1],
    "the number of calls depends on it": lambda x: wg.relu(x) if x.shape[0] > 4 else x,
    "with one sample more it fails": lambda x: wg.reshape(x, (4, 42)),
}


@pytest.mark.parametrize(("reason", "f"), FIXED.items(), ids=FIXED)
def test_a_batch_that_cannot_have_any_size_is_fixed_and_a_warning_says_why(reason, f):
    with pytest.warns(UserWarning, match=f"the batch is fixed at 4, because .*{reason}"):
        model = export(f, None, (4, 6, 7))
    assert model.graph.input[0].type.tensor_type.shape.dim[0].dim_value == 4
    assert np.array_equal(by_runtime(model, X)[0], f(X))


def test_indices_from_the_end_of_the_batch_are_those_of_any_batch():
    model = export(lambda x: x[[-1, 0], [2, -3]], None, (4, 6, 7))
    x = RNG.standard_normal((9, 6, 7)).astype(np.float32)
    assert np.array_equal(by_runtime(model, x)[0], x[[-1, 0], [2, -3]])


def test_batch_none_fixes_it():
    model = export(nn.ReLU(), {}, (4, 2), batch=None)
    assert model.graph.input[0].type.tensor_type.shape.dim[0].dim_value == 4


# --- files ---------------------------------------------------------------------------------------------------------


def test_the_file_holds_the_model_and_replaces_the_old_one_only_when_all_is_well(tmp_path):
    path = tmp_path / "model.onnx"
    path.write_bytes(b"old")
    with pytest.raises(KindError):
        export(lambda x: float(x), None, (1, 2), path)
    assert path.read_bytes() == b"old"
    model = export(nn.ReLU(), {}, (1, 2), path)
    assert onnx.load(path) == model
    assert os.listdir(tmp_path) == ["model.onnx"]
    assert (model.producer_name, model.opset_import[0].version) == ("windowgrad", 21)


@pytest.mark.parametrize("opset", [19, 20, 22, 23])
def test_other_opsets(opset):
    model = nn.Sequential(
        nn.Conv(2, (3,), padding=9, padding_mode="circular"), nn.AvgPool((2,), dilation=2), nn.LpPool(2, (2,))
    )
    params = model.init(np.random.default_rng(0), (1, 1, 8))
    exported = export(model, params, (1, 1, 8), opset=opset)
    x = RNG.standard_normal((2, 1, 8)).astype(np.float32)
    assert np.allclose(by_runtime(exported, x)[0], model(params, x), rtol=1e-5)


# --- what is refused -----------------------------------------------------------------------------------------------

RELU = nn.ReLU()
REFUSED = {
    "a comparison": (
        lambda: export(lambda x: x if (x > 0).all() else -x, None, (2, 3)),
        KindError,
        "while the function is recorded",
    ),
    "a conversion": (lambda: export(lambda x: x * float(x[0, 0]), None, (2, 3)), KindError, "while the function is recorded"),
    "a value": (lambda: export(lambda x: x.value, None, (2, 3)), KindError, "while the function is recorded"),
    "a folder": (lambda: export(RELU, {}, (2, 3), "/"), OptionError, "path=/: is a folder"),
    "no such folder": (lambda: export(RELU, {}, (2, 3), "/none/such.onnx"), OptionError, "the folder /none does not exist"),
    "a path": (lambda: export(RELU, {}, (2, 3), 3), KindError, "path=3: must be the name of a file, not int"),
    "a shape": (lambda: export(nn.Conv(2, (3,)), {}, (2, 3)), WindowError, "must have at least 3 axes"),
    "a shape of text": (lambda: export(RELU, {}, "23"), KindError, "in_shape="),
    "no inputs": (lambda: export(RELU, {}, {}), WindowError, "must have at least one input"),
    "parameters": (lambda: export(nn.Linear(2), None, (2, 3)), KindError, "params=None: must be the parameters of Linear"),
    "a parameter": (
        lambda: export(nn.Linear(2), {"weight": [1.0]}, (2, 3)),
        KindError,
        r"params\['weight'\]\[0\]=1.0: must be",
    ),
    "fractions": (lambda: export(RELU, {"w": np.array([1], object)}, (2, 3)), KindError, "unsupported dtype object"),
    "a model": (lambda: export("model", {}, (2, 3)), KindError, "model='model': must be a layer or a function, not str"),
    "a dtype": (lambda: export(RELU, {}, (2, 3), dtype="float31"), KindError, "dtype='float31': must be a dtype of NumPy"),
    "a dtype ONNX has not": (lambda: export(RELU, {}, (2, 3), dtype="M8[s]"), KindError, "unsupported dtype"),
    "dtypes": (
        lambda: export(RELU, {}, (2, 3), dtype={"y": "f4"}),
        WindowError,
        r"dtype has \['y'\]: must have the inputs \['x'\]",
    ),
    "a dtype Pow has not": (
        lambda: export(lambda x: x**2, None, (2, 2), dtype="i2"),
        KindError,
        "ONNX does not accept the model",
    ),
    "an old opset": (lambda: export(RELU, {}, (2, 3), opset=18), OptionError, "opset=18: must be from 19 to"),
    "a batch": (lambda: export(RELU, {}, (2, 3), batch="2 N"), OptionError, "batch='2 N': must be the name of a symbolic size"),
}


@pytest.mark.parametrize(("call", "kind", "message"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_exported_is_refused_with_the_reason(call, kind, message):
    with pytest.raises(kind, match=message):
        call()


def test_one_error_lists_all_calls_that_cannot_be_written():
    def f(x):
        return place(share(GREATEST, x, -x, wg.relu(x)), np.zeros((2, 3), int), 5)

    with pytest.raises(KindError, match=r"2 of the calls .* share \(call 2\): there is no translation; place \(call 3\): "):
        export(f, None, (2, 3), batch=None)


def test_more_than_a_file_holds_is_refused(monkeypatch):
    monkeypatch.setattr(writer, "MOST_BYTES", 50)
    with pytest.raises(KindError, match="2 GiB or more"):
        export(nn.Linear(4), nn.Linear(4).init(np.random.default_rng(0), (1, 5)), (1, 5))
