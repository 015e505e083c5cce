"""Winners of channels that stand last, found tap by tap: the names and the values of channels first, no memory beside them."""

import numpy as np
import pytest

import windowgrad as wg
from support.bits import settled
from support.guarded import exact_memory, guarded
from windowgrad.geometry import Adaptive, Sliding
from windowgrad.kernels.pool.layout import kept_layout
from windowgrad.kernels.pool.max.find import find, form_of
from windowgrad.kernels.pool.max.winner_codes import codes_of
from windowgrad.ops import OPS
from windowgrad.params import MaxParams

OP = OPS["max_pool"]
MAX = OP.facts.kernels()

GEOMETRIES = {
    "side by side": (Sliding((2, 2), 2), (6, 9)),
    "overlapping": (Sliding((3, 3), 2, 1), (7, 9)),
    "far apart": (Sliding((2, 2), 3), (8, 8)),
    "dilated": (Sliding((3, 2), (1, 3), 1, (2, 1), True), (7, 9)),
    "windows without a cell": (Sliding((2, 2), 3, ((1, 4), (2, 3))), (5, 6)),
    "bins": (Adaptive((3, 4)), (7, 9)),
    "one bin": (Adaptive((1, 1)), (5, 7)),
    "one bin of many cells": (Adaptive((1, 1)), (20, 15)),
    "many taps": (Sliding((17, 16), 9), (30, 27)),
    "many taps, and windows without a cell": (Sliding((17, 16), 17, ((0, 40), (20, 0))), (18, 9)),
    "one axis": (Sliding((3,), 3, 1), (11,)),
    "three axes": (Sliding((2, 2, 3), (2, 2, 3), (0, 1, 0)), (4, 5, 7)),
}

CHANNELS = [1, 3, 5, 8, 17, 64]


def drawn(shape, dtype):
    """Cells with ties, zeros of both signs and NaN."""
    x = np.random.default_rng(4).integers(-2, 4, shape).astype(dtype)
    if x.dtype.kind == "f":
        x[x == 1] = -0.0
        x[np.random.default_rng(5).random(shape) < 0.02] = np.nan
    return x


def last(a):
    return np.ascontiguousarray(np.moveaxis(a, 1, -1))


def first(a):
    return np.ascontiguousarray(np.moveaxis(a, -1, 1))


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32])
@pytest.mark.parametrize("name", GEOMETRIES)
def test_names_and_values_are_those_of_channels_first(name, dtype):
    geometry, spatial = GEOMETRIES[name]
    params, codes = MaxParams(geometry), codes_of(geometry, spatial)
    for channels in CHANNELS:
        x = drawn((2, channels, *spatial), dtype)
        wanted, saved = MAX.saving(params, x)
        layout = kept_layout(geometry, x.shape, "alone")
        with exact_memory():
            y, found = (guarded(np.full(last(wanted).shape, 7, kind), "end") for kind in (dtype, codes.dtype))
            names = guarded(np.full(found.shape, 7, codes.dtype), "start")
            cells = guarded(last(x), "end").reshape(-1)
            find(params, layout, "alone", cells, spatial, y.reshape(-1), found.reshape(-1))
            find(params, layout, "alone", cells, spatial, np.empty(0, dtype), names.reshape(-1))
        assert settled(first(y)) == settled(wanted)
        assert settled(first(found)) == settled(first(names)) == settled(saved)


def test_both_widths_of_names_are_met():
    kinds = {codes_of(*case).dtype for case in GEOMETRIES.values()}
    assert kinds == {np.dtype(np.uint8), np.dtype(np.uint16)}


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16])
@pytest.mark.parametrize("name", GEOMETRIES)
def test_a_step_of_training_has_the_bits_of_channels_first(name, dtype):
    """Of a view that nobody may write, each time it is called."""
    geometry, spatial = GEOMETRIES[name]
    params, lead = MaxParams(geometry), len(spatial) + 1
    for channels in CHANNELS[1:]:
        x = drawn((2, channels, *spatial), dtype)
        wanted, saved = MAX.saving(params, x)
        g = np.random.default_rng(6).integers(-9, 9, wanted.shape).astype(dtype)
        view, paid = (np.moveaxis(last(a), lead, 1) for a in (x, g))
        view.flags.writeable = False
        (gx,) = MAX.vjp(params, x, g, saved)
        for _ in range(2):
            y, pull = wg.vjp(lambda a, params=params: OP.forward(params, a), view)
            assert settled(np.ascontiguousarray(y)) == settled(wanted)
            assert settled(np.ascontiguousarray(pull(paid)[0])) == settled(gx)
            y, found = MAX.saving(params, view)
            assert settled(np.ascontiguousarray(y)) == settled(wanted)
            assert settled(np.ascontiguousarray(found)) == settled(saved)
            for given in ((found,), ()):
                assert settled(np.ascontiguousarray(MAX.vjp(params, view, paid, *given)[0])) == settled(gx)


def test_taps_are_looked_at_where_rows_would_not_be_reduced_or_windows_do_not_overlap():
    def form(geometry, channels, *spatial):
        return form_of(geometry, (2, channels, *spatial))

    assert (
        form(Sliding((2, 2), 2), 3, 20, 20)
        == form(Sliding((2, 2), 3), 1, 20, 20)
        == form(Adaptive((7, 7)), 2, 20, 20)
        == "alone"
    )
    assert form(Sliding((2, 2), 2), 2, 20, 20) == form(Sliding((3, 3), 2), 64, 20, 20) == "together"
    assert form(Sliding((15, 15), 3), 64, 99, 99) == "alone"
    assert form(Sliding((19, 19), 3), 64, 99, 99) == "rows"  # taps are many times the cells
    assert form(Sliding((17,), 1), 64, 99) == "first"  # slid over
    assert form(Adaptive((1, 1)), 64, 300, 300) == "first"  # names are places
