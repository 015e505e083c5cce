"""Windows of one column with padding behind their rows: those that lie in the padding see no cell."""

import numpy as np
import pytest

import windowgrad as wg
from support.guarded import exact_memory, guarded

POOLS = {"max": wg.max_pool2d, "min": wg.min_pool2d, "mean": wg.avg_pool2d}


@pytest.mark.parametrize("name", POOLS)
@pytest.mark.parametrize("rows", [1, 3, 7, 13, 40])
@pytest.mark.parametrize("dtype", ["float32", "float64", "uint8"])
def test_windows_in_the_padding_behind_a_row_are_empty(name, rows, dtype):
    """They had the cells of the next row, and those behind the array."""
    for width, behind in ((1, 3), (3, 1), (30, 40), (5000, 3)):
        x = np.random.default_rng(width).integers(1, 50, (45, width)).astype(dtype)
        padding = (rows // 2, rows // 2), (0, behind)
        with exact_memory():
            y = POOLS[name](guarded(x), (rows, 1), 1, padding)
        assert (y[:, width:] == 0).all()
        assert (y[:, :width] == POOLS[name](x, (rows, 1), 1, (rows // 2, 0))).all()
