"""A test of the tests: each operator with a mistake planted in it must break the law that is there to catch it."""

import operator
from decimal import localcontext
from typing import Any, NamedTuple

import pytest
from hypothesis import Phase, find, settings
from hypothesis.errors import NoSuchExample

from support import laws
from support import wrong_rules as wrong
from support.strategies import cases, decimals, distinct, floats_with_nan, fractions, small_ints, tied
from windowgrad.ops import MEANINGS
from windowgrad.spec import convolution, logsumexp, maximum, mean, padding

# As many examples as the ci profile tries, the same ones each time; the first that fails is enough.
SEARCH = settings(max_examples=100, derandomize=True, database=None, deadline=None, phases=[Phase.generate])


class Planted(NamedTuple):
    mistake: Any
    op: Any
    law: Any
    scalars: Any = fractions
    tangents: Any = fractions
    agree: Any = operator.eq


MAX, MEAN, SMOOTH, CONV, TRANSPOSE = (maximum.OP, mean.OP, logsumexp.OP, convolution.CONV, convolution.CONV_TRANSPOSE)
adjoint, duals, definition = laws.vjp_is_adjoint_of_jvp, laws.jvp_is_forward_on_duals, laws.forward_is_the_definition
smooth = {"scalars": decimals, "tangents": decimals, "agree": laws.close}

PLANTED = [
    Planted(wrong.last_tie_wins_in_jvp, MAX, adjoint, tied),
    Planted(wrong.last_tie_wins_in_jvp, MAX, laws.max_derivative_is_the_definition, tied),
    Planted(wrong.padding_wins_as_zero, MAX, definition),
    Planted(wrong.padding_wins_as_zero, MAX, duals, distinct),
    Planted(wrong.an_empty_window_is_minus_one, MAX, definition),
    Planted(wrong.index_of_the_last_winner, MAX, laws.nan_is_the_greatest, floats_with_nan, small_ints),
    Planted(wrong.nan_is_dropped, MAX, laws.nan_is_the_greatest, floats_with_nan, small_ints),
    Planted(wrong.split_is_not_divided, MAX, laws.max_derivative_is_the_definition, tied),
    Planted(wrong.split_is_not_divided_in_vjp, MAX, adjoint, tied),
    Planted(wrong.all_is_the_first_only, MAX, laws.max_derivative_is_the_definition, tied),
    Planted(wrong.vjp_forgets_one_tap, MEAN, adjoint),
    Planted(wrong.divisor_counts_the_overhang, MEAN, definition),
    Planted(wrong.divisor_ignores_padding, MEAN, definition),
    Planted(wrong.divisor_ignores_the_override, MEAN, definition),
    Planted(wrong.vjp_divides_by_the_real_cells, MEAN, adjoint),
    Planted(wrong.vjp_forgets_one_tap, SMOOTH, adjoint, **smooth),
    Planted(wrong.weights_are_not_normalised, SMOOTH, duals, **smooth),
    Planted(wrong.padded_zeros_are_left_out, SMOOTH, definition, **smooth),
    Planted(wrong.vjp_ignores_padded_zeros, SMOOTH, adjoint, **smooth),
    *(Planted(wrong.kernel_is_flipped_in_vjp, op, adjoint) for op in (CONV, TRANSPOSE)),
    *(Planted(wrong.kernel_is_flipped_everywhere, op, definition) for op in (CONV, TRANSPOSE)),
    *(Planted(wrong.jvp_forgets_the_tangent_of_the_weight, op, duals) for op in (CONV, TRANSPOSE)),
    *(Planted(wrong.vjp_forgets_one_product, op, adjoint) for op in (CONV, TRANSPOSE)),
    *(Planted(wrong.bias_gradient_is_that_of_the_first_cell, op, adjoint) for op in (CONV, TRANSPOSE)),
    *(Planted(wrong.groups_are_mixed, op, definition) for op in (CONV, TRANSPOSE)),
    Planted(wrong.dilation_is_ignored, CONV, definition),
    Planted(wrong.kernel_is_flipped_everywhere, TRANSPOSE, laws.transpose_is_adjoint_of_conv),
    Planted(wrong.output_padding_is_put_before, TRANSPOSE, laws.transpose_is_adjoint_of_conv),
    Planted(wrong.output_padding_is_put_before, TRANSPOSE, definition),
    Planted(wrong.pad_is_off_by_one, padding.PAD, laws.pad_then_unpad_is_identity),
    Planted(wrong.pad_is_off_by_one, padding.PAD, duals),
    Planted(wrong.unpad_takes_the_padding_of_the_other_side, padding.UNPAD, definition),
    Planted(wrong.unpad_gradient_is_unpadded_from_the_front, padding.UNPAD, adjoint),
    Planted(wrong.bins_end_at_the_floor, MEAN, definition),
    Planted(wrong.ceil_mode_keeps_every_window, MEAN, definition),
]


def broken(planted, op):
    """A case on which the law does not hold for `op`; NoSuchExample if there is none to be found."""
    drawn = cases(planted.op, planted.scalars(), planted.tangents())
    with localcontext(prec=60):
        return find(drawn, lambda case: not planted.agree(*planted.law(op, *case)), settings=SEARCH)


@pytest.mark.parametrize("planted", PLANTED, ids=lambda p: f"{p.op.name}-{p.mistake.__name__}-{p.law.__name__}")
def test_a_planted_mistake_breaks_its_law(planted, monkeypatch):
    assert broken(planted, planted.mistake(planted.op, monkeypatch))


ONE_OFF = {"forward": definition, "jvp": duals, "vjp": adjoint}
"""By rule: the law that sees a single wrong cell in its result."""


@pytest.mark.parametrize("rule", ONE_OFF)
@pytest.mark.parametrize("op", MEANINGS, ids=lambda op: op.name)
def test_one_wrong_cell_breaks_a_law(op, rule):
    """Every rule of every operator is held by a law."""
    kinds = {"scalars": distinct} if op.exact else smooth
    planted = Planted(wrong.one_cell_is_one_more, op, ONE_OFF[rule], **kinds)
    assert broken(planted, wrong.one_cell_is_one_more(op, rule))


CONTROLS = {(p.op.name, p.law.__name__): p for p in PLANTED}


@pytest.mark.parametrize("planted", CONTROLS.values(), ids=lambda p: f"{p.op.name}-{p.law.__name__}")
def test_the_right_operator_breaks_none_of_these_laws(planted):
    """Else a law that always fails would seem to catch everything."""
    with pytest.raises(NoSuchExample):
        broken(planted, planted.op)
