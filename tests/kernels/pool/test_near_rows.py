"""Windows of three columns a cell apart, in registers: the bits of rows that are folded into a buffer. Masked ones too."""

import numpy as np
import pytest

from support.exact import same_bits
from support.guarded import exact_memory, guarded
from windowgrad.geometry import Sliding
from windowgrad.kernels.pool.layout import planned_for
from windowgrad.kernels.pool.masked import max_planes, mean_planes
from windowgrad.kernels.pool.max import entry as max_entry
from windowgrad.kernels.pool.max.near import max_near
from windowgrad.kernels.pool.mean import entry as mean_entry
from windowgrad.kernels.pool.near_rows import is_near
from windowgrad.kernels.pool.row_pieces import CELLS
from windowgrad.params import MaxParams, MeanParams

CASES = [  # geometry, plane
    (Sliding((3, 3), 1, 1), (5, width)) for width in (1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 32, 33, 48, 56, 65)
] + [
    (Sliding((2, 3), 1, 1), (4, 33)),
    (Sliding((1, 3), 1, (0, 1)), (3, 34)),
    (Sliding((3, 3), (2, 1), 1, (2, 1)), (9, 40)),
    (Sliding((4, 3), 1, (2, 1)), (6, 41)),
    (Sliding((3, 3), 1, (5, 1)), (4, 36)),  # rows of windows without a cell
    (Sliding((3, 3, 3), 1, 1), (3, 4, 35)),
    (Sliding((3,), 1, 1), (37,)),
]  # fmt: skip


def numbers(shape, dtype):
    """Zeros of both signs everywhere, and in some planes NaN, infinities and sums that overflow."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal(shape).astype(dtype)
    x[rng.random(shape) < 0.3] = -0.0
    x[rng.random(shape) < 0.2] = 0.0
    planes = x.reshape(-1, np.prod(shape[2:]))
    planes[0, ::5], planes[1, ::7], planes[2, :] = np.nan, np.inf, np.finfo(dtype).max
    planes[3, 0], planes[4, -1], planes[5, :] = np.nan, np.nan, -np.inf
    return x


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("geometry", "plane"), CASES, ids=str)
def test_rows_in_registers_have_the_bits_of_rows_in_a_buffer(geometry, plane, dtype, monkeypatch):
    assert is_near(planned_for(geometry, plane)[0])
    x = numbers((2, 5, *plane), dtype)
    for entry, name in ((mean_entry, "has_short_means"), (max_entry, "has_short_rows")):
        monkeypatch.setattr(entry, "takes_lanes", lambda *_: False)
        monkeypatch.setattr(entry, name, lambda *_: False)
    calls = [
        lambda: max_entry.max_forward(MaxParams(geometry), x),
        lambda: mean_entry.mean_forward(MeanParams(geometry), x),
        lambda: mean_entry.mean_forward(MeanParams(geometry, count_include_pad=False), x),
    ]
    found = [call() for call in calls]
    for entry in (max_entry, mean_entry):
        monkeypatch.setattr(entry, "is_near", lambda p: False)
    assert all(same_bits(one, call()) for one, call in zip(found, calls, strict=True))


def test_windows_are_near_if_they_have_three_columns_and_leave_the_row_as_long_as_it_is():
    def holds(geometry, *plane):
        return is_near(planned_for(geometry, plane)[0])

    assert holds(Sliding((3, 3), 1, 1), 8, 9)
    assert holds(Sliding((5, 3), (2, 1), (1, 1), (3, 1)), 16, 9)
    assert not holds(Sliding((3, 3), 1, 0), 8, 9)
    assert not holds(Sliding((3, 3), 1, ((1, 1), (2, 0))), 8, 9)
    assert not holds(Sliding((3, 3), 1, (1, 2)), 8, 9)
    assert not holds(Sliding((3, 3), (1, 2), 1), 8, 9)
    assert not holds(Sliding((3, 3), 1, (1, 2), (1, 2)), 8, 9)
    assert not holds(Sliding((3, 5), 1, (1, 2)), 8, 9)
    assert holds(Sliding((3, 3), 1, 1), 4, CELLS)
    assert not holds(Sliding((3, 3), 1, 1), 4, CELLS + 1)  # a row of two pieces


@pytest.mark.parametrize("dtype", ["float32", "float64", "uint8", "int64"])
def test_floats_alone_are_compared_in_registers(dtype):
    geometry = Sliding((3, 3), 1, 1)
    p, dtype = planned_for(geometry, (8, 80))[0], np.dtype(dtype)
    assert (max_entry.topper(geometry, p, dtype, 1)[0] is max_near) == (dtype.kind == "f")
    assert max_entry.topper(geometry, p, dtype, 1, True)[0] is not max_near


# --- with a mask -------------------------------------------------------------------------------------------------


def masks_of(shape):
    """One for all planes, one for each, one that leaves nothing, and one that leaves everything."""
    rng = np.random.default_rng(1)
    return rng.random(shape[2:]) < 0.5, rng.random(shape) < 0.4, np.zeros(shape, bool), np.ones(shape, bool)


def masked_calls(geometry, x, where):
    """(the maxima or minima, whether a window is empty), and means, or None where one is not finite."""
    kinds = (x.shape, x.dtype), (where.shape, where.dtype)
    for least in (False, True):
        yield max_planes.topping(MaxParams(geometry), *kinds, least)(x, where)
    for padded in (False, True):
        yield (mean_planes.averaging(MeanParams(geometry, padded), *kinds)(x, where),)
        tame = np.where(~where | (np.abs(x) < 1e30), x, 1)  # what is not finite is left out
        yield (mean_planes.averaging(MeanParams(geometry, padded), *kinds)(tame, where),)


def agree(found, wanted):
    for ones, others in zip(found, wanted, strict=True):
        for a, b in zip(ones, others, strict=True):
            assert same_bits(a, b) if isinstance(a, np.ndarray) else a is b


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("geometry", "plane"), CASES, ids=str)
def test_masked_rows_in_registers_have_the_bits_of_rows_in_a_buffer(geometry, plane, dtype, monkeypatch):
    x = numbers((2, 5, *plane), dtype)
    for where in masks_of(x.shape):
        found = list(masked_calls(geometry, x, where))
        with monkeypatch.context() as patched:
            for module in (max_planes, mean_planes):
                patched.setattr(module, "is_near", lambda p: False)
            agree(found, masked_calls(geometry, x, where))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_masked_rows_in_registers_touch_nothing_beside_their_arrays(dtype):
    geometry = Sliding((3, 3), 1, 1)
    for width in range(1, 71):
        x = numbers((1, 6, 3, width), dtype)
        for where in masks_of(x.shape)[:2]:
            wanted = list(masked_calls(geometry, x, where))
            for edge in ("start", "end"):
                with exact_memory(edge):
                    agree(masked_calls(geometry, guarded(x, edge), guarded(where, edge)), wanted)


def test_masks_change_nothing_about_which_windows_are_near():
    for geometry, plane in [
        (Sliding((3, 3), 1, 1), (4, CELLS)),
        (Sliding((3, 3), 1, 1), (4, CELLS + 1)),
        (Sliding((3, 3), 2, 1), (8, 9)),
    ]:
        p = planned_for(geometry, plane)[0]
        assert (mean_planes.mean_planes_for(p) is mean_planes.mean_planes_near) == is_near(p)
        for least, kernel in ((False, max_planes.near_of_greatest), (True, max_planes.near_of_least)):
            assert (max_planes.max_planes_for(p, least) is kernel) == is_near(p)
