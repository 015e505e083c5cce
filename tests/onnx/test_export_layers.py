"""Every layer as ONNX: ONNX Runtime computes what the specification says, for a batch of any size."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto, numpy_helper

from support.bits import settled
from support.export_cases import CASES, NAMES, bound, by_runtime, drawn, wide
from windowgrad import nn
from windowgrad.errors import MissingError, WindowError
from windowgrad.onnx import export
from windowgrad.onnx.domain import DOMAIN, meaning
from windowgrad.onnx.graph import node_of


@pytest.mark.parametrize(("name", "layer", "shape"), CASES, ids=NAMES)
def test_onnx_runtime_computes_the_layer_within_the_stated_error(name, layer, shape):
    params = drawn(layer, shape)
    model = export(layer, params, shape)
    assert model.graph.input[0].type.tensor_type.shape.dim[0].dim_param == "N"
    x = np.random.default_rng(1).standard_normal((shape[0] + 2, *shape[1:])).astype(np.float32)
    (got,) = by_runtime(model, x)
    exact = layer(wide(params), x.astype(np.float64))
    assert got.dtype == np.float32
    assert got.shape == exact.shape
    assert np.all(np.abs(got - exact) <= bound(layer, params, x) + np.abs(exact) * 2.0**-24)


@pytest.mark.parametrize(("name", "layer", "shape"), CASES, ids=NAMES)
def test_the_attributes_of_a_function_are_the_whole_operator(name, layer, shape):
    params = drawn(layer, shape)
    model = export(layer, params, shape)
    own = [node for node in model.graph.node if node.domain == DOMAIN]
    assert len(own) == len(model.functions)
    if len(model.graph.node) == 1 == len(own):
        node = node_of(own[0], "", 21)
        x = np.random.default_rng(1).standard_normal(shape).astype(np.float32)
        arrays = [x, *(numpy_helper.to_array(each) for each in model.graph.initializer)]
        found = meaning(model.functions[0].name, node.attributes)(*arrays)
        assert settled(found) == settled(layer(params, x))


def test_attributes_that_are_missing_or_wrong_are_said():
    with pytest.raises(MissingError, match=r"windowgrad\.median_pool: no such operator"):
        meaning("median_pool", {})
    with pytest.raises(WindowError, match=r"windowgrad\.smooth_max_pool: the attribute 'beta' is missing"):
        meaning("smooth_max_pool", {"rank": 1, "keepdims": 1})
    with pytest.raises(WindowError, match=r"windowgrad\.lp_pool: wrong attributes: 'int' object is not iterable"):
        meaning("lp_pool", {"output_size": 3, "norm_type": np.array(2.0)})
    with pytest.raises(WindowError, match="must be at least 1"):
        meaning("lp_pool", {"output_size": (0,), "norm_type": np.array(2.0)})


def integers(params, rng):
    """The same parameters as small integers, whose sums are exact."""
    if isinstance(params, dict):
        return {name: integers(own, rng) for name, own in params.items()}
    if isinstance(params, tuple):
        return tuple(integers(own, rng) for own in params)
    return rng.integers(-2, 3, params.shape).astype(np.float32)


def test_a_network_of_exact_sums_gives_the_same_bits_in_onnx_runtime():
    block = nn.Sequential(nn.Conv(4, (3, 3), padding=1), nn.ReLU(), nn.Conv(4, (1, 1)))
    model = nn.Sequential(
        nn.Conv(4, (3, 3), stride=2, padding=1, bias=False),
        nn.Residual(block, nn.Conv(4, (1, 1))),
        nn.ReLU6(),
        nn.MaxPool((3, 3), 2, 3, ceil_mode=True),
        nn.MinPool((2, 2), 1),
        nn.AdaptiveMaxPool((2, 3)),
        nn.Flatten(),
        nn.Linear(5),
    )
    rng = np.random.default_rng(0)
    params = integers(model.init(rng, (1, 3, 20, 18)), rng)
    x = rng.integers(-3, 4, (4, 3, 20, 18)).astype(np.float32)
    (got,) = by_runtime(export(model, params, (1, 3, 20, 18)), x)
    assert np.array_equal(got, model(params, x))


def test_initialisers_and_nodes_have_the_names_of_their_places():
    model = nn.Sequential(
        nn.Conv(2, (3,), padding=1), nn.BatchNorm(), nn.Residual(nn.Sequential(nn.Conv(2, (1,)))), nn.Flatten(), nn.Linear(3)
    )
    exported = export(model, model.init(np.random.default_rng(0), (1, 1, 4)), (1, 1, 4))
    assert [each.name for each in exported.graph.initializer] == [
        "0.weight",
        "0.bias",
        "1.weight",
        "1.bias",
        "1.running_mean",
        "1.running_var",
        "2.body.0.weight",
        "2.body.0.bias",
        "4.weight",
        "4.bias",
    ]
    assert [(node.op_type, node.name) for node in exported.graph.node] == [
        ("Conv", "0/Conv"),
        ("BatchNormalization", "1/BatchNormalization"),
        ("Conv", "2.body.0/Conv"),
        ("Add", "2/Add"),
        ("Flatten", "3/Flatten"),
        ("Gemm", "4/Gemm"),
    ]


def test_a_function_is_written_once_for_calls_that_are_alike():
    pool = nn.SmoothMaxPool((2,), 1, beta=2)
    model = nn.Sequential(pool, pool, nn.SmoothMaxPool((2,), 1, 1, beta=2), nn.SmoothMaxPool((3,), 1, 1, beta=2))
    exported = export(model, model.init(np.random.default_rng(0), (1, 1, 6)), (1, 1, 6))
    assert len({function.name for function in exported.functions}) == len(exported.functions) == 4
    same = nn.Sequential(*[nn.MinPool((3,), 1, 1)] * 3)
    assert [each.name for each in export(same, ({}, {}, {}), (1, 1, 6)).functions] == ["min_pool"]


def test_float64_and_float16_are_exported():
    layer = nn.SmoothMaxPool((2,), beta=0.1)
    for dtype in (np.float64, np.float16):
        x = np.random.default_rng(0).standard_normal((2, 3, 8)).astype(dtype)
        (got,) = by_runtime(export(layer, {}, (2, 3, 8), dtype=dtype), x)
        assert got.dtype == dtype
        unit, exact = float(np.finfo(dtype).eps) / 2, layer({}, x.astype(np.float64))
        assert np.all(np.abs(got - exact) <= (2 + 4) * unit * np.maximum(np.abs(exact), 1 / layer.beta))


@pytest.mark.parametrize("extra", [0, 1])
def test_parameters_of_another_dtype_promote_as_in_a_call(extra):
    model = nn.Sequential(nn.ConvTranspose(2, (3,), 1, 0, extra, dilation=2), nn.BatchNorm(), nn.Flatten(), nn.Linear(3))
    params = model.init(np.random.default_rng(0), (1, 1, 8), np.float64)
    exported = export(model, params, (1, 1, 8))
    assert model(params, np.ones((1, 1, 8), np.float32)).dtype == np.float64
    assert exported.graph.output[0].type.tensor_type.elem_type == TensorProto.DOUBLE
    used = {name for node in exported.graph.node for name in node.input} | {"y"}
    assert all(used.intersection(node.output) for node in exported.graph.node)
