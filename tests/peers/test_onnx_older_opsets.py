"""Operators of older opsets mean what they meant then: beside ONNX Runtime, where ONNX's own tests have only the newest."""

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from windowgrad.errors import OptionError
from windowgrad.onnx import load

X = np.random.default_rng(0).normal(size=(2, 3, 4, 5)).astype(np.float32) * 3
ONES, HALVES = np.array([1, 2, 3], np.float32), np.array([0.5, 0.25, 2], np.float32)
MOMENTS = {"scale": ONES, "bias": HALVES, "mean": HALVES, "var": ONES}
PARTS = {"low": np.float32(-1), "high": np.float32(2)}
POOL = {"kernel_shape": [2, 3], "pads": [1, 1, 0, 1]}

CASES = [
    # operator, opset, attributes, the other inputs
    *[("Softmax", opset, {"axis": axis}, {}) for opset in (7, 11) for axis in (0, 1, 2, 3)],
    *[("LogSoftmax", opset, {}, {}) for opset in (8, 11)],
    *[("Softmax", 11, {"axis": axis}, {}) for axis in (-1, -3)],
    *[("Softmax", opset, {}, {}) for opset in (7, 13)],
    *[("Clip", opset, {"min": -1.0, "max": 2.0}, {}) for opset in (7, 10)],
    ("Clip", 7, {"max": 0.5}, {}),
    ("Clip", 7, {}, {}),
    *[("Clip", opset, {}, PARTS) for opset in (11, 12, 13)],
    *[("Dropout", opset, {"ratio": 0.25}, {}) for opset in (7, 10)],
    ("Dropout", 12, {}, {"ratio": np.float32(0.25)}),
    *[("BatchNormalization", opset, {"epsilon": 0.01}, MOMENTS) for opset in (7, 9, 14, 15)],
    *[("MaxPool", opset, POOL, {}) for opset in (7, 8, 10, 12)],
    *[("MaxPool", opset, POOL | {"strides": [2, 1], "dilations": [1, 2], "ceil_mode": 1}, {}) for opset in (10, 12)],
    *[("AveragePool", opset, POOL | {"count_include_pad": count}, {}) for opset in (7, 10, 11, 19) for count in (0, 1)],
    *[("LpPool", opset, POOL | {"p": 3}, {}) for opset in (7, 11, 18)],
    *[("PRelu", opset, {}, {"slope": HALVES.reshape(3, 1, 1)}) for opset in (7, 9, 16)],
    *[("Elu", 7, {"alpha": 0.5}, {}), ("HardSigmoid", 7, {"alpha": 0.3}, {}), ("LeakyRelu", 7, {}, {})],
    *[("Softplus", 7, {}, {}), ("Erf", 9, {}, {}), ("Sign", 9, {}, {}), ("HardSwish", 14, {}, {})],
    *[("LRN", opset, {"size": size, "alpha": 0.1}, {}) for opset in (7, 13) for size in (1, 3, 5)],
    ("InstanceNormalization", 7, {}, {"scale": ONES, "bias": HALVES}),
    *[(name, opset, {}, {"b": X[:, :1]}) for opset in (7, 8) for name in ("Add", "Sub", "Mul", "Div")],
    *[(name, 8, {}, {"b": X[:1], "c": X[0, 0]}) for name in ("Max", "Min", "Sum")],
    ("Pow", 7, {}, {"b": np.array([2, 3, 0, 1, 2], np.float32)}),
    *[("Pow", opset, {}, {"b": np.array([2, 3, 0, 1, 2], np.int64)}) for opset in (12, 15)],
]


def model_of(op_type, opset, attributes, others, outputs=("y",)):
    node = helper.make_node(op_type, ["x", *others], outputs, **attributes)
    given = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 3, "H", "W"])
    results = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["N", 3, "A", "B"]) for name in outputs]
    constants = [numpy_helper.from_array(np.asarray(array), name) for name, array in others.items()]
    graph = helper.make_graph([node], "one", [given], results, constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def named(case):
    op_type, opset, attributes, others = case
    return f"{op_type}-{opset}-{'-'.join(f'{name}={value}' for name, value in attributes.items())}-{'-'.join(others)}"


@pytest.mark.parametrize("case", CASES, ids=named)
def test_onnx_runtime_computes_the_same(case):
    model = model_of(*case)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    (wanted,) = session.run(None, {"x": X})
    found = load(model)(X)
    assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=2e-6)


def test_training_is_refused():
    outputs = ("y", "mean2", "var2", "saved_mean", "saved_var")
    with pytest.raises(OptionError, match="training mode of an opset before 14 is not supported"):
        load(model_of("BatchNormalization", 9, {}, MOMENTS, outputs))(X)
    training = {"ratio": np.float32(0.5), "training_mode": np.array(True)}
    with pytest.raises(OptionError, match=r'node "Dropout_0" \(Dropout\): training_mode is true with ratio=0.5'):
        load(model_of("Dropout", 13, {}, training))(X)


def test_the_mask_of_a_dropout_was_of_numbers_once():
    for opset, dtype in ((7, np.float32), (10, np.bool_), (13, np.bool_)):
        y, mask = load(model_of("Dropout", opset, {}, {}, ("y", "mask")))(X)
        assert np.array_equal(y, X)
        assert (mask.dtype, mask.all()) == (dtype, True)


def test_integers_are_divided_towards_zero():
    for dtype in (np.int8, np.int32, np.int64):
        a, b = np.array([7, -7, 7, -7, 6], dtype), np.array([2, 2, -2, -2, 3], dtype)
        kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
        values = [helper.make_tensor_value_info(name, kind, [5]) for name in "aby"]
        graph = helper.make_graph([helper.make_node("Div", ["a", "b"], ["y"])], "one", values[:2], values[2:])
        net = load(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 14)], ir_version=8))
        assert (net(a, b).dtype, net(a, b).tolist()) == (dtype, [3, -3, -3, 3, 2])
        with pytest.raises(OptionError, match="B has a zero: integers cannot be divided by it"):
            net(a, b * 0)
