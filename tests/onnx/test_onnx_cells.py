"""Operators that move, choose, reduce and resize cells: exact over fractions, with derivatives, on every kind of array."""

from fractions import Fraction

import dask.array as da
import numpy as np
import pytest
from onnx import parser

import windowgrad as wg
from support.onnx_cases import CASES, SMOOTH, Case, floats, ints, number
from windowgrad.autograd.program import record
from windowgrad.onnx import Node, load
from windowgrad.onnx.operators import TABLE

FLOATS = [case for case in CASES if case.dtype == "float32"]


def every(found):
    return found if isinstance(found, tuple) else (found,)


def exact(x):
    found = np.empty(x.shape, object)
    found.reshape(-1)[:] = [Fraction(int(cell)) / 3 for cell in x.reshape(-1)]
    return found


def distinct(case):
    """Floats without ties, so that the greatest has a derivative."""
    return np.random.default_rng(1).permutation(np.arange(np.prod(case.shape))).reshape(case.shape) / 4 - 2


@pytest.mark.parametrize("case", FLOATS, ids=lambda case: case.name)
def test_fractions_give_what_floats_give(case):
    net, x = load(case.model()), case.x()
    whole = np.vectorize(Fraction, otypes=[object])(x.astype(int)) if x.size else x.astype(object)
    for ours, theirs in zip(every(net(whole)), every(net(x)), strict=True):
        assert ours.shape == theirs.shape
        assert ours.dtype == object or theirs.dtype.kind in "biu"
        np.testing.assert_allclose(ours.astype(float), theirs.astype(float), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("case", SMOOTH, ids=lambda case: case.name)
def test_backward_is_the_adjoint_of_forward_over_fractions(case):
    net = load(case.model())
    if 0 not in case.shape:
        wg.check_grads(lambda x: every(net(x)), exact(distinct(case) * 12))


@pytest.mark.parametrize("case", SMOOTH, ids=lambda case: case.name)
def test_derivatives_are_those_of_finite_differences_to_second_order(case):
    net = load(case.model())
    if 0 not in case.shape and case.attributes.get("to") != 10:  # float16 has no room for a finite difference
        wg.check_grads(lambda x: every(net(x)), distinct(case), order=2)


@pytest.mark.parametrize("case", SMOOTH, ids=lambda case: case.name)
def test_a_recorded_network_computes_the_same(case):
    net, x = load(case.model()), case.x()
    program = record(net, x)
    for ours, theirs in zip(every(program(x + 1)), every(net(x + 1)), strict=True):
        assert np.array_equal(ours, theirs)


@pytest.mark.parametrize("case", FLOATS, ids=lambda case: case.name)
def test_dask_arrays_stay_lazy(case):
    net, x = load(case.model()), case.x()
    if 0 in case.shape:
        return
    for ours, theirs in zip(every(net(da.from_array(x, chunks=2))), every(net(x)), strict=True):
        assert isinstance(ours, da.Array) or case.op == "Shape"
        np.testing.assert_allclose(np.asarray(ours), theirs, rtol=1e-6)
        assert ours.dtype == theirs.dtype


# --- what is particular ------------------------------------------------------------------------------------------


def computed(op, opset, x, *others, **attributes):
    case = Case(op, opset, x.shape, others, attributes, dtype="float32" if x.dtype == object else str(x.dtype))
    return load(case.model())(x)


def test_a_resized_line_is_exact():
    x = np.array([[Fraction(0), Fraction(3)]], object)
    y = computed("Resize", 19, x, None, None, ints(1, 6), mode="linear", coordinate_transformation_mode="align_corners")
    assert y.tolist() == [[Fraction(3 * place, 5) for place in range(6)]]


def test_no_rounding_decides_which_cell_is_the_nearest():
    """Output 2 of 4 lies at cell 3 of 6 to the last bit, though 4 ÷ 6 is no float."""
    x = np.arange(6, dtype=np.float32)
    y = computed("Resize", 19, x, None, None, ints(4), coordinate_transformation_mode="asymmetric", nearest_mode="floor")
    assert y.tolist() == [0, 1, 3, 4]


def test_a_size_is_that_of_shape_inference():
    """0.7 in float32 is less than 0.7, but 10 · 0.7 in float32 is 7."""
    assert computed("Resize", 19, np.zeros(10, np.float32), None, floats(0.7)).shape == (7,)


def test_cells_that_are_not_looked_at_cannot_spoil_others():
    x = np.array([1, np.inf, 2, 3], np.float32)
    assert computed(
        "Resize", 19, x, None, floats(0.5), coordinate_transformation_mode="asymmetric", mode="linear"
    ).tolist() == [1, 2]


def test_fractions_are_rounded_to_the_even_neighbour():
    x = np.array([Fraction(1, 2), Fraction(3, 2), Fraction(5, 2), Fraction(-1000)], object)
    y = computed("QuantizeLinear", 13, x, number(1.0), number(3, "uint8"))
    assert (y.dtype, y.tolist()) == (np.uint8, [3, 5, 5, 0])


def test_scattered_updates_and_scales_have_derivatives():
    updates, scale = np.array([[2.0, 3.0], [5.0, 7.0], [1.0, 4.0]]), np.array([0.5, 0.25])
    places, x = np.array([[0], [2], [0]]), np.array([[1.5, -2.0], [0.5, 1.0], [2.5, 3.0]])
    for reduction in ("none", "add", "mul", "max", "min"):
        node = Node("one", "ScatterND", (), ("y",), {"reduction": reduction}, 18)
        wg.check_grads(lambda x, updates, node=node: TABLE["ScatterND"](node, x, places, updates), x, updates, order=2)
    node = Node("one", "DequantizeLinear", (), ("y",), {}, 13)
    wg.check_grads(lambda scale: TABLE["DequantizeLinear"](node, places.astype(np.int8) + scale.shape[0], scale[:1]), scale)


def test_both_branches_of_where_have_derivatives():
    node, flags = Node("one", "Where", (), ("y",), {}, 16), np.array([True, False, True])
    wg.check_grads(lambda a, b: TABLE["Where"](node, flags, a, b), np.array([1.0, 2.0, 3.0]), np.array(4.0))


def test_a_shape_is_computed_for_any_batch():
    net = load(
        parser.parse_model("""
        <ir_version: 8, opset_import: ["" : 17]>
        flat (float[N, 2, 3] x) => (float[N, M] y) <int64[1] rest = {-1}, int64 first = {0}, int64[1] front = {0}>
        {
            sizes = Shape(x)
            n = Gather(sizes, first)
            batch = Unsqueeze(n, front)
            shape = Concat<axis = 0>(batch, rest)
            y = Reshape(x, shape)
        }""")
    )
    for batch in (1, 4):
        assert net(np.zeros((batch, 2, 3), np.float32)).shape == (batch, 6)


def test_what_cropping_has_left_empty_is_padded_with_the_constant():
    y = computed("Pad", 13, np.ones((1, 4), np.float32), ints(2, 1, -1, 0), number(3.0))
    assert (y.dtype, y.tolist()) == (np.float32, [[3.0] * 5] * 2)


def test_an_empty_batch_keeps_its_other_sizes():
    node = Node("one", "Reshape", (), ("y",), {}, 14)
    assert TABLE["Reshape"](node, np.zeros((0, 3, 4)), ints(0, -1)).shape == (0, 12)
    assert TABLE["Reshape"](node, np.zeros((0, 3, 4)), ints(-1, 6)).shape == (0, 6)
