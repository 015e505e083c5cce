"""Padding by cells of the array: NumPy's meaning, the exact adjoint, one order of sums, and every kind of array."""

from fractions import Fraction

import dask.array as da
import numpy as np
import pytest

import windowgrad as wg
from windowgrad.ops import meaning
from windowgrad.params import BORDERS, ExtendParams

NUMPY = {"reflect": "reflect", "replicate": "edge", "circular": "wrap"}
every_border = pytest.mark.parametrize("mode", NUMPY)


@every_border
def test_every_amount_on_every_short_axis_is_that_of_numpy(mode):
    for n in range(1, 6):
        for lo in range(14):
            for hi in range(14):
                x = np.arange(n)
                assert wg.pad(x, [(lo, hi)], mode).tolist() == np.pad(x, (lo, hi), NUMPY[mode]).tolist()


@every_border
@pytest.mark.parametrize("dtype", ["bool", "int8", "uint64", "float16", "float32", "float64", ">f4"])
def test_every_dtype_and_layout(mode, dtype):
    x = (np.arange(48).reshape(2, 6, 4) % 7).astype(dtype)
    for given in (x, np.asfortranarray(x), x[:, ::-1], x[:0]):
        found = wg.pad(given, ((3, 0), (2, 9)), mode)
        expected = np.pad(given, ((0, 0), (3, 0), (2, 9)), NUMPY[mode])
        assert found.dtype == np.dtype(dtype).newbyteorder("=")
        assert (found == expected).all()
        assert found.shape == expected.shape


@pytest.mark.parametrize("value", [2.5, -np.inf, np.nan, -0.0])
def test_a_constant_is_that_of_numpy(value):
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    assert wg.pad(x, (1, (0, 2)), value=value).tobytes() == np.pad(x, ((1, 1), (0, 2)), constant_values=value).tobytes()


def test_a_constant_around_exact_numbers_is_one_of_them():
    x = np.array([Fraction(1, 3)], dtype=object)
    assert wg.pad(x, (1,), value=Fraction(1, 7)).tolist() == [Fraction(1, 7), Fraction(1, 3), Fraction(1, 7)]
    assert type(wg.pad(x, (1,), value=2)[0]) is Fraction
    assert wg.pad(np.ones(1), (1,), value=Fraction(1, 4)).tolist() == [0.25, 1.0, 0.25]


def test_no_padding_gives_a_copy():
    x = np.ones(3)
    for mode in BORDERS:
        y = wg.pad(x, (0,), mode)
        assert y is not x
        assert not np.shares_memory(y, x)


@every_border
def test_gradients_of_half_floats_are_summed_in_float32(mode):
    """100 ones and a 2048: float16 would lose each of the ones."""
    g = np.ones(101, np.float16)
    g[0] = 2048
    (found,) = wg.vjp(lambda x: wg.pad(x, [(50, 50)], mode), np.ones(1, np.float16))[1](g)
    assert found.dtype == np.float16
    assert float(found[0]) == float(np.float16(2148))


@every_border
def test_every_layout_of_a_gradient_gives_the_same_bits(mode):
    rng = np.random.default_rng(0)
    g = rng.standard_normal((3, 17, 13)).astype(np.float32)
    pull = wg.vjp(lambda x: wg.pad(x, ((6, 6), (4, 5)), mode), np.zeros((3, 5, 4), np.float32))[1]
    assert pull(np.asfortranarray(g))[0].tobytes() == pull(g)[0].tobytes()


@pytest.mark.parametrize("mode", BORDERS)
def test_second_derivatives_and_the_name_on_a_tape(mode):
    x = np.array([1.0, -2.0, 3.0])

    def loss(x):
        y = wg.pad(x, [(2, 4)], mode)
        return wg.sum(y * y * y)

    wg.check_grads(loss, x)
    wg.check_grads(wg.grad(loss), x)
    tape = wg.Tape()
    wg.pad(tape.leaf(x), (1,), "reflect")
    assert tape.nodes[-1].name == "pad"


@pytest.mark.parametrize("mode", BORDERS)
@pytest.mark.parametrize("chunks", [(1, 2), (3, 5), (2, 1)])
def test_dask_gives_the_same_bits_for_every_chunking(mode, chunks):
    rng = np.random.default_rng(1)
    x = rng.standard_normal((3, 5)).astype(np.float32)
    params = ExtendParams(((2, 7), (6, 1)), mode, 2 if mode == "constant" else 0)
    g = rng.standard_normal(params.out_shape(x.shape)).astype(np.float32)
    lazy = da.from_array(x, chunks=chunks)
    found = wg.pad(lazy, params.padding, mode, params.value)
    assert isinstance(found, da.Array)
    assert found.compute().tobytes() == wg.pad(x, params.padding, mode, params.value).tobytes()

    def push(f, x):
        return wg.jvp(f, (x,), (x,))[1]

    def pull(f, x, g):
        return wg.vjp(f, x)[1](g)[0]

    def f(x):
        return wg.pad(x, params.padding, mode, params.value)

    assert push(f, lazy).compute().tobytes() == push(f, x).tobytes()
    assert pull(f, lazy, da.from_array(g, chunks=4)).compute().tobytes() == pull(f, x, g).tobytes()


def test_the_operator_is_in_the_table():
    assert meaning("extend").exact
    assert meaning("extend").facts.grows
