"""Gradients of smooth maxima of three columns with a stride of 2, in registers: the bits of the steps, and no memory beside."""

import numpy as np
import pytest

from support.exact import same_bits
from support.interpreter import fresh
from support.paths import TESTS
from windowgrad import routes
from windowgrad.geometry import Adaptive, Sliding
from windowgrad.kernels.pool.plan import plan
from windowgrad.kernels.pool.smooth import entry, strips, ways
from windowgrad.kernels.pool.smooth.stride_two import PIECE, is_two_apart
from windowgrad.ops import OPS
from windowgrad.params import SmoothParams

KERNELS = routes.loaded(OPS["smooth_max_pool"].facts.kernels)
rng = np.random.default_rng(0)

PLANES = [  # geometry, plane
    (Sliding((3, 3), 2, 1), (6, 15)),  # shorter than a vector of float32
    (Sliding((3, 3), 2, 1), (6, 16)),
    (Sliding((3, 3), 2, 1), (7, 33)),
    (Sliding((3, 3), 2), (7, 34)),  # a column that no window sees
    (Sliding((3, 3), 2, ceil_mode=True), (6, 34)),
    (Sliding((3, 3), 2, (2, 4)), (5, 21)),
    (Sliding((3, 3), 2, ((0, 3), (1, 0))), (4, 18)),
    (Sliding((1, 3), (3, 2), 1), (5, 40)),  # rows that no window sees
    (Sliding((5, 3), (1, 2), (2, 1)), (6, 25)),
    (Sliding((3, 3, 3), 2, 1), (4, 5, 23)),
    (Sliding((3,), 2, 1), (40,)),
    (Sliding((3,), 2, 1), (2 * PIECE + 1,)),
    (Sliding((3,), 2), (3 * PIECE,)),
    (Sliding((3,), 2, ((3, 0),)), (2 * PIECE + 7,)),
    (Sliding((3,), 2, ceil_mode=True), (PIECE + 2,)),
]


def gradients(params, x, g):
    _, saved = KERNELS.saving(params, x)
    return KERNELS.vjp(params, x, g, saved)[0]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("given", ["in reach", "wide", "a NaN", "an infinite gradient"])
@pytest.mark.parametrize(("geometry", "plane"), PLANES, ids=str)
def test_windows_two_apart_have_the_bits_of_windows_step_by_step(geometry, plane, given, dtype, monkeypatch):
    x, params = rng.standard_normal((4, *plane)).astype(dtype), SmoothParams(geometry, 1.5)
    g = rng.standard_normal(geometry.out_shape(x.shape)).astype(dtype)
    g[2] = -0.0
    if given == "an infinite gradient":
        g[1].flat[-1] = np.inf
    else:
        x[1].flat[-1] = {"in reach": 1, "wide": 300, "a NaN": np.nan}[given]
    assert ways.backward_way(plan(geometry, plane)) is ways.two_apart_planes_back
    at_once = gradients(params, x, g)
    monkeypatch.setattr(ways, "is_two_apart", lambda p: False)
    monkeypatch.setattr(entry, "kept_plane", lambda *given: None)
    assert ways.backward_way(plan(geometry, plane)) is ways.planes_of_taps_back
    assert same_bits(at_once, gradients(params, x, g))


def test_windows_are_two_apart_if_they_have_three_columns_side_by_side_and_a_stride_of_two():
    def holds(geometry, *plane):
        return is_two_apart(plan(geometry, plane))

    assert holds(Sliding((3, 3), 2, 1), 6, 8)
    assert holds(Sliding((7, 3), (1, 2)), 8, 8)
    assert not holds(Sliding((3, 2), 2), 6, 9)
    assert not holds(Sliding((3, 4), 2), 6, 8)
    assert not holds(Sliding((3, 3), (2, 1)), 6, 8)
    assert not holds(Sliding((3, 3), (2, 3)), 6, 9)
    assert not holds(Sliding((3, 3), 2, 1, (1, 2)), 6, 8)
    assert not holds(Adaptive((3, 4)), 6, 9)


def test_a_row_of_quotients_has_room_for_every_window_and_every_cell():
    for geometry, plane in PLANES:
        p = plan(geometry, plane)
        assert ways.row_of(p) >= max(p.width, p.out, (p.before + p.width) // 2 + 1)
        assert strips.whole(p).backward[1][9] == ways.row_of(p)


GUARDED = f"""
import sys
sys.path.insert(0, {str(TESTS)!r})
import numpy as np
from support.guarded import exact_memory, guard_compiled_code, guarded
guard_compiled_code()
from windowgrad.geometry import Sliding
from windowgrad.ops import OPS
from windowgrad.params import SmoothParams

op = OPS["smooth_max_pool"]
for kernel, stride, padding, ceil, plane in {[(g.kernel, g.stride, g.padding, g.ceil_mode, plane) for g, plane in PLANES]!r}:
    params = SmoothParams(Sliding(kernel, stride, padding, ceil_mode=ceil), 1.5)
    for dtype in (np.float32, np.float64):
        x = np.random.default_rng(0).standard_normal((3, *plane)).astype(dtype)
        for at in ("start", "end"):
            with exact_memory(at=at, poison=0xFF):
                y = op.forward(params, guarded(x, at=at))
                (gx,) = op.vjp(params, guarded(x, at=at), guarded(y, at=at))
            assert np.isfinite(gx).all()
print("well")
"""


def test_windows_two_apart_touch_nothing_beside_their_arrays():
    assert fresh(GUARDED).split() == ["well"]
