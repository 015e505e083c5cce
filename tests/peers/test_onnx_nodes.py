"""ONNX's own tests of the operators that are supported, all that its package carries; those that cannot pass are listed."""

import itertools
from collections import Counter

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper, version_converter

from support.onnx_nodes import made_of
from support.onnx_unsupported import UNSUPPORTED
from windowgrad.errors import WindowgradError
from windowgrad.onnx import load
from windowgrad.onnx.operators import TABLE
from windowgrad.onnx.reading import OLDEST

RANDOM = "only inference is supported, it has no random numbers"
PER_CHANNEL = "must be broadcast to"
"""PRelu of opset 7: "This operator supports unidirectional broadcasting (tensor slope should be unidirectional broadcastable to
input tensor X)". These tests are of opset 6, where a slope had one number per channel; no conversion reshapes it."""

REFUSED = {
    "node/test_identity_opt": "must be a tensor, not optional",
    "node/test_identity_sequence": "must be a tensor, not sequence",
    "node/test_training_dropout": RANDOM,
    "node/test_training_dropout_default": RANDOM,
    "node/test_training_dropout_default_mask": RANDOM,
    "node/test_training_dropout_mask": RANDOM,
    "pytorch-converted/test_PReLU_1d_multiparam": PER_CHANNEL,
    "pytorch-converted/test_PReLU_2d_multiparam": PER_CHANNEL,
    "pytorch-converted/test_PReLU_3d_multiparam": PER_CHANNEL,
    **UNSUPPORTED,
}
"""What is said of the tests that cannot pass."""
COUNTS = {"node": 916, "simple": 6, "pytorch-converted": 81, "pytorch-operator": 34}
TESTS = made_of(TABLE)
CONTRADICTED = {"node/test_resize_downsample_scales_linear_align_corners": [[[[1.0, 4.0]]]]}
"""What ONNX says of tests that expect something else. Resize, align_corners: "x_original = x_resized * (length_original - 1)
/ (length_resized - 1)", with "length_resized as the length of the resized tensor in axis x". The test computes with a length of
2.4, though the tensor has 2 cells, so its last cell is not the corner."""


def test_the_package_has_the_tests_that_are_meant():
    """Were the package, its loader or the table to change, some would not be run and nothing would fail."""
    assert Counter(test.name.split("/")[0] for test in TESTS) == COUNTS
    names = {test.name for test in TESTS}
    assert REFUSED.keys() < names
    assert {"node/test_conv_with_autopad_same", "node/test_maxpool_2d_same_lower", "node/test_softmax_axis_0"} < names


def known(model):
    """The model, by the converter of the package in an opset that is known if it is older."""
    version = next(entry.version for entry in model.opset_import if not entry.domain)
    return version_converter.convert_version(model, OLDEST) if version < OLDEST else model


@pytest.mark.parametrize(
    "test", [test for test in TESTS if test.name not in REFUSED and test.name not in CONTRADICTED], ids=lambda test: test.name
)
def test_onnx_expects_the_same(test):
    net = load(known(test.model))
    sets = test.sets()
    assert sets
    for inputs, outputs in sets:
        results = net(*inputs)
        for found, output in zip(results if isinstance(results, tuple) else [results], outputs, strict=True):
            assert (found.dtype, found.shape) == (output.dtype, output.shape)
            np.testing.assert_allclose(found, output, rtol=test.rtol, atol=test.atol)


@pytest.mark.parametrize("test", [test for test in TESTS if test.name in CONTRADICTED], ids=lambda test: test.name)
def test_where_a_test_contradicts_what_onnx_says_the_latter_counts(test):
    ((inputs, outputs),) = test.sets()
    found = load(test.model)(*inputs)
    assert found.tolist() == CONTRADICTED[test.name] != outputs[0].tolist()


@pytest.mark.parametrize("test", [test for test in TESTS if test.name in REFUSED], ids=lambda test: test.name)
def test_what_cannot_pass_is_refused_with_its_reason(test):
    with pytest.raises(WindowgradError, match=REFUSED[test.name]):
        load(known(test.model))(*test.sets()[0][0])


# --- auto_pad --------------------------------------------------------------------------------------------------------


def model_of(node):
    kinds = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in ("x", "w", "y")]
    graph = helper.make_graph([node], "one", kinds[:2], kinds[2:])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def by_onnx_runtime(model, x, w):
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, {"x": x, "w": w})[0]


@pytest.mark.parametrize("op_type", ["Conv", "ConvTranspose"])
@pytest.mark.parametrize("auto_pad", ["NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID"])
def test_auto_pad_of_every_size_is_that_of_onnx_runtime(op_type, auto_pad):
    """ONNX's tests have one size of one kind each; here padding is even, odd and none.

    ONNX Runtime refuses SAME with a dilation; and transposed with a kernel shorter than the stride, its output is not
    input_shape · strides, as ONNX says it is.
    """
    rng, same = np.random.default_rng(0), auto_pad.startswith("SAME")
    for n, k, s, d in itertools.product(range(7, 13), range(1, 5), range(1, 4), (1,) if same else (1, 2)):
        if op_type == "Conv" or not same or k >= s:
            node = helper.make_node(op_type, ["x", "w"], ["y"], strides=[s], dilations=[d], auto_pad=auto_pad)
            x, w = (rng.integers(-3, 4, (1, 1, size)).astype(np.float32) for size in (n, k))
            model = model_of(node)
            assert load(model)(x, w).tolist() == by_onnx_runtime(model, x, w).tolist(), (n, node)
