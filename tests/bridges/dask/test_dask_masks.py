"""Masks of Dask arrays: NumPy's or lazy ones, of any chunks; the results are those of one call on the whole array."""

import pickle

import dask
import dask.array as da
import numpy as np
import pytest

import windowgrad as wg
from windowgrad.errors import KindError, OptionError, WindowError
from windowgrad.geometry import Global, Sliding
from windowgrad.ops import OPS
from windowgrad.params import LpParams, Mask, MaxParams, MeanParams, MinParams, SmoothParams

RNG = np.random.default_rng(0)
X = RNG.integers(-9, 9, (3, 11, 12)).astype(np.float32)
CHUNKS = ((2, 1), (4, 1, 6), (5, 7))
WINDOWS = (Sliding((3, 2), 2, 1), Sliding((2, 2), 1, 1, 2, True), Global(2), Global(2, False))
POOLS = {
    "max_pool": lambda g, where: MaxParams(g, "all", where=where),
    "min_pool": lambda g, where: MinParams(g, where=where),
    "avg_pool": lambda g, where: MeanParams(g, where=where),
    "lp_pool": lambda g, where: LpParams(g, 2, where=where),
    "smooth_max_pool": lambda g, where: SmoothParams(g, 2.0, where=where),
}


def same(found, expected, exact):
    values = found.compute(scheduler="sync")
    if exact:
        assert np.array_equal(values, expected)
    else:
        np.testing.assert_allclose(values, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", POOLS)
@pytest.mark.parametrize("shape", [(3, 11, 12), (11, 12), (3, 1, 1)])
def test_every_rule_gives_what_the_whole_array_gives(name, shape):
    op, mask = OPS[name], RNG.random(shape) < 0.6
    cells = np.where(np.broadcast_to(mask, X.shape), X, np.float32(np.nan))
    x, dx = da.from_array(cells, chunks=CHUNKS), RNG.integers(-9, 9, X.shape).astype(np.float32)
    for where, geometry in zip([Mask(mask), Mask(da.from_array(mask, chunks=3), lazy=True)] * 2, WINDOWS, strict=True):
        params, whole = POOLS[name](geometry, where), POOLS[name](geometry, Mask(mask))
        g = np.ones(whole.out_shape(X.shape), np.float32)
        exact = name in ("max_pool", "min_pool", "avg_pool")
        same(op.forward(params, x), op.forward(whole, cells), exact)
        same(op.jvp(params, x, da.from_array(dx, chunks=4)), op.jvp(whole, cells, dx), exact)
        same(op.vjp(params, x, da.from_array(g, chunks=-1))[0], op.vjp(whole, cells, g)[0], exact and name != "avg_pool")


def test_the_public_functions_stay_lazy_and_give_indices():
    cells = np.where(RNG.random(X.shape) < 0.7, X, np.float32(np.nan))
    x = da.from_array(cells, chunks=CHUNKS)
    found = wg.max_pool2d(x, 3, 2, 1, return_indices=True, where=~da.isnan(x))
    expected = wg.max_pool2d(cells, 3, 2, 1, return_indices=True, where=~np.isnan(cells))
    for one, other in zip(found, expected, strict=True):
        assert isinstance(one, da.Array)
        assert np.array_equal(one.compute(), other)


def test_two_masks_are_two_results_and_a_graph_travels():
    x, where = da.ones((4, 4), chunks=2), np.eye(4, dtype=bool)
    one, other = (
        wg.avg_pool2d(x * 2, 2, divisor_override=1, where=where),
        wg.avg_pool2d(x * 2, 2, divisor_override=1, where=~where),
    )
    where[:] = False  # the mask is that of the call
    found = dask.compute(pickle.loads(pickle.dumps(one)), other)
    assert [each.tolist() for each in found] == [[[4, 0], [0, 4]], [[4, 8], [8, 4]]]


def test_a_tape_follows_a_masked_dask_array():
    where = np.array([True, False, True, True])
    tape = wg.Tape()
    x = tape.leaf(da.from_array(np.array([1.0, np.nan, 3.0, 5.0]), chunks=2))
    grads = tape.backward(wg.sum(wg.avg_pool1d(x, 2, where=where)))
    assert np.asarray(grads[x]).tolist() == [1, 0, 0.5, 0.5]


POOLED = [
    lambda x, where: wg.max_pool2d(x, 3, 2, 1, where=where),
    lambda x, where: wg.avg_pool2d(x, 2, where=where),
    lambda x, where: wg.lp_pool2d(x, 3, 2, where=where),
    lambda x, where: wg.smooth_max_pool2d(x, 2, beta=2.0, where=where),
    lambda x, where: wg.global_min_pool2d(x, where=where),
]


@pytest.mark.parametrize("pool", POOLED, ids=["max", "mean", "norm", "smooth", "global min"])
def test_a_lazy_mask_may_be_given_for_a_traced_dask_array(pool):
    """Of a tape, of a tangent, and of both for second derivatives."""
    cells = np.random.default_rng(0).standard_normal((2, 6, 6))
    x, where = da.from_array(cells, chunks=(1, 4, 2)), da.from_array(cells > 0, chunks=3)

    def derivatives(x, where):
        def total(x):
            return wg.sum(pool(x, where) ** 2)

        return wg.grad(total)(x), wg.jvp(lambda x: pool(x, where), (x,), (x,))[1], *wg.hvp(total, (x,), (x,))

    found, right = derivatives(x, where), derivatives(cells, cells > 0)
    for lazy, eager in zip(found, right, strict=True):
        assert isinstance(lazy, da.Array)
        np.testing.assert_allclose(np.asarray(lazy), eager, rtol=1e-13, atol=1e-13)


def test_a_lazy_mask_for_a_traced_numpy_array_is_refused():
    with pytest.raises(KindError, match=r"where: must be a NumPy array where x is no Dask array; call where.compute\(\)"):
        wg.max_pool2d(wg.Tape().leaf(np.ones((4, 4))), 2, where=da.ones((4, 4), dtype=bool, chunks=2))


def test_what_is_refused():
    x = da.ones((2, 4), chunks=2)
    with pytest.raises(WindowError, match=r"where of shape \(3,\): must broadcast to \(2, 4\), the shape of x"):
        wg.max_pool1d(x, 2, where=da.ones(3, dtype=bool))
    with pytest.raises(KindError, match="where: must be an array of bool, not an array of float64"):
        wg.max_pool1d(x, 2, where=x)
    with pytest.raises(OptionError, match='empty="raise": not supported with a mask on Dask arrays'):
        wg.max_pool1d(x, 2, empty="raise", where=x > 0)
