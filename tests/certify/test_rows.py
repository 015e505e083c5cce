"""Rows over patches are rows over all cells with zeros left out: equal on integers, cell by cell, for every geometry."""

import re
from time import perf_counter

import numpy as np
import pytest

import windowgrad as wg
from windowgrad import certify, nn
from windowgrad.certify import linear, rows, rules
from windowgrad.certify.boxes import propagated
from windowgrad.certify.cells import Box
from windowgrad.certify.linear import Analysis, needed
from windowgrad.certify.maps import Scaling
from windowgrad.certify.nodes import Affine
from windowgrad.certify.planes import Partial, Planes
from windowgrad.certify.rules import network_of
from windowgrad.certify.source import recorded
from windowgrad.certify.substitution import Forms, substituted
from windowgrad.errors import OptionError


@pytest.fixture(autouse=True)
def small_convolutions_stay_convolutions(monkeypatch):
    """A matrix has no local form."""
    monkeypatch.setattr(rules, "SMALL", 0)


def network_from(function, shape):
    return network_of(recorded(function, shape))


def integers(rng, *shape):
    return rng.integers(-4, 5, shape).astype(float)


def geometry(rng, rank):
    each = lambda low, high: tuple(int(n) for n in rng.integers(low, high, rank))  # noqa: E731  # four times below
    padding = tuple(zip(each(0, 3), each(0, 3), strict=True))
    return {"kernel_size": each(1, 4), "stride": each(1, 3), "padding": padding, "dilation": each(1, 3)}


def maps(rng, rank, kind):
    """The map of one convolution or mean with a random geometry, and the layout of its output."""
    channels = int(rng.integers(1, 3))
    shape = (1, 2 * channels, *(int(n) for n in rng.integers(7, 10, rank)))
    options = geometry(rng, rank)
    if kind == "conv":
        groups = int(rng.integers(1, 3))
        weight = integers(rng, 2, shape[1] // groups, *options.pop("kernel_size"))
        conv = getattr(wg, f"conv{rank}d")
        net = network_from(lambda x: conv(x, weight, groups=groups, **options), shape)
    else:
        pool = getattr(wg, f"avg_pool{rank}d")
        more = {"ceil_mode": bool(rng.integers(2)), "count_include_pad": bool(rng.integers(2))}
        more["divisor_override"] = None if rng.integers(2) else 4
        net = network_from(lambda x: pool(x, **options, **more), shape)
    return net.nodes[0].parts[0][1], net.shape[1:]


def patches(rng, layout, scale=1, offset=0, size=2):
    """Rows of integers at random positions; some reach over the edge, where they are 0."""
    rank, count = len(layout) - 1, 5
    positions = np.stack([rng.integers(0, n, count) for n in layout[1:]], axis=1)
    array = integers(rng, count, layout[0], *(size,) * rank)
    return rows.Patches(array, layout, positions, (scale,) * rank, (offset,) * rank).clipped()


@pytest.mark.parametrize("kind", ["conv", "mean"])
@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("seed", range(12))
def test_the_adjoint_on_patches_is_that_on_all_cells(kind, rank, seed):
    rng = np.random.default_rng(seed)
    part, layout = maps(rng, rank, kind)
    given = patches(rng, layout)
    if kind == "mean":  # so that every quotient is a whole number
        given = given.filled(given.array * np.lcm.reduce(part.divisors.astype(int)))
    found = given.back(part)
    np.testing.assert_array_equal(found.whole().array, part.back(given.whole().array))


def test_adjoints_stay_local_until_a_patch_is_larger_than_its_plane():
    rng = np.random.default_rng(0)
    weight = integers(rng, 2, 2, 3, 3)
    for n, local in ((3, False), (4, True)):
        part = network_from(lambda x: wg.conv2d(x, weight, padding=1), (1, 2, n, n)).nodes[0].parts[0][1]
        assert isinstance(patches(rng, (2, n, n)).back(part), rows.Patches) == local  # 2 cells see 4


def test_other_maps_take_whole_rows():
    rng = np.random.default_rng(0)
    layout = (2, 6, 6)
    given = patches(rng, layout)
    for function, shape in (
        (lambda x: wg.conv_transpose2d(x, np.ones((2, 2, 2, 2))), (1, 2, 5, 5)),
        (lambda x: wg.adaptive_avg_pool2d(x, (6, 6)), (1, 2, 12, 12)),
        (lambda x: x[:, :, ::-1], (1, *layout)),
        (lambda x: x / 4, (1, *layout)),
    ):
        part = network_from(function, shape).nodes[0].parts[0][1]
        found = given.back(part)
        assert isinstance(found, rows.Whole)
        np.testing.assert_array_equal(found.array, part.back(given.whole().array))


def test_products_with_constants_stay_local():
    rng = np.random.default_rng(0)
    given, factors = patches(rng, (2, 6, 6)), integers(rng, 72)
    found = given.back(Scaling(factors))
    assert isinstance(found, rows.Patches)
    np.testing.assert_array_equal(found.whole().array, given.whole().array * factors)


@pytest.mark.parametrize("seed", range(20))
def test_sums_and_inner_products_are_those_of_whole_rows(seed):
    rng = np.random.default_rng(seed)
    layout = (2, *(int(n) for n in rng.integers(4, 8, 1 + seed % 3)))
    one, other = (patches(rng, layout, offset=int(rng.integers(-2, 2)), size=int(rng.integers(1, 4))) for _ in range(2))
    other = rows.Patches(other.array, layout, one.positions, other.scale, other.offset).clipped()
    coarse = rows.Patches(other.array, layout, one.positions // 2, (2,) * (len(layout) - 1), other.offset).clipped()
    for second in (other, coarse, other.whole()):
        np.testing.assert_array_equal(one.plus(second).whole().array, one.whole().array + second.whole().array)
        np.testing.assert_array_equal(second.plus(one).whole().array, one.whole().array + second.whole().array)
    vector = integers(rng, int(np.prod(layout)))
    np.testing.assert_array_equal(one.values(vector), one.whole().values(vector))
    np.testing.assert_array_equal(one.sizes(vector), one.whole().sizes(vector))
    np.testing.assert_array_equal(one.filled(one.pick(vector)).clipped().whole().array != 0, covered(one) * vector != 0)


def covered(given):
    return given.filled(np.ones(given.array.shape)).clipped().whole().array


def test_unit_rows_are_single_cells():
    cells, signs = np.array([0, 7, 23]), np.array([1.0, -1.0, 1.0])
    expected = np.eye(24)[cells] * signs[:, None]
    for layout in (None, (2, 12), (2, 3, 4), (1, 2, 3, 4)):
        np.testing.assert_array_equal(rows.unit_rows(cells, signs, 24, layout).whole().array, expected)


@pytest.mark.parametrize("seed", range(20))
def test_planes_without_their_zeros_give_the_same_forms(seed):
    """Windows of which nothing, one cell, some or all cells have coefficients; overlapping, with absent cells."""
    rng = np.random.default_rng(seed)
    nodes = network_from(lambda x: wg.max_pool2d(x, 3, stride=int(1 + seed % 3), padding=1), (1, 2, 6, 6))
    (node,) = nodes.nodes
    outputs = len(node.taps)
    some = rng.random(node.taps.shape) < rng.choice([0.0, 0.2, 1.0], (outputs, 1))
    above, below = (np.where(some & (node.taps >= 0), rng.integers(0, 4, some.shape), 0).astype(float) for _ in range(2))
    low = integers(rng, outputs)
    full = Planes(above, low + rng.integers(0, 2, outputs), below, low, low)
    state = propagated(nodes, Box(np.zeros(72), np.ones(72)), False)
    given, found = integers(rng, 7, outputs), []
    for chosen in (full, Partial.of(full, node.taps, 72)):
        forms = Forms({node.result: rows.Whole(given)}, np.zeros(7), np.zeros(7))
        found.append(substituted(state, forms, 1, {node.result: chosen}))
    np.testing.assert_array_equal(found[0].rows[0].array, found[1].rows[0].array)
    np.testing.assert_array_equal(found[0].constant, found[1].constant)


def residual(rng):
    """Two residual blocks around a mean, as networks for images have them."""
    first, second, third = (rng.normal(size=(4, n, 3, 3)) / n for n in (2, 4, 4))

    def net(x):
        a = wg.conv2d(x, first, padding=1)
        b = wg.relu(a + wg.conv2d(wg.relu(a), second, padding=1))
        c = wg.avg_pool2d(b, 2)
        return wg.relu(c - wg.conv2d(wg.minimum(wg.relu(3 * c), 2.0), third, padding=1))

    return net


@pytest.mark.parametrize("arithmetic", certify.ARITHMETICS)
def test_bounds_by_patches_are_those_by_whole_rows(monkeypatch, arithmetic):
    """But for the slack for rounding, which is less for fewer terms: 1e-13 of the numbers that were added."""
    rng = np.random.default_rng(0)
    net, x = residual(rng), rng.normal(size=(1, 2, 12, 12))
    used = []
    right = rows.Patches.back
    monkeypatch.setattr(rows.Patches, "back", lambda self, part: used.append(self.size) or right(self, part))
    local = certify.bounds(net, x - 0.1, x + 0.1, arithmetic=arithmetic)
    assert (8, 8) in used
    monkeypatch.setattr(linear, "layouts", lambda network: {})
    whole = certify.bounds(net, x - 0.1, x + 0.1, arithmetic=arithmetic)
    for one, other in zip(local, whole, strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-9)
    assert not (whole[0] == whole[1]).any()


def test_only_cells_that_the_property_sees_are_refined():
    rng = np.random.default_rng(0)
    nodes = network_from(residual(rng), (1, 2, 12, 12))
    row = np.zeros((1, 4 * 6 * 6))
    row[0, 0] = 1.0  # a corner: it sees a corner of every plane
    seen = needed(nodes, row)
    assert [int(seen[value].sum()) for value in (nodes.output, 0)] == [1, 2 * 6 * 6]
    assert all(each.all() for value, each in needed(nodes, None).items())
    x = rng.normal(size=288)
    box = Box(x - 0.1, x + 0.1)
    part, all_ = (Analysis(nodes, box, False, rows=given) for given in (row, None))
    np.testing.assert_array_equal(part.bound(row, np.zeros(1)), all_.bound(row, np.zeros(1)))
    refined = [node.result for node in nodes.nodes if isinstance(node, Affine) and node.result in seen]
    assert any((part.state.boxes[value].hi > all_.state.boxes[value].hi).any() for value in refined)


def test_cells_that_there_is_no_time_for_keep_their_intervals():
    rng = np.random.default_rng(0)
    net, x = residual(rng), rng.normal(size=(1, 2, 12, 12))
    nodes = network_from(net, x.shape)
    box = Box((x - 0.1).reshape(-1), (x + 0.1).reshape(-1))
    late = Analysis(nodes, box, False, until=perf_counter())
    soon = Analysis(nodes, box, False)
    assert any((late.state.boxes[value].hi > own.hi).any() for value, own in soon.state.boxes.items())
    for number, interval in propagated(nodes, box, False).boxes.items():
        np.testing.assert_array_equal(late.state.boxes[number], interval)


def test_a_memory_that_holds_no_row_is_refused():
    model = nn.Sequential(nn.Linear(4), nn.ReLU(), nn.Linear(8), nn.ReLU(), nn.Linear(2))
    params = model.init(np.random.default_rng(0), (1, 6))
    x = np.zeros((1, 6))
    goal = certify.label_stays(0, 2)
    message = "memory=100: the bounds of one cell take 768 bytes; it must be at least that"
    with pytest.raises(OptionError, match=re.escape(message)):
        certify.prove((model, params), x - 1, x + 1, goal, memory=100, attack=False)
    certify.prove((model, params), x - 1, x + 1, goal, memory=768, attack=False)
