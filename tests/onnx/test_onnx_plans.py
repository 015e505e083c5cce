"""A network that is called again runs on fused steps, with the bits of the plain evaluation."""

import copy
import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from onnx import numpy_helper, parser

from windowgrad import nn
from windowgrad.kernels.runtime import slots
from windowgrad.onnx import export, load
from windowgrad.onnx.plans import MOST

RNG = np.random.default_rng(0)


@pytest.fixture(autouse=True)
def small_results_in_slots(monkeypatch):
    monkeypatch.setattr(slots, "SMALLEST", 1)


def blocks(act):
    """Residual blocks with and without a shortcut, depthwise and strided."""
    body = nn.Sequential(nn.Conv(8, (3, 3), 1, 1), act(), nn.Conv(8, (3, 3), 1, 1, groups=8))
    other = nn.Sequential(nn.Conv(12, (1, 1), 2), act(), nn.Conv(12, (3, 3), 1, 1))
    shortcut = nn.Sequential(nn.Conv(12, (1, 1), 2, bias=False))
    up = nn.ConvTranspose(4, (2, 2), 2)
    layers = [nn.Conv(8, (3, 3), 1, 1), act(), nn.Residual(body), act(), nn.Residual(other, shortcut), act(), up, act()]
    return nn.Sequential(*layers, nn.MaxPool((2, 2)), nn.GlobalAvgPool(2), nn.Linear(5))


def exported(act, dtype=np.float32):
    model, shape = blocks(act), (2, 3, 12, 12)
    params = model.init(np.random.default_rng(1), shape, dtype)
    return load(export(model, params, shape))


def random(shape, dtype=np.float32):
    return RNG.standard_normal(shape).astype(dtype)


def plan_of(net):
    (found,) = net._plans.known.values()
    return found


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("act", [nn.ReLU, nn.ReLU6])
def test_a_plan_gives_the_bits_of_the_plain_evaluation(act, dtype):
    net = exported(act, dtype)
    for scale in (1, 100, 1e-30):
        x = random((2, 3, 12, 12), dtype) * dtype(scale)
        x[0, 0, 0, :3] = np.nan, np.inf, -0.0
        wanted = net._evaluated(x)
        before = x.copy()
        for _ in range(3):
            assert net(x).tobytes() == wanted.tobytes()
        assert x.tobytes() == before.tobytes()
    assert len(plan_of(net).pieces) == 7 + 4 + 1  # convolutions; pooling twice, a product of matrices and its bias; a reshape


def clipping(bias, low=0.0):
    """A convolution of zeros by negative weights, clipped."""
    text = """
<ir_version: 8, opset_import: ["" : 17]>
clips (float[N, 1, 6, 6] x, float[N, 2, 4, 4] b) => (float[N, 2, 4, 4] y) <float high = {6}>
{ a = Conv(x, w, c) s = Add(b, a) y = Clip(s, low, high) }"""
    model = parser.parse_model(text)
    weight = -np.abs(random((2, 1, 3, 3)))
    stored = {"w": weight, "c": np.float32(bias), "low": np.array(low, np.float32)}
    model.graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in stored.items())
    return load(model)


@pytest.mark.parametrize("bias", [(0.0, 1.0), (-0.0, 1.0)])
@pytest.mark.parametrize("low", [0.0, -0.0])
@pytest.mark.parametrize("scale", [0.0, 1.0, 20.0, 1e-44])
def test_clips_keep_the_sign_of_zero(bias, low, scale):
    net = clipping(bias, low)
    x, b = np.float32(scale) * random((1, 1, 6, 6)), np.full((1, 2, 4, 4), -0.0, np.float32)
    wanted = net._evaluated(x, b)
    for _ in range(3):
        assert net(x, b).tobytes() == wanted.tobytes()
    assert len(plan_of(net).pieces) == (3 if np.signbit((low, *bias)).any() else 1)


def test_values_that_are_used_twice_are_kept():
    text = """
<ir_version: 8, opset_import: ["" : 17]>
twice (float[N, 1, 6] x) => (float[N, 1, 6] y, float[N, 1, 6] a, float[N, 1, 6] d) <float[1, 1, 3] w = {1, -2, 3}>
{ a = Conv<pads = [1, 1]>(x, w) r = Relu(a) c = Conv<pads = [1, 1]>(r, w) y = Add(c, r) d = Add(y, y) }"""
    net = load(parser.parse_model(text))
    x = random((2, 1, 6))
    wanted = net._evaluated(x)
    for _ in range(3):
        assert [y.tobytes() for y in net(x)] == [y.tobytes() for y in wanted]


def test_a_result_is_not_changed_by_the_next_call():
    net = exported(nn.ReLU)
    x = random((1, 3, 12, 12))
    first = [net(x) for _ in range(3)][-1]
    kept = first.copy()
    net(x + 1)
    assert first.tobytes() == kept.tobytes()


def test_few_plans_are_kept_and_weights_are_packed_once():
    text = """
<ir_version: 8, opset_import: ["" : 17]>
any (float[N, 1, M] x) => (float[N, 1, M] y) <float[1, 1, 3] w = {1, -2, 3}> { a = Conv<pads = [1, 1]>(x, w) y = Relu(a) }"""
    net = load(parser.parse_model(text))
    for n in range(1, MOST + 3):
        x = random((n, 1, 5))
        assert net(x).tobytes() == net(x).tobytes()
    assert len(net._plans.known) == MOST
    assert len(net._plans.steps) == 1


def test_wrong_arguments_are_refused_as_before():
    net = exported(nn.ReLU)
    for _ in range(3):
        with pytest.raises(ValueError, match="must be"):
            net(random((2, 3, 12)))
    assert not any(net._plans.known.values())


def test_what_cannot_be_recorded_is_evaluated_plainly():
    text = """
<ir_version: 8, opset_import: ["" : 17]>
looks (float[4] x) => (int64[1] y) { y = ArgMax<axis = 0>(x) }"""
    net = load(parser.parse_model(text))
    for place in (2, 0, 3):
        x = np.zeros(4, np.float32)
        x[place] = 1
        assert net(x).tolist() == [place]
    assert plan_of(net) is None


def test_parameters_that_are_given_take_part():
    net = exported(nn.ReLU)
    x = random((2, 3, 12, 12))
    wanted = [net(x) for _ in range(3)][-1]
    zeros = {name: np.zeros_like(array) for name, array in net.params.items()}
    assert not net(zeros, x).any()
    assert net(x).tobytes() == wanted.tobytes()


def test_a_copy_of_a_network_makes_its_own_plans():
    net = exported(nn.ReLU)
    x = random((2, 3, 12, 12))
    wanted = [net(x) for _ in range(3)][-1]
    for other in (pickle.loads(pickle.dumps(net)), copy.deepcopy(net)):
        assert not other._plans.known
        for _ in range(3):
            assert other(x).tobytes() == wanted.tobytes()
        assert other._plans.f.__self__ is other


def test_threads_may_call_one_network():
    net = exported(nn.ReLU)
    xs = [random((n, 3, 12, 12)) for n in range(1, 2 * MOST)]
    wanted = [net._evaluated(x).tobytes() for x in xs]
    with ThreadPoolExecutor(4) as pool:
        for _ in range(3):
            assert list(pool.map(lambda x: net(x).tobytes(), xs * 3)) == wanted * 3
