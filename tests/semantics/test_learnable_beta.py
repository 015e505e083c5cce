"""A β with a derivative: its formula, padded zeros and weights of 0, both modes and second order, and every kind of array."""

import math
from decimal import Decimal, localcontext

import dask.array as da
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import windowgrad as wg
from support.laws import close, dot, dual, each
from support.strategies import cases, decimals
from windowgrad import nn
from windowgrad.bridges.torch import nn as torch_nn
from windowgrad.ops import OPS
from windowgrad.params import SmoothParams

pytestmark = pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated:DeprecationWarning")

SHARP = OPS["sharp_smooth_max_pool"]
X = np.random.default_rng(0).standard_normal((2, 3, 5, 5))
CASES = {
    "windows": lambda x, b: wg.smooth_max_pool2d(x, 3, 2, 1, beta=b),
    "padding left out": lambda x, b: wg.smooth_max_pool2d(x, 2, 2, 2, beta=b, count_include_pad=False),
    "bins": lambda x, b: wg.adaptive_smooth_max_pool2d(x, (2, 3), beta=b),
    "everything": lambda x, b: wg.global_smooth_max_pool2d(x, beta=b, keepdims=False),
    "everything, kept": lambda x, b: wg.global_smooth_max_pool2d(x, beta=b),
    "few large windows": lambda x, b: wg.smooth_max_pool2d(x, 4, 1, beta=b),
}
BETAS = {"one number": np.array(1.3), "one per channel": np.array([1.5, -2.0, 0.7]), "the same": np.array([2.0, 2.0, 2.0])}
every_case = pytest.mark.parametrize("f", CASES.values(), ids=CASES)
every_beta = pytest.mark.parametrize("beta", BETAS.values(), ids=BETAS)


# --- the specification --------------------------------------------------------------------------------------------


@given(data=st.data())
def test_the_laws_hold_in_both_inputs(data):
    """The vjp is the adjoint of the jvp, and the jvp is the forward rule on dual numbers."""
    with localcontext(prec=60):
        params, xs, dxs, g = data.draw(cases(SHARP, decimals()))
        dy = SHARP.jvp(params, *xs, *dxs)
        pulled = SHARP.vjp(params, *xs, g)
        assert close([dot(g, dy)], [sum(dot(gx, dx) for gx, dx in zip(pulled, dxs, strict=True))])
        pushed = SHARP.forward(params, *dual(xs, dxs))
        assert close(list(dy.flat), [getattr(cell, "tangent", 0) for cell in pushed.flat])


@given(data=st.data())
def test_a_beta_for_each_channel_is_a_number_for_each(data):
    with localcontext(prec=60):
        params, (x, beta), _, _ = data.draw(cases(SHARP, decimals()))
        y = SHARP.forward(params, x, beta)
        if beta.ndim:
            channel = x.ndim - params.geometry.rank - 1
            for c, number in enumerate(beta):
                one = SmoothParams(params.geometry, number, params.count_include_pad)
                alone = OPS["smooth_max_pool"].forward(one, x.take(c, channel))
                assert np.asarray(y.take(c, channel)).tolist() == alone.tolist()


# --- machine numbers -----------------------------------------------------------------------------------------------


@every_case
@every_beta
def test_kernels_are_the_specification(f, beta):
    """A number gives the same bits; the derivative in β is within a few roundings of the exact one."""
    y = f(X, beta)
    for c in range(3):
        assert y[:, c].tobytes() == f(X[:, c], float(beta[c] if beta.ndim else beta)).tobytes()
    exact = [each(Decimal, array) for array in (X, beta)]
    g = np.random.default_rng(1).standard_normal(y.shape)
    with localcontext(prec=40):
        expected = wg.vjp(f, *exact)[1](each(Decimal, g))
        pushed = wg.jvp(f, tuple(exact), tuple(exact))[1]
    for found, wanted in zip(wg.vjp(f, X, beta)[1](g), expected, strict=True):
        np.testing.assert_allclose(found, wanted.astype(float), rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(wg.jvp(f, (X, beta), (X, beta))[1], pushed.astype(float), rtol=1e-12, atol=1e-14)


@every_case
@every_beta
def test_derivatives_to_second_order(f, beta):
    wg.check_grads(f, X, beta, order=2)


def test_the_derivative_is_minus_the_entropy_over_beta_squared():
    x, beta = np.array([0.0, 1.0, 3.0]), 1.5
    p = np.exp(beta * x) / np.exp(beta * x).sum()
    slope = wg.grad(lambda b: wg.sum(wg.global_smooth_max_pool1d(x, beta=b)))(np.array(beta))
    assert float(slope) == pytest.approx(float((p * np.log(p)).sum()) / beta**2, rel=1e-14)


def test_it_is_as_accurate_far_from_zero():
    """(E[x] − y)/β as it is written would lose ten digits here."""
    x, beta = np.array([0.0, 1.0, 3.0]), np.array(1.5)

    def slope(x):
        return float(wg.grad(lambda b: wg.sum(wg.smooth_max_pool1d(x, 3, beta=b)))(beta))

    assert slope(x + 2.0**33) == pytest.approx(slope(x), rel=1e-14)


@pytest.mark.parametrize("beta", [2.0, -2.0])
def test_a_cell_of_weight_zero_adds_nothing(beta):
    far = -np.inf if beta > 0 else np.inf
    for cell in (far, far and np.copysign(1e300, far)):
        x, without = np.array([1.0, 0.5, cell]), np.array([1.0, 0.5])
        slopes = [wg.grad(lambda b, x=x: wg.sum(wg.global_smooth_max_pool1d(x, beta=b)))(np.array(beta)) for x in (x, without)]
        assert float(slopes[0]) == float(slopes[1])


def test_a_window_without_cells_has_no_derivative():
    x = np.ones((1, 2))
    gradient = wg.grad(lambda b: wg.sum(wg.smooth_max_pool1d(x, 1, 3, 2, beta=b, count_include_pad=False)))(np.array(1.0))
    assert np.isfinite(float(gradient))
    y = wg.smooth_max_pool1d(x, 1, 3, 2, beta=np.array(1.0), count_include_pad=False)
    assert float(y[0, 0]) == 0


@every_case
@every_beta
def test_an_empty_batch_has_a_gradient_of_zero(f, beta):
    y, pull = wg.vjp(f, X[:0], beta)
    assert pull(y)[1].tolist() == np.zeros(beta.shape).tolist()
    assert wg.jvp(f, (X[:0], beta), (X[:0], beta))[1].shape == y.shape


@pytest.mark.parametrize("dtype", ["float16", "float32", "int8", "int64"])
def test_dtypes(dtype):
    x, beta = (X * 4).astype(dtype), np.array([1.0, 2.0, -1.0], np.float32)
    y, pull = wg.vjp(lambda x, b: wg.smooth_max_pool2d(x, 2, beta=b), x, beta)
    assert y.dtype == wg.smooth_max_pool2d(x, 2, beta=2.0).dtype
    gx, gb = pull(np.ones_like(y))
    assert gb.dtype == np.float32
    assert gx.shape == x.shape


@pytest.mark.parametrize(
    ("beta", "text"),
    [
        (np.array(0.0), r"beta=0.0: must not be zero"),
        (np.array([1.0, 0.0, 2.0]), r"beta\[1\]=0.0: must not be zero"),
        (np.array([1.0, np.inf, 2.0]), r"beta\[1\]=inf: must be finite"),
        (np.ones(2), r"beta of shape \(2,\): must be \(\) or \(3,\), one for each entry of the axis before the windows"),
        (np.ones((3, 1)), r"beta of shape \(3, 1\): must be \(\) or \(3,\)"),
        (np.array(True), r"beta: unsupported dtype bool"),
    ],
)
def test_what_is_wrong_with_a_beta_is_said(beta, text):
    with pytest.raises(wg.errors.WindowgradError, match=text):
        wg.smooth_max_pool2d(X, 2, beta=beta)


# --- other arrays ---------------------------------------------------------------------------------------------------


@every_case
@pytest.mark.parametrize("name", ["one number", "one per channel"])
def test_torch_differentiates_it(f, name):
    x, beta = torch.tensor(X[:1, :, :4], requires_grad=True), torch.tensor(BETAS[name], requires_grad=True)
    assert torch.autograd.gradcheck(f, (x, beta), check_forward_ad=True)
    assert torch.autograd.gradgradcheck(f, (x, beta))


@every_case
@pytest.mark.parametrize("name", ["one number", "one per channel"])
def test_jax_traces_it(f, name):
    """Gradients under jit with β as an argument, second derivatives, and batches of x, of β and of both."""
    with jax.enable_x64(True):
        x, beta = jnp.asarray(X), jnp.asarray(BETAS[name])

        def loss(x, b):
            return (f(x, b) ** 2).sum()

        y, pull = wg.vjp(f, X, BETAS[name])
        for found, wanted in zip(jax.jit(jax.grad(loss, (0, 1)))(x, beta), pull(2 * y), strict=True):
            np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-14)
        hessian = jax.hessian(lambda b: loss(x, b))(beta)
        ours = wg.jacobian(wg.grad(lambda b: wg.sum(f(X, b) * f(X, b))))(BETAS[name])
        np.testing.assert_allclose(hessian, ours, rtol=1e-9, atol=1e-12)
        xs, betas = jnp.stack([x, 2 * x]), jnp.stack([beta, beta + 1])
        alone = jax.grad(loss, (0, 1))(2 * x, beta + 1)
        for batched, wanted in zip(jax.vmap(jax.grad(loss, (0, 1)))(xs, betas), alone, strict=True):
            np.testing.assert_allclose(batched[1], wanted, rtol=1e-12, atol=1e-14)
        np.testing.assert_array_equal(jax.vmap(f, (None, 0))(x, betas)[1], f(X, np.asarray(betas[1])))
        np.testing.assert_array_equal(jax.vmap(f, (0, None))(xs, beta)[1], f(2 * X, BETAS[name]))


@every_case
@pytest.mark.parametrize("name", ["one number", "one per channel"])
def test_dask_computes_it_block_by_block(f, name):
    beta = BETAS[name]
    x, lazy = da.from_array(X, chunks=(1, 2, 2, 3)), da.from_array(beta, chunks=2 if beta.ndim else ())
    y, pull = wg.vjp(f, X, beta)
    found, lazily = wg.vjp(f, x, lazy)
    assert found.compute().tobytes() == y.tobytes()
    gx, gb = lazily(da.from_array(2 * y, chunks=2))
    assert gx.compute().tobytes() == pull(2 * y)[0].tobytes()
    np.testing.assert_allclose(gb.compute(), pull(2 * y)[1], rtol=1e-13)
    tangent = wg.jvp(f, (x, lazy), (x, lazy))[1]
    assert tangent.compute().tobytes() == wg.jvp(f, (X, beta), (X, beta))[1].tobytes()


# --- layers -----------------------------------------------------------------------------------------------------------


LAYERS = {
    "SmoothMaxPool": ((2, 2), "kernel_size=(2, 2)", lambda x, b: wg.smooth_max_pool2d(x, 2, beta=b)),
    "AdaptiveSmoothMaxPool": ((2, 3), "output_size=(2, 3)", lambda x, b: wg.adaptive_smooth_max_pool2d(x, (2, 3), beta=b)),
    "GlobalSmoothMaxPool": (2, "rank=2", lambda x, b: wg.global_smooth_max_pool2d(x, beta=b, keepdims=False)),
}


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize(("learn", "shape"), [(True, ()), ("channel", (3,))])
def test_a_layer_has_beta_as_its_parameter(name, learn, shape):
    size, text, f = LAYERS[name]
    layer = getattr(nn, name)(size, beta=1.5, learn_beta=learn)
    params = layer.init(np.random.default_rng(0), X.shape, np.float64)
    assert params["beta"].shape == shape
    assert set(params["beta"].flat) == {1.5}
    assert layer(params, X).tobytes() == f(X, 1.5).tobytes()
    gradient = wg.grad(lambda params: wg.sum(layer(params, X)))(params)["beta"]
    assert gradient.shape == shape
    assert (gradient < 0).all()
    assert repr(layer) == f"{name}({text}, beta=1.5, learn_beta={learn!r})"
    assert f"{math.prod(shape)}  " in layer.summary(X.shape)


@pytest.mark.parametrize("name", LAYERS)
def test_a_layer_that_does_not_learn_has_no_parameters(name):
    layer, size = getattr(nn, name), LAYERS[name][0]
    assert layer(size, beta=1.5).init(np.random.default_rng(0), X.shape) == {}
    with pytest.raises(wg.OptionError, match=r'learn_beta=1: must be False, True or "channel"'):
        layer(size, beta=1.5, learn_beta=1)


@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize(("learn", "shape"), [(True, ()), (3, (3,))])
def test_torch_layers_of_bins_and_of_everything(rank, learn, shape):
    x = torch.tensor(np.random.default_rng(1).standard_normal((2, 3, *(5,) * rank)))
    for kind, options in (("Adaptive", {"output_size": 2}), ("Global", {"keepdims": True}), ("Global", {"keepdims": False})):
        layer = getattr(torch_nn, f"{kind}SmoothMaxPool{rank}d")(**options, beta=1.5, learn_beta=learn)
        assert layer.beta.shape == shape
        expected = getattr(wg, f"{kind.lower()}_smooth_max_pool{rank}d")(x, **options, beta=1.5)
        y = layer.double()(x)
        assert torch.equal(y, expected)
        y.sum().backward()
        assert (layer.beta.grad < 0).all()
        assert repr(layer).endswith(f"beta={[1.5] * 3 if shape else 1.5}, learned)")


def test_a_torch_layer_learns_beta():
    layer = torch_nn.SmoothMaxPool2d(2, beta=1.5, learn_beta=True)
    assert [name for name, _ in layer.named_parameters()] == ["beta"]
    x = torch.tensor(X, dtype=torch.float32)
    optimiser = torch.optim.SGD(layer.parameters(), lr=2.0)
    target = wg.smooth_max_pool2d(x, 2, beta=4.0)
    for _ in range(200):
        optimiser.zero_grad()
        loss = ((layer(x) - target) ** 2).mean()
        loss.backward()
        optimiser.step()
    assert float(loss.detach()) < 1e-3
    assert float(layer.beta.detach()) > 2.5
    fixed = torch_nn.SmoothMaxPool1d(2, beta=1.5)
    assert list(fixed.parameters()) == []
    assert torch.equal(fixed(x[0]), wg.smooth_max_pool1d(x[0], 2, beta=1.5))
    several = torch_nn.SmoothMaxPool3d(2, beta=1.5, learn_beta=3)
    assert several.beta.shape == (3,)
    assert "beta" in several.state_dict()
