"""The laws of every operator over every geometry, with == over fractions: no tolerance to hide behind."""

from dataclasses import replace
from fractions import Fraction
from operator import neg

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support import oracle
from support.laws import (
    adaptive_to_a_divisor_is_sliding,
    bias_is_added_to_its_channel,
    derivatives_are_linear,
    each,
    forward_is_the_definition,
    global_is_adaptive_to_one,
    jvp_is_forward_on_duals,
    keepdims_is_only_shape,
    linear_in,
    linear_is_its_own_derivative,
    listed,
    max_derivative_is_the_definition,
    max_is_separable,
    nan_is_the_greatest,
    pad_then_unpad_is_identity,
    transpose_is_adjoint_of_conv,
    vjp_is_adjoint_of_jvp,
)
from support.strategies import (
    arrays,
    cases,
    convolutions,
    distinct,
    floats_with_nan,
    fractions,
    leads,
    max_params,
    mean_params,
    min_params,
    ranks,
    slidings,
    small_ints,
    spatial_sizes,
    tied,
)
from windowgrad.geometry import Adaptive, Global, Sliding
from windowgrad.ops import OPS
from windowgrad.params import TIES, ConvParams, MaxParams, MeanParams, MinParams, UnpadParams
from windowgrad.spec import padding

MAX, MIN, MEAN, CONV, TRANSPOSE = (OPS[name] for name in ("max_pool", "min_pool", "avg_pool", "conv", "conv_transpose"))
EXACT = [op for op in OPS.values() if op.exact]
LINEAR = [op for op in EXACT if op.linear]
POOLING = [(MAX, max_params), (MIN, min_params), (MEAN, mean_params)]

every_exact_op = pytest.mark.parametrize("op", EXACT, ids=lambda op: op.name)
every_linear_op = pytest.mark.parametrize("op", LINEAR, ids=lambda op: op.name)
every_convolution = pytest.mark.parametrize("op", [CONV, TRANSPOSE], ids=lambda op: op.name)
every_exact_pooling = pytest.mark.parametrize(("op", "params"), POOLING, ids=["max_pool", "min_pool", "avg_pool"])
every_winner = pytest.mark.parametrize("op", [MAX, MIN], ids=lambda op: op.name)


# --- every operator ----------------------------------------------------------------------------------------------


@every_exact_op
@given(data=st.data())
def test_vjp_is_the_adjoint_of_jvp(op, data):
    left, right = vjp_is_adjoint_of_jvp(op, *data.draw(cases(op, fractions())))
    assert left == right


@every_winner
@pytest.mark.parametrize("ties", TIES)
@given(data=st.data())
def test_vjp_is_the_adjoint_of_jvp_under_every_ties_rule(op, ties, data):
    params, *rest = data.draw(cases(op, tied(), tangents=fractions()))
    left, right = vjp_is_adjoint_of_jvp(op, replace(params, ties=ties), *rest)
    assert left == right


@every_exact_op
@given(data=st.data())
def test_jvp_is_forward_on_dual_numbers(op, data):
    left, right = jvp_is_forward_on_duals(op, *data.draw(cases(op, distinct(), tangents=fractions())))
    assert left == right


@every_exact_op
@given(data=st.data())
def test_forward_is_the_definition_said_naively(op, data):
    left, right = forward_is_the_definition(op, *data.draw(cases(op, fractions())))
    assert left == right


@every_winner
@pytest.mark.parametrize("ties", TIES)
@given(data=st.data())
def test_the_derivative_under_a_ties_rule_is_the_definition(op, ties, data):
    params, *rest = data.draw(cases(op, tied(), tangents=fractions()))
    left, right = max_derivative_is_the_definition(op, replace(params, ties=ties), *rest)
    assert left == right


@every_winner
@given(data=st.data())
def test_the_index_is_that_of_the_first_winner(op, data):
    params, (x,), _, _ = data.draw(cases(op, tied()))
    y, index = op.with_indices(params, x)
    assert index.dtype == np.int64
    assert listed(y, index) == listed(op.forward(params, x), oracle.max_index(params, x))


@every_winner
@given(data=st.data())
def test_nan_wins_over_every_number(op, data):
    left, right = nan_is_the_greatest(op, *data.draw(cases(op, floats_with_nan(), tangents=small_ints())))
    assert left == right


@given(case=cases(MIN, fractions()))
def test_a_minimum_is_the_maximum_of_the_negated_cells_negated(case):
    """And has the same winners, so the same derivatives."""
    params, (x,), (dx,), g = case
    greatest = MaxParams(params.geometry, params.ties, params.empty)
    y, index = MAX.with_indices(greatest, -x)
    assert listed(*MIN.with_indices(params, x)) == listed(each(neg, y), index)
    assert listed(MIN.jvp(params, x, dx), *MIN.vjp(params, x, g)) == listed(
        MAX.jvp(greatest, -x, dx), *MAX.vjp(greatest, -x, g)
    )


@every_exact_op
@given(data=st.data())
def test_derivatives_are_linear(op, data):
    left, right = derivatives_are_linear(op, *data.draw(cases(op, fractions())))
    assert left == right


@every_exact_op
@given(data=st.data())
def test_fractions_stay_fractions(op, data):
    """Forward, JVP and VJP, also where a window has no cell."""
    params, xs, dxs, g = data.draw(cases(op, fractions()))
    results = [op.forward(params, *xs), op.jvp(params, *xs, *dxs), *op.vjp(params, *xs, g)]
    assert {type(cell) for result in results for cell in result.flat} == {Fraction}


@pytest.mark.parametrize("params", [MaxParams, MinParams, MeanParams, lambda geometry: MeanParams(geometry, False)])
def test_fractions_stay_fractions_in_a_window_with_no_cell(params):
    op = {MaxParams: MAX, MinParams: MIN}.get(params, MEAN)
    x, g = np.array([Fraction(2, 3)]), np.array([Fraction(1, 2)] * 7)
    pad_only = params(Sliding((1,), 1, ((3, 3),)))
    results = [op.forward(pad_only, x), op.jvp(pad_only, x, x), *op.vjp(pad_only, x, g)]
    assert results[0].tolist() == results[1].tolist() == [0, 0, 0, Fraction(2, 3), 0, 0, 0]
    assert {type(cell) for result in results for cell in result.flat} == {Fraction}


# --- linear operators --------------------------------------------------------------------------------------------


@every_linear_op
@given(data=st.data())
def test_a_linear_operator_is_linear(op, data):
    left, right = linear_in(0, op, *data.draw(cases(op, fractions())))
    assert left == right


@pytest.mark.parametrize("op", [op for op in LINEAR if len(op.inputs) == 1], ids=lambda op: op.name)
@given(data=st.data())
def test_a_linear_operator_is_its_own_derivative(op, data):
    left, right = linear_is_its_own_derivative(op, *data.draw(cases(op, fractions())))
    assert left == right


@every_convolution
@given(data=st.data())
def test_convolution_is_linear_in_its_weight_too(op, data):
    left, right = linear_in(1, op, *data.draw(cases(op, fractions())))
    assert left == right


@every_convolution
@given(data=st.data())
def test_a_bias_is_added_to_its_channel(op, data):
    left, right = bias_is_added_to_its_channel(op, *data.draw(cases(op, fractions())))
    assert left == right


@given(case=cases(TRANSPOSE, fractions()))
def test_conv_transpose_is_the_adjoint_of_conv(case):
    left, right = transpose_is_adjoint_of_conv(TRANSPOSE, *case)
    assert left == right


@given(case=cases(OPS["pad"], fractions()))
def test_pad_then_unpad_is_the_identity(case):
    left, right = pad_then_unpad_is_identity(OPS["pad"], *case)
    assert left == right


@given(data=st.data())
def test_unpad_is_the_adjoint_of_pad(data):
    """⟨pad(x), y⟩ = ⟨x, unpad(y)⟩, so the gradient of each is the other."""
    params, (x,), _, y = data.draw(cases(OPS["pad"], fractions()))
    assert listed(*OPS["pad"].vjp(params, x, y)) == listed(padding.UNPAD.forward(UnpadParams(params.padding), y))


# --- geometries --------------------------------------------------------------------------------------------------


@every_exact_pooling
@given(data=st.data())
def test_adaptive_to_a_divisor_is_sliding(op, params, data):
    bins = data.draw(spatial_sizes(data.draw(ranks)))
    sizes = [m * data.draw(st.integers(1, 3 if len(bins) < 3 else 2)) for m in bins]
    x, dx = (data.draw(arrays((*lead, *sizes), tied())) for lead in [data.draw(leads())] * 2)
    p = data.draw(params(Adaptive(bins)))
    g = data.draw(arrays(p.out_shape(x.shape), fractions()))
    left, right = adaptive_to_a_divisor_is_sliding(op, p, x, dx, g)
    assert left == right


@every_exact_pooling
@given(data=st.data())
def test_global_is_adaptive_to_one(op, params, data):
    spatial, lead = data.draw(spatial_sizes(data.draw(ranks))), data.draw(leads())
    p = data.draw(params(Global(len(spatial), data.draw(st.booleans()))))
    x, dx = (data.draw(arrays((*lead, *spatial), tied())) for _ in range(2))
    g = data.draw(arrays(p.out_shape(x.shape), fractions()))
    left, right = global_is_adaptive_to_one(op, p, x, dx, g)
    assert left == right
    left, right = keepdims_is_only_shape(op, p, x, dx, g)
    assert left == right


@every_exact_pooling
@given(data=st.data())
def test_a_window_of_one_cell_is_the_identity(op, params, data):
    spatial = data.draw(spatial_sizes(data.draw(ranks)))
    x = data.draw(arrays((*data.draw(leads()), *spatial), fractions()))
    p = replace(data.draw(params(Sliding((1,) * len(spatial)))), **({"divisor_override": None} if op is MEAN else {}))
    assert listed(op.forward(p, x)) == listed(x)


@given(data=st.data())
def test_max_is_separable(data):
    """The maximum over a rectangle is the maximum over its rows of the maxima of its columns, if no window is empty."""
    spatial = data.draw(spatial_sizes(2))
    x = data.draw(arrays((*data.draw(leads()), *spatial), fractions()))
    left, right = max_is_separable(MAX, MaxParams(data.draw(slidings(spatial, full=True))), x)
    assert left == right


@given(situation=convolutions())
def test_every_group_of_channels_is_a_convolution_of_its_own(situation):
    params, (x_shape, w_shape, *_) = situation
    x, w = (each_its_index(shape) for shape in (x_shape, w_shape))
    channel = len(x_shape) - params.window.rank - 1
    parts = zip(np.split(x, params.groups, axis=channel), np.split(w, params.groups), strict=True)
    alone = [CONV.forward(ConvParams(params.window), *part) for part in parts]
    assert listed(CONV.forward(params, x, w)) == listed(np.concatenate(alone, axis=channel))


def each_its_index(shape):
    """Every cell different: a product taken from the wrong group shows."""
    return np.array([Fraction(i + 1, 3) for i in range(int(np.prod(shape)))]).reshape(shape)
