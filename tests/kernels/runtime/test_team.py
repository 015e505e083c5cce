"""Kernels on several threads without Python: every index once, by no more threads than asked for, and nobody late gets in."""

import ctypes
import os
import platform
import threading
from functools import partial

import numpy as np
import pytest

from support.interpreter import fresh
from support.shared_kernels import bits, count_up, note_thread
from windowgrad.kernels.runtime import entries, team, threads
from windowgrad.kernels.runtime.jit import compiled

LARGE, SMALL = threads.LEAST_WORK, threads.LEAST_WORK // threads.QUICKER
posix = pytest.mark.skipif(os.name != "posix", reason="threads have another name elsewhere")


@compiled
def count_by(found, step, first, last):
    for i in range(first, last):
        found[i] += step


@compiled
def thirds(one, three, found, first, last):
    for i in range(first, last):
        found[i] = one[0] / three[0]


@compiled
def gives(found, first, last):
    for i in range(first, last):
        found[i] += 1
    return 0.5


@compiled
def mixes(small, pair, factor, flag, found, first, last):
    for i in range(first, last):
        found[i] = small[i % len(small)] * factor + pair[0][0] + pair[1] if flag else np.float32(-1)


@compiled
def notes(found, low, high):
    found[0], found[1] = low, high


@pytest.fixture(autouse=True)
def three_threads(monkeypatch):
    """Three threads that watch, as if each had a CPU."""
    monkeypatch.setattr(threads, "pool", threads.Pool())
    monkeypatch.setattr(threads, "chosen", 3)
    monkeypatch.setattr(threads, "cpus", lambda: 8)


@pytest.mark.parametrize("count", [0, 1, 2, 3, 4, 7, 11, 12, 13, 1000])
@pytest.mark.parametrize("number", [1, 2, 3, 8])
def test_every_index_is_computed_once(count, number):
    threads.set_num_threads(number)
    for work in (0, SMALL, LARGE):
        found = np.zeros(count + 1, np.int64)
        threads.run(partial(count_up, found), count, work)
        assert found.tolist() == [1] * count + [0]


def idents(number):
    """The threads that were seen in calls one after the other, until there are so many."""
    seen = set()
    for _ in range(3000):
        found = np.zeros(8 + 12, np.uint64)
        threads.run(partial(note_thread, found, 20000), 12, LARGE)
        seen.update(found[8:].tolist())
        if len(seen) >= number:
            break
    return seen


@posix
def test_helpers_and_the_caller_compute():
    seen = idents(3)
    assert len(seen) == 3
    assert threading.get_ident() in seen


@posix
def test_no_more_threads_compute_than_were_asked_for():
    assert len(idents(3)) == 3
    threads.set_num_threads(2)
    for _ in range(200):
        found = np.zeros(8 + 12, np.uint64)
        threads.run(partial(note_thread, found, 200), 12, LARGE)
        assert len(set(found[8:].tolist())) <= 2


@posix
def test_the_caller_computes_the_first_shares_and_a_helper_the_last():
    threads.set_num_threads(2)
    met = False
    for _ in range(3000):
        found = np.zeros(8 + 12, np.uint64)
        threads.run(partial(note_thread, found, 20000), 12, LARGE)
        by_caller = (found[8:] == threading.get_ident()).tolist()
        assert by_caller == sorted(by_caller, reverse=True)
        if met := len(set(by_caller)) == 2:
            break
    assert met


@posix
def test_a_kernel_of_little_work_is_shared_and_other_tasks_are_not():
    found = np.zeros(8 + 12, np.uint64)
    names = []
    for _ in range(3000):
        threads.run(partial(note_thread, found, 20000), 12, SMALL)
        if len(set(found[8:].tolist())) > 1:
            break
    assert len(set(found[8:].tolist())) > 1
    threads.run(lambda first, last: names.append((first, last)), 12, SMALL)
    assert names == [(0, 12)]


def test_arguments_of_all_kinds_reach_every_share():
    found = np.zeros(40, np.float32)
    given = np.array([1, 2, 3], np.uint8), (np.array([10.0], np.float32), 100), np.float32(2), True
    threads.run(partial(mixes, *given, found), 40, LARGE)
    assert found.tolist() == [(1 + i % 3) * 2 + 110 for i in range(40)]
    threads.run(partial(mixes, *given[:3], False, found), 40, LARGE)
    assert found.tolist() == [-1] * 40


def test_what_shares_return_is_or_ed():
    found = np.zeros(64, np.int64)
    for _ in range(100):
        assert threads.over(bits, (found,), 60, LARGE) == 2**60 - 1
    assert found.tolist() == [100] * 60 + [0] * 4
    assert threads.over(bits, (found,), 60, 0) == 2**60 - 1
    assert threads.over(count_up, (found,), 60, LARGE) == 0
    assert threads.over(bits, (found,), 0, LARGE) == 0


@pytest.mark.parametrize("count", [1, 2, 60])
def test_a_kernel_that_is_called_again_and_again_gives_what_its_shares_give(count):
    found = np.zeros(64, np.int64)
    call = threads.repeated(bits, count, 3)
    for _ in range(100):
        assert call(found) == 2**count - 1
    assert found.tolist() == [100] * count + [0] * (64 - count)
    assert threads.repeated(count_up, count, 1)(found) == 0
    threads.forget_helpers()  # as in a forked child, which has another team
    assert call(found) == 2**count - 1
    nested = threads.repeated(bits, count, 3)
    threads.run(lambda first, last: [nested(found) for _ in range(first, last)], 4, LARGE)
    assert found.tolist() == [106] * count + [0] * (64 - count)


@pytest.mark.parametrize("work", [0, LARGE])
def test_a_prepared_call_uses_as_many_threads_as_are_wanted_now(work):
    found = np.zeros(9, np.int64)
    call = threads.sharing(count_by, (np.int64(2),), 9, work)
    before = threads.get_num_threads()
    try:
        for number in (1, 3, 1, 2, 3):
            threads.set_num_threads(number)
            call(found)
            call(found)
    finally:
        threads.set_num_threads(before)
    threads.forget_helpers()
    call(found)
    threads.run(lambda first, last: [call(found) for _ in range(first, last)], 4, LARGE)
    assert found.tolist() == [30] * 9


def test_a_kernel_that_cannot_be_shared_is_called_again_and_again_from_one_thread():
    found = np.zeros(9, np.int64)
    call = threads.repeated(gives, 9, 3)
    for _ in range(3):
        call(found)
    assert found.tolist() == [3] * 9


def test_a_kernel_that_returns_a_float_and_one_with_keywords_are_called_from_python():
    found = np.zeros(9, np.int64)
    assert team.address(gives, (found,)) == 0
    threads.run(partial(gives, found), 9, LARGE)
    assert found.tolist() == [1] * 9
    threads.run(partial(lambda first, last, found: count_up(found, first, last), found=found), 9, LARGE)
    assert found.tolist() == [2] * 9


def test_only_a_kernel_that_ends_with_first_and_last_is_shared():
    """The numbers of others may be anything, also what stands for a job."""
    found = np.zeros(2, np.int64)
    assert team.address(notes, (found,)) == 0
    notes(found, 7, entries.JOB)
    assert found.tolist() == [7, entries.JOB]


def test_many_callers_at_once_and_memory_that_is_freed_at_once():
    """A helper that came late would write into memory that is somebody else's by then."""
    wrong = []

    def caller(seed):
        for size in range(seed, seed + 400):
            found = np.zeros(size, np.int64)
            threads.run(partial(count_up, found), size, LARGE)
            if not (found == 1).all():
                wrong.append(size)
            found[:] = 7
            del found

    callers = [threading.Thread(target=caller, args=(seed,)) for seed in range(1, 9)]
    for thread in callers:
        thread.start()
    for thread in callers:
        thread.join()
    assert not wrong


def test_a_call_within_a_share_of_python_stays_on_its_thread():
    found = np.zeros(8 + 30, np.uint64)

    def task(first, last):
        mine = np.zeros(8 + 12, np.uint64)
        threads.run(partial(note_thread, mine, 100), 12, LARGE)
        assert len(set(mine[8:].tolist())) == 1
        found[8 + first : 8 + last] = mine[8]

    threads.run(task, 30, LARGE)
    assert (found[8:] > 0).all()


UPWARD = {"x86_64": 0x800, "AMD64": 0x800, "aarch64": 0x400000, "arm64": 0x400000}
"""C's FE_UPWARD."""


@pytest.mark.skipif(platform.machine() not in UPWARD, reason="the number of a rounding mode is that of the C library")
def test_every_share_has_the_floating_point_environment_of_its_caller():
    library = ctypes.PyDLL("ucrtbase" if platform.system() == "Windows" else None)
    one, three, found = np.ones(1), np.full(1, 3.0), np.zeros(1000)
    before = library.fegetround()
    for _ in range(100):
        library.fesetround(UPWARD[platform.machine()])
        try:
            threads.run(partial(thirds, one, three, found), 1000, LARGE)
        finally:
            library.fesetround(before)
        assert {value.hex() for value in found} == {"0x1.5555555555556p-2"}
        threads.run(partial(thirds, one, three, found), 1000, LARGE)
        assert {value.hex() for value in found} == {"0x1.5555555555555p-2"}


def test_without_a_thread_to_be_had_the_caller_computes_everything(monkeypatch):
    def refuse(function, arguments):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threads, "start_new_thread", refuse)
    found = np.zeros(50, np.int64)
    threads.run(partial(count_up, found), 50, LARGE)
    assert found.tolist() == [1] * 50


def test_helpers_that_sleep_are_called_and_every_call_is_complete(monkeypatch):
    """Where threads share a CPU nobody watches: a helper looks once and sleeps again."""
    monkeypatch.setattr(threads, "cpus", lambda: 1)
    for size in range(1, 300):
        found = np.zeros(size, np.int64)
        threads.run(partial(count_up, found), size, LARGE)
        assert (found == 1).all()
    mixed = []
    threads.run(lambda first, last: mixed.append((first, last)), 3, LARGE)
    assert sorted(mixed) == [(0, 1), (1, 2), (2, 3)]
    assert threads.pool.team.in_bed() <= threads.pool.helpers


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_child_has_a_team_of_its_own():
    fresh(
        """
import os, signal, threading, warnings
import numpy as np
import windowgrad as wg
warnings.simplefilter("ignore")
wg.set_num_threads(2)
x = np.random.default_rng(0).standard_normal((8, 64, 64), dtype=np.float32).repeat(8, 0)
expected = wg.max_pool2d(x, 2)
busy = True
def forever():
    while busy:
        wg.max_pool2d(x, 2)
other = threading.Thread(target=forever)
other.start()
for _ in range(20):
    child = os.fork()
    if child == 0:
        signal.alarm(60)
        os._exit(0 if all((wg.max_pool2d(x, 2) == expected).all() for _ in range(20)) else 1)
    assert os.waitpid(child, 0)[1] == 0
busy = False
other.join()
"""
    )
