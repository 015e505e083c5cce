"""The thread pool: every index once, every exception home, however calls nest, meet, fail or are refused a thread."""

import ctypes
import platform
import threading
import weakref
from contextlib import suppress

import numpy as np
import pytest

from windowgrad.errors import KindError, OptionError
from windowgrad.kernels.runtime import threads

LARGE = threads.LEAST_WORK


@pytest.fixture(autouse=True)
def three_threads(monkeypatch):
    monkeypatch.setattr(threads, "chosen", 3)


@pytest.mark.parametrize("count", [0, 1, 2, 3, 4, 7, 1000])
@pytest.mark.parametrize("number", [1, 2, 3, 8])
def test_every_index_is_computed_once_in_contiguous_shares(count, number):
    threads.set_num_threads(number)
    shares = []
    threads.run(lambda first, last: shares.append((first, last)), count, LARGE)
    assert all(first < last for first, last in shares)
    assert [index for share in sorted(shares) for index in range(*share)] == list(range(count))
    assert len(shares) == min(count, number)


def meet(parties):
    """A task that ends only when so many threads are in it at the same time."""
    barrier = threading.Barrier(parties, timeout=30)
    names = []

    def task(first, last):
        names.append(threading.get_ident())
        barrier.wait()

    return task, names


def test_large_work_runs_on_the_calling_thread_and_on_helpers_at_once():
    task, names = meet(3)
    threads.run(task, 3, LARGE)
    assert len(set(names)) == 3
    assert threading.get_ident() in names


def test_a_call_within_a_share_runs_on_the_thread_of_the_share():
    meeting, outside = meet(3)
    inside = []

    def outer(first, last):
        meeting(first, last)
        mine = []
        threads.run(lambda first, last: mine.append((threading.get_ident(), first, last)), 10, LARGE)
        inside.extend(mine)

    threads.run(outer, 3, LARGE)
    assert sorted(inside) == sorted((thread, 0, 10) for thread in outside)
    task, names = meet(3)
    threads.run(task, 3, LARGE)  # the calling thread is not taken for a share's afterwards
    assert len(set(names)) == 3


@pytest.fixture
def jobs(monkeypatch):
    """The jobs of the calls made, which tell when the caller has stopped and waits."""
    made = []

    class Seen(threads.Job):
        def __init__(self, *given):
            super().__init__(*given)
            made.append(self)

    monkeypatch.setattr(threads, "Job", Seen)
    return made


@pytest.mark.parametrize("bad", [0, 1, 2])
def test_an_exception_of_any_share_reaches_the_caller_after_all_shares_have_ended(bad, jobs):
    meeting, _ = meet(3)
    ended = []

    def task(first, last):
        meeting(first, last)
        if first == bad:
            raise ZeroDivisionError(first)
        while first and jobs[0].task is not None:
            pass
        ended.append(first)

    with pytest.raises(ZeroDivisionError, match=str(bad)):
        threads.run(task, 3, LARGE)
    assert sorted([*ended, bad]) == [0, 1, 2]


def test_an_interrupt_on_the_way_into_the_wait_does_not_skip_it(monkeypatch, jobs):
    meeting, _ = meet(3)
    close, ended = threads.Job.close, []

    def interrupted(job):
        monkeypatch.setattr(threads.Job, "close", close)
        raise KeyboardInterrupt

    def task(first, last):
        meeting(first, last)
        while first and jobs[0].task is not None:
            pass
        ended.append(first)

    monkeypatch.setattr(threads.Job, "close", interrupted)
    with pytest.raises(KeyboardInterrupt):
        threads.run(task, 3, LARGE)
    assert sorted(ended) == [0, 1, 2]


@pytest.mark.parametrize("fails", [False, True])
def test_nothing_the_task_holds_outlives_the_call(fails):
    """Without a garbage collection: the memory of an output must come back at once."""

    class Held:
        def __init__(self):
            self.meeting, _ = meet(3)

        def touch(self, first, last):
            self.meeting(first, last)
            if fails and first:
                raise ZeroDivisionError

    for _ in range(100):
        held = Held()
        alive = weakref.ref(held)
        with suppress(ZeroDivisionError):
            threads.run(held.touch, 3, LARGE)
        del held
        assert alive() is None


def test_many_callers_of_many_runs_get_what_one_gets():
    wrong = []

    def caller(seed):
        for size in range(seed, seed + 200):
            found = [0] * size

            def task(first, last, found=found):
                for index in range(first, last):
                    found[index] += index * index

            threads.run(task, size, LARGE)
            if found != [index * index for index in range(size)]:
                wrong.append(size)

    callers = [threading.Thread(target=caller, args=(seed,)) for seed in range(16)]
    for thread in callers:
        thread.start()
    for thread in callers:
        thread.join()
    assert not wrong


def test_a_caller_does_not_wait_for_helpers_that_others_keep_busy(monkeypatch):
    """Both helpers are held up in the first call; the second one computes its shares by itself."""
    monkeypatch.setattr(threads, "pool", threads.Pool())
    inside, release = threading.Barrier(4, timeout=30), threading.Event()

    def hold(first, last):
        inside.wait()
        assert release.wait(30)

    holder = threading.Thread(target=threads.run, args=(hold, 3, LARGE))
    holder.start()
    inside.wait()
    names = []
    threads.run(lambda first, last: names.append(threading.get_ident()), 3, LARGE)
    release.set()
    holder.join()
    assert names == [threading.get_ident()] * 3


def test_without_a_thread_to_be_had_the_caller_computes_everything(monkeypatch):
    def refuse(function, arguments):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threads, "pool", threads.Pool())
    monkeypatch.setattr(threads, "start_new_thread", refuse)
    shares = []
    threads.run(lambda first, last: shares.append((first, last)), 9, LARGE)
    assert sorted(shares) == [(0, 3), (3, 6), (6, 9)]


@pytest.mark.parametrize(
    ("value", "why"),
    [("many", "must be an integer"), ("1.5", "must be an integer"), ("0", "must be from 1 to 1024"), ("-1", "must be from 1")],
)
def test_a_bad_environment_variable_is_named(monkeypatch, value, why):
    monkeypatch.setattr(threads, "chosen", None)
    monkeypatch.setenv("WINDOWGRAD_NUM_THREADS", value)
    with pytest.raises(OptionError, match=f"environment variable WINDOWGRAD_NUM_THREADS=.*{value}.*{why}"):
        threads.get_num_threads()


@pytest.mark.parametrize(
    ("value", "kind"), [(0, OptionError), (-2, OptionError), (10**9, OptionError), (1.5, KindError), (True, KindError)]
)
def test_a_bad_number_of_threads_is_refused_and_changes_nothing(value, kind):
    with pytest.raises(kind, match="count="):
        threads.set_num_threads(value)
    assert threads.get_num_threads() == 3


def test_a_share_has_the_error_state_of_its_caller():
    """NumPy's default is to warn; a thread of its own would do that."""
    meeting, _ = meet(3)
    states = []

    def task(first, last):
        meeting(first, last)
        states.append(np.geterr())

    with np.errstate(divide="ignore", over="raise", under="print", invalid="ignore"):
        threads.run(task, 3, LARGE)
        assert states == [np.geterr()] * 3
    states.clear()
    threads.run(task, 3, LARGE)
    assert states == [np.geterr()] * 3


UPWARD = {"x86_64": 0x800, "AMD64": 0x800, "aarch64": 0x400000, "arm64": 0x400000}
"""C's FE_UPWARD."""


@pytest.mark.skipif(platform.machine() not in UPWARD, reason="the number of a rounding mode is that of the C library")
def test_a_share_has_the_floating_point_environment_of_its_caller():
    """Rounding upwards stands for all of it: the same register says whether subnormal numbers are flushed to zero."""
    library = ctypes.PyDLL("ucrtbase" if platform.system() == "Windows" else None)
    meeting, _ = meet(3)
    thirds = []

    def task(first, last):
        meeting(first, last)
        thirds.append((library.fegetround(), np.divide(np.float64(1), np.float64(3)).hex()))

    before = library.fegetround()
    library.fesetround(UPWARD[platform.machine()])
    try:
        threads.run(task, 3, LARGE)
    finally:
        library.fesetround(before)
    assert thirds == [(UPWARD[platform.machine()], "0x1.5555555555556p-2")] * 3
    thirds.clear()
    threads.run(task, 3, LARGE)
    assert thirds == [(before, "0x1.5555555555555p-2")] * 3
