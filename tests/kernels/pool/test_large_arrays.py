"""Arrays that no cache has room for: lines are asked for ahead, gradients written past the caches, and no bit changes."""

import itertools

import numpy as np
import pytest

import windowgrad as wg
from support.bits import settled
from windowgrad.geometry import Sliding
from windowgrad.kernels.pool.fold_rows import CACHE
from windowgrad.kernels.pool.smooth import cells
from windowgrad.kernels.vector.past import LINE
from windowgrad.ops import OPS
from windowgrad.params import SmoothParams

SMOOTH = OPS["smooth_max_pool"].facts.kernels()

POOLS = {
    "max": wg.max_pool2d,
    "min": wg.min_pool2d,
    "avg": wg.avg_pool2d,
    "lp": lambda x, size, stride, padding=0: wg.lp_pool2d(x, 2, size, stride),
    "smooth": lambda x, *window: wg.smooth_max_pool2d(x, *window, beta=2.0),
}
WINDOWS = [(2, 2), (3, 2, 1), (3, 3), (5, 2, 2), (3, 1, 1)]


def large(plane, dtype, last):
    """A little more than a cache has room for, with channels last or not."""
    channels, itemsize = 16, np.dtype(dtype).itemsize
    planes = -(-CACHE // (channels * plane[0] * plane[1] * itemsize)) + 1
    x = np.random.default_rng(3).standard_normal((planes, channels, *plane)).astype(dtype)
    x[0, 0, 0, 0], x[-1, -1, -1, -1], x[planes // 2, 3] = np.nan, -np.inf, -0.0
    return np.moveaxis(np.ascontiguousarray(np.moveaxis(x, 1, -1)), -1, 1) if last else x


def quarters(count):
    """Where four parts of about the same size begin and end."""
    return list(itertools.pairwise([count * k // 4 for k in range(5)]))


@pytest.mark.parametrize("plane", [(7, 9), (15, 14), (29, 28), (60, 113), (31, 300), (9, 601)], ids=str)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("last", [False, True])
def test_they_have_the_bits_of_their_parts(plane, dtype, last):
    """The parts stay in a cache, with what is made of them."""
    x = large(plane, dtype, last)
    assert x.nbytes > CACHE > 2 * x[: len(x) // 4].nbytes
    for name, pool in POOLS.items():
        for window in WINDOWS if name in ("max", "avg") else WINDOWS[:2]:
            whole = pool(x, *window)
            for low, high in quarters(len(x)):
                assert settled(whole[low:high]) == settled(pool(x[low:high], *window)), (name, window)


@pytest.mark.parametrize("channels", [3, 16, 32])
@pytest.mark.parametrize("last", [False, True])
def test_large_volumes_have_the_bits_of_their_parts(channels, last):
    """Windows of many rows, of which they share some or none, and rows of few cells."""
    x = np.random.default_rng(5).standard_normal((-(-CACHE // (channels << 16)) + 4, channels, 16, 33, 32)).astype(np.float32)
    x[0, 0, 0, 0, 0], x[-1, -1, -1, -1, -1] = np.nan, -np.inf
    x = np.moveaxis(np.ascontiguousarray(np.moveaxis(x, 1, -1)), -1, 1) if last else x
    assert x.nbytes > CACHE > 2 * x[: len(x) // 4].nbytes
    for pool, window in itertools.product(
        (wg.max_pool3d, wg.avg_pool3d), [(3, 2, 1), (3, 3), (2, 2), ((1, 5, 4), 2, (0, 2, 1))]
    ):
        whole = pool(x, *window)
        for low, high in quarters(len(x)):
            assert settled(whole[low:high]) == settled(pool(x[low:high], *window)), (pool.__name__, window)


@pytest.mark.parametrize("plane", [(15, 14), (60, 112)], ids=str)
@pytest.mark.parametrize("last", [False, True])
def test_their_gradients_have_the_bits_of_those_of_their_halves(plane, last):
    x = large(plane, np.float32, last)
    half = len(x) // 2
    for name, window in itertools.product(("max", "smooth"), WINDOWS[:2]):
        found = []
        for part in (slice(None), slice(half), slice(half, None)):
            y, pull = wg.vjp(lambda x, pool=POOLS[name], window=window: pool(x, *window), x[part])
            found.append(pull(np.cos(np.arange(y.size, dtype=np.float32) + (part.start or 0) * y[0].size).reshape(y.shape))[0])
        assert settled(found[0][:half]) == settled(found[1]), (name, window)
        assert settled(found[0][half:]) == settled(found[2]), (name, window)


@pytest.mark.parametrize("shape", [(21, 8, 56, 32), (6, 8, 64, 112), (40, 16, 14, 48)], ids=str)
@pytest.mark.parametrize("window", [(2, 2), (3, 2, 1)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_smooth_gradients_past_the_caches_are_the_same(monkeypatch, shape, window, dtype):
    rng, found = np.random.default_rng(4), []
    params = SmoothParams(Sliding((window[0],) * 2, *window[1:]), 1.7)
    x = rng.standard_normal(shape).astype(dtype)
    y, saved = SMOOTH.forward(params, x), None
    for least in (1 << 62, 0):
        cells.scale_of.cache_clear()
        monkeypatch.setattr(cells, "least_past", lambda least=least: least)
        (gx,) = SMOOTH.vjp(params, x, y, saved)
        assert gx.ctypes.data % LINE == 0
        found.append(settled(gx))
    cells.scale_of.cache_clear()
    assert found[0] == found[1]
