"""A test of the tests: an array operator with a mistake planted in it must break the law that is there to catch it."""

from dataclasses import replace
from decimal import localcontext
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import Phase, find, settings
from hypothesis.errors import NoSuchExample

import windowgrad as wg
from support import laws
from support.array_cases import OPS, WITHOUT_DERIVATIVE, cases
from support.strategies import decimals, fractions

SEARCH = settings(max_examples=50, derandomize=True, database=None, deadline=None, phases=[Phase.generate])
adjoint, duals = laws.vjp_is_adjoint_of_jvp, laws.jvp_is_forward_on_duals
LAWS = {"jvp": duals, "vjp": adjoint}


def broken(op, law):
    """A case on which the law does not hold for `op`; NoSuchExample if there is none to be found."""
    agree = (lambda left, right: left == right) if op.exact else laws.close
    with localcontext(prec=60):
        return find(cases(op, fractions() if op.exact else decimals()), lambda case: not agree(*law(*case)), settings=SEARCH)


def one_cell_is_one_more(op, rule):
    """The last cell of what `rule` gives, or of the first gradient; copied, for it may share the memory of what came in."""

    def wrong(*arguments):
        result = getattr(op, rule)(*arguments)
        first, *rest = result if rule == "vjp" else (result,)
        first = first.copy()
        first.reshape(-1)[-1:] += 1
        return (first, *rest) if rule == "vjp" else first

    return replace(op, **{rule: wrong})


@pytest.mark.parametrize("rule", LAWS)
@pytest.mark.parametrize("op", [op for op in OPS.values() if op.name not in WITHOUT_DERIVATIVE], ids=lambda op: op.name)
def test_one_wrong_cell_breaks_a_law(op, rule):
    assert broken(one_cell_is_one_more(op, rule), LAWS[rule])


def forgets_to_sum(params, a, b, g):
    return g.reshape(-1)[: a.size].reshape(a.shape), g.reshape(-1)[: b.size].reshape(b.shape)


def forgets_to_add(params, x, g):
    y = np.full(x.shape, Fraction(0))
    y[params.raw] = g
    return (y,)


def doubled(op, *given):
    return [None if g is None else wg.add(g, g) for g in op.vjp(*given)]


MISTAKES = {
    "the gradient of a broadcast is not summed": ("add", "vjp", forgets_to_sum),
    "the subtrahend keeps its sign": ("subtract", "vjp", lambda params, a, b, g: OPS["add"].vjp(params, a, b, g)),
    "factors are not exchanged": (
        "multiply",
        "jvp",
        lambda params, a, b, da, db: wg.add(wg.multiply(a, da), wg.multiply(b, db)),
    ),
    "the gate is open at 0": ("gate", "vjp", lambda params, x, dx, g: (None, g)),
    "the lesser gets the gradient": ("maximum", "vjp", lambda *given: OPS["minimum"].vjp(*given)),
    "what is not chosen gets a gradient": ("mask", "vjp", lambda params, condition, dx, g: (None, g)),
    "a branch gets its gradient twice": ("where", "vjp", lambda *given: (None, *doubled(OPS["where"], *given)[1:])),
    "every cell is a winner": ("split", "vjp", lambda params, x, dx, g: (None, g)),
    "a share is counted twice": ("share", "vjp", lambda *given: (None, None, *doubled(OPS["share"], *given)[2:])),
    "a cell that is indexed twice counts once": ("index", "vjp", forgets_to_add),
    "the parts change places": ("concatenate", "jvp", lambda params, a, b, da, db: wg.concatenate([db, da], params.axis)),
    "the mean is a sum": ("mean", "jvp", lambda params, x, dx: wg.sum(dx, params.axis, params.keepdims)),
    "axes are not turned back": ("transpose", "vjp", lambda params, x, g: (wg.reshape(g, x.shape),)),
    "softmax does not weigh": ("log_softmax", "jvp", lambda params, x, dx: wg.subtract(dx, wg.mean(dx, params.axis, True))),
    "the label is not taken away": (
        "cross_entropy",
        "vjp",
        lambda params, x, labels, g: (wg.multiply(g, wg.exp(wg.log_softmax(x))), None),
    ),
    "the square is not doubled": ("mse", "jvp", lambda params, x, t, dx, dt: wg.mean((x - t) * (dx - dt))),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_planted_mistake_breaks_its_law(name):
    op, rule, mistake = MISTAKES[name]
    assert broken(replace(OPS[op], **{rule: mistake}), LAWS[rule])


@pytest.mark.parametrize("rule", LAWS)
@pytest.mark.parametrize("op", sorted({op for op, _, _ in MISTAKES.values()}))
def test_the_right_operator_breaks_none_of_these_laws(op, rule):
    with pytest.raises(NoSuchExample):
        broken(OPS[op], LAWS[rule])
