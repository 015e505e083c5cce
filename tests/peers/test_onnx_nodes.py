"""ONNX's own tests of pooling and convolution, all that its package carries: none is left out."""

import itertools

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper

from support.onnx_nodes import computed, convolved, stored

TESTS = stored("Conv", "ConvTranspose")
UNPOOLS = stored("MaxUnpool")
POOLS = stored("MaxPool", "AveragePool", "GlobalMaxPool", "GlobalAveragePool")


def test_the_package_has_the_tests_that_are_meant():
    """Were the package or its loader to change, none would be run and nothing would fail."""
    names = {test.name for test in TESTS}
    assert {"node/test_conv_with_autopad_same", "node/test_convtranspose_output_shape"} < names
    assert sum(name.startswith("node/") for name in names) == 17
    assert len(names) == 47
    pools = {test.name for test in POOLS}
    assert {"node/test_averagepool_2d_ceil_last_window_starts_on_pad", "node/test_maxpool_2d_same_lower"} < pools
    assert sum(name.startswith("node/") for name in pools) == 43
    assert len(pools) == 57
    unpools = ["node/test_maxunpool_export_with_output_shape", "node/test_maxunpool_export_without_output_shape"]
    assert [test.name for test in UNPOOLS] == unpools


@pytest.mark.parametrize("test", TESTS + POOLS + UNPOOLS, ids=lambda test: test.name)
def test_onnx_expects_the_same(test):
    sets = test.sets()
    assert sets
    for inputs, outputs in sets:
        for found, output in zip(computed(test.node, *inputs), outputs, strict=True):
            assert (found.dtype, found.shape) == (output.dtype, output.shape)
            np.testing.assert_allclose(found, output, rtol=test.rtol, atol=test.atol)


def by_onnx_runtime(node, x, w):
    kinds = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in ("x", "w", "y")]
    graph = helper.make_graph([node], "one", kinds[:2], kinds[2:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
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
            assert convolved(node, x, w).tolist() == by_onnx_runtime(node, x, w).tolist(), (n, node)
