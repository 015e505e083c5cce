"""Winners of max pooling, their indices and derivatives, on rows of several vectors and planes of several strips."""

import numpy as np
import pytest

import windowgrad as wg
from support.exact import DTYPES, FLOATS, fractions_of, same_bits
from windowgrad.geometry import Adaptive, Global, Sliding
from windowgrad.kernels.pool.max import winner_strips
from windowgrad.kernels.pool.max.find import finder, way_of
from windowgrad.kernels.pool.plan import plan
from windowgrad.ops import MEANINGS, OPS
from windowgrad.params import TIES, MaxParams

SPEC, MAX = next(op for op in MEANINGS if op.name == "max_pool"), OPS["max_pool"]
INF, NAN = float("inf"), float("nan")

WIDER = ((0, 1), (3, 2))  # padding and dilation along the row
CASES = [
    *((Sliding((3, k), (2, s), (1, p), (1, d)), (2, 7, 21)) for k in (1, 2, 3, 4, 7) for s in (1, 2, 3) for p, d in WIDER),
    (Sliding((7,), 1, 3), (3, 40)),
    (Sliding((8,), 2, ((5, 9),), 2), (3, 40)),
    (Sliding((2, 2), 5), (2, 13, 17)),
    (Sliding((1, 1), (3, 2)), (2, 10, 19)),
    (Sliding((2, 3), (1, 2), 4, (3, 1)), (2, 5, 18)),
    (Sliding((2, 2), 2, ceil_mode=True), (2, 7, 17)),
    (Sliding((3, 3), 1, ((40, 50), (50, 40))), (1, 2, 3)),
    (Sliding((3, 2, 3), (1, 2, 2), 1), (2, 4, 5, 18)),
    (Sliding((2, 2, 2, 3), 2, 1), (3, 2, 3, 17)),
    (Sliding((1, 2, 2, 2, 3), 1, (0, 0, 1, 0, 1)), (2, 2, 3, 2, 10)),
    (Adaptive((3, 5)), (2, 8, 22)),
    (Adaptive((4, 6)), (2, 8, 18)),
    (Adaptive((9, 30)), (2, 4, 11)),
    (Adaptive((2, 2)), (2, 21, 37)),  # bins of more rows than one number has room for, and of several vectors
    (Sliding((10, 5), (11, 6)), (2, 21, 23)),
    (Sliding((3, 17), (3, 18), (0, 2)), (2, 9, 53)),
    (Adaptive((3,)), (3, 50)),
    (Global(2), (3, 5, 19)),
    (Global(1), (3, 35)),
]  # fmt: skip

every_case = pytest.mark.parametrize(("geometry", "shape"), CASES, ids=str)
every_rule = pytest.mark.parametrize("ties", TIES)


@pytest.fixture(params=[False, True], ids=["whole", "strips"])
def _strips(request, monkeypatch):
    """Planes as they are, and cut into strips of as few rows as can be."""
    if request.param:
        monkeypatch.setattr(winner_strips, "UNCUT", 1)
        monkeypatch.setattr(winner_strips, "SPANS", 1)


def drawn(values, shape, seed):
    return np.random.default_rng(seed).choice(np.array(values), shape)


def objects(array):
    out = np.empty(array.shape, dtype=object)
    out.reshape(-1)[:] = array.reshape(-1).tolist()
    return out


def texts(*arrays):
    """Values by their text, with one NaN."""
    return [[str(float(cell)) for cell in array.flat] for array in arrays]


@pytest.mark.usefixtures("_strips")
@every_case
def test_values_and_indices_are_those_of_the_first_winners(geometry, shape):
    """Among ties of signed zeros, of NaN and of −∞ too."""
    for values in ([0.0, -0.0, 1.0], [1.0, 2.0, NAN, -INF], [-INF]):
        x = drawn(values, shape, 1).astype(np.float32)
        params = MaxParams(geometry)
        assert texts(*MAX.with_indices(params, x)) == texts(*SPEC.with_indices(params, objects(x)))


def finds(geometry, spatial):
    way = way_of(geometry, spatial, 1, "first", True, 4)
    return finder(way, plan(geometry, spatial), np.dtype(np.float32))[0].__name__


def test_who_finds_winners():
    assert finds(Sliding((3, 3), 2), (9, 9)) == finds(Sliding((3, 3), 1, 1, 2), (9, 9)) == "winner_rows"
    assert finds(Sliding((3, 3), 3), (9, 9)) == finds(Adaptive((4, 4)), (9, 9)) == "winner_tops"
    assert finds(Sliding((3, 3), 3, 0, (1, 2)), (9, 9)) == "winner_search"  # cells are apart
    assert finds(Sliding((3, 3), 3, 0, (2, 1)), (9, 9)) == "winner_tops"
    assert finds(Sliding((18,), 3), (45,)) == "winner_tops"  # ten windows have OVERLAP times as many cells as the row
    assert finds(Sliding((18,), 3), (48,)) == finds(Sliding((1, 18), 3), (1, 48)) == "winner_search"  # eleven have more
    assert finds(Sliding((1, 18), 3), (4, 48)) == "winner_tops"  # two rows


@pytest.mark.slow
@pytest.mark.usefixtures("_strips")
@every_rule
@every_case
def test_derivatives_are_those_of_the_winners(geometry, shape, ties):
    """A tangent or gradient that is not a number does not leak to where it was not won."""
    params, sums = MaxParams(geometry, ties), MaxParams(geometry, "first" if ties == "first" else "all")
    for values in ([0.0, -0.0, 1.0, 5.0], [1.0, 2.0, NAN, -INF], [-INF]):
        x = drawn(values, shape, 2).astype(np.float32)
        among = np.maximum(1, SPEC.jvp(sums, objects(x), objects(np.ones(shape))).astype(np.float64))
        shared = among if ties == "split" else 1.0  # every share of g is a whole number, so that sums of them are exact
        dx = drawn([6.0, -12.0, 18.0, INF], shape, 3)
        g = drawn([1.0, -2.0, 3.0, NAN, -INF], geometry.out_shape(shape), 4) * shared
        with np.errstate(invalid="ignore"):
            dy, (gx,) = MAX.jvp(params, x, dx.astype(np.float32)), MAX.vjp(params, x, g.astype(np.float32))
            expected = SPEC.jvp(sums, objects(x), objects(dx)).astype(np.float64) / shared
            assert texts(dy + 0) == texts(expected.astype(np.float32) + 0)
            assert texts(gx) == texts(SPEC.vjp(params, objects(x), objects(g))[0].astype(np.float32))


@every_rule
@pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: dtype.name)
def test_every_dtype_has_the_winners_of_its_integers(dtype, ties):
    x = drawn([0, 1] if dtype.kind == "b" else [1, 2, 3], (2, 6, 37), 5).astype(dtype)
    for geometry in (Sliding((3, 3), 2, 1), Sliding((2, 5), (1, 1), (0, 2)), Adaptive((4, 7)), Global(2)):
        params, exact = MaxParams(geometry, ties), fractions_of(x)
        for given in (np.dtype(np.float32), np.dtype(np.float64)):
            g = drawn([0, 1, 2], geometry.out_shape(x.shape), 6) * (1 if ties != "split" else 0)
            (gx,) = MAX.vjp(params, x, g.astype(given))
            assert gx.dtype == (dtype if dtype in FLOATS else given)
            assert (gx.astype(np.float64) == SPEC.vjp(params, exact, fractions_of(g))[0].astype(np.float64)).all()
        index, place = MAX.with_indices(params, x)[1], SPEC.with_indices(params, exact)[1]
        assert same_bits(index, place)


@every_rule
def test_a_gradient_is_the_same_bits_for_any_strips_and_threads(ties, monkeypatch):
    """Sums that are rounded: the order in which a cell collects is that of the outputs, whoever computes it."""
    x = drawn([0.0, 1.0, 2.0], (2, 64, 96), 7).astype(np.float32)
    for geometry in (Sliding((3, 3), 1, 1), Sliding((5, 4), 2, 2), Sliding((4, 4), 3), Adaptive((20, 29))):
        params = MaxParams(geometry, ties)
        g = np.random.default_rng(8).standard_normal(geometry.out_shape(x.shape), dtype=np.float32)
        (expected,) = MAX.vjp(params, x, g)
        monkeypatch.setattr("windowgrad.kernels.runtime.threads.LEAST_WORK", 1)
        for block, threads in ((1, 1), (1000, 2), (3000, 3)):
            monkeypatch.setattr(winner_strips, "UNCUT", block)
            wg.set_num_threads(threads)
            assert same_bits(MAX.vjp(params, x, g)[0], expected)
