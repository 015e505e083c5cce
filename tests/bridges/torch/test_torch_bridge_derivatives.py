"""Derivatives of the PyTorch bridge: both modes, any order, and the transforms of torch.func."""

import pytest
import torch
import torch.autograd.forward_ad as fwd
from torch.autograd import gradcheck, gradgradcheck
from torch.func import grad, hessian, jacfwd, jacrev, jvp, vjp, vmap
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

import windowgrad as wg
from support.torch_bridge_cases import PLANES, convolutions, name, pools, values
from windowgrad.ops import OPS
from windowgrad.params import ConvParams, MaxParams, MeanParams, SmoothParams

# PyTorch's forward mode scripts some functions of its own when it is first used
pytestmark = pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated:DeprecationWarning")

DIFFERENTIABLE = [*PLANES, *pools(1)[:4], *convolutions(1), *convolutions(3)[:1]]


@pytest.mark.parametrize("case", DIFFERENTIABLE, ids=name)
def test_first_derivatives_of_both_modes_are_those_of_differences(case):
    assert gradcheck(lambda *xs: values(case.call(*xs)), case.tensors(), check_forward_ad=True, fast_mode=True)


@pytest.mark.parametrize("case", DIFFERENTIABLE, ids=name)
def test_second_derivatives_are_those_of_differences(case):
    """Backward over backward, and forward over backward."""
    assert gradgradcheck(lambda *xs: values(case.call(*xs)), case.tensors(), check_fwd_over_rev=True, fast_mode=True)


@pytest.mark.parametrize("case", PLANES, ids=name)
def test_gradients_are_the_bits_of_the_rules(case):
    """Gradients by PyTorch are the vjp of the NumPy arrays, and tangents the jvp."""
    tensors, tangents = case.tensors(torch.float32), case.tensors(torch.float32, seed=1, requires_grad=False)
    y = values(case.call(*tensors))
    g = torch.arange(float(y.numel())).reshape(y.shape)
    op, params = rule_of(case)
    wanted = op.vjp(params, *(t.detach().numpy() for t in tensors), g.numpy())
    for got, array in zip(torch.autograd.grad(y, tensors, g), wanted, strict=True):
        assert torch.equal(got, torch.from_numpy(array))
    arrays = [t.detach().numpy() for t in (*tensors, *tangents)]
    with fwd.dual_level():
        moved = values(case.call(*map(fwd.make_dual, tensors, tangents)))
        assert torch.equal(fwd.unpack_dual(moved).tangent, torch.from_numpy(op.jvp(params, *arrays)))


def rule_of(case):
    """The record and the parameters behind a call, as an array type of one's own sees them."""
    seen = []

    class Spy:
        def __init__(self, shape):
            self.shape = shape

        def __windowgrad__(self, op, rule, params, arrays):
            seen.append((OPS[op.name], params))
            return ()

    case.call(*map(Spy, case.shapes))
    return seen[0]


def test_the_spy_sees_every_kind_of_operator():
    kinds = {type(rule_of(case)[1]) for case in PLANES}
    assert {MaxParams, MeanParams, SmoothParams, ConvParams} < kinds


# --- torch.func against PyTorch's own operators -----------------------------------------------------------------


def smooth(x):
    return wg.smooth_max_pool2d(x, 2, beta=1.5)


def smooth_by_hand(x):
    *lead, h, w = x.shape
    cells = x.reshape(*lead, h // 2, 2, w // 2, 2).transpose(-3, -2).flatten(-2)
    return torch.logsumexp(1.5 * cells, -1) / 1.5


X = torch.randn(2, 4, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
W = torch.randn(3, 2, 2, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
B = torch.randn(3, dtype=torch.float64, generator=torch.Generator().manual_seed(2))

FUNCTIONS = {
    "smooth max": (smooth, smooth_by_hand, X),
    "max": (lambda x: wg.max_pool2d(x, 3, 1).pow(3), lambda x: F.max_pool2d(x, 3, 1).pow(3), X),
    "mean": (lambda x: wg.avg_pool2d(x, 2).pow(3), lambda x: F.avg_pool2d(x, 2).pow(3), X),
    "conv in x": (lambda x: wg.conv2d(x, W, B).pow(3), lambda x: F.conv2d(x, W, B).pow(3), X),
    "conv in the weight": (lambda w: wg.conv2d(X, w, B).pow(3), lambda w: F.conv2d(X, w, B).pow(3), W),
    "conv in the bias": (lambda b: wg.conv2d(X, W, b).pow(3), lambda b: F.conv2d(X, W, b).pow(3), B),
    "transposed conv in the weight": (
        lambda w: wg.conv_transpose2d(X, w.transpose(0, 1), B, 2).pow(3),
        lambda w: F.conv_transpose2d(X, w.transpose(0, 1), B, 2).pow(3),
        W,
    ),
}
TRANSFORMS = {
    "grad": lambda f: grad(lambda x: f(x).sum()),
    "jvp": lambda f: lambda x: jvp(f, (x,), (x.cos(),))[1],
    "vjp": lambda f: lambda x: vjp(f, x)[1](f(x).cos())[0],
    "jacfwd": jacfwd,
    "jacrev": jacrev,
    "hessian": lambda f: hessian(lambda x: f(x).sum()),
    "backward over forward": lambda f: jacrev(jacfwd(lambda x: f(x).sum())),
    "backward over backward": lambda f: jacrev(jacrev(lambda x: f(x).sum())),
    "forward over forward": lambda f: jacfwd(jacfwd(lambda x: f(x).sum())),
    "a gradient per sample": lambda f: lambda x: vmap(grad(lambda x: f(x).sum()))(torch.stack([x, x.cos()])),
    "forward three times": lambda f: jacfwd(lambda x: jvp(lambda x: jvp(f, (x,), (x.cos(),))[1].sum(), (x,), (x.sin(),))[1]),
    "third derivatives": lambda f: lambda x: jvp(hessian(lambda x: f(x).sum()), (x,), (x.cos(),))[1],
}


@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("function", FUNCTIONS)
def test_transforms_agree_with_those_of_pytorchs_operators(function, transform):
    ours, theirs, x = FUNCTIONS[function]
    torch.testing.assert_close(TRANSFORMS[transform](ours)(x), TRANSFORMS[transform](theirs)(x))


BATCHES = {
    "x": ((0, None, None), (1, 0, 0)),
    "x on another axis": ((2, None, None), (1, 0, 0)),
    "weight": ((None, 0, None), (0, 1, 0)),
    "bias": ((None, None, 0), (0, 0, 1)),
    "all": ((0, 1, 0), (1, 1, 1)),
}


@pytest.mark.parametrize("batch", BATCHES)
@pytest.mark.parametrize(("ours", "theirs"), [(wg.conv2d, F.conv2d), (wg.conv_transpose2d, F.conv_transpose2d)])
def test_vmap_of_convolutions_over_any_argument(ours, theirs, batch):
    dims, batched = BATCHES[batch]
    weight = W if ours is wg.conv2d else W.transpose(0, 1)
    given = []
    for tensor, dim, has in zip((X, weight, B), dims, batched, strict=True):
        given.append(torch.stack([tensor, tensor.sin(), tensor.cos()], dim) if has else tensor)
    torch.testing.assert_close(vmap(ours, dims)(*given), vmap(theirs, dims)(*given))
    pushed = [jvp(vmap(f, dims), tuple(given), tuple(t.cos() for t in given))[1] for f in (ours, theirs)]
    torch.testing.assert_close(*pushed)
    pulled = [vjp(vmap(f, dims), *given)[1](pushed[1]) for f in (ours, theirs)]
    torch.testing.assert_close(*pulled)


def test_vmap_of_vmap_and_of_indices():
    x = torch.randn(2, 3, 4, 4)
    assert torch.equal(vmap(vmap(lambda p: wg.max_pool2d(p, 2)), in_dims=1, out_dims=1)(x), wg.max_pool2d(x, 2))
    y, found = vmap(lambda p: wg.max_pool2d(p, 2, return_indices=True), in_dims=3, out_dims=(0, 1))(x.movedim(0, 3))
    wanted, where = wg.max_pool2d(x, 2, return_indices=True)
    assert torch.equal(y, wanted)
    assert torch.equal(found.movedim(1, 0), where)


def test_a_batch_of_gradients_meets_one_input():
    x = torch.randn(4, 4, dtype=torch.float64)
    _, pull = vjp(smooth, x)
    gs = torch.eye(4, dtype=torch.float64).reshape(4, 2, 2)
    torch.testing.assert_close(vmap(pull)(gs)[0], torch.stack([pull(g)[0] for g in gs]))


@pytest.mark.parametrize("case", PLANES, ids=name)
def test_the_older_batches_of_gradients_and_tangents_are_those_of_a_loop(case):
    """`is_grads_batched=True` and `jacobian(vectorize=True)`, which PyTorch compares with one call after the other."""
    batches = {"check_batched_grad": True, "check_batched_forward_grad": True}
    function = lambda *xs: values(case.call(*xs))  # noqa: E731
    assert gradcheck(function, case.tensors(), check_forward_ad=True, fast_mode=True, **batches)


def test_a_gradient_that_is_infinite_elsewhere_does_no_harm():
    """Where only x moves, the product of x with the weight that stands still is not computed: ∞·0 would be NaN."""
    x = torch.tensor([[[1.0, float("inf"), 2.0]]])
    _, dy = jvp(lambda x: wg.conv1d(x, torch.ones(1, 1, 2)), (x,), (torch.ones_like(x),))
    assert torch.equal(dy, torch.full((1, 1, 2), 2.0))


def test_gradients_stop_where_nothing_needs_them():
    x, w = torch.randn(1, 2, 4, 4), torch.randn(3, 2, 2, 2, requires_grad=True)
    y = wg.conv2d(x, w)
    assert next(f for f, _ in y.grad_fn.next_functions if f is not None).variable is w
    (gw,) = torch.autograd.grad(y.sum(), w)
    assert not gw.requires_grad


def test_gradient_penalties_train():
    """A loss on the gradient: the second derivative through maximum and convolution, against PyTorch's."""
    w = W.float().clone().requires_grad_()
    found = []
    for conv, pool in ((wg.conv2d, wg.max_pool2d), (F.conv2d, F.max_pool2d)):
        x = X.float().clone().requires_grad_()
        (gx,) = torch.autograd.grad(pool(conv(x, w), 2).pow(2).sum(), x, create_graph=True)
        found.append(torch.autograd.grad(gx.pow(2).sum(), w)[0])
    torch.testing.assert_close(*found)


def test_checkpointing_recomputes_the_same_gradient():
    x = X.clone().requires_grad_()
    (again,) = torch.autograd.grad(checkpoint(smooth, x, use_reentrant=False).sum(), x)
    (once,) = torch.autograd.grad(smooth(x).sum(), x)
    assert torch.equal(again, once)
