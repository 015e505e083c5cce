"""A kernel that is called by its address runs as if it were part of the caller, and its errors are the caller's."""

import numpy as np
import pytest

from windowgrad.kernels.runtime.calls import call_at
from windowgrad.kernels.runtime.jit import compiled
from windowgrad.kernels.runtime.team import address


@compiled
def scale(x, by, first, last):
    for i in range(first, last):
        x[i] *= by
    if last > len(x):
        raise ValueError("too far")


@compiled
def twice(where, x, by, last):
    call_at(where, (x, by, 0, last))
    call_at(where, (x[1:], by, 0, 1))
    return x[0]


def test_it_gets_its_arguments_and_is_not_compiled_again():
    x = np.array([1.0, 2.0, 3.0])
    where = address(scale, (x, 2.0))
    assert twice(where, x, 2.0, 2) == 2
    assert x.tolist() == [2, 8, 3]
    assert len(scale.overloads) == 1


def test_what_it_raises_ends_the_caller():
    x = np.array([1.0, 2.0, 3.0])
    with pytest.raises(ValueError, match=r"^too far$"):
        twice(address(scale, (x, 2.0)), np.zeros(6)[:3], 2.0, 4)
