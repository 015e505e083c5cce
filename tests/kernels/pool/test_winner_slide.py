"""First winners of long windows along a single row, by vectors: those that a search of each window finds."""

import numpy as np
import pytest

import windowgrad as wg
from support.guarded import exact_memory, guarded

WINDOWS = [  # taps, stride, padding, cells of a row
    (17, 1, 8, 40),
    (31, 1, 0, 500),
    (32, 1, 16, 500),
    (33, 2, 5, 301),
    (64, 1, 32, 5000),  # several stretches of a row
    (64, 7, 0, 3000),
    (40, 1, 39, 50),  # many windows of few cells at both ends
    (90, 1, 45, 60),  # no window is whole
    (300, 1, 299, 7),
]


def first_winners(x, taps, stride, padding):
    found = []
    for begin in range(-padding, len(x) + padding - taps + 1, stride):
        low, high = max(begin, 0), min(begin + taps, len(x))
        cells = x[low:high]
        missing = np.isnan(cells) if x.dtype.kind == "f" else np.zeros(len(cells), bool)
        found.append(-1 if low >= high else low + int(missing.argmax() if missing.any() else cells.argmax()))
    return found


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "uint32", "int64", "uint8"])
@pytest.mark.parametrize("window", WINDOWS, ids=str)
def test_the_first_winner_of_a_long_window_is_found(window, dtype):
    taps, stride, padding, size = window
    rng = np.random.default_rng(taps)
    x = np.stack([rng.integers(0, top, size) for top in (3, 250)]).astype(dtype)  # many ties, and few
    if x.dtype.kind == "f":
        x = np.where(rng.random(x.shape) < 0.3, -x, x)  # zeros of both signs are equal
        x[1, rng.integers(size, size=2)] = np.nan
        x[0, : size // 2] = -np.inf
    x = np.where(x == 249, np.iinfo(dtype).max, x).astype(dtype) if x.dtype.kind != "f" else x
    geometry = wg.geometry.Sliding((taps,), stride, padding)
    params = wg.params.MaxParams(geometry)
    for edge in ("start", "end"):
        with exact_memory():
            y, places = wg.ops.OPS["max_pool"].with_indices(params, guarded(x, edge))
        for row, values, found in zip(x, y, places, strict=True):
            expected = first_winners(row, taps, stride, padding)
            assert found.tolist() == expected
            assert values.tobytes() == np.where(np.array(expected) < 0, 0, row[expected]).astype(dtype).tobytes()
