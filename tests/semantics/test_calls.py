"""How the functions are called, and that the page has every rule."""

import re
from decimal import Decimal
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from common import CONV, bits, fractions, inf

import windowgrad as wg
from support.paths import DOCS
from windowgrad.geometry import Sliding
from windowgrad.params import ConvParams, MaxParams

# --- Rules for calls ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("lead", [(), (2,), (2, 3), (2, 3, 1)])
def test_every_axis_before_the_last_ones_is_batch(lead):
    x = np.random.default_rng(0).standard_normal((*lead, 4, 6))
    flat = x.reshape(-1, 4, 6)
    for pool in (lambda a: wg.max_pool2d(a, 2), lambda a: wg.avg_pool2d(a, 2), lambda a: wg.smooth_max_pool2d(a, 2, beta=1)):
        assert bits(pool(x)) == bits(np.stack([pool(plane) for plane in flat]).reshape(*lead, 2, 3))


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_in_the_numbered_functions_an_integer_means_the_same_on_every_axis(rank):
    x = np.random.default_rng(0).standard_normal((2, 3, 4, 5, 6))
    for family, options in (("max_pool", {}), ("avg_pool", {}), ("smooth_max_pool", {"beta": 2})):
        numbered = getattr(wg, f"{family}{rank}d")(x, 3, 2, 1, **options)
        assert bits(numbered) == bits(getattr(wg, family)(x, (3,) * rank, (2,) * rank, (1,) * rank, **options))


def test_without_a_number_the_length_of_the_tuple_is_the_rank_and_an_integer_is_refused():
    x = np.zeros((2, 4, 4, 4, 4))
    assert wg.max_pool(x, (2,) * 4).shape == (2, 2, 2, 2, 2)
    assert wg.max_pool(x, (2,)).shape == (2, 4, 4, 4, 2)
    with pytest.raises(wg.KindError, match=r"kernel_size=2: must be a tuple .* write \(2, 2\) for two axes.*\[max_pool\("):
        wg.max_pool(x, 2)


def test_padding_is_an_integer_one_per_axis_or_a_pair_per_axis(array):
    x = array([[-1, -2], [-3, -4]])
    pairs = wg.max_pool2d(x, 2, 1, ((1, 1), (0, 1)))
    assert pairs.tolist() == [[-1, -2], [-1, -2], [-3, -4]]
    assert wg.max_pool2d(x, 2, 1, (1, (0, 1))).tolist() == pairs.tolist()
    assert wg.max_pool2d(x, 2, 1, 1).tolist() == wg.max_pool2d(x, 2, 1, (1, 1)).tolist()


def test_same_keeps_the_size_with_the_odd_cell_after_and_valid_pads_nothing(array):
    x, w = array([[1, 2, 3, 4]]), array([[[1, 10]]])
    assert wg.conv1d(x, w, padding="same").tolist() == [[21, 32, 43, 4]]
    assert wg.conv1d(x, w, padding="valid").tolist() == [[21, 32, 43]]
    assert wg.conv1d(x, w, padding="same", dilation=3).tolist() == wg.conv1d(x, w, padding=((1, 2),), dilation=3).tolist()
    with pytest.raises(wg.WindowError, match='padding="same": stride must be 1'):
        wg.conv1d(x, w, padding="same", stride=2)


@pytest.mark.parametrize(("groups", "stride", "lo", "hi", "d"), [(1, 1, 0, 0, 1), (2, 2, 1, 2, 1), (2, 1, 3, 0, 2)])
def test_conv_is_the_written_sum_and_conv_transpose_its_adjoint(array, groups, stride, lo, hi, d):
    random = np.random.default_rng(0)
    x, w, b = (array(random.integers(-9, 9, shape)) for shape in ((4, 6), (6, 4 // groups, 3), (6,)))
    y = wg.conv1d(x, w, b, stride, ((lo, hi),), d, groups)
    for f, o in np.ndindex(*y.shape):
        group = f // (6 // groups) * (4 // groups)
        cells = [(c, j, o * stride + j * d - lo) for c in range(4 // groups) for j in range(3)]
        assert y[f, o] == b[f] + sum(w[f, c, j] * x[group + c, i] for c, j, i in cells if 0 <= i < 6)
    extra = 6 - wg.conv_transpose_out_shape(y.shape[1:], (3,), stride, ((lo, hi),), 0, d)[0]
    g = array(random.integers(-9, 9, y.shape))
    back = wg.conv_transpose1d(g, w, None, stride, ((lo, hi),), extra, groups, d)
    assert (g * (y - b[:, None])).sum() == (back * x).sum()


def test_a_padded_cell_has_no_product_so_an_infinite_weight_does_not_meet_it():
    for dtype in (object, np.float64):
        x, w = np.array([[1.0, 1.0]], dtype=dtype), np.array([[[inf, 1.0]]], dtype=dtype)
        assert wg.conv1d(x, w, padding=1).tolist() == [[1.0, inf, inf]]


def test_output_padding_adds_computed_cells_at_the_end(array):
    x, w = array([[1, 10]]), array([[[1, 2, 3]]])
    assert wg.conv_transpose1d(x, w, stride=2).tolist() == [[1, 2, 13, 20, 30]]
    assert wg.conv_transpose1d(x, w, stride=2, padding=1).tolist() == [[2, 13, 20]]
    assert wg.conv_transpose1d(x, w, stride=2, padding=1, output_padding=1).tolist() == [[2, 13, 20, 30]]
    assert wg.conv_transpose1d(x, w, stride=2, output_padding=1).tolist() == [[1, 2, 13, 20, 30, 0]]


def test_fractions_stay_fractions_and_python_integers_divide_exactly():
    for kind in (Fraction, int):
        y = wg.avg_pool1d(np.array([kind(1), kind(1), kind(0)], dtype=object), 3)
        assert (type(y[0]), y[0]) == (Fraction, Fraction(2, 3))
    assert wg.max_pool1d(np.array([10**40, 10**40 + 1], dtype=object), 2).tolist() == [10**40 + 1]


@pytest.mark.parametrize("cells", [(0.5, -3.0), (1.0, 2.0), (0.25, 0.25), (inf, 1.0), (-inf, -inf)], ids=str)
@pytest.mark.parametrize("number", [float, Decimal, mpmath.mpf, wg.Dual, np.float64], ids=lambda n: n.__name__)
def test_every_scalar_with_exp_and_log_has_a_smooth_maximum(number, cells):
    y = wg.smooth_max_pool1d(np.array([number(v) for v in cells], dtype=object), 2, beta=2)
    assert type(y[0]) is number
    wanted = float(np.logaddexp(2 * cells[0], 2 * cells[1])) / 2
    assert float(getattr(y[0], "value", y[0])) == pytest.approx(wanted, rel=1e-14)


def test_a_scalar_without_exp_is_refused_by_smooth_max():
    with pytest.raises(wg.KindError, match=r"Fraction has no exp: .*\[smooth_max_pool1d\("):
        wg.smooth_max_pool1d(fractions([1, 2]), 2, beta=1)


def test_dual_numbers_carry_the_derivative_and_nest():
    x = np.array([wg.Dual(Fraction(3), Fraction(1)), wg.Dual(Fraction(2), Fraction(10))])
    assert [wg.max_pool1d(x, 2)[0].tangent, wg.avg_pool1d(x, 2)[0].tangent] == [1, Fraction(11, 2)]
    y = wg.smooth_max_pool1d(np.array([wg.Dual(wg.Dual(0.0, 1.0), 1.0), wg.Dual(wg.Dual(0.0))]), 2, beta=1)[0]
    assert (y.tangent.value, y.tangent.tangent) == (0.5, 0.25)  # of log(1 + exp t) at 0: the first and the second derivative


def test_an_array_of_your_own_gets_record_rule_parameters_and_arrays_and_may_pass():
    class Mine:
        def __init__(self, answer):
            self.answer = answer

        def __windowgrad__(self, *asked):
            return asked if self.answer is None else self.answer

    passing, mine, params = Mine(NotImplemented), Mine(None), ConvParams(Sliding((2,), 1))
    op, rule, got, arrays = CONV.forward(params, passing, mine)
    assert (op.name, rule, got, arrays) == ("conv", "forward", params, (passing, mine))
    assert wg.max_pool1d(mine, 2, return_indices=True)[1] == "with_indices"
    with pytest.raises(wg.KindError, match="x: must be a NumPy array"):
        wg.max_pool1d(passing, 2)


def test_the_specification_by_itself_gives_arrays_of_objects_whatever_comes_in():
    x = np.array([[1.0, 5.0], [5.0, 2.0]], dtype=np.float32)
    y = wg.spec.maximum.OP.forward(MaxParams(Sliding((2, 2))), x)
    assert (y.dtype, y.tolist()) == (object, [[5.0]])
    assert wg.spec.maximum.winner(x, Sliding((2, 2)).taps((0, 0), (2, 2))) == (0, 1)


# --- the page itself ---------------------------------------------------------------------------------------------

RULES = (
    "Size",
    "Padding and max",
    "Empty window",
    "Ties",
    "NaN",
    "Mean",
    "Smooth max",
    "Types and error",
    "Empty batch",
    "Any array layout",
    "Determinism",
    "Scalars without a total order",
)


def test_the_page_has_every_rule_under_its_heading_with_an_executed_example():
    page = (DOCS / "semantics.md").read_text(encoding="utf-8")
    sections = re.split(r"^## ", page, flags=re.MULTILINE)[1:]
    numbered = [section for section in sections if re.match(r"\d+\. ", section)]
    assert [section.partition("\n")[0] for section in numbered] == [f"{n}. {rule}" for n, rule in enumerate(RULES, 1)]
    for section in numbered:
        assert re.search(r"^```python\n>>> ", section, flags=re.MULTILINE), section.partition("\n")[0]
