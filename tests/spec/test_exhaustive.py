"""Every small window on a line, one after the other: sizes, cells, errors, and the laws over fractions."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from support import oracle
from support.laws import (
    forward_is_the_definition,
    jvp_is_forward_on_duals,
    max_derivative_is_the_definition,
    vjp_is_adjoint_of_jvp,
)
from windowgrad import adaptive_bins
from windowgrad.errors import WindowError
from windowgrad.geometry import Adaptive, Global, Sliding
from windowgrad.ops import OPS
from windowgrad.params import TIES, ConvParams, MaxParams, MeanParams, MinParams

SIZES, KERNELS, STRIDES, PADS, DILATIONS, CEILS = range(1, 7), range(1, 5), range(1, 4), range(4), (1, 2), (False, True)
every_size_and_kernel = pytest.mark.parametrize(("n", "k"), list(itertools.product(SIZES, KERNELS)))


def windows(k):
    """Every window of k cells: (stride, before, after, dilation, ceil mode)."""
    return itertools.product(STRIDES, PADS, PADS, DILATIONS, CEILS)


def legal(n, k):
    """Every geometry of k cells that fits n."""
    for s, lo, hi, d, ceil in windows(k):
        if d * (k - 1) + 1 <= n + lo + hi:
            yield Sliding((k,), s, ((lo, hi),), d, ceil)


# --- sizes and cells ---------------------------------------------------------------------------------------------


@every_size_and_kernel
def test_the_size_is_the_number_of_windows_one_can_enumerate(n, k):
    for s, lo, hi, d, ceil in windows(k):
        geometry, room = Sliding((k,), s, ((lo, hi),), d, ceil), n + lo + hi - d * (k - 1) - 1
        if room < 0:
            with pytest.raises(WindowError, match=r"^kernel_size=\d+ on axis 0: the window covers \d+ cells, "):
                geometry.out_shape((n,))
            continue
        formula = (math.ceil if ceil else math.floor)(Fraction(room, s)) + 1
        if ceil and (formula - 1) * s >= n + lo:
            formula -= 1
        assert geometry.out_shape((n,)) == (formula,) == (len(oracle.starts(n, k, s, lo, hi, d, ceil)),), geometry


@every_size_and_kernel
def test_taps_and_padding_are_the_cells_one_can_enumerate(n, k):
    for geometry in legal(n, k):
        for o, real, padded in oracle.regions(geometry, (n,)):
            assert geometry.taps(o, (n,)) == real, geometry
            assert geometry.padded(o, (n,)) == padded, geometry


@every_size_and_kernel
def test_reach_names_the_place_in_the_kernel_of_every_cell(n, k):
    for geometry in legal(n, k):
        lo, d, s = geometry.padding[0][0], geometry.dilation[0], geometry.stride[0]
        for i in range(geometry.out_shape((n,))[0]):
            expected = [((j,), (c,)) for j in range(k) for c in range(n) if c == i * s + j * d - lo]
            assert geometry.reach((i,), (n,)) == expected, geometry


@pytest.mark.parametrize("n", range(1, 13))
def test_adaptive_bins_are_floor_and_ceil_of_the_exact_quotients(n):
    for m in range(1, 13):
        exact = [(math.floor(Fraction(i * n, m)), math.ceil(Fraction((i + 1) * n, m))) for i in range(m)]
        assert adaptive_bins(n, m) == exact
        bins = [[(c,) for c in range(start, end)] for start, end in exact]
        assert [Adaptive((m,)).taps((i,), (n,)) for i in range(m)] == bins
        assert {cell for cells in bins for cell in cells} == {(c,) for c in range(n)}
    assert Global(1).taps((0,), (n,)) == Global(1, keepdims=False).taps((), (n,)) == [(c,) for c in range(n)]


# --- laws --------------------------------------------------------------------------------------------------------


def line(n, step, offset):
    """n distinct fractions in no simple order, and then n with many ties: two rows."""
    free = [Fraction((step * i + offset) % 7 - 3, 3) for i in range(n)]
    tied = [Fraction((step * i // 2 + offset) % 2, 2) for i in range(n)]
    return np.array([free, tied])


def gradient(shape):
    return np.array([Fraction(3 * i % 5 - 2, i % 3 + 1) for i in range(math.prod(shape))], dtype=object).reshape(shape)


def check(law, op, params, xs):
    dxs = [x[..., ::-1] * 2 + 1 for x in xs]
    left, right = law(op, params, xs, dxs, gradient(params.out_shape(*(x.shape for x in xs))))
    assert left == right, params


@pytest.mark.slow
@pytest.mark.parametrize(("name", "record"), [("max_pool", MaxParams), ("min_pool", MinParams)])
@every_size_and_kernel
def test_max_and_min_obey_their_laws(n, k, name, record):
    """On both rows at once: "first" is what the forward rule selects, so duals agree under ties too."""
    op, xs = OPS[name], [line(n, 3, k)]
    for geometry in legal(n, k):
        check(forward_is_the_definition, op, record(geometry), xs)
        check(jvp_is_forward_on_duals, op, record(geometry), xs)
        for ties in TIES:
            check(vjp_is_adjoint_of_jvp, op, record(geometry, ties), xs)
            check(max_derivative_is_the_definition, op, record(geometry, ties), xs)


@pytest.mark.slow
@every_size_and_kernel
def test_mean_obeys_its_laws(n, k):
    op, xs = OPS["avg_pool"], [line(n, 3, k)]
    for geometry in legal(n, k):
        for params in (MeanParams(geometry), MeanParams(geometry, False), MeanParams(geometry, True, 5)):
            check(forward_is_the_definition, op, params, xs)
            check(jvp_is_forward_on_duals, op, params, xs)
            check(vjp_is_adjoint_of_jvp, op, params, xs)


@pytest.mark.slow
@every_size_and_kernel
def test_conv_obeys_its_laws(n, k):
    """The two rows are two channels; two outputs are made of them, with a bias."""
    op = OPS["conv"]
    weight = np.array([Fraction(i % 5 - 2, i % 2 + 1) for i in range(4 * k)]).reshape(2, 2, k)
    xs = [line(n, 3, k), weight, np.array([Fraction(1, 3), Fraction(-2)])]
    for geometry in legal(n, k):
        params = ConvParams(geometry)
        check(forward_is_the_definition, op, params, xs)
        check(jvp_is_forward_on_duals, op, params, xs)
        check(vjp_is_adjoint_of_jvp, op, params, xs)
