"""How much memory a convolution takes beside its arguments: its output, and little more. Nothing of size K·N ever exists."""

import json
import subprocess
import sys

import numpy as np
import pytest

from support.interpreter import fresh
from support.paths import BENCHMARKS
from windowgrad.kernels.conv.share import Room
from windowgrad.kernels.vector.registers import WIDE_BYTES

MEBIBYTE = 1 << 20

KNOWN = f"""
import sys
sys.path.insert(0, {str(BENCHMARKS)!r})
import numba
import numpy as np
from memory import peak_extra

@numba.njit
def in_numba():
    return np.ones(20 << 17).sum()

in_numba()
np.ones(60 << 17).sum()  # was higher before, and must not hide what follows

def in_numpy():
    np.ones(30 << 17).sum()  # dies before the result is made
    return np.ones(10 << 17)

print(*(peak_extra(call) / 2**20 for call in (lambda: None, in_numpy, in_numba)))
"""


def test_the_measurement_sees_what_numpy_and_numba_allocate_and_free():
    nothing, numpy, numba = map(float, fresh(KNOWN).split())
    assert 0 <= nothing < 1
    assert 29 < numpy < 31
    assert 19 < numba < 21


def test_a_large_convolution_takes_its_output_and_at_most_16_mebibytes():
    """Batch 16, 64→64 channels, 3×3 on 56×56."""
    script = [sys.executable, str(BENCHMARKS / "memory.py")]
    output, beyond = json.loads(subprocess.run(script, capture_output=True, check=True).stdout).values()
    assert output == 4 * 16 * 64 * 56 * 56
    assert beyond <= 16 * MEBIBYTE


@pytest.mark.parametrize("count", [1000, 1 << 16])
def test_fresh_scratch_memory_has_no_denormal_numbers_of_who_had_it_before(count):
    """Tiles that are partly empty multiply what is there. With a denormal number, that takes a hundred times as long."""
    for _ in range(3):
        before = [np.full(count + WIDE_BYTES // 4, 1e-42, np.float32) for _ in range(8)]
        del before
        assert not Room().get(count, np.float32)[0].any()
