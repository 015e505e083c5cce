"""What the tests of the vectors share: the dtypes, numbers with an edge to them, and kernels written from expressions."""

import numpy as np

from windowgrad.kernels.runtime.jit import compiled
from windowgrad.kernels.vector import ops as simd
from windowgrad.kernels.vector import shuffle as lanes
from windowgrad.kernels.vector import types as vectors

FLOATS = [np.dtype(name) for name in ("float32", "float64")]
INTEGERS = [np.dtype(f"{sign}int{width}") for sign in ("", "u") for width in (8, 16, 32, 64)]
DTYPES = FLOATS + INTEGERS


def lanes_of(dtype):
    return vectors.BYTES // dtype.itemsize


def integers_of(dtype):
    """The signed dtype with as many bits."""
    return np.dtype(f"int{8 * dtype.itemsize}")


def nans(dtype):
    """Four NaN that only their bits tell apart: quiet, with a payload, negative, and signalling."""
    quiet = int(np.array(np.nan, dtype).view(integers_of(dtype)))
    sign = np.iinfo(integers_of(dtype)).min
    return np.array([quiet, quiet + 5, quiet + sign + 9, quiet - (quiet & -quiet) + 1], integers_of(dtype)).view(dtype)


def edge_values(dtype):
    """Sixteen numbers."""
    if dtype.kind == "f":
        limits = np.finfo(dtype)
        small, tiny = limits.smallest_subnormal, limits.smallest_normal
        numbers = [0.0, -0.0, 1.0, -2.75, 200.5, np.inf, -np.inf, small, -small * 3, tiny, limits.max, -limits.max]
        return np.concatenate([np.array(numbers, dtype), nans(dtype)])
    low, high = int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)
    middle = [-1, -3] if low else [high // 2 + 1, high // 2 + 2]  # all that a signed comparison takes for negative
    numbers = [0, 1, 2, 3, 7, 100, low, low + 1, low + 2, high, high - 1, high // 2, high // 3, high // 7]
    return np.array(numbers + middle, dtype)


def bits_of(x):
    return np.ascontiguousarray(x).view(integers_of(x.dtype))


def assert_same(found, expected, what, any_nan=False):
    """The same bits in every lane; with `any_nan`, one NaN is as good as another."""
    assert found.dtype == expected.dtype, what
    good = bits_of(found) == bits_of(expected)
    if any_nan:
        good |= (found != found) & (expected != expected)
    if not good.all():
        lane = tuple(np.argwhere(~good)[0].tolist())
        got, wanted = (f"{x[lane]} ({bits_of(x)[lane]:x})" for x in (found, expected))
        raise AssertionError(f"{what}: got {got}, but should be {wanted}, in lane {lane} of {found.dtype}")


def written(arguments, lines):
    """One compiled function of all the lines: compiling is what these tests pay for."""
    space = {**vars(lanes), **vars(simd), "__name__": __name__}
    exec(f"def made({arguments}):\n" + "\n".join(f"    {line}" for line in lines), space)
    return compiled(space["made"])
