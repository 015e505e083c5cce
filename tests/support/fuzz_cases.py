"""The cases that the fuzzer tries, drawn from a seed and a number: geometries that ordinary tests do not think of.

Axes of 1, 2 and 3 cells, primes, powers of two and their neighbours; strides beyond the kernel and beyond the axis; padding
beyond half the kernel and beyond all of it; dilation, ceil mode, output_padding; channels in groups, one by one, many; empty
batches; rows that are long. For every operator, rule, dtype and layout.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from support import dense
from support.exact import BFLOAT16, DTYPES, FLOATS
from support.fuzz_draws import Random, Shape, chance, geometry, leads, one_of, rank_of, sizes, sliding
from windowgrad.autograd.arrays.normalise import NormaliseParams
from windowgrad.autograd.arrays.records import EachParams
from windowgrad.geometry import Sliding
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
    Params,
    SmoothParams,
    TransposeParams,
    UnpadParams,
    UnpoolParams,
)

OPERATORS = {
    "max_pool": 5,
    "min_pool": 2,
    "avg_pool": 3,
    "smooth_max_pool": 2,
    "lp_pool": 2,
    "conv": 5,
    "conv_transpose": 4,
    "pad": 0.5,
    "extend": 0.5,
    "unpad": 0.5,
    "relu": 0.5,
    "max_unpool": 1,
    "batch_norm": 1,
}
POOLINGS = ("max_pool", "min_pool", "avg_pool", "smooth_max_pool", "lp_pool")
"""Those that take a mask."""
LAYOUTS = ("C", "Fortran", "channels last", "negative", "stepped")
THREADS = (1, 2, 3, 7)
TANGENTS = [np.dtype(name) for name in ("float32", "float64", "int8", "int64")]
CHANNEL_KINDS = ("dense", "depthwise", "one each", "groups")
CHANNELS = (1, 1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 16, 17, 24, 33)
PRODUCTS = 300_000
"""How many (output, tap) pairs of all planes or channels a case has at most, so that it is quick to compute."""


@dataclass(frozen=True)
class Case:
    """One call of one rule, with the layouts, guards and threads to call it with a second time."""

    op: str
    rule: str
    params: Params
    shapes: tuple[Shape, ...]
    dtype: np.dtype[Any]
    given: np.dtype[Any]
    """The dtype of tangents or of the gradient."""
    values: str
    layouts: tuple[str, ...]
    sides: tuple[str, str]
    threads: int
    out: str | None
    """The layout of the array that the second call writes to."""
    small_blocks: bool
    seed: tuple[int, ...]
    mask: Shape | None = None
    """The shape of the mask that leaves cells out, if there is one."""

    @property
    def rank(self) -> int:
        params: Any = self.params
        if isinstance(params, (EachParams, NormaliseParams)):
            return 1
        if isinstance(params, PadParams):
            return len(params.padding)
        return params.window.rank if isinstance(params, (ConvParams, UnpoolParams)) else params.geometry.rank  # type: ignore[no-any-return]

    def __str__(self) -> str:
        arrays = ", ".join(f"{self.dtype}{shape}" for shape in self.shapes)
        given = f", {self.given} beside" if self.rule in ("jvp", "vjp") else ""
        out = f", out in {self.out}" if self.out else ""
        blocks = ", small blocks" if self.small_blocks else ""
        mask = f", a mask of {self.mask}" if self.mask is not None else ""
        return (
            f"{self.op}.{self.rule}({self.params}, {arrays}{given}{mask}) of {self.values} values; "
            f"then {'/'.join(self.layouts)}, {self.sides[1]}, {self.threads} threads{out}{blocks}"
        )


# --- operators ---------------------------------------------------------------------------------------------------


def pooling(rng: Random, op: str) -> tuple[Params, tuple[Shape, ...]]:
    rank = rank_of(rng)
    spatial = sizes(rng, rank, one_of(rng, (30, 200, 2000)))
    if chance(rng, 0.03):
        spatial = (*spatial[:-1], int(rng.integers(300, 3000)))
    regions = geometry(rng, spatial)
    if op in ("max_pool", "min_pool"):
        params: Params = (MinParams if op == "min_pool" else MaxParams)(
            regions, one_of(rng, TIES, (3, 2, 2)), one_of(rng, ("zero", "raise"), (9, 1))
        )
    elif op == "avg_pool":
        params = MeanParams(regions, chance(rng, 0.6), one_of(rng, (None, 1, 3, 7), (7, 1, 1, 1)))
    elif op == "lp_pool":
        params = LpParams(regions, one_of(rng, (1, 2, 3, 2.5, 11)))
    else:
        params = SmoothParams(regions, one_of(rng, (1, 2.5, 5, -1, -3, 0.1)), chance(rng, 0.6))
    return params, ((*leads(rng), *spatial),)


def channels(rng: Random, recipe: str) -> tuple[int, int, int]:
    """(groups, channels of a group before, after)."""
    kind = {"pointwise": "dense", "depthwise": "depthwise"}.get(recipe) or one_of(rng, CHANNEL_KINDS, (5, 2, 1, 2))
    if kind == "depthwise":
        return int(one_of(rng, CHANNELS)) + 1, 1, 1
    if kind == "one each":
        return int(one_of(rng, (2, 3, 5))), 1, int(one_of(rng, (1, 2, 3)))
    ins, outs = (int(one_of(rng, CHANNELS[4:] if recipe == "pointwise" else CHANNELS)) for _ in "ab")
    return int(one_of(rng, (2, 3, 4))) if kind == "groups" else 1, ins, outs


def conv_window(rng: Random, spatial: Shape, recipe: str, transposed: bool) -> Sliding:
    """Any window, or one that some kernel is made for, or almost."""
    rank, ceil = len(spatial), 0 if transposed else 0.1
    if recipe == "pointwise":
        step, dilation = ([one_of(rng, (1, other), (12, 1)) for _ in spatial] for other in (2, one_of(rng, (2, 3))))
        if chance(rng, 0.4):
            dilation = [one_of(rng, (2, 3))] * rank
        return Sliding((1,) * rank, step, [one_of(rng, (0, 1), (15, 1)) for _ in spatial], dilation)
    if recipe == "depthwise":
        k = one_of(rng, (2, 3, 5, 7), (1, 5, 2, 1))
        step = [one_of(rng, (1, 2, 3), (5, 4, 1))] * rank if chance(rng, 0.7) else [one_of(rng, (1, 2, 3)) for _ in spatial]
        around = [one_of(rng, (k // 2, 0, k - 1, k), (6, 2, 1, 1)) for _ in spatial]
        around = [max(lo, -(-(k - n) // 2)) for lo, n in zip(around, spatial, strict=True)]
        return Sliding((k,) * rank, step, around)
    kernel = one_of(rng, (None, (1,) * rank, (3,) * rank, (1,) * (rank - 1) + (3,)), (5, 1, 2, 1))
    return sliding(rng, spatial, kernel, ceil, fits=not transposed)


def batch(rng: Random) -> Shape:
    return tuple(one_of(rng, ((), (1,), (2,), (3,), (0,), (2, 2)), (1, 4, 3, 1, 0.3, 0.3)))


def biased(rng: Random, x: Shape, w: Shape, outs: int) -> tuple[Shape, ...]:
    return (x, w, (outs,)) if chance(rng, 0.5) else (x, w)


def convolution(rng: Random, op: str) -> tuple[Params, tuple[Shape, ...]]:
    recipe, transposed = one_of(rng, ("any", "pointwise", "depthwise"), (4, 2, 2)), op == "conv_transpose"
    most = one_of(rng, (12, 60, 400, 1600 if recipe == "pointwise" else 400))
    spatial = sizes(rng, one_of(rng, (2, 1, 3)) if recipe == "depthwise" else rank_of(rng), most)
    window = conv_window(rng, spatial, recipe, transposed)
    groups, ins, outs = channels(rng, recipe)
    if not transposed:
        x, w = (*batch(rng), groups * ins, *spatial), (groups * outs, ins, *window.kernel)
        return ConvParams(window, groups), biased(rng, x, w, groups * outs)
    rests = [max(s, d) for s, d in zip(window.stride, window.dilation, strict=True)]
    params = TransposeParams(window, groups, tuple(int(rng.integers(0, rest)) if chance(rng, 0.4) else 0 for rest in rests))
    x, w = (*batch(rng), groups * ins, *spatial), (groups * ins, outs, *window.kernel)
    return params, biased(rng, x, w, groups * outs)


def padding(rng: Random, op: str) -> tuple[Params, tuple[Shape, ...]]:
    spatial = sizes(rng, rank_of(rng), 200)
    around = [(int(rng.integers(0, 4)), int(rng.integers(0, 4))) for _ in spatial]
    grown = tuple(n + lo + hi for n, (lo, hi) in zip(spatial, around, strict=True))
    kind = PadParams if op == "pad" else UnpadParams
    return kind(around), ((*leads(rng), *(grown if op == "unpad" else spatial)),)


def extension(rng: Random, op: str) -> tuple[Params, tuple[Shape, ...]]:
    spatial, mode = sizes(rng, rank_of(rng), 200), one_of(rng, BORDERS)
    around: Any = [tuple(int(rng.integers(0, 2 * min(n, 8) + 2)) for _ in range(2)) for n in spatial]
    return ExtendParams(around, mode, int(rng.integers(0, 2)) if mode == "constant" else 0), ((*leads(rng), *spatial),)


def elementwise(rng: Random, op: str) -> tuple[Params, tuple[Shape, ...]]:
    return EachParams(), ((*leads(rng), *sizes(rng, rank_of(rng), 2000)),)


def unpooling(rng: Random, op: str) -> tuple[Params, tuple[Shape, ...]]:
    spatial = sizes(rng, rank_of(rng), 200)
    window = Sliding([int(rng.integers(1, 4)) for _ in spatial], [int(rng.integers(1, 4)) for _ in spatial])
    size = tuple(int(rng.integers(1, n + 4)) for n in spatial) if chance(rng, 0.4) else None
    x = (*leads(rng), *spatial)
    return UnpoolParams(window, size, one_of(rng, DUPLICATES)), (x, x)


def normalisation(rng: Random, op: str) -> tuple[Params, tuple[Shape, ...]]:
    shape = sizes(rng, one_of(rng, (1, 2, 3, 4)), 3000)
    axis = int(rng.integers(len(shape)))
    return NormaliseParams(axis, one_of(rng, (0.01, 1.0))), (shape, shape[axis : axis + 1], shape[axis : axis + 1])


def mask(rng: Random, shape: Shape) -> Shape:
    """A shape that broadcasts to x: all of it, the last axes, some of length 1."""
    last = int(rng.integers(0, len(shape) + 1)) if chance(rng, 0.5) else 0
    return tuple(1 if chance(rng, 0.2) else n for n in shape[last:])


DRAWN = {
    "conv": convolution,
    "conv_transpose": convolution,
    "pad": padding,
    "extend": extension,
    "unpad": padding,
    "relu": elementwise,
    "max_unpool": unpooling,
    "batch_norm": normalisation,
}
LIKE_X = ("relu", "batch_norm")
"""Operators whose derivatives have the dtype of what they are given."""


def is_small(op: str, params: Any, shapes: tuple[Shape, ...]) -> bool:
    """Whether it has an output, and is quick to compute."""
    try:
        out = params.out_shape(*shapes)
    except ValueError:
        return False
    if max(math.prod(out), math.prod(shapes[0])) > 30_000:
        return False
    if op in ("pad", "extend", "unpad", "relu", "max_unpool", "batch_norm"):
        return True
    if op in ("conv", "conv_transpose"):
        pixels = math.prod(max(1, n) for n in (out if op == "conv" else shapes[0]))  # the weight of an empty batch is made too
        return pixels * math.prod(shapes[1][1:]) <= PRODUCTS
    spatial = shapes[0][len(shapes[0]) - params.geometry.rank :]
    taps = math.prod(dense.axis_cells(params.geometry, axis, n).shape[1] for axis, n in enumerate(spatial))
    return math.prod(max(1, n) for n in out) * taps <= PRODUCTS  # an empty batch too: the reference lists the taps of a plane


def dtypes(rng: Random) -> tuple[Any, Any]:
    dtype = one_of(rng, (np.dtype(np.float32), np.dtype(np.float64), np.dtype(np.float16), BFLOAT16, None), (5, 2, 1, 1, 2))
    if dtype is None:
        dtype = one_of(rng, DTYPES[:9])
    return dtype, one_of(rng, [dtype, dtype, *TANGENTS] if dtype in FLOATS else TANGENTS)


def draw(seed: int, number: int, only: str | None = None) -> Case:
    """Case `number` of a seed."""
    key = (seed, number)
    rng = np.random.default_rng(key)
    op = only or one_of(rng, list(OPERATORS), list(OPERATORS.values()))
    rules = ("forward", "jvp", "vjp", *(("with_indices",) if op in ("max_pool", "min_pool") else ()))
    rules = ("forward", "vjp") if op == "batch_norm" else rules  # its jvp has no kernel
    rule, (dtype, given) = one_of(rng, rules), dtypes(rng)
    params, shapes = DRAWN.get(op, pooling)(rng, op)
    while not is_small(op, params, shapes):
        params, shapes = DRAWN.get(op, pooling)(rng, op)
    arrays = {"jvp": 2 * len(shapes), "vjp": len(shapes) + 1}.get(rule, len(shapes))
    given = dtype if op in LIKE_X else given
    writes = op not in LIKE_X and rule in ("forward", "with_indices") and chance(rng, 0.5)
    return Case(
        op=op,
        rule=rule,
        params=params,
        shapes=shapes,
        dtype=dtype,
        given=given,
        values=one_of(rng, ("whole", "tied", "wild"), (5, 2, 2)),
        layouts=tuple(one_of(rng, LAYOUTS, (2, 1, 1, 1, 1)) for _ in range(arrays)),
        sides=("end", "start") if chance(rng, 0.5) else ("start", "end"),
        threads=one_of(rng, THREADS),
        out=one_of(rng, LAYOUTS, (4, 1, 1, 1, 1)) if writes else None,
        small_blocks=chance(rng, 0.2),
        seed=key,
        mask=mask(rng, shapes[0]) if op in POOLINGS and chance(rng, 0.25) else None,
    )
