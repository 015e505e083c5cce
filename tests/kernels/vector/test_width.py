"""The width of a vector is one constant: kernels compute the same where it is half as large."""

from support.interpreter import fresh

CODE = """
from windowgrad.kernels.vector import types

types.BYTES //= 2  # before any kernel is compiled, and into a cache folder of its own, which does not ask for it

import numpy as np

from windowgrad.geometry import Sliding
from windowgrad.ops import MEANINGS, OPS
from windowgrad.params import MaxParams, SmoothParams

spec = {op.name: op for op in MEANINGS}
rng = np.random.default_rng(0)
x = rng.integers(-3, 4, (2, 7, 13)).astype(np.float32)
far = x * np.float32(1000)  # too far apart for weights: summed as pairs
geometry = Sliding((3, 3), 2, 1)
g = rng.integers(-3, 4, geometry.out_shape(x.shape)).astype(np.float32)
params = MaxParams(geometry)
(gx,), (expected,) = OPS["max_pool"].vjp(params, x, g), spec["max_pool"].vjp(params, x.astype(object), g.astype(object))
assert (gx == expected.astype(np.float32)).all()
for cells in (x, far):
    params = SmoothParams(geometry, beta=1.0)
    y, (gx,) = OPS["smooth_max_pool"].forward(params, cells), OPS["smooth_max_pool"].vjp(params, cells, g)
    wide, given = cells.astype(np.float64), g.astype(np.float64)
    exact = spec["smooth_max_pool"].forward(params, wide), *spec["smooth_max_pool"].vjp(params, wide, given)
    for found, expected in zip((y, gx), exact):
        assert np.allclose(found, expected.astype(np.float64), rtol=1e-5, atol=1e-5)
print(types.BYTES)
"""


def test_pooling_computes_the_same_with_vectors_of_half_the_width(tmp_path):
    """Loops, their last steps and the room behind rows all follow from the constant."""
    assert fresh(CODE, seconds=300, WINDOWGRAD_CACHE_DIR=str(tmp_path)).strip() == "16"
