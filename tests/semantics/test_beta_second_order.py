"""Second and third derivatives of smooth maxima in β: exact to a few roundings, however far from 0 the cells are."""

from decimal import Decimal, localcontext

import numpy as np
import pytest

import windowgrad as wg
from support.laws import each

CELLS = np.array([0.0, 1.0, 3.0, 2.5])
BETA = 1.5


def value(x, b):
    return wg.sum(wg.global_smooth_max_pool1d(x, beta=b))


def by_beta(x, beta):
    return wg.grad(wg.grad(lambda b: value(x, b)))(beta)


def mixed(x, beta):
    return wg.grad(lambda x: wg.grad(lambda b: value(x, b))(beta))(x)


def along(x, beta):
    """Forward over reverse, in x and β at once."""
    return wg.hvp(value, (x, beta), (np.arange(len(x)) + beta * 0, beta))[0]


DERIVATIVES = {"in β twice": by_beta, "in β and x": mixed, "along both": along}
every = pytest.mark.parametrize("derivative", DERIVATIVES.values(), ids=DERIVATIVES)


@every
@pytest.mark.parametrize("far", [0.0, 2.0**20, -(2.0**33), 2.0**40])
@pytest.mark.parametrize("beta", [BETA, -BETA])
def test_nothing_is_lost_far_from_zero(derivative, far, beta):
    """E[x²] − E[x]² would lose all digits here. The cells are those of a small exact case, moved by an exact number."""
    with localcontext(prec=60):
        exact = derivative(each(Decimal, CELLS), each(Decimal, np.array(beta)))
    found = derivative(CELLS + far, np.array(beta))
    np.testing.assert_allclose(found, np.asarray(exact).astype(float), rtol=1e-13)


@every
@pytest.mark.parametrize("beta", [BETA, -BETA])
def test_a_cell_of_weight_zero_adds_nothing(derivative, beta):
    far = -np.inf if beta > 0 else np.inf
    alone = np.array([1.0, 0.5, 0.25])
    wanted = derivative(alone, np.array(beta))
    for cell in (far, np.copysign(1e300, far)):
        found = derivative(np.append(alone, cell), np.array(beta))
        np.testing.assert_allclose(found, wanted if not wanted.ndim else np.append(wanted, 0.0), rtol=1e-13)


def test_the_second_derivative_is_the_variance_and_twice_the_entropy():
    p = np.exp(BETA * CELLS) / np.exp(BETA * CELLS).sum()
    variance, entropy = p @ CELLS**2 - (p @ CELLS) ** 2, -(p * np.log(p)).sum()
    found = float(by_beta(CELLS, np.array(BETA)))
    assert found == pytest.approx((variance + 2 * entropy / BETA**2) / BETA, rel=1e-12)


@pytest.mark.parametrize(
    "pool",
    [
        lambda x, b: wg.smooth_max_pool1d(x, 3, 2, 1, beta=b),
        lambda x, b: wg.adaptive_smooth_max_pool1d(x, 2, beta=b),
        lambda x, b: wg.smooth_max_pool1d(x, 2, 2, 2, beta=b, count_include_pad=False),
    ],
    ids=["padded", "bins", "empty windows"],
)
@pytest.mark.parametrize("beta", [np.array(0.8), np.array([0.8, -1.7])], ids=["one", "each"])
def test_third_derivatives(pool, beta):
    """The rules of a higher order bend by rules of their own."""
    x = np.random.default_rng(3).standard_normal((2, 4))
    wg.check_grads(pool, x, beta, order=3, tolerance=1e-5)


def test_float32_keeps_its_dtype():
    x, beta = CELLS.astype(np.float32), np.array(BETA, np.float32)
    assert mixed(x, beta).dtype == np.float32
    assert by_beta(x, beta).dtype == np.float32
