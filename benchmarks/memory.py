"""How much memory a call takes at its peak, beyond what was there before. Run by itself it measures one large convolution.

The process's highest resident size sees every buffer, whoever allocates it: NumPy, Numba, mmap. It never falls, so what was
higher before (a compiler at work) would hide the call; `peak_extra` first fills the memory up to that height.

    python benchmarks/memory.py
"""

from __future__ import annotations

import json
import resource
import sys
from collections.abc import Callable

import numpy as np

import windowgrad as wg

CHUNK = 1 << 18  # bytes; the accuracy of the measurement


def peak_extra(call: Callable[[], object]) -> int:
    """The bytes that the call had in use at its peak, its result included, beyond those in use before."""
    ballast, before = [], highest()
    while highest() == before:
        ballast.append(np.ones(CHUNK, np.uint8))
    before = highest()
    result = call()
    after = highest()
    del ballast, result
    return after - before


def highest() -> int:
    found = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return found if sys.platform == "darwin" else found * 1024


def convolution() -> dict[str, int]:
    """The bytes of the output, and those beyond it. A small call has compiled the kernels before."""
    rng = np.random.default_rng(0)
    x, w = (rng.standard_normal(shape, dtype=np.float32) for shape in ((16, 64, 56, 56), (64, 64, 3, 3)))
    wg.conv2d(x[:1, :, :8, :8].copy(), w, padding=1)
    name, output = "forward 64→64 3×3, 56×56, batch 16", x.nbytes
    return {f"{name}: output": output, f"{name}: beyond output": peak_extra(lambda: wg.conv2d(x, w, padding=1)) - output}


if __name__ == "__main__":
    print(json.dumps(convolution()))
