"""Maxima of whole planes whose channels stand last: winners, values and gradients of channels first, no memory beside them."""

import numpy as np
import pytest

import windowgrad as wg
from support.bits import settled
from support.guarded import exact_memory, guarded
from windowgrad.geometry import Global
from windowgrad.kernels.pool.max import last_planes
from windowgrad.ops import OPS
from windowgrad.params import MaxParams

MAX, MIN = (OPS[name].facts.kernels() for name in ("max_pool", "min_pool"))


def drawn(shape, dtype, seed=3):
    """Planes with ties, zeros of both signs and NaN, some of them several times, and some without."""
    rng = np.random.default_rng(seed)
    x = rng.integers(0, 12, shape).astype(dtype)
    if x.dtype.kind == "f":
        x[:, ::5] -= 11
        x[x == 0] = np.where(rng.random((x == 0).sum()) < 0.5, 0.0, -0.0)
        x[rng.random(shape) < 0.004] = np.nan
    return x


def last(a):
    return np.ascontiguousarray(np.moveaxis(a, 1, -1))


CHANNELS = [8, 9, 16, 21, 47, 64]


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32])
@pytest.mark.parametrize("spatial", [(1, 2), (5, 7), (9, 15), (19,)], ids=str)
def test_winners_and_gradients_are_those_of_channels_first(spatial, dtype):
    for channels in CHANNELS:
        for ties in ("all", "first", "split"):
            params, x = MaxParams(Global(len(spatial)), ties), drawn((2, channels, *spatial), dtype)
            wanted, saved = MAX.saving(params, x)
            g = np.random.default_rng(1).integers(-3, 4, wanted.shape).astype(dtype if np.dtype(dtype).kind == "f" else float)
            view, paid = (np.moveaxis(last(a), -1, 1) for a in (x, g))
            layout = last_planes.last_planes(params.geometry, view)
            y, found = MAX.saving(params, view)
            assert settled(np.ascontiguousarray(y)) == settled(wanted)
            assert settled(found) == settled(saved)
            (gx,) = MAX.vjp(params, x, g, saved)
            for given in ((found,), ()):
                assert settled(np.ascontiguousarray(MAX.vjp(params, view, paid, *given)[0])) == settled(gx)
            with exact_memory():
                y, values = guarded(wanted.reshape(-1) * 0, "end"), guarded(last(x), "start").reshape(-1)
                found, empty = (guarded(np.full(saved.size, 7, np.int64), "end") for _ in range(2))
                last_planes.last_winners_of_planes(layout, values, y, found, ties != "first")
                last_planes.last_winners_of_planes(layout, values, y[:0], empty, ties != "first")
                assert settled(found) == settled(empty)
                if x.dtype.kind == "f":
                    cells = guarded(np.full(last(x).shape, 7, dtype), "end")
                    flat = guarded(g.reshape(-1), "end")
                    last_planes.last_gradient(layout, values, saved.reshape(-1), flat, cells.reshape(-1), ties == "split")
                    assert settled(np.ascontiguousarray(np.moveaxis(cells, -1, 1))) == settled(gx)
            assert settled(y) == settled(wanted.reshape(-1))


@pytest.mark.parametrize("images", [1, 3])
@pytest.mark.parametrize("channels", [1, 3, 12])
@pytest.mark.parametrize("dtype", ["float32", "float16", "float64"])
def test_steps_of_training_with_channels_last(images, channels, dtype):
    x = drawn((images, channels, 6, 5), dtype)
    view = np.moveaxis(last(x), -1, 1)
    view.flags.writeable = False
    for pool in (wg.global_max_pool2d, wg.global_min_pool2d):
        for told in ({}, {"keepdims": False}, {"ties": "first"}, {"ties": "split"}):
            y, pull = wg.vjp(lambda a, pool=pool, told=told: pool(a, **told), x)
            g = np.random.default_rng(1).integers(-3, 4, y.shape).astype(dtype)
            for _ in range(2):
                found, back = wg.vjp(lambda a, pool=pool, told=told: pool(a, **told), view)
                assert settled(np.ascontiguousarray(found)) == settled(y)
                assert settled(np.ascontiguousarray(back(g)[0])) == settled(pull(g)[0])


def test_few_channels_are_copied():
    def layout(channels, side):
        return last_planes.last_planes(Global(2), np.moveaxis(np.zeros((2, side, side, channels), np.float32), -1, 1))

    assert layout(last_planes.SOME - 1, 4) is None
    assert layout(last_planes.SOME, 4) is not None
    assert last_planes.last_planes(Global(2), np.zeros((2, 64, 4, 4), np.float32)) is None
