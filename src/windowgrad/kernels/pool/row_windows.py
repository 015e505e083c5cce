"""Windows of many taps along a single row that share few cells: each is read where its cells are.

For regions along one axis (`nominal`): windows of more than DIRECT taps of which at most OVERLAP see a cell, such as frames of
a signal, and adaptive bins. Combining a row with itself (`long_spans`) costs a pass for every fourth power of two, for all
cells, though few windows use them; and windows that are not all alike were added cell by cell.

As many windows as a vector has lanes are taken together: each is folded into one vector, and their lanes are combined as a
tree, which gives a vector of windows:

    window 0   a a a a | a a a a | a a . .   →   a a a a       halves of two of them in one vector, then halves of these:
    window 1   b b b b | b b b b | b b . .   →   b b b b   →   fewer than two shuffles for each window, and one division for all
    …

Measured on 64 rows of 16000 cells, AVX-512, two threads, where moving the bytes takes 50 µs, mean and maximum in µs: windows
of 16 side by side 71 and 80, by passes 249 and 210; 400 cells 160 apart 87 and 90, by passes 331 and 438; 64 cells 8 apart 208
and 282, by passes 366 and 401; 7 bins of 2286 cells 55 for the mean, cell by cell 389. The only one that is slower is a mean
over 1000 cells 125 apart, 422 and by passes 345: 64 cells at a time become float64.
"""

from __future__ import annotations

from typing import Any

from numba import types
from numba.extending import intrinsic

from windowgrad.geometry import Geometry, Sliding
from windowgrad.kernels.pool.window_spans import DIRECT
from windowgrad.kernels.runtime.jit import helper
from windowgrad.kernels.vector.loops import Combine, Emitter, mask_of
from windowgrad.kernels.vector.ops import lanes
from windowgrad.kernels.vector.types import constant, lane_order, vec

OVERLAP = 8
"""The most windows that a cell is in."""

LEAST_BINS = 17
"""Adaptive bins of fewer cells are done as their rows say: rows of few cells are taken several at once."""

CELLS = 1 << 12
"""The cells of the windows that are shared out together, about."""

TOGETHER = 8
"""Windows are shared out by multiples of so many, unless they are long."""


def nominal(geometry: Geometry, n: int) -> int:
    """The taps of a window, or about the cells of a bin, if windows over a row of n cells are done so; else 0.

    It is the same for a part of the row as for the whole, so that they have the same sums.
    """
    if geometry.rank != 1:
        return 0
    if isinstance(geometry, Sliding):
        (taps,), (stride,), (step,) = geometry.kernel, geometry.stride, geometry.dilation
        return taps if taps > DIRECT and OVERLAP * stride >= taps and step == 1 else 0
    cells = geometry.bin_size(0, n)
    return cells if cells >= LEAST_BINS else 0


def shared_out(taps: int) -> int:
    """How many windows of a row are a share of the work."""
    size = max(1, CELLS // taps)
    return size // TOGETHER * TOGETHER or size


@helper
def is_group(line: Any, windows: Any, j: int, high: int, most: int, like: Any) -> Any:
    """Whether the windows from j on are as many as a vector has lanes, and all have all their taps, at most so many."""
    last = j + lanes(like) - 1
    alike = last < high and 0 < line.taps <= most
    return alike and windows.count[j] == line.taps == windows.count[last]


def tree_of_lanes(e: Emitter, combine: Combine, vectors: list[Any]) -> Any:
    """Lane w = all lanes of vector w: the second half of them is combined with the first, again and again.

    The first half of a vector has lanes of the first windows, the second half of the others; the final order is theirs.
    """
    half = e.n // 2
    pairs, size = [(vectors[w], vectors[w + half]) for w in range(half)], half
    parts = [[*range(skip, skip + half), *range(e.n + skip, e.n + skip + half)] for skip in (0, half)]
    while True:
        orders = [lane_order(part) for part in parts]
        vectors = [combine(e, *(e.builder.shuffle_vector(a, b, order) for order in orders)) for a, b in pairs]
        if len(vectors) == 1:
            return vectors[0]
        pairs, size = list(zip(vectors[::2], vectors[1::2], strict=True)), size // 2
        places = [side + source + block for side in (0, half) for source in (0, e.n) for block in range(0, half, 2 * size)]
        parts = [[place + skip + k for place in places for k in range(size)] for skip in (0, size)]


def grouping(combine: Combine, watch: bool) -> Any:
    """group(x, at, apart, taps, like): a vector of windows of `taps` cells, the first at `at`, the next `apart` cells later.

    In the dtype of the address `like`; there are at least as many taps as lanes. If `watch`, windows may see a cell twice, and
    what is given is that vector and the mask of lanes in which a NaN was seen, by whatever window. Else the cells that miss in
    the last vector of a window are 0.
    """

    @intrinsic
    def group(typing: Any, x: Any, at: Any, apart: Any, taps: Any, like: Any) -> Any:
        v = vec(like.dtype)

        def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            e, source, (at, apart, taps) = Emitter(context, builder, like.dtype), (x, args[0]), args[1:4]
            starts, seen = [e.add(at, e.mul(apart, w)) for w in range(e.n)], e.variable(constant(mask_of(v), 0))
            folded = [e.variable(e.load(source, start)) for start in starts]

            def fold(cells: list[Any]) -> None:
                for total, cell in zip(folded, cells, strict=True):
                    before = builder.load(total)
                    if watch:
                        strange = builder.fcmp_unordered("uno", before, cell)
                        builder.store(builder.or_(builder.load(seen), strange), seen)
                    builder.store(combine(e, before, cell), total)

            def whole(i: Any) -> list[Any]:
                return [e.load(source, e.add(start, i)) for start in starts]

            with e.steps(e.int(e.n), e.add(taps, 1 - e.n), e.int(e.n)) as i:
                fold(whole(i))
            if watch:
                fold(whole(builder.sub(taps, e.int(e.n))))
            else:
                left = builder.and_(taps, e.int(e.n - 1))
                with builder.if_then(e.less(e.int(0), left)):
                    done = builder.sub(taps, left)
                    fold([e.load_first(source, e.add(start, done), left) for start in starts])
            result = tree_of_lanes(e, combine, [builder.load(total) for total in folded])
            return context.make_tuple(builder, signature.return_type, [result, builder.load(seen)]) if watch else result

        whole_number, result = types.intp, types.Tuple((v, mask_of(v))) if watch else v
        return result(x, whole_number, whole_number, whole_number, like), emit

    return group
