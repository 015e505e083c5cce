"""Recycled memory: used again when nobody holds it, never before, and never more of it idle than the cap."""

import gc
import os
import pickle
import threading

import numpy as np
import pytest

from support.interpreter import fresh
from windowgrad.errors import KindError, OptionError
from windowgrad.kernels.runtime import buffers

MIB = 1 << 20


@pytest.fixture(autouse=True)
def fresh_pool():
    buffers.set_buffer_cap(64 * MIB)
    yield
    buffers.set_buffer_cap(buffers.DEFAULT_CAP)


def address(array):
    return array.__array_interface__["data"][0]


def block_of(array):
    """The block itself: to hold it keeps its address from being given to any other."""
    return array.base.base.obj


def script(code, **environment):
    return fresh(
        "import os, signal, sys\nimport numpy as np\nfrom windowgrad.kernels.runtime import buffers\n" + code, **environment
    )


@pytest.mark.parametrize("dtype", ["?", "i1", "u8", "f2", "f4", "f8", ">f4", "c16", "i4,f8"])
@pytest.mark.parametrize("shape", [(), (0, 5), (3,), (2, 3, MIB), (MIB + 1,)])
def test_the_array_is_a_writable_aligned_array_of_the_shape_and_dtype_asked_for(shape, dtype):
    array = buffers.empty(shape, dtype)
    assert type(array) is np.ndarray
    assert (array.shape, array.dtype) == (shape, np.dtype(dtype))
    assert array.flags.c_contiguous
    assert array.flags.writeable
    assert array.flags.owndata or address(array) % 64 == 0
    array[...] = 1
    assert (array == np.ones(shape, dtype)).all()


def test_the_memory_of_a_dead_array_is_used_again():
    block = block_of(buffers.empty((MIB,), np.float32))
    assert block_of(buffers.empty((MIB // 2,), np.float64)) is block
    assert block_of(buffers.empty((4, MIB // 4 - 10), np.float32)) is block  # a little smaller, the same size of block


def test_live_arrays_never_share_memory():
    arrays = [buffers.empty((MIB + k,), np.uint8) for k in range(20)]
    for k, array in enumerate(arrays):
        array[:] = k
    for k, array in enumerate(arrays):
        assert (array == k).all()


HOLDERS = {
    "a slice": lambda array: array[5:7],
    "a view of a view": lambda array: array[2:].reshape(-1, 2)[::2].T,
    "another dtype": lambda array: array.view(np.uint8),
    "a subclass": lambda array: array.view(np.matrix),
    "a memoryview": memoryview,
    "an element's view": lambda array: array[3:4].reshape(()),
    "frombuffer": lambda array: np.frombuffer(array, np.uint8),
    "a broadcast": lambda array: np.broadcast_to(array, (2, array.size)),
    "the base": lambda array: array.base,
    "an iterator": lambda array: array.flat,
    "DLPack": np.from_dlpack,
    "a ctypes view": lambda array: array.ctypes,
}


@pytest.mark.parametrize("holder", HOLDERS.values(), ids=HOLDERS)
def test_whatever_holds_the_memory_keeps_it_and_it_comes_back_afterwards(holder):
    array = buffers.empty((MIB + 2,), np.float32)
    array[:] = np.arange(array.size)
    block = block_of(array)
    held = holder(array)
    del array
    others = [buffers.empty((MIB + 2,), np.float32) for _ in range(3)]
    assert not [other for other in others if block_of(other) is block]
    del others, held
    gc.collect()
    again = [buffers.empty((MIB + 2,), np.float32) for _ in range(4)]
    assert [other for other in again if block_of(other) is block]


def test_a_view_keeps_its_values_while_others_come_and_go():
    view = buffers.empty((MIB,), np.float32)[100:200]
    view[:] = np.arange(100)
    for _ in range(10):
        buffers.empty((MIB,), np.float32).fill(-1)
    assert (view == np.arange(100)).all()


def test_an_array_in_a_cycle_comes_back_with_the_garbage_collection():
    cycle = [buffers.empty((MIB,), np.float32)]
    cycle.append(cycle)
    block = block_of(cycle[0])
    del cycle
    gc.collect()
    assert block_of(buffers.empty((MIB,), np.float32)) is block


def test_pickle_and_copy_make_ordinary_arrays():
    array = buffers.empty((MIB,), np.float32)
    array[:] = 7
    for copied in (pickle.loads(pickle.dumps(array)), array.copy()):
        assert (copied == 7).all()
        assert not np.shares_memory(copied, array)


def test_small_arrays_objects_and_arrays_above_the_cap_are_ordinary():
    assert buffers.empty((buffers.LEAST // 2,), np.uint8).flags.owndata
    assert buffers.empty((65 * MIB,), np.uint8).flags.owndata
    objects = buffers.empty((MIB,), object)
    assert objects[0] is None
    with pytest.raises((MemoryError, ValueError)):
        buffers.empty((2**40, 2**40), np.float32)


def test_a_block_is_at_most_a_quarter_larger_than_asked_for():
    for size in [*range(MIB, 2 * MIB, 4099), *(2**k + d for k in range(20, 40) for d in (-1, 0, 1))]:
        assert size <= buffers.size_class(size) <= 1.25 * size
        assert buffers.size_class(buffers.size_class(size)) == buffers.size_class(size)


def test_every_size_up_to_the_cap_has_its_place():
    for cap in (MIB, 3 * MIB, 64 * MIB, 100 * MIB + 1):
        pool = buffers.Pool(cap)
        wanted = {buffers.size_class(size) for size in range(MIB, cap, 4099)}
        assert {size for size in wanted if size <= cap} <= set(pool.idle)


def test_no_more_than_the_cap_is_kept_idle():
    arrays = [buffers.empty((size * MIB,), np.uint8) for size in (30, 20, 10, 10, 5, 1, 1, 1)]
    while arrays:
        arrays.pop()
        assert buffers.current_pool().idle_bytes() <= 64 * MIB
    assert buffers.current_pool().idle_bytes() > 32 * MIB


def test_sizes_nobody_asks_for_any_more_make_room():
    old = [buffers.empty((10 * MIB,), np.uint8) for _ in range(6)]
    del old
    block = block_of(buffers.empty((32 * MIB,), np.uint8))
    assert block_of(buffers.empty((32 * MIB,), np.uint8)) is block
    assert buffers.current_pool().idle_bytes() == 62 * MIB


def test_a_cap_of_zero_frees_what_is_idle_and_switches_recycling_off():
    live = buffers.empty((MIB,), np.float32)
    buffers.empty((2 * MIB,), np.float32)
    before = buffers.current_pool()
    assert before.idle_bytes()
    buffers.set_buffer_cap(0)
    assert before.idle_bytes() == 0
    assert buffers.get_buffer_cap() == 0
    assert buffers.empty((MIB,), np.float32).flags.owndata
    del live  # lent before the switch
    assert before.idle_bytes() == 0


def test_threads_never_get_memory_another_one_holds():
    wrong = []

    def use(seed):
        random = np.random.default_rng(seed)
        held = []
        for step in range(150):
            array = buffers.empty((MIB + 4096 * int(random.integers(8)),), np.uint8)
            array[::4096] = seed
            held.append(array[::4096])
            if len(held) > random.integers(4):
                view = held.pop(int(random.integers(len(held))))
                if not (view == seed).all():
                    wrong.append((seed, step))

    users = [threading.Thread(target=use, args=(seed,)) for seed in range(16)]
    for user in users:
        user.start()
    for user in users:
        user.join()
    assert not wrong
    assert buffers.current_pool().idle_bytes() <= 64 * MIB


def test_a_garbage_collection_may_free_and_ask_for_memory_at_any_point_of_the_pool():
    """The collector runs at every allocation; finalisers that it calls drop arrays and ask for new ones."""

    class Cycle:
        def __init__(self, depth):
            self.array = buffers.empty((MIB,), np.uint8)
            self.array[0] = 1
            self.me = self
            self.depth = depth

        def __del__(self):
            alive.append(self.array[0] == 1)
            if self.depth:
                Cycle(self.depth - 1)

    alive = []
    threshold = gc.get_threshold()
    gc.set_threshold(1, 1, 1)
    try:
        for _ in range(100):
            Cycle(2)
            array = buffers.empty((MIB,), np.uint8)
            array.fill(2)
            assert (array[::4096] == 2).all()
    finally:
        gc.set_threshold(*threshold)
    gc.collect()
    assert len(alive) >= 100
    assert all(alive)
    assert buffers.current_pool().idle_bytes() <= 64 * MIB


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_child_starts_with_nothing_idle_and_both_keep_their_values():
    code = """
kept = buffers.empty((1 << 20,), np.float32)
kept.fill(1)
buffers.empty((1 << 20,), np.float32)
child = os.fork()
if child == 0:
    assert buffers.current_pool().idle_bytes() == 0
    kept.fill(2)
    del kept
    assert buffers.current_pool().idle_bytes() == 0
    for _ in range(3):
        buffers.empty((1 << 20,), np.float32).fill(3)
    assert buffers.current_pool().idle_bytes() == 1 << 22
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
assert (kept == 1).all()
assert buffers.current_pool().idle_bytes() == 1 << 22
"""
    script(code)


def test_arrays_that_live_to_the_end_of_the_interpreter_die_in_silence():
    assert script("kept = buffers.empty((1 << 20,), np.float32)\nview = kept[3:]\nsys.kept = kept[5:]") == ""


def test_the_environment_variable_sets_the_cap():
    assert script("print(buffers.get_buffer_cap())", WINDOWGRAD_BUFFER_CAP="") == f"{256 * MIB}\n"
    assert script("print(buffers.get_buffer_cap())", WINDOWGRAD_BUFFER_CAP="5000000") == "5000000\n"
    code = "print(buffers.empty((1 << 20,), np.float32).flags.owndata)"
    assert script(code, WINDOWGRAD_BUFFER_CAP="0") == "True\n"


@pytest.mark.parametrize("value", ["much", "-1"])
def test_a_bad_environment_variable_is_named(monkeypatch, value):
    monkeypatch.setattr(buffers, "pool", None)
    monkeypatch.setenv("WINDOWGRAD_BUFFER_CAP", value)
    with pytest.raises(OptionError, match=f"environment variable WINDOWGRAD_BUFFER_CAP=.*{value}"):
        buffers.empty((MIB,), np.float32)


@pytest.mark.parametrize(("value", "kind"), [(-1, OptionError), (1.5, KindError), (None, KindError)])
def test_a_bad_cap_is_refused_and_changes_nothing(value, kind):
    with pytest.raises(kind, match="size="):
        buffers.set_buffer_cap(value)
    assert buffers.get_buffer_cap() == 64 * MIB


CTRL_C = """
from collections import deque
from operator import call
from _thread import interrupt_main
arrays = [buffers.empty((1 << 20,), np.float32) for _ in range(5)]
try:
    deque(map(call, [interrupt_main, arrays.clear]))  # nothing of Python's in between
except KeyboardInterrupt:
    print("interrupted", arrays)
print(buffers.current_pool().idle_bytes() >> 20)
"""


@pytest.mark.skipif(os.name == "nt", reason="signals")
@pytest.mark.usefixtures("ctrl_c")
def test_ctrl_c_while_arrays_die_is_neither_printed_nor_forgotten():
    assert script(CTRL_C) == "interrupted []\n20\n"
