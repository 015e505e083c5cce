"""Helpers that sleep: the open door and tasks of Python rouse them, whatever they wait for and however many call."""

import os
import threading
import time
from functools import partial

import numpy as np
import pytest

from support.shared_kernels import bits, count_up, note_thread
from windowgrad.kernels.runtime import door, spin, team, threads

LARGE = threads.LEAST_WORK
posix = pytest.mark.skipif(os.name != "posix", reason="threads have another name elsewhere")


@pytest.fixture(autouse=True)
def three_threads(monkeypatch):
    """Three threads that watch, as if each had a CPU."""
    monkeypatch.setattr(threads, "pool", threads.Pool())
    monkeypatch.setattr(threads, "chosen", 3)
    monkeypatch.setattr(threads, "cpus", lambda: 8)


def all_in_bed():
    latest = time.monotonic() + 60
    while threads.pool.team.in_bed() < threads.pool.helpers:
        time.sleep(0)  # others may have the GIL
        assert time.monotonic() < latest, "a helper waits elsewhere"


def helped_within(calls, call):
    """Whether helpers computed shares in one of so many calls, before each of which all of them slept."""
    team = threads.pool.team
    for _ in range(calls):
        all_in_bed()
        before = team.counts()["helped"]
        call()
        if team.counts()["helped"] > before:
            return True
    return False


@posix
@pytest.mark.parametrize("cpus", [1, 8])
def test_the_open_door_rouses_helpers_and_nothing_before_it(monkeypatch, cpus):
    """Roused before, a helper would look for work that is not there yet, perhaps on the CPU of its caller, and sleep."""
    monkeypatch.setattr(threads, "cpus", lambda: cpus)
    found = np.zeros(8 + 12, np.uint64)
    threads.run(partial(note_thread, found, 1), 12, LARGE)
    all_in_bed()
    assert helped_within(3000, lambda: threads.pool.team.launch(note_thread, (found, 20000), 12, 12, 2))
    assert (found[8:] > 0).all()


@posix
def test_helpers_that_sleep_for_python_join_the_team():
    barrier = threading.Barrier(3, timeout=30)
    threads.run(lambda first, last: barrier.wait(), 3, LARGE)
    assert threads.pool.helpers == 2
    assert threads.pool.team is None
    found = np.zeros(8 + 12, np.uint64)
    threads.run(partial(note_thread, found, 1), 12, LARGE)
    all_in_bed()
    assert helped_within(3000, lambda: threads.run(partial(note_thread, found, 20000), 12, LARGE))


@pytest.mark.parametrize("cpus", [1, 8])
def test_tasks_of_python_rouse_helpers_that_sleep_in_the_team(monkeypatch, cpus):
    monkeypatch.setattr(threads, "cpus", lambda: cpus)
    found, barrier = np.zeros(12, np.int64), threading.Barrier(3, timeout=30)
    for _ in range(30):
        threads.run(partial(count_up, found), 12, LARGE)
        threads.run(lambda first, last: barrier.wait(), 3, LARGE)  # all three threads are in it at once
        all_in_bed()
        threads.run(lambda first, last: barrier.wait(), 3, LARGE)
    assert found.tolist() == [30] * 12


def test_helpers_that_have_just_ended_a_task_of_python_join_the_team(monkeypatch):
    """Else one now and then slept for good beside the new queue."""
    found = np.zeros(12, np.int64)
    for _ in range(200):
        monkeypatch.setattr(threads, "pool", threads.Pool())
        barrier = threading.Barrier(3, timeout=30)
        threads.run(lambda first, last, barrier=barrier: barrier.wait(), 3, LARGE)
        threads.run(partial(count_up, found), 12, LARGE)
        all_in_bed()
    assert found.tolist() == [200] * 12


def test_callers_at_once_get_one_team():
    found, start = [], threading.Barrier(8, timeout=30)

    def caller():
        start.wait()
        threads.pool.gather(team.Team())
        found.append(threads.pool.team)

    callers = [threading.Thread(target=caller) for _ in range(8)]
    for thread in callers:
        thread.start()
    for thread in callers:
        thread.join()
    assert found == [threads.pool.team] * 8


def test_a_team_counts_its_jobs_and_who_computed_their_shares():
    found = np.zeros(60, np.int64)
    threads.over(bits, (found,), 60, LARGE)
    before = threads.pool.team.counts()
    for _ in range(50):
        threads.over(bits, (found,), 60, LARGE)
    counts = {name: count - before[name] for name, count in threads.pool.team.counts().items()}
    assert (counts["jobs"], counts["shares"]) == (50, 50 * 3 * threads.SHARES)
    assert 0 <= counts["helped"] <= counts["shares"]
    assert (counts["alone"] == 50) == (counts["helped"] == 0)
    threads.over(bits, (found,), 60, 0)  # on one thread
    assert threads.pool.team.counts()["jobs"] == before["jobs"] + 50


def test_how_long_helpers_watch_follows_the_number_of_threads(monkeypatch):
    monkeypatch.setattr(threads, "cpus", lambda: 4)
    threads.over(bits, (np.zeros(60, np.int64),), 60, LARGE)
    words = threads.pool.team.words
    assert words[door.WATCH] == spin.loop[1]
    threads.set_num_threads(5)
    assert words[door.WATCH] == 1
    threads.set_num_threads(4)
    assert words[door.WATCH] == spin.loop[1]
