"""What was right once is not checked again, and nothing is taken for what it only equals."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest

import windowgrad as wg
from windowgrad import dispatch
from windowgrad.functional.remember import KEPT, LONGEST, is_plain, remember

X = np.arange(64, dtype=np.float32).reshape(1, 8, 8)
W = np.ones((1, 1, 2, 2), np.float32)


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        (lambda: wg.max_pool2d(X, 1), lambda: wg.max_pool2d(X, True)),
        (lambda: wg.max_pool2d(X, 2), lambda: wg.max_pool2d(X, 2.0)),
        (lambda: wg.max_pool2d(X, (2, 1)), lambda: wg.max_pool2d(X, (2, True))),
        (lambda: wg.max_pool2d(X, (2, 1)), lambda: wg.max_pool2d(X, (2, 1.0))),
        (lambda: wg.max_pool2d(X, 2, padding=((1, 0), 1)), lambda: wg.max_pool2d(X, 2, padding=((1, False), 1))),
        (lambda: wg.max_pool2d(X, 2, ceil_mode=False), lambda: wg.max_pool2d(X, 2, ceil_mode=0)),
        (lambda: wg.max_pool2d(X, 2, return_indices=True), lambda: wg.max_pool2d(X, 2, return_indices=1)),
        (lambda: wg.avg_pool2d(X, 2, divisor_override=1), lambda: wg.avg_pool2d(X, 2, divisor_override=True)),
        (lambda: wg.smooth_max_pool2d(X, 2, beta=1), lambda: wg.smooth_max_pool2d(X, 2, beta=True)),
        (lambda: wg.adaptive_avg_pool2d(X, (1, None)), lambda: wg.adaptive_avg_pool2d(X, (True, None))),
        (lambda: wg.global_avg_pool(X, 1), lambda: wg.global_avg_pool(X, True)),
        (lambda: wg.global_avg_pool(X, 1, keepdims=True), lambda: wg.global_avg_pool(X, 1, keepdims=1)),
        (lambda: wg.conv2d(X, W, stride=1), lambda: wg.conv2d(X, W, stride=True)),
        (lambda: wg.conv2d(X, W, groups=1), lambda: wg.conv2d(X, W, groups=1.0)),
        (lambda: wg.vjp(lambda x: wg.conv2d(x, W), X)[0], lambda: wg.vjp(lambda x: wg.conv2d(x, W, stride=True), X)),
        (lambda: wg.vjp(lambda x: wg.conv2d(x, W), X)[0], lambda: wg.vjp(lambda x: wg.conv2d(x, W, dilation=1.0), X)),
        (lambda: wg.conv_transpose2d(X, W, padding=(1, 0)), lambda: wg.conv_transpose2d(X, W, padding=(True, 0))),
    ],
)
def test_an_option_that_only_equals_a_right_one_is_still_refused(right, wrong):
    with pytest.raises(wg.KindError) as before:
        wrong()
    first = right()
    with pytest.raises(wg.KindError) as after:
        wrong()
    assert str(after.value) == str(before.value)
    assert np.array_equal(first, right())


def test_a_call_that_was_wrong_for_one_array_is_right_for_another_and_the_other_way_round():
    for _ in range(2):
        assert wg.max_pool2d(X, 8).shape == (1, 1, 1)
        with pytest.raises(wg.WindowError, match=r"kernel_size=8 on axis 0: .* \[max_pool2d\(x: float32\(1, 4, 4\)"):
            wg.max_pool2d(X[:, :4, :4], 8)
        with pytest.raises(wg.KindError, match="unsupported dtype complex64"):
            wg.max_pool2d(X.astype(np.complex64), 8)


def test_options_of_every_kind_give_what_plain_ones_give():
    wanted = wg.max_pool2d(X, 2, padding=1)
    for two in (2, np.int64(2), (2, 2), [2, 2], np.array([2, 2]), (np.int8(2), 2)):
        assert np.array_equal(wg.max_pool2d(X, two, padding=1), wanted)


def test_a_record_is_made_once_while_it_is_among_the_last_ones_and_an_error_every_time():
    made = []

    @remember
    def record(value):
        made.append(value)
        if value == "bad":
            raise ValueError(value)
        return [value]

    assert record(0) is record(0)
    assert record((1, 2)) is record((1, 2))
    assert record([1, 2]) is not record([1, 2])
    assert made == [0, (1, 2), [1, 2], [1, 2]]
    for _ in range(2):
        with pytest.raises(ValueError, match="bad"):
            record("bad")
    for value in range(1, KEPT + 1):
        record(value)
    made.clear()
    assert record(0) == [0]
    assert made == [0]


@pytest.mark.parametrize("value", [3, True, 0.5, None, "same", (), (2, None), ((0, 1), 2), (1,) * LONGEST])
def test_plain_values_are_looked_up(value):
    assert is_plain(value)


@pytest.mark.parametrize(
    "value",
    [np.int64(2), [2], (2.0,), (True,), ("2",), ((1, True),), (((1,),),), (1,) * (LONGEST + 1), X, type("I", (int,), {})(2)],
)
def test_what_may_change_or_be_confused_or_is_long_is_not_looked_up(value):
    assert not is_plain(value)


def test_no_array_and_no_scalar_of_a_user_is_kept():
    class Beta(float):
        pass

    x, beta = X.copy(), Beta(2.0)
    alive = [weakref.ref(x), weakref.ref(beta)]
    wg.smooth_max_pool2d(x, 2, beta=beta)
    wg.max_pool2d(x, 2, return_indices=True)
    del x, beta
    gc.collect()
    assert [ref() for ref in alive] == [None, None]


def test_a_beta_that_cannot_be_hashed_computes():
    class Mine:
        """Somebody's number: it compares, so Python gives it no hash."""

        def __init__(self, value):
            self.value = float(value)

        def __eq__(self, other):
            return self.value == getattr(other, "value", other)

        def __gt__(self, other):
            return self.value > getattr(other, "value", other)

        def __mul__(self, other):
            return self.value * getattr(other, "value", other)

        def __float__(self):
            return self.value

    with pytest.raises(TypeError, match="unhashable"):
        hash(Mine(2))
    assert np.array_equal(wg.smooth_max_pool2d(X, 2, beta=Mine(2)), wg.smooth_max_pool2d(X, 2, beta=2.0))


def test_what_is_kept_of_calls_is_bounded():
    for length in range(2, 1200):
        wg.max_pool1d(X.reshape(-1)[:2].repeat(length), 2)
    kept = dispatch.route.cache_info()
    assert kept.currsize <= kept.maxsize == 1024
