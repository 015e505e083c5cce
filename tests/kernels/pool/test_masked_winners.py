"""Gradients of a masked maximum or minimum: whole or cut into blocks, of windows with no cell left, and from saved winners."""

import math
from dataclasses import replace

import numpy as np
import pytest

from support.bits import settled
from support.guarded import guarded
from windowgrad import dispatch
from windowgrad.errors import WindowError
from windowgrad.geometry import Adaptive, Global, Sliding
from windowgrad.kernels.pool import blocks
from windowgrad.kernels.pool.masked import fill, winners
from windowgrad.kernels.pool.max import entry
from windowgrad.kernels.runtime import threads
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


# --- saved winners -----------------------------------------------------------------------------------------------

SAVED = {"max_pool": winners.rules("max"), "min_pool": winners.rules("min")}


@pytest.mark.parametrize(
    ("params", "shape", "dtype", "kind"),
    [
        (MaxParams(Sliding((3, 3), 2, 1)), (2, 9, 14), "float32", ((2 * 5 * 7 + 1,), np.uint8)),
        (MaxParams(Sliding((17, 16), 1)), (2, 40, 40), "float64", ((2 * 24 * 25 + 1,), np.uint16)),
        (MaxParams(Global(2)), (2, 9, 14), "float32", ((3,), np.int64)),
        (MaxParams(Global(2), "all"), (2, 9, 14), "float32", None),
        (MaxParams(Sliding((3, 3)), "split"), (2, 9, 14), "float32", None),
        (MaxParams(Sliding((3, 3))), (2, 9, 14), "float16", None),
        (MaxParams(Sliding((3, 3))), (2, 9, 14), "int32", None),
        (MaxParams(Sliding((3,), 1)), (2, blocks.TABLES + 2), "float32", ((2 * blocks.TABLES + 1,), np.uint8)),
        (MaxParams(Sliding((3,), 1)), (2, blocks.TABLES + 3), "float32", None),
    ],
    ids=str,
)
def test_winners_are_saved_of_floats_that_are_not_cut(params, shape, dtype, kind):
    assert SAVED["max_pool"].saves(params, (shape, np.dtype(dtype))) == kind


def broadcast(g):
    return np.broadcast_to(g[..., :1], g.shape)


@pytest.mark.parametrize("layout", [np.asarray, broadcast, np.asfortranarray, np.float64], ids=lambda f: f.__name__)
@pytest.mark.parametrize("shape", [(2, 3, 12, 20), (12, 20)], ids=str)
@pytest.mark.parametrize("geometry", GEOMETRIES, ids=str)
@pytest.mark.parametrize("name", RECORDS)
def test_gradients_from_saved_winners_are_those_of_the_mask(name, geometry, shape, layout, small_blocks):
    """In whatever layout or dtype they are, also where that cuts a call: cells that are left out would win there."""
    x, where, g = case(geometry, "float32")
    where, g, rules = where[0, 0] if len(shape) == 2 else where, layout(g), SAVED[name]
    x[:, :, ::2] += 20 if name == "max_pool" else -20
    where[..., 4::2, :] = False
    params = RECORDS[name](geometry, where=Mask(where))
    for sides in (("start", "end"), ("end", "start")):
        y, saved = rules.saving(params, guarded(x, sides[0]))
        assert settled(y) == settled(rules.forward(params, x))
        assert (saved.shape, saved.dtype) == rules.saves(params, (x.shape, x.dtype))
        for cells in (guarded(x, sides[1]), np.asfortranarray(x)):
            (gx,) = rules.vjp(params, cells, g, saved)
            assert settled(gx) == settled(rules.vjp(params, x, np.ascontiguousarray(g))[0])
    small_blocks()
    assert settled(rules.vjp(params, x, g, saved)[0]) == settled(gx)


def test_nothing_is_saved_if_a_winner_is_in_doubt():
    x, where = np.zeros((4, 6), np.float32), np.ones((4, 6), bool)
    params = MaxParams(Sliding((2, 2), 2), where=Mask(where))
    assert SAVED["max_pool"].saving(params, x)[1].tolist() == [0] * 7
    where[:2, :2] = False
    y, saved = SAVED["max_pool"].saving(params, x - 1)
    assert (y[0, 0], saved[-1]) == (0, 1)
    x[2:, 2:4] = -np.inf
    assert SAVED["max_pool"].saving(params, x)[1] is None
    with pytest.raises(WindowError, match=r'empty="raise"'):
        SAVED["max_pool"].saving(replace(params, empty="raise"), x)


@pytest.mark.parametrize("geometry", GEOMETRIES, ids=str)
def test_threads_change_no_bit(geometry, monkeypatch):
    x, where, g = case(geometry, "float32")
    params, found = MaxParams(geometry, where=Mask(where)), []
    monkeypatch.setattr(threads, "LEAST_WORK", 0)
    for count in (1, 3):
        monkeypatch.setattr(threads, "chosen", count)
        y, saved = SAVED["max_pool"].saving(params, x)
        found.append(
            [
                settled(each)
                for each in (y, saved, *SAVED["max_pool"].vjp(params, x, g, saved), pulled("max_pool", params, x, g))
            ]
        )
    assert found[0] == found[1]


@pytest.mark.parametrize("of", [(2, 3, 12, 20), (3, 1, 20), (1, 1, 12, 20), (12, 20), (20,), ()], ids=str)
@pytest.mark.parametrize("geometry", [*GEOMETRIES, Sliding((3, 3), 2, 3)], ids=str)
@pytest.mark.parametrize("name", RECORDS)
def test_prepared_calls_give_what_others_give_wherever_memory_ends(name, geometry, of):
    """Also where windows have no cell left, or only infinite ones."""
    x, where, g = case(geometry, "float32")
    where = np.ascontiguousarray(where[tuple(0 if n == 1 else slice(None) for n in (*(1,) * (4 - len(of)), *of))]).reshape(of)
    params, rules = RECORDS[name](geometry), SAVED[name]
    kinds = (x.shape, x.dtype), (where.shape, where.dtype)
    save, pull = rules.prepare("saving", params, *kinds), rules.prepare("vjp", params, kinds[0], (g.shape, g.dtype), kinds[1])
    for mask, cells in ((where, x), (np.ones_like(where), x), (where, np.where(x > 5, np.float32(-np.inf), -x))):
        masked = replace(params, where=Mask(mask))
        for side in ("start", "end"):
            y, saved = save(guarded(mask, side), guarded(cells, side))
            wanted, wanted_saved = rules.saving(masked, cells)
            assert settled(y) == settled(wanted) == settled(rules.forward(masked, cells))
            assert saved is wanted_saved is None or settled(saved) == settled(wanted_saved)
            found = pull(guarded(mask, side), guarded(cells, side), guarded(g, side), saved)
            assert settled(found[0]) == settled(rules.vjp(masked, cells, g)[0])


def test_only_what_is_saved_is_prepared():
    kinds = ((2, 9, 14), np.dtype(np.float32)), ((2, 4, 7), np.dtype(np.float32)), ((9, 14), np.dtype(bool))
    windows = MaxParams(Sliding((2, 2), 2))
    for rule, of in (("saving", (kinds[0], kinds[2])), ("vjp", kinds)):
        assert SAVED["max_pool"].prepare(rule, windows, *of) is not None
        assert SAVED["max_pool"].prepare(rule, replace(windows, ties="all"), *of) is None
        assert SAVED["max_pool"].prepare(rule, windows, (kinds[0][0], np.dtype(np.float16)), *of[1:]) is None


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("ties", ["first", "all", "split"])
@pytest.mark.parametrize("name", RECORDS)
@pytest.mark.parametrize("geometry", GEOMETRIES, ids=str)
def test_gradients_of_a_plane_have_the_same_bits_whatever_its_neighbours_are(geometry, name, ties, dtype):
    """Zeros have the same sign too, beside planes with windows whose cells all lose, and planes with windows without cells."""
    rng, loser = np.random.default_rng(2), -np.inf if name == "max_pool" else np.inf
    x, where = rng.integers(0, 3, (4, 12, 20)).astype(dtype), np.ones((4, 12, 20), bool)
    x[1], where[2:, *HOLE], x[3, 0, 0] = loser, False, loser
    g = np.copysign(np.finfo(dtype).smallest_subnormal, -rng.random(geometry.out_shape(x.shape))).astype(dtype)
    together = pulled(name, RECORDS[name](geometry, ties, where=Mask(where)), x, g)
    for q in range(len(x)):
        alone = pulled(name, RECORDS[name](geometry, ties, where=Mask(where[q])), x[q], g[q])
        assert settled(alone) == settled(together[q]), q
