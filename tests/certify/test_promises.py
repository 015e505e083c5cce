"""What float32 promises and real arithmetic must not overlook: sums before a division, factors, constants of constants."""

import re

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import windowgrad as wg
from windowgrad import certify
from windowgrad.errors import KindError, WindowError
from windowgrad.onnx import load

BOX = np.zeros((1, 2)), np.ones((1, 2))


def model(nodes, constants=(), width=2):
    """A network of one input (1, width) and one output."""
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, ["N", None]) for name in "xy")
    x.type.tensor_type.shape.dim[1].dim_value = width
    stored = [numpy_helper.from_array(np.asarray(array, np.float32), name) for name, array in dict(constants).items()]
    graph = helper.make_graph(nodes, "g", [x], [y], stored)
    return load(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8))


def test_a_mean_whose_sum_overflows_float32_is_refused():
    """The mean of four cells of 3e38 is finite, their sum in float32 is not."""
    x = np.full((1, 1, 4), 3e38)
    for mean in (lambda x: wg.avg_pool1d(x, 4), lambda x: wg.mean(x, axis=2)):
        certify.bounds(mean, x, x)
        with pytest.raises(WindowError, match="may overflow float32 on this box"):
            certify.bounds(mean, x, x, arithmetic="float32")


def test_sums_near_the_greatest_float32_leave_room_for_rounding():
    x = np.full((1, 2), float(np.finfo(np.float32).max) / 2)
    with pytest.raises(WindowError, match="may overflow float32"):
        certify.bounds(lambda x: wg.sum(x, axis=1), x, x, arithmetic="float32")


@pytest.mark.parametrize("order", ["terms first", "factor first", "constant first"])
def test_a_factor_and_a_constant_of_a_product_may_be_taken_at_any_time(order):
    """Many small terms beside a large constant: started from it, each term is rounded to its digits."""
    rng = np.random.default_rng(0)
    n, alpha, c = 1000, np.float32(3.1), np.float32(4097.0)
    w = rng.uniform(-1e-3, 1e-3, (n, 1)).astype(np.float32)
    x = rng.uniform(-1, 1, (1, n)).astype(np.float32)
    node = helper.make_node("Gemm", ["x", "w", "c"], ["y"], alpha=float(alpha))
    lower, upper = certify.bounds(model([node], {"w": w, "c": [c]}, n), x, x, arithmetic="float32")
    total = c if order == "constant first" else np.float32(0)
    for a, b in zip(x[0], w[:, 0], strict=True):
        term = np.float32(a * b)
        total = np.float32(total + (term if order == "terms first" else np.float32(alpha * term)))
    y = (
        np.float32(np.float32(alpha * total) + c)
        if order == "terms first"
        else total
        if order == "constant first"
        else np.float32(total + c)
    )
    assert lower[0, 0] <= y <= upper[0, 0]


@pytest.mark.parametrize(
    ("nodes", "constants", "message"),
    [
        (
            [
                helper.make_node("Div", ["one", "three"], ["third"], name="third"),
                helper.make_node("Mul", ["x", "third"], ["y"]),
            ],
            {"one": [1.0], "three": [3.0]},
            'net: node "third" (Div) computes with constants alone, which rounds them; fold them in the model first',
        ),
        (
            [helper.make_node("BatchNormalization", ["x", "s", "b", "m", "v"], ["y"])],
            {name: np.ones(2) for name in "sbmv"},
            "net: no bounds for the operators BatchNormalization; fold batch normalisation into the model first",
        ),
        (
            [helper.make_node("Gemm", ["x", "w", "c"], ["y"], beta=0.3, name="last")],
            {"w": np.ones((2, 2)), "c": np.ones(2)},
            'net: node "last" (Gemm) has beta=0.30000001192092896, which rounds its constant; fold it in the model first',
        ),
        ([helper.make_node("Softmax", ["x"], ["y"])], {}, "net: no bounds for the operators Softmax"),
    ],
    ids=["constants", "batch norm", "beta", "softmax"],
)
def test_a_model_whose_constants_would_be_rounded_is_refused(nodes, constants, message):
    with pytest.raises(KindError, match=re.escape(message)):
        certify.bounds(model(nodes, constants), *BOX)


def test_constants_that_are_only_moved_are_constants():
    nodes = [helper.make_node("Transpose", ["w"], ["v"]), helper.make_node("MatMul", ["x", "v"], ["y"])]
    lower, upper = certify.bounds(model(nodes, {"w": [[1.0, 2.0], [-1.0, 0.0]]}), *BOX)
    np.testing.assert_allclose(lower[0], [0, -1], atol=1e-12)
    np.testing.assert_allclose(upper[0], [3, 0], atol=1e-12)


def test_a_cast_to_fewer_bits_has_no_bounds():
    nodes = [helper.make_node("Cast", ["x"], ["h"], to=onnx.TensorProto.FLOAT16), helper.make_node("Cast", ["h"], ["y"], to=1)]
    with pytest.raises(KindError, match="cast: no bounds for float16"):
        certify.bounds(model(nodes), *BOX)
