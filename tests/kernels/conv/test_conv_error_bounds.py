"""The error of convolution and its gradients against exact sums, on floats chosen to be hard.

A sum of K products is within (K + 2)·2⁻²⁴·Σ|w||x| of the exact one (float64: 2⁻⁵³). A product below the normal numbers is kept
to half the smallest number there is, and so is such a result: that much is added for each, and once at least.
"""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.exact import BFLOAT16, PRECISION
from support.strategies import cases
from windowgrad.geometry import Sliding
from windowgrad.ops import OPS
from windowgrad.params import ConvParams, TransposeParams
from windowgrad.spec.convolution import terms

FLOAT32, FLOAT64 = np.dtype(np.float32), np.dtype(np.float64)
both_floats = pytest.mark.parametrize("dtype", [FLOAT32, FLOAT64], ids=lambda dtype: dtype.name)
both = pytest.mark.parametrize("name", ["conv", "conv_transpose"])


# --- hard floats ---------------------------------------------------------------------------------------------------


def of_any_size(shape, dtype, rng):
    """Exponents from the subnormal numbers up to where a sum of products would overflow."""
    _, smallest = PRECISION[dtype.name]
    return np.ldexp(rng.uniform(-2, 2, shape), rng.integers(smallest - 20, -smallest // 2 - 6, shape))


def cancelling(shape, dtype, rng):
    """Ones of either sign, off by a few units in the last place: sums are far smaller than their terms."""
    bits, _ = PRECISION[dtype.name]
    return rng.choice([-1.0, 1.0], shape) * (1 + rng.integers(-9, 10, shape) * 2.0 ** (1 - bits))


def subnormal(shape, dtype, rng):
    """Beside any other of these nearly every product is lost, or subnormal."""
    bits, smallest = PRECISION[dtype.name]
    return np.ldexp(rng.integers(-999, 1000, shape).astype(float), smallest - bits + 1)


def underflowing(shape, dtype, rng):
    """The product of two of them is about the smallest number there is."""
    bits, smallest = PRECISION[dtype.name]
    return np.ldexp(rng.uniform(-2, 2, shape), (smallest - bits + 1) // 2)


def one_large(shape, dtype, rng):
    """One in eight is so large that beside it the others lose their last digits."""
    bits, _ = PRECISION[dtype.name]
    return rng.standard_normal(shape) * np.where(rng.integers(0, 8, shape) == 0, 2.0**bits, 1)


def ordinary(shape, dtype, rng):
    return rng.standard_normal(shape)


HARD = {maker.__name__: maker for maker in (of_any_size, cancelling, subnormal, underflowing, one_large, ordinary)}


# --- exact sums ----------------------------------------------------------------------------------------------------


class Sum:
    """For each cell of an array the exact sum of its products, the sum of their sizes, their number, how many are subnormal."""

    def __init__(self, shape, dtype):
        self.exact, self.size, self.count, self.lost = (np.full(shape, 0, dtype=object) for _ in range(4))
        bits, smallest = PRECISION[dtype.name]
        self.bits, self.half = bits, 2 ** (SCALE[dtype] + smallest - bits)
        self.normal = 2 ** (SCALE[dtype] + smallest)

    def add(self, i, product):
        self.exact[i] += product
        self.size[i] += abs(product)
        self.count[i] += product != 0
        self.lost[i] += 0 < abs(product) < self.normal

    def holds(self, found, name):
        for i in np.ndindex(*self.exact.shape):
            error = abs(Fraction(float(found[i])) * UNIT[found.dtype] ** 2 - self.exact[i])
            allowed = Fraction((self.count[i] + 2) * self.size[i], 2**self.bits) + max(1, self.lost[i]) * self.half
            assert error <= allowed, (name, i, found[i], float(error / allowed))


UNIT = {FLOAT32: 2**149, FLOAT64: 2**1074}  # every finite float is an integer by that many
SCALE = {FLOAT32: 2 * 149, FLOAT64: 2 * 1074}  # and every product one by two to this


def whole(array):
    """The floats as integers of their smallest unit."""
    out = np.empty(array.shape, dtype=object)
    out.reshape(-1)[:] = [int(Fraction(float(cell)) * UNIT[array.dtype]) for cell in array.flat]
    return out


def check(name, params, x, w, g, bias=()):
    """Forward and every gradient are within their bounds."""
    op, dtype = OPS[name], x.dtype
    found = [op.forward(params, x, w, *bias), *op.vjp(params, x, w, *bias, g)]
    assert [array.dtype for array in found] == [dtype] * len(found)
    y, gx, gw = (Sum(array.shape, dtype) for array in found[:3])
    exact_x, exact_w, exact_g = map(whole, (x, w, g))
    for i, j, k in terms(params, x, w):
        y.add(i, exact_w[j] * exact_x[k])
        gx.add(k, exact_g[i] * exact_w[j])
        gw.add(j, exact_g[i] * exact_x[k])
    sums = {"forward": y, "gradient of the input": gx, "gradient of the weight": gw}
    if bias:
        sums["gradient of the bias"] = gb = Sum(bias[0].shape, dtype)
        channel = -params.window.rank - 1
        for i in np.ndindex(*y.exact.shape):
            term = int(Fraction(float(bias[0][i[channel]])) * UNIT[dtype] ** 2)
            y.exact[i], y.size[i] = y.exact[i] + term, y.size[i] + abs(term)
            gb.add((i[channel],), exact_g[i] * UNIT[dtype])
    for (what, one), array in zip(sums.items(), found, strict=True):
        one.holds(array, what)


@both_floats
@both
@given(data=st.data())
def test_convolution_and_its_gradients_are_within_their_bounds(name, dtype, data):
    """Ranks, groups, strides, dilations and paddings as the laws are tried on."""
    params, shaped, _, gradient = data.draw(cases(OPS[name], lambda count: st.just([0] * count)))
    rng = np.random.default_rng(data.draw(st.integers(0, 999)))
    kinds = [HARD[data.draw(st.sampled_from(sorted(HARD)))] for _ in (*shaped, gradient)]
    x, w, *bias, g = (
        kind(array.shape, dtype, rng).astype(dtype) for kind, array in zip(kinds, (*shaped, gradient), strict=True)
    )
    check(name, params, x, w, g, bias)


LONG = {
    "many channels": (ConvParams(Sliding((3, 3), 1, 1)), (1, 70, 3, 5), (3, 70, 3, 3)),
    "many outputs": (ConvParams(Sliding((1, 1), 1)), (1, 5, 4, 5), (66, 5, 1, 1)),
    "many pixels": (ConvParams(Sliding((3,), 2, ((1, 0),), 2)), (2, 2, 900), (2, 2, 3)),
    "a large window": (ConvParams(Sliding((17, 9), 3, 4)), (1, 2, 19, 20), (2, 2, 17, 9)),
    "each channel by itself": (ConvParams(Sliding((3, 3), 1, 1), 9), (1, 9, 11, 12), (9, 1, 3, 3)),
    "a volume in groups": (ConvParams(Sliding((2, 3, 2), (1, 2, 1), 1, (1, 1, 2)), 2), (1, 8, 5, 6, 7), (6, 4, 2, 3, 2)),
    "transposed": (TransposeParams(Sliding((2, 2), 2)), (1, 64, 3, 4), (64, 5, 2, 2)),
    "transposed in groups": (TransposeParams(Sliding((4, 3), (2, 1), 1, (1, 2)), 2, (1, 0)), (2, 12, 4, 5), (12, 3, 4, 3)),
}


@pytest.mark.slow
@both_floats
@pytest.mark.parametrize("kind", HARD)
@pytest.mark.parametrize("case", LONG)
def test_long_sums_are_within_their_bounds(case, kind, dtype):
    params, *shapes = LONG[case]
    rng = np.random.default_rng(7)
    x, w, g = (HARD[kind](shape, dtype, rng).astype(dtype) for shape in (*shapes, params.out_shape(*shapes)))
    check("conv_transpose" if isinstance(params, TransposeParams) else "conv", params, x, w, g)


@pytest.mark.parametrize("dtype", [np.dtype(np.float16), BFLOAT16], ids=lambda dtype: dtype.name)
@pytest.mark.parametrize("case", LONG)
def test_half_precision_is_summed_in_float32_and_rounded_once(case, dtype):
    """So a result is nearly as good as the float32 one, rounded: 2⁻¹¹ (bfloat16: 2⁻⁸) of it, and the bound of float32."""
    params, *shapes = LONG[case]
    op, rng = OPS["conv_transpose" if isinstance(params, TransposeParams) else "conv"], np.random.default_rng(7)
    narrow = [rng.standard_normal(shape).astype(dtype) for shape in (*shapes, params.out_shape(*shapes))]
    wide = [array.astype(np.float64) for array in narrow]
    for rule, pick in (("forward", slice(2)), ("vjp", slice(3))):
        results = [getattr(op, rule)(params, *arrays[pick]) for arrays in (narrow, wide, [abs(array) for array in wide])]
        for found, exact, size in zip(*((r if rule == "vjp" else (r,)) for r in results), strict=True):
            terms_at_most = max(array.size for array in narrow)
            bound = abs(exact) * 2.0 ** -PRECISION[dtype.name][0] * 1.001 + (terms_at_most + 2) * 2.0**-24 * size
            assert found.dtype == dtype
            assert (abs(found.astype(np.float64) - exact) <= bound).all()
