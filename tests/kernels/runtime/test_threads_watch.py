"""Helpers and callers watch for each other before they sleep; what they compute does not depend on it."""

import sys
import threading
import time

import pytest

from windowgrad.kernels.runtime import jit, spin, threads

LARGE = threads.LEAST_WORK


@pytest.fixture(autouse=True)
def two_threads_of_two(monkeypatch):
    assert jit  # what the loop is made with is loaded
    spin.prepare()
    monkeypatch.setattr(threads, "chosen", 2)
    monkeypatch.setattr(threads, "cpus", lambda: 2)


def test_the_loop_is_not_made_before_kernels_are(monkeypatch):
    monkeypatch.setattr(spin, "loop", None)
    monkeypatch.delitem(sys.modules, "windowgrad.kernels.runtime.jit")
    spin.prepare()
    assert spin.loop is None
    assert not spin.Word().passed(0)


def test_a_word_that_has_changed_is_passed_at_once():
    word = spin.Word()
    word.value = 3
    assert word.passed(2)


def test_a_word_that_does_not_change_is_left_after_a_while():
    assert not spin.Word().passed(0)


def test_a_change_by_another_thread_is_seen_without_the_lock_of_python(monkeypatch):
    """The loop would last for hours, and holds up nobody."""
    wait, _ = spin.loop
    monkeypatch.setattr(spin, "loop", (wait, 1 << 50))
    word, seen = spin.Word(), []
    watcher = threading.Thread(target=lambda: seen.append(word.passed(0)), daemon=True)
    watcher.start()
    word.value = 1
    watcher.join(timeout=30)
    assert seen == [True]


def test_the_loop_looks_at_nothing_but_its_word():
    word = spin.Word()
    for i in range(8):
        word.before[i] = 5
    for i in range(24):
        word.after[i] = 5
    assert not word.passed(0)


@pytest.mark.parametrize("pause", [0, 1e-3])
def test_calls_soon_after_another_and_late_ones_are_served(pause):
    for size in range(2, 40):
        found = [0] * size

        def task(first, last, found=found):
            for i in range(first, last):
                found[i] += i * i

        threads.run(task, size, LARGE)
        assert found == [i * i for i in range(size)]
        time.sleep(pause)


@pytest.mark.parametrize("share", [0, 1])
def test_a_caller_waits_for_a_share_that_takes_longer_than_it_watches(share):
    barrier, ended = threading.Barrier(2, timeout=30), []

    def task(first, last):
        barrier.wait()
        if first == share:
            time.sleep(100 * spin.MOMENT)
        ended.append(first)

    threads.run(task, 2, LARGE)
    assert sorted(ended) == [0, 1]


def test_an_exception_of_a_helper_reaches_a_caller_that_watches():
    barrier = threading.Barrier(2, timeout=30)

    def task(first, last):
        barrier.wait()
        if first:
            raise ZeroDivisionError

    for _ in range(20):
        with pytest.raises(ZeroDivisionError):
            threads.run(task, 2, LARGE)


def test_nobody_watches_where_threads_share_a_cpu(monkeypatch):
    monkeypatch.setattr(threads, "cpus", lambda: 1)
    assert not threads.may_watch()
    monkeypatch.setattr(threads, "cpus", lambda: 2)
    assert threads.may_watch()
