"""Rules 1 to 3: how many windows there are, what they see, and what an empty one gives."""

import itertools
import math
import re
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest
from common import FLOATS, INTS, MAX, TIES, fractions, inf, same

import windowgrad as wg
from windowgrad.geometry import Sliding
from windowgrad.params import MaxParams

# --- 1. Size -----------------------------------------------------------------------------------------------------

SIZES = [(n, *rest) for n in (1, 2, 5, 8) for rest in itertools.product((0, 2), (0, 1, 3), (1, 2, 3), (1, 2, 4), (1, 2))]


def test_the_number_of_windows_is_how_many_starts_fit_into_the_padded_input():
    for n, lo, hi, k, s, d in SIZES:
        starts = [i for i in range(0, n + lo + hi, s) if i + d * (k - 1) < n + lo + hi]
        if starts:
            assert wg.pool_out_shape((n,), (k,), s, ((lo, hi),), d) == (len(starts),)


def test_ceil_mode_rounds_up_and_drops_a_last_window_that_starts_at_or_past_n_plus_lo():
    dropped = 0
    for n, lo, hi, k, s, d in SIZES:
        if n + lo + hi > d * (k - 1):
            out = math.ceil(Fraction(n + lo + hi - d * (k - 1) - 1, s)) + 1
            late = (out - 1) * s >= n + lo
            dropped += late
            assert wg.pool_out_shape((n,), (k,), s, ((lo, hi),), d, ceil_mode=True) == (out - late,)
    assert dropped


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"kernel_size": (2, 5)}, "kernel_size=5 on axis 1: the window covers 5 cells, the padded input has 4"),
        ({"kernel_size": 3, "dilation": (1, 2)}, "kernel_size=3 on axis 1: the window covers 5 cells, the padded input has 4"),
        ({"kernel_size": (2, 0)}, "kernel_size=0 on axis 1: must be at least 1"),
        ({"kernel_size": (-2, 2)}, "kernel_size=-2 on axis 0: must be at least 1"),
        ({"kernel_size": 2, "stride": (1, 0)}, "stride=0 on axis 1: must be at least 1"),
        ({"kernel_size": 2, "stride": -3}, "stride=-3 on axis 0: must be at least 1"),
        ({"kernel_size": 2, "dilation": 0}, "dilation=0 on axis 0: must be at least 1"),
        ({"kernel_size": 2, "dilation": (1, -1)}, "dilation=-1 on axis 1: must be at least 1"),
        ({"kernel_size": 2, "padding": -1}, "padding=-1 on axis 0: must not be negative"),
        ({"kernel_size": 2, "padding": (0, (0, -2))}, "padding=(0, -2) on axis 1: must not be negative"),
    ],
    ids=str,
)
@pytest.mark.parametrize("pool", [wg.max_pool2d, wg.avg_pool2d], ids=lambda f: f.__name__)
def test_what_cannot_be_is_an_error_that_names_the_axis_the_value_and_the_call(pool, options, said):
    with pytest.raises(wg.WindowError) as caught:
        pool(np.zeros((4, 4), dtype=np.float32), **options)
    call = re.escape(f"[{pool.__name__}(x: float32(4, 4), kernel_size={options['kernel_size']}")
    assert str(caught.value).startswith(said)
    assert re.search(call + r".*\)\]$", str(caught.value))
    assert isinstance(caught.value, ValueError)


@pytest.mark.parametrize("size", [0, -1])
def test_a_size_below_one_is_an_error(size):
    with pytest.raises(wg.WindowError, match=rf"{size} on axis 1: .*\[pool_out_shape\(spatial=\(4, {size}\)"):
        wg.pool_out_shape((4, size), (2, 2))


@pytest.mark.parametrize("value", [2.0, True, "2", None])
def test_what_is_not_an_integer_is_a_kind_error(value):
    with pytest.raises(wg.KindError, match=r"kernel_size=.* on axis 0: must be an integer, not .*\[max_pool1d\("):
        wg.max_pool1d(np.zeros(4), (value,))
    assert issubclass(wg.KindError, TypeError)


# --- 2. Padding and max ------------------------------------------------------------------------------------------


def test_a_padded_cell_is_absent_and_never_wins(array):
    y = wg.max_pool2d(array([[-4, -3], [-2, -1]]), 2, stride=1, padding=1)
    same([y], [[-4, -3, -3], [-2, -1, -1], [-2, -1, -1]])


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int8", "int64", "uint8", "bool", ml_dtypes.bfloat16])
def test_a_padded_cell_is_no_smallest_value_either(dtype):
    """Every real cell is the smallest value of its type, so any stand-in for a padded cell would tie with it."""
    dtype = np.dtype(dtype)
    least = {"b": False, "i": np.iinfo(dtype).min if dtype.kind == "i" else 0, "u": 0}.get(dtype.kind, -inf)
    x = np.full(2, least, dtype=dtype)
    values, indices = wg.max_pool1d(x, 2, padding=1, return_indices=True)
    same([values, indices], x.tolist(), [0, 1])
    for ties in TIES:
        (gx,) = MAX.vjp(MaxParams(Sliding((2,), padding=1), ties=ties), x, np.array([3.0, 5.0]))
        assert gx.tolist() == [3, 5]


def test_a_padded_cell_takes_no_tangent_and_no_gradient(array):
    params, x = MaxParams(Sliding((3,), stride=1, padding=1)), array([-1, -2])
    assert MAX.jvp(params, x, array([10, 20])).tolist() == [10, 10]
    assert MAX.vjp(params, x, array([1, 2]))[0].tolist() == [3, 0]


# --- 3. Empty window ---------------------------------------------------------------------------------------------

EMPTY = [  # windows, cells, whether each of the outputs sees a cell
    (Sliding((2,), padding=2), [-5, -3], [False, True, False]),
    (Sliding((2,), padding=1, dilation=2), [-7], [False]),
    (Sliding((1,), padding=((0, 3),)), [-7], [True, False, False, False]),
]


@pytest.mark.parametrize(("window", "cells", "seen"), EMPTY, ids=str)
@pytest.mark.parametrize("ties", TIES)
def test_an_empty_window_has_value_zero_index_minus_one_tangent_zero_and_no_gradient(array, window, cells, seen, ties):
    params, x = MaxParams(window, ties=ties), array(cells)
    values, indices = MAX.with_indices(params, x)
    best = x.argmax()
    same([values, indices], [x[best] if s else 0 for s in seen], [best if s else -1 for s in seen])
    assert MAX.jvp(params, x, array([10] * len(x))).tolist() == [10 if s else 0 for s in seen]
    (gx,) = MAX.vjp(params, x, array([10] * len(seen)))
    assert gx.sum() == gx[best] == 10 * sum(seen)


def test_an_empty_window_is_zero_for_every_dtype_of_max():
    for name in (*INTS, *FLOATS, ml_dtypes.bfloat16):
        y = wg.max_pool1d(np.ones(2, dtype=name), 2, padding=2)
        assert y.tolist() == [0, 1, 0]
        assert y.dtype == np.dtype(name)


@pytest.mark.parametrize(("window", "cells", "seen"), EMPTY, ids=str)
def test_empty_raise_refuses_every_rule(array, window, cells, seen):
    params, x = MaxParams(window, empty="raise"), array(cells)
    said = rf'empty="raise": window {seen.index(False)} on axis 0 covers no cell of the input'
    for rule, *rest in (("forward",), ("with_indices",), ("jvp", x), ("vjp", array([1] * len(seen)))):
        with pytest.raises(wg.WindowError, match=said):
            getattr(MAX, rule)(params, x, *rest)
    with pytest.raises(wg.WindowError, match=rf"{said} \[max_pool1d\(.*empty='raise'\)\]"):
        wg.max_pool1d(x, window.kernel, window.stride, window.padding, window.dilation, empty="raise")


def test_empty_raise_is_silent_where_every_window_has_a_cell(array):
    assert wg.max_pool1d(array([-5, -3]), 2, padding=1, empty="raise").tolist() == [-5, -3]


def test_the_specification_called_by_itself_refuses_an_empty_window_too():
    with pytest.raises(wg.WindowError, match="covers no cell"):
        wg.spec.maximum.OP.forward(MaxParams(Sliding((2,), padding=2), empty="raise"), fractions([1, 2]))


# --- padding by name -----------------------------------------------------------------------------------------------


POOLS = {
    "max": wg.max_pool,
    "min": wg.min_pool,
    "avg": wg.avg_pool,
    "smooth": lambda x, *a, **k: wg.smooth_max_pool(x, *a, beta=2.0, **k),
    "lp": lambda x, *a, **k: wg.lp_pool(x, 3, *a, **k),
}


@pytest.mark.parametrize("word", ["same", "SAME"])
@pytest.mark.parametrize("pool", POOLS.values(), ids=POOLS)
def test_same_keeps_the_size_and_puts_the_odd_cell_after(pool, word):
    x = np.random.default_rng(0).standard_normal((2, 7, 6))
    y = pool(x, (3, 4), 1, padding=word, dilation=(1, 2))
    assert y.shape == x.shape
    assert np.array_equal(y, pool(x, (3, 4), 1, padding=((1, 1), (3, 3)), dilation=(1, 2)))
    assert np.array_equal(pool(x, (2, 4), 1, padding=word), pool(x, (2, 4), 1, padding=((0, 1), (1, 2))))


@pytest.mark.parametrize("word", ["valid", "VALID"])
@pytest.mark.parametrize("pool", POOLS.values(), ids=POOLS)
def test_valid_is_no_padding(pool, word):
    x = np.random.default_rng(0).standard_normal((2, 7, 6))
    assert np.array_equal(pool(x, (3, 2), padding=word), pool(x, (3, 2)))


def test_the_names_of_paddings_hold_in_layers_and_shapes():
    layer = wg.nn.MaxPool((3, 2), 1, "same")
    assert layer == wg.nn.MaxPool((3, 2), 1, ((1, 1), (0, 1)))
    assert layer.out_shape((1, 3, 8, 9)) == (1, 3, 8, 9)
    assert wg.nn.LpPool(2, (2, 2), padding="valid") == wg.nn.LpPool(2, (2, 2))
    assert wg.pool_out_shape((8, 9), (3, 2), 1, "SAME") == (8, 9)
    assert wg.conv_out_shape((8, 9), (3, 2), padding="SAME") == (8, 9)
