"""Proofs, counterexamples and what lies between, on networks small enough to know the answer."""

import re
from fractions import Fraction

import numpy as np
import pytest

import windowgrad as wg
from support.small_networks import exactly, network
from windowgrad import certify, nn
from windowgrad.certify import Inequality, Property, label_stays
from windowgrad.certify.proving import Prover
from windowgrad.errors import KindError, OptionError, WindowError

SQUARE = np.array([[-1.0, -1.0]]), np.array([[1.0, 1.0]])


def bump(x):
    """relu(a + b) − relu(a) − relu(b): at least −1 on the square, at (1, −1); planes of the whole square show −2."""
    a, b = x[:, :1], x[:, 1:]
    return wg.relu(a + b) - wg.relu(a) - wg.relu(b)


def above(bound):
    return Property(((Inequality.of({0: 1}, bound),),))


def test_a_margin_is_a_lower_bound_and_holds_needs_it_positive():
    result = certify.prove(bump, *SQUARE, above(-5))
    assert (result.verdict, result.proved, result.counterexample) == ("holds", 1.0, None)
    assert 0 < result.margin <= 5
    assert result.margins == [result.margin]


def test_a_counterexample_is_confirmed_exactly():
    result = certify.prove(bump, *SQUARE, above(Fraction(-1, 2)))
    assert result.verdict == "violated"
    x, y = result.counterexample
    assert bump(exactly(x)).reshape(-1)[0] <= Fraction(-1, 2)
    assert y.reshape(-1)[0] <= -0.5
    assert (SQUARE[0] <= x).all()
    assert (x <= SQUARE[1]).all()


def test_boxes_are_split_until_all_is_proved():
    plain = certify.prove(bump, *SQUARE, above(-1.25), method="linear")
    assert plain.verdict == "unknown"
    shares = []
    result = certify.prove(bump, *SQUARE, above(-1.25), method="linear", seconds=60, progress=lambda *told: shares.append(told))
    assert (result.verdict, result.proved) == ("holds", 1.0)
    assert len(result.leaves) > 1
    assert shares == sorted(shares, key=lambda told: told[0])
    assert sum(np.prod(leaf.box.hi - leaf.box.lo) for leaf in result.leaves) == 4.0  # the area of the square: cuts are exact


def test_without_time_what_is_proved_is_kept():
    def stop(share, left):
        raise KeyboardInterrupt

    result = certify.prove(bump, *SQUARE, above(-1), method="linear", seconds=60, attack=False, progress=stop)
    assert result.verdict == "unknown"
    assert 0 <= result.proved < 1
    assert result.margin <= 0


def test_an_interrupt_in_the_middle_of_a_split_is_not_a_proof(monkeypatch):
    """The box that is being split is in no list then; nothing of it is proved."""

    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(Prover, "part", interrupted)
    result = certify.prove(bump, *SQUARE, above(-1.25), method="linear", seconds=60, attack=False)
    assert (result.verdict, result.proved) == ("unknown", 0.0)
    assert result.margin < 0


def test_a_clause_needs_one_of_its_inequalities():
    either = Property(((Inequality.of({0: 1}, 10), Inequality.of({0: 1}, -10)),))
    assert certify.prove(bump, *SQUARE, either).verdict == "holds"
    both = Property(((Inequality.of({0: 1}, 10),), (Inequality.of({0: 1}, -10),)))
    assert certify.prove(bump, *SQUARE, both).verdict == "violated"


def test_float32_counterexamples_are_float32_inputs():
    lo, hi = np.array([[0.1, 0.1]]), np.array([[0.3, 0.2]])
    result = certify.prove(bump, lo, hi, above(0), arithmetic="float32")
    assert result.verdict == "violated"
    assert result.counterexample.x.dtype == result.counterexample.y.dtype == np.float32
    assert (lo <= result.counterexample.x.astype(float)).all()
    assert (result.counterexample.x.astype(float) <= hi).all()


def test_a_box_without_a_float32_number_has_no_float32_counterexample():
    lo = np.array([[0.1, 0.1]])
    assert certify.prove(bump, lo, lo, above(0), arithmetic="float32").verdict == "unknown"
    assert certify.prove(bump, lo, lo, above(0)).verdict == "violated"


@pytest.mark.parametrize("seed", range(0, 40, 4))
def test_proofs_agree_with_bounds(seed):
    model, params, lo, hi = network(seed)
    lower, _ = certify.bounds((model, params), lo, hi, method="linear")
    least = float(lower.reshape(-1)[0])
    assert certify.prove((model, params), lo, hi, above(least - 0.1), attack=False).verdict == "holds"


def test_both_arithmetics_prove_a_trained_classifier():
    rng = np.random.default_rng(0)
    model = nn.Sequential(nn.Conv(4, (3, 3), padding=1), nn.ReLU(), nn.MaxPool((2, 2), padding=1), nn.Flatten(), nn.Linear(2))
    params = model.init(rng, (1, 1, 6, 6))
    x = rng.normal(size=(1, 1, 6, 6)).astype(np.float32)
    scores = model(params, x)[0]
    goal = label_stays(int(scores.argmax()), 2)
    for arithmetic in certify.ARITHMETICS:
        assert certify.prove((model, params), x - 1e-3, x + 1e-3, goal, arithmetic=arithmetic).verdict == "holds"


@pytest.mark.parametrize(
    ("call", "kind", "message"),
    [
        (
            lambda: certify.bounds(bump, *SQUARE, method="magic"),
            OptionError,
            "method='magic': must be one of 'box', 'linear', 'optimised'",
        ),
        (
            lambda: certify.bounds(bump, *SQUARE, arithmetic="float16"),
            OptionError,
            "arithmetic='float16': must be one of 'real', 'float32'",
        ),
        (lambda: certify.bounds(bump, SQUARE[1], SQUARE[0]), OptionError, "lo[(0, 0)]=1.0: must not be above hi, -1.0"),
        (
            lambda: certify.bounds(bump, SQUARE[0], SQUARE[1][0]),
            WindowError,
            "hi of shape (2,): must be (1, 2), the shape of lo",
        ),
        (lambda: certify.bounds(bump, SQUARE[0] * np.inf, SQUARE[1]), OptionError, "lo: must be finite"),
        (lambda: certify.bounds(bump, [0], [1]), KindError, "lo=[0]: must be a NumPy array of real numbers"),
        (
            lambda: certify.bounds(nn.ReLU(), *SQUARE),
            KindError,
            "must be a function of x, a loaded network, or a pair (model, params)",
        ),
        (lambda: certify.bounds(lambda x: wg.where(x > 0, x, 0), *SQUARE), KindError, "frozen"),
        (
            lambda: certify.bounds(lambda x: wg.softmax(wg.log(x)), *SQUARE),
            KindError,
            "no bounds for log, softmax; supported are abs",
        ),
        (lambda: certify.bounds(lambda x: x * x, *SQUARE), KindError, "multiply: no bounds for a product of values that vary"),
        (lambda: certify.bounds(lambda x: np.ones(3), *SQUARE), WindowError, "the output does not depend on the input"),
        (
            lambda: certify.bounds(lambda x: x * 1e300 * 1e300, *SQUARE),
            WindowError,
            "multiply: may overflow float64 on this box",
        ),
        (
            lambda: certify.bounds(lambda x: x * 1e39, *SQUARE, arithmetic="float32"),
            WindowError,
            "multiply: may overflow float32 on this box",
        ),
        (lambda: certify.prove(bump, *SQUARE, "safe"), KindError, "property='safe': must be a Property"),
        (
            lambda: certify.prove(bump, *SQUARE, above(0), seconds=-1),
            OptionError,
            "seconds=-1: must be a positive number, or None",
        ),
        (lambda: certify.prove(bump, *SQUARE, label_stays(0, 3)), WindowError, "speaks of y[1], but the output has 1 cells"),
        (
            lambda: certify.prove(bump, np.zeros((2, 2)), np.ones((2, 2)), above(0)),
            WindowError,
            "must be one box, with a first axis of 1",
        ),
    ],
)
def test_wrong_use_is_named(call, kind, message):
    with pytest.raises(kind, match=re.escape(message)):
        call()


def test_batch_normalisation_is_folded_first():
    model = nn.Sequential(nn.Linear(3), nn.BatchNorm())
    params = model.init(np.random.default_rng(0), (1, 2))
    with pytest.raises(KindError, match=re.escape("fold it first: nn.fold(model, params)")):
        certify.bounds((model, params), *SQUARE)
    certify.bounds(nn.fold(model, params), *SQUARE)
