"""The bits of a sample do not depend on what else is in the batch: of every operator, whatever its neighbours hold.

Sums over the batch are left out: gradients of weights, of a bias and of a β. `conv/test_conv_samples.py` has every kernel of a
convolution, `test_bits.py` layouts.
"""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from support.bits import settled
from windowgrad import dispatch, nn
from windowgrad.autograd.arrays import RELU
from windowgrad.autograd.arrays.arithmetic import EACH
from windowgrad.geometry import Adaptive, Global, Sliding
from windowgrad.ops import OPS, meaning, routed
from windowgrad.params import (
    BORDERS,
    DUPLICATES,
    TIES,
    ConvParams,
    ExtendParams,
    LpParams,
    Mask,
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

GEOMETRIES = [  # with the axes of a plane
    (Sliding((3, 3), 2, 1), (9, 11)),
    (Sliding((3, 3), 1, 1), (7, 7)),
    (Sliding((2, 2), 2), (8, 12)),
    (Sliding((3, 2), (1, 3), (3, 0), (1, 2), True), (5, 19)),
    (Sliding((1, 5), 1, (0, 2)), (3, 40)),
    (Sliding((13, 3), 1, (6, 1)), (20, 9)),
    (Sliding((7,), 2, 3), (33,)),
    (Sliding((2, 2, 2), 2, 1), (3, 4, 5)),
    (Adaptive((3, 4)), (7, 10)),
    (Global(2), (7, 7)),
    (Global(1, False), (65,)),
]
WINDOWS = [  # of a convolution: window, groups, axes, channels of the input and of the output
    (Sliding((3, 3), 1, 1), 1, (9, 7), (5, 7)),
    (Sliding((3, 3), 2, 1), 4, (9, 7), (4, 4)),
    (Sliding((5, 5), 1, 2), 5, (2, 4), (5, 5)),
    (Sliding((3, 4), (2, 1), 1), 5, (1, 11), (5, 5)),
    (Sliding((1, 1), 1), 1, (5, 5), (20, 17)),
    (Sliding((3, 2), (2, 3), (3, 0), (1, 2)), 1, (7, 11), (3, 2)),
    (Sliding((7,), 1, 3), 1, (20,), (3, 5)),
]
POOLINGS = {
    "max_pool": [lambda geometry, ties=ties: MaxParams(geometry, ties) for ties in TIES],
    "min_pool": [lambda geometry, ties=ties: MinParams(geometry, ties) for ties in TIES],
    "avg_pool": [MeanParams, lambda geometry: MeanParams(geometry, False)],
    "smooth_max_pool": [lambda geometry: SmoothParams(geometry, 1), lambda geometry: SmoothParams(geometry, -3, False)],
    "lp_pool": [lambda geometry, norm=norm: LpParams(geometry, norm) for norm in (1, 2, 2.5)],
    "sharp_smooth_max_pool": [SharpParams],
}
"""Made of a geometry. All take a mask."""


def others():
    """(name, parameters, the shape of a sample, the shapes of weight and bias) of operators that pool nothing."""
    for window, groups, axes, (ins, outs) in WINDOWS:
        w = outs, ins // groups, *window.kernel
        yield "conv", ConvParams(window, groups), (ins, *axes), (w, (outs,))
        yield "conv_transpose", TransposeParams(window, groups), (outs, *window.grid(axes)), (w, (ins,))
    for mode in BORDERS:
        yield "extend", ExtendParams(((1, 3), (0, 2)), mode), (2, 4, 5), ()
    yield "relu", EACH, (2, 4, 5), ()
    yield "pad", PadParams(((1, 3), (0, 2))), (2, 4, 5), ()
    yield "unpad", UnpadParams(((1, 1), (0, 2))), (2, 4, 5), ()
    for duplicates in DUPLICATES:
        yield "max_unpool", UnpoolParams(Sliding((2, 2), 2), None, duplicates), (2, 3, 4), ()


SPECIAL = {  # what is done to a sample of floats, of which `least` is the least number above 0
    "ordinary": lambda a, least: a,
    "NaN": lambda a, least: put(a, np.nan),
    "infinite": lambda a, least: put(a, np.inf),
    "-infinite": lambda a, least: np.where(np.arange(a.size).reshape(a.shape) % 5 < 4, -np.inf, a),
    "huge": lambda a, least: np.sign(a) * np.finfo(a.dtype).max,
    "denormal": lambda a, least: np.round(a) * least,
    "tiny": lambda a, least: a * np.sqrt(least),
    "zero": lambda a, least: np.copysign(0, a),
    "half zero": lambda a, least: np.where(np.arange(a.size).reshape(a.shape) % a.size < a.size // 2, 0, a),
    "tied": lambda a, least: np.round(a),
    "far": lambda a, least: a * 300 + 1000,
}
SIZES = 2, 3, 33
"""Of batches; samples are compared with batches of one."""


def put(a, value):
    a = a.copy()
    a.reshape(-1)[a.size // 2] = value
    return a


def samples(rng, shape, dtype, turned=0):
    """One of each kind; the kinds are `turned`, so that two arrays of a sample are of different ones."""
    kinds, least = np.roll(np.array(list(SPECIAL)), turned), np.finfo(dtype).smallest_subnormal
    drawn = rng.standard_normal((len(kinds), *shape)).astype(dtype)
    return np.stack([SPECIAL[kind](a, least).astype(dtype) for kind, a in zip(kinds, drawn, strict=True)])


def batches(count):
    """For each size some batches, as the numbers of their samples; every sample is in one of each size."""
    yield from ([i, (i + 1) % count] for i in range(0, count, 2))
    yield from ([i, (i + 1) % count, (i + 2) % count] for i in range(0, count, 3))
    yield [i % count for i in range(33)]


# --- operators ---------------------------------------------------------------------------------------------------


def results(name, params, x, rest, dx, g, where=None):
    """What the operator computes of each sample, by the rule."""
    op = routed(RELU) if name == "relu" else OPS[name]
    if where is not None:
        params = replace(params, where=Mask(where))
    moved = [np.zeros_like(a) if a.dtype.kind == "f" else a for a in rest]
    found = {
        "forward": op.forward(params, x, *rest),
        "jvp": op.jvp(params, x, *rest, dx, *moved),
        "gradient": op.vjp(params, x, *rest, g)[0],
    }
    if op.with_indices is not None:
        found["values"], found["indices"] = op.with_indices(params, x)
    if name in POOLINGS:
        found["saving"], saved = dispatch.run_saving(meaning(name), params, x, *rest)
        found["gradient of what is saved"] = dispatch.run(meaning(name), "vjp", params, x, *rest, g, saved=saved)[0]
    return found


def check(name, params, sample, dtype, shapes=(), masked=False, infinite=False):
    """Every sample by itself against the same in batches of all sizes; `infinite`: with a weight that is, in the first row."""
    rng = np.random.default_rng(3)
    x, dx = samples(rng, sample, dtype), samples(rng, sample, dtype, 2)
    rest = [rng.standard_normal(shape).astype(dtype) for shape in shapes]
    if infinite:
        rest[0].reshape(-1)[0] = np.inf
    if name == "max_unpool":
        rest = [rng.integers(-1, math.prod(params.out_shape(sample, sample)[1:]), x.shape)]
    both = (x.shape, x.shape) if name == "max_unpool" else (x.shape, *shapes)
    g = samples(rng, params.out_shape(*both)[1:], dtype, 4)  # denormal numbers are shared among cells that are tied
    where = rng.random(x.shape) < rng.choice([0, 0.4, 0.9], (len(x), *[1] * len(sample))) if masked else None
    own = name == "max_unpool"

    def of(some):
        beside = [rest[0][some]] if own else rest
        return results(name, params, x[some], beside, dx[some], g[some], None if where is None else where[some])

    single = [of([i]) for i in range(len(x))]
    alone = {rule: np.concatenate([each[rule] for each in single]) for rule in single[0]}
    for some in batches(len(x)):
        for rule, found in of(some).items():
            told = name, params, rule, dtype, [list(SPECIAL)[i] for i in some]
            assert found.dtype == alone[rule].dtype, told
            assert settled(found) == settled(alone[rule][some]), told


DTYPES = np.float32, np.float64, np.float16


@pytest.mark.parametrize("masked", [False, True], ids=["all cells", "masked"])
@pytest.mark.parametrize("name", POOLINGS)
def test_a_pooled_sample_has_the_bits_that_it_has_alone(name, masked):
    kinds = POOLINGS[name]
    for number, (geometry, axes) in enumerate(GEOMETRIES):
        beside = () if name != "sharp_smooth_max_pool" else ((2,),) if number % 2 else ((),)
        sample = axes if number % 4 == 3 and not beside else (2, *axes)
        for make in kinds if number < 3 else [kinds[number % len(kinds)]]:
            check(name, make(geometry), sample, DTYPES[number % 5 % 3], beside, masked)


@pytest.mark.parametrize("name", [*(name for name in OPS if name not in POOLINGS), "relu"])
def test_a_sample_has_the_bits_that_it_has_alone(name):
    mine = [case for case in others() if case[0] == name]
    assert mine, "an operator of the table that has no case here"
    for _, params, sample, shapes in mine:
        for dtype, infinite in product(DTYPES, (False, True) if shapes else (False,)):
            check(name, params, sample, dtype, shapes, infinite=infinite)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_network_gives_a_sample_the_bits_that_it_has_alone(dtype):
    """With normalisation as at inference; compiled, too."""
    unit = [nn.Conv(8, (3, 3), 1, 1), nn.BatchNorm(), nn.ReLU()]
    narrow = [nn.Conv(8, (3, 3), 2, 1, groups=8, bias=False), nn.BatchNorm(), nn.ReLU6()]
    model = nn.Sequential(*unit, nn.Residual(nn.Sequential(*unit)), nn.MaxPool((2, 2)), *narrow, nn.GlobalAvgPool(2))
    x = samples(np.random.default_rng(1), (3, 9, 8), dtype)
    params = model.train(model.init(np.random.default_rng(0), x.shape, dtype), x[:1])[1]
    for network in (lambda x: model(params, x), nn.compile(model, params)):
        alone = np.concatenate([network(x[i : i + 1]) for i in range(len(x))])
        for some in batches(len(x)):
            assert settled(network(x[some])) == settled(alone[some]), some


def test_batches_have_every_size_and_every_sample():
    for size in SIZES:
        count = len(SPECIAL)
        assert {i for some in batches(count) if len(some) == size for i in some} == set(range(count))
