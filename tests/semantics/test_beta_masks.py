"""A mask and `out` beside a β with a derivative: the values are those of a number β, and what is left out touches nothing."""

from decimal import Decimal, localcontext

import dask.array as da
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

import windowgrad as wg
from support.laws import each
from windowgrad.geometry import Adaptive, Global, Sliding
from windowgrad.ops import OPS, meaning
from windowgrad.params import Mask, SharpParams

pytestmark = pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated:DeprecationWarning")

RNG = np.random.default_rng(0)
MASKS = {
    "every cell": RNG.random((2, 3, 5, 5)) < 0.6,
    "a plane": RNG.random((5, 5)) < 0.6,
    "channels": np.array([True, False, True])[:, None, None],
    "nothing": np.array(False),
}
CASES = {
    "windows": lambda x, b, **k: wg.smooth_max_pool2d(x, 3, 2, 1, beta=b, **k),
    "padding left out": lambda x, b, **k: wg.smooth_max_pool2d(x, 2, 2, 2, beta=b, count_include_pad=False, **k),
    "bins": lambda x, b, **k: wg.adaptive_smooth_max_pool2d(x, (2, 3), beta=b, **k),
    "everything": lambda x, b, **k: wg.global_smooth_max_pool2d(x, beta=b, keepdims=False, **k),
    "few large windows": lambda x, b, **k: wg.smooth_max_pool2d(x, 4, 1, beta=b, **k),
}
BETAS = {"one number": np.array(1.3), "one per channel": np.array([1.5, -2.0, 0.7])}
X = RNG.standard_normal((2, 3, 5, 5))

every_case = pytest.mark.parametrize("f", CASES.values(), ids=CASES)
every_mask = pytest.mark.parametrize("where", MASKS.values(), ids=MASKS)
every_beta = pytest.mark.parametrize("beta", BETAS.values(), ids=BETAS)


def holed(where):
    """The cells with NaN and infinities where the mask leaves them out."""
    return np.where(where, X, RNG.choice([np.nan, np.inf, -np.inf], X.shape))


@every_case
@every_mask
@every_beta
def test_the_value_is_that_of_a_number_and_derivatives_are_those_of_the_specification(f, where, beta):
    x = holed(where)
    y = f(x, beta, where=where)
    for c in range(3):
        mask = np.broadcast_to(where, X.shape)[:, c]
        assert y[:, c].tobytes() == f(x[:, c], float(beta[c] if beta.ndim else beta), where=mask).tobytes()
    g, dx, db = (RNG.standard_normal(shape) for shape in (y.shape, X.shape, beta.shape))
    exact = [each(Decimal, array) for array in (np.where(where, X, 0), beta)]
    with localcontext(prec=40):
        pulled = wg.vjp(lambda x, b: f(x, b, where=where), *exact)[1](each(Decimal, g))
        pushed = wg.jvp(lambda x, b: f(x, b, where=where), tuple(exact), (each(Decimal, dx), each(Decimal, db)))[1]
    for found, wanted in zip(wg.vjp(lambda x, b: f(x, b, where=where), x, beta)[1](g), pulled, strict=True):
        np.testing.assert_allclose(found, wanted.astype(float), rtol=1e-12, atol=1e-14)
    found = wg.jvp(lambda x, b: f(x, b, where=where), (x, beta), (dx, db))[1]
    np.testing.assert_allclose(found, pushed.astype(float), rtol=1e-12, atol=1e-14)


@every_case
@every_beta
def test_second_derivatives(f, beta):
    where = MASKS["every cell"]
    wg.check_grads(lambda x, b: f(x, b, where=where), X, beta, order=2)
    v = RNG.standard_normal(X.shape)
    for x in (X, holed(where)):
        bent = wg.hvp(lambda x, b: wg.sum(f(x, b, where=where) ** 2), (x, beta), (v, beta))
        assert all(np.isfinite(part).all() for part in bent)
        assert not bent[0][~where].any()


@pytest.mark.parametrize(
    "geometry", [Sliding((3, 2), 2, 1), Sliding((4, 4)), Adaptive((2, 2)), Global(2), Global(2, False)], ids=repr
)
@pytest.mark.parametrize("order", [0, 1, 2, 3])
@pytest.mark.parametrize("where", [None, MASKS["every cell"]], ids=["plain", "masked"])
def test_rules_of_every_order_are_those_of_the_specification(geometry, order, where):
    """Higher derivatives are made of them; floats are computed as objects."""
    beta = BETAS["one per channel"]
    params = SharpParams(geometry, True, order, where=None if where is None else Mask(where))
    op, exact = OPS["sharp_smooth_max_pool"], meaning("sharp_smooth_max_pool")
    g, dx = RNG.standard_normal(params.out_shape(X.shape, beta.shape)), RNG.standard_normal(X.shape)
    wanted = exact.jvp(params, X, beta, dx, beta).astype(float)
    np.testing.assert_allclose(op.jvp(params, X, beta, dx, beta), wanted, rtol=1e-12, atol=1e-13)
    for found, part in zip(op.vjp(params, X, beta, g), exact.vjp(params, X, beta, g), strict=True):
        np.testing.assert_allclose(found, part.astype(float), rtol=1e-12, atol=1e-13)


@every_beta
def test_out_is_written(beta):
    where, out = MASKS["a plane"], np.full((2, 3, 3, 3), np.nan)
    for mask in (None, where):
        wanted = CASES["windows"](X, beta, where=mask)
        assert CASES["windows"](X, beta, where=mask, out=out) is out
        assert out.tobytes() == wanted.tobytes()
    single = np.empty((2, 3, 3, 3), np.float32)
    with pytest.raises(wg.KindError, match="out of dtype float32: must be float64, the dtype of the result"):
        CASES["windows"](X, beta, out=single)
    with pytest.raises(wg.KindError, match="out: only supported with NumPy arrays, but beta is a Tensor"):
        CASES["windows"](X, torch.from_numpy(beta), out=out)


def test_a_masked_array_comes_back_masked():
    x = np.ma.MaskedArray([[1.0, 5.0, 2.0, 3.0]], mask=[[False, False, True, True]])
    y = wg.smooth_max_pool1d(x, 2, beta=np.array([2.0]))
    assert y.mask.tolist() == [[False, True]]
    assert y[0, 0] == wg.smooth_max_pool1d(x.data, 2, beta=2.0)[0, 0]


def test_what_does_not_fit_is_refused():
    with pytest.raises(wg.WindowError, match=r"where of shape \(4,\): must broadcast to \(2, 3, 5, 5\), the shape of x"):
        wg.smooth_max_pool2d(X, 2, beta=np.array(1.0), where=np.ones(4, bool))
    with pytest.raises(wg.KindError, match="where: must be an array of bool, not an array of int64"):
        wg.smooth_max_pool2d(X, 2, beta=np.array(1.0), where=np.ones(5, int))


# --- other arrays --------------------------------------------------------------------------------------------------


@every_case
@every_beta
def test_torch_jax_and_dask_give_the_same(f, beta):
    where = MASKS["every cell"]
    x = holed(where)
    y, pull = wg.vjp(lambda x, b: f(x, b, where=where), x, beta)
    gx, gb = pull(2 * y)
    tensors = torch.from_numpy(x).requires_grad_(), torch.from_numpy(beta).requires_grad_()
    (f(*tensors, where=where) ** 2).sum().backward()
    np.testing.assert_allclose(tensors[0].grad, gx, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(tensors[1].grad, gb, rtol=1e-12, atol=1e-14)
    with jax.enable_x64(True):
        found = jax.grad(lambda x, b: (f(x, b, where=where) ** 2).sum(), (0, 1))(jnp.asarray(x), jnp.asarray(beta))
        np.testing.assert_allclose(found[0], gx, rtol=1e-12, atol=1e-14)
        np.testing.assert_allclose(found[1], gb, rtol=1e-12, atol=1e-14)
    lazy = da.from_array(x, chunks=(1, 2, 2, 3))
    value, lazily = wg.vjp(lambda x, b: f(x, b, where=where), lazy, da.from_array(beta, chunks=-1))
    assert value.compute().tobytes() == y.tobytes()
    parts = lazily(da.from_array(2 * y, chunks=2))
    np.testing.assert_allclose(parts[0].compute(), gx, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(parts[1].compute(), gb, rtol=1e-12, atol=1e-14)
    assert f(lazy, beta, where=da.from_array(where, chunks=2)).compute().tobytes() == y.tobytes()
