"""Convolution at sizes that cross vectors, tiles and blocks: bit for bit on small integers, the same bits for any threads."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support import conv_reference
from support.exact import DTYPES, FLOATS, derivative_dtype, forward_dtype, fractions_of, same_bits
from support.strategies import cases, remainder, small_ints
from windowgrad.geometry import Sliding
from windowgrad.kernels.runtime import threads
from windowgrad.ops import MEANINGS, OPS
from windowgrad.params import ConvParams, TransposeParams

MEANING = {op.name: op for op in MEANINGS}
RULES = ("forward", "jvp", "vjp")
NAMES = ("conv", "conv_transpose")

every_rule = pytest.mark.parametrize("rule", RULES)
both = pytest.mark.parametrize("name", NAMES)


# --- what is convolved ---------------------------------------------------------------------------------------------


def situation(name, ins, outs, spatial, window, groups=1, batch=(2,)):
    """(parameters, shapes of x, weight and bias). `spatial` is that of the larger side: the output when transposed."""
    if name == "conv":
        return ConvParams(window, groups), ((*batch, ins, *spatial), (outs, ins // groups, *window.kernel), (outs,))
    params = TransposeParams(window, groups, remainder(window, spatial))
    return params, ((*batch, ins, *window.grid(spatial)), (ins, outs // groups, *window.kernel), (outs,))


LONGEST = {1: (70,), 2: (5, 70), 3: (3, 4, 35), 4: (2, 3, 3, 20)}
KERNEL = {1: 9, 2: 4, 3: 3, 4: 2}


@st.composite
def channels(draw):
    """(in, out, groups): one group, several, or one for each channel."""
    kind = draw(st.sampled_from(["dense", "dense", "grouped", "depthwise"]))
    if kind == "dense":
        return draw(st.integers(1, 40)), draw(st.integers(1, 40)), 1
    groups = draw(st.integers(2, 40 if kind == "depthwise" else 5))
    ins, outs = (1, draw(st.integers(1, 2))) if kind == "depthwise" else (draw(st.integers(1, 9)), draw(st.integers(1, 9)))
    return ins * groups, outs * groups, groups


@st.composite
def large(draw, name):
    """Every parameter of every axis by itself; padding differs before and after. A fourth are pointwise."""
    rank = draw(st.integers(1, 4))
    pointwise = draw(st.sampled_from([True, False, False, False]))
    sides = []
    for longest in LONGEST[rank]:
        k = 1 if pointwise else draw(st.integers(1, KERNEL[rank]))
        s, d, lo, hi = (draw(st.integers(*ends)) for ends in ((1, 3), (1, 3), (0, 3), (0, 3)))
        n = max(draw(st.integers(1, longest)), d * (k - 1) + 1 - lo - hi)
        sides.append((n, k, s, (lo, hi), d))
    spatial, kernel, stride, padding, dilation = zip(*sides, strict=True)
    ins, outs, groups = draw(channels())
    batch = draw(st.lists(st.integers(1, 3), max_size=2))
    params, shapes = situation(name, ins, outs, spatial, Sliding(kernel, stride, padding, dilation), groups, batch)
    return params, shapes[: draw(st.sampled_from([2, 3]))]


def integers(shape, dtype, rng):
    """From −3 to 3; without sign where there is none, as bits for bool."""
    cells = rng.integers(-3, 4, shape)
    return {"b": lambda cells: cells % 2, "u": abs}.get(dtype.kind, np.asarray)(cells).astype(dtype)


def arrays(params, shapes, dtype, given, rng, cells=integers):
    """Of every rule: (inputs, inputs and tangents, inputs and gradient)."""
    xs, dxs = ([cells(shape, kind, rng) for shape in shapes] for kind in (dtype, given))
    return {"forward": xs, "jvp": xs + dxs, "vjp": [*xs, cells(params.out_shape(*shapes), given, rng)]}


# --- bit for bit -----------------------------------------------------------------------------------------------------


@every_rule
@both
@given(data=st.data())
def test_the_reference_of_this_page_is_the_specification(name, rule, data):
    params, xs, dxs, g = data.draw(cases(OPS[name], small_ints()))
    given_arrays = [array.astype(np.int64) for array in {"forward": xs, "jvp": [*xs, *dxs], "vjp": [*xs, g]}[rule]]
    found = getattr(conv_reference, rule)(params, *given_arrays)
    exact = getattr(MEANING[name], rule)(params, *map(fractions_of, given_arrays))
    for one, expected in zip(*((result if rule == "vjp" else (result,)) for result in (found, exact)), strict=True):
        assert one.tolist() == expected.tolist()


def check(name, rule, params, shapes, dtype, given, seed=0):
    """One rule equals the reference in every bit, in the dtype it promises."""
    inputs = arrays(params, shapes, dtype, given, np.random.default_rng(seed))[rule]
    found, exact = getattr(OPS[name], rule)(params, *inputs), getattr(conv_reference, rule)(params, *inputs)
    if rule != "vjp":
        found, exact = (found,), (exact,)
    promised = derivative_dtype(dtype if rule == "vjp" else forward_dtype(name, dtype), given)
    promised = forward_dtype(name, dtype) if rule == "forward" else promised
    for one, expected in zip(found, exact, strict=True):
        expected = (expected + 0.0).astype(promised)  # + 0.0: BLAS may give −0.0 for a sum of one product
        assert same_bits(one, expected), (dtype, given, np.argwhere(one != expected)[:5].tolist())


@every_rule
@both
@given(data=st.data())
def test_every_size_dtype_and_geometry_is_bit_for_bit(name, rule, data):
    params, shapes = data.draw(large(name))
    dtype = data.draw(st.sampled_from(DTYPES))
    given_dtype = data.draw(st.sampled_from([dtype] if dtype in FLOATS else FLOATS[2:]))
    check(name, rule, params, shapes, dtype, given_dtype, data.draw(st.integers(0, 99)))


FLOAT32 = np.dtype(np.float32)
SHAPES = {  # kernel, stride, padding, dilation, groups
    "3×3": ((3, 3), 1, 1, 1, 1),
    "3×3 with a stride": ((3, 3), 2, 1, 1, 1),
    "1×1": ((1, 1), 1, 0, 1, 1),
    "1×1 with a stride": ((1, 1), 2, 0, 1, 1),
    "2×2 side by side": ((2, 2), 2, 0, 1, 1),
    "3×3 dilated": ((3, 3), 1, 2, 2, 1),
    "depthwise": ((3, 3), 1, 1, 1, None),
    "depthwise with a stride": ((3, 3), 2, 1, 1, None),
}


@every_rule
@both
@pytest.mark.parametrize("shape", SHAPES)
def test_every_number_of_channels_is_bit_for_bit(shape, name, rule):
    """1 to 40 outputs, beside another number of inputs each."""
    *window, groups = SHAPES[shape]
    for outs in range(1, 41):
        ins = outs if groups is None else outs * 17 % 41
        case = situation(name, ins, outs, (4, 6), Sliding(*window), groups or outs, batch=(1 + outs % 2,))
        check(name, rule, *case, FLOAT32, FLOAT32)


@every_rule
@both
@pytest.mark.parametrize("shape", SHAPES)
def test_every_number_of_pixels_is_bit_for_bit(shape, name, rule):
    """Rows of 2 to 70 cells."""
    *window, groups = SHAPES[shape]
    for width in range(2, 71):
        ins, outs = (5, 5) if groups is None else (3, 4)
        case = situation(name, ins, outs, (5, width), Sliding(*window), groups or 5)
        check(name, rule, *case, FLOAT32, FLOAT32)


@every_rule
@both
@pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: dtype.name)
def test_many_terms_are_bit_for_bit_in_every_dtype(dtype, name, rule):
    """150 channels of 3×3 on 23×37, in sums of up to 1350 products and 1702 pixels."""
    case = situation(name, 150, 7, (23, 37), Sliding((3, 3), (1, 2), ((1, 0), (2, 1))))
    check(name, rule, *case, dtype, dtype if dtype in FLOATS else FLOAT32)


# --- threads ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def every_call_is_shared(monkeypatch):
    """However small; and the number of threads is as before afterwards."""
    monkeypatch.setattr(threads, "LEAST_WORK", 0)
    monkeypatch.setattr(threads, "chosen", None)


THREADED = {
    "dense": (19, 33, (11, 29), Sliding((3, 3), 1, 1), 1, (2,)),
    "strided": (16, 5, (13, 31), Sliding((3, 3), 2, ((0, 1), (1, 1))), 1, (3,)),
    "pointwise": (40, 64, (7, 7), Sliding((1, 1), 1), 1, (1,)),
    "depthwise": (24, 24, (17, 18), Sliding((3, 3), 1, 1), 24, (1,)),
    "grouped": (12, 20, (9, 10), Sliding((2, 3), 1, 1, 2), 4, (1,)),
    "one": (1, 1, (64, 65), Sliding((5, 5), 1, 2), 1, (1,)),
    "long": (3, 8, (3000,), Sliding((9,), 4, 4), 1, (1,)),
    "volume": (4, 6, (6, 7, 8), Sliding((3, 3, 3), 1, 1), 1, (2,)),
    "large": (64, 64, (30, 30), Sliding((3, 3), 1, 1), 1, (1,)),
}


def normal(shape, dtype, rng):
    return rng.standard_normal(shape).astype(dtype)


@both
@pytest.mark.parametrize("dtype", FLOATS, ids=lambda dtype: dtype.name)
@pytest.mark.parametrize("case", THREADED)
def test_the_number_of_threads_changes_no_bit_of_random_floats(case, dtype, name, every_call_is_shared):
    ins, outs, spatial, window, groups, batch = THREADED[case]
    params, shapes = situation(name, ins, outs, spatial, window, groups, batch)
    inputs = arrays(params, shapes, dtype, dtype, np.random.default_rng(1), normal)
    found = []
    for count in (1, 2, 3, 7):
        threads.set_num_threads(count)
        results = [getattr(OPS[name], rule)(params, *inputs[rule]) for rule in RULES]
        found.append([array.tobytes() for result in results for array in (result if isinstance(result, tuple) else (result,))])
    assert len(found[0]) == 5
    assert found[0] == found[1] == found[2] == found[3]
