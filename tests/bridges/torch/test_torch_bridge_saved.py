"""What PyTorch's backward pass is spared by what the forward rule saved, and that whoever looks closer sees nothing of it."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F

import windowgrad as wg

CALLS = {
    "2×2": (lambda t: wg.max_pool2d(t, 2), lambda t: F.max_pool2d(t, 2)),
    "3×3 s2 p1": (lambda t: wg.max_pool2d(t, 3, 2, 1), lambda t: F.max_pool2d(t, 3, 2, 1)),
    "adaptive": (lambda t: wg.adaptive_max_pool2d(t, 3), lambda t: F.adaptive_max_pool2d(t, 3)),
    "global": (lambda t: wg.global_max_pool2d(t, ties="first"), lambda t: F.adaptive_max_pool2d(t, 1)),
}
each_call = pytest.mark.parametrize(("ours", "theirs"), CALLS.values(), ids=CALLS)


def tensor(seed=1, dtype=torch.float32):
    cells = np.random.default_rng(seed).integers(-9, 9, (2, 4, 9, 11))
    return torch.from_numpy(cells).to(dtype)


@each_call
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("last", [False, True])
def test_a_backward_pass_from_saved_winners_is_that_of_pytorch(ours, theirs, dtype, last):
    x = tensor(dtype=dtype)
    x = x.contiguous(memory_format=torch.channels_last) if last else x
    mine, other = x.clone().requires_grad_(), x.clone().requires_grad_()
    y, z = ours(mine), theirs(other)
    assert type(y.grad_fn).__name__ == "SavingBackward"
    assert [kept.dtype for kept in y.grad_fn.saved_tensors] == [dtype, torch.int64 if y[0, 0].numel() == 1 else torch.uint8]
    g = torch.arange(y.numel()).reshape(y.shape).remainder(7).to(dtype)
    y.backward(g)
    z.backward(g)
    assert torch.equal(y, z)
    assert torch.equal(mine.grad, other.grad)
    assert mine.grad.dtype == dtype
    assert mine.grad.stride() == other.grad.stride()


@each_call
def test_it_may_be_differentiated_again_and_batched(ours, theirs):
    x = tensor(dtype=torch.float64).requires_grad_()
    y, z = ours(x), theirs(x)
    g = torch.ones_like(y).requires_grad_()
    (first,) = torch.autograd.grad(y, x, g, create_graph=True)
    (second,) = torch.autograd.grad((first * first).sum(), g)
    (wanted,) = torch.autograd.grad((torch.autograd.grad(z, x, g, create_graph=True)[0] ** 2).sum(), g)
    assert torch.equal(second, wanted)
    gs = torch.stack([torch.zeros_like(y).reshape(-1).index_fill(0, torch.tensor(i), 1).reshape(y.shape) for i in range(4)])
    (batched,) = torch.autograd.grad(ours(x), x, gs, is_grads_batched=True)
    for one, g in zip(batched, gs, strict=True):
        assert torch.equal(one, torch.autograd.grad(theirs(x), x, g)[0])


def test_a_graph_that_is_kept_may_be_pulled_twice():
    x = tensor().requires_grad_()
    y = wg.max_pool2d(x, 2)
    g = torch.ones_like(y)
    first = torch.autograd.grad(y, x, g, retain_graph=True)[0]
    assert torch.equal(first, torch.autograd.grad(y, x, g)[0])
    with pytest.raises(RuntimeError, match="second time"):
        torch.autograd.grad(y, x, g)


def test_an_input_that_was_written_to_is_refused():
    x = tensor().requires_grad_()
    inner = x * 1
    y = wg.max_pool2d(inner, 2)
    inner.zero_()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_nothing_is_saved_where_nobody_will_pull():
    x = tensor().requires_grad_()
    with torch.no_grad():
        assert wg.max_pool2d(x, 2).grad_fn is None
    assert wg.max_pool2d(x.detach(), 2).grad_fn is None


def test_a_mean_saves_nothing():
    assert wg.avg_pool2d(tensor().requires_grad_(), 2).grad_fn.saved_tensors[1:] == (None,)
