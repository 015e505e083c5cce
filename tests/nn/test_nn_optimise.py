"""Optimisers: PyTorch's steps, from values to new values."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import optree
import pytest
import torch

import windowgrad as wg
from windowgrad import nn
from windowgrad.nn.optimise import PIECE

OPTIMISERS = {
    "sgd": (nn.sgd(0.1), lambda p: torch.optim.SGD(p, lr=0.1)),
    "momentum": (nn.sgd(0.1, 0.9), lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9)),
    "adam": (nn.adam(0.01), lambda p: torch.optim.Adam(p, lr=0.01)),
    "adam, all given": (
        nn.adam(0.02, 0.8, b2=0.95, eps=1e-3),
        lambda p: torch.optim.Adam(p, lr=0.02, betas=(0.8, 0.95), eps=1e-3),
    ),
}
every = pytest.mark.parametrize("name", OPTIMISERS)


def tree(seed, dtype=np.float64):
    """Nested as parameters are, with an array of more than one piece, an empty one and a number."""
    draw = np.random.default_rng(seed).standard_normal
    shapes = [(3, 2), (181, 182), (0, 2), ()]
    a, b, c, d = (np.asarray(draw(shape), dtype) for shape in shapes)
    return ({"weight": a, "bias": b}, {}, [c, ({"alone": d},)])


def test_an_array_of_the_tests_has_more_than_one_piece():
    assert max(leaf.size for leaf in leaves(tree(0))) > PIECE


def leaves(value):
    return optree.tree_leaves(value)


@every
def test_steps_agree_with_those_of_pytorch(name):
    ours, theirs = OPTIMISERS[name]
    params = tree(0)
    variables = [torch.from_numpy(leaf.copy()).requires_grad_() for leaf in leaves(params)]
    stepper, state = theirs(variables), ours.init(params)
    for step in range(1, 8):
        grads = tree(step)
        for variable, grad in zip(variables, leaves(grads), strict=True):
            variable.grad = torch.from_numpy(grad.copy())
        stepper.step()
        params, state = ours.update(params, grads, state)
        for ours_now, theirs_now in zip(leaves(params), variables, strict=True):
            assert np.allclose(ours_now, theirs_now.detach().numpy(), rtol=1e-13, atol=1e-14)


@every
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_nothing_given_is_written_and_nesting_and_dtype_are_kept(name, dtype):
    optimiser, _ = OPTIMISERS[name]
    params, grads = tree(0, dtype), tree(1, dtype)
    state = optimiser.init(params)
    given = optree.tree_leaves((params, grads, state))
    before = [np.array(leaf) for leaf in given]
    for leaf in given:
        if isinstance(leaf, np.ndarray):
            leaf.flags.writeable = False
    new, after = optimiser.update(params, grads, state)
    assert all(np.array_equal(a, b) for a, b in zip(given, before, strict=True))
    assert optree.tree_structure(new) == optree.tree_structure(params)
    assert optree.tree_structure(after) == optree.tree_structure(state)
    for fresh, old in zip(leaves(new), leaves(params), strict=True):
        assert type(fresh) is np.ndarray
        assert (fresh.dtype, fresh.shape) == (old.dtype, old.shape)
        assert fresh.flags.writeable
        assert not np.shares_memory(fresh, old)
        assert fresh.size == 0 or not np.array_equal(fresh, old)


@every
def test_the_order_of_the_cells_in_memory_does_not_matter(name):
    optimiser, _ = OPTIMISERS[name]
    params, grads = tree(0), tree(1)
    turned = optree.tree_map(lambda a: np.asarray(a, order="F"), grads)
    plain, other = (optimiser.update(params, g, optimiser.init(params))[0] for g in (grads, turned))
    assert all(np.array_equal(a, b) for a, b in zip(leaves(plain), leaves(other), strict=True))


@every
def test_it_walks_down_to_the_minimum(name):
    optimiser, _ = OPTIMISERS[name]
    params, target = {"x": np.zeros(3)}, np.array([1.0, -0.5, 0.25])
    state = optimiser.init(params)
    for _ in range(400):
        params, state = optimiser.update(params, {"x": params["x"] - target}, state)
    assert np.allclose(params["x"], target, atol=1e-2)


def test_plain_steps_are_exact_over_fractions():
    optimiser = nn.sgd(Fraction(1, 3), Fraction(1, 2))
    params = {"w": np.array([Fraction(1), Fraction(2)])}
    grads = {"w": np.array([Fraction(1, 2), Fraction(-1)])}
    state = optimiser.init(params)
    for _ in range(2):
        params, state = optimiser.update(params, grads, state)
    assert params["w"].tolist() == [Fraction(7, 12), Fraction(17, 6)]


def test_without_momentum_there_is_no_state():
    assert nn.sgd(0.1).init(tree(0)) == {}
    assert nn.sgd(0.1).update(tree(0), tree(1), {})[1] == {}


def test_an_optimiser_says_what_it_is_and_equals_its_like():
    assert repr(nn.adam(0.1)) == "Adam(learning_rate=0.1, b1=0.9, b2=0.999, eps=1e-08)"
    assert nn.sgd(np.float32(0.5)) == nn.sgd(0.5)
    assert nn.sgd(0.5) != nn.sgd(0.5, 0.9)
    assert isinstance(nn.adam(0.1), nn.Optimiser)


def test_numbers_of_numpy_leave_the_dtype():
    new, _ = nn.sgd(np.float64(0.1)).update([np.ones(2, np.float32)], [np.ones(2)], {})
    assert new[0].dtype == np.float32


def test_infinity_and_nan_are_results_and_no_warnings():
    grads = [np.array([np.inf, np.nan, 1e200])]
    new, _ = nn.adam(0.1).update([np.zeros(3)], grads, nn.adam(0.1).init([np.zeros(3)]))
    assert np.isnan(new[0][:2]).all()
    assert np.isfinite(new[0][2])


BAD = {
    "learning_rate=-1: must be finite and not negative": lambda: nn.sgd(-1),
    "learning_rate=nan: must be finite and not negative": lambda: nn.adam(float("nan")),
    "learning_rate=inf: must be": lambda: nn.adam(float("inf")),
    "learning_rate='0.1': must be a number, not str": lambda: nn.sgd("0.1"),
    "learning_rate=True: must be a number, not bool": lambda: nn.sgd(True),
    "momentum=1: must be at least 0 and less than 1": lambda: nn.sgd(0.1, 1),
    "b1=1.0: must be at least 0 and less than 1": lambda: nn.adam(0.1, 1.0),
    "b2=-0.5: must be at least 0": lambda: nn.adam(0.1, b2=-0.5),
    "eps=-1: must be finite and not negative": lambda: nn.adam(0.1, eps=-1),
    "grads: must have the same structure as params: ": lambda: nn.sgd(0.1).update(tree(0), tree(0)[:1], {}),
    "grads: must have the same structure as params: dictionary key mismatch": lambda: nn.sgd(0.1).update(
        {"a": np.ones(1)}, {"b": np.ones(1)}, {}
    ),
    "grads[0]['a'] of shape (3,): must be (2,), as in params": lambda: nn.sgd(0.1).update(
        [{"a": np.ones(2)}], [{"a": np.ones(3)}], {}
    ),
    "velocity[0] of shape (3,): must be (2,), as in params": lambda: nn.sgd(0.1, 0.5).update(
        [np.ones(2)], [np.ones(2)], {"velocity": [np.ones(3)]}
    ),
    "params['a']: must be an array of floats, not an array of int64": lambda: nn.sgd(0.1, 0.9).init({"a": np.ones(2, int)}),
    "params['a']: must be an array of floats, not float": lambda: nn.adam(0.1).init({"a": 1.0}),
    "params[0]: must be an array of floats, not an array of object": lambda: nn.adam(0.1).init([np.array([Fraction(1)])]),
    "params[0]: must be an array of floats, not an array of bool": lambda: nn.sgd(0.1).update([np.ones(1, bool)], [1.0], {}),
    "state={}: must be the dict that init or update of this optimiser returned, with 'step'": lambda: nn.adam(0.1).update(
        tree(0), tree(1), {}
    ),
    "state=None: must be the dict that init": lambda: nn.sgd(0.1, 0.9).update(tree(0), tree(1), None),
}


@pytest.mark.parametrize("message", BAD)
def test_what_cannot_be_is_refused_by_name(message):
    with pytest.raises(wg.WindowgradError) as caught:
        BAD[message]()
    assert str(caught.value).startswith(message)
    assert len(str(caught.value)) < 200
