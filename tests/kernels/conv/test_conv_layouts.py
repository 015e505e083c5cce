"""How conv/gemm copies pixels, reads the weight and cuts its work changes no bit of a result."""

import numpy as np
import pytest

from support.conv_ways import LANES, PANEL, ROLES, case, drawn
from windowgrad.geometry import Sliding
from windowgrad.kernels.conv import plan
from windowgrad.kernels.conv.choose import grouped
from windowgrad.kernels.conv.exact import FORWARD, INPUT, WEIGHT
from windowgrad.kernels.conv.gemm import layout, ways
from windowgrad.kernels.conv.gemm.box import Box, box_runs
from windowgrad.kernels.conv.gemm.layout import layouts
from windowgrad.kernels.conv.gemm.told import BOXED, HEAD, IN_PLACE, PACKED, Told
from windowgrad.kernels.conv.gemm.ways import PRODUCTS
from windowgrad.kernels.vector.registers import ROWS
from windowgrad.params import ConvParams


@pytest.fixture(autouse=True)
def nothing_is_remembered():
    yield
    layout._layouts.cache_clear()


def told(one, itemsize):
    return [Told._make(each.told[HEAD + 1 :][: len(Told._fields)].tolist()) for each in layouts(one, itemsize)]


def summed(made, role, dtype):
    out = np.full(made.arrays[role].size, np.nan, dtype)
    PRODUCTS.compute(made.conv.told(role), *made.operands(role), made.bias[role], out, False)
    return out


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kind", ["dense", "pointwise"])
def test_each_place_of_the_pixels_and_the_weight_gives_the_same_bits(kind, dtype, monkeypatch):
    """Also where a call would not choose it: it is chosen by how long it takes, and may be wherever it can be."""
    seen, itemsize = set(), np.dtype(dtype).itemsize
    for seed in range(40):
        rng = np.random.default_rng([seed, 77])
        made = case(*drawn(rng, kind), dtype, rng, rng.standard_normal)
        for role in (role for role in ROLES.values() if role != WEIGHT):
            found = []
            for boxed, in_place in ((False, False), (True, False), (False, True), (True, True)):
                monkeypatch.setattr(
                    layout, "is_boxed", lambda one, gather, *_, boxed=boxed: boxed and len(gather.places) <= 384
                )
                monkeypatch.setattr(layout, "reads_in_place", lambda *_, in_place=in_place: in_place)
                layout._layouts.cache_clear()
                seen |= {(each.place, each.factor_packed > 0) for each in told(made.conv.told(role), itemsize)}
                found.append(summed(made, role, dtype).tobytes())
            assert all(one == found[0] for one in found), (kind, seed, role)
    places = (PACKED, BOXED) if kind == "dense" else (PACKED, BOXED, IN_PLACE)
    assert seen == {(place, packs) for place in places for packs in (False, True)}


def shapes(window, ins, outs, images, *size):
    return ConvParams(window), (images, ins, *size), (outs, ins, *window.kernel)


EDGES = {
    # what is chosen, for shapes on both sides of a limit
    "few rows use what is copied": (Sliding((3, 3), 1, 1), 16, 8, 4, (14, 14), BOXED),
    "many rows use it": (Sliding((3, 3), 1, 1), 16, 512, 4, (14, 14), PACKED),
    "more taps than are summed at a time": (Sliding((plan.STEPS + 1,), 1), 2, 2, 1, (plan.STEPS + 99,), PACKED),
    "as many": (Sliding((plan.STEPS,), 1), 2, 2, 1, (plan.STEPS + 99,), BOXED),
    "boxes would be too large": (Sliding((3, 3, 3), 1, 1), 64, 2, 1, (9, 300, 300), PACKED),
    "one cell": (Sliding((1, 1), 1), 16, 512, 4, (14, 15), IN_PLACE),
    "one cell, planes that crowd in the caches": (Sliding((1, 1), 1), 16, 512, 4, (32, 32), PACKED),
    "the same, few rows": (Sliding((1, 1), 1), 16, 8, 4, (32, 32), IN_PLACE),
}


@pytest.mark.parametrize("name", EDGES)
def test_where_pixels_stand(name):
    window, ins, outs, images, size, place = EDGES[name]
    made = case(*shapes(window, ins, outs, images, *size), np.float32, np.random.default_rng(0))
    assert {each.place for each in told(made.conv.told(FORWARD), 4)} == {place}


@pytest.mark.parametrize(
    ("kernel", "channels", "at_once", "single"), [((10, 8), 16, 8, True), ((8, 8), 20, 10, False), ((10, 8), 8, 8, False)]
)
def test_many_taps_are_listed_once_for_all_channels_panel_by_panel(kernel, channels, at_once, single):
    """With few channels at a time, of more; else several panels are packed before they are multiplied."""
    size = kernel[0] + PANEL // 2, kernel[1] + 3
    made = case(*shapes(Sliding(kernel, 1), channels, 300, 1, *size), np.float32, np.random.default_rng(0))
    (found,) = told(made.conv.told(FORWARD), 4)
    assert (found.place, found.some_channels, found.some_panels == 1) == (PACKED, at_once, single)
    assert (summed(made, FORWARD, np.float32) == made.with_bias(FORWARD, made.exact(FORWARD))).all()


@pytest.mark.parametrize(
    ("window", "size"),
    [
        (Sliding((33,), 1, ((16, 0),)), (33,)),
        (Sliding((3,), 1, ((2, 0),), 2), (97,)),
        (Sliding((5,), 1, ((2, 7),)), (2 * PANEL + 5,)),
        (Sliding((3, 3), (2, 1), ((0, 5), (4, 1)), (1, 2)), (7, LANES + 3)),
        (Sliding((7, 7, 7), 1, 3), (9, 9, 9)),  # whole panels have no real pixel
    ],
    ids=str,
)
def test_pixels_are_real_where_a_box_is_longer_than_the_grid(window, size):
    """Found by random calls: a box of one axis was taken for the grid of the outputs."""
    rng = np.random.default_rng(0)
    made = case(*shapes(window, 3, 2, 2, *size), np.float32, rng)
    assert {each.place for each in told(made.conv.told(FORWARD), 4)} == {BOXED}
    assert (summed(made, FORWARD, np.float32) == made.with_bias(FORWARD, made.exact(FORWARD))).all()


@pytest.mark.parametrize("images", [1, 4])
@pytest.mark.parametrize(
    ("side", "block", "own"),
    [
        (2 * PANEL - 2, 2, False),
        (2 * PANEL - 1, 2, True),
        (2 * PANEL, 2, True),
        (2 * PANEL, 3, False),
        (2 * PANEL + 1, 2, False),
    ],
)
def test_panels_of_a_box_begin_with_each_image_where_that_takes_no_more_of_them(side, block, own, images, monkeypatch):
    """A box of one axis has a zero behind each image; how its panels begin changes no bit. `block`: panels at a time."""
    monkeypatch.setattr(plan, "PANELS", 3 * 4 * (block * PANEL + 2))
    made = case(*shapes(Sliding((3,), 1, 1), 3, ROWS, images, side), np.float32, np.random.default_rng(0))
    (found,) = told(made.conv.told(FORWARD), 4)
    assert (found.place, found.runs) == (BOXED, images if own else 1)
    sums = summed(made, FORWARD, np.float32)
    assert (sums == made.with_bias(FORWARD, made.exact(FORWARD))).all()
    for runs in (1, images):
        monkeypatch.setattr(layout, "box_runs", lambda *_, runs=runs: runs)
        layout._layouts.cache_clear()
        assert summed(made, FORWARD, np.float32).tobytes() == sums.tobytes()


@pytest.mark.parametrize(("between", "runs"), [(2 * PANEL - 1, 4), (2 * PANEL, 1)])
def test_images_of_a_box_that_are_far_apart_are_one_run(between, runs):
    box = Box((2 * PANEL + between,), ((0,),), ((0, 0),), 2 * PANEL, 0, 0)
    assert box_runs(box, 4, PANEL, 2) == runs


JOINED = {
    "a grid for each phase of the stride": (Sliding((3, 3), 2, 1), (7, 7), 4),
    "as many panels as are one call": (Sliding((3,), 2, 1), (2 * PANEL * layout.FEW_JOINED,), 2),
    "one more": (Sliding((3,), 2, 1), (2 * PANEL * layout.FEW_JOINED + 1,), None),
    "one grid": (Sliding((3, 3), 1, 1), (7, 7), None),
    "more taps than are summed at a time": (Sliding((2 * plan.STEPS + 1,), 2), (2 * plan.STEPS + 9,), None),
}


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("name", JOINED)
def test_grids_of_pixels_whose_weight_is_in_place_are_one_call(name, threads, monkeypatch):
    """Its bits are those of a call for each grid, for any number of threads."""
    window, size, grids = JOINED[name]
    rng = np.random.default_rng(0)
    made = case(*shapes(window, 5, 9, 1, *size), np.float32, rng, rng.standard_normal)
    found = layout.joined_layouts(made.conv.told(INPUT), 4)
    assert (None if found is None else found.grids) == grids
    monkeypatch.setattr(ways, "helpers", lambda work: threads)
    together = summed(made, INPUT, np.float32)
    for name, value in (("FEW_JOINED", 0), ("reads_in_place", lambda *_: False)):
        monkeypatch.setattr(layout, name, value)
        layout._layouts.cache_clear()
        assert layout.joined_layouts(made.conv.told(INPUT), 4) is None
        assert summed(made, INPUT, np.float32).tobytes() == together.tobytes()


WEIGHTS = {
    # role, channels, rows, size, whether the weight is packed
    "many panels": (FORWARD, 8, 2 * ROWS, 40, False),
    "a loop with a row of zeros": (FORWARD, 8, 2 * ROWS - 1, 40, True),
    "the same, few panels": (FORWARD, 8, 2 * ROWS - 1, 3, False),
    "the same, more rows": (FORWARD, 8, 2 * ROWS + 3, 40, False),
    "a loop of two rows": (FORWARD, 8, 2 * ROWS - 2, 40, False),
    "a large weight": (FORWARD, 1024, 512, 40, False),
    "a large weight, backwards": (INPUT, 1024, 456, 40, True),
    "one that is not large": (INPUT, 1024, 455, 40, False),
    "a large weight, backwards, few panels": (INPUT, 1024, 456, 3, False),
}


@pytest.mark.parametrize("name", WEIGHTS)
def test_which_weights_are_packed(name):
    role, channels, rows, side, packs = WEIGHTS[name]
    conv, _ = grouped(*shapes(Sliding((3, 3), 1, 1), channels, rows, 1, side, side))
    assert {each.packs for each in layouts(conv.told(role), 4)} == {packs}


EVENLY = {
    # rows, pixels, and how many shares two threads get: of panels, or below 0 of tiles
    "as many rows for both": (2 * ROWS, 4 * PANEL, -2),
    "a few more rows for one": (2 * ROWS - 1, 4 * PANEL, 2),
    "less even panels": (2 * ROWS - 1, PANEL + 1, -2),
    "one tile": (ROWS, PANEL + 1, 2),
    "many panels": (2 * ROWS, 2 * ways.MANY_PANELS * PANEL, 2),
}


@pytest.mark.parametrize("name", EVENLY)
def test_threads_share_what_is_more_even(name):
    rows, pixels, shares = EVENLY[name]
    made = case(*shapes(Sliding((3,), 1, 1), 4, rows, 1, pixels), np.float32, np.random.default_rng(0))
    (found,) = layouts(made.conv.told(FORWARD), 4)
    assert ways.shares(found, found.tiles, 2) == shares
