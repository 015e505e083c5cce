"""A cell that `where` leaves out is absent: its value, NaN or infinite, touches nothing, and it has no derivative."""

from dataclasses import replace
from fractions import Fraction
from functools import partial

import dask.array as da
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.lib.stride_tricks import sliding_window_view

import windowgrad as wg
from support.bits import settled
from support.exact import DTYPES
from support.guarded import guarded
from support.laws import dot
from support.strategies import SITUATIONS, arrays, fractions
from windowgrad.errors import KindError, WindowError
from windowgrad.geometry import Adaptive, Global, Sliding
from windowgrad.ops import OPS, meaning
from windowgrad.params import LpParams, Mask, MaxParams, MeanParams, MinParams, SmoothParams

EXACT = ("max_pool", "min_pool", "avg_pool")
POOLS = (*EXACT, "smooth_max_pool", "lp_pool")
GEOMETRIES = [Sliding((3, 2), (2, 1), 1), Sliding((2, 2), 1, 2, 2, True), Adaptive((2, 3)), Global(2), Global(2, False)]
RECORDS = {
    "max_pool": [lambda g, t=t: MaxParams(g, t) for t in ("first", "all", "split")],
    "min_pool": [lambda g, t=t: MinParams(g, t) for t in ("first", "all", "split")],
    "avg_pool": [MeanParams, lambda g: MeanParams(g, False), lambda g: MeanParams(g, True, 3)],
    "smooth_max_pool": [lambda g: SmoothParams(g, 1.5), lambda g: SmoothParams(g, -2.0, False)],
    "lp_pool": [lambda g: LpParams(g, 1), lambda g: LpParams(g, 2), lambda g: LpParams(g, 2.5)],
}


def masked(params, where):
    return replace(params, where=Mask(where))


@st.composite
def masked_cases(draw, name):
    """(params with a mask, x, dx, g) over fractions; the mask may have fewer axes, or axes of length 1."""
    params, (shape,) = draw(SITUATIONS[name])
    x, dx = (draw(arrays(shape, fractions())) for _ in "ab")
    of = tuple(n if draw(st.booleans()) else 1 for n in shape)[draw(st.integers(0, len(shape))) :]
    where = np.array(draw(st.lists(st.booleans(), min_size=int(np.prod(of)), max_size=int(np.prod(of)))), bool).reshape(of)
    return masked(params, where), x, dx, draw(arrays(params.out_shape(shape), fractions()))


@pytest.mark.parametrize("name", EXACT)
@given(data=st.data())
def test_over_fractions_the_laws_hold_and_what_is_left_out_does_not_matter(name, data):
    params, x, dx, g = data.draw(masked_cases(name))
    op, there = meaning(name), params.where.over(x.shape)
    y, dy, (gx,) = op.forward(params, x), op.jvp(params, x, dx), op.vjp(params, x, g)
    assert dot(g, dy) == dot(gx, dx)
    other, moved = (np.where(there, a, Fraction(10**9)) for a in (x, dx))
    assert op.forward(params, other).tolist() == y.tolist()
    assert op.jvp(params, other, moved).tolist() == dy.tolist()
    assert op.vjp(params, other, g)[0].tolist() == gx.tolist()
    assert not gx[~there].any()


@pytest.mark.parametrize("name", EXACT)
@given(data=st.data())
def test_a_mask_that_leaves_all_is_none(name, data):
    params, x, dx, g = data.draw(masked_cases(name))
    op, plain = meaning(name), replace(params, where=None)
    every = masked(plain, np.ones((), bool))
    assert op.forward(every, x).tolist() == op.forward(plain, x).tolist()
    assert op.jvp(every, x, dx).tolist() == op.jvp(plain, x, dx).tolist()
    assert op.vjp(every, x, g)[0].tolist() == op.vjp(plain, x, g)[0].tolist()


@pytest.mark.parametrize("name", EXACT)
@given(data=st.data())
def test_kernels_are_the_specification(name, data):
    """Whole numbers, few of them, so that ties are many; of every dtype."""
    params, x, dx, g = data.draw(masked_cases(name))
    x, dx, g = (np.array([int(c) for c in a.flat]).reshape(a.shape) for a in (x, dx, g))
    for dtype in data.draw(st.lists(st.sampled_from(DTYPES), min_size=1, max_size=3)):
        cells, op, spec = (abs(x) % 2 if dtype.kind in "bu" else x).astype(dtype), OPS[name], meaning(name)
        given = [a.astype(np.float64) for a in (dx, g)]
        objects = [a.astype(np.float64).astype(object) for a in (cells, *given)]
        close = {"rtol": 1e-2 if dtype.itemsize < 4 else 1e-6, "atol": 1e-6}
        found = op.forward(params, cells)
        assert found.dtype == op.facts.result_dtype(dtype)
        np.testing.assert_allclose(found.astype(float), spec.forward(params, objects[0]).astype(float), **close)
        np.testing.assert_allclose(
            op.jvp(params, cells, given[0]).astype(float), spec.jvp(params, *objects[:2]).astype(float), **close
        )
        pulled, right = op.vjp(params, cells, given[1])[0], spec.vjp(params, objects[0], objects[2])[0]
        np.testing.assert_allclose(pulled.astype(float), right.astype(float), **close)
        if op.with_indices is not None:
            assert op.with_indices(params, cells)[1].tolist() == spec.with_indices(params, objects[0])[1].tolist()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("lead", [(13, 2), (13, 1), (1, 1)], ids=["own", "shared", "one"])
@pytest.mark.parametrize(("size", "stride", "padding"), [(3, 2, 1), (2, 2, 0), (5, 1, 2), (1, 1, 0)])
def test_means_of_whole_numbers_are_the_sum_over_the_count_bit_for_bit(dtype, lead, size, stride, padding):
    """Of planes that are no small ones, several groups of them."""
    rng = np.random.default_rng(2)
    x, where = rng.integers(-9, 9, (13, 2, 41, 37)).astype(dtype), rng.random((*lead, 41, 37)) < 0.5
    for counted in (True, False):
        around = [(0, 0)] * 2 + [(padding, padding)] * 2
        there, inside = np.broadcast_to(where, x.shape), np.pad(np.zeros(x.shape), around, constant_values=counted)
        cells, left = np.pad(np.where(there, x, 0), around), inside + np.pad(there, around)
        total, count = (
            sliding_window_view(a, (size, size), (2, 3))[:, :, ::stride, ::stride].sum((4, 5)) for a in (cells, left)
        )
        wild = np.where(there, x, dtype(np.nan))
        y = wg.avg_pool2d(wild, size, stride, padding, count_include_pad=counted, where=where)
        assert np.array_equal(y, total / np.maximum(count, 1).astype(dtype))


def test_a_sum_beyond_float32_is_of_float64():
    x, where = np.full((40, 40, 40), 3e38, np.float32), np.arange(40) % 2 == 0
    assert (wg.avg_pool2d(x, 2, where=where) == x[0, 0, 0]).all()
    x[3, 5, 6], x[4, 5, 5] = np.nan, np.nan  # one that is left
    assert np.argwhere(np.isnan(wg.avg_pool2d(x, 2, where=where))).tolist() == [[3, 2, 3]]


WILD = np.array([np.nan, np.inf, -np.inf, 1.0, -2.0, 0.5, 0.0, 3.0])


@pytest.mark.parametrize("geometry", [Sliding((3, 3), 1), Adaptive((3, 3)), Global(2)], ids=str)
def test_a_masked_mean_does_not_depend_on_what_overflows_beside_it(geometry):
    rng = np.random.default_rng(8)
    x, params = (
        rng.standard_normal((2, 16, 20, 20)).astype(np.float32),
        masked(MeanParams(geometry), rng.random((20, 20)) < 0.7),
    )
    alone = OPS["avg_pool"].forward(params, x)
    x[1] = 3e38
    beside = OPS["avg_pool"].forward(params, x)
    assert (beside[0] == alone[0]).all()
    assert (np.isclose(beside[1], 3e38, rtol=1e-6) | (beside[1] == 0)).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("lead", [(13, 2), (13, 1), (1, 1)], ids=["own", "shared", "one"])
@pytest.mark.parametrize("geometry", [*GEOMETRIES, Sliding((3, 3), 1, 1), Sliding((2, 2), 2), Sliding((5, 5), 1, 2)], ids=str)
def test_maxima_by_planes_are_those_of_single_cells(geometry, lead, dtype):
    """Windows without a cell, infinite cells, NaN, and zeros of both signs too."""
    rng = np.random.default_rng(9)
    cells = np.array([-np.inf, np.inf, np.nan, 0.0, -0.0, 1.0, -2.0])
    x = rng.choice(cells, (13, 2, 15, 17), p=[0.3, 0.02, 0.02, 0.2, 0.2, 0.13, 0.13]).astype(dtype)
    where = rng.random((*lead, 15, 17)) < rng.choice([0.0, 0.2, 0.9], (*lead, 1, 1))
    params = masked(MaxParams(geometry), where)
    found = OPS["max_pool"].forward(params, guarded(x, "end"))
    wanted = OPS["max_pool"].forward(params, x.astype(object)).astype(dtype)
    assert settled(found) == settled(wanted)


@pytest.mark.parametrize("name", POOLS)
@pytest.mark.parametrize("left", [0.0, 0.3, 0.8])
def test_a_nan_or_an_infinity_that_is_left_out_touches_nothing(name, left):
    """And one that is left counts as ever: kernels and specification agree on both."""
    rng = np.random.default_rng(0)
    for geometry in GEOMETRIES:
        for record in RECORDS[name]:
            x, where = rng.choice(WILD, (2, 3, 5, 6)), rng.random((3, 5, 6)) < left
            params = masked(record(geometry), where)
            dx, g = rng.standard_normal(x.shape), rng.standard_normal(params.out_shape(x.shape))
            op, spec = OPS[name], meaning(name)
            objects = [a.astype(object) for a in (x, dx, g)]
            same(op.forward(params, x), spec.forward(params, objects[0]))
            same(op.jvp(params, x, dx), spec.jvp(params, *objects[:2]))
            (gx,) = op.vjp(params, x, g)
            same(gx, spec.vjp(params, objects[0], objects[2])[0])
            assert not gx[:, ~where].any()


def same(found, expected):
    np.testing.assert_allclose(found, expected.astype(float), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", POOLS)
def test_second_derivatives_are_those_of_differences_and_zero_where_left_out(name):
    rng = np.random.default_rng(1)
    x, where = rng.standard_normal((4, 5)), rng.random((4, 5)) < 0.6
    params = masked(RECORDS[name][1](Sliding((2, 3), 1, 1)), where)
    wg.check_grads(lambda x: OPS[name].forward(params, x), x, order=2)
    hessian = wg.hvp(lambda x: wg.sum(OPS[name].forward(params, x)), (x,), (np.ones_like(x),))
    assert not np.asarray(hessian)[..., ~where].any()


@pytest.mark.parametrize("name", POOLS)
@pytest.mark.filterwarnings("error")
def test_second_derivatives_are_untouched_by_what_is_left_out(name):
    x, v = np.array([1.0, 7.0, 3.0, 5.0, 9.0, 2.0]), np.array([2.0, -1.0, 0.5, 3.0, 1.0, -2.0])
    where = np.array([True, False, True, True, False, True])
    wild = np.where(where, x, [0, np.nan, 0, 0, np.inf, 0])
    for record in RECORDS[name]:
        params = masked(record(Sliding((3,), 1, 1)), where)
        forward = partial(OPS[name].forward, params)
        for twice in (
            lambda x: wg.hvp(lambda x: wg.sum(forward(x) ** 2), (x,), (v,))[0],  # noqa: B023
            lambda x: wg.jvp(lambda x: wg.jvp(forward, (x,), (v,))[1], (x,), (v,))[1],  # noqa: B023
        ):
            assert twice(wild).tolist() == twice(x).tolist()


# --- the public functions ----------------------------------------------------------------------------------------


def test_a_mean_divides_by_the_cells_that_are_left():
    x, where = np.array([1.0, np.nan, 3.0, 5.0]), np.array([True, False, True, True])
    assert wg.avg_pool1d(x, 2, where=where).tolist() == [1, 4]
    assert wg.avg_pool1d(x, 2, 1, 1, where=where).tolist() == [0.5, 1, 3, 4, 2.5]
    assert wg.avg_pool1d(x, 2, 1, 1, count_include_pad=False, where=where).tolist() == [1, 1, 3, 4, 5]
    assert wg.avg_pool1d(x, 2, divisor_override=4, where=where).tolist() == [0.25, 2]


def test_nan_is_skipped_by_a_mask_of_what_is_not_nan():
    x = np.array([[1.0, np.nan, 2.0], [np.nan, np.nan, 7.0]])
    assert wg.global_avg_pool1d(x, keepdims=False, where=~np.isnan(x)).tolist() == np.nanmean(x, 1).tolist()
    assert wg.global_max_pool1d(x, keepdims=False, where=~np.isnan(x)).tolist() == np.nanmax(x, 1).tolist()
    assert wg.global_min_pool1d(x, keepdims=False, where=~np.isnan(x)).tolist() == np.nanmin(x, 1).tolist()


@pytest.mark.parametrize("pool", [wg.max_pool1d, wg.min_pool1d])
def test_a_window_with_no_cell_left_is_zero_with_index_minus_one_or_refused(pool):
    x, where = np.array([4.0, 5.0, 6.0, 7.0]), np.array([False, False, False, True])
    y, index = pool(x, 2, return_indices=True, where=where)
    assert (y.tolist(), index.tolist()) == ([0, 7], [-1, 3])
    with pytest.raises(WindowError, match=r'empty="raise": the window of output \(0,\) has no cell that `where` leaves'):
        pool(x, 2, empty="raise", where=where)
    with pytest.raises(WindowError, match=r'empty="raise"'):
        pool(x.astype(object), 2, empty="raise", where=where)


def test_adaptive_and_global_forms_have_empty_and_indices():
    x, where = np.array([[3, 1], [2, 9]], np.int8), np.array([[True, True], [True, False]])
    y, index = wg.global_max_pool2d(x, return_indices=True, where=where)
    assert (y.tolist(), index.tolist()) == ([[3]], [[0]])
    assert wg.global_min_pool2d(x, return_indices=True)[1].tolist() == [[1]]
    assert wg.adaptive_max_pool2d(x, (2, 1), where=where).tolist() == [[3], [2]]
    for call in (wg.global_max_pool2d, lambda x, **k: wg.adaptive_min_pool2d(x, 1, **k)):
        with pytest.raises(WindowError, match=r'empty="raise"'):
            call(x, empty="raise", where=np.zeros((2, 2), bool))


def test_an_infinite_cell_that_is_left_wins_over_one_that_is_not():
    """Both are the least value; the gradient goes to the one that is left."""
    x, where = np.full(4, -np.inf), np.array([False, True, False, True])
    y, index = wg.max_pool1d(x, 4, return_indices=True, where=where)
    assert (y.tolist(), index.tolist()) == ([-np.inf], [1])
    for ties, shares in (("first", [0, 1, 0, 0]), ("all", [0, 1, 0, 1]), ("split", [0, 0.5, 0, 0.5])):
        _, pull = wg.vjp(lambda x, ties=ties: wg.max_pool1d(x, 4, ties=ties, where=where), x)
        assert pull(np.ones(1))[0].tolist() == shares


def test_out_is_written_and_inputs_are_not():
    x, where, out = np.arange(8.0), np.arange(8) % 3 > 0, np.zeros(4)
    for pool in (wg.max_pool1d, wg.avg_pool1d, lambda x, k, **o: wg.lp_pool1d(x, 2, k, **o)):
        assert pool(x, 2, where=where, out=out) is out
        assert out.tolist() == pool(x, 2, where=where).tolist()
    assert x.tolist() == list(range(8))


def test_a_tape_records_masked_pooling():
    tape, where = wg.Tape(), np.array([True, False, True, True])
    x = tape.leaf(np.array([1.0, np.nan, 3.0, 5.0]))
    grads = tape.backward(wg.sum(wg.avg_pool1d(x, 2, where=where)))
    assert np.asarray(grads[x]).tolist() == [1, 0, 0.5, 0.5]


# --- masked arrays -----------------------------------------------------------------------------------------------


def test_masked_arrays_are_taken_and_come_back_masked_where_a_window_is_empty():
    x = np.ma.MaskedArray([1.0, 2.0, 3.0, 4.0, 5.0, 6.0], mask=[0, 1, 1, 1, 0, 0])
    for pool, left in ((wg.max_pool1d, [1, 6]), (wg.min_pool1d, [1, 5]), (wg.avg_pool1d, [1, 5.5])):
        y = pool(x, 2)
        assert isinstance(y, np.ma.MaskedArray)
        assert y.mask.tolist() == [False, True, False]
        assert y.compressed().tolist() == left
    y, index = wg.max_pool1d(x, 2, return_indices=True)
    assert index.compressed().tolist() == [0, 5]
    assert index.mask.tolist() == y.mask.tolist()
    assert wg.max_pool1d(x, 2, where=np.arange(6) < 4).mask.tolist() == [False, True, True]
    with pytest.raises(KindError, match="out: not supported with a masked array"):
        wg.max_pool1d(x, 2, out=np.zeros(3))


# --- errors ------------------------------------------------------------------------------------------------------


def test_a_mask_must_be_bool_and_broadcast():
    x = np.ones((2, 4))
    with pytest.raises(KindError, match=r"where: must be an array of bool, not an array of int64"):
        wg.max_pool1d(x, 2, where=np.ones(4, int))
    with pytest.raises(KindError, match=r"where: must be an array of bool, not list"):
        wg.max_pool1d(x, 2, where=[True])
    with pytest.raises(WindowError, match=r"where of shape \(3,\): must broadcast to \(2, 4\), the shape of x"):
        wg.max_pool1d(x, 2, where=np.ones(3, bool))


def test_a_lazy_mask_is_for_lazy_arrays():
    with pytest.raises(KindError, match=r"where: must be a NumPy array where x is no Dask array; call where.compute\(\)"):
        wg.max_pool1d(np.ones(4), 2, where=da.ones(4, dtype=bool))


@pytest.mark.parametrize("name", ["max_pool1d", "min_pool1d", "avg_pool1d", "smooth_max_pool1d", "lp_pool1d"])
def test_an_empty_batch_with_a_mask_is_empty(name):
    options = {"smooth_max_pool1d": {"beta": 2}, "lp_pool1d": {"norm_type": 2}}.get(name, {})
    y, pull = wg.vjp(lambda x: getattr(wg, name)(x, kernel_size=2, where=np.arange(5) > 1, **options), np.zeros((0, 5)))
    assert y.shape == (0, 2)
    assert pull(y)[0].shape == (0, 5)


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint16", "int32", "int64"])
@pytest.mark.parametrize("given", ["float32", "float64"])
def test_derivatives_of_integers_are_as_exact_as_without_a_mask(dtype, given):
    """Cells of 8 and 16 bits fit into float32, but a derivative of float64 has more digits than that."""
    cells = np.array([[1, 2, 3, 0, 1, 1]]).astype(dtype)
    given = np.array([[1.0, 3.0, -2.0]], given)
    op, plain = OPS["smooth_max_pool"], SmoothParams(Sliding((2,)), 5.0)
    params = masked(plain, np.ones(6, bool))
    assert op.vjp(params, cells, given)[0].dtype == op.vjp(plain, cells, given)[0].dtype
    rtol = 1e-14 if given.dtype == np.float64 else 1e-6
    np.testing.assert_allclose(op.vjp(params, cells, given)[0], op.vjp(plain, cells, given)[0], rtol=rtol)
    along = np.arange(6.0).astype(given.dtype)[None]
    np.testing.assert_allclose(op.jvp(params, cells, along), op.jvp(plain, cells, along), rtol=rtol)
