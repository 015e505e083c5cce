"""The error of float32 against exact fractions and against mpmath, on floats chosen to be hard. The bounds are the design's."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import windowgrad as wg
from support import oracle
from support.exact import fractions_of
from support.smooth_bound import check_smooth
from support.strategies import cases, geometries, mean_params, ranks, slidings, spatial_sizes
from windowgrad.geometry import Global, Sliding
from windowgrad.ops import OPS
from windowgrad.params import ConvParams, MeanParams, SmoothParams

HALF_ULP = Fraction(1, 2**24)
HALF_SMALLEST = Fraction(1, 2**150)
"""Below the normal numbers floats are evenly spaced, and no result can be nearer than half that space."""


def any_finite(size):
    """Any finite float32 at all: tiny, huge, denormal, of both signs."""

    def read(drawn):
        floats = np.frombuffer(drawn, np.float32)
        return np.where(np.isfinite(floats), floats, np.float32(1.5))

    return st.binary(min_size=4 * size, max_size=4 * size).map(read)


def near_each_other(size):
    """Floats of one magnitude, so that sums cancel and lose digits."""
    return st.binary(min_size=size, max_size=size).map(
        lambda drawn: np.float32(1) + np.frombuffer(drawn, np.int8) / np.float32(9e5)
    )


floats = st.sampled_from([any_finite, near_each_other, lambda size: any_finite(size).map(lambda a: a * np.float32(1e-38))])


def drawn(data, shape):
    return data.draw(data.draw(floats)(math.prod(shape))).reshape(shape)


# --- mean --------------------------------------------------------------------------------------------------------


def check_mean(params, x):
    """Within min(n, 16)·2⁻²⁴·mean|x|, where n is how many cells the window has and mean|x| divides as the mean does."""
    found = OPS["avg_pool"].forward(params, x)
    assert found.dtype == np.float32
    exact, size = (oracle.mean_forward(params, values) for values in (fractions_of(x), abs(fractions_of(x))))
    cells = oracle.pooled(params, x, lambda real, _: len(real))
    for got, mean, scale, n in zip(found.flat, exact.flat, size.flat, cells.flat, strict=True):
        assert abs(Fraction(float(got)) - mean) <= min(n, 16) * HALF_ULP * scale + HALF_SMALLEST, (got, float(mean))


@given(data=st.data())
def test_a_float32_mean_is_within_its_bound(data):
    spatial = data.draw(spatial_sizes(data.draw(ranks)))
    check_mean(data.draw(mean_params(data.draw(geometries(spatial)))), drawn(data, spatial))


rng = np.random.default_rng(0)
HARD = {
    "huge, whose sum overflows": np.full(1000, 3e38),
    "huge that cancel": np.tile([3e38, -3e38, 1.0, 1e-38], 500),
    "one small among large": np.array([1e8] * 999 + [1.0]),
    "falling": 1e38 / 10.0 ** (np.arange(3000) / 40),
    "rising": 1e-38 * 10.0 ** (np.arange(3000) / 40),
    "denormal": np.arange(1, 2001) * 1.4e-45,
    "denormal and normal": np.tile([1e-45, 1.2e-38, -1.2e-38], 700),
    "a tenth, many times": np.full(200_000, 0.1),
    "of mixed sign": rng.standard_normal(100_000),
    "of mixed size": rng.standard_normal(20_000) * 10.0 ** rng.integers(-30, 30, 20_000),
    "of one": np.array([1.1]),
}


@pytest.mark.parametrize("name", HARD)
def test_a_float32_mean_over_everything_is_within_its_bound(name):
    check_mean(MeanParams(Global(1)), HARD[name].astype(np.float32))


@pytest.mark.parametrize("name", [name for name in HARD if len(HARD[name]) <= 3000])
def test_a_float32_mean_over_long_windows_is_within_its_bound(name):
    x = HARD[name].astype(np.float32)
    check_mean(MeanParams(Sliding((min(len(x), 257),), 101, 13)), x)


# --- smooth max --------------------------------------------------------------------------------------------------


@given(data=st.data())
def test_a_float32_smooth_max_is_within_its_bound(data):
    spatial = data.draw(spatial_sizes(data.draw(st.integers(1, 3))))
    beta = data.draw(st.sampled_from([1, 0.001, 3, 50.0, 1e5, -1, -0.5, -1e5]))
    params = SmoothParams(data.draw(geometries(spatial)), beta, data.draw(st.booleans()))
    bytes_ = data.draw(st.binary(min_size=math.prod(spatial), max_size=math.prod(spatial)))
    check_smooth(params, (np.frombuffer(bytes_, np.int8) / np.float32(17)).reshape(spatial).astype(np.float32))


@pytest.mark.parametrize("counted", [True, False])
@pytest.mark.parametrize("beta", [1, -1, 1000.0, -1000.0, 1e-3])
@pytest.mark.parametrize("size", [1e5, -1e5, 1e2, 1e-5, 3e38, 1e-40])
def test_smooth_max_never_overflows(size, beta, counted):
    """β·x of ±10⁵ and far beyond, where the plain formula gives inf."""
    x = np.array([1, -1, 0.5, 1, 0, 0.999], dtype=np.float32) * np.float32(size / abs(beta) if abs(size) == 1e5 else size)
    check_smooth(SmoothParams(Sliding((3,), 1, 1), beta, counted), x)


@pytest.mark.parametrize("beta", [2, -2, 0.01])
def test_a_float32_smooth_max_over_everything_is_within_its_bound(beta):
    check_smooth(SmoothParams(Global(1), beta), rng.standard_normal(5000).astype(np.float32))


def test_smooth_max_of_infinities_is_the_infinite_limit():
    inf = math.inf
    x = np.array([inf, 1, -inf, -inf], dtype=np.float32)
    assert wg.smooth_max_pool(x, (2,), 1, beta=2).tolist() == [inf, 1, -inf]
    assert wg.smooth_max_pool(x, (2,), 1, beta=-2).tolist() == [1, -inf, -inf]
    assert wg.smooth_max_pool(x[2:], (3,), 1, 1, beta=2).tolist() == [0, 0]  # beside a padded zero


# --- convolution -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["conv", "conv_transpose"])
@given(data=st.data())
def test_a_float32_convolution_is_within_its_bound(name, data):
    """Within (K + 2)·2⁻²⁴·Σ|w||x|, where K is how many products an output has at most, the bias counting as one of size |b|."""
    op = OPS[name]
    params, shaped, _, _ = data.draw(cases(op, lambda count: st.just([0] * count)))
    xs = [np.ldexp(drawn(data, x.shape), -70).astype(np.float32) for x in shaped]  # so that no product overflows
    found = op.forward(params, *xs)
    exact, size = (
        oracle.FORWARD[name](params, *values) for values in zip(*((q, abs(q)) for q in map(fractions_of, xs)), strict=True)
    )
    products = xs[1].size // xs[1].shape[0 if name == "conv" else 1]
    for got, y, scale in zip(found.flat, exact.flat, size.flat, strict=True):
        assert abs(Fraction(float(got)) - y) <= (products + 2) * HALF_ULP * scale + HALF_SMALLEST


def test_a_long_float32_convolution_is_within_its_bound():
    """64 channels of 5×5: 1600 products an output, with cancellation."""
    x, w = (rng.standard_normal(shape).astype(np.float32) for shape in ((64, 6, 6), (2, 64, 5, 5)))
    found = OPS["conv"].forward(ConvParams(Sliding((5, 5), 1)), x, w)
    for i in np.ndindex(*found.shape):
        c, *o = i
        window = x[:, o[0] : o[0] + 5, o[1] : o[1] + 5]
        terms = [Fraction(float(a)) * Fraction(float(b)) for a, b in zip(window.flat, w[c].flat, strict=True)]
        assert abs(Fraction(float(found[i])) - sum(terms)) <= (1600 + 2) * HALF_ULP * sum(map(abs, terms))


@given(data=st.data())
def test_max_has_no_error_at_all(data):
    spatial = data.draw(spatial_sizes(data.draw(ranks)))
    x = drawn(data, spatial)
    params = wg.params.MaxParams(data.draw(slidings(spatial)))
    found = OPS["max_pool"].forward(params, x)
    assert fractions_of(found).tolist() == oracle.max_forward(params, fractions_of(x)).tolist()
