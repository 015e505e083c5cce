"""The thread pool in an interpreter of its own: it is forked, interrupted, shut down, or told by the environment."""

import os
import sys

import pytest

from support.interpreter import fresh
from windowgrad.kernels.runtime import threads


def script(code, **environment):
    return fresh(
        "import os, signal, sys, threading, time\nfrom windowgrad.kernels.runtime import threads\n" + code, **environment
    )


def test_small_work_stays_on_the_calling_thread_and_starts_no_other():
    assert (
        script(
            "threads.set_num_threads(4)\n"
            "threads.run(lambda first, last: print(first, last, threading.active_count()), 100, threads.LEAST_WORK - 1)"
        )
        == "0 100 1\n"
    )


FORK = """
threads.set_num_threads(3)
def total():
    found = []
    barrier = threading.Barrier(3, timeout=30)   # passed only when the child has helpers of its own
    def task(first, last):
        found.extend(range(first, last))
        barrier.wait()
    threads.run(task, 100, threads.LEAST_WORK)
    return sum(found)
assert total() == 4950
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_child_has_its_own_helpers_even_if_a_lock_was_held_elsewhere():
    code = """
held, done = threading.Event(), threading.Event()
def hold():
    with threads.pool.lock:
        held.set()
        done.wait()
holder = threading.Thread(target=hold)
holder.start()
held.wait()
import warnings
warnings.simplefilter("ignore")    # newer Pythons warn of fork with threads, which is what is tested
child = os.fork()
if child == 0:
    signal.alarm(30)
    os._exit(0 if total() == 4950 else 1)
assert os.waitpid(child, 0)[1] == 0
done.set()
holder.join()
assert total() == 4950
"""
    script(FORK + code)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_multiprocessing_workers_compute():
    code = """
import multiprocessing, warnings
warnings.simplefilter("ignore")
with multiprocessing.get_context("fork").Pool(2) as workers:
    print(workers.starmap(total, [()] * 4))
"""
    assert script(FORK + code) == "[4950, 4950, 4950, 4950]\n"


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
@pytest.mark.usefixtures("ctrl_c")
def test_ctrl_c_is_raised_after_the_other_shares_have_ended_even_if_pressed_again():
    code = """
threads.set_num_threads(2)
started, finished = threading.Event(), []
def task(first, last):
    if first == 0:
        assert started.wait(30)
        os.kill(os.getpid(), signal.SIGINT)
        while True:
            time.sleep(1)
    started.set()
    while threads.pool.seen.task is not None:
        pass                                    # until the caller is about to wait
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(0.05)
    finished.append(first)
wake = threads.pool.wake
def spy(job, count):
    threads.pool.seen = job
    wake(job, count)
threads.pool.wake = spy
try:
    threads.run(task, 2, threads.LEAST_WORK)
except KeyboardInterrupt:
    print("interrupted", finished)
shares = []
threads.run(lambda first, last: shares.append((first, last)), 2, threads.LEAST_WORK)
print(sorted(shares))
"""
    assert script(code) == "interrupted [1]\n[(0, 1), (1, 2)]\n"


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_an_interrupt_at_any_moment_leaves_no_share_running():
    code = """
threads.set_num_threads(3)
class Interrupt(Exception): pass
armed = False
def raises(*_):
    if armed:  # a signal that another thread takes may come late
        raise Interrupt
signal.signal(signal.SIGALRM, raises)
running = set()
def task(first, last):
    if threading.current_thread() is threading.main_thread():
        return
    running.add(first)
    for _ in range(100): pass
    running.discard(first)
interrupted = 0
for moment in range(1000):
    try:
        armed = True
        signal.setitimer(signal.ITIMER_REAL, 1e-6 * (1 + moment % 200))
        for _ in range(20):
            threads.run(task, 3, threads.LEAST_WORK)
            assert not running
        armed = False
        signal.setitimer(signal.ITIMER_REAL, 0)
    except Interrupt:
        armed = False
        interrupted += 1
        assert not running
assert interrupted > 100, interrupted
"""
    script(code)


SHUTDOWN = """
import atexit
threads.set_num_threads(3)
def once():
    threads.run(lambda first, last: sum(range(first, last)), 3000, threads.LEAST_WORK)
atexit.register(once)
once()
"""


def test_the_interpreter_shuts_down_in_silence_while_threads_compute():
    code = """
def forever():
    while True:
        once()
for _ in range(3):
    threading.Thread(target=forever, daemon=True).start()
"""
    assert script(SHUTDOWN + code) == ""


def test_a_finaliser_at_the_end_of_the_interpreter_can_still_compute():
    code = """
class Last:
    def __del__(self, once=once):
        once()
        print("computed")
kept = Last()
"""
    assert script(SHUTDOWN + code) == "computed\n"


def test_the_default_is_one_thread_per_cpu_this_process_may_use():
    code = "print(threads.get_num_threads())"
    assert script(code, WINDOWGRAD_NUM_THREADS="") == f"{threads.available_cpus()}\n"
    if hasattr(os, "sched_setaffinity"):
        assert script("os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})\n" + code, WINDOWGRAD_NUM_THREADS="") == "1\n"


def test_the_environment_variable_says_how_many_threads_and_a_later_call_overrides_it():
    code = "print(threads.get_num_threads()); threads.set_num_threads(2); print(threads.get_num_threads())"
    assert script(code, WINDOWGRAD_NUM_THREADS="5") == "5\n2\n"
