"""What the laws are tried on: geometries of every kind, the parameters of every operator, and cells to compute with.

A kind of cells (`fractions()`, `tied()`, …) is a function from a count to a strategy of that many. Cells are read from the
bytes of one draw, which is fast to generate and shrinks to the first value of the pool.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from decimal import Decimal
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
from hypothesis import strategies as st

from support import oracle
from windowgrad.geometry import Adaptive, Geometry, Global, Sliding
from windowgrad.params import (
    BORDERS,
    DUPLICATES,
    TIES,
    ConvParams,
    ExtendParams,
    LpParams,
    MaxParams,
    MeanParams,
    MinParams,
    PadParams,
    SharpParams,
    SmoothParams,
    TransposeParams,
    UnpadParams,
    UnpoolParams,
)
from windowgrad.spec import Op

Cells = Callable[[int], st.SearchStrategy[list[Any]]]
Shapes = tuple[tuple[int, ...], ...]

# By rank: the longest axis, the most cells, the largest kernel, dilation and padding, the most outputs on an axis.
# A window may be all padding, and padding may exceed half the kernel, in every rank.
LONGEST = {1: 9, 2: 6, 3: 4, 4: 3, 5: 3}
MOST = {1: 9, 2: 30, 3: 40, 4: 40, 5: 40}
KERNEL = {1: 4, 2: 3, 3: 3, 4: 2, 5: 2}
DILATION = {1: 3, 2: 3, 3: 2, 4: 2, 5: 2}
PADDING = {1: 5, 2: 4, 3: 2, 4: 2, 5: 2}
OUTPUTS = {1: 12, 2: 6, 3: 4, 4: 3, 5: 2}


# --- cells -------------------------------------------------------------------------------------------------------


def pool(values: Sequence[Any]) -> Cells:
    """Cells that are some of `values`, all of them equally likely."""
    return lambda count: st.binary(min_size=count, max_size=count).map(lambda drawn: [values[b % len(values)] for b in drawn])


def fractions() -> Cells:
    """Fractions with few prime factors, so that sums stay short; ties happen."""
    return pool(sorted({Fraction(n, d) for n in range(-9, 10) for d in (1, 2, 3, 5, 7)}, key=lambda q: (abs(q), q)))


def tied() -> Cells:
    """Three fractions only: nearly every window has a tie."""
    return pool([Fraction(0), Fraction(1, 2), Fraction(-1, 3)])


def distinct() -> Cells:
    """Distinct fractions in any order: no window has a tie."""

    def ranked(keys: bytes) -> list[Fraction]:
        order = sorted(range(len(keys)), key=keys.__getitem__)
        return [Fraction(rank - len(keys) // 2, 3) for rank in np.argsort(order).tolist()]

    return lambda count: st.binary(min_size=count, max_size=count).map(ranked)


def small_ints() -> Cells:
    return pool([0, 1, -1, 2, -2, 3, -3, 4, 5, -6, 7])


def mapped(kind: Cells, change: Callable[[Any], Any]) -> Cells:
    """The same cells as another scalar."""
    return lambda count: kind(count).map(lambda values: [change(value) for value in values])


def decimals() -> Cells:
    """Fractions as decimals, to the precision of the context they are drawn in."""
    return mapped(fractions(), lambda q: Decimal(q.numerator) / Decimal(q.denominator))


def floats_with_nan() -> Cells:
    return pool([0.0, 1.0, -1.0, float("nan"), -2.0, 2.0])


@st.composite
def arrays(draw: st.DrawFn, shape: Sequence[int], scalars: Cells) -> Any:
    """A grid of objects."""
    grid = np.empty(int(np.prod(shape, dtype=int)), dtype=object)
    grid[:] = draw(scalars(grid.size))
    return grid.reshape(tuple(shape))


def whole_numbers(shape: Sequence[int]) -> st.SearchStrategy[Any]:
    """Machine integers from −64 to 63."""
    count = int(np.prod(shape, dtype=int))
    return st.binary(min_size=count, max_size=count).map(lambda drawn: np.frombuffer(drawn, np.int8).reshape(shape) // 2)


# --- geometries --------------------------------------------------------------------------------------------------


@st.composite
def spatial_sizes(draw: st.DrawFn, rank: int) -> tuple[int, ...]:
    sizes: list[int] = []
    for _ in range(rank):
        sizes.append(draw(st.integers(1, min(LONGEST[rank], MOST[rank] // int(np.prod(sizes, dtype=int))))))
    return tuple(sizes)


Axis = tuple[int, int, tuple[int, int], int, bool]


@cache
def axes(rank: int, n: int, full: bool) -> list[list[Axis]]:
    """Every (kernel, stride, padding, dilation, ceil_mode) that fits an axis of length n, dealt by what its windows cover.

    Drawn one by one, parameters that must meet (ceil mode, and a stride that leaves a rest) hardly ever do; so an axis is
    drawn by kind: with overhang or without, with padding or without, with a window that is all padding or without (`full`:
    always without). From rank 2 on some window sees a cell, else nearly everything would be empty.
    """
    pads = range(PADDING[rank] + 1)
    sides = itertools.product(range(1, KERNEL[rank] + 1), range(1, 5), pads, pads, range(1, DILATION[rank] + 1), (False, True))
    kinds: dict[Any, list[Axis]] = {}
    for k, s, lo, hi, d, ceil in sides:
        if d * (k - 1) < n + lo + hi and (n + lo + hi - d * (k - 1) - 1) // s + 1 <= OUTPUTS[rank]:
            seen = oracle.line(Sliding((k,), s, ((lo, hi),), d, ceil), 0, n)
            empty = [all(isinstance(cell, str) for cell in window) for window in seen]
            covers = [any(what in window for window in seen) for what in ("overhang", "pad")]
            if not (any(empty) if full else rank > 1 and all(empty)):
                kinds.setdefault((*covers, any(empty)), []).append((k, s, (lo, hi), d, ceil))
    return [sorted(kinds[kind], key=simplicity) for kind in sorted(kinds)]


def simplicity(axis: Axis) -> int:
    """Failing examples shrink to the axis with the smallest numbers."""
    k, s, padding, d, ceil = axis
    return k + s + sum(padding) + d + ceil


@st.composite
def slidings(draw: st.DrawFn, spatial: Sequence[int], ceil: bool = True, full: bool = False) -> Sliding:
    """Windows that fit an input of these sizes, every parameter drawn per axis."""
    drawn = [draw(st.sampled_from(draw(st.sampled_from(axes(len(spatial), n, full))))) for n in spatial]
    kernel, stride, padding, dilation, ceil_mode = zip(*drawn, strict=True)
    return Sliding(kernel, stride, padding, dilation, ceil_mode if ceil else False)


def adaptives(spatial: Sequence[int]) -> st.SearchStrategy[Adaptive]:
    """Bins, also more of them than there are cells; None keeps the axis."""
    sizes = (st.none() | st.integers(1, min(n + 2, OUTPUTS[len(spatial)] + 1)) for n in spatial)
    return st.tuples(*sizes).map(Adaptive)


def geometries(spatial: Sequence[int]) -> st.SearchStrategy[Geometry]:
    """Windows more often than bins or everything: they have the most to go wrong."""
    everything = st.builds(Global, st.just(len(spatial)), st.booleans())
    return st.sampled_from([slidings(spatial)] * 3 + [adaptives(spatial), everything]).flatmap(lambda kind: kind)


ranks = st.integers(1, 5)


# --- operators ---------------------------------------------------------------------------------------------------


def leads() -> st.SearchStrategy[list[int]]:
    """Zero, one or two leading axes."""
    return st.lists(st.integers(1, 2), max_size=2)


@st.composite
def pooled(draw: st.DrawFn, params: Callable[[Geometry], st.SearchStrategy[Any]]) -> tuple[Any, Shapes]:
    spatial = draw(spatial_sizes(draw(ranks)))
    return draw(params(draw(geometries(spatial)))), ((*draw(leads()), *spatial),)


# Drawn, not built by a lambda: then a failing example prints the whole record.


@st.composite
def max_params(draw: st.DrawFn, geometry: Geometry) -> MaxParams:
    return MaxParams(geometry, draw(st.sampled_from(TIES)))


@st.composite
def min_params(draw: st.DrawFn, geometry: Geometry) -> MinParams:
    return MinParams(geometry, draw(st.sampled_from(TIES)))


@st.composite
def mean_params(draw: st.DrawFn, geometry: Geometry) -> MeanParams:
    return MeanParams(geometry, draw(st.booleans()), draw(st.sampled_from([None, None, None, 1, 3, 7])))


@st.composite
def smooth_params(draw: st.DrawFn, geometry: Geometry) -> SmoothParams:
    return SmoothParams(geometry, draw(st.sampled_from([1, 2, 5, -1, -3])), draw(st.booleans()))


@st.composite
def lp_params(draw: st.DrawFn, geometry: Geometry) -> LpParams:
    return LpParams(geometry, draw(st.sampled_from([1, 2, 3, 2.5])))


@st.composite
def sharpened(draw: st.DrawFn) -> tuple[SharpParams, Shapes]:
    params, (shape,) = draw(pooled(smooth_params))
    lead = shape[: len(shape) - params.geometry.rank]
    channels = lead[-1:] if lead and draw(st.booleans()) else ()
    return SharpParams(params.geometry, params.count_include_pad), (shape, channels)


def biased(draw: st.DrawFn, x: Sequence[int], w: Sequence[int], channels: int) -> Shapes:
    """The shapes of x and weight, and a bias or none."""
    return (tuple(x), tuple(w), (channels,)) if draw(st.booleans()) else (tuple(x), tuple(w))


@st.composite
def convolutions(draw: st.DrawFn) -> tuple[ConvParams, Shapes]:
    spatial = draw(spatial_sizes(draw(ranks)))
    window = draw(slidings(spatial))
    groups, ins, outs = (draw(st.integers(1, 2)) for _ in range(3))
    batch = draw(st.lists(st.integers(1, 2), max_size=1))
    x, w = (*batch, groups * ins, *spatial), (groups * outs, ins, *window.kernel)
    return ConvParams(window, groups), biased(draw, x, w, groups * outs)


@st.composite
def transposed_convolutions(draw: st.DrawFn) -> tuple[TransposeParams, Shapes]:
    """Made from the convolution it is the adjoint of, so that every output size is possible."""
    target = draw(spatial_sizes(draw(ranks)))
    window = draw(slidings(target, ceil=False))
    spatial = window.grid(target)
    groups, ins, outs = (draw(st.integers(1, 2)) for _ in range(3))
    batch = draw(st.lists(st.integers(1, 2), max_size=1))
    x, w = (*batch, groups * ins, *spatial), (groups * ins, outs, *window.kernel)
    return TransposeParams(window, groups, remainder(window, target)), biased(draw, x, w, groups * outs)


def remainder(window: Sliding, spatial: Sequence[int]) -> tuple[int, ...]:
    """The output_padding that gives back `spatial`: how many cells at the end no window reaches."""
    sides = zip(spatial, window.kernel, window.stride, window.padding, window.dilation, strict=True)
    return tuple((n + lo + hi - d * (k - 1) - 1) % s for n, k, s, (lo, hi), d in sides)


@st.composite
def paddings(draw: st.DrawFn, kind: type[PadParams]) -> tuple[PadParams, Shapes]:
    spatial = draw(spatial_sizes(draw(ranks)))
    padding = [draw(st.tuples(st.integers(0, 2), st.integers(0, 2))) for _ in spatial]
    grown = tuple(n + lo + hi for n, (lo, hi) in zip(spatial, padding, strict=True))
    return kind(padding), ((*draw(leads()), *(grown if kind is UnpadParams else spatial)),)


@st.composite
def extensions(draw: st.DrawFn) -> tuple[ExtendParams, Shapes]:
    """Borders that go around several times among them."""
    spatial = draw(spatial_sizes(draw(st.integers(1, 3))))
    most = 9 if len(spatial) == 1 else 4
    padding: Any = [draw(st.tuples(st.integers(0, most), st.integers(0, most))) for _ in spatial]
    mode = draw(st.sampled_from(BORDERS))
    value = draw(st.sampled_from([0, 1])) if mode == "constant" else 0
    return ExtendParams(padding, mode, value), ((*draw(leads()), *spatial),)


@st.composite
def unpoolings(draw: st.DrawFn) -> tuple[UnpoolParams, Shapes]:
    target = draw(spatial_sizes(draw(st.integers(1, 3))))
    window = draw(slidings(target, ceil=False).filter(lambda window: set(window.dilation) == {1}))
    has_default = all(n > rest for n, rest in zip(target, remainder(window, target), strict=True))
    size = draw(st.sampled_from([None, target])) if has_default else target
    shape = (*draw(leads()), *window.grid(target))
    return UnpoolParams(window, size, draw(st.sampled_from(DUPLICATES))), (shape, shape)


@st.composite
def indices(draw: st.DrawFn, params: UnpoolParams, shape: Sequence[int]) -> Any:
    """Places in the planes of the output, few of them so that some come twice, and −1."""
    plane = int(np.prod(params.out_shape(tuple(shape), tuple(shape))[len(shape) - params.window.rank :]))
    drawn = np.array(draw(pool(range(-1, 120))(int(np.prod(shape)))), dtype=np.int64).reshape(tuple(shape))
    return np.where(drawn < 0, -1, drawn % min(plane, 7) * (plane // min(plane, 7)))


SITUATIONS: dict[str, st.SearchStrategy[tuple[Any, Shapes]]] = {
    "max_pool": pooled(max_params),
    "min_pool": pooled(min_params),
    "avg_pool": pooled(mean_params),
    "smooth_max_pool": pooled(smooth_params),
    "lp_pool": pooled(lp_params),
    "sharp_smooth_max_pool": sharpened(),
    "conv": convolutions(),
    "conv_transpose": transposed_convolutions(),
    "pad": paddings(PadParams),
    "extend": extensions(),
    "max_unpool": unpoolings(),
    "unpad": paddings(UnpadParams),
}
"""By operator: parameters, and shapes of the inputs they fit."""


PLAIN = Sliding((2, 2), 1, 1)
ORDINARY: dict[str, tuple[Any, Shapes]] = {
    "max_pool": (MaxParams(PLAIN), ((2, 3, 4, 5),)),
    "min_pool": (MinParams(PLAIN), ((2, 3, 4, 5),)),
    "avg_pool": (MeanParams(PLAIN), ((2, 3, 4, 5),)),
    "smooth_max_pool": (SmoothParams(PLAIN, 2), ((2, 3, 4, 5),)),
    "lp_pool": (LpParams(PLAIN, 2), ((2, 3, 4, 5),)),
    "sharp_smooth_max_pool": (SharpParams(PLAIN), ((2, 3, 4, 5), (3,))),
    "conv": (ConvParams(PLAIN), ((2, 3, 4, 5), (6, 3, 2, 2), (6,))),
    "conv_transpose": (TransposeParams(PLAIN), ((2, 3, 4, 5), (3, 6, 2, 2), (6,))),
    "pad": (PadParams(((1, 2), (0, 1))), ((2, 3, 4, 5),)),
    "max_unpool": (UnpoolParams(PLAIN), ((2, 3, 4, 5), (2, 3, 4, 5))),
    "extend": (ExtendParams(((1, 2), (0, 6)), "reflect"), ((2, 3, 4, 5),)),
    "unpad": (UnpadParams(((1, 2), (0, 1))), ((2, 3, 4, 5),)),
}
"""By operator: one plain call in the plane, with a batch of two."""


def each_of(change: Callable[[Any], Any], array: Any) -> Any:
    """The array with each cell changed, also where it has no axes."""
    changed = np.empty(array.shape, dtype=object)
    changed.reshape(-1)[:] = [change(cell) for cell in array.reshape(-1)]
    return changed


@st.composite
def cases(draw: st.DrawFn, op: Op, scalars: Cells, tangents: Cells | None = None) -> tuple[Any, Any, Any, Any]:
    """(params, inputs, tangents like the inputs, gradient like the output)."""
    params, shapes = draw(SITUATIONS[op.name])
    xs, dxs = ([draw(arrays(shape, kind)) for shape in shapes] for kind in (scalars, tangents or scalars))
    if isinstance(params, SharpParams):
        xs[1] = each_of(lambda b: (b + 1 if b >= 0 else b - 1) if b == b else b, xs[1])
    if isinstance(params, UnpoolParams):
        xs[1] = draw(indices(params, shapes[1]))
    return params, xs, dxs, draw(arrays(params.out_shape(*shapes), tangents or scalars))
