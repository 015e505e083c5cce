"""Windows in the plane: a small set in which every two parameters, of one axis or of both, meet in all their values."""

import itertools
import math
import random
from fractions import Fraction

import numpy as np
import pytest

from support import oracle
from support.laws import (
    forward_is_the_definition,
    jvp_is_forward_on_duals,
    max_derivative_is_the_definition,
    vjp_is_adjoint_of_jvp,
)
from windowgrad.geometry import Sliding
from windowgrad.ops import OPS
from windowgrad.params import TIES, ConvParams, MaxParams, MeanParams, MinParams

AXIS = {"n": (1, 2, 3, 5), "k": (1, 2, 3), "s": (1, 2, 3), "lo": (0, 1, 3), "hi": (0, 1, 2), "d": (1, 2), "ceil": (False, True)}
FACTORS = {f"{name}{axis}": values for axis in (0, 1) for name, values in AXIS.items()}


def fits(row):
    return all(row[f"d{a}"] * (row[f"k{a}"] - 1) < row[f"n{a}"] + row[f"lo{a}"] + row[f"hi{a}"] for a in (0, 1))


def pairs_of(row):
    return set(itertools.combinations(sorted(row.items()), 2))


def all_pairs():
    """Every two values of two different factors."""
    choices = {name: [(name, value) for value in values] for name, values in FACTORS.items()}
    together = itertools.combinations(sorted(choices), 2)
    return {pair for one, other in together for pair in itertools.product(choices[one], choices[other])}


def covering():
    """Rows that fit, greedily: around a pair not yet met, the one of many fillings that meets the most new pairs."""
    chance, left, rows = random.Random(0), all_pairs(), []
    while left:
        seed = dict(min(left, key=repr))
        fillings = ({name: chance.choice(values) for name, values in FACTORS.items()} | seed for _ in range(400))
        best = max(filter(fits, fillings), key=lambda row: len(pairs_of(row) & left))
        left -= pairs_of(best)
        rows.append(best)
    return rows


ROWS = covering()


def geometry(row):
    names = ("k", "s", "d", "ceil")
    kernel, stride, dilation, ceil = ([row[f"{name}{a}"] for a in (0, 1)] for name in names)
    return Sliding(kernel, stride, [(row[f"lo{a}"], row[f"hi{a}"]) for a in (0, 1)], dilation, ceil)


def spatial(row):
    return row["n0"], row["n1"]


def grid(shape, step, ties=False):
    """Distinct fractions in no simple order, or few values only."""
    size = math.prod(shape)
    cells = [Fraction(i * step % 3 if ties else i * step % 101, 3) for i in range(size)]
    return np.array(cells, dtype=object).reshape(shape)


def check(law, op, params, xs):
    dxs = [x[..., ::-1] * 2 + 1 for x in xs]
    left, right = law(op, params, xs, dxs, grid(params.out_shape(*(x.shape for x in xs)), 5) - 2)
    assert left == right, params


def test_every_two_values_meet_in_a_window_that_fits():
    assert set.union(*map(pairs_of, ROWS)) == all_pairs()
    assert all(map(fits, ROWS))


@pytest.mark.parametrize("row", ROWS, ids=range(len(ROWS)))
def test_taps_and_padding_are_the_cells_one_can_enumerate(row):
    windows = geometry(row)
    found = list(oracle.regions(windows, spatial(row)))
    assert math.prod(windows.out_shape(spatial(row))) == len(found)
    for o, real, padded in found:
        assert windows.taps(o, spatial(row)) == real
        assert windows.padded(o, spatial(row)) == padded


@pytest.mark.parametrize("row", ROWS, ids=range(len(ROWS)))
def test_max_mean_and_conv_obey_their_laws(row):
    windows = geometry(row)
    for ties in TIES:
        xs = [grid((2, *spatial(row)), 37, ties=True)]
        for op, params in ((OPS["max_pool"], MaxParams(windows, ties)), (OPS["min_pool"], MinParams(windows, ties))):
            check(vjp_is_adjoint_of_jvp, op, params, xs)
            check(max_derivative_is_the_definition, op, params, xs)
    free, weight = grid((2, *spatial(row)), 37) - 16, grid((4, 1, *windows.kernel), 3) - 2
    calls = [
        (OPS["max_pool"], MaxParams(windows), [free]),
        (OPS["min_pool"], MinParams(windows), [free]),
        (OPS["avg_pool"], MeanParams(windows), [free]),
        (OPS["avg_pool"], MeanParams(windows, False), [free]),
        (OPS["conv"], ConvParams(windows, 2), [free, weight, grid((4,), 7)]),
    ]
    for op, params, xs in calls:
        check(forward_is_the_definition, op, params, xs)
        check(jvp_is_forward_on_duals, op, params, xs)
        check(vjp_is_adjoint_of_jvp, op, params, xs)
