"""What the array operators give: dtypes, numbers beside arrays, large and special values, arrays without axes."""

from __future__ import annotations

import math
import pickle
from decimal import Decimal, localcontext
from fractions import Fraction

import ml_dtypes
import mpmath
import numpy as np
import pytest

import windowgrad as wg
from support.array_cases import OPS
from windowgrad.autograd.arrays import ARRAY_OPS, arithmetic, functions, joining
from windowgrad.autograd.arrays.records import AlikeParams, EachParams, MseParams, PairParams, ReduceParams
from windowgrad.spec import Dual

FLOATS = [np.float16, ml_dtypes.bfloat16, np.float32, np.float64]
PAIRS = ["add", "subtract", "multiply", "divide"]
CELLS = ["exp", "log", "tanh", "sigmoid", "erf"]
every_float = pytest.mark.parametrize("dtype", FLOATS, ids=lambda dtype: dtype.__name__)
every_pair = pytest.mark.parametrize("name", PAIRS)


def objects(*values):
    return np.array(values, dtype=object)


# --- dtypes ------------------------------------------------------------------------------------------------------


@every_float
def test_floats_keep_their_dtype(dtype):
    x, labels = np.ones((2, 3), dtype), np.array([0, 1])
    results = [getattr(wg, name)(x, x) for name in (*PAIRS, "mse")] + [
        getattr(wg, name)(x) for name in (*CELLS, "relu", "negative", "sqrt", "softmax", "stop_gradient", "sign")
    ]
    results += [getattr(wg, name)(x, x) for name in ("power", "maximum", "minimum")]
    results += [wg.where(x > 0, x, 0), wg.clip(x, 0, 2), wg.concatenate([x, x]), wg.stack([x, x])]
    results += [wg.matmul(x, x.T), wg.sum(x), wg.mean(x, 0), wg.log_softmax(x), wg.cross_entropy(x, labels), wg.flatten(x)]
    assert {result.dtype for result in results} == {np.dtype(dtype)}


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "int32", "int64", "uint64", "bool"])
def test_integers_become_floats_where_the_answer_is_none(dtype):
    x = np.array([1, 1], dtype)
    wanted = np.float32 if x.dtype.itemsize <= 2 else np.float64
    assert {f(x).dtype for f in (wg.exp, wg.log, wg.tanh, wg.sigmoid, wg.erf, wg.mean, wg.log_softmax)} == {np.dtype(wanted)}
    assert wg.mse(x, x).dtype == wanted
    assert wg.divide(x, x).dtype == wg.divide(x, 2).dtype == np.float64
    assert wg.relu(x).dtype == x.dtype
    assert wg.sum(x).dtype == np.sum(x).dtype
    assert wg.matmul(x, x).dtype == (np.int32 if x.dtype.itemsize == 1 else np.int64)


def test_sums_of_16_bits_do_not_stall():
    """In float16 itself a sum of ones stops at 2048, in bfloat16 at 256."""
    for dtype in (np.float16, ml_dtypes.bfloat16):
        x = np.ones((3, 4096), dtype)
        assert wg.sum(x, 1).tolist() == [4096] * 3
        assert wg.sum(x.T, 0).tolist() == [4096] * 3
        assert wg.mean(x).tolist() == 1
        assert wg.matmul(x, x.T).tolist() == [[4096] * 3] * 3
        assert wg.mse(x, np.zeros_like(x)).tolist() == 1


def test_a_mean_over_more_cells_than_float16_has_numbers_and_its_gradient():
    x = np.ones(2**17, np.float16)
    op, params = OPS["mean"], ReduceParams()
    assert op.forward(params, x) == 1
    (gx,) = op.vjp(params, x, np.asarray(np.float16(64)))
    assert gx.dtype == np.float16
    assert gx[0] == 64 / 2**17


def test_integers_of_8_bits_do_not_wrap_around():
    x = np.array([200, 100], np.uint8)
    assert wg.matmul(x, x) == 50000
    assert wg.sum(x) == 300
    assert wg.mse(x, np.array([201, 100], np.uint8)) == 0.5
    assert OPS["mse"].vjp(MseParams(), x, x + np.uint8(1), np.asarray(1.0))[0].tolist() == [-1, -1]


@every_pair
def test_a_derivative_has_the_dtype_of_what_it_belongs_to(name):
    a, b, g = np.ones(3, np.float32), np.ones((2, 3)), np.ones((2, 3))
    ga, gb = OPS[name].vjp(PairParams(), a, b, g)
    assert (ga.dtype, ga.shape, gb.dtype, gb.shape) == (np.float32, (3,), np.float64, (2, 3))
    assert OPS[name].jvp(PairParams(), a, a, np.ones(3), np.ones(3)).dtype == np.float32


def test_bytes_may_be_swapped():
    x = np.array([1.0, -2.0])
    assert wg.relu(x.astype(">f8")).tolist() == [1, 0]
    assert wg.add(x.astype(">f8"), x.astype("<f4")).tolist() == [2, -4]


# --- numbers beside arrays ---------------------------------------------------------------------------------------


@every_pair
@every_float
@pytest.mark.parametrize("number", [2, 0.5, Fraction(1, 2), True])
def test_a_python_number_takes_the_dtype_of_the_array(name, dtype, number):
    function, x = getattr(wg, name), np.array([1, 2], dtype)
    assert function(x, number).dtype == function(number, x).dtype == np.dtype(dtype)
    beside = np.asarray(float(number), dtype)
    assert function(x, number).tolist() == function(x, beside).tolist()
    assert function(number, x).tolist() == function(beside, x).tolist()


@every_pair
@pytest.mark.parametrize("dtype", ["int8", "int64", "uint8", "bool", "float32", "float64"])
@pytest.mark.parametrize("number", [2, 0.5, np.float32(2), np.float64(2), np.int8(2)])
def test_promotion_is_numpys(name, dtype, number):
    x = np.ones(2, dtype)
    theirs = getattr(np, name)(x, number)
    ours = getattr(wg, name)(x, number)
    wanted = np.float64 if name == "divide" and theirs.dtype != np.float32 else theirs.dtype
    assert (ours.dtype, ours.tolist()) == (np.dtype(wanted), theirs.astype(wanted).tolist())


def test_a_number_beyond_float32_is_infinite_there_and_no_warning():
    assert wg.multiply(np.ones(1, np.float32), 1e300).tolist() == [np.inf]


@every_pair
def test_numbers_beside_objects_are_objects(name):
    x = objects(Fraction(1, 3), 2)
    for y in (getattr(wg, name)(x, 2), getattr(wg, name)(2, x), getattr(wg, name)(x, Fraction(2, 7))):
        assert y.dtype == object
        assert all(isinstance(cell, (Fraction, int)) for cell in y)


def test_integers_in_objects_divide_exactly_and_do_not_wrap_around():
    assert wg.divide(objects(1, 2), 3).tolist() == [Fraction(1, 3), Fraction(2, 3)]
    assert wg.mean(objects(1, 2)).tolist() == Fraction(3, 2)
    assert wg.multiply(np.array([np.int64(2**62)], dtype=object), 4).tolist() == [2**64]


def test_numbers_alone_give_arrays_without_axes():
    for y, value in (
        (wg.add(1, 2), 3),
        (wg.add(Fraction(1, 2), 1), Fraction(3, 2)),
        (wg.divide(1, 4), 0.25),
        (wg.relu(-1.5), 0),
        (wg.negative(Decimal(2)), -2),
        (wg.multiply(Dual(2, 1), Dual(2, 1)), Dual(4, 4)),
    ):
        assert type(y) is np.ndarray
        assert (y.shape, y.item()) == ((), value)


@pytest.mark.parametrize("kind", [float, np.float32, Fraction, int])
def test_arrays_without_axes_give_arrays(kind):
    x = np.array(kind(2), dtype=kind if kind in (float, np.float32) else object)
    one = x.reshape(1)
    results = [getattr(wg, name)(x, x) for name in PAIRS]
    results += [f(x) for f in (wg.negative, wg.relu, wg.sum, wg.mean, wg.transpose)]
    results += [wg.sum(one), wg.mean(one), wg.reshape(one, ()), wg.matmul(one, one), wg.mse(one, one)]
    results += [*OPS["multiply"].vjp(PairParams(), x, x, x), OPS["relu"].jvp(EachParams(), x, x)]
    assert {(type(y), y.shape) for y in results} == {(np.ndarray, ())}
    assert {y.dtype for y in results} == {x.dtype}


# --- special and large values ------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.int8, np.uint16, np.int64, *FLOATS], ids=lambda dtype: dtype.__name__)
def test_relu_of_few_cells_has_the_bits_of_relu_of_many(dtype):
    """Up to `FEW` cells are chosen by NumPy, more by a mask of bits, and `LEAST` by a kernel."""
    cells = [0.0, -0.0, 3, 100, 1] + ([-2, np.nan, np.inf, -np.inf] if np.dtype(dtype).kind not in "iu" else [])
    x = np.resize(np.array(cells).astype(dtype), arithmetic.LEAST)
    g = np.resize(np.array([1, 0, 7, -0.0, 5]).astype(dtype), arithmetic.LEAST)
    few = functions.FEW - 1
    for size in (functions.FEW, arithmetic.LEAST - 1, arithmetic.LEAST):
        assert wg.relu(x[:size])[:few].tobytes() == wg.relu(x[:few]).tobytes()
        assert functions.gate(x[:size], g[:size])[:few].tobytes() == functions.gate(x[:few], g[:few]).tobytes()


def test_relu_lets_nan_through_and_has_the_derivative_0_at_0():
    x, g = np.array([-1.0, -0.0, 0.0, 2.0, np.nan, np.inf, -np.inf]), np.array([np.nan, np.inf, -3.0, -4.0, 5.0, 6.0, np.nan])
    assert np.array_equal(wg.relu(x), [0, 0, 0, 2, np.nan, np.inf, 0], equal_nan=True)
    for kind in (float, object):
        (gx,) = OPS["relu"].vjp(EachParams(), x.astype(kind), g.astype(kind))
        assert gx.tolist() == [0, 0, 0, -4, 5, 6, 0]


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint16", "int32", "float16", "float32", "float64"])
def test_the_gate_opens_for_every_dtype_and_layout(dtype):
    x, dx = np.array([[1, -1, 0], [2, 3, -4]]), np.array([[1, 0, 1], [1, 0, 1]]).astype(dtype)
    for turn in (lambda a: a, lambda a: a.T, lambda a: a[:, ::-1], lambda a: np.broadcast_to(a[0], (2, 3))):
        found = OPS["gate"].forward(AlikeParams(), turn(x), turn(dx))
        assert found.dtype == dtype
        assert found.tolist() == np.where(turn(x) > 0, turn(dx), 0).tolist()


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_nothing_overflows(dtype):
    big = np.array([-6e4, 0, 6e4], dtype)
    assert wg.sigmoid(big).tolist() == [0, 0.5, 1]
    assert wg.tanh(big).tolist() == [-1, 0, 1]
    assert wg.log_softmax(big).tolist()[2] == 0
    assert np.isfinite(wg.log_softmax(big.astype(np.float32))).all()
    assert wg.cross_entropy(big, 2) == 0
    for name in ("sigmoid", "tanh"):
        assert OPS[name].vjp(EachParams(), big, np.ones(3, dtype))[0].tolist()[::2] == [0, 0]


def test_sigmoid_of_very_negative_numbers_and_its_derivative_keep_their_digits():
    x = np.array([-80.0, -20.0, 20.0, 80.0], np.float32)
    assert np.allclose(wg.sigmoid(x[:2]), np.exp(x[:2].astype(float)), rtol=1e-6, atol=0)
    (gx,) = OPS["sigmoid"].vjp(EachParams(), x, np.ones_like(x))
    assert np.allclose(gx, np.exp(-np.abs(x.astype(float))), rtol=1e-6, atol=0)


def test_log_of_0_and_of_negative_numbers_is_no_warning():
    assert np.array_equal(wg.log(np.array([0.0, -1.0, 1.0])), [-np.inf, np.nan, 0], equal_nan=True)
    assert np.array_equal(wg.divide(np.array([1.0, 0.0]), 0), [np.inf, np.nan], equal_nan=True)


def test_nan_in_decimals_goes_through():
    x = objects(Decimal("NaN"), Decimal(-1))
    for name in ("relu", "exp", "tanh", "sigmoid"):
        nan, number = getattr(wg, name)(x)
        assert nan.is_nan()
        assert not number.is_nan()


# --- powers, choices, several arrays -----------------------------------------------------------------------------


def test_roots_and_powers_of_fractions_are_exact_or_refused():
    x = objects(Fraction(4, 9), 25, Fraction(0))
    assert wg.sqrt(x).tolist() == [Fraction(2, 3), 5, 0]
    assert wg.power(objects(Fraction(-2, 3), 2), objects(3, -1)).tolist() == [Fraction(-8, 27), Fraction(1, 2)]
    assert wg.grad(lambda x: wg.sum(wg.sqrt(x)))(x[:2]).tolist() == [Fraction(3, 4), Fraction(1, 10)]
    assert wg.power(objects(Decimal(2)), objects(Decimal("0.5"))).tolist()[0].quantize(Decimal("1e-6")) == Decimal("1.414214")
    assert wg.power(objects(2.0, -2.0), 3).tolist() == [8, -8]
    with pytest.raises(wg.errors.DivisionError):
        wg.power(objects(Fraction(0)), -1)


def test_powers_have_the_dtype_of_numpys():
    assert wg.power(np.array([2, 3], np.int8), 2).dtype == np.int8
    assert wg.power(np.array([2, 3], np.int8), 2).tolist() == [4, 9]
    assert wg.power(np.array([2, 3]), 0.5).dtype == np.float64
    assert wg.power(np.float32(2), np.float64(2)).dtype == np.float64
    assert wg.power(np.array([2, 3], np.float32), 2).dtype == np.float32
    assert np.isnan(wg.power(np.array([-1.0]), 0.5)).all()
    assert np.isnan(wg.sqrt(np.array([-1.0]))).all()


@pytest.mark.parametrize("kind", [float, np.float32, object])
def test_nan_wins_and_equals_share(kind):
    a, b = np.array([1.0, 2.0, np.nan, np.nan, 5.0], kind), np.array([3.0, 2.0, 0.0, np.nan, np.nan], kind)
    g = np.array([10.0, 20.0, 30.0, 40.0, 50.0], kind)
    nan = [math.isnan(cell) for cell in wg.maximum(a, b)]
    assert nan == [math.isnan(cell) for cell in wg.minimum(a, b)] == [False, False, True, True, True]
    assert wg.maximum(a, b)[:2].tolist() == [3, 2]
    assert wg.minimum(a, b)[:2].tolist() == [1, 2]
    pulled = {name: OPS[name].vjp(PairParams(), a, b, g) for name in ("maximum", "minimum")}
    assert [part.tolist() for part in pulled["maximum"]] == [[0, 10, 30, 20, 0], [10, 10, 0, 20, 50]]
    assert [part.tolist() for part in pulled["minimum"]] == [[10, 10, 30, 20, 0], [0, 10, 0, 20, 50]]
    for name in ("maximum", "minimum"):
        moved = OPS[name].jvp(PairParams(), a, b, g, -g)
        assert moved.tolist() == (pulled[name][0] - pulled[name][1]).tolist()


def test_of_two_zeros_the_first_is_taken():
    zero, minus = np.array([0.0]), np.array([-0.0])
    for function in (wg.maximum, wg.minimum):
        assert np.signbit(function(minus, zero)).all()
        assert not np.signbit(function(zero, minus)).any()


def test_what_is_not_chosen_does_not_matter():
    """Not its value and not its derivative, infinite as they may be."""
    x = np.array([0.0, 4.0])
    assert wg.grad(lambda x: wg.sum(wg.where(x > 0, x, np.nan)))(x[1:]).tolist() == [1]
    (gx,) = wg.vjp(lambda x: wg.maximum(x, 5.0), x)[1](np.array([np.inf, np.nan]))
    assert gx.tolist() == [0, 0]


def test_a_bound_shares_the_gradient_with_what_equals_it():
    x = np.array([-1.0, 0.0, 0.5, 1.0, 2.0])
    assert wg.grad(lambda x: wg.sum(wg.clip(x, 0, 1)))(x).tolist() == [0, 0.5, 1, 0.5, 0]
    assert wg.clip(objects(Fraction(-1), Fraction(1, 2)), 0).tolist() == [0, Fraction(1, 2)]


def test_dtypes_of_several_arrays_promote():
    narrow, wide = np.ones(2, np.float32), np.ones(2)
    brain = np.ones(2, ml_dtypes.bfloat16)
    for join in (wg.concatenate, wg.stack):
        assert join([narrow, wide]).dtype == np.float64
        assert join([brain, narrow]).dtype == np.float32
        assert join([brain, brain]).dtype == brain.dtype
        assert join([narrow, np.array([Fraction(1), 2])]).dtype == object
    assert wg.where(True, brain, narrow).dtype == np.float32
    assert wg.maximum(brain, narrow).dtype == np.float32
    assert wg.maximum(brain, 1).dtype == brain.dtype
    assert wg.stack([narrow[0], 2]).dtype == np.float32
    assert wg.stack([1, 2]).tolist() == [1, 2]


@pytest.mark.parametrize("count", [joining.AT_ONCE, joining.AT_ONCE + 1, joining.AT_ONCE**2 + 1])
def test_any_number_of_arrays_is_joined(count):
    rows = [np.array([i, -i], float) for i in range(count)]
    for ours, theirs, axis in ((wg.concatenate, np.concatenate, 0), (wg.stack, np.stack, 1), (wg.stack, np.stack, -2)):
        expected = theirs(rows, axis)
        y, pull = wg.vjp(lambda *rows, f=ours, axis=axis: f(rows, axis), *rows)
        assert (y.shape, y.tolist()) == (expected.shape, expected.tolist())
        assert [g.tolist() for g in pull(y)] == [row.tolist() for row in rows]
    with pytest.raises(wg.WindowError, match=rf"arrays\[{count}\] of shape \(3,\): must be \(2,\)"):
        wg.stack([*rows, np.zeros(3)])


def test_nothing_goes_back_through_stop_gradient():
    x = np.array([3.0, -1.0])
    assert wg.stop_gradient(x) is x
    f = lambda x: wg.sum(x * wg.stop_gradient(x * x))  # noqa: E731
    assert wg.grad(f)(x).tolist() == [9, 1]
    assert wg.jvp(f, (x,), (np.ones(2),))[1] == 10
    assert wg.hvp(f, (x,), (np.ones(2),))[0].tolist() == [0, 0]
    assert wg.stop_gradient(objects(Dual(Dual(1, 2), 3))).tolist() == [Dual(Dual(1, 0), 0)]


def test_softmax_does_not_overflow_and_sums_to_one():
    big = np.array([[-6e4, 0, 6e4], [6e4, 6e4, -6e4]], np.float16)
    assert wg.softmax(big).tolist() == [[0, 0, 1], [0.5, 0.5, 0]]
    assert wg.softmax(np.zeros((0, 3))).shape == (0, 3)
    x = objects(*map(Decimal, (1, 2, 3)))
    assert abs(sum(wg.softmax(x)) - 1) < Decimal("1e-20")


def test_an_empty_batch_is_fine():
    x, w = np.ones((0, 3), np.float32), np.ones((3, 2), np.float32)
    assert wg.matmul(x, w).shape == wg.relu(wg.matmul(x, w)).shape == wg.log_softmax(wg.matmul(x, w)).shape == (0, 2)
    assert wg.sum(x, 0).tolist() == [0, 0, 0]
    assert np.isnan([wg.mean(x), wg.mse(x, x), wg.cross_entropy(x, np.zeros(0, int))]).all()
    ga, gb = OPS["matmul"].vjp(OPS["matmul"].params(), x, w, np.ones((0, 2), np.float32))
    assert (ga.shape, gb.tolist()) == ((0, 3), [[0, 0]] * 3)


def test_inputs_are_not_written_and_results_of_broadcasting_are_ones_own():
    x = np.array([[1.0, -2.0]])
    x.setflags(write=False)
    for name in (*CELLS, "relu", "negative", "log_softmax", "mean"):
        getattr(wg, name)(x)
    (gx,) = OPS["sum"].vjp(ReduceParams(), x, np.asarray(1.0))
    gx[0, 0] = 7
    assert gx.tolist() == [[7, 1]]


@pytest.mark.parametrize("op", ARRAY_OPS, ids=lambda op: op.name)
def test_every_record_is_native_and_pickles(op):
    copied = pickle.loads(pickle.dumps(op))
    assert (copied.name, copied.params, copied.inputs, copied.native) == (op.name, op.params, op.inputs, True)


def test_every_record_has_its_own_name():
    assert len({op.name for op in ARRAY_OPS}) == len(ARRAY_OPS)


def test_erf_is_that_of_every_scalar_and_keeps_the_digits_of_decimals():
    x = np.linspace(-7, 7, 141)
    assert wg.erf(x).tolist() == [math.erf(a) for a in x]
    with localcontext(prec=50), mpmath.workdps(50):
        for a in ("-30", "-3.25", "0", "1e-9", "0.5", "2", "8.5", "40"):
            (found,) = wg.erf(objects(Decimal(a)))
            assert abs(found - Decimal(str(mpmath.erf(mpmath.mpf(a))))) <= Decimal("1e-49"), a
    assert wg.erf(objects(mpmath.mpf(2)))[0] == mpmath.erf(2)


def test_the_sign_is_that_of_every_scalar():
    assert wg.sign(np.array([-3, 0, 5], np.int8)).tolist() == [-1, 0, 1]
    assert [str(a) for a in wg.sign(np.array([-np.inf, -0.0, np.nan, 2]))] == ["-1.0", "0.0", "nan", "1.0"]
    assert wg.sign(objects(Fraction(-1, 3), Fraction(0), Dual(4, 5))).tolist() == [-1, 0, Dual(1, 0)]
    assert wg.grad(lambda x: wg.sum(wg.sign(x)))(np.array([-2.0, 0.0])).tolist() == [0, 0]
