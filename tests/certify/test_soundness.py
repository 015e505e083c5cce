"""No output leaves its bounds: random networks with every geometry, corners and inner points, exact fractions and float32."""

import numpy as np
import pytest

import windowgrad as wg
from support.small_networks import SMOOTH, exactly, inside, network, points
from windowgrad import certify, nn
from windowgrad.autograd.program import record
from windowgrad.certify import boxes, planes, rounding, rules, substitution

METHODS = ("box", "linear", "optimised")


@pytest.mark.parametrize("seed", range(60))
def test_exact_outputs_lie_within_the_bounds_of_real_arithmetic(seed, monkeypatch):
    monkeypatch.setattr(rules, "SMALL", 0 if seed % 2 else rules.SMALL)  # convolutions by kernels, or as matrices
    model, params, lo, hi = network(seed)
    found = [certify.bounds((model, params), lo, hi, method=method) for method in METHODS]
    exact = exactly(params)
    for x in points(np.random.default_rng(seed), lo, hi, 6):
        y = model(exact, exactly(x))
        for lower, upper in found:
            assert inside(lower, upper, y)


@pytest.mark.parametrize("seed", range(60))
def test_float32_outputs_lie_within_the_bounds_of_float32(seed, monkeypatch):
    """Kernels, the specification with every rounding to float32, and sums in reverse order."""
    monkeypatch.setattr(rules, "SMALL", 0 if seed % 2 else rules.SMALL)  # convolutions by kernels, or as matrices
    model, params, lo, hi = network(seed, smooth=True)
    found = [certify.bounds((model, params), lo, hi, method=method, arithmetic="float32") for method in METHODS]
    plain = not any(isinstance(layer, SMOOTH) for layer in model)
    for number, x in enumerate(points(np.random.default_rng(seed), lo, hi, 40)):
        y = model(params, x)
        for lower, upper in found:
            assert inside(lower, upper, y)
        if plain and number < 2:
            singles = [{name: by_float32(array) for name, array in flat(own).items()} for own in params]
            y = model(nested(params, singles), by_float32(x))
            for lower, upper in found:
                assert inside(lower, upper, y)


def by_float32(x):
    """An array of objects, each a float32: the specification rounds after every operation."""
    cells = np.empty(x.size, object)
    cells[:] = list(x.reshape(-1))
    return cells.reshape(x.shape)


def flat(own):
    return (
        {f"{part}/{name}": a for part, inner in own.items() for place in inner for name, a in place.items()}
        if "body" in own
        else own
    )


def nested(params, singles):
    found = []
    for own, new in zip(params, singles, strict=True):
        if "body" in own:
            found.append({"body": tuple({name: new[f"body/{name}"] for name in place} for place in own["body"])})
        else:
            found.append(new)
    return tuple(found)


@pytest.mark.parametrize("seed", range(40))
def test_smooth_outputs_lie_within_their_bounds(seed, monkeypatch):
    """In float64, whose own error is far below the width of the bounds but not zero: an output may touch them to 1e-13."""
    monkeypatch.setattr(rules, "SMALL", 0 if seed % 2 else rules.SMALL)  # convolutions by kernels, or as matrices
    model, params, lo, hi = network(1000 + seed, smooth=True)
    wide = wg.autograd.trees.flatten(params)
    params64 = wg.autograd.trees.unflatten(wide[1], [leaf.astype(np.float64) for leaf in wide[0]])
    for method in METHODS:
        lower, upper = certify.bounds((model, params), lo, hi, method=method)
        for x in points(np.random.default_rng(seed), lo, hi, 30):
            y = model(params64, x.astype(np.float64))
            slack = 1e-13 * (1 + np.abs(y))
            assert inside(lower - slack, upper + slack, y)


@pytest.mark.parametrize("seed", range(0, 60, 7))
def test_a_tighter_method_is_tighter(seed):
    model, params, lo, hi = network(seed)
    box, linear, best = (certify.bounds((model, params), lo, hi, method=method) for method in METHODS)
    assert (linear[0] >= box[0]).all()
    assert (linear[1] <= box[1]).all()
    assert (best[0] >= linear[0]).all()
    assert (best[1] <= linear[1]).all()


def test_real_bounds_lie_within_those_of_float32():
    for seed in range(0, 60, 5):
        model, params, lo, hi = network(seed)
        for method in ("box", "linear"):
            real, floats = (certify.bounds((model, params), lo, hi, method=method, arithmetic=a) for a in certify.ARITHMETICS)
            assert (floats[0] <= real[0]).all()
            assert (real[1] <= floats[1]).all()


@pytest.mark.parametrize("seed", range(30))
def test_a_small_convolution_as_a_matrix_is_that_convolution(seed, monkeypatch):
    """Integers, so sums are exact: the same numbers forwards and back, and the same counts of terms."""
    rng = np.random.default_rng(seed)
    rank, groups = int(rng.integers(1, 4)), int(rng.integers(1, 3))
    k, s, p, d = (tuple(int(n) for n in rng.integers(low, 4, rank)) for low in (1, 1, 0, 1))
    x = rng.integers(-9, 9, (1, 2 * groups, *rng.integers(7, 9, rank))).astype(float)
    w = rng.integers(-9, 9, (3 * groups, 2, *k)).astype(float)
    program = record(lambda x: wg.conv(x, w, stride=s, padding=p, dilation=d, groups=groups), x)
    monkeypatch.setattr(rules, "SMALL", 1 << 40)
    (small,) = rules.network_of(program).nodes
    monkeypatch.setattr(rules, "SMALL", 0)
    (large,) = rules.network_of(program).nodes
    one, other = small.parts[0][1], large.parts[0][1]
    assert (type(one).__name__, type(other).__name__) == ("Dense", "Convolution")
    assert (one.terms, one.back_terms, one.roundings) == (other.terms, other.back_terms, other.roundings)
    rows, g = x.reshape(1, -1), rng.integers(-9, 9, (2, one.outputs)).astype(float)
    for a, b in ((one, other), (one.absolute(), other.absolute())):
        np.testing.assert_array_equal(a.forward(rows), b.forward(rows))
        np.testing.assert_array_equal(a.back(g), b.back(g))


def test_a_batch_of_boxes_is_bounded_box_by_box():
    model, params, lo, hi = network(3)
    los, his = np.concatenate([lo, lo + 1]), np.concatenate([hi, hi + 1])
    both = certify.bounds((model, params), los, his)
    for place in range(2):
        one = certify.bounds((model, params), los[place : place + 1], his[place : place + 1])
        np.testing.assert_array_equal([end[place] for end in both], [end[0] for end in one])


@pytest.mark.parametrize("beta", [-2.0, 2.0])
@pytest.mark.parametrize("middle", [-1000.0, 1000.0])
def test_a_smooth_maximum_far_from_zero_keeps_its_bounds(beta, middle):
    """exp(β·1000) overflows; the smooth maximum of two equal cells is log 2 ÷ β more than each of them."""
    x = np.full((1, 1, 2), middle)
    for method in METHODS:
        lower, upper = certify.bounds(lambda x: wg.smooth_max_pool1d(x, 2, beta=beta), x - 1, x + 1, method=method)
        assert lower <= middle - 1 + np.log(2) / beta <= middle + 1 + np.log(2) / beta <= upper
        assert upper - lower < 4


# --- planted mistakes --------------------------------------------------------------------------------------------


def violations(arithmetic, smooth=False, seeds=range(60)):
    count = 0
    for seed in seeds:
        model, params, lo, hi = network(seed, smooth)
        lower, upper = certify.bounds((model, params), lo, hi, arithmetic=arithmetic)
        if arithmetic == "real":
            exact = exactly(params)
            count += sum(
                not inside(lower, upper, model(exact, exactly(x))) for x in points(np.random.default_rng(0), lo, hi, 4)
            )
        else:
            count += sum(not inside(lower, upper, model(params, x)) for x in points(np.random.default_rng(0), lo, hi, 20))
    return count


def test_a_padded_cell_that_counts_as_a_cell_is_caught(monkeypatch):
    right = rules.windows
    monkeypatch.setattr(rules, "windows", lambda geometry, shape: np.maximum(right(geometry, shape), 0))
    assert violations("real")


def test_an_index_that_is_shifted_is_caught(monkeypatch):
    right = rules.windows
    monkeypatch.setattr(rules, "windows", lambda *given: np.where((taps := right(*given)) > 0, taps - 1, taps))
    assert violations("real")


def test_a_plane_below_the_least_maximum_is_caught(monkeypatch):
    from windowgrad.certify import linear

    wrong = lambda cells: planes.planes(cells, planes.second(cells) - 1, planes.likely(cells))  # noqa: E731  # one line each
    monkeypatch.setattr(linear, "closed_form", wrong)
    assert violations("real")


def test_a_missing_rounding_of_float32_is_caught(monkeypatch):
    """Without δ a sum of many terms leaves its bounds on a box that is one point."""
    monkeypatch.setattr(boxes, "UNIT_32", 0.0)
    monkeypatch.setattr(boxes, "LEAST_32", 0.0)
    rng = np.random.default_rng(0)
    model = nn.Sequential(nn.Linear(4))
    params = model.init(rng, (1, 3000))
    x = rng.normal(size=(1, 3000)).astype(np.float32)
    assert not inside(*certify.bounds((model, params), x, x, arithmetic="float32"), model(params, x))


def test_a_missing_rounding_of_float64_is_caught(monkeypatch):
    """On a box that is one point nothing but the slack for rounding separates the bounds."""
    for module in (boxes, substitution):
        monkeypatch.setattr(module, "gamma", lambda *_: 0.0)
        monkeypatch.setattr(module, "TINY", 0.0)
    monkeypatch.setattr(substitution, "UNIT", 0.0)
    for module in (boxes, substitution):
        monkeypatch.setattr(module, "below", lambda x: x)
    monkeypatch.setattr(boxes, "above", lambda x: x)
    rng = np.random.default_rng(0)
    model = nn.Sequential(nn.Linear(4), nn.ReLU(), nn.Linear(3))
    params = model.init(rng, (1, 50))
    x = rng.normal(size=(1, 50)).astype(np.float32)
    exact = model(exactly(params), exactly(x))
    assert not all(inside(*certify.bounds((model, params), x, x, method=method), exact) for method in ("box", "linear"))


def test_gamma_is_not_below_its_formula():
    from fractions import Fraction

    for terms in (1, 2, 9, 1000, 10**6):
        for unit in (rounding.UNIT, rounding.UNIT_32):
            exact = terms * Fraction(unit) / (1 - terms * Fraction(unit))
            assert exact <= Fraction(rounding.gamma(terms, unit)) <= exact * (1 + Fraction(1, 2**40))
