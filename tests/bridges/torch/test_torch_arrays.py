"""The array functions on tensors: the values, dtypes and derivatives of NumPy arrays, in PyTorch's own system."""

import ml_dtypes
import numpy as np
import pytest
import torch
from torch.func import grad, jacrev, jvp, vjp, vmap

import windowgrad as wg
from support.tensor_cases import NAMES, beside_constants, cells, gradient_cases, gradients, near, network, of, plain, trained
from windowgrad import autograd
from windowgrad.autograd.arrays.functions import relu6

pytestmark = pytest.mark.filterwarnings("ignore:`torch.jit.*` is deprecated:DeprecationWarning")  # by PyTorch, of PyTorch
each_function = pytest.mark.parametrize("name", NAMES)


def tensors(arrays):
    return [torch.from_numpy(np.array(array)) for array in arrays]


@each_function
def test_tensors_give_what_arrays_give(name):
    wrong = [case.differs(case.call(*tensors(case.arrays)).numpy(), case.call(*case.arrays)) for case in of(name)]
    assert not any(wrong), "\n".join(filter(None, wrong))


@each_function
def test_gradients_are_those_of_our_own_vjp(name):
    wrong = []
    for case in gradient_cases(name):
        g, right = gradients(case)
        call, arrays = beside_constants(case, torch.from_numpy)
        xs = [x.requires_grad_() for x in tensors(arrays)]
        y = call(*xs)
        if y.requires_grad:
            found = torch.autograd.grad(y, xs, torch.from_numpy(g), materialize_grads=True)
        else:
            found = [torch.zeros_like(x) for x in xs]
        wrong += [near(case).differs(a.numpy(), b) for a, b in zip(found, right, strict=True)]
    assert not any(wrong), "\n".join(filter(None, wrong))


@each_function
def test_transforms_of_torch_func_see_through_it(name):
    case = plain(name)
    call, arrays = beside_constants(case, torch.from_numpy)
    xs, (g, right) = tensors(arrays), gradients(case)
    _, pull = vjp(call, *xs)
    wrong = [near(case).differs(a.numpy(), b) for a, b in zip(pull(torch.from_numpy(g)), right, strict=True)]
    dxs = tuple(torch.from_numpy(cells(a.shape, "float64", False, seed=3)) for a in arrays)
    ours, constants = beside_constants(case)
    _, moved = wg.jvp(ours, tuple(constants), tuple(dx.numpy() for dx in dxs))
    y, found = jvp(call, tuple(xs), dxs)
    wrong += [near(case).differs(found.numpy(), moved), case.differs(y.numpy(), case.call(*case.arrays))]
    assert not any(wrong), "\n".join(filter(None, wrong))


@each_function
def test_vmap_gives_what_a_loop_gives(name):
    case = plain(name)
    call, arrays = beside_constants(case, torch.from_numpy)
    batches = [torch.stack([x, x.flip(0) if x.ndim else -x, x]) for x in tensors(arrays)]
    mapped = vmap(call, in_dims=0)(*batches)
    one_by_one = torch.stack([call(*(batch[i] for batch in batches)) for i in range(3)])
    assert not case.differs(mapped.numpy(), one_by_one.numpy())


@each_function
def test_it_is_compiled_into_one_graph_with_its_gradient(name):
    case = plain(name)
    call, arrays = beside_constants(case, torch.from_numpy)
    xs = [x.requires_grad_() for x in tensors(arrays)]
    torch.compiler.reset()
    y = torch.compile(call, fullgraph=True, backend="aot_eager")(*xs)
    g, right = gradients(case)
    wrong = [case.differs(y.detach().numpy(), case.call(*case.arrays))]
    if y.requires_grad:
        found = torch.autograd.grad(y, xs, torch.from_numpy(g), materialize_grads=True)
        wrong += [near(case).differs(a.numpy(), b) for a, b in zip(found, right, strict=True)]
    assert not any(wrong), "\n".join(filter(None, wrong))


SMOOTH = ("exp", "log", "tanh", "sigmoid", "sqrt", "softmax", "log_softmax", "mse", "power", "batch_norm", "divide")


@pytest.mark.parametrize("name", SMOOTH)
def test_second_derivatives_are_ours(name):
    case = plain(name)
    call, arrays = beside_constants(case, torch.from_numpy)
    ours, _ = beside_constants(case)
    first, *rest = tensors(arrays)
    found = jacrev(grad(lambda x: (call(x, *rest) ** 2).sum()))(first)
    right = wg.hessian(lambda x: wg.sum(wg.power(ours(x, *arrays[1:]), 2)))(arrays[0])
    np.testing.assert_allclose(found.numpy(), right, rtol=1e-9, atol=1e-9)


def test_ties_and_kinks_are_shared_as_by_our_own_vjp():
    tie = torch.tensor([0.0, -0.0, 2.0, torch.nan, torch.inf, -torch.inf], requires_grad=True)
    for function, best in ((wg.maximum, wg.max), (wg.minimum, wg.min)):
        y = function(tie, torch.tensor([-0.0, 0.0, 2.0, torch.nan, torch.inf, -torch.inf]))
        assert y.signbit().tolist() == [False, True, False, False, False, True]
        assert torch.autograd.grad(y.sum(), tie)[0].tolist() == [0.5] * 6
        assert torch.autograd.grad(best(tie.repeat(2, 1)).sum(), tie)[0].tolist() == [0, 0, 0, 1, 0, 0]
    at = torch.tensor([0.0, -0.0, 6.0], requires_grad=True)
    for function in (wg.relu, relu6, wg.abs):
        assert torch.autograd.grad(function(at).sum(), at)[0].tolist() == [0, 0, function is not relu6]
    assert torch.autograd.grad(wg.clip(at, 0, 6).sum(), at)[0].tolist() == [0.5, 0.5, 0.5]
    assert float(torch.func.grad(torch.func.grad(wg.sigmoid))(torch.tensor(0.0))) == 0
    assert float(torch.func.grad(wg.sigmoid)(torch.tensor(60.0))) == float(wg.grad(wg.sigmoid)(np.float32(60))) > 0


def test_numpy_arrays_beside_tensors_are_constants():
    x = torch.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    fixed = np.array([10.0, 20.0], np.float32)
    fixed.setflags(write=False)
    for constant in (fixed, fixed[::-1][::-1], fixed.astype(">f4"), fixed.repeat(2)[::2]):
        assert wg.add(constant, x).tolist() == [[11, 22], [13, 24]]
    assert wg.add(fixed[::-1], x).tolist() == [[21, 12], [23, 14]]
    assert torch.autograd.grad(wg.multiply(x, fixed).sum(), x)[0].tolist() == [[10, 20], [10, 20]]
    assert wg.add(x, fixed.astype(np.float64)).dtype == torch.float64
    assert wg.add(x, np.float64(1)).dtype == torch.float64
    assert wg.add(x, 1.0).dtype == wg.add(x, 10**6).dtype == torch.float32
    assert wg.where(np.array([True, False]), x, 0).tolist() == [[1, 0], [3, 0]]
    assert wg.cross_entropy(x, np.array([1, 0])).tolist() == pytest.approx(
        wg.cross_entropy(x.detach().numpy(), np.array([1, 0]))
    )
    small = np.array([1.5, -2.0], ml_dtypes.bfloat16)
    assert wg.add(torch.tensor([1.0, 2.0], dtype=torch.bfloat16), small).dtype == torch.bfloat16


def test_bfloat16_alone_stays_and_is_summed_in_float32():
    x = torch.full((3, 300), 1.0, dtype=torch.bfloat16)
    assert wg.sum(x, 1).tolist() == [300] * 3
    for y in (wg.add(x, 1), wg.mean(x), wg.matmul(x, wg.transpose(x)), wg.softmax(x), wg.max(x), wg.sigmoid(x), wg.mse(x, 0)):
        assert y.dtype == torch.bfloat16
    assert wg.add(x, torch.ones(1, dtype=torch.float16)).dtype == torch.float32


def test_tensors_without_data_have_the_shape_and_dtype():
    x = torch.empty(2**20, 2**20, device="meta", dtype=torch.int32)
    assert (wg.exp(x).shape, wg.exp(x).dtype, wg.max(x, 0).shape) == (x.shape, torch.float64, (2**20,))


@pytest.mark.parametrize(
    ("call", "error", "said"),
    [
        (lambda x: wg.add(x, torch.ones(4)), wg.WindowError, r"sizes 3 and 4 on axis -1 .*\[add\(a: torch.float32\(2, 3\)"),
        (lambda x: wg.sum(x, axis=5), wg.WindowError, r"axis=5: must be from -2 to 1 for x of shape \(2, 3\) \[sum\("),
        (lambda x: wg.max(x[:0]), wg.WindowError, r"an empty array has no greatest or least element \[max\("),
        (lambda x: wg.exp(x.to(torch.complex64)), wg.KindError, r"x: unsupported dtype torch.complex64; .*\[exp\("),
        (lambda x: wg.subtract(x > 0, x > 0), wg.KindError, r"subtract: unsupported dtypes bool and bool"),
        (lambda x: wg.negative(x > 0), wg.KindError, r"negative: unsupported dtype bool"),
        (lambda x: wg.add(x.to(torch.uint16), 1), wg.KindError, r"add: PyTorch does not compute with torch.uint16"),
        (lambda x: wg.add(x.to(torch.int8), 1000), wg.OptionError, r"b=1000: does not fit into torch.int8"),
        (lambda x: wg.power(x.int(), -1), wg.OptionError, r"b: an integer must not have a negative exponent"),
        (lambda x: wg.where(x, x, x), wg.KindError, r"condition: must be a tensor of bools, not of torch.float32"),
        (lambda x: wg.cross_entropy(x, torch.tensor([0, 3])), wg.OptionError, r"labels: 3 at \(1,\), must be from 0 to 2"),
        (lambda x: wg.cross_entropy(x, torch.ones(2)), wg.KindError, r"labels: must be integers, not torch.float32"),
        (lambda x: wg.add(x, np.array(None)), wg.KindError, r"b: unsupported dtype object together with a tensor"),
        (lambda x: wg.add(x, "1"), wg.KindError, r"b: must be a tensor or a NumPy array beside a tensor, not str"),
        (lambda x: wg.reshape(x, (4,)), wg.WindowError, r"shape=\(4,\): has 4 elements, x of shape \(2, 3\) has 6"),
    ],
)
def test_errors_name_the_argument_the_value_and_the_call(call, error, said):
    with pytest.raises(error, match=said):
        call(torch.arange(6.0).reshape(2, 3))


def test_a_traced_value_beside_a_tensor_is_refused():
    x = torch.ones(3)
    for traced in (lambda v: wg.sum(wg.add(v, x)), lambda v: wg.sum(wg.add(x, v))):
        with pytest.raises(wg.KindError, match=r"torch\.autograd differentiates tensors"):
            wg.grad(traced)(np.ones(3))
        with pytest.raises(wg.KindError, match=r"torch\.autograd differentiates tensors"):
            wg.jvp(traced, (np.ones(3),), (np.ones(3),))


def test_a_network_runs_and_trains_on_tensors_as_on_arrays():
    model, params, x = network()
    own = torch.utils._pytree.tree_map(torch.from_numpy, params)
    np.testing.assert_allclose(model(own, torch.from_numpy(x)).numpy(), model(params, x), rtol=0, atol=1e-6)
    leaves = torch.utils._pytree.tree_map(lambda t: t.clone().requires_grad_(), own)
    y, new = model.train(leaves, torch.from_numpy(x))
    wg.mse(y, 1).backward()
    right_new, right = trained(model, params, x)
    for tensor, g in zip(*map(torch.utils._pytree.tree_leaves, (leaves, right)), strict=True):
        np.testing.assert_allclose(np.zeros_like(g) if tensor.grad is None else tensor.grad.numpy(), g, rtol=0, atol=1e-6)
    for tensor, array in zip(*map(torch.utils._pytree.tree_leaves, (new, right_new)), strict=True):
        np.testing.assert_allclose(tensor.detach().numpy(), array, rtol=0, atol=1e-6)


def test_a_network_is_compiled_into_one_graph_for_inference_and_training():
    model, params, x = network()
    own = torch.utils._pytree.tree_map(torch.from_numpy, params)
    torch.compiler.reset()
    for call in (model, lambda params, x: model.train(params, x)[0]):
        compiled = torch.compile(lambda params, x, call=call: call(params, x), fullgraph=True, backend="aot_eager")
        np.testing.assert_allclose(compiled(own, torch.from_numpy(x)).numpy(), call(params, x), rtol=0, atol=1e-6)


def test_a_symbolic_trace_has_the_function_as_a_node():
    graph = torch.fx.symbolic_trace(lambda x: wg.exp(wg.max_pool2d(x, 2))).graph
    assert [node.name for node in graph.nodes] == ["x", "max_pool2d", "exp", "output"]
    assert all(callable(step) for step in autograd.arrays.SINGLE_STEPS)
