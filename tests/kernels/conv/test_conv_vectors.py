"""Convolution where vectors are half as long: what is chosen for one CPU holds on others."""

import platform

from support.interpreter import fresh
from support.paths import TESTS

PLAIN = {"NUMBA_CPU_NAME": "x86-64", "NUMBA_CPU_FEATURES": "+sse2,+cx8,+fxsr,+mmx,+x87"}
"""The least x86 there is, with vectors of 16 bytes; other processors than these have them anyway, or are not told."""

CODE = f"""
import sys
sys.path.insert(0, {str(TESTS)!r})
import numpy as np
from support.guarded import exact_memory, guarded
from windowgrad.geometry import Sliding
from windowgrad.kernels.conv.kept import Kept
from windowgrad.kernels.vector.registers import WIDE_BYTES
from windowgrad.ops import OPS
from windowgrad.params import ConvParams

rng = np.random.default_rng(0)
for images, ins, outs in ((1, 8, 13), (2, 7, 13), (2, 6, 4)):
    x, g = (rng.integers(-3, 4, (images, n, 5, 7)).astype(np.float64) for n in (ins, outs))
    w = rng.integers(-3, 4, (outs, ins, 1, 1)).astype(np.float64)
    _, gw = OPS["conv"].vjp(ConvParams(Sliding((1, 1), 1)), x, w, g, needs=(False, True))
    assert (gw[:, :, 0, 0] == np.einsum("nohw,nchw->oc", g, x)).all()
params = ConvParams(Sliding((3, 3), 2, 1), 24)
x, w = rng.integers(-3, 4, (1, 24, 7, 9)).astype(np.float64), rng.integers(-3, 4, (24, 1, 3, 3)).astype(np.float64)
g = rng.integers(-3, 4, params.out_shape(x.shape, w.shape)).astype(np.float64)
met = np.lib.stride_tricks.sliding_window_view(np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1))), (3, 3), (2, 3))[:, :, ::2, ::2]
assert (OPS["conv"].forward(params, x, w) == np.einsum("nchwij,cij->nchw", met, w[:, 0])).all()
gx, gw = OPS["conv"].vjp(params, x, w, g)
assert (gw[:, 0] == np.einsum("nchwij,nchw->cij", met, g)).all()
assert (gx * x).sum() == (gw * w).sum()  # both are the sum of all products of x, w and g
few = rng.integers(-3, 4, (1, 3, 4, 5)).astype(np.float64)
_, gw = OPS["conv"].vjp(ConvParams(Sliding((3, 3), 2, 1)), x, np.zeros((3, 24, 3, 3)), few, needs=(False, True))
assert (gw == np.einsum("nchwij,nohw->ocij", met, few)).all()
rows, x = rng.integers(-3, 4, (129, 40, 1, 1)).astype(np.float64), rng.integers(-3, 4, (1, 40, 3, 3)).astype(np.float64)
with exact_memory(poison=0xFF):
    y, _ = Kept(ConvParams(Sliding((1, 1), 1)), rows, None, None)(guarded(x), None)
assert (y == np.einsum("nchw,oc->nohw", x, rows[:, :, 0, 0])).all()
print(WIDE_BYTES)
"""


def test_float64_is_exact_with_vectors_of_16_bytes():
    """A panel is no multiple of the rows that are turned around at once: in gradients of weights, and of a kept weight.

    Planes in lanes and few rows are exact too.
    """
    told = PLAIN if platform.machine() in ("x86_64", "AMD64") else {}
    assert fresh(CODE, seconds=300, **told).strip() == "16"  # its kernels are compiled once more
