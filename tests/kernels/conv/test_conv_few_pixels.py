"""Gradients of few pixels: weights that are read where they stand, and sums put in place, touch nothing beside their arrays."""

from support.interpreter import fresh
from support.paths import TESTS
from windowgrad.kernels.vector.registers import ROWS, VECTORS, WIDE_BYTES

LANES = WIDE_BYTES // 4
PANEL = VECTORS * LANES
SHAPES = [
    # channels, rows, kernel, stride, padding, plane, groups
    (PANEL, ROWS, (1,), 1, 0, (5,), 1),
    (PANEL + 5, ROWS + 3, (1,), 1, 0, (7,), 1),
    (6, 2 * ROWS + 1, (3, 3), 1, 1, (2, 3), 1),
    (7, 5 * ROWS + 2, (3, 3), 2, 1, (7, 7), 1),
    (5, 60, (3, 3), 1, 1, (7, 7), 1),
    (12, 50, (3, 3, 3), 2, 1, (3, 4, 5), 2),
    (9, LANES + 3, (2, 5), 3, 2, (4, 9), 1),
]
GUARDED = f"""
import sys
sys.path.insert(0, {str(TESTS)!r})
import numpy as np
from support.guarded import exact_memory, guarded
from windowgrad.geometry import Sliding
from windowgrad.kernels.conv.choose import grouped
from windowgrad.kernels.conv.exact import INPUT, WEIGHT
from windowgrad.kernels.conv.gemm.layout import joined_layouts
from windowgrad.kernels.runtime import threads
from windowgrad.ops import OPS
from windowgrad.params import ConvParams

threads.LEAST_WORK, op, seen, joined = 0, OPS["conv"], set(), False
for channels, rows, kernel, stride, padding, plane, groups in {SHAPES!r}:
    params, rng = ConvParams(Sliding(kernel, stride, padding), groups), np.random.default_rng(channels)
    for dtype in (np.float32, np.float64):
        shape = (1, channels, *plane), (rows, channels // groups, *kernel)
        x, w = (rng.integers(-3, 4, each).astype(dtype) for each in shape)
        conv, out = grouped(params, *shape)
        g = rng.integers(-3, 4, out).astype(dtype)
        seen.add(conv.chosen(WEIGHT, x.itemsize)[0].name)
        joined = joined or joined_layouts(conv.told(INPUT), x.itemsize) is not None
        gx, gw = np.zeros_like(x), np.zeros_like(w)
        conv.exactly(INPUT, gx.ravel(), w.ravel(), g.ravel())
        conv.exactly(WEIGHT, x.ravel(), gw.ravel(), g.ravel())
        for at in ("start", "end"):
            for threads.chosen in (1, 3):
                with exact_memory(at=at, poison=0xFF):
                    found = op.vjp(params, *(guarded(each, at=at) for each in (x, w, g)))
                assert np.array_equal(found[0], gx) and np.array_equal(found[1], gw), (shape, dtype, at)
assert "direct_weight" in seen and joined
print("well")
"""


def test_nothing_beside_the_arrays_is_read_or_written():
    assert fresh(GUARDED).split() == ["well"]
