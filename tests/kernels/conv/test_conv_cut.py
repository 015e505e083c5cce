"""Rows of pixels that meet the same taps have products of their own, and the same bits."""

import math

import numpy as np
import pytest

import windowgrad as wg
from support.conv_ways import ROLES, case, drawn
from windowgrad.geometry import Sliding
from windowgrad.kernels.conv import plan
from windowgrad.kernels.conv.exact import FORWARD, INPUT, WEIGHT
from windowgrad.kernels.conv.gemm import cut, layout, ways
from windowgrad.kernels.conv.kept import Kept
from windowgrad.params import ConvParams


@pytest.fixture(autouse=True)
def nothing_is_remembered():
    yield
    layout._layouts.cache_clear()


def cut_everywhere(monkeypatch):
    """As if only products took time."""

    def products(one, itemsize, gather):
        return gather.pixels * len(gather.places) or math.inf

    monkeypatch.setattr(cut, "packed_time", products)
    monkeypatch.setattr(cut, "whole_time", lambda *_: math.inf)
    layout._layouts.cache_clear()


def never_cut(monkeypatch):
    monkeypatch.setattr(cut, "whole_time", lambda *_: 0.0)
    layout._layouts.cache_clear()


def shapes(window, ins, outs, images, *size):
    return ConvParams(window), (images, ins, *size), (outs, ins, *window.kernel)


WINDOWS = [
    Sliding((3, 3), 1, 1),
    Sliding((7, 7), 2, 3),
    Sliding((3, 1), 1, 1, 3),
    Sliding((2, 2), 3, ((0, 4), (1, 0))),
    Sliding((5, 3, 3), (1, 2, 1), (2, 1, 1)),
    Sliding((1, 3), 1, 1),
    Sliding((9, 1), 1, (4, 0)),
    Sliding((3, 3), 1),
]


@pytest.mark.parametrize("rows", [1, 2, 7, 8, 30])
@pytest.mark.parametrize("window", WINDOWS, ids=str)
def test_edges_are_where_the_taps_change(window, rows):
    size = (max(rows, (window.kernel[0] - 1) * window.dilation[0] + 1), *(9,) * (window.rank - 1))
    one = case(*shapes(window, 1, 1, 1, *size), np.float32, np.random.default_rng(0)).conv
    for gather in (each for role in (FORWARD, INPUT) for each in one.told(role).gathers):
        grid, cells, step, table = gather.own_axes
        taps = table.reshape(-1, window.rank)[:, 0]
        met = [tuple(np.flatnonzero((taps + o * step[0] >= 0) & (taps + o * step[0] < cells[0]))) for o in range(grid[0])]
        changes = [o for o in range(1, grid[0]) if met[o] != met[o - 1]]
        assert cut.edges(gather) == changes
        for first, last in zip([0, *changes], [*changes, int(grid[0])], strict=True):
            part = plan.rows_of(gather, first, last)
            assert part.places.tolist() == gather.places[list(met[first])].tolist()
            assert part.pixels == (last - first) * math.prod(grid[1:].tolist())


@pytest.mark.parametrize("in_place", [False, True], ids=["packed", "weight in place"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_cut_rows_have_the_same_bits(in_place, dtype, monkeypatch):
    parts = 0
    monkeypatch.setattr(layout, "reads_in_place", lambda *_: in_place)
    monkeypatch.setattr(layout, "FEW_JOINED", 0)
    for seed in range(60):
        rng = np.random.default_rng([seed, 5])
        made = case(*drawn(rng, "dense"), dtype, rng, rng.standard_normal)
        for role in (role for role in ROLES.values() if role != WEIGHT):
            one, found = made.conv.told(role), []
            for choose in (never_cut, cut_everywhere):
                with monkeypatch.context() as patched:
                    choose(patched)
                    parts = max(parts, len(layout.layouts(one, np.dtype(dtype).itemsize)) - len(one.gathers))
                    for threads in (1, 2, 3):
                        patched.setattr(ways, "helpers", lambda work, threads=threads: threads)
                        out = np.full(made.arrays[role].size, np.nan, dtype)
                        ways.multiply(one, *made.operands(role), made.bias[role], out, False)
                        ready = ways.ready_to_multiply(one, np.dtype(dtype))
                        again = np.full_like(out, np.nan)
                        ready(*made.operands(role), made.bias[role], again)
                        found += [out.tobytes(), again.tobytes()]
            assert len(set(found)) == 1, (seed, role)
    assert parts > 1


def test_blocks_of_k_are_those_of_all_rows(monkeypatch):
    """More channels than are summed at a time: a row with fewer taps could have more of them in a block, and other bits."""
    rng = np.random.default_rng(0)
    made = case(*shapes(Sliding((5, 5), 1, 2), 60, 9, 3, 6, 7), np.float32, rng, rng.standard_normal)
    found = []
    for choose in (never_cut, cut_everywhere):
        with monkeypatch.context() as patched:
            choose(patched)
            out = np.full(made.arrays[FORWARD].size, np.nan, np.float32)
            ways.multiply(made.conv.told(FORWARD), *made.operands(FORWARD), made.bias[FORWARD], out, False)
            found.append(out.tobytes())
    assert found[0] == found[1]


@pytest.mark.parametrize("top", [None, 6.0])
def test_a_kept_weight_is_packed_once_for_all_parts(top, monkeypatch):
    rng = np.random.default_rng(1)
    x, w, bias = (rng.standard_normal(shape).astype(np.float32) for shape in ((4, 5, 6, 9), (24, 5, 3, 3), (24,)))
    beside, found = rng.standard_normal((4, 24, 6, 9)).astype(np.float32), []
    for choose in (never_cut, cut_everywhere):
        with monkeypatch.context() as patched:
            choose(patched)
            kept = Kept(ConvParams(Sliding((3, 3), 1, 1)), w, bias, top)
            y, ended = kept(x, beside)
            assert ended
            assert len(kept.packed) == 1
            found.append(y.tobytes())
    assert found[0] == found[1]


CHOSEN = {
    # window, channels, rows, images, size, parts of the forward pass
    "a batch of small planes": (Sliding((3, 3), 1, 1), 64, 64, 16, (7, 7), 3),
    "a window of many rows": (Sliding((7, 7), 2, 3), 32, 256, 8, (14, 64), 4),
    "only the first row meets padding": (Sliding((3, 3), 2, 1), 64, 64, 16, (14, 14), 2),
    "one image, of which a row fills no vector": (Sliding((3, 3), 1, 1), 256, 440, 1, (7, 7), 1),
    "no padding": (Sliding((3, 3), 1), 64, 64, 16, (9, 9), 1),
    "few products": (Sliding((3, 3), 1, 1), 8, 64, 4, (7, 7), 1),
    "large planes": (Sliding((3, 3), 1, 1), 64, 64, 1, (112, 112), 1),
    "few rows of sums: a box copies less": (Sliding((3, 3), 1, 1), 64, 8, 16, (7, 7), 1),
    "one axis": (Sliding((9,), 1, 4), 64, 64, 64, (8,), 1),
    "a row that meets no tap is with the next": (Sliding((2, 2), 3, ((4, 0), (0, 0))), 256, 256, 64, (8, 8), 2),
}


@pytest.mark.parametrize("name", CHOSEN)
def test_where_rows_are_cut(name):
    window, ins, outs, images, size, parts = CHOSEN[name]
    made = case(*shapes(window, ins, outs, images, *size), np.float32, np.random.default_rng(0))
    assert len(layout.layouts(made.conv.told(FORWARD), 4)) == parts


def test_a_sample_of_a_batch_that_is_cut_has_the_bits_it_has_alone():
    """Infinite numbers, too: padding has no product with them."""
    rng = np.random.default_rng(3)
    x, w = (rng.standard_normal(shape).astype(np.float32) for shape in ((16, 64, 7, 7), (64, 64, 3, 3)))
    for cell in (None, np.inf, np.nan):
        if cell is not None:
            w[5, 7, 0, 2], x[3, 9, 0, 0] = cell, cell
        whole = wg.conv2d(x, w, padding=1)
        for image in (0, 3, 15):
            assert whole[image].tobytes() == wg.conv2d(x[image : image + 1], w, padding=1)[0].tobytes()
