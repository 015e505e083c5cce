"""A loaded network is a function: of NumPy arrays, fractions and traced values, of its inputs and of its parameters."""

import subprocess
import sys
from fractions import Fraction

import dask.array as da
import jax
import ml_dtypes
import numpy as np
import pytest
import torch
from onnx import parser
from torch._subclasses.fake_tensor import FakeTensorMode

import windowgrad as wg
from windowgrad.autograd.program import record
from windowgrad.errors import KindError, OptionError, WindowError
from windowgrad.onnx import load

SMALL = """
<ir_version: 8, opset_import: ["" : 17]>
small (float[N, 1, 6, 6] x) => (float[N, 2] y)
<float[1, 1, 3, 3] w = {1, 2, 3, 4, 0.5, -6, -7, 8, 9}, float[4, 2] v = {1, -2, 3, 4, -5, 6, 7, 8}, float[2] b = {0.5, 1}>
{
    a = Conv<pads = [1, 1, 1, 1]>(x, w)
    r = Relu(a)
    s = Add(r, r)
    p = MaxPool<kernel_shape = [3, 3], strides = [3, 3]>(s)
    f = Flatten(p)
    y = Gemm(f, v, b)
}"""


def by_hand(params, x):
    """What the nodes say, as calls."""
    r = wg.relu(wg.conv2d(x, params["w"], padding=1))
    p = wg.max_pool2d(wg.add(r, r), 3)
    return wg.add(wg.matmul(wg.flatten(p), params["v"]), params["b"])


def small():
    x = np.random.default_rng(0).integers(-4, 5, (2, 1, 6, 6)).astype(np.float32)
    return load(parser.parse_model(SMALL)), x


def test_a_network_computes_what_its_nodes_say():
    net, x = small()
    assert np.array_equal(net(x), by_hand(net.params, x))
    assert np.array_equal(net(x=x), net(x))
    assert net(x).dtype == np.float32


def test_fractions_are_computed_exactly():
    net, x = small()
    exact = np.vectorize(Fraction, otypes=[object])(x.astype(int)) / 3
    params = {name: np.vectorize(Fraction, otypes=[object])(array) for name, array in net.params.items()}
    y = net(exact)
    assert all(type(cell) is Fraction for cell in y.flat)
    assert (y == by_hand(params, exact)).all()


def test_it_differentiates_in_its_inputs_and_in_its_parameters():
    net, x = small()
    params = dict(net.params)
    found = wg.grad(lambda params, x: wg.sum(net(params, x)), argnums=(0, 1))(params, x)
    wanted = wg.grad(lambda params, x: wg.sum(by_hand(params, x)), argnums=(0, 1))(params, x)
    assert np.array_equal(found[1], wanted[1])
    assert all(np.array_equal(found[0][name], wanted[0][name]) for name in params)


def test_it_differentiates_to_second_order_in_both_modes():
    net, x = small()
    x = x.astype(np.float64) + np.linspace(0, 0.3, x.size).reshape(x.shape)  # no ties
    f = lambda x: wg.sum(wg.power(net(x), 2))  # noqa: E731
    wg.check_grads(f, x, order=2)
    v = np.ones_like(x)
    found = wg.hvp(f, (x,), (v,))
    wanted = wg.hvp(lambda x: wg.sum(wg.power(by_hand(net.params, x), 2)), (x,), (v,))
    assert np.array_equal(found, wanted)
    assert np.array_equal(wg.jvp(net, (x,), (v,))[1], wg.jvp(lambda x: by_hand(net.params, x), (x,), (v,))[1])


def test_it_is_recorded_on_a_tape_and_as_a_program():
    net, x = small()
    tape = wg.Tape()
    leaf = tape.leaf(x, name="x")
    gradient = tape.backward(wg.sum(net(leaf)))["x"]
    assert np.array_equal(gradient, wg.grad(lambda x: wg.sum(net(x)))(x))
    program = record(net, x)
    assert [call.op.name for call in program.calls] == ["conv", "relu", "add", "max_pool", "reshape", "matmul", "add"]
    assert np.array_equal(program(x), net(x))


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.float32, np.float64])
def test_every_float_is_computed_with_and_promotes_beside_the_parameters(dtype):
    net, x = small()
    y = net(x.astype(dtype))
    assert y.dtype == (np.float64 if dtype is np.float64 else np.float32)
    assert np.array_equal(y, net(x))  # whole numbers, which every dtype has


def test_dask_arrays_give_dask_arrays():
    net, x = small()
    y = net(da.from_array(x, (1, 1, 6, 6)))
    assert isinstance(y, da.Array)
    assert np.array_equal(y.compute(), net(x))


def test_tensors_of_pytorch_are_differentiable_there():
    net, x = small()
    tensor = torch.from_numpy(x).requires_grad_()
    weight = torch.from_numpy(np.array(net.params["w"])).requires_grad_()
    y = net({"w": weight}, tensor)
    assert np.array_equal(y.detach().numpy(), net(x))
    y.sum().backward()
    wanted = wg.grad(lambda params, x: wg.sum(net(params, x)), argnums=(0, 1))(dict(net.params), x)
    assert np.array_equal(tensor.grad.numpy(), wanted[1])
    assert np.array_equal(weight.grad.numpy(), wanted[0]["w"])


def test_tensors_made_without_gradients_are_not_in_the_way_of_later_ones():
    net, x = small()
    with FakeTensorMode(allow_non_fake_inputs=True) as mode:
        assert net(mode.from_tensor(torch.from_numpy(x))).shape == (2, 2)
    with torch.inference_mode():
        net(torch.from_numpy(x))
    tensor = torch.from_numpy(x).requires_grad_()
    net(tensor).sum().backward()
    assert np.array_equal(tensor.grad.numpy(), wg.grad(lambda x: wg.sum(net(x)))(x))


def test_arrays_of_jax_are_differentiable_there():
    net, x = small()
    assert np.array_equal(jax.jit(net)(x), net(x))
    assert isinstance(net(jax.numpy.asarray(x)), jax.Array)
    gradient = jax.grad(lambda x: net(x).sum())(jax.numpy.asarray(x))
    assert np.array_equal(gradient, wg.grad(lambda x: wg.sum(net(x)))(x))


# --- inputs and parameters ---------------------------------------------------------------------------------------------

TWO = """
<ir_version: 8, opset_import: ["" : 17]>
two (float[N, 3] x, float[N, 3] other, int64[1] count) => (float[N, 3] total, float[N, 3] apart, int64[1] count2)
{
    total = Add(x, other)
    apart = Sub(x, other)
    count2 = Add(count, count)
}"""


def test_inputs_come_in_order_or_by_name_and_outputs_as_a_tuple():
    net = load(parser.parse_model(TWO))
    x, other, count = np.ones((2, 3), np.float32), np.full((2, 3), 2, np.float32), np.array([4])
    total, apart, twice = net(x, other=other, count=count)
    assert (total[0, 0], apart[0, 0], twice[0]) == (3, -1, 8)
    assert [given.name for given in net.inputs] == ["x", "other", "count"]
    assert net.inputs[0].shape == ("N", 3)
    assert net.outputs == ("total", "apart", "count2")


@pytest.mark.parametrize(
    ("given", "named", "kind", "words"),
    [
        ((), {}, WindowError, "0 arrays given: ['x'] of the inputs ['x'] is missing"),
        ((1, 2), {}, WindowError, "2 arrays given: the network has 1 inputs, ['x']"),
        ((), {"z": 1}, OptionError, "\"z\": is no input; the network has ['x']"),
        ((np.ones((1, 1, 6, 6)),), {"x": 1}, OptionError, '"x": is given twice'),
        ((np.ones((1, 1, 6)),), {}, WindowError, 'input "x" of shape (1, 1, 6): must be (N, 1, 6, 6)'),
        ((np.ones((1, 2, 6, 6)),), {}, WindowError, 'input "x" of shape (1, 2, 6, 6): must be (N, 1, 6, 6)'),
        ((np.ones((1, 1, 6, 6), int),), {}, KindError, 'input "x" of dtype int64: must be float32, or another float'),
        (({"z": 1}, 1), {}, OptionError, "params['z']: the network has no such parameter; it has ['w', 'v', 'b']"),
        (({"b": np.ones(3)}, 1), {}, WindowError, "params['b'] of shape (3,): must be (2,)"),
    ],
)
def test_what_a_network_is_given_must_fit(given, named, kind, words):
    with pytest.raises(kind) as caught:
        small()[0](*given, **named)
    assert words in str(caught.value)


def test_a_symbol_has_one_size():
    net = load(parser.parse_model(TWO))
    with pytest.raises(WindowError, match=r'input "other" of shape \(3, 3\): must be \(N, 3\), N = 2'):
        net(np.ones((2, 3), np.float32), np.ones((3, 3), np.float32), np.array([1]))


def test_an_error_names_the_node():
    text = SMALL.replace("float[N, 1, 6, 6] x", "float[N, 1, A, B] x")
    with pytest.raises(WindowError, match=r'^node "Gemm_5" \(Gemm\): '):
        load(parser.parse_model(text))(np.ones((1, 1, 9, 9), np.float32))


def test_the_table_of_a_network_has_its_nodes_and_what_they_cost():
    net, _ = small()
    lines = net.summary((2, 1, 6, 6)).splitlines()
    assert lines[0] == "small on an input of shape (2, 1, 6, 6)"
    assert lines[4].split() == ["Conv_0", "Conv", "(2,", "1,", "6,", "6)", "9", "648"]
    assert lines[-1].split() == ["total", "19", "664"]
    assert [step.node.op_type for step in net.steps(np.ones((1, 1, 6, 6), np.float32))] == [n.op_type for n in net.graph.nodes]


def test_importing_the_room_loads_no_onnx():
    code = "import sys, windowgrad.onnx; sys.exit('onnx' in sys.modules or 'google.protobuf' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
