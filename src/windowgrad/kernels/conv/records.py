"""What belongs together has one name: the records that kernels of convolution hand to their helpers.

Python hands plain tuples to a kernel, and its first lines name them: `Sizes(*sizes)`. A NamedTuple as an argument of the
kernel itself is compiled and kept just as well, but each takes 1.4 µs longer in every call: Numba finds the type of a tuple
in C, and that of a NamedTuple in Python. Within a kernel a record costs nothing: its fields become registers.

`cells`, `list` and the like are addresses (see `ops.address`), so that nothing counts references. Matrices are in
`vector/tiles.py`.
"""

from __future__ import annotations

from typing import Any, NamedTuple


class Range(NamedTuple):
    """From `first` to before `last`: of pixels, rows, channels, taps or panels."""

    first: int
    last: int


class Sizes(NamedTuple):
    """How many there are: rows and channels of a group, `plane` the cells of a plane of x, `out_plane` those of y."""

    images: int
    groups: int
    rows: int
    channels: int
    plane: int
    out_plane: int


class InAxes(NamedTuple):
    """What pixels meet: pixel o at tap t, on each axis, the cell o · step + taps[t] of a plane of the shape `size`.

    Pixels have the shape `grid`; the taps of all axes stand together, tap by tap. The next image is `image` cells further.
    """

    rank: int
    grid: Any
    size: Any
    step: Any
    taps: Any
    image: int


class OutAxes(NamedTuple):
    """Where pixels of the shape `grid` stand: pixel o at the sum over axes of o · move; the next image is `image` further."""

    rank: int
    grid: Any
    move: Any
    image: int


class Pieces(NamedTuple):
    """So many triples at an address; what they say is told by `in_pieces` and `out_pieces`."""

    list: Any
    number: int


class Start(NamedTuple):
    """How sums begin: with bias[row], if `biased`, and with what y has, unless it is `fresh`."""

    bias: Any
    biased: bool
    fresh: bool


class Limits(NamedTuple):
    """What is below `least` becomes that, and what is above `most`."""

    least: Any
    most: Any


class Finish(NamedTuple):
    """How sums end: what `beside` has where y is stored is added, if `joined`; then they are from `least` to `most`."""

    beside: Any
    joined: bool
    least: Any
    most: Any
