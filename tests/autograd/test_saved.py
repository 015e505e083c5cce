"""What a forward rule saves for its backward pass: held by the node, shown by the tape, and no result depends on it."""

import numpy as np
import pytest

import windowgrad as wg
from windowgrad import dispatch
from windowgrad.autograd.tape import Tape

RNG = np.random.default_rng(5)
X = RNG.integers(-9, 9, (2, 3, 13, 17)).astype(np.float32)
WHERE = RNG.random(X.shape) < 0.4

CALLS = {
    "2×2": lambda x: wg.max_pool2d(x, 2),
    "3×3 s2 p1": lambda x: wg.max_pool2d(x, 3, 2, 1),
    "3×3 s3": lambda x: wg.max_pool2d(x, 3),
    "5×5 dilated": lambda x: wg.max_pool2d(x, 5, 1, 2, dilation=2),
    "minimum": lambda x: wg.min_pool2d(x, 3, 1, 1),
    "adaptive": lambda x: wg.adaptive_max_pool2d(x, (4, 5)),
    "global": wg.global_max_pool2d,
    "global, split": lambda x: wg.global_max_pool2d(x, ties="split"),
    "masked": lambda x: wg.max_pool2d(x, 3, 2, 1, where=WHERE[0, 0]),
    "masked minimum": lambda x: wg.min_pool2d(x, 2, where=WHERE),
    "masked, global": lambda x: wg.global_max_pool2d(x, where=WHERE),
    "masked, split": lambda x: wg.max_pool2d(x, 2, ties="split", where=WHERE),
}


def without_saving(monkeypatch):
    plain = lambda op, params, *xs: (dispatch.run(op, "forward", params, *xs), None)  # noqa: E731
    monkeypatch.setattr("windowgrad.autograd.tape.run_saving", plain)


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, np.int32, np.uint8])
def test_a_gradient_from_what_was_saved_is_that_of_a_pass_that_saves_nothing(call, dtype, monkeypatch):
    x = X.astype(dtype)
    y, pull = wg.vjp(call, x)
    g = RNG.integers(-9, 9, y.shape).astype(y.dtype if y.dtype.kind == "f" else np.float64)
    (gx,) = pull(g)
    without_saving(monkeypatch)
    plain, pull_plain = wg.vjp(call, x)
    (wanted,) = pull_plain(g)
    assert y.tobytes() == plain.tobytes()
    assert gx.dtype == wanted.dtype
    assert gx.tobytes() == wanted.tobytes()


def test_the_tape_shows_the_memory_that_is_held():
    tape = Tape()
    x = tape.leaf(X)
    y = wg.max_pool2d(x, 2)
    node = tape.nodes[y.id]
    assert node.saved.dtype == np.uint8
    header, *_, last = str(tape).splitlines()
    assert "saved" in header
    assert f"{node.saved.nbytes:,}" in last
    assert node.saved.nbytes <= y.value.nbytes // 2


def test_a_tape_that_saves_nothing_has_no_column_for_it():
    tape = Tape()
    wg.avg_pool2d(tape.leaf(X), 2)
    assert "saved" not in str(tape).splitlines()[0]


def test_nothing_is_saved_for_a_constant():
    tape = Tape()
    y = wg.max_pool2d(tape.leaf(X, requires_grad=False), 2)
    assert tape.nodes[y.id].saved is None


def test_fractions_are_differentiated_by_their_meaning():
    tape = Tape()
    x = tape.leaf(X.astype(int).astype(object))
    y = wg.max_pool2d(x, 2)
    assert tape.nodes[y.id].saved is None
    assert tape.backward(y, np.ones(y.shape, object))[x].sum() == y.size


def test_a_second_derivative_goes_past_what_was_saved():
    def f(x):
        return wg.sum(wg.multiply(wg.max_pool2d(x, 2), wg.max_pool2d(x, 2)))

    (moved,) = wg.hvp(f, (X.astype(np.float64),), (np.ones(X.shape),))
    (exact,) = wg.hvp(f, (X.astype(int).astype(object),), (np.ones(X.shape, int).astype(object),))
    assert np.array_equal(moved, exact.astype(float))


def test_a_refused_call_is_refused_in_the_same_words():
    def message(call):
        with pytest.raises(wg.WindowError) as caught:
            call()
        return str(caught.value)

    plain = message(lambda: wg.max_pool2d(X, 99))
    traced = message(lambda: wg.vjp(lambda x: wg.max_pool2d(x, 99), X))
    assert plain.split(" [")[0] == traced.split(" (in")[0].split(" [")[0]
