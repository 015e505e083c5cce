"""What the forward rule of a maximum saves for its backward rule: which tap won, and that nothing changes when it is used."""

import numpy as np
import pytest

from support.bits import LAYOUTS, drawn_cells, drawn_geometry, settled
from support.exact import DTYPES, FLOATS
from support.guarded import guarded
from windowgrad import caches
from windowgrad.errors import WindowError
from windowgrad.geometry import Adaptive, Global, Sliding, place_of
from windowgrad.kernels.pool import blocks
from windowgrad.kernels.pool.max import (
    entry,
    winner_apart,
    winner_codes,
    winner_few,
    winner_gather,
    winner_grid,
    winner_near,
    winner_pairs,
    winner_scatter,
    winner_strips,
    winner_triples,
)
from windowgrad.kernels.pool.max.pay import payment
from windowgrad.kernels.runtime import threads
from windowgrad.ops import MEANINGS, OPS
from windowgrad.params import TIES, MaxParams, MinParams

SPEC = {op.name: op for op in MEANINGS}
MAX, MIN = (OPS[name].facts.kernels() for name in ("max_pool", "min_pool"))
INF, NAN = np.inf, np.nan

IN_LINES = [
    (Sliding((2, 2), 2), (2, 6, 32)),
    (Sliding((2, 2), (3, 2)), (2, 8, 48)),
    (Sliding((2,), 2), (3, 16)),
    (Sliding((3, 3), 2, 1), (2, 7, 16)),
    (Sliding((3, 3), 2, 1), (2, 6, 112)),
    (Sliding((3,), 2, 1), (2, 96)),
    (Sliding((3, 3), 2, ((1, 0), (1, 4))), (2, 6, 64)),
    (Sliding((5, 3), 2, 1), (2, 6, 80)),
    (Sliding((3, 3, 3), 2, 1), (2, 5, 4, 32)),
]
"""Rows of cells that fill lines of the caches."""

GEOMETRIES = [
    (Sliding((2, 2), 2), (2, 3, 6, 20)),
    (Sliding((2, 2), 2), (2, 3, 7, 19)),
    (Sliding((2, 2), 2), (1, 2, 6, 75)),
    (Sliding((2, 2), 2, 1), (2, 2, 9, 37)),
    (Sliding((2, 2), 2, 1, ceil_mode=True), (2, 2, 8, 20)),
    (Sliding((1, 2), (3, 2)), (2, 2, 7, 9)),
    (Sliding((2,), 2), (3, 33)),
    (Sliding((3, 3), 2, 1), (2, 3, 7, 20)),
    (Sliding((3, 3), 2, 1, ceil_mode=True), (2, 2, 8, 37)),
    (Sliding((3, 3), 2), (2, 3, 7, 19)),
    (Sliding((3, 3), 1, 1), (2, 3, 5, 41)),
    (Sliding((3, 3), 1), (2, 3, 5, 21)),
    (Sliding((3, 3), 1, 1), (5, 3, 7, 7)),
    (Sliding((3, 3), 1), (2, 2, 5, 45)),
    (Sliding((2, 2), 1, 1), (2, 2, 5, 40)),
    (Sliding((2, 2, 2), 1, 1), (3, 2, 4, 3, 5)),
    (Sliding((5, 5), 2), (2, 2, 12, 40)),
    (Sliding((7, 7), 1, 3), (1, 2, 9, 20)),
    (Sliding((3, 3), 3), (2, 2, 9, 20)),
    (Sliding((2, 3), (3, 2), 1, (1, 2)), (2, 2, 9, 20)),
    (Sliding((2, 2), 1, ((4, 5), (6, 4))), (2, 2, 3, 5)),
    (Sliding((1, 1), 2), (2, 2, 5, 9)),
    (Sliding((2, 1), 4, 0, (1, 2)), (1, 2, 2, 1)),  # the next row is nearer than the next tap would be
    (Sliding((5, 3), (2, 3), ((0, 4), (3, 3)), (2, 3)), (1, 2, 33, 1)),
    (Sliding((3, 4), 3, ((1, 1), (0, 0)), (1, 7)), (2, 3, 15, 23)),
    (Sliding((3,), 2, 1), (3, 2, 33)),
    (Sliding((3,), 2), (3, 2, 20)),
    (Sliding((3, 3), 2, 1), (1, 2, 5, 96)),
    (Sliding((5, 3), (1, 2), (2, 1)), (2, 2, 6, 40)),
    (Sliding((3, 3), 2, (0, 1), (3, 1)), (2, 2, 9, 23)),
    (Sliding((3, 3), 2, ((1, 1), (1, 5))), (2, 2, 4, 17)),
    (Sliding((2, 3), 2, ((3, 0), (0, 4))), (2, 2, 4, 18)),
    (Sliding((3, 3), 2, ((0, 0), (0, 1)), ceil_mode=True), (1, 2, 4, 34)),
    (Sliding((20,), 1, 9), (3, 50)),
    (Sliding((3, 3, 3), 2, 1), (2, 2, 4, 5, 18)),
    (Sliding((2, 1, 2, 2, 3), 1, (0, 0, 1, 0, 1)), (2, 2, 3, 2, 10)),
    (Adaptive((3, 4)), (2, 2, 7, 18)),
    (Adaptive((9, 30)), (2, 4, 11)),
    (Adaptive((2, 2)), (2, 19, 37)),
    (Sliding((10, 5), (11, 6)), (2, 21, 23)),
    (Sliding((4, 4), 1), (2, 2, 7, 6)),
    (Sliding((5, 3), 1, (2, 1)), (3, 2, 6, 70)),
    (Sliding((3, 3, 3), 1, 1), (2, 2, 4, 5, 6)),
    (Sliding((3, 2, 3), 1), (2, 2, 4, 5, 6)),
    (Sliding((3, 4), 1, (2, 3), (2, 3)), (2, 2, 9, 11)),
    (Sliding((4, 3), 1, ((9, 2), (0, 6)), (3, 1)), (2, 2, 3, 4)),
    (Sliding((1, 6, 1, 2), 1, (0, 2, 0, 1)), (2, 2, 5, 2, 4)),
    (Sliding((3, 5), 1), (5, 3, 5)),
    (Sliding((2, 5), 1, ((4, 2), (0, 0)), (5, 1)), (2, 2, 1, 9)),  # no window has a cell
    (Sliding((7, 7), 1), (2, 3, 9, 10)),
    (Sliding((5, 4), 1, 0, (1, 2)), (2, 3, 7, 9)),
    (Sliding((16,), 1, 7), (3, 40)),
    (Sliding((6, 1), 1), (2, 40, 33)),
    (Sliding((3, 3), 2), (2, 7, 71)),
    (Sliding((3, 3), 2, ((1, 1), (1, 0))), (2, 6, 33)),  # a cell behind the last window and behind whole vectors
    (Sliding((3, 3), 2, ((1, 1), (0, 1))), (2, 6, 34)),
    (Sliding((3,), 2, ((1, 5),)), (3, 30)),
    (Sliding((3,), 2, 1), (2, 1)),
    *IN_LINES,
]
every_geometry = pytest.mark.parametrize(("geometry", "shape"), GEOMETRIES, ids=str)


def drawn(values, shape, seed):
    return np.random.default_rng(seed).choice(np.array(values), shape)


def objects(array):
    out = np.empty(array.shape, dtype=object)
    out.reshape(-1)[:] = array.reshape(-1).tolist()
    return out


def texts(array):
    return [str(float(cell)) for cell in array.flat]


def places_of(geometry, shape, saved):
    """The places in their planes of the taps that were saved, −1 where there is none."""
    lead, spatial = geometry.split(shape)
    codes, tables = winner_codes.codes_of(geometry, spatial), geometry.tables(spatial)
    box = [axis.taps for axis in codes.axes]
    found = np.empty((*lead, *geometry.grid(spatial)), np.int64)
    for at in np.ndindex(found.shape):
        o = at[len(lead) :]
        begins = [geometry.cover(a, i, n)[0] for a, (i, n) in enumerate(zip(o, spatial, strict=True))]
        if any(table.count[i] == 0 for table, i in zip(tables, o, strict=True)):
            assert saved[at] == codes.none
            found[at] = -1
        else:
            taps = place_of(int(saved[at]), box)
            cell = [b + t * axis.step for b, t, axis in zip(begins, taps, codes.axes, strict=True)]
            found[at] = np.ravel_multi_index(cell, spatial)
    assert saved.shape == found.shape
    return found


# --- what is saved -----------------------------------------------------------------------------------------------


@every_geometry
@pytest.mark.parametrize("name", ["max_pool", "min_pool"])
def test_the_saved_tap_is_that_of_the_first_winner_of_the_specification(geometry, shape, name):
    """Among ties of signed zeros, of NaN and of the least value too; and the value is that of the forward rule."""
    params = (MaxParams if name == "max_pool" else MinParams)(geometry)
    kernels = OPS[name].facts.kernels()
    for seed, values in enumerate(([0.0, -0.0, 1.0], [1.0, 2.0, NAN, -INF], [-INF], [INF], np.arange(1000.0))):
        x = drawn(values, shape, seed).astype(np.float32)
        y, saved = kernels.saving(params, x)
        expected, index = SPEC[name].with_indices(params, objects(x))
        assert (saved.shape, saved.dtype) == kernels.saves(params, (x.shape, x.dtype))
        assert texts(y) == texts(expected)
        assert (places_of(geometry, shape, saved) == index).all()


@pytest.mark.parametrize("ties", TIES)
def test_of_a_whole_plane_the_place_is_saved_and_whether_others_equal_it(ties):
    for shape in ((3, 5, 7), (2, 9, 600), (2, 1, 1)):
        for seed, values in enumerate(([0.0, -0.0], [0.0, -0.0, 1.0, NAN], [-INF], np.arange(10000.0))):
            x, params = drawn(values, shape, seed).astype(np.float32), MaxParams(Global(2, seed % 2 == 0), ties)
            y, saved = MAX.saving(params, x)
            assert (saved.shape, saved.dtype) == MAX.saves(params, (x.shape, x.dtype)) == (shape[:1], np.int64)
            assert (settled(y)) == settled(MAX.forward(params, x))
            planes = x.reshape(shape[0], -1)
            assert (
                saved // 2 == [next(i for i, v in enumerate(p) if str(v) == str(p.max()) or v == p.max()) for p in planes]
            ).all()
            several = [(np.isnan(p) if np.isnan(p).any() else p == p.max()).sum() > 1 for p in planes]
            assert (saved % 2 == (several if ties != "first" else 0)).all()


def test_a_code_has_one_byte_up_to_256_taps_and_two_up_to_65536():
    """The last number says that there is no winner, where a window may have no cell."""
    for taps, dtype in ((255, np.uint8), (256, np.uint8), (257, np.uint16), (65536, np.uint16), (65537, None)):
        params = MaxParams(Sliding((taps,), taps))
        x = np.zeros((2, taps * 2), np.float32)
        x[0, [taps - 1, taps]] = 1
        kind = MAX.saves(params, (x.shape, x.dtype))
        assert kind == (None if dtype is None else ((2, 2), np.dtype(dtype)))
        y, saved = MAX.saving(params, x) if kind else (MAX.forward(params, x), None)
        g = np.arange(1, 5, dtype=np.float32).reshape(2, 2)
        (gx,) = MAX.vjp(params, x, g, saved)
        assert gx[0, taps - 1] == 1
        assert gx[0, taps] == 2
        assert gx[1, 0] == 3
        assert gx.sum() == 10
        assert y.sum() == 2


@pytest.mark.parametrize(("taps", "dtype"), [(255, np.uint8), (256, np.uint16)])
def test_windows_without_a_cell_have_a_code_of_their_own(taps, dtype):
    params, x = MaxParams(Sliding((taps,), taps, taps)), np.arange(taps, dtype=np.float32)[None]
    y, saved = MAX.saving(params, x)
    assert saved.dtype == dtype
    assert saved.tolist() == [[np.iinfo(dtype).max, taps - 1, np.iinfo(dtype).max]]
    assert y.tolist() == [[0, taps - 1, 0]]
    (gx,) = MAX.vjp(params, x, np.float32([[NAN, 3, NAN]]), saved)
    assert gx[0, -1] == gx.sum() == 3


def test_nothing_is_saved_of_ties_in_windows_nor_of_what_is_cut_within_planes():
    x = np.zeros((1, 4, 4), np.float32)
    assert MAX.saves(MaxParams(Sliding((2, 2)), "all"), (x.shape, x.dtype)) is None
    assert MAX.saves(MaxParams(Sliding((3, 3), 2)), ((1, 8, 1 << 19), x.dtype)) is None
    assert MAX.saves(MaxParams(Sliding((3, 3), 2, 1)), ((32, 64, 112, 112), x.dtype)) == ((32, 64, 56, 56), np.uint8)


# --- who computes it ---------------------------------------------------------------------------------------------


def test_codes_with_long_lists_are_not_kept():
    """A long axis is taken block by block, and each block has other bins."""
    few, many = (Adaptive((5,)), (9,)), (Adaptive((caches.LARGE,)), (2 * caches.LARGE,))
    assert winner_codes.codes_of(*few) is winner_codes.codes_of(*few)
    assert winner_codes.codes_of(*many) is not winner_codes.codes_of(*many)


def payer(geometry, spatial, channels=1):
    return payment(geometry, spatial, channels)[0].__name__


def test_pairs_are_windows_of_two_cells_that_do_not_overlap():
    assert payer(Sliding((2, 2), 2), (8, 8)) == "winner_pairs"
    assert payer(Sliding((2, 2), 2, 1), (8, 9)) == "winner_pairs"
    assert payer(Sliding((2, 2), 2), (8, 7)) == payer(Sliding((2, 2), 2, 1), (8, 8)) == "winner_scatter"  # short rows
    assert payer(Sliding((2, 2), (3, 2)), (8, 8)) == "winner_pairs"
    assert payer(Sliding((2,), 2), (8,)) == "winner_pairs"
    for geometry in (Sliding((2, 2), (1, 2)), Sliding((2, 2), (2, 3)), Sliding((3, 2), (2, 2)), Sliding((2, 2), 2, 0, (1, 2))):
        assert payer(geometry, (8, 8)) != "winner_pairs"
    assert payer(Sliding((2, 2, 2), 2), (8, 8, 8)) == "winner_scatter"  # more than PAIRED taps
    assert payer(Sliding((2, 2), 2), (8, 8), 3) == "winner_scatter"  # channels last


def test_triples_are_windows_of_three_cells_two_apart():
    wide, narrow = (9, 2 * winner_codes.LONG - 1), (9, 2 * winner_codes.LONG - 2)
    assert payer(Sliding((3, 3), 2, 1), wide) == payer(Sliding((3,), 2, 1), wide[1:]) == "winner_triples"
    assert payer(Sliding((3, 3), 2, 1), narrow) == "winner_scatter"
    assert payer(Sliding((8, 3), 2, 1), wide) == payer(Sliding((4, 3), (1, 2), 1), wide) == "winner_triples"
    assert payer(Sliding((9, 3), 2, 1), wide) == payer(Sliding((5, 3), (1, 2), 1), wide) == "winner_scatter"  # more than NEAR
    for last in (Sliding((3, 3), 2, 1, (1, 2)), Sliding((3, 3), (2, 3), 1), Sliding((3, 4), 2, 1), Sliding((3, 3), 2, (1, 2))):
        assert payer(last, (9, 200)) == "winner_scatter"
    assert payer(Adaptive((4, 60)), (9, 200)) == "winner_scatter"


def test_many_channels_are_paid_as_runs():
    few, enough = winner_codes.LONG - 1, winner_codes.LONG
    for geometry in (Sliding((3, 3), 2, 1), Sliding((2, 2), 2, 0, (1, 2)), Sliding((4, 4), 2), Sliding((2, 2), (1, 2))):
        assert payer(geometry, (20, 20), few) == "winner_scatter"
        assert payer(geometry, (20, 20), enough) == "winner_runs"
    few, enough = winner_codes.RUN - 1, winner_codes.RUN
    for geometry in (Sliding((2, 2), 2), Sliding((2, 3), 4, 1, (3, 1)), Sliding((9, 9), 9)):
        assert payer(geometry, (20, 20), few) == "winner_scatter"
        assert payer(geometry, (20, 20), enough) == "winner_apart"
    enough = winner_codes.LONG
    for geometry in (Sliding((5, 5), 2), Sliding((3, 3), (1, 2)), Sliding((3, 3), 2, 1, 2), Adaptive((5, 5))):
        assert payer(geometry, (20, 20), enough) == "winner_scatter"  # more than NEAR windows, or not alike


def test_windows_of_few_taps_one_cell_apart_are_gathered():
    wide, narrow = (8, winner_codes.WIDE), (8, winner_codes.WIDE - 1)
    assert payer(Sliding((3, 3), 1), wide) == payer(Sliding((3, 3), 1, 1), narrow) == "winner_gather"
    assert payer(Sliding((3, 3), 1), narrow) == "winner_scatter"  # a narrow plane that has fewer outputs than cells
    assert payer(Sliding((3, 3), (2, 1), 1), wide) == "winner_scatter"
    assert (
        payer(Sliding((winner_codes.ALONG,), 1), (99,))
        == payer(Sliding((1, winner_codes.ALONG), 1), (3, 99))
        == "winner_gather"
    )
    assert payer(Sliding((winner_codes.ALONG + 1,), 1), (99,)) == "winner_scatter"
    assert payer(Sliding((2, 2), 1, dilation=(900, 1)), (901, 36)) == "winner_gather"
    assert payer(Sliding((2, 2), 1, dilation=(920, 1)), (921, 36)) == "winner_scatter"  # a cell's windows are far apart


def test_windows_of_more_taps_are_gathered_axis_by_axis_whatever_the_plane():
    for taps in [(2, 5), (7, 7), (13, 13), (24, 2), (3, 3, 3), (2, 2, 2, 2)]:
        for padding in (0, 1):
            assert payer(Sliding(taps, 1, padding), tuple(n + 30 for n in taps)) == "winner_gather"
            assert payer(Sliding(taps, 1, padding), tuple(n + 1 for n in taps), 5) == "winner_gather"
    for other in (Sliding((14, 13), 1), Sliding((25, 2), 1), Sliding((5, 5), (1, 2)), Sliding((5, 5), 1, 0, (17, 1))):
        assert payer(other, (99, 99)) == "winner_scatter"
    assert payer(Sliding((5, 5), 1, 0, (16, 1)), (99, 99)) == "winner_gather"
    assert payer(Sliding((5, 5), 1), (5, 9)) == payer(Sliding((5, 5), 1), (9, 5)) == "winner_scatter"  # there is one order


def test_of_planes_with_few_outputs_columns_are_added_one_after_the_other():
    assert payer(Sliding((7, 7), 1), (14, 14)) == payer(Sliding((7, 7), 1, 0, (1, 3)), (14, 20)) == "winner_few"
    assert payer(Sliding((7, 7), 1), (15, 15)) == "winner_gather"  # more than a third are outputs
    assert payer(Sliding((7, 7), 1), (14, 14), 2) == "winner_gather"  # channels last
    assert payer(Sliding((7, 7), 1, 0, (2, 1)), (20, 14)) == "winner_gather"  # runs are mixed
    assert payer(Sliding((2, 24), 1), (32, 32)) == "winner_few"
    assert payer(Sliding((2, 24), 1), (33, 32)) == "winner_gather"  # a larger plane
    assert payer(Sliding((3, 5), 1, ((3, 0), (0, 0))), (8, 5)) == "winner_scatter"  # one order
    assert payer(Sliding((3, 9), 1, ((3, 0), (0, 0))), (4, 10)) == "winner_gather"  # windows without a cell
    assert payer(Sliding((3, 3, 3), 1), (4, 4, 4)) == "winner_gather"


@every_geometry
def test_every_kernel_that_may_pay_gives_the_same_bits(geometry, shape):
    """Those that are not chosen, too; in flat rows, in rows, and in strips."""
    (lead, spatial), rng = geometry.split(shape), np.random.default_rng(5)
    codes, planes = winner_codes.codes_of(geometry, spatial), int(np.prod(lead))
    x = drawn([0.0, 1.0, 2.0], shape, 1).astype(np.float32)
    _, saved = MAX.saving(MaxParams(geometry), x)
    g, found = rng.standard_normal(saved.shape).astype(np.float32), []
    alike = [axis.stride == 1 for axis in codes.axes]
    plans = [(winner_scatter.winner_scatter, winner_scatter.made(geometry, spatial, 1, *limits), 6) for limits in SCATTERED]
    if is_staged(geometry) and sum(out > 1 for out in geometry.grid(spatial)) > 1:  # another order
        plans = []
    if all(alike) and codes.dtype == np.uint8:
        plans += [(winner_gather.winner_gather, winner_grid.made(geometry, spatial, 1, places), 0) for places in (1, 40, 2048)]
    if is_staged(geometry) and len(codes.axes) == 2 and codes.axes[0].step == 1 and codes.none < 0:
        plans.append((winner_few.winner_few, winner_few.made(geometry, spatial), 0))
    if winner_codes.are_pairs(codes):
        plans.append((winner_pairs.winner_pairs, winner_pairs.made(geometry, spatial), 0))
    if winner_codes.has_triples(codes):
        plans.append((winner_triples.winner_triples, winner_near.made(geometry, spatial), 0))
    for kernel, plan, parts in plans:
        gx = np.full(x.size, NAN, np.float32)
        kernel(saved.reshape(-1), g.reshape(-1), gx, plan, 0, planes * int(plan[parts]))
        found.append(settled(gx.reshape(shape)))
    assert set(found) == {settled(in_order(MaxParams(geometry), x, g, saved))}


@every_geometry
@pytest.mark.parametrize("channels", [1, 3])
def test_gradients_whose_lines_are_asked_for_are_gathered_to_the_same_bits(monkeypatch, geometry, shape, channels):
    """As those of arrays larger than the caches are; what is asked for behind the ends of arrays is no memory."""
    shape = (2, channels, *geometry.split(shape)[1])
    (_, spatial), rng = geometry.split(shape), np.random.default_rng(8)
    codes = winner_codes.codes_of(geometry, spatial)
    staged = is_staged(geometry) and sum(out > 1 for out in geometry.grid(spatial)) > 1
    if not all(axis.stride == 1 for axis in codes.axes) or codes.dtype != np.uint8:
        return
    x = drawn([0.0, 1.0, 2.0], shape, 1).astype(np.float32)
    _, saved = MAX.saving(MaxParams(geometry), x)
    g = rng.standard_normal(saved.shape).astype(np.float32)
    monkeypatch.setattr(winner_grid, "last_caches", lambda: 0)
    plan = winner_grid.made(geometry, spatial, channels, 2048)
    runs = [guarded(np.ascontiguousarray(np.moveaxis(a, 1, -1)), "end").reshape(-1) for a in (saved, g)]
    gx = guarded(np.full((2, *spatial, channels), NAN, np.float32), "end")
    winner_gather.winner_gather(*runs, gx.reshape(-1), plan, 0, 2 * int(plan[0]))
    assert settled(np.moveaxis(gx, -1, 1)) == settled(in_order(MaxParams(geometry), x, g, saved, staged=staged))


@every_geometry
@pytest.mark.parametrize("channels", [8, 13, 17])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_runs_of_channels_are_paid_like_planes(geometry, shape, channels, dtype):
    shape = (2, channels, *geometry.split(shape)[1])
    (_, spatial), rng = geometry.split(shape), np.random.default_rng(6)
    x = drawn([0.0, 1.0, 2.0], shape, 1).astype(dtype)
    _, saved = MAX.saving(MaxParams(geometry), x)
    g, plan = rng.standard_normal(saved.shape).astype(dtype), winner_near.made(geometry, spatial)
    codes, gradients = (guarded(np.ascontiguousarray(np.moveaxis(a, 1, -1)), "end").reshape(-1) for a in (saved, g))
    gx = guarded(np.full((2, *spatial, channels), NAN, dtype), "end")
    winner_near.winner_runs(codes, gradients, gx.reshape(-1), plan, channels, 0, 2 * int(plan[0]))
    assert settled(np.moveaxis(gx, -1, 1)) == settled(in_order(MaxParams(geometry), x, g, saved, staged=False))


@every_geometry
@pytest.mark.parametrize("channels", [8, 13, 16, 27, 48])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("least", [0, 1 << 62])
def test_runs_of_windows_that_do_not_overlap_are_handed_out(monkeypatch, geometry, shape, channels, dtype, least):
    """Through the caches, and past them."""
    shape = (2, channels, *geometry.split(shape)[1])
    (_, spatial), rng = geometry.split(shape), np.random.default_rng(9)
    codes = winner_codes.codes_of(geometry, spatial)
    if not winner_codes.are_apart(codes, winner_codes.RUN):
        return
    monkeypatch.setattr(winner_pairs, "least_past", lambda: least)
    x = drawn([0.0, 1.0, 2.0], shape, 1).astype(dtype)
    _, saved = MAX.saving(MaxParams(geometry), x)
    g, plan, along = rng.standard_normal(saved.shape).astype(dtype), winner_pairs.made(geometry, spatial), codes.axes[-1]
    runs = [guarded(np.ascontiguousarray(np.moveaxis(a, 1, -1)), "end").reshape(-1) for a in (saved, g)]
    gx = guarded(np.full((2, *spatial, channels), NAN, dtype), "end")
    winner_apart.winner_apart(*runs, gx.reshape(-1), plan, channels, along.taps, along.stride, 0, 2 * int(plan[0]))
    assert settled(np.moveaxis(gx, -1, 1)) == settled(in_order(MaxParams(geometry), x, g, saved, staged=False))


@pytest.mark.parametrize(("geometry", "shape"), IN_LINES, ids=str)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("at", ["start", "end"])
@pytest.mark.parametrize("behind", [0, 1])
def test_gradients_that_are_written_past_the_caches_are_the_same(monkeypatch, geometry, shape, dtype, at, behind):
    """Where they begin in a line, and where they do not."""
    (lead, spatial), rng = geometry.split(shape), np.random.default_rng(7)
    x = drawn([0.0, 1.0, 2.0], shape, 1).astype(dtype)
    _, saved = MAX.saving(MaxParams(geometry), x)
    g = rng.standard_normal(saved.shape).astype(dtype)
    monkeypatch.setattr(winner_pairs, "least_past", lambda: 0)
    monkeypatch.setattr(winner_near, "least_past", lambda: 0)
    pairs = winner_codes.are_pairs(winner_codes.codes_of(geometry, spatial))
    kernel, made = (
        (winner_pairs.winner_pairs, winner_pairs.made) if pairs else (winner_triples.winner_triples, winner_near.made)
    )
    plan, gx = made(geometry, spatial), guarded(np.full(x.size + behind, NAN, dtype), at)[behind:]
    kernel(*(guarded(a.reshape(-1), at) for a in (saved, g)), gx, plan, 0, int(np.prod(lead)) * int(plan[0]))
    assert settled(gx.reshape(shape)) == settled(in_order(MaxParams(geometry), x, g, saved))


@every_geometry
@pytest.mark.parametrize(("channels", "dtype"), [(16, np.float32), (48, np.float32), (8, np.float64), (24, np.float64)])
def test_runs_that_are_written_past_the_caches_are_the_same(monkeypatch, geometry, shape, channels, dtype):
    monkeypatch.setattr(winner_near, "least_past", lambda: 0)
    test_runs_of_channels_are_paid_like_planes(geometry, shape, channels, dtype)


@pytest.mark.parametrize(
    ("distances", "expected"),
    [
        ([-57, -56, -55, -1, 0, 1, 55, 56, 57], (9, 9)),
        ([-57, -56, -1, 0], (0, 4)),
        (range(7), (3, 7)),
        (range(5), (3, 5)),
        (range(4), (0, 4)),
        (range(8), (6, 8)),
        ([0, 1, 2, 3, 4, 10, 11, 12, 13, 14], (0, 0)),
        ([0, 1, 5], (0, 0)),
        ([0, 2, 4], (0, 0)),
        ([0], (0, 0)),
        ([], (0, 0)),
    ],
)
def test_windows_side_by_side_are_read_together_in_their_order(distances, expected):
    assert winner_grid.side_by_side([winner_grid.Entry(distance, 0, 1) for distance in distances]) == expected


SCATTERED = [(1 << 15, 4, 8192), (1 << 15, 4, 1), (1, 1, 8192), (40, 1, 1)]


def test_planes_of_short_rows_are_cut_later():
    def strips(*spatial, channels=1):
        return int(winner_scatter.scatter_plan(Sliding((3,) * len(spatial), 3), spatial, channels)[6])

    short, uncut = 3 * (winner_scatter.SHORT - 1), winner_strips.UNCUT
    assert strips(uncut // short + 1, short) == strips(winner_scatter.LONGER * uncut // short, short) == 1
    assert strips(winner_scatter.LONGER * uncut // short + 1, short) > 1
    assert strips(uncut // (short + 3) + 1, short + 3) > 1
    assert strips(uncut // short + 1, short, channels=2) > 1


def test_the_place_of_a_tap_follows_by_multiplications():
    for taps in [(255,), (16, 16), (2, 127), (127, 2), (3, 5, 17), (5, 7, 7), (1, 6, 1, 4, 9)]:
        geometry, spatial = Sliding(taps, 1), tuple(n + 2 for n in taps)
        axes = winner_codes.codes_of(geometry, spatial).axes
        sizes = winner_codes.pitches(spatial)
        given, a, m, b, n, c = winner_scatter.factors(list(axes), sizes)
        code = np.arange(np.prod(taps))
        place = a * code + b * (code * m >> winner_scatter.SHIFT) + c * (code * n >> winner_scatter.SHIFT)
        assert given
        assert (place == [np.ravel_multi_index(place_of(int(one), taps), spatial) for one in code]).all()
    assert not any(winner_scatter.factors(list(winner_codes.codes_of(Sliding((2,) * 4), (4,) * 4).axes), [64, 16, 4, 1]))


# --- what is made of it ------------------------------------------------------------------------------------------


def in_order(params, x, g, saved, staged=None):
    """The gradient window after window, or axis by axis, each addition rounded."""
    geometry, gx = params.geometry, np.zeros(x.shape, g.dtype)
    staged = is_staged(geometry) if staged is None else staged
    lead, spatial = geometry.split(x.shape)
    places = places_of(geometry, x.shape, saved).reshape(-1, np.prod(g.shape[len(lead) :]))
    for plane, found, paid in zip(gx.reshape(-1, np.prod(spatial)), places, g.reshape(places.shape), strict=True):
        seen = found >= 0
        if staged:
            by_axes(plane, spatial, found[seen], paid[seen], np.argwhere(seen.reshape(geometry.grid(spatial))))
        else:
            np.add.at(plane, found[seen], paid[seen])
    return gx


def is_staged(geometry):
    return winner_codes.has_stages(winner_codes.windows_of(geometry))


def by_axes(plane, spatial, found, paid, at):
    """Gradients to the cells that won them: those of windows that differ along the first axis only are added first."""
    for axis in range(len(spatial)):
        cells = np.array([place_of(int(place), spatial) for place in found], dtype=np.int64).reshape(-1, len(spatial))
        own = np.concatenate([cells[:, : axis + 1], at[:, axis + 1 :]], axis=1)
        own, first, number = np.unique(own, axis=0, return_index=True, return_inverse=True)
        assert (found[first][number.ravel()] == found).all()  # windows that one row was won in have one winner
        total = np.zeros(len(own), paid.dtype)
        np.add.at(total, number.ravel(), paid)
        at, found, paid = own, found[first], total
    plane[found] = paid


@every_geometry
def test_a_cell_adds_up_its_windows_in_one_order(geometry, shape):
    """Whoever computes it: gathered, scattered, by strips, channels first or last."""
    params, x = MaxParams(geometry), drawn([0.0, 1.0, 2.0], shape, 1).astype(np.float32)
    g = np.random.default_rng(2).standard_normal(geometry.out_shape(shape)).astype(np.float32)
    _, saved = MAX.saving(params, x)
    expected = settled(in_order(params, x, g, saved))
    for name in ("contiguous", "channels last", "Fortran"):
        laid = [LAYOUTS[name](a, geometry.rank, np.random.default_rng(0)) for a in (x, g, saved)]
        assert settled(MAX.vjp(params, *laid)[0]) == expected
        assert settled(MAX.vjp(params, *laid[:2])[0]) == expected
        assert settled(MAX.saving(params, laid[0])[1]) == settled(saved)


@pytest.mark.parametrize("seed", range(8))
def test_a_gradient_has_the_same_bits_with_and_without_what_was_saved(seed, monkeypatch):
    """Any geometry, dtype and layout, any number of threads, small strips and small blocks."""
    rng = np.random.default_rng([3, seed])
    monkeypatch.setattr(threads, "LEAST_WORK", 0)
    monkeypatch.setattr(threads, "chosen", 1)
    drawn_calls = 0
    while drawn_calls < 12:
        rank = int(rng.integers(1, 4))
        spatial = tuple(int(n) for n in rng.integers(1, (60, 30, 9)[rank - 1], rank))
        geometry, lead = drawn_geometry(rng, spatial), tuple(int(n) for n in rng.choice([1, 2, 5, 9], rng.integers(0, 3)))
        try:
            out = geometry.out_shape((*lead, *spatial))
        except WindowError:
            continue
        dtype, other = DTYPES[rng.integers(len(DTYPES))], FLOATS[rng.integers(len(FLOATS))]
        x, g = drawn_cells(rng, (*lead, *spatial), rank, dtype), drawn_cells(rng, out, len(out) - len(lead), other)
        for kernels, params in (
            (MAX, MaxParams(geometry, str(rng.choice(TIES)))),
            (MIN, MinParams(geometry, str(rng.choice(TIES)))),
        ):
            threads.set_num_threads(int(rng.choice([1, 2, 3])))
            monkeypatch.setattr(winner_strips, "UNCUT", int(rng.choice([1, 50, 1 << 15])))
            monkeypatch.setattr(winner_grid, "AT_ONCE", int(rng.choice([1, 50, 2048])))
            monkeypatch.setattr(winner_scatter, "FLAT", 1 if drawn_calls % 2 else 8192)
            winner_grid.kept.__closure__[0].cell_contents.cache_clear()
            kind = kernels.saves(params, (x.shape, x.dtype))
            if kind is None:
                continue
            names = [str(name) for name in rng.choice([n for n in LAYOUTS if n != "byte-swapped"], 2)]
            one, two = (LAYOUTS[n](a, rank, rng) if a.ndim else a for n, a in zip(names, (x, g), strict=True))
            y, saved = kernels.saving(params, one)
            assert (saved.shape, saved.dtype) == kind
            assert settled(y) == settled(kernels.forward(params, x))
            expected = settled(kernels.vjp(params, x, g)[0])
            assert settled(kernels.vjp(params, one, two, saved)[0]) == expected
            assert settled(kernels.vjp(params, x, two, np.ascontiguousarray(saved))[0]) == expected
            drawn_calls += 1


@every_geometry
def test_the_cells_are_not_read_where_the_winners_are_known(geometry, shape):
    params, x = MaxParams(geometry), np.random.default_rng(1).standard_normal(shape).astype(np.float32)
    g = np.random.default_rng(2).standard_normal(geometry.out_shape(shape)).astype(np.float32)
    _, saved = MAX.saving(params, x)
    assert settled(MAX.vjp(params, np.full_like(x, NAN), g, saved)[0]) == settled(MAX.vjp(params, x, g)[0])


@pytest.mark.parametrize("ties", TIES)
def test_the_cells_of_a_plane_are_read_only_if_it_has_several_winners(ties):
    x, params = np.random.default_rng(1).permutation(3 * 35).reshape(3, 5, 7).astype(np.float32), MaxParams(Global(2), ties)
    g = np.float32([1, 2, 3]).reshape(3, 1, 1)
    _, saved = MAX.saving(params, x)
    assert settled(MAX.vjp(params, np.full_like(x, NAN), g, saved)[0]) == settled(MAX.vjp(params, x, g)[0])
    x[1] = 4
    (gx,) = MAX.vjp(params, x, g, MAX.saving(params, x)[1])
    assert gx[1].sum() == {"first": 2, "all": 70, "split": np.full(35, np.float32(2 / 35)).sum()}[ties]
    assert gx[0].sum() == 1


@pytest.mark.parametrize("geometry", [Sliding((3, 3), 2, 1), Sliding((7, 7), 1, 3), Global(2)], ids=str)
def test_a_call_that_is_cut_between_planes_saves_what_the_whole_does(geometry, monkeypatch):
    x = np.random.default_rng(1).standard_normal((6, 5, 20, 22)).astype(np.float16)
    g = np.random.default_rng(2).standard_normal(geometry.out_shape(x.shape)).astype(np.float16)
    params = MaxParams(geometry)
    y, saved = MAX.saving(params, x)
    (gx,) = MAX.vjp(params, x, g, saved)
    monkeypatch.setattr(blocks, "COPIED", 1000)
    monkeypatch.setattr(blocks, "CELLS", 1000)
    for cached in (blocks.cut_up, entry.saved_kind):
        cached.cache_clear()
    assert blocks.blocks(geometry, x, np.dtype(np.float32)).count > 1
    again, taps = MAX.saving(params, x)
    assert settled(again) == settled(y)
    assert settled(taps) == settled(saved)
    assert settled(MAX.vjp(params, x, g, taps)[0]) == settled(MAX.vjp(params, x, g)[0]) == settled(gx)
    for cached in (blocks.cut_up, entry.saved_kind):
        cached.cache_clear()


@pytest.mark.parametrize(("kernels", "record"), [(MAX, MaxParams), (MIN, MinParams)], ids=["max", "min"])
@pytest.mark.parametrize("columns", [blocks.TABLES // 512, blocks.TABLES // 512 + 1])
def test_winners_are_looked_for_again_where_the_layout_of_the_gradient_cuts_planes(kernels, record, columns):
    """A gradient that is not contiguous is cut if the channels of a row are many: then what was saved is not used."""
    geometry = Sliding((2, 2), 2)
    x = np.random.default_rng(3).standard_normal((1, 512, 2, 2 * columns), dtype=np.float32)
    g = np.random.default_rng(4).standard_normal(geometry.out_shape(x.shape), dtype=np.float32)
    params, other = record(geometry), np.asfortranarray(g)
    assert entry.uses_saved(params, x, g)
    assert entry.uses_saved(params, x, other) == (512 * columns <= blocks.TABLES)
    saved = kernels.saving(params, x)[1]
    wanted = settled(kernels.vjp(params, x, g)[0])
    assert settled(kernels.vjp(params, x, g, saved)[0]) == settled(kernels.vjp(params, x, other, saved)[0]) == wanted
