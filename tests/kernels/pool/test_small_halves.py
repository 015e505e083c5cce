"""Prepared calls of floats of 16 bits give the bits of the kernel, also where a large array is taken a few planes at a time."""

from contextlib import contextmanager
from unittest.mock import patch

import ml_dtypes
import numpy as np
import pytest

from support.bits import settled
from support.guarded import exact_memory, guarded
from windowgrad import dispatch, routes
from windowgrad.geometry import Adaptive, Global, Sliding
from windowgrad.kernels.pool import small, small_halves, small_last
from windowgrad.kernels.pool.max import entry as max_entry
from windowgrad.kernels.pool.mean import entry as mean_entry
from windowgrad.kernels.runtime import threads
from windowgrad.ops import OPS
from windowgrad.params import LpParams, MaxParams, MeanParams, MinParams, SmoothParams

HALVES = [np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16)]
GEOMETRIES = [Sliding((2, 2), 2), Sliding((3, 3), 2, 1), Sliding((3, 2), 1, (1, 0)), Adaptive((3, 2)), Global(2)]
RULES = {"forward": "x", "with_indices": "x", "saving": "x", "jvp": "xd", "vjp": "xg"}
POOLINGS = {
    "max_pool": [MaxParams, lambda geometry: MaxParams(geometry, "split")],
    "min_pool": [MinParams],
    "avg_pool": [MeanParams],
    "smooth_max_pool": [lambda geometry: SmoothParams(geometry, 2)],
    "lp_pool": [lambda geometry: LpParams(geometry, 2)],
}
CASES = [(op, make) for op, makes in POOLINGS.items() for make in makes]
every_case = pytest.mark.parametrize(("op", "make"), CASES, ids=[f"{op}{i}" for i, (op, _) in enumerate(CASES)])


def kernels_of(op):
    return routes.loaded(OPS[op].facts.kernels)


def as_tuple(result):
    return result if isinstance(result, tuple) else (result,)


def last(x):
    """The same with its channels, the second axis, last in memory."""
    return np.moveaxis(np.ascontiguousarray(np.moveaxis(x, 1, -1)), -1, 1)


def arrays_of(params, shape, dtype, layout):
    rng = np.random.default_rng(3)
    x = rng.integers(-9, 9, shape).astype(dtype)
    x.flat[[3, 50]] = np.nan, -0.0
    out = params.out_shape(shape)
    change = layout if len(out) == len(shape) else lambda g: g
    return {
        "x": layout(x),
        "d": layout(rng.integers(-9, 9, shape).astype(dtype)),
        "g": change(rng.integers(-9, 9, out).astype(dtype)),
    }


def prepared(op, rule, params, given):
    if all(array.flags.carray for array in given):
        return dispatch.route(OPS[op].forward.args[0], rule, params, *[(a.shape, a.dtype) for a in given])[1]
    return dispatch.prepared_last(OPS[op].forward.args[0], rule, params, *given)


@pytest.fixture(params=["whole", "pieces"])
def cut(request, monkeypatch):
    """Small arrays as they are, or cut like large ones."""
    if request.param == "pieces":
        monkeypatch.setattr(small_halves, "LARGE", 1)
        monkeypatch.setattr(small_halves, "PIECE", 300)
        monkeypatch.setattr(threads, "LEAST_WORK", 0)
    dispatch.route.cache_clear()
    yield request.param
    dispatch.route.cache_clear()


@pytest.mark.parametrize("dtype", HALVES, ids=str)
@pytest.mark.parametrize("layout", [np.copy, last])
@every_case
def test_they_give_the_bits_of_the_kernel(op, make, layout, dtype, cut):
    ready = set()
    for geometry in GEOMETRIES:
        params = make(geometry)
        arrays = arrays_of(params, (5, 3, 9, 11), dtype, layout)
        for rule, names in RULES.items():
            given, rules = [arrays[name] for name in names], kernels_of(op)
            if getattr(rules, rule) is None or (rule == "saving" and rules.saves(params, (given[0].shape, dtype)) is None):
                continue
            call = prepared(op, rule, params, given)
            if call is None:
                continue
            ready.add(rule)
            with np.errstate(all="ignore"):
                wanted = as_tuple(getattr(rules, rule)(params, *given))
                found = as_tuple(call(*given))
                if layout is np.copy:
                    with exact_memory():
                        closely = as_tuple(call(*[guarded(array, "end") for array in given]))
                    assert list(map(settled, closely)) == list(map(settled, wanted)), (rule, geometry)
            for one, other in zip(found, wanted, strict=True):
                assert (one.shape, one.dtype) == (other.shape, other.dtype)
                assert settled(one) == settled(other), (rule, geometry)
            if rule == "vjp" and rules.saves is not None and rules.saves(params, (given[0].shape, dtype)) is not None:
                saved = rules.saving(params, given[0])[1]
                assert settled(*call(*given, saved)) == settled(*wanted), geometry
    assert ready or layout is last


@pytest.mark.parametrize("dtype", HALVES, ids=str)
def test_a_result_is_written_to_the_place_that_is_given(dtype, cut):
    params = MaxParams(Sliding((3, 3), 2, 1))
    x = np.random.default_rng(0).integers(-9, 9, (5, 3, 9, 11)).astype(dtype)
    y, call = np.empty(params.out_shape(x.shape), dtype), prepared("max_pool", "forward", params, [x])
    call(x, y)
    assert settled(y) == settled(call(x))


DIRECT = {
    "rows": (Sliding((2, 3), (2, 5)), (2, 3, 8, 70)),
    "rows with padding": (Sliding((3, 4), (1, 2), (1, 2)), (2, 3, 8, 70)),
    "one cell of each row": (Sliding((3, 1), (3, 1)), (2, 3, 9, 40)),
    "bins": (Adaptive((3, 7)), (2, 3, 11, 40)),
    "bins of a row": (Adaptive((7,)), (6, 40)),
    "many taps": (Sliding((2, 12), (2, 1)), (2, 3, 8, 70)),
    "many taps apart": (Sliding((2, 12), (2, 13)), (2, 3, 8, 70)),
    "short rows": (Sliding((2, 2), 2), (2, 3, 28, 28)),
    "short rows with padding": (Sliding((3, 2), 1, (1, 1)), (2, 3, 20, 28)),
    "near": (Sliding((3, 3), 1, 1), (1, 3, 20, 150)),
    "taps of a row": (Sliding((1, 4), 1, (0, 1)), (2, 3, 6, 200)),
    "second": (Sliding((3, 3), 2, 1), (1, 3, 20, 530)),
    "side by side": (Sliding((2, 2), 2), (1, 3, 20, 530)),
    "second, short": (Sliding((3, 3), 2, 1), (2, 3, 20, 41)),
    "runs": (Sliding((3, 3), 2, 1), (2, 20, 9, 9)),
    "many runs": (Sliding((3, 3), 2, 1), (2, 75, 9, 9)),
    "runs side by side": (Sliding((2, 2), 2), (2, 72, 9, 9)),
    "runs that overlap": (Sliding((3, 5), 1, (1, 2)), (2, 20, 9, 9)),
    "planes": (Global(2), (3, 20, 6, 8)),
    "large planes": (Adaptive((1, 1)), (2, 21, 13, 17)),
}


@pytest.mark.parametrize("dtype", HALVES, ids=str)
def test_kernels_that_read_halves_give_the_bits_of_those_for_float32(dtype):
    """Every kernel that is said to read them is met, with NaN, zeros of both signs, and sums that overflow."""
    met, rng = set(), np.random.default_rng(1)
    for geometry, shape in DIRECT.values():
        for op, record, direct, direct_last in (
            ("max_pool", MaxParams, small.direct_max, small_last.direct_max_last),
            ("avg_pool", MeanParams, small.direct_mean, small_last.direct_mean_last),
        ):
            params, rules = record(geometry), kernels_of(op)
            for special in ((0,), (np.nan, -0.0, 0.0, np.inf), (6e4, -6e4, np.inf)):
                x = np.where(rng.random(shape) < 0.05, rng.choice(special, shape), rng.integers(-9, 9, shape)).astype(dtype)
                g = rng.integers(-9, 9, params.out_shape(shape)).astype(dtype)
                for layout in (np.copy, last) if len(shape) == 4 else (np.copy,):
                    for rule, given in (("forward", "x"), ("with_indices", "x"), ("saving", "x"), ("vjp", "xg")):
                        arrays = [layout({"x": x, "g": g}[name]) for name in given]
                        with record_kernels(met):
                            if layout is np.copy:
                                call = direct(rule, params, *[(a.shape, a.dtype) for a in arrays])
                            else:
                                call = direct_last(rule, params, *arrays)
                        if call is None:
                            continue
                        with np.errstate(all="ignore"):
                            saved = [rules.saving(params, arrays[0])[1]] if rule == "vjp" and rules.saving else []
                            wanted = as_tuple(getattr(rules, rule)(params, *arrays))
                        call = small_halves.seeing(rule, call, dtype)
                        found = as_tuple(call(*arrays, *saved))
                        assert list(map(settled, found)) == list(map(settled, wanted)), (op, rule, geometry)
                        if layout is np.copy:
                            with exact_memory():
                                closely = as_tuple(call(*[guarded(a, "end") for a in arrays], *saved))
                            assert list(map(settled, closely)) == list(map(settled, wanted)), (op, rule, geometry)
    sets = [some for entry in (max_entry, mean_entry) for name, some in vars(entry).items() if name.endswith("_OF_HALVES")]
    wanted = frozenset().union(*sets)
    assert met >= wanted


@contextmanager
def record_kernels(met):
    """Adds the kernels of calls that are made ready."""

    def kept(module, name):
        made = getattr(module, name)

        def ready(chosen, *told):
            met.add(chosen[0])
            return made(chosen, *told)

        return patch.object(module, name, ready)

    with kept(small, "ready"), kept(small_last, "ready"), kept(small, "job"), kept(small_last, "job"):
        yield


def test_a_large_array_that_cannot_be_cut_is_left_to_blocks():
    params, dtype = MaxParams(Sliding((2, 2), 2)), np.dtype(np.float16)
    one, many = (np.broadcast_to(np.zeros((), dtype), shape) for shape in ((1 << 11, (1 << 11) + 2), (64, 1 << 9, 1 << 9)))
    assert prepared("max_pool", "forward", params, [one]) is None
    assert dispatch.route(OPS["max_pool"].forward.args[0], "forward", params, (many.shape, dtype))[1] is not None
