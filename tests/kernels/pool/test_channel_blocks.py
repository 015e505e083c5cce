"""Means of large planes with many channels last are those of the planes alone, bit for bit, and touch nothing beside them."""

import numpy as np
import pytest

import windowgrad as wg
from support.guarded import exact_memory, guarded
from windowgrad.kernels.pool.mean.channel_blocks import CHANNELS, LEAST_CHANNELS
from windowgrad.kernels.pool.mean.whole import NEAR, mean_run_blocks, mean_whole_runs, over_whole_runs
from windowgrad.kernels.runtime import threads

MANY, FEW = CHANNELS
SIDES = [(10, 10), (8, 16), (9, 15), (13, 13)]
"""Of planes of 100, 128, 135 and 169 cells: trees have 64, of float64 32."""


def cells(images, channels, sides, dtype):
    """N×…×C, with strange cells of both signs, sums that overflow float32, and channels of −0.0 alone."""
    rng = np.random.default_rng(channels)
    x = (rng.standard_normal((images, *sides, channels)) * 100).astype(dtype)
    if x.dtype.kind == "f":
        x[0, 2, 2, 3], x[-1, 1, 1, 70], x[-1, ..., 100], x[0, ..., 5] = np.nan, np.inf, np.finfo(dtype).max, -0.0
    return x


@pytest.mark.parametrize("dtype", ["float32", "float64", "uint8", "float16"])
@pytest.mark.parametrize("channels", [LEAST_CHANNELS, LEAST_CHANNELS + 3, MANY + 1, MANY + FEW, 2 * MANY])
def test_they_are_those_of_planes_alone(channels, dtype, monkeypatch):
    monkeypatch.setattr(threads, "LEAST_WORK", 0)
    for images in (1, 3):
        for sides in SIDES:
            x = cells(images, channels, sides, dtype)
            planes = np.ascontiguousarray(np.moveaxis(x, -1, 1))
            with np.errstate(all="ignore"):
                wanted = wg.global_avg_pool2d(planes)
                for at in ("start", "end"):
                    with exact_memory():
                        found = wg.global_avg_pool2d(np.moveaxis(guarded(x, at), -1, 1))
                    assert np.ascontiguousarray(found).tobytes() == wanted.tobytes(), (images, sides)


def test_where_they_are_taken_in_blocks():
    assert over_whole_runs(NEAR, 2 * MANY, 1)[0] is mean_whole_runs
    assert over_whole_runs(NEAR + 1, LEAST_CHANNELS - 1, 1)[0] is mean_whole_runs
    for channels, planes, some, shares in ((MANY, 1, FEW, 2), (MANY + 1, 1, MANY, 2), (MANY, 2, MANY, 2), (300, 3, MANY, 9)):
        kernel, told, count = over_whole_runs(NEAR + 1, channels, planes)
        assert (kernel, told[2], count) == (mean_run_blocks, some, shares)
