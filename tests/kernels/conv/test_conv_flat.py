"""Few channels and many rows, many channels and one row: their kernels touch nothing beside their arrays and scratch memory."""

from support.interpreter import fresh
from support.paths import TESTS
from windowgrad.kernels.conv.pointwise.ways import FEW_ROWS
from windowgrad.kernels.vector.registers import ROWS, VECTORS, WIDE_BYTES

PANEL = VECTORS * WIDE_BYTES // 4
SHAPES = {
    "short": [
        (1, 1, ROWS, 1, (PANEL + 1,)),
        (2, 3, ROWS + 1, 1, (PANEL - 1,)),
        (5, 32, 4 * ROWS + 3, 1, (5, PANEL)),
        (1, 7, 9 * ROWS, 1, (33, 33)),
        (1, 1, ROWS + 9, 3, (7, PANEL // 3)),
        (3, 3, ROWS + 30, 3, (31, 30)),
        (2, 1, ROWS + 9, 3, (1, 4, 15)),
        (1, 2, 40 * ROWS, 3, (5, 9)),
    ],
    "thin": [
        (1, 8, 1, 1, (1,)),
        (4, 2, 1, 1, (3, 5)),
        (3, 1, 2, 1, (1, PANEL)),
        (2, 17, 1, 1, (PANEL + 1,)),
        (3, 1000, 1, 1, (9, 17)),
        (1, 9, 3, 1, (5, 7)),
        (2, 33, 1, 1, (70, 71)),
    ],
}
"""images, channels, rows, kernel, plane"""
SHAPES["short" if ROWS > FEW_ROWS + 1 else "thin"] += [(3, 1, 2, 1, (6, PANEL)), (1, 3, 3, 1, (7 * PANEL - 1,))]
GUARDED = f"""
import sys
sys.path.insert(0, {str(TESTS)!r})
import numpy as np
from support.guarded import exact_memory, guarded
from windowgrad.geometry import Sliding
from windowgrad.kernels.conv.choose import grouped
from windowgrad.kernels.conv.exact import FORWARD
from windowgrad.kernels.runtime import threads
from windowgrad.ops import OPS
from windowgrad.params import ConvParams

threads.LEAST_WORK, op = 0, OPS["conv"]
for name, shapes in {SHAPES!r}.items():
    for images, channels, rows, k, plane in shapes:
        rank, rng = len(plane), np.random.default_rng(channels)
        kernel = (k if plane[0] > 1 else 1,) + (k,) * (rank - 1)
        params = ConvParams(Sliding(kernel, 1, tuple(n // 2 for n in kernel)))
        shape = (images, channels, *plane), (rows, channels, *kernel), (rows,)
        for dtype in (np.float32, np.float64):
            x, w, b = (rng.integers(-3, 4, each).astype(dtype) for each in shape)
            conv = grouped(params, x.shape, w.shape)[0]
            assert conv.chosen(FORWARD, x.itemsize)[0].name == name, (name, shape)
            wanted = np.zeros(images * rows * conv.told(FORWARD).pixels, dtype)
            conv.exactly(FORWARD, x.ravel(), w.ravel(), wanted)
            wanted = wanted.reshape(images, rows, -1) + b[:, None]
            for at in ("start", "end"):
                for threads.chosen in (1, 3):
                    with exact_memory(at=at, poison=0xFF):
                        found = op.forward(params, *(guarded(each, at=at) for each in (x, w, b)))
                    assert np.array_equal(found.reshape(wanted.shape), wanted), (name, shape, dtype, at)
print("well")
"""


def test_nothing_beside_the_arrays_is_read():
    assert fresh(GUARDED).split() == ["well"]
