"""Which masked maxima and means are taken plane by plane, and that threads change no bit of them."""

import numpy as np
import pytest

from support.bits import settled
from windowgrad.geometry import Adaptive, Global, Sliding
from windowgrad.kernels.pool.masked import max_planes, sums, whole_planes, winners
from windowgrad.kernels.runtime import threads
from windowgrad.params import Mask, MaxParams, MeanParams

SIDE = 256  # a plane of float32 has LARGEST bytes


def cells(*shape, dtype=np.float32):
    return np.broadcast_to(np.zeros((), dtype), shape) if dtype == np.float16 else np.zeros(shape, dtype)


def masked(record, geometry, x):
    return record(geometry, where=Mask(np.ones(x.shape[-2:], bool)))


def takes(module, geometry, x):
    return module.is_taken(masked(MaxParams, geometry, x), x)


def test_windows_of_planes_that_fit_in_the_cache_are_taken_by_planes():
    geometry = Sliding((3, 3), 2, 1)
    assert takes(max_planes, geometry, cells(2, SIDE, SIDE))
    assert not takes(max_planes, geometry, cells(2, SIDE, SIDE + 1))
    assert takes(max_planes, geometry, cells(2, SIDE // 2, SIDE, dtype=np.float64))
    assert not takes(max_planes, geometry, cells(2, SIDE // 2, SIDE + 1, dtype=np.float64))
    assert not takes(max_planes, geometry, cells(2, 8, 8, dtype=np.int32))
    assert not takes(max_planes, geometry, cells(2, 8, 8).swapaxes(0, 1))
    assert not takes(max_planes, geometry, cells(0, 8, 8))
    assert takes(max_planes, Adaptive((3, 3)), cells(2, 20, 20))
    assert not takes(max_planes, Global(2), cells(2, 20, 20))


def test_cells_that_many_windows_see_are_not():
    assert takes(max_planes, Sliding((8, 8), 1), cells(100, 100))
    assert not takes(max_planes, Sliding((9, 9), 1), cells(100, 100))


def test_whole_planes_are_taken_that_fit_in_the_cache():
    assert takes(whole_planes, Global(2), cells(2, SIDE, SIDE))
    assert not takes(whole_planes, Global(2), cells(2, SIDE, SIDE + 1))
    assert not takes(whole_planes, Global(2), cells(2, 8, 8, dtype=np.float16))
    assert not takes(whole_planes, Adaptive((1, 1)), cells(2, 8, 8))


@pytest.mark.parametrize("geometry", [Sliding((3, 3), 2, 1), Global(2)], ids=str)
def test_threads_change_no_bit(geometry):
    rng = np.random.default_rng(4)
    x, where = rng.standard_normal((5, 9, 61, 60)).astype(np.float32), Mask(rng.random((5, 9, 61, 60)) < 0.6)
    assert x.nbytes > threads.LEAST_WORK
    found, before = set(), threads.get_num_threads()
    try:
        for count in (1, 2, 3):
            threads.set_num_threads(count)
            tops = winners.rules("max").forward(MaxParams(geometry, where=where), x)
            found.add((settled(tops), settled(sums.mean_forward(MeanParams(geometry, where=where), x))))
    finally:
        threads.set_num_threads(before)
    assert len(found) == 1
