"""Calls that a long run of the API fuzzer found: each is refused by an error of the library."""

from decimal import Decimal
from fractions import Fraction

import dask.array as da
import numpy as np
import pytest

import windowgrad as wg
from windowgrad import nn
from windowgrad.geometry import Adaptive

REFUSED = {
    "half of a character in a path": lambda: nn.load("\ud800"),
    "rows of a kernel of different lengths": lambda: nn.Conv(8, [[1, 2], [3]], padding="same").out_shape((1, 4, 9, 9)),
    "a memoryview as sizes": lambda: wg.adaptive_avg_pool(np.ones((4, 4)), memoryview(b"ab")),
    "a generator of random numbers as a value": lambda: wg.grad(lambda x: x)(np.random.default_rng(0)),
    "a slice as a value": lambda: wg.value_and_grad(lambda x: x)(slice(2)),
    "decimals beside fractions": lambda: wg.check_grads(lambda *_: None, Decimal("NaN"), order=2, tolerance=1e-3),
    "more axes than Dask has": lambda: wg.subtract(np.full((1,) * 40, Fraction(1, 2)), da.ones(6, chunks=4)),
    "an integer that Dask cannot name": lambda: wg.cross_entropy(da.ones(6, chunks=4), -(1 << 100000)),
    "a generator of random numbers to check at": lambda: wg.check_grads(lambda x: x, np.random.default_rng(0)),
}


@pytest.mark.parametrize("name", REFUSED)
def test_it_is_refused(name):
    with pytest.raises(wg.WindowgradError):
        REFUSED[name]()


def test_gradients_of_an_array_without_axes_are_refused():
    tape = wg.Tape()
    x = tape.leaf(1.0)
    with pytest.raises(wg.KindError, match="of="):
        tape.backward(x * x, of=np.ones(()))


def test_what_overflows_where_gradients_are_checked_gives_no_warning():
    with pytest.raises(wg.GradientError, match="differ"):
        wg.check_grads(lambda x: wg.sum(x * x), 1e308, tolerance=1e-3)


def test_a_narrow_tolerance_is_a_number_like_any_other():
    wg.check_grads(lambda x: x, 1.0, tolerance=np.float16(2))
    wg.check_grads(lambda x: x, Decimal("1.5"), tolerance=Fraction(1, 3))


def test_gradients_of_fractions_beyond_floats_are_checked():
    wg.check_grads(lambda x: wg.sum(x * x), Fraction(10**400, 3), order=2, tolerance=1e-3)


def test_a_gradient_that_overflows_is_infinite_without_a_warning():
    assert wg.grad(lambda x: wg.sum(x * x))(np.array([1e308])).tolist() == [np.inf]


def test_what_may_be_endless_is_not_read_as_a_value():
    tape = wg.Tape()
    x = tape.leaf(1.0)
    with pytest.raises(wg.KindError, match="not range"):
        tape.backward(x * x, grad=range(10**15))


def test_nesting_is_compared_before_leaves_are_converted():
    class Unread:
        def __array__(self, *_, **__):
            raise AssertionError("was converted")

    with pytest.raises(wg.WindowError, match="tangents: must have the same structure as primals"):
        wg.jvp(lambda x: x, (1.0,), (Unread(), Unread()))


def test_a_wrong_leaf_among_many_is_named():
    with pytest.raises(wg.KindError, match=r"primals\[0\]\[2\]\['a'\]: must be a NumPy array, not str"):
        wg.grad(lambda x: x[0])([1.0, 2.0, {"a": "b"}])


def test_a_list_of_more_taps_than_memory_holds_is_refused():
    with pytest.raises(wg.WindowError, match=r"the list of taps of shape \(.*\): needs over .* this machine has"):
        Adaptive((2,)).taps((0,), (1 << 100000,))


HUGE = 1 << 100000


@pytest.mark.parametrize(
    "call",
    [
        lambda: wg.geometry.Sliding((3,), 1, 1).taps((0, 0), (HUGE,)),
        lambda: wg.geometry.resized((HUGE,), ((1, 1), (1, 1)), 1),
        lambda: wg.params.ConvParams(wg.geometry.Sliding((3,))).out_shape((1, 2, HUGE), (2, 3, 3)),
        lambda: wg.params.ConvParams(wg.geometry.Sliding((3,))).out_shape((1, HUGE, 5), (2, 3, 3)),
        lambda: wg.params.ConvParams(wg.geometry.Sliding((3,))).out_shape((HUGE,), (2, 3, 3)),
        lambda: wg.params.ConvParams(wg.geometry.Sliding((3,))).out_shape((1, 2, 5), (HUGE, 2, HUGE)),
        lambda: wg.params.ConvParams(wg.geometry.Sliding((3,))).out_shape((1, 2, 5), (HUGE, 3)),
        lambda: wg.params.ConvParams(wg.geometry.Sliding((3,))).out_shape((1, 2, 5), (4, 2, 3), (HUGE,)),
        lambda: wg.params.TransposeParams(wg.geometry.Sliding((3,))).out_shape((1, 2, 5), (HUGE, 2, 3)),
    ],
)
def test_a_shape_of_a_huge_number_is_named_in_a_short_error(call):
    with pytest.raises(wg.WindowError) as caught:
        call()
    assert len(str(caught.value)) < 500


@pytest.mark.parametrize("cells", [[1, "a", None], [Fraction(1), "a"], [1.0, None]])
def test_gradients_of_what_is_no_number_are_not_checked(cells):
    with pytest.raises(wg.KindError, match="primals: unsupported elements of type"):
        wg.check_grads(lambda *_: 1.0, np.array(cells, object), order=2, tolerance=1e-3)


@pytest.mark.parametrize("learn", [np.zeros(2, [("a", "f4")]), np.ones((2, 3)), 1, None])
def test_what_is_learned_of_a_layer_is_a_flag_or_a_name(learn):
    with pytest.raises(wg.errors.OptionError, match=r'learn_beta=.*: must be False, True or "channel"'):
        wg.nn.SmoothMaxPool((2,), beta=1, learn_beta=learn)
