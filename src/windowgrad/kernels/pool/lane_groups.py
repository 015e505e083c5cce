"""Small planes in groups: as many as a vector has lanes, turned around so that the cells at one place are one vector.

    planes   a a a a …      cells   a b c d | a b c d | …       outputs   a b c d | …      planes   a a …
             b b b b …   →                                  →                          →            b b …
             c c c c …
             d d d d …

If the last planes are too few to fill a vector, they are done with some before them, which are not written once more: another
thread may be writing them.
"""

from __future__ import annotations

from typing import Any

from windowgrad.kernels.runtime.jit import helper
from windowgrad.kernels.vector.ops import lanes, later
from windowgrad.kernels.vector.transpose import turn_out
from windowgrad.kernels.vector.types import lanes_of

CELLS = 1 << 12
"""The most cells of a plane: those of as many planes as a vector has lanes stay in the second cache."""


def groups_of(planes: int, itemsize: int) -> int:
    """How many times planes are taken."""
    return -(-planes // lanes_of(itemsize))


@helper
def hand_out(y: Any, group: int, planes: int, given: Any, size: int, spare: Any, zero: Any) -> None:
    """The planes of a group, of `size` cells each, without those that belong to the group before; `spare` has room for all."""
    n = lanes(zero)
    plane = min(group * n, planes - n)
    if plane == group * n:
        turn_out(later(y, plane * size), given, size, zero)
    else:
        turn_out(spare, given, size, zero)
        for i in range((group * n - plane) * size, n * size):
            y[plane * size + i] = spare[i]
