"""A small call that was made ready computes what any other call computes, to the bit, in memory of exactly its size."""

import numpy as np
import pytest

import windowgrad as wg
from support.bits import LAYOUTS, drawn_call, settled
from support.guarded import exact_memory, guarded
from windowgrad import dispatch
from windowgrad.geometry import Sliding
from windowgrad.kernels.runtime import threads
from windowgrad.ops import OPS
from windowgrad.params import MaxParams, MeanParams

CASES = 100
RULES = {"forward": "x", "saving": "x", "vjp": "xg"}


def plain(op, rule, params, *arrays):
    """The kernel itself."""
    return getattr(dispatch.loaded(OPS[op].facts.kernels), rule)(params, *arrays)


def prepared(op, rule, params, *arrays):
    kinds = [(a.shape, a.dtype) for a in arrays]
    return dispatch.route(OPS[op].forward.args[0], rule, params, *kinds)[1]


def as_tuple(result):
    return result if isinstance(result, tuple) else (result,)


@pytest.mark.parametrize("seed", range(CASES))
def test_a_prepared_call_gives_the_bits_of_any_other(seed):
    call = drawn_call(np.random.default_rng((seed, 77)))
    arrays, ready = {"x": call.x, "g": call.g}, {}
    kernels = dispatch.loaded(OPS[call.op].facts.kernels)
    for rule, names in RULES.items():
        given = [arrays[name] for name in names]
        if getattr(kernels, rule) is None or (
            rule == "saving" and kernels.saves(call.params, (call.x.shape, call.x.dtype)) is None
        ):
            continue
        ready[rule] = prepared(call.op, rule, call.params, *given)
        if ready[rule] is None or not all(a.flags.carray for a in given):
            continue
        wanted = as_tuple(plain(call.op, rule, call.params, *given))
        with exact_memory():
            found = as_tuple(ready[rule](*(guarded(a, "end") for a in given)))
        for one, other in zip(found, wanted, strict=True):
            assert one.shape == other.shape
            assert one.dtype == other.dtype
            assert settled(one) == settled(other), rule
    if ready.get("saving") and ready.get("vjp") and call.x.flags.carray and call.g.flags.carray:
        saved = ready["saving"](call.x)[1]
        assert settled(*ready["vjp"](call.x, call.g, saved)) == settled(*plain(call.op, "vjp", call.params, call.x, call.g))


@pytest.mark.parametrize("op", [("max_pool", MaxParams), ("avg_pool", MeanParams)], ids=lambda op: op[0])
def test_only_what_one_thread_computes_at_once_is_prepared(op):
    name, record = op
    params, most = record(Sliding((2, 2), 2)), threads.LEAST_WORK // 4
    for size, small in ((1, False), (2, True), (most // 2 - 2, True), (most // 2, False)):
        found = prepared(
            name, "forward", params, np.zeros((2, size), np.float32) if size > 1 else np.zeros((0, 4, 4), np.float32)
        )
        assert (found is not None) == small
    assert prepared(name, "forward", record(Sliding((64, 64), 1)), np.zeros((70, 70), np.float32)) is None
    assert prepared(name, "forward", params, np.zeros((2, 4), ">f4")) is None
    assert prepared(name, "forward", params, np.zeros((2, 4), np.float16)) is None


def test_arrays_that_are_not_in_a_row_are_computed_too(monkeypatch):
    monkeypatch.setattr(dispatch, "READY", True)
    x = np.random.default_rng(3).standard_normal((2, 3, 8, 9)).astype(np.float32)
    for function in (wg.max_pool2d, wg.avg_pool2d):
        first, second = function(x, 2), function(x, 2)
        assert settled(first) == settled(second)
        for name, change in LAYOUTS.items():
            assert settled(function(change(x, 2, np.random.default_rng(1)), 2)) == settled(first), name
        fixed = x.copy()
        fixed.flags.writeable = False
        assert settled(function(fixed, 2)) == settled(first)
        assert settled(function(x.view(np.recarray).view(np.ndarray), 2)) == settled(first)
        assert type(function(np.asarray(memoryview(x)), 2)) is np.ndarray


def test_results_of_a_prepared_call_are_new_each_time(monkeypatch):
    monkeypatch.setattr(dispatch, "READY", True)
    x = np.ones((1, 4, 4), np.float32)
    first = wg.max_pool2d(x, 2)
    for _ in range(3):
        again = wg.max_pool2d(x, 2)
        assert not np.shares_memory(first, again)
        assert again.flags.owndata
        again[...] = 7
    assert (first == 1).all()
