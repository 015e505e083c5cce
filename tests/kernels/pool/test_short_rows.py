"""Maxima of planes of short rows, a plane at a time: the same bits as row by row, in memory of exactly their size."""

import numpy as np
import pytest

from support.exact import same_bits
from support.guarded import exact_memory, guarded
from windowgrad.geometry import Adaptive, Sliding
from windowgrad.kernels.pool.layout import planned_for
from windowgrad.kernels.pool.masked import max_planes, winners
from windowgrad.kernels.pool.masked import max_short as masked_short
from windowgrad.kernels.pool.max import entry
from windowgrad.kernels.pool.max.lanes import max_lanes
from windowgrad.kernels.pool.max.short_rows import has_short_rows, max_short
from windowgrad.ops import MEANINGS
from windowgrad.params import Mask, MaxParams, MinParams

FLOAT32, FLOAT64 = np.dtype(np.float32), np.dtype(np.float64)
SHORT = [  # geometry, plane
    (Sliding((2, 2), 2), (7, 16)),
    (Sliding((2, 2), 1, 1), (12, 19)),
    (Sliding((3, 3), 1, 1), (6, 16)),
    (Sliding((3, 3), 1, 1), (5, 16)),
    (Sliding((3, 3), 2, 1, ceil_mode=True), (8, 24)),
    (Sliding((3, 3), 2, 1), (7, 27)),
    (Sliding((2, 3), 1, (1, 0), (3, 2)), (11, 20)),
    (Sliding((3, 4), (3, 2), ((1, 0), (0, 2)), (1, 3)), (11, 21)),
    (Sliding((8, 7), (3, 1), 2), (20, 17)),
    (Sliding((3, 2, 3), 2, 1), (4, 3, 18)),
    (Sliding((3, 3), 1, 4), (3, 16)),  # windows without a cell
    (Sliding((2, 2), 2, 3), (2, 18)),
    (Sliding((1, 2), 1, (0, 3)), (3, 17)),  # of no column
    (Sliding((2, 1), 1, (3, 0)), (3, 17)),  # of no row
    (Sliding((3,), 2), (17,)),
    (Sliding((1, 1), 2), (5, 19)),
    (Sliding((2, 3), 1, (1, 0)), (77, 43)),  # several blocks of rows
    (Sliding((2, 3), 2, (9, 0)), (70, 27)),  # of which some see no row
    (Adaptive((3, 8)), (7, 16)),
]


def plan_of(geometry, *shape):
    return planned_for(geometry, shape)[0]


def planes_of(shape, dtype):
    """Planes of numbers, of which many are equal; some have zeros of both signs, some NaN of both signs and several bits."""
    rng = np.random.default_rng(len(shape))
    x = rng.integers(-2, 2, shape).astype(dtype)
    x[0] -= 9
    x[1::2][rng.random(x[1::2].shape) < 0.3] = -0.0
    word = np.int32 if dtype == FLOAT32 else np.int64
    quiet = np.asarray(np.nan, dtype).view(word)
    nan = (quiet + rng.integers(0, 99, shape).astype(word)).view(dtype)
    nan = np.copysign(nan, rng.standard_normal(shape).astype(dtype))
    x[2::2] = np.where(rng.random(x[2::2].shape) < 0.05, nan[2::2], x[2::2])
    return x


@pytest.mark.parametrize("dtype", [FLOAT32, FLOAT64], ids=str)
@pytest.mark.parametrize("case", SHORT, ids=lambda case: f"{case[0]} on {case[1]}")
def test_planes_have_the_bits_of_planes_taken_row_by_row(case, dtype, monkeypatch):
    geometry, plane = case
    x, params = planes_of((5, *plane), dtype), MaxParams(geometry)
    assert has_short_rows(plan_of(geometry, *x.shape), dtype)
    monkeypatch.setattr(entry, "takes_lanes", lambda *_: False)
    with monkeypatch.context() as patch:
        patch.setattr(entry, "has_short_rows", lambda *_: False)
        wanted = entry.max_forward(params, x)
    assert same_bits(wanted, entry.max_with_indices(params, x)[0])
    for at in ("start", "end"):
        with exact_memory():
            y = entry.max_forward(params, guarded(x, at)).copy()
        assert same_bits(y, wanted)
    assert same_bits(entry.max_forward(params, x[3:]), wanted[3:])  # no plane knows of another


def test_rows_are_short_between_one_vector_and_some():
    def holds(geometry, *plane, dtype=FLOAT32):
        return has_short_rows(plan_of(geometry, *plane), dtype)

    for window, least, most in (
        (Sliding((2, 2), 1), 16, 96),
        (Sliding((3, 3), 1, 1), 16, 56),  # longer ones are near
        (Sliding((2, 2), 2), 16, 128),
    ):
        assert not holds(window, 9, least - 1)
        assert holds(window, 9, least)
        assert holds(window, 9, most)
        assert not holds(window, 9, most + 1)
        assert holds(window, 9, most // 2, dtype=FLOAT64)
        assert not holds(window, 9, most // 2 + 1, dtype=FLOAT64)
        assert not holds(window, 9, most, dtype=np.dtype(np.int32))
    assert holds(Sliding((1, 8), 1), 9, 20)
    assert not holds(Sliding((1, 9), 1), 9, 20)
    assert not holds(Sliding((2, 3), 3), 9, 20)
    assert not holds(Adaptive((3, 3)), 9, 20)
    assert holds(Sliding((1, 1), 1), 1024, 16)
    assert not holds(Sliding((1, 1), 1), 1025, 16)  # threads share the rows of larger planes
    assert holds(Sliding((9, 1), (9, 1)), 1024, 16)
    assert not holds(Sliding((9, 1), (9, 1)), 1025, 16)
    assert holds(Sliding((1, 2), 1, (0, 2040)), 9, 16)
    assert not holds(Sliding((1, 2), 1, (0, 2041)), 9, 16)  # nearly all of it is padding


def test_channels_that_stand_last_are_compared_otherwise():
    geometry = Sliding((2, 2), 2)
    p = plan_of(geometry, 4, 20, 20)
    assert entry.topper(geometry, p, FLOAT32, 4)[0] is max_short
    assert entry.topper(geometry, p, FLOAT32, 4, True)[0] is not max_short


def test_several_planes_at_once_go_before_short_rows_that_fill_vectors_badly():
    for window in (Sliding((2, 2), 1), Sliding((3, 3), 1, 1), Sliding((2, 2), 2)):
        for width, kernel in (
            (15, max_lanes),
            (16, max_short),
            (17, max_lanes),
            (20, max_lanes),
            (22, max_short),
            (32, max_short),
        ):
            assert entry.topper(window, plan_of(window, 8, 9, width), FLOAT32, 8)[0] is kernel, (window, width)
            if width > 15:
                assert entry.topper(window, plan_of(window, 7, 9, width), FLOAT32, 7)[0] is max_short
    assert entry.topper(Sliding((2, 2), 2), plan_of(Sliding((2, 2), 2), 8, 9, 21), FLOAT32, 8)[0] is max_lanes


# --- with a mask -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [FLOAT32, FLOAT64], ids=str)
@pytest.mark.parametrize("case", SHORT, ids=lambda case: f"{case[0]} on {case[1]}")
def test_masked_planes_have_the_bits_of_planes_taken_row_by_row_wherever_memory_ends(case, dtype):
    geometry, plane = case
    x, rng = planes_of((5, *plane), dtype), np.random.default_rng(1)
    x[4, ..., :9] = -np.inf
    own, one = rng.random(x.shape) < 0.5, rng.random(plane) < 0.6
    own[0], own[2] = False, True
    for where in (own, one):
        kinds = (x.shape, x.dtype), (where.shape, where.dtype)
        for name, params, least in (("max", MaxParams(geometry), False), ("min", MinParams(geometry), True)):
            spec = next(op for op in MEANINGS if op.name == f"{name}_pool")
            wanted = spec.forward(params.masked_by(Mask(where)), x).astype(dtype)
            if (take := masked_short.topping(params, *kinds, least)) is not None:
                y, empty = take(x, where)
                rows, also_empty = max_planes.topping(params, *kinds, least)(x, where)
                assert same_bits(y, rows)
                assert empty == also_empty
            with exact_memory():
                for edge in ("start", "end"):
                    there = params.masked_by(Mask(guarded(where, edge)))
                    assert same_bits(winners.rules(name).forward(there, guarded(x, edge)), wanted)


def test_masked_planes_are_taken_so_unless_rows_are_long_or_near():
    def holds(geometry, *plane, dtype=FLOAT32):
        return masked_short.has_masked_rows(plan_of(geometry, *plane), dtype)

    assert holds(Sliding((2, 2), 2), 9, 16)
    assert holds(Sliding((2, 2), 2), 9, 48)
    assert not holds(Sliding((2, 2), 2), 9, 49)
    assert holds(Sliding((2, 2), 2), 9, 24, dtype=FLOAT64)
    assert not holds(Sliding((2, 2), 2), 9, 25, dtype=FLOAT64)
    assert not holds(Sliding((3, 3), 1, 1), 9, 16)
