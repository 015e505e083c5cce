"""exp and log of vectors against mpmath, over the whole range they are for."""

import mpmath
import numpy as np
import pytest

from windowgrad.kernels.pool.smooth.cells import EXPONENT, EXPONENT_LOST, scale_of, two_floats
from windowgrad.kernels.runtime.jit import compiled
from windowgrad.kernels.vector.exp_log import (
    LN2,
    LOG2_E,
    LOG2_E_LOST,
    exact_weight,
    exponential,
    logarithm,
    narrow_value,
    narrow_weight,
    quick_logarithm,
    quick_power,
)
from windowgrad.kernels.vector.ops import load, splat, store


@compiled
def exponentials(x, y):
    for i in range(0, len(x), 4):
        store(y, i, exponential(load(x, i)))


@compiled
def logarithms(x, y):
    for i in range(0, len(x), 4):
        store(y, i, logarithm(load(x, i)))


@compiled
def quick_powers(x, y):
    for i in range(0, len(x), 4):
        store(y, i, quick_power(load(x, i)))


@compiled
def quick_logarithms(x, y):
    for i in range(0, len(x), 4):
        store(y, i, quick_logarithm(load(x, i)))


@compiled
def narrow_weights(x, y, by):
    for i in range(0, len(x), 8):
        store(y, i, narrow_weight(load(x, i), splat(x, by[0]), splat(x, by[1])))


@compiled
def exact_weights(x, y, by):
    for i in range(0, len(x), 4):
        store(y, i, exact_weight(load(x, i), splat(x, by[0]), splat(x, by[1])))


@compiled
def narrow_values(x, y, by):
    for i in range(0, len(x), 8):
        value = narrow_value(load(x, i), splat(x, by[0]), splat(x, by[1]), splat(x, by[2]), splat(x, by[3]))
        store(y, i, value)


def applied(function, x):
    y = np.empty_like(x)
    function(x, y)
    return y


def worst(function, exact, x):
    """The largest error in units of the last place of the exact value."""
    with mpmath.workprec(120):
        pairs = [
            (mpmath.mpf(found), exact(mpmath.mpf(float(cell)))) for cell, found in zip(x, applied(function, x), strict=True)
        ]
        places = (
            max(mpmath.mpf(2) ** (mpmath.floor(mpmath.log(abs(w), 2)) - 52), mpmath.mpf(2) ** -1074) if w else 1
            for _, w in pairs
        )
        return max(float(abs(found - wanted) / place) for (found, wanted), place in zip(pairs, places, strict=True))


def drawn(*ranges):
    """1000 numbers of each range, by the exponent of ten and by size."""
    rng = np.random.default_rng(0)
    return np.concatenate(
        [numbers for low, high in ranges for numbers in (rng.uniform(low, high, 500), 10.0 ** rng.uniform(low, high, 500))]
    )


def test_exp_is_within_one_ulp_from_seven_hundred_down_to_the_last_subnormal():
    sizes = np.abs(drawn((-16, 2.84), (-2, 2)))
    deep = -np.random.default_rng(1).uniform(700, 746, 1000)
    assert worst(exponentials, mpmath.exp, np.concatenate([sizes, -sizes, deep])) <= 1


def test_a_quick_power_of_two_is_within_its_bound_of_itself():
    x = np.concatenate([np.random.default_rng(0).uniform(-1000, 1000, 2000), np.linspace(-1, 1, 2000), drawn((-16, 2.99))])
    with mpmath.workprec(120):
        exact = [mpmath.mpf(2) ** mpmath.mpf(float(cell)) for cell in x]
        found = applied(quick_powers, x)
        assert max(abs(mpmath.mpf(a) / b - 1) for a, b in zip(found, exact, strict=True)) <= mpmath.mpf(2) ** -33


def test_a_quick_logarithm_is_within_its_bound():
    near = 1 + np.random.default_rng(1).uniform(-0.5, 1, 1000)
    x = np.concatenate([10.0 ** np.linspace(-307, 308, 1000), near, 1 + 2.0 ** -np.arange(1, 53)])
    with mpmath.workprec(120):
        for cell, found in zip(x, applied(quick_logarithms, x), strict=True):
            exact = mpmath.log(mpmath.mpf(float(cell)))
            assert abs(mpmath.mpf(found) - exact) <= mpmath.mpf(2) ** -38 + mpmath.mpf(2) ** -51 * abs(exact), cell


@pytest.mark.parametrize("factor", [1.4426950408889634, -1.0, 2.7e-20, 123.456])
def test_a_narrow_weight_is_within_its_units_of_itself(factor):
    rng = np.random.default_rng(2)
    exponents = np.concatenate([rng.uniform(-87, 87, 8000), rng.uniform(-1, 1, 8000), np.linspace(-2.5, 2.5, 8000)])
    x, y = (exponents / factor).astype(np.float32), np.empty(24000, np.float32)
    narrow_weights(x, y, np.array(two_floats(factor)))
    with mpmath.workprec(80):
        exact = [mpmath.mpf(2) ** (mpmath.mpf(float(cell)) * mpmath.mpf(factor)) for cell in x]
        assert max(abs(mpmath.mpf(float(a)) / b - 1) for a, b in zip(y, exact, strict=True)) <= 1.3 * 2.0**-24


@pytest.mark.parametrize("beta", [1.0, -0.7, 3e-200, 1.1e300])
def test_an_exact_weight_is_within_its_units_of_itself(beta):
    rng = np.random.default_rng(2)
    exponents = np.concatenate([rng.uniform(-480, 480, 2000), rng.uniform(-1, 1, 2000), np.linspace(-2.5, 2.5, 2000)])
    scale = scale_of(beta)
    x, y = exponents / beta, np.empty(6000)
    exact_weights(x, y, np.array([scale[EXPONENT], scale[EXPONENT_LOST]]))
    with mpmath.workprec(140):
        exact = [mpmath.exp(mpmath.mpf(float(cell)) * mpmath.mpf(beta)) for cell in x]
        assert max(abs(mpmath.mpf(float(a)) / b - 1) for a, b in zip(y, exact, strict=True)) <= 1.5 * mpmath.mpf(2) ** -53


def test_the_lost_part_of_the_logarithm_is_right():
    with mpmath.workprec(140):
        assert abs(1 / mpmath.log(2) - mpmath.mpf(LOG2_E) - mpmath.mpf(LOG2_E_LOST)) < mpmath.mpf(2) ** -107


@pytest.mark.parametrize("beta", [1.0, -0.75, 3e-25, 9.9e24])
def test_a_narrow_logarithm_is_within_its_units(beta):
    """0.5 for the part, 0.35 for adding it, and half an ulp of the result."""
    rng = np.random.default_rng(3)
    total = np.concatenate([np.exp(rng.uniform(-60, 70, 8000)), rng.uniform(0.3, 4, 7992), [1, 2, 0.5, 1.5, 0, 0, 4, 1]])
    x, y = total.astype(np.float32), np.empty(16000, np.float32)
    narrow_values(x, y, np.array([*two_floats(LN2 / beta), *two_floats(1 / beta)]))
    with mpmath.workprec(80):
        for cell, found in zip(x, y, strict=True):
            exact = mpmath.log(mpmath.mpf(float(cell))) if cell else mpmath.mpf(0)
            error = abs(mpmath.mpf(float(found)) * mpmath.mpf(beta) - exact)
            assert error <= mpmath.mpf(2) ** -24 * (0.86 + abs(exact)), cell


def test_log_is_within_one_and_a_half_ulp_over_all_normal_numbers():
    near = 1 + np.random.default_rng(1).uniform(-0.5, 1, 1000)
    assert (
        worst(
            logarithms, mpmath.log, np.concatenate([10.0 ** np.linspace(-307, 308, 1000), near, 1 + 2.0 ** -np.arange(1, 53)])
        )
        <= 1.5
    )


@pytest.mark.parametrize(
    ("function", "x", "wanted"),
    [
        (exponentials, [0.0, -0.0, -np.inf, np.nan, -1e308, -745.13, -745.14, -746.5], [1, 1, 0, np.nan, 0, 5e-324, 0, 0]),
        (logarithms, [1.0, 2.0, np.inf, np.nan], [0, np.log(2), np.inf, np.nan]),
    ],
)
def test_the_ends_of_the_range(function, x, wanted):
    assert np.array_equal(applied(function, np.array(x)), np.array(wanted, dtype=float), equal_nan=True)
