"""The gradient of a masked maximum or minimum: whole or cut into blocks, and of windows that have no cell left."""

import math

import numpy as np
import pytest

from support.bits import settled
from windowgrad import dispatch
from windowgrad.errors import WindowError
from windowgrad.geometry import Adaptive, Global, Sliding
from windowgrad.kernels.pool import blocks
from windowgrad.kernels.pool.masked import fill
from windowgrad.kernels.pool.max import entry
from windowgrad.ops import OPS, meaning
from windowgrad.params import Mask, MaxParams, MinParams

RECORDS = {"max_pool": MaxParams, "min_pool": MinParams}
GEOMETRIES = [Sliding((3, 3), 2, 1), Sliding((2, 2), 2), Sliding((5, 1), (2, 3)), Adaptive((3, 4)), Global(2)]
HOLE = slice(2, 9), slice(3, 12)
"""Cells that the masks of tests leave out: windows within it have none left."""


@pytest.fixture
def small_blocks(monkeypatch):
    """Every call is cut into blocks of a few outputs; what is prepared is not."""

    def use() -> None:
        limits = {"SMALL": 1, "TABLES": 40, "OUTPUTS": 16, "ROW": 64, "COPIED": 100, "CELLS": 60}
        for name, value in limits.items():
            monkeypatch.setattr(blocks, name, value)
        monkeypatch.setattr(dispatch, "READY", False)
        forget()

    def forget() -> None:
        for cached in (blocks.cut_up, entry.saved_kind):
            cached.cache_clear()

    yield use
    forget()


def case(geometry, dtype, shape=(2, 3, 12, 20)):
    """Cells, a mask with a hole, and gradients, all of whole numbers: no order of summation changes a bit."""
    rng = np.random.default_rng(5)
    x, where = rng.integers(0, 9, shape).astype(dtype), rng.random(shape) < 0.8
    where[..., *HOLE] = False
    return x, where, rng.integers(-9, 9, geometry.out_shape(shape)).astype(np.float32)


def pulled(name, params, x, g):
    (gx,) = dispatch.run(OPS[name], "vjp", params, x, g)
    return gx


@pytest.mark.parametrize("dtype", ["float32", "float16", "int8", "int64"])
@pytest.mark.parametrize("geometry", GEOMETRIES, ids=str)
@pytest.mark.parametrize("name", RECORDS)
def test_blocks_give_the_bits_of_the_whole(name, geometry, dtype, small_blocks):
    x, where, g = case(geometry, dtype)
    params = [RECORDS[name](geometry, ties, where=Mask(where)) for ties in ("first", "all")]
    whole = [pulled(name, each, x, g) for each in params]
    small_blocks()
    assert blocks.blocks(geometry, x, np.dtype(np.float64)).count > 1
    assert [settled(pulled(name, each, x, g)) for each in params] == [settled(gx) for gx in whole]


@pytest.mark.parametrize("lost", [False, True], ids=["finite", "infinite"])
@pytest.mark.parametrize("ties", ["first", "all", "split"])
@pytest.mark.parametrize("geometry", GEOMETRIES, ids=str)
@pytest.mark.parametrize("name", RECORDS)
def test_the_gradient_of_a_window_with_no_cell_left_goes_nowhere(name, geometry, ties, lost):
    """Nor does an infinite one. Cells that are left may have the value that fills the others."""
    x, where, g = case(geometry, "float32", (2, 9, 14))
    where[0] = False
    if lost:
        x[1, :2] = -np.inf if name == "max_pool" else np.inf
        where[1, 0, ::2] = True
    g *= math.lcm(*range(1, 13))  # which so many cells can share
    g[0] = np.inf
    params = RECORDS[name](geometry, ties, where=Mask(where))
    (wanted,) = meaning(name).vjp(params, x.astype(object), g.astype(object))
    found = pulled(name, params, x, g)
    assert not found[~where].any()
    assert np.array_equal(found, wanted.astype(np.float32))


@pytest.mark.parametrize("geometry", [Sliding((3, 3), 2, 1), Global(2)], ids=str)
def test_an_empty_window_is_refused_by_the_gradient_too(geometry):
    x, where, g = case(geometry, "float32")
    where[1, 2] = False
    for value in (1, -np.inf):
        x[0, 0, 0, 0], where[0, 0, 0, 0] = value, True
        with pytest.raises(WindowError, match=r'empty="raise"'):
            pulled("max_pool", MaxParams(geometry, empty="raise", where=Mask(where)), x, g)


@pytest.mark.parametrize("dtype", ["float32", "int64", "uint8", "float16", "int8", "bool"])
def test_a_cell_that_is_left_is_seen_if_it_has_the_value_that_fills_the_others(dtype):
    params = MaxParams(Sliding((2, 2)), where=Mask(np.ones((3, 67), bool)))
    for place in ((0, 0), (1, 40), (2, 66)):
        x = np.ones((2, 3, 67), dtype)
        assert not fill.watched(params, x, x.dtype.type(0))[1]
        x[1, *place] = 0
        assert fill.watched(params, x, x.dtype.type(0))[1]
        params.where.array[place] = False
        assert not fill.watched(params, x, x.dtype.type(0))[1]
        params.where.array[place] = True
