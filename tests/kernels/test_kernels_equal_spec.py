"""Kernels against the specification, bit for bit, on small integers, where every sum is exact: all operators and dtypes."""

from operator import mul

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support import oracle
from support.exact import DTYPES, FLOATS, derivative_dtype, forward_dtype, fractions_of, mean_dtype, rounded, same_bits
from support.laws import each
from support.strategies import ORDINARY, cases, pool, small_ints, whole_numbers
from windowgrad.geometry import Global, Sliding
from windowgrad.ops import MEANINGS, OPS
from windowgrad.params import TIES, ConvParams, MaxParams, MeanParams

MEANING = {op.name: op for op in MEANINGS}
EXACT = [op for op in OPS.values() if op.exact and not op.facts.indices]
"""An operator with indices has tests of its own: its inputs are not all numbers of one dtype."""
TANGENTS = [np.dtype(name) for name in ("float32", "float64", "int8", "int64")]
"""Dtypes that tangents and gradients come in, besides that of the input if it is a float."""

NAMED = {dtype.name: dtype for dtype in DTYPES}

every_exact_op = pytest.mark.parametrize("op", EXACT, ids=lambda op: op.name)


def in_every_dtype(drawn):
    """(dtype, the drawn integers in it): without sign where there is none, as bits for bool."""
    change = {"b": lambda array: array % 2, "u": abs}
    for dtype in DTYPES:
        yield dtype, [change.get(dtype.kind, np.asarray)(array).astype(dtype) for array in drawn]


def tangent_dtype(data, dtype, drawn):
    """A dtype that holds these integers; float64 if the drawn one does not."""
    chosen = data.draw(st.sampled_from([dtype, *TANGENTS] if dtype in FLOATS else TANGENTS))
    exact = [array.astype(np.int64) for array in drawn]
    return chosen if all((array.astype(chosen).astype(np.int64) == array).all() for array in exact) else np.dtype(np.float64)


class Spec:
    """One rule of the specification over fractions, computed once for equal inputs (dtypes share their numbers)."""

    def __init__(self, op, rule):
        self.rule, self.known = getattr(MEANING[op.name], rule), {}

    def __call__(self, params, *arrays):
        exact = [fractions_of(array) for array in arrays]
        key = tuple((array.shape, *array.flat) for array in exact)
        if key not in self.known:
            self.known[key] = self.rule(params, *exact)
        return self.known[key]


def whole_shares(params, x, g):
    """g times what its window divides by: every share of it is an integer, so that sums of shares are exact."""
    if isinstance(params, MeanParams):
        return each(mul, g, oracle.pooled(params, x, lambda real, padded: oracle.divisor(params, len(real), padded)))
    if isinstance(params, MaxParams) and params.ties == "split":
        return each(mul, g, oracle.pooled(params, x, lambda real, _: max(1, len(oracle.tops(params, x, real)))))
    return g


@every_exact_op
@given(data=st.data())
def test_forward_is_the_specification_bit_for_bit(op, data):
    params, drawn, _, _ = data.draw(cases(op, small_ints()))
    spec = Spec(op, "forward")
    for dtype, xs in in_every_dtype(drawn):
        expected = rounded(spec(params, *xs), forward_dtype(op.name, dtype))
        assert same_bits(op.forward(params, *xs), expected), (dtype, expected)


@every_exact_op
@given(data=st.data())
def test_jvp_is_the_specification_bit_for_bit(op, data):
    params, drawn, tangents, _ = data.draw(cases(op, small_ints()))
    spec = Spec(op, "jvp")
    for dtype, xs in in_every_dtype(drawn):
        given_dtype = tangent_dtype(data, dtype, tangents)
        dxs = [dx.astype(given_dtype) for dx in tangents]
        result_dtype = derivative_dtype(forward_dtype(op.name, dtype), given_dtype)
        expected = rounded(spec(params, *xs, *dxs), result_dtype)
        assert same_bits(op.jvp(params, *xs, *dxs), expected), (dtype, given_dtype, expected)


@every_exact_op
@given(data=st.data())
def test_vjp_is_the_specification_bit_for_bit(op, data):
    params, drawn, _, gradient = data.draw(cases(op, small_ints()))
    spec = Spec(op, "vjp")
    for dtype, xs in in_every_dtype(drawn):
        whole = whole_shares(params, xs[0], gradient)
        given_dtype = tangent_dtype(data, dtype, [whole])
        g = whole.astype(given_dtype)
        found = op.vjp(params, *xs, g)
        for one, exactly in zip(found, spec(params, *xs, g), strict=True):
            expected = rounded(exactly, derivative_dtype(dtype, given_dtype))
            assert same_bits(one, expected), (dtype, given_dtype, expected)


@pytest.mark.parametrize("name", ["max_pool", "min_pool"])
@given(data=st.data())
def test_indices_are_those_of_the_specification(name, data):
    params, drawn, _, _ = data.draw(cases(OPS[name], pool([0, 1, 2])))
    for dtype, (x,) in in_every_dtype(drawn):
        y, index = OPS[name].with_indices(params, x)
        value, place = MEANING[name].with_indices(params, fractions_of(x))
        assert same_bits(y, rounded(value, dtype)), dtype
        assert same_bits(index, place), dtype


@pytest.mark.parametrize("ties", TIES)
@pytest.mark.parametrize("dtype", [dtype for dtype in DTYPES if dtype.kind in "iu"], ids=lambda dtype: dtype.name)
def test_max_keeps_the_extremes_of_every_integer(dtype, ties):
    """The least integer is a value like any other: it is not taken for padding, nor padding for it."""
    least, most = np.iinfo(dtype).min, np.iinfo(dtype).max
    x = np.array([least, least, most, most - 1, least], dtype=dtype)
    params = MaxParams(Sliding((2,), 1, 2), ties)
    y, index = OPS["max_pool"].with_indices(params, x)
    assert y.dtype == dtype
    assert y.tolist() == [0, least, least, most, most, most - 1, least, 0]
    assert index.tolist() == [-1, 0, 0, 2, 2, 3, 4, -1]
    spec = MEANING["max_pool"].vjp(params, fractions_of(x), fractions_of(np.arange(8) * 2))
    (gx,) = OPS["max_pool"].vjp(params, x, np.arange(8.0) * 2)
    assert gx.tolist() == spec[0].tolist()


MIXED = [
    ("float32", "int8", "float32"),
    ("float16", "float32", "float32"),
    ("bfloat16", "float32", "float32"),
    ("float32", "int64", "float64"),
    ("int8", "uint8", "int32"),
    ("int8", "int16", "int64"),
    ("bool", "float64", "float64"),
]


@pytest.mark.parametrize(("of_x", "of_weight", "of_y"), MIXED)
def test_convolution_promotes_as_numpy_does_and_sums_integers_exactly(of_x, of_weight, of_y):
    x = np.array([[1, 0, 1, 1]]).astype(NAMED[of_x])
    w = np.array([[[3, 5]]]).astype(NAMED[of_weight])
    y = OPS["conv"].forward(ConvParams(Sliding((2,), 1)), x, w)
    assert same_bits(y, np.array([[3, 5, 8]]).astype(of_y))


@pytest.mark.parametrize("count", [3, 49, 98, 103])
def test_split_divides_and_does_not_multiply_by_a_rounded_reciprocal(count):
    """49 · (1/49) is not 1 in floats; a share of 49 among 49 winners is, and so is the mean of 49 ones."""
    params, x = MaxParams(Global(1), "split"), np.zeros(count)
    assert OPS["max_pool"].jvp(params, x, np.ones(count)).tolist() == [1.0]
    assert OPS["max_pool"].jvp(params, np.zeros(3), np.array([2.0, 2.0, 1.0])).tolist() == [5 / 3]
    assert OPS["max_pool"].vjp(params, x, np.array([float(count)]))[0].tolist() == [1.0] * count


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: dtype.name)
@pytest.mark.parametrize("op", OPS.values(), ids=lambda op: op.name)
def test_an_empty_batch_gives_an_empty_result_of_the_same_dtype(op, dtype):
    params, shapes = ORDINARY[op.name]
    indices = [name in op.facts.indices for name in op.inputs]
    kinds = [
        int if index else mean_dtype(dtype) if name == "beta" else dtype for name, index in zip(op.inputs, indices, strict=True)
    ]
    full = [np.ones(shape, dtype=kind) for shape, kind in zip(shapes, kinds, strict=False)]
    none = [full[0][:0], *(x[:0] if index else x for x, index in zip(full[1:], indices[1:], strict=False))]
    y, dy = op.forward(params, *none), op.jvp(params, *none, *none)
    assert y.shape == (0, *op.forward(params, *full).shape[1:])
    assert y.dtype == op.forward(params, *full).dtype == forward_dtype(op.name, dtype)
    assert (dy.shape, dy.dtype) == (y.shape, op.jvp(params, *full, *full).dtype)
    gradients = op.vjp(params, *none, y.astype(mean_dtype(dtype)))
    assert [g.shape for g in gradients] == [array.shape for array in none]
    assert all((g == 0).all() for g in gradients)


@pytest.mark.parametrize("rank", range(1, 6))
@given(data=st.data())
def test_ranks_one_to_five_on_many_cells(rank, data):
    """Larger inputs than the other tests draw: each window of max and mean against the definition."""
    spatial = {1: (40,), 2: (9, 8), 3: (5, 4, 6), 4: (3, 4, 3, 4), 5: (3, 2, 3, 2, 3)}[rank]
    x = data.draw(whole_numbers((2, *spatial)))
    kernel, stride = ([data.draw(st.integers(1, 3)) for _ in spatial] for _ in range(2))
    geometry = Sliding([min(k, n) for k, n in zip(kernel, spatial, strict=True)], stride, 1)
    for op, params in ((OPS["max_pool"], MaxParams(geometry)), (OPS["avg_pool"], MeanParams(geometry))):
        found = op.forward(params, x.astype(np.float32))
        assert same_bits(found, rounded(oracle.FORWARD[op.name](params, fractions_of(x)), np.dtype(np.float32)))
