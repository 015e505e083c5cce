"""One direction of a convolution: what the kernels of its forward pass, or of its input gradient, are told of the shapes."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, NamedTuple

import numpy as np

from windowgrad.geometry import Sliding
from windowgrad.kernels.conv.depthwise import boxes
from windowgrad.kernels.conv.depthwise.boxes import Planes
from windowgrad.kernels.conv.plan import Array, Gather, Shape, backwards, forwards

WORK = 2
"""Products that take as long as a byte of other work, for the choice of threads."""


@dataclass(frozen=True, eq=False)
class Pass:
    """y[image, group, row] = the sum over the channels of the group and over the taps of w · x[image, group, channel].

    Planes of x have the shape `size`, planes of y the shape `grid`. `back`: this is the input gradient, so `size` is the grid
    of the window, and a row of y is a channel of the convolution. All sizes are at least 1, and the geometry is regular
    (`plan.is_regular`). The weight gradient is told of the forward pass.
    """

    window: Sliding
    back: bool
    images: int
    groups: int
    rows: int
    channels: int
    size: Shape
    grid: Shape

    @cached_property
    def cells(self) -> int:
        """Of a plane of x."""
        return math.prod(self.size)

    @cached_property
    def pixels(self) -> int:
        """Of a plane of y."""
        return math.prod(self.grid)

    @cached_property
    def taps(self) -> int:
        return math.prod(self.window.kernel)

    @cached_property
    def work(self) -> int:
        outputs = self.cells if self.back else self.pixels
        return self.images * self.groups * self.rows * self.channels * outputs * self.taps // WORK

    @cached_property
    def by_planes(self) -> bool:
        """Whether each plane of y comes from one plane of x."""
        return self.rows == self.channels == 1

    @cached_property
    def sizes(self) -> Shape:
        """As kernels name them: see `records.Sizes`."""
        return self.images, self.groups, self.rows, self.channels, self.cells, self.pixels

    @cached_property
    def weight(self) -> Shape:
        """How far groups, rows and channels lie apart in the weight."""
        group = self.rows * self.channels * self.taps
        return (group, self.taps, self.rows * self.taps) if self.back else (group, self.channels * self.taps, self.taps)

    @cached_property
    def gathers(self) -> tuple[Gather, ...]:
        """The grids of pixels that meet a tap; together they are `pixels` or, in an input gradient, fewer."""
        if self.back:
            return backwards(self.window, self.grid, self.size)
        return (forwards(self.window, self.size, self.grid),)

    @cached_property
    def has_unseen(self) -> bool:
        """Whether some pixels meet no tap."""
        return sum(gather.pixels for gather in self.gathers) < self.pixels

    @cached_property
    def planes(self) -> Planes | None:
        """How a plane is convolved in a box; None where the box would be too large."""
        size, grid = (self.grid, self.size) if self.back else (self.size, self.grid)
        return boxes.plan(self.window, size, grid, self.back)


def fill_unseen(one: Pass, bias: Array, y: Array, adds: bool) -> None:
    """The pixels that meet no tap have the bias only, added to an empty sum: 0.0 if it is −0.0."""
    if one.has_unseen and not adds:
        y.reshape(-1, len(bias), one.pixels)[...] = bias[:, None] + 0.0


class End(NamedTuple):
    """How a convolution ends: what `beside` has is added, if it has cells, then sums are from limits[0] to limits[1]."""

    beside: Array
    limits: Array


@cache
def as_they_are(dtype: Any) -> End:
    """No end: sums stay what they are."""
    return End(np.empty(0, dtype), np.array([-np.inf, np.inf], dtype))


LIMITED, JOINED = 1, 2
"""What a way can end with: limits; limits and what stands beside."""


class Way(NamedTuple):
    """A kernel, and the condition on which it may be used.

    `holds(pass, itemsize)` is the condition: it is enough for the kernel to stay within its arrays and to give the sums of
    the definition. `compute(pass, x, w, bias, y, adds)` computes y and gives its strange lanes (see HUGE); what it `adds` to y
    has a bias of zeros. Of a weight gradient it gets x, g, an empty bias and gw, and does not add. `worth`: whether it is
    then faster than what follows it in its table.

    `ready(pass, dtype)`: the same as a function of x, w, bias and y alone, if much of it can be done before; else None. Of
    strange lanes it may leave out those of a result that a review leaves as it is (see `entry.py`).
    `kept(pass, w, bias, packed)`: the same as a function of x, y and an `End`, for a weight that never changes; `packed` is a
    place for what is made of it. `ends`: LIMITED or JOINED, what that function can do; 0 if there is none.
    """

    name: str
    holds: Callable[[Pass, int], bool]
    compute: Callable[..., int]
    worth: Callable[[Pass], bool] = lambda one: True
    ready: Callable[[Pass, Any], Compute | None] = lambda one, dtype: None
    ends: int = 0
    kept: Callable[[Pass, Array, Array, Packed], Ending | None] = lambda one, w, bias, packed: None


Kernel = Callable[..., Any]
Compute = Callable[[Array, Array, Array, Array], int]
Ending = Callable[[Array, Array, End], int]
Packed = dict[bytes, Array]
"""The packed weights of a convolution, by the bytes of the list of taps that each is packed for."""
