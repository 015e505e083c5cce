"""A call that was made ready computes what any other call computes, to the bit, in memory of exactly its size."""

import numpy as np
import pytest

import windowgrad as wg
from support.bits import LAYOUTS, drawn_call, settled
from support.guarded import exact_memory, guarded
from windowgrad import dispatch, memory, peak, routes
from windowgrad.geometry import Adaptive, Global, Sliding
from windowgrad.kernels.runtime import buffers, threads
from windowgrad.ops import OPS
from windowgrad.params import MaxParams, MeanParams

CASES = 100
RULES = {"forward": "x", "with_indices": "x", "jvp": "xd", "saving": "x", "vjp": "xg"}


def plain(op, rule, params, *arrays):
    """The kernel itself."""
    return getattr(routes.loaded(OPS[op].facts.kernels), rule)(params, *arrays)


def prepared(op, rule, params, *arrays):
    kinds = [(a.shape, a.dtype) for a in arrays]
    return dispatch.route(OPS[op].forward.args[0], rule, params, *kinds)[1]


def as_tuple(result):
    return result if isinstance(result, tuple) else (result,)


@pytest.mark.parametrize("seed", range(CASES))
def test_a_prepared_call_gives_the_bits_of_any_other(seed):
    call = drawn_call(np.random.default_rng((seed, 77)))
    dx = np.random.default_rng((seed, 78)).integers(-9, 9, call.x.shape).astype(call.g.dtype)
    arrays, ready = {"x": call.x, "g": call.g, "d": dx}, {}
    kernels = routes.loaded(OPS[call.op].facts.kernels)
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


@pytest.mark.parametrize("threads_used", [1, 3])
@pytest.mark.parametrize("ties", ["first", "all", "split"])
def test_large_calls_are_prepared_for_threads_and_recycled_memory(ties, threads_used):
    rng = np.random.default_rng(5)
    x = rng.integers(-9, 9, (3, 5, 150, 151)).astype(np.float32)
    assert x.nbytes > max(threads.LEAST_WORK, buffers.LEAST)
    shape = Sliding((3, 3), 2, 1)
    before = threads.get_num_threads()
    threads.set_num_threads(threads_used)
    try:
        for op, params in (
            ("max_pool", MaxParams(shape, ties)),
            ("max_pool", MaxParams(Global(2), ties)),
            ("avg_pool", MeanParams(shape)),
        ):
            g = rng.integers(-9, 9, params.out_shape(x.shape)).astype(np.float32)
            arrays = {"x": x, "g": g, "d": np.roll(x, 1)}
            for rule, names in RULES.items():
                kernels, given = routes.loaded(OPS[op].facts.kernels), [arrays[name] for name in names]
                if getattr(kernels, rule) is None or (rule == "saving" and kernels.saves(params, (x.shape, x.dtype)) is None):
                    continue
                found = as_tuple(prepared(op, rule, params, *given)(*given))
                assert list(map(settled, found)) == list(map(settled, as_tuple(plain(op, rule, params, *given)))), (op, rule)
    finally:
        threads.set_num_threads(before)


@pytest.mark.parametrize("op", [("max_pool", MaxParams), ("avg_pool", MeanParams)], ids=lambda op: op[0])
def test_only_what_is_computed_at_once_is_prepared(op):
    name, record = op
    params = record(Sliding((2, 2), 2))
    for shape, whole in (
        ((0, 4, 4), False),  # nothing to compute
        ((2, 2), True),
        ((1 << 11, 1 << 11), True),
        ((2, (1 << 21) - 2), False),  # cut into blocks
    ):
        assert (prepared(name, "forward", params, np.broadcast_to(np.float32(0), shape)) is not None) == whole, shape
    assert prepared(name, "forward", record(Sliding((64, 64), 1)), np.zeros((70, 70), np.float32)) is None
    assert prepared(name, "vjp", params, np.zeros((2, 4), ">f4"), np.zeros((1, 2), ">f4")) is None
    assert prepared(name, "vjp", params, np.zeros((2, 4), np.float16), np.zeros((1, 2), np.float16)) is not None
    assert prepared(name, "vjp", params, np.zeros((2, 4), np.int16), np.zeros((1, 2), np.float16)) is None


@pytest.mark.parametrize("op", [("max_pool", MaxParams), ("avg_pool", MeanParams)], ids=lambda op: op[0])
def test_large_arrays_that_would_be_copied_are_not_prepared(op):
    """They are copied block by block, so that the copies take little memory."""
    name, record = op
    params, small, large = record(Sliding((2, 2), 2)), (1 << 11, (1 << 11) - 1), (1 << 11, 1 << 11)
    for rule, dtype, copied in (
        ("forward", np.uint8, name == "avg_pool"),
        ("forward", np.int16, True),
        ("forward", np.int32, name == "avg_pool"),
        ("forward", np.float32, False),
        ("vjp", np.float32, False),
        ("vjp", np.float64, False),
    ):
        for shape, expected in ((small, True), (large, not copied)):
            shapes = [shape, params.out_shape(shape)][: 2 if rule == "vjp" else 1]
            given = [np.broadcast_to(np.zeros((), dtype), each) for each in shapes]
            assert (prepared(name, rule, params, *given) is not None) == expected, (rule, dtype, shape)


def test_what_needs_too_much_memory_is_refused_each_time(monkeypatch):
    monkeypatch.setattr(dispatch, "READY", True)
    monkeypatch.setattr(memory, "available", lambda: 1 << 25)
    x, params = np.zeros((1 << 11, 1 << 11), np.float32), MaxParams(Sliding((2, 1), 1))
    assert prepared("max_pool", "with_indices", params, x) is not None
    for _ in range(3):
        with pytest.raises(wg.WindowError, match=r"the output 48\.0 MiB\), this machine has 32\.0 MiB"):
            OPS["max_pool"].with_indices(params, x)


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint8", "int16", "uint16", "int32", "int64", "uint64", "float64"])
@pytest.mark.parametrize("op", ["max_pool", "avg_pool"])
def test_every_dtype_gives_the_bits_of_the_kernel(op, dtype, monkeypatch):
    monkeypatch.setattr(dispatch, "READY", True)
    params = (MaxParams if op == "max_pool" else MeanParams)(Sliding((2, 3), 2, (1, 0)))
    x = np.random.default_rng(4).integers(0, 200, (2, 3, 7, 8)).astype(dtype)
    for rule in ("forward", "with_indices") if op == "max_pool" else ("forward",):
        wanted = as_tuple(plain(op, rule, params, x))
        for _ in range(2):  # the second one is known
            found = as_tuple(getattr(OPS[op], rule)(params, x))
            assert [a.dtype for a in found] == [a.dtype for a in wanted]
            assert list(map(settled, found)) == list(map(settled, wanted))


def test_equal_parameters_are_known_by_the_first_of_them(monkeypatch):
    """A program that makes its parameters anew for each call must not push the others out."""
    monkeypatch.setattr(dispatch, "READY", True)
    x, before = np.arange(48, dtype=np.float32).reshape(3, 16), None
    for _ in range(5):
        params = MaxParams(Sliding((2,), 2, 1, 3))
        y = OPS["max_pool"].forward(params, x)
        assert before is None or settled(y) == settled(before)
        before = y
    entries = [key for key, (record, _) in dispatch.KNOWN.items() if record == params]
    assert len(entries) == 1


def test_equal_parameters_that_come_again_are_known_too(monkeypatch):
    """Two layers have the same options; each keeps its own record of them."""
    monkeypatch.setattr(dispatch, "READY", True)
    monkeypatch.setattr(dispatch, "RECENT", {})
    monkeypatch.setattr(dispatch, "MOST_RECENT", 4)
    x = np.arange(60, dtype=np.float32).reshape(3, 20)
    records = [MaxParams(Sliding((2,), 2, 1, 4)) for _ in range(4)]
    for turn in range(4):
        for params in records:
            OPS["max_pool"].forward(params, x)
            assert len(dispatch.RECENT) <= 4
        entries = {id(record) for record, _ in dispatch.KNOWN.values()}
        assert [id(params) in entries for params in records] == [True] + [turn > 0] * 3


def test_what_is_known_is_forgotten_when_it_is_too_much(monkeypatch):
    monkeypatch.setattr(dispatch, "READY", True)
    monkeypatch.setattr(dispatch, "KNOWN", {})
    monkeypatch.setattr(dispatch, "MOST_KNOWN", 3)
    params = MaxParams(Sliding((2,), 2))
    for size in range(2, 20):
        x = np.arange(size, dtype=np.float32)
        assert OPS["max_pool"].forward(params, x).tolist() == x[1::2].tolist()
        assert len(dispatch.KNOWN) <= 3


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


LAST = {
    "channels last": (lambda x: np.moveaxis(np.ascontiguousarray(np.moveaxis(x, 1, -1)), -1, 1), True),
    "channels first": (lambda x: x, False),
    "a part": (lambda x: np.repeat(x, 2, -1)[..., ::2], False),
    "axes reversed": (np.asfortranarray, False),
}


@pytest.mark.parametrize("dtype", ["float32", "float64", "uint8", "int16"])
@pytest.mark.parametrize("layout", LAST)
def test_forward_calls_of_views_are_prepared_by_their_strides(layout, dtype, monkeypatch):
    monkeypatch.setattr(dispatch, "READY", True)
    change, _ = LAST[layout]
    plain_x = np.random.default_rng(7).integers(0, 200, (2, 5, 9, 11)).astype(dtype)
    x = change(plain_x)
    for op, pool, record in (("max_pool", wg.max_pool2d, MaxParams), ("avg_pool", wg.avg_pool2d, MeanParams)):
        for geometry in (Sliding((2, 2), 2), Sliding((3, 3), 2, 1), Sliding((3, 5), 1, (1, 2))):
            ready = dispatch.prepared_last(OPS[op], "forward", record(geometry), x)
            assert ready is not None
            options = geometry.kernel, geometry.stride, tuple(before for before, _ in geometry.padding)
            first, second = pool(x, *options), pool(x, *options)
            assert settled(first) == settled(second) == settled(pool(plain_x, *options))
            assert first.strides == second.strides
            fixed = x.view()
            fixed.flags.writeable = False
            assert settled(pool(fixed, *options)) == settled(first)


def test_arrays_that_are_copied_and_windows_taken_in_another_way_are_not_prepared_by_their_strides():
    params, many = MaxParams(Sliding((2, 2), 2)), Sliding((40, 40), 1)
    last = LAST["channels last"][0](np.zeros((1, 4, 64, 64), np.float32))
    large = np.moveaxis(np.broadcast_to(np.zeros((), np.float32), (1, 1024, 1024, 4)), -1, 1)
    assert dispatch.prepared_last(OPS["max_pool"], "forward", params, large) is None
    for op, record in (("max_pool", MaxParams), ("avg_pool", MeanParams)):
        assert dispatch.prepared_last(OPS[op], "forward", record(Sliding((2, 2), 2)), last) is not None
        assert dispatch.prepared_last(OPS[op], "forward", record(many), last) is None
        assert dispatch.prepared_last(OPS[op], "forward", record(Sliding((2, 2), 2)), last[:0]) is None


@pytest.mark.parametrize("dtype", ["float32", "float16", "int16"])
def test_large_arrays_of_channels_last_are_prepared_if_none_is_copied_as_a_whole(dtype, monkeypatch):
    monkeypatch.setattr(peak, "LEAST", 1)
    x, g = (LAST["channels last"][0](np.zeros((2, 4, side, side), dtype)) for side in (8, 4))
    for op, record in (("max_pool", MaxParams), ("avg_pool", MeanParams)):
        for rule, arrays in (("forward", (x,)), ("vjp", (x, g))):
            ready = dispatch.prepared_last(OPS[op], rule, record(Sliding((2, 2), 2)), *arrays)
            assert (ready is not None) == (dtype != "int16")


@pytest.mark.parametrize("dtype", ["float32", "float64", "int16"])
@pytest.mark.parametrize("layout", LAST)
@pytest.mark.parametrize(("name", "record"), [("max_pool", MaxParams), ("avg_pool", MeanParams)])
def test_gradients_of_views_are_prepared_by_their_strides(name, record, layout, dtype, monkeypatch):
    monkeypatch.setattr(dispatch, "READY", True)
    change, is_last = LAST[layout]
    op, rng = OPS[name], np.random.default_rng(8)
    for geometry in (Sliding((2, 2), 2), Sliding((2, 2), 2, 1), Sliding((3, 3), 2, 1), Sliding((3, 5), 1, (1, 2))):
        params = dispatch.first_of(record(geometry))
        plain_x = rng.integers(0, 200, (2, 5, 9, 11)).astype(dtype)
        plain_g = rng.integers(-100, 100, params.out_shape(plain_x.shape)).astype(dtype)
        x, g = change(plain_x), change(plain_g)
        ready = dispatch.prepared_last(op, "vjp", params, x, g)
        assert (ready is not None) == (dtype != "int16" or (name == "avg_pool" and not is_last))
        saved, plain_saved = dispatch.run_saving(op, params, x)[1], dispatch.run_saving(op, params, plain_x)[1]
        (plain,) = dispatch.run(op, "vjp", params, plain_x, plain_g, saved=plain_saved)
        for given in (saved, None, saved):
            (gx,) = dispatch.run(op, "vjp", params, x, g, saved=given)
            assert settled(gx) == settled(plain)
        if ready is not None and is_last:
            assert np.moveaxis(gx, 1, -1).flags.c_contiguous
            assert dispatch.known(op, "vjp", params, (x, g)) is not None
            assert dispatch.known(op, "vjp", params, (plain_x, g)) is None
            fixed = g.view()
            fixed.flags.writeable = False
            assert dispatch.known(op, "vjp", params, (x, fixed)) is None
            assert settled(dispatch.run(op, "vjp", params, x, fixed)[0]) == settled(plain)


WHOLE = {"global": Global(2), "adaptive": Adaptive((1, 1)), "sliding": Sliding((9, 11), 1), "windows": Sliding((3, 3), 2, 1)}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("geometry", WHOLE.values(), ids=WHOLE)
@pytest.mark.parametrize(("name", "record"), [("max_pool", MaxParams), ("avg_pool", MeanParams)])
def test_steps_of_training_with_channels_last_are_prepared(name, record, geometry, dtype, monkeypatch):
    """What the forward rule saves too, and gradients of planes of one cell, whose channels stand first and last at once."""
    monkeypatch.setattr(dispatch, "READY", True)
    op, params, rng = OPS[name], dispatch.first_of(record(geometry)), np.random.default_rng(9)
    plain_x = rng.integers(0, 9, (2, 5, 9, 11)).astype(dtype)
    x, g = LAST["channels last"][0](plain_x), rng.integers(-100, 100, params.out_shape(plain_x.shape)).astype(dtype)
    g = LAST["channels last"][0](g)
    for _ in range(3):
        (y, saved), (plain_y, plain_saved) = dispatch.run_saving(op, params, x), dispatch.run_saving(op, params, plain_x)
        assert settled(y) == settled(plain_y)
        assert (saved is None) == (plain_saved is None)
        (gx,), (plain_gx,) = (dispatch.run(op, "vjp", params, a, g, saved=b) for a, b in ((x, saved), (plain_x, plain_saved)))
        assert settled(gx) == settled(plain_gx)
    if not (name == "max_pool" and isinstance(geometry, Global)):
        assert dispatch.known(op, "saving", params, (x,)) is not None
        assert dispatch.known(op, "vjp", params, (x, g)) is not None


def test_that_a_call_cannot_be_prepared_is_found_out_once(monkeypatch):
    monkeypatch.setattr(dispatch, "READY", True)
    params, asked = dispatch.first_of(MaxParams(Sliding((2, 2), 2))), []
    monkeypatch.setattr(dispatch, "prepared_last", lambda *given: asked.append(given))
    x = np.zeros((3, 7, 19, 23), np.float32)[..., ::2]
    for _ in range(4):
        dispatch.run(OPS["max_pool"], "forward", params, x)
    assert len(asked) == 1
