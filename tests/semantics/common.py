"""What the tests of the rules share."""

import math
from fractions import Fraction

import mpmath
import numpy as np

from windowgrad.ops import OPS

MAX, MEAN, SMOOTH, CONV = OPS["max_pool"], OPS["avg_pool"], OPS["smooth_max_pool"], OPS["conv"]
TIES = ("first", "all", "split")
INTS = ["bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"]
FLOATS = ["float16", "float32", "float64"]
nan, inf = math.nan, math.inf


def numbers(values):
    return np.array(values, dtype=np.float64)


def fractions(values):
    return np.array(values, dtype=object) + Fraction(0)


def same(results, *wanted):
    assert [result.tolist() for result in results] == list(wanted)


def bits(results):
    return [(r.shape, r.tobytes()) for r in (results if isinstance(results, tuple) else (results,))]


def smooth(cells, beta):
    """The plain formula, with 50 digits."""
    with mpmath.workdps(50):
        total = mpmath.fsum(mpmath.exp(mpmath.mpf(beta) * mpmath.mpf(float(v))) for v in cells)
        return mpmath.log(total) / beta


def within_bound(y, wanted, beta):
    with mpmath.workdps(50):
        return abs(mpmath.mpf(float(y)) - wanted) <= 4 * mpmath.mpf(2) ** -24 * max(abs(wanted), 1 / abs(mpmath.mpf(beta)))
