"""Every layer to ONNX and back gives the same bits: functions of the domain `windowgrad` are loaded as what they stand for."""

from __future__ import annotations

import numpy as np
import pytest

import windowgrad as wg
from support.bits import settled
from support.export_cases import CASES, NAMES, drawn
from windowgrad import nn
from windowgrad.onnx import export, load


@pytest.mark.parametrize(("name", "layer", "shape"), CASES, ids=NAMES)
def test_a_layer_comes_back_bit_identical(name, layer, shape):
    params = drawn(layer, shape)
    net = load(export(layer, params, shape))
    x = np.random.default_rng(1).standard_normal((shape[0] + 2, *shape[1:])).astype(np.float32)
    x.flat[3], x.flat[4] = -0.0, np.nan
    assert settled(net(x)) == settled(layer(params, x))


def test_a_network_comes_back_bit_identical():
    block = nn.Sequential(nn.Conv(8, (3, 3), padding=1), nn.BatchNorm(), nn.ReLU(), nn.Conv(8, (3, 3), padding=1))
    model = nn.Sequential(
        nn.Conv(8, (3, 3), padding=1, padding_mode="reflect"),
        nn.Residual(block, nn.Conv(8, (1, 1))),
        nn.ReLU6(),
        nn.SmoothMaxPool((2, 2), beta=3.3, learn_beta="channel"),
        nn.AdaptiveAvgPool((5, 3)),
        nn.Flatten(),
        nn.Linear(33),
        nn.Tanh(),
        nn.Linear(10),
    )
    params = model.init(np.random.default_rng(0), (1, 3, 17, 16))
    net = load(export(model, params, (1, 3, 17, 16)))
    x = np.random.default_rng(1).standard_normal((4, 3, 17, 16)).astype(np.float32)
    assert settled(net(x)) == settled(model(params, x))


MASK = np.random.default_rng(0).random((6, 7)) < 0.6
FUNCTIONS = {
    "a mask": lambda x: wg.avg_pool2d(x, 3, 2, 1, where=MASK),
    "indices": lambda x: wg.max_pool2d(x, 3, 2, 1, return_indices=True),
    "indices of empty windows": lambda x: wg.max_pool2d(x, 2, 2, 3, return_indices=True),
    "unpooling": lambda x: wg.max_unpool2d(*wg.max_pool2d(x, 2, return_indices=True), 2, output_size=(6, 7)),
    "a product with a transposed constant": lambda x: wg.matmul(x, np.linspace(-1, 1, 91, dtype=np.float32).reshape(13, 7).T),
    "an index of arrays": lambda x: x[:, [1, 0, 2], [3, 3, 1]],
    "sums": lambda x: (wg.sum(x, 1), wg.mean(x, (0, 2)), wg.softmax(x, 1)),
    "losses": lambda x: wg.mse(x, x * 2) + wg.cross_entropy(x[:, 0], np.zeros(4, int)),
}


@pytest.mark.filterwarnings("ignore:export. the batch is fixed")
@pytest.mark.parametrize("f", FUNCTIONS.values(), ids=FUNCTIONS)
def test_a_function_comes_back_bit_identical(f):
    x = np.random.default_rng(1).standard_normal((4, 6, 7)).astype(np.float32)
    found, wanted = load(export(f, None, x.shape))(x), f(x)
    pairs = zip(found, wanted, strict=True) if isinstance(wanted, tuple) else [(found, wanted)]
    assert all(settled(np.asarray(got)) == settled(want) for got, want in pairs)


def test_gradients_of_a_function_of_the_domain_are_those_of_the_operator():
    layer = nn.MinPool((2,), ties="split")
    net, x = load(export(layer, {}, (1, 1, 6))), np.array([[[1.0, 1, 2, 3, 4, 4]]], np.float32)
    got, want = (wg.grad(lambda x, f=f: wg.sum(f(x)))(x) for f in (net, lambda x: layer({}, x)))
    assert settled(got) == settled(want)


def test_a_function_that_is_not_known_is_inlined():
    model = export(nn.MinPool((2,)), {}, (1, 1, 6))
    for each in (model.functions[0], model.graph.node[0]):
        each.domain = "somebody"
    model.opset_import[1].domain = "somebody"
    x = np.arange(6, dtype=np.float32).reshape(1, 1, 6)
    assert np.array_equal(load(model)(x), wg.min_pool1d(x, 2))
