"""The laws through the machinery that records: what tape and transforms give is what the rules of the operators say.

Over fractions, with ==, for every window operator alone and for stacks of several operators.
"""

from __future__ import annotations

import operator
from dataclasses import replace
from decimal import localcontext
from itertools import product

import numpy as np
import pytest
from hypothesis import Phase, find, given, settings
from hypothesis import strategies as st

import windowgrad as wg
from support.laws import close, dot, dual, each, listed
from support.second_order import all_nestings_are_duals_of_duals, nestings
from support.stacks import stacks
from support.strategies import arrays, cases, decimals, distinct, fractions, tied
from windowgrad.ops import OPS, routed
from windowgrad.spec import Dual, convolution, logsumexp, maximum, mean, padding
from windowgrad.spec.scalar import zeros

EXACT = [op for op in OPS.values() if op.exact]
every_op = pytest.mark.parametrize("op", OPS.values(), ids=lambda op: op.name)
few = settings(max_examples=max(10, settings.default.max_examples // 3))  # for what hangs on little beside the operator
every_exact_op = pytest.mark.parametrize("op", EXACT, ids=lambda op: op.name)


def drawn(data, op):
    """Fractions with ties; decimals where exp and log are needed, on which the same rule gives the same digits."""
    return data.draw(cases(op, tied() if op.exact else decimals(), tangents=fractions() if op.exact else None))


def recorded(op, params, xs, constants=()):
    """The variables and the output of one operator on a new tape; the inputs at `constants` are not variables."""
    tape = wg.Tape()
    given = [x if i in constants else tape.leaf(x) for i, x in enumerate(xs)]
    return tape, given, op.forward(params, *given)


# --- one operator ------------------------------------------------------------------------------------------------


@every_op
@given(data=st.data())
def test_backward_on_the_tape_is_the_vjp_of_the_operator(op, data):
    params, xs, _, g = drawn(data, op)
    tape, leaves, y = recorded(op, params, xs)
    grads = tape.backward(y, g)
    assert listed(y.value) == listed(op.forward(params, *xs))
    assert listed(*(grads[leaf] for leaf in leaves)) == listed(*op.vjp(params, *xs, g))
    assert len(tape.nodes) == len(xs) + 1


@every_op
@given(data=st.data())
def test_jvp_and_vjp_are_the_rules_of_the_operator(op, data):
    params, xs, dxs, g = drawn(data, op)

    def f(*xs):
        return op.forward(params, *xs)

    y, dy = wg.jvp(f, xs, dxs)
    again, pull = wg.vjp(f, *xs)
    assert listed(y, dy) == listed(op.forward(params, *xs), op.jvp(params, *xs, *dxs))
    assert listed(again, *pull(g)) == listed(y, *op.vjp(params, *xs, g))


@pytest.mark.parametrize("op", [OPS["conv"], OPS["conv_transpose"]], ids=lambda op: op.name)
@few
@given(data=st.data())
def test_inputs_that_are_constant_have_no_tangent_and_no_gradient(op, data):
    """For every choice of inputs: the derivatives in the others are those of all, with zeros where nothing moves."""
    params, xs, dxs, g = drawn(data, op)
    places = range(len(xs))
    pulled = op.vjp(params, *xs, g)
    for moving in product((False, True), repeat=len(xs)):
        chosen = [i for i in places if moving[i]]
        tape, leaves, y = recorded(op, params, xs, constants=[i for i in places if not moving[i]])
        if not chosen:
            assert listed(y) == listed(op.forward(params, *xs))
            continue
        grads = tape.backward(y, g)
        assert listed(*(grads[leaves[i]] for i in chosen)) == listed(*(pulled[i] for i in chosen))

        def f(*some, chosen=chosen):
            whole = list(xs)
            for i, x in zip(chosen, some, strict=True):
                whole[i] = x
            return op.forward(params, *whole)

        still = [dx if moves else zeros(dx.shape, like=dx) for dx, moves in zip(dxs, moving, strict=True)]
        _, dy = wg.jvp(f, [xs[i] for i in chosen], [dxs[i] for i in chosen])
        assert listed(dy) == listed(op.jvp(params, *xs, *still))


@every_op
@few
@given(data=st.data())
def test_leaves_without_gradient_change_nothing_for_the_others(op, data):
    params, xs, _, g = drawn(data, op)
    needed = [data.draw(st.booleans()) for _ in xs]
    tape = wg.Tape()
    leaves = [tape.leaf(x, requires_grad=need) for x, need in zip(xs, needed, strict=True)]
    y = op.forward(params, *leaves)
    grads = tape.backward(y, g)
    assert y.requires_grad == any(needed)
    assert [var.id for var in grads] == [leaf.id for leaf in leaves if leaf.requires_grad]
    pulled = [gx for gx, need in zip(op.vjp(params, *xs, g), needed, strict=True) if need]
    assert listed(*grads.values()) == listed(*pulled)


@every_exact_op
@few
@given(data=st.data())
def test_a_shared_node_gets_the_sum_of_its_gradients(op, data):
    """The gradients of ⟨g, f(x) − 3·f(x)⟩, f recorded twice, are −2 times those of f."""
    params, xs, _, g = drawn(data, op)
    tape = wg.Tape()
    leaves = [tape.leaf(x) for x in xs]
    once, again = op.forward(params, *leaves), op.forward(params, *leaves)
    grads = tape.backward(once - 3 * again, g)
    expected = [each(lambda cell: -2 * cell, gx) for gx in op.vjp(params, *xs, g)]
    assert listed(*(grads[leaf] for leaf in leaves)) == listed(*expected)


# --- stacks of operators -----------------------------------------------------------------------------------------


@given(data=st.data())
def test_the_tape_of_a_stack_computes_what_the_stack_computes_one_node_per_operator(data):
    f, xs, _, g = data.draw(stacks())
    tape = wg.Tape()
    leaves = [tape.leaf(x) for x in xs]
    y = f(*leaves)
    assert listed(y.value) == listed(f(*xs))
    assert [node.name for node in tape.nodes[len(xs) :]] == f.names
    _, pull = wg.vjp(f, *xs)
    assert listed(*tape.backward(y, g).values()) == listed(*pull(g))


@given(data=st.data())
def test_through_a_stack_vjp_is_adjoint_of_jvp_for_every_ties_rule(data):
    f, xs, dxs, g = data.draw(stacks())
    y, dy = wg.jvp(f, xs, dxs)
    again, pull = wg.vjp(f, *xs)
    assert listed(y) == listed(again)
    assert dot(g, dy) == sum(dot(gx, dx) for gx, dx in zip(pull(g), dxs, strict=True))


@given(data=st.data())
def test_the_derivatives_of_a_stack_are_its_run_on_dual_numbers(data):
    """With ties to the first: a dual number is greater when its value is, so the winner is the same."""
    f, xs, dxs, g = data.draw(stacks(ties=("first",)))
    run = f(*dual(xs, dxs))
    expected = each(lambda cell: cell.tangent if isinstance(cell, Dual) else 0, run)
    assert listed(wg.jvp(f, xs, dxs)[1]) == listed(expected)
    assert sum(dot(gx, dx) for gx, dx in zip(wg.vjp(f, *xs)[1](g), dxs, strict=True)) == dot(g, expected)


@given(data=st.data())
def test_the_second_derivative_of_a_stack_is_symmetric_and_the_same_in_all_nestings(data):
    f, xs, dxs, g = data.draw(stacks())
    es = [data.draw(arrays(x.shape, fractions())) for x in xs]
    assert len({*nestings(f, xs, dxs, es, g), *nestings(f, xs, es, dxs, g)}) == 1


@given(data=st.data())
def test_a_stack_with_a_smooth_maximum_obeys_the_same_laws_over_decimals(data):
    with localcontext(prec=60):
        f, xs, dxs, g = data.draw(stacks(scalars=decimals(), smooth=True, ties=("first",)))
        run = f(*dual(xs, dxs))
        expected = each(lambda cell: cell.tangent if isinstance(cell, Dual) else cell * 0, run)
        assert close(wg.jvp(f, xs, dxs)[1].ravel().tolist(), expected.ravel().tolist())
        assert close(sum(dot(gx, dx) for gx, dx in zip(wg.vjp(f, *xs)[1](g), dxs, strict=True)), dot(g, expected))


# As many examples as the ci profile tries, the same ones each time; the first that fails is enough.
SEARCH = settings(max_examples=100, derandomize=True, database=None, deadline=None, phases=[Phase.generate])


def test_the_stacks_that_are_drawn_have_several_operators_and_together_all_kinds():
    seen, depths = set(), []

    @SEARCH
    @given(stacks())
    def look(drawn):
        seen.update(drawn[0].names)
        depths.append(len(drawn[0].names))

    look()
    windows = {"max_pool", "avg_pool", "conv", "conv_transpose", "pad", "unpad"}
    assert windows | {"relu", "multiply", "add", "matmul", "transpose", "mean", "divide"} <= seen
    assert np.mean(depths) > 2


# --- a test of the test of second derivatives --------------------------------------------------------------------


def curve_is_missing(op):
    return replace(op, curve=None)


def curve_back_is_missing(op):
    return replace(op, curve_back=None)


def curve_is_doubled(op):
    return replace(op, curve=lambda *args: None if (bent := op.curve(*args)) is None else bent * 2)


def curve_forgets_how_the_weight_moves(op):
    """Of f(dx, ew) + f(ex, dw) only the second."""
    return replace(op, curve=lambda rules, params, xs, dxs, exs: rules.forward(params, exs[0], dxs[1]))


def curve_back_forgets_one_input(op):
    return replace(op, curve_back=lambda *args: (op.curve_back(*args)[0], *(None for _ in op.curve_back(*args)[1:])))


def curve_back_has_the_other_sign(op):
    return replace(op, curve_back=lambda *args: tuple(part if part is None else -part for part in op.curve_back(*args)))


def curve_back_is_taken_at_x(op):
    """The gradients of ⟨g, f(x, w)⟩ itself, for those of ⟨g, J·dx⟩."""
    return replace(op, curve_back=lambda rules, params, xs, dxs, g: rules.vjp(params, *xs, g))


def curve_does_not_subtract_the_means(op):
    def curve(rules, params, xs, dxs, exs):
        return rules.jvp(params, *xs, dxs[0] * exs[0]) * params.beta

    return replace(op, curve=curve)


def a_straight_rule_bends(op):
    return replace(op, curve=lambda rules, params, xs, dxs, exs: rules.jvp(params, *xs, exs[0] * dxs[0]))


CONVOLUTIONS, SMOOTH = (convolution.CONV, convolution.CONV_TRANSPOSE), logsumexp.OP
PLANTED = [
    *((mistake, SMOOTH) for mistake in (curve_is_missing, curve_back_is_missing, curve_is_doubled)),
    *((mistake, SMOOTH) for mistake in (curve_back_has_the_other_sign, curve_does_not_subtract_the_means)),
    *((curve_is_missing, op) for op in CONVOLUTIONS),
    *((curve_back_is_missing, op) for op in CONVOLUTIONS),
    *((curve_is_doubled, op) for op in CONVOLUTIONS),
    *((curve_forgets_how_the_weight_moves, op) for op in CONVOLUTIONS),
    *((curve_back_forgets_one_input, op) for op in CONVOLUTIONS),
    *((curve_back_has_the_other_sign, op) for op in CONVOLUTIONS),
    *((curve_back_is_taken_at_x, op) for op in CONVOLUTIONS),
    *((a_straight_rule_bends, op) for op in (maximum.OP, mean.OP, padding.PAD, padding.UNPAD)),
]


def bent_otherwise(op, wrong):
    """A case in which the second derivatives of `wrong` are not those of dual numbers."""
    scalars = distinct() if op.exact else decimals()
    tangents = fractions() if op.exact else decimals()
    agree = operator.eq if op.exact else close

    @st.composite
    def situations(draw):
        params, xs, dxs, g = draw(cases(op, scalars, tangents=tangents))
        return params, xs, dxs, [draw(arrays(x.shape, tangents)) for x in xs], g

    with localcontext(prec=60):
        return find(
            situations(), lambda case: not agree(*all_nestings_are_duals_of_duals(routed(wrong), *case)), settings=SEARCH
        )


@pytest.mark.parametrize(("mistake", "op"), PLANTED, ids=lambda part: getattr(part, "name", None) or part.__name__)
def test_a_wrong_rule_of_second_order_breaks_the_law_of_second_derivatives(mistake, op):
    """The right ones obey the same law, in test_second_derivatives.py."""
    assert bent_otherwise(op, mistake(op))
