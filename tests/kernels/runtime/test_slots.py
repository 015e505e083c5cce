"""Slots: memory of results that die inside a network."""

import threading

import numpy as np
import pytest

from windowgrad.kernels.runtime import slots as module
from windowgrad.kernels.runtime.buffers import get_buffer_cap, set_buffer_cap
from windowgrad.kernels.runtime.slots import LARGEST, MOST, SMALLEST, Slots, new

BYTES = np.dtype(np.uint8)


@pytest.fixture(params=["recycled", "not recycled"])
def slots(request):
    before = get_buffer_cap()
    set_buffer_cap(before if request.param == "recycled" else 0)
    yield Slots()
    set_buffer_cap(before)


def test_a_dead_result_gives_its_memory_to_the_next(slots):
    first = slots.empty((SMALLEST,), BYTES)
    place = first.ctypes.data
    del first
    assert slots.empty((4, SMALLEST // 4), BYTES).ctypes.data == place
    assert len(slots.blocks) == 1


@pytest.mark.parametrize("kept", [lambda a: a, lambda a: a.reshape(-1)[5:9], memoryview, lambda a: a.view(np.int8)])
def test_what_lives_is_not_overwritten(slots, kept):
    first = slots.empty((2, SMALLEST), BYTES)
    part = kept(first)
    del first
    second = slots.empty((2, SMALLEST), BYTES)
    assert not np.may_share_memory(np.asarray(part), second)


def test_a_block_that_is_too_small_is_replaced(slots):
    del [slots.empty((SMALLEST,), BYTES)][0]
    large = slots.empty((LARGEST,), BYTES)
    assert large.size == LARGEST
    assert len(slots.blocks) == 1


def test_limits_of_slots(slots):
    """Small results, large ones and those beyond the most slots stand elsewhere."""
    outside = [slots.empty((SMALLEST - 1,), BYTES), slots.empty((LARGEST + 1,), BYTES)]
    assert not slots.blocks
    inside = [slots.empty((SMALLEST,), BYTES) for _ in range(MOST)]
    outside.append(slots.empty((SMALLEST,), BYTES))
    assert len(slots.blocks) == MOST
    assert all(slots.released(a) is a for a in outside)
    assert all(slots.released(a) is not a for a in inside)


def test_released_copies_views_of_slots_only(slots):
    y = slots.empty((2, SMALLEST), BYTES)
    y[...] = 3
    out = slots.released(y[1:, ::2])
    y[...] = 4
    assert (out == 3).all()
    assert slots.released(1.5) == 1.5


def test_steps_take_the_slots_they_run_in_and_no_others(slots):
    inner, shape = Slots(), (SMALLEST,)

    def step(a):
        b = new(np.empty, shape, BYTES)
        c = inner.run(lambda: new(np.empty, shape, BYTES))
        elsewhere = []
        thread = threading.Thread(target=lambda: elsewhere.append(new(np.empty, shape, BYTES)))
        thread.start()
        thread.join()
        return a, b, c, elsewhere[0]

    a, b, c, d = slots.run(step, 7)
    assert a == 7
    assert slots.released(b) is not b
    assert slots.released(c) is c
    assert inner.released(c) is not c
    assert slots.released(d) is inner.released(d) is d
    with pytest.raises(ZeroDivisionError):
        slots.run(lambda: 1 / 0)
    assert module.state.slots is None
