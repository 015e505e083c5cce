"""Maxima of small planes, several at once: the bits of the meaning, whatever is beside them and wherever memory ends."""

import numpy as np
import pytest

from support.exact import same_bits
from support.guarded import exact_memory, guarded
from windowgrad.geometry import Adaptive, Sliding
from windowgrad.kernels.pool.lane_groups import CELLS, groups_of
from windowgrad.kernels.pool.layout import planned_for
from windowgrad.kernels.pool.masked import max_lanes as masked_lanes
from windowgrad.kernels.pool.masked import max_planes, winners
from windowgrad.kernels.pool.max import entry
from windowgrad.kernels.pool.max.lanes import max_lanes, takes_lanes
from windowgrad.kernels.pool.min.entry import min_forward
from windowgrad.kernels.vector.types import lanes_of
from windowgrad.ops import MEANINGS
from windowgrad.params import Mask, MaxParams, MinParams

SPEC = {op.name: op for op in MEANINGS}

SMALL = [  # geometry, plane
    (Sliding((2, 2), 2), (7, 7)),
    (Sliding((2, 2), 1, 1), (6, 5)),
    (Sliding((3, 3), 1, 1), (5, 7)),
    (Sliding((3, 3), 2, 1, ceil_mode=True), (8, 9)),
    (Sliding((2, 3), 1, (1, 0), (3, 2)), (11, 10)),
    (Sliding((5, 4), 3, 2), (9, 10)),
    (Sliding((4, 7), 1, (2, 3)), (6, 14)),
    (Sliding((2, 3, 3), 1, 1), (3, 4, 3)),
    (Sliding((1, 2, 2, 2), (1, 1, 2, 1)), (2, 3, 4, 3)),
    (Sliding((3, 3), 1, 4), (3, 4)),  # windows without a cell
    (Sliding((3,), 2, 1), (11,)),
    (Sliding((1, 1), 2), (5, 5)),
    (Sliding((3, 1), 1), (5, 1)),
    (Adaptive((3, 5)), (7, 8)),
    (Adaptive((5, 6)), (4, 4)),
]


def shown(case):
    return f"{case[0]} on {case[1]}"


def numbers(shape, dtype):
    """Few different numbers, zeros of both signs among them, and NaN of several bits and infinities in some planes."""
    rng = np.random.default_rng(0)
    x = rng.choice(np.array([-2.5, -1, -0.0, 0.0, 1], dtype), shape)
    flat = x.reshape(len(x), -1)
    flat[0, 0], flat[-1, -1], flat[1] = -np.nan, np.nan, -np.inf
    return x


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("case", SMALL, ids=shown)
def test_planes_taken_together_have_the_bits_of_their_meaning(case, dtype, monkeypatch):
    geometry, plane = case
    for planes in (8, 9, 15):
        x = numbers((planes, *plane), dtype)
        assert takes_lanes(planned_for(geometry, x.shape)[0], planes, x.dtype)
        y = entry.max_forward(MaxParams(geometry), x)
        assert same_bits(y, SPEC["max_pool"].forward(MaxParams(geometry), x).astype(dtype))
        with monkeypatch.context() as patch:
            patch.setattr(entry, "takes_lanes", lambda *_: False)
            assert same_bits(y, entry.max_forward(MaxParams(geometry), x))
        assert same_bits(min_forward(MinParams(geometry), x), SPEC["min_pool"].forward(MinParams(geometry), x).astype(dtype))


@pytest.mark.parametrize("at", ["start", "end"])
@pytest.mark.parametrize("case", SMALL, ids=shown)
def test_nothing_beside_the_planes_is_touched(case, at):
    geometry, plane = case
    x = numbers((9, *plane), np.float32)
    wanted = entry.max_forward(MaxParams(geometry), x)
    with exact_memory(at=at):
        assert same_bits(entry.max_forward(MaxParams(geometry), guarded(x, at=at)), wanted)


@pytest.mark.parametrize("planes", [8, 9, 15, 17])
def test_every_group_writes_its_own_planes_only(planes):
    """The last planes are done with some of another group, which another thread may be writing, though they have NaN."""
    geometry, x = Sliding((2, 2), 2), np.ones((planes, 7, 7), np.float32)
    x[:, 0, 0] = np.nan
    kernel, given, count = entry.topper(geometry, planned_for(geometry, x.shape)[0], x.dtype, planes)
    assert kernel is max_lanes
    assert count == groups_of(planes, 4)
    for group in range(count):
        y = np.full((planes, 9), -7, np.float32)
        kernel(x.reshape(-1), y.reshape(-1), *given, group, group + 1)
        own = range(group * lanes_of(4), min(planes, (group + 1) * lanes_of(4)))
        assert np.flatnonzero((y != -7).any(axis=1)).tolist() == list(own)
        assert np.isnan(y[list(own), 0]).all()
        assert (y[list(own), 1:] == 1).all()


def test_planes_are_taken_together_where_rows_are_short():
    def holds(geometry, *shape, dtype="float32"):
        return takes_lanes(planned_for(geometry, shape)[0], shape[0], np.dtype(dtype))

    pairs, near, apart = Sliding((2, 2), 2), Sliding((3, 3), 1, 1), Sliding((4, 4), 4)
    assert holds(pairs, 8, 10, 28)
    assert not holds(pairs, 8, 10, 29)
    assert holds(near, 8, 10, 20)
    assert not holds(near, 8, 10, 21)
    for bins in (apart, Adaptive((3, 3))):
        assert holds(bins, 8, 10, 16)
        assert not holds(bins, 8, 10, 17)
    assert holds(pairs, 4, 10, 14, dtype="float64")
    assert not holds(pairs, 4, 10, 15, dtype="float64")
    assert not holds(pairs, 7, 10, 10)
    assert not holds(pairs, 8, 10, 10, dtype="int32")
    assert holds(pairs, 8, CELLS // 16, 16)
    assert not holds(pairs, 8, CELLS // 16 + 1, 16)
    assert not holds(Sliding((3, 3), 1, 2), 8, CELLS // 16, 16)  # more outputs than that


# --- with a mask -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("case", SMALL, ids=shown)
def test_masked_planes_taken_together_have_the_bits_of_their_meaning_wherever_memory_ends(case, dtype):
    geometry, plane = case
    for planes in (8, 11):
        x, rng = numbers((planes, *plane), dtype), np.random.default_rng(planes)
        own, one = rng.random(x.shape) < 0.5, rng.random(plane) < 0.6
        own[0], own[2] = False, True
        for where in (own, one):
            kinds = (x.shape, x.dtype), (where.shape, where.dtype)
            for name, params, least in (("max", MaxParams(geometry), False), ("min", MinParams(geometry), True)):
                y, empty = masked_lanes.topping(params, *kinds, least)(x, where)
                rows, also_empty = max_planes.topping(params, *kinds, least)(x, where)
                assert same_bits(y, rows)
                assert empty == also_empty
                wanted = SPEC[f"{name}_pool"].forward(params.masked_by(Mask(where)), x).astype(dtype)
                with exact_memory():
                    for edge in ("start", "end"):
                        there = params.masked_by(Mask(guarded(where, edge)))
                        assert same_bits(winners.rules(name).forward(there, guarded(x, edge)), wanted)


@pytest.mark.parametrize("least", [False, True])
def test_every_group_of_masked_planes_writes_its_own_only(least):
    x, which = np.ones((9, 7, 7), np.float32), np.zeros(9, np.int64)
    x[:, 0, 0] = np.nan
    p, mask = planned_for(Sliding((2, 2), 2), x.shape)[0], np.ones(49, np.uint8)
    kernel = masked_lanes.lanes_of_least if least else masked_lanes.lanes_of_greatest
    for group in range(groups_of(9, 4)):
        y = np.full((9, 9), -7, np.float32)
        given = which, np.float32(-np.inf), np.empty(0, np.float32), p.packed, 9
        kernel(x.reshape(-1), mask, y.reshape(-1), *given, group, group + 1)
        own = range(group * lanes_of(4), min(9, (group + 1) * lanes_of(4)))
        assert np.flatnonzero((y != -7).any(axis=1)).tolist() == list(own)
        assert (y[list(own), 1:] == 1).all()
