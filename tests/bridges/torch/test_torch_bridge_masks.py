"""Pooling of tensors with a mask: the bits of NumPy arrays, values and derivatives, and errors where a mask cannot be known."""

import numpy as np
import pytest
import torch
from torch.func import grad, hessian, jvp, vmap

import windowgrad as wg
from windowgrad.errors import KindError, WindowError

pytestmark = pytest.mark.filterwarnings("ignore:`torch.jit.*` is deprecated:DeprecationWarning")  # by PyTorch, of PyTorch

FUNCTIONS = {
    "max": lambda x, **k: wg.max_pool2d(x, 3, 2, 1, **k),
    "min": lambda x, **k: wg.min_pool2d(x, 2, ties="split", **k),
    "mean": lambda x, **k: wg.avg_pool2d(x, 3, 2, 1, **k),
    "smooth": lambda x, **k: wg.smooth_max_pool2d(x, 2, beta=2, **k),
    "norm": lambda x, **k: wg.lp_pool2d(x, 2.5, 2, **k),
    "bins": lambda x, **k: wg.adaptive_avg_pool2d(x, 2, **k),
    "all": lambda x, **k: wg.global_max_pool2d(x, keepdims=False, **k),
}
RNG = np.random.default_rng(0)
X, MASK = RNG.standard_normal((2, 3, 5, 6)), RNG.random((3, 5, 6)) < 0.6
X[:, ~MASK] = np.nan
SMALL = torch.tensor([True, False, True, True])

functions = pytest.mark.parametrize("pool", FUNCTIONS.values(), ids=FUNCTIONS)


@functions
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("made", [torch.from_numpy, np.array], ids=["tensor", "array"])
def test_values_and_gradients_are_those_of_arrays(pool, dtype, made):
    x = torch.from_numpy(X.astype(dtype)).requires_grad_()
    y = pool(x, where=made(MASK))
    expected, pull = wg.vjp(lambda x: pool(x, where=MASK), X.astype(dtype))
    g = RNG.standard_normal(expected.shape).astype(dtype)
    y.backward(torch.from_numpy(g))
    assert np.array_equal(y.detach().numpy(), expected)
    assert np.array_equal(x.grad.numpy(), pull(g)[0])
    assert torch.equal(pool(x.detach(), where=made(MASK)), y)


@functions
def test_second_derivatives_are_those_of_arrays(pool):
    x, v = torch.from_numpy(X).requires_grad_(), RNG.standard_normal(X.shape)
    (g,) = torch.autograd.grad((pool(x, where=MASK) ** 2).sum(), x, create_graph=True)
    (h,) = torch.autograd.grad((g * torch.from_numpy(v)).sum(), x)
    (expected,) = wg.hvp(lambda x: wg.sum(pool(x, where=MASK) ** 2), (X,), (v,))
    np.testing.assert_allclose(h.numpy(), expected, rtol=1e-12, atol=1e-12)


@functions
def test_transforms_see_a_mask_as_a_constant(pool):
    x, where = torch.from_numpy(X), torch.from_numpy(MASK)
    dx = torch.from_numpy(RNG.standard_normal(X.shape))
    whole = pool(x, where=where)
    assert torch.equal(vmap(lambda x: pool(x, where=where))(x), whole)
    pushed = jvp(lambda x: pool(x, where=where), (x,), (dx,))[1]
    assert np.array_equal(pushed.numpy(), wg.jvp(lambda x: pool(x, where=MASK), (X,), (dx.numpy(),))[1])
    pulled = grad(lambda x: pool(x, where=~torch.isnan(x)).sum())(x)  # computed inside
    assert np.array_equal(pulled.numpy(), wg.grad(lambda x: wg.sum(pool(x, where=MASK)))(X))


def test_nested_transforms():
    x = torch.tensor([1.0, 9.0, 2.0, 3.0], dtype=torch.float64)
    found = hessian(lambda x: wg.smooth_max_pool1d(x, 2, beta=1.0, where=SMALL).sum())(x)
    assert not found[:2].any()
    assert torch.equal(found[2:, 2:], hessian(lambda x: wg.smooth_max_pool1d(x, 2, beta=1.0).sum())(x[2:]))


def test_a_gradient_is_of_the_mask_at_the_call():
    for where in (SMALL.clone(), SMALL.numpy().copy()):
        x = torch.ones(4, requires_grad=True)
        y = wg.avg_pool1d(x, 2, where=where)
        where[:] = False
        y.sum().backward()
        assert x.grad.tolist() == [1, 0, 0.5, 0.5]


def test_indices_and_channels_last():
    x, mask = torch.randn(2, 3, 4, 4), torch.rand(2, 3, 4, 4) < 0.5
    x, mask = (t.to(memory_format=torch.channels_last) for t in (x, mask))
    y, index = wg.max_pool2d(x, 2, return_indices=True, where=mask)
    expected = wg.max_pool2d(x.numpy(), 2, return_indices=True, where=mask.numpy())
    assert (y.tolist(), index.tolist()) == (expected[0].tolist(), expected[1].tolist())
    assert y.is_contiguous(memory_format=torch.channels_last)


def test_bfloat16():
    x = torch.tensor([1.0, 9.0, 2.0, 3.0], dtype=torch.bfloat16)
    y = wg.avg_pool1d(x, 2, where=SMALL)
    assert (y.dtype, y.tolist()) == (torch.bfloat16, [1, 2.5])


# --- what is refused ---------------------------------------------------------------------------------------------


def test_a_mask_must_be_bool_and_broadcast():
    with pytest.raises(KindError, match="where: must be an array of bool, not an array of int64"):
        wg.max_pool1d(torch.ones(4), 2, where=torch.ones(4, dtype=torch.int64))
    with pytest.raises(KindError, match="where: must be an array of bool, not an array of bfloat16"):
        wg.max_pool1d(torch.ones(4), 2, where=torch.ones(4, dtype=torch.bfloat16))
    with pytest.raises(WindowError, match=r"where of shape \(3,\): must broadcast to \(4,\), the shape of x"):
        wg.max_pool1d(torch.ones(4), 2, where=torch.ones(3, dtype=torch.bool))


def test_a_mask_is_not_batched():
    x = torch.ones(3, 4)
    with pytest.raises(KindError, match="where: must not be batched by vmap; call the function on the whole batch"):
        vmap(lambda x: wg.max_pool1d(x, 2, where=x > 0))(x)
    with pytest.raises(WindowError, match=r"where of shape \(3, 4\): must broadcast to \(4,\), the shape of x"):
        vmap(lambda x: wg.max_pool1d(x, 2, where=np.ones((3, 4), bool)))(x)
