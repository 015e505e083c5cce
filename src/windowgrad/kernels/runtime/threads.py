"""A few threads for kernels that release the GIL: `run` cuts a range into contiguous shares and computes them at once.

The shares of a call lie in its job. The caller works them off, and so does every helper thread that wakes up in time; at the
end the caller waits only for shares a helper has already begun. So a call always finishes, however many callers there are,
and even when no helper can run: after a failed start, in a forked child, while the interpreter shuts down.

A share is computed in the state of its caller, whoever computes it: its context variables, of which NumPy's error state is
one, and its floating-point environment.

A task that is a compiled kernel with its first arguments (`partial`) is shared without Python: helpers that are awake take
shares without the GIL (`team`).

Where there are CPUs enough, a helper that has nothing to do and a caller that waits both watch for a moment before they
sleep: most calls come soon after another, and most shares end together.
"""

from __future__ import annotations

import os
import sys
import threading
from _thread import start_new_thread
from collections.abc import Callable
from contextlib import suppress
from contextvars import Context, copy_context
from functools import cache, partial
from itertools import pairwise
from queue import Empty, SimpleQueue
from typing import Any

from windowgrad.arguments import as_int
from windowgrad.errors import OptionError, show
from windowgrad.interrupts import put_off
from windowgrad.kernels.runtime import fenv, spin
from windowgrad.loading import loading

VARIABLE = "WINDOWGRAD_NUM_THREADS"
LEAST_WORK = 1 << 19  # bytes; measured: waking a helper takes about 20 µs, in which one thread moves about this much
QUICKER = 4  # so many times less is enough for kernels, whose helpers need not be woken up: measured, about 2 µs
SHARES = 4  # of a kernel, for each thread: who comes late or is interrupted does less
MOST_THREADS = 1024  # a typing error should not start a million threads

Task = Callable[[int, int], object]


class Job:
    """The shares of one call that nobody has begun, and how many are in the hands of helpers."""

    __slots__ = ("begun", "context", "done", "environment", "error", "lock", "shares", "task")

    def __init__(self, task: Task, shares: list[tuple[int, int]]) -> None:
        self.task: Task | None = task
        self.context: Context | None = copy_context()
        self.environment = fenv.current()
        self.shares = shares
        self.lock = threading.Lock()
        self.begun = 0
        self.done = threading.Lock()  # released once, when the last helper ends after `close`
        self.done.acquire()
        self.error: BaseException | None = None

    def take(self) -> tuple[int, int] | None:
        try:
            return self.shares.pop()
        except IndexError:
            return None

    def help(self) -> None:
        """A helper's part. What a share raises is kept for the caller, and the shares nobody has begun are dropped."""
        while True:
            with self.lock:
                share, task, context = self.take(), self.task, self.context
                if share is None or task is None or context is None:
                    return
                self.begun += 1
            try:
                fenv.use(self.environment)
                context.copy().run(task, *share)  # a copy: two threads cannot be in one context
            except BaseException as error:
                self.shares.clear()
                self.error = error
            del task, context  # before the caller goes on: the last reference to its arrays must be the caller's
            with self.lock:
                self.begun -= 1
                if self.begun == 0 and self.task is None:
                    self.done.release()
            ended.value += 1

    def close(self) -> None:
        """No share begins any more, and those in the hands of helpers have ended; also when the wait is interrupted."""
        with self.lock:
            self.task = self.context = None  # a job still lying in the queue keeps no array alive
            self.shares.clear()
        interrupt: BaseException | None = None
        watching = self.begun > 0 and may_watch()
        while self.begun:  # read again after an interrupt, which may come just after the lock was got
            try:
                watching = watching and self.watched()
                if not watching:
                    self.done.acquire()
            except BaseException as raised:  # Ctrl-C, or whatever a signal handler raises
                interrupt = raised
        if interrupt is not None:
            raise interrupt

    def watched(self) -> bool:
        """Whether a share ended within a moment."""
        seen = ended.value
        return self.begun == 0 or ended.passed(seen)


class Pool:
    """Helper threads, started when first needed. Python does not wait for them at its end."""

    def __init__(self) -> None:
        self.jobs: SimpleQueue[Job | None] = SimpleQueue()
        self.calls = spin.Word()  # how many there were for Python
        self.lock = threading.Lock()
        self.helpers = 0
        self.team: Any = None  # of those who take shares of kernels, once there was one

    def wake(self, job: Job, count: int) -> None:
        if self.helpers < count:
            self.start(count)
        for _ in range(count):
            self.jobs.put(job)
        self.calls.value += 1
        if self.team is not None:
            self.team.rouse(count)

    def gather(self, team: Any) -> None:
        """From now on helpers wait in a team, those that sleep here too; not if another caller was faster.

        Nothing is made while the lock is held: a finaliser that runs then may call.
        """
        team.watch(may_watch())
        jobs: SimpleQueue[Job | None] = SimpleQueue()
        with self.lock:
            if self.team is None:
                self.team, before, self.jobs = team, self.jobs, jobs
                for _ in range(self.helpers):  # only those who sleep take what is in the old queue
                    before.put(None)

    def start(self, count: int) -> None:
        with self.lock:
            while self.helpers < count:
                try:
                    start_new_thread(self.serve, ())  # one call in C: Ctrl-C within `threading.Thread.start` breaks that module
                except RuntimeError:  # no more threads to be had, or the interpreter is shutting down: the caller does it all
                    return
                self.helpers += 1

    def serve(self) -> None:
        state.inside = True
        team, bed = None, 0
        while True:
            jobs, seen = self.jobs, self.calls.value  # the queue before the team: in a new queue nobody sleeps without one
            if team is not self.team:
                team, bed = self.team, self.team.bed()
            if jobs.empty():
                self.wait(seen, team, bed)
            with suppress(Empty):
                job = jobs.get(block=team is None)
                if job is not None:
                    job.help()
                del job  # nothing of it is kept while waiting for the next

    def wait(self, seen: int, team: Any, bed: int) -> None:
        """Until there is a job for Python; without a team for a moment only."""
        if team is not None:
            team.serve(self.calls, seen, bed)
        elif may_watch():
            self.calls.passed(seen)


class State(threading.local):
    inside = False  # this thread is computing a share, so what the share calls runs on this thread


state = State()
pool = Pool()
ended = spin.Word()  # how many shares were ended by helpers
chosen: int | None = None
found: Any = None


def run(task: Task, count: int, work: int) -> None:
    """`task(first, last)` over contiguous shares of range(count), at once on several threads when `work` bytes are worth it.

    One share runs on the calling thread. All shares have ended when this returns or raises; an exception of any share
    reaches the caller, and then shares not yet begun are dropped. A call from within a share runs on its own thread.
    """
    threads = 1 if not is_worth(work) or count < 2 or state.inside else min(get_num_threads(), count)
    is_call = threads > 1 and type(task) is partial and not task.keywords
    if is_call and launched(task.func, task.args, count, threads) is not None:  # type: ignore[attr-defined]  # of a partial
        return
    if threads == 1 or work < LEAST_WORK:
        if count > 0:
            task(0, count)
        return
    spin.prepare()
    bounds = [count * share // threads for share in range(threads + 1)]
    job = Job(task, list(pairwise(bounds[1:])))
    state.inside = True
    try:
        try:
            pool.wake(job, threads - 1)
            task(0, bounds[1])
            while share := job.take():
                task(*share)
        finally:
            state.inside = False
            job.close()
    except BaseException:
        job.close()  # again, in case Ctrl-C came on the way into the first one
        raise
    error, job.error = job.error, None
    if error is not None:
        try:
            raise error
        finally:
            del error  # its traceback holds this frame: together they would keep the arrays alive


def is_worth(work: int) -> bool:
    """Whether so many bytes of work are worth several threads, if a kernel does it."""
    return work >= LEAST_WORK // QUICKER


def over(kernel: Any, given: tuple[Any, ...], count: int, work: int) -> int:
    """`kernel(*given, first, last)` over contiguous shares of range(count), as `run`; the numbers that they return, or-ed."""
    if is_worth(work) and count > 1 and not state.inside and (threads := min(get_num_threads(), count)) > 1:
        found = launched(kernel, given, count, threads)
        if found is not None:
            return found
    return kernel(*given, 0, count) or 0


def launched(kernel: Any, given: tuple[Any, ...], count: int, threads: int) -> int | None:
    """What the shares of a kernel return, or-ed; None if it is no kernel, or one that cannot be shared so."""
    team = native()
    if team is None or type(kernel) is not team.KERNEL or not team.address(kernel, given):
        return None
    if pool.team is None:
        spin.prepare()
        with put_off():  # else some would sleep for ever
            pool.gather(team.Team())
    if pool.helpers < threads - 1:
        pool.start(threads - 1)
    return pool.team.launch(kernel, given, count, min(count, SHARES * threads), threads - 1)  # type: ignore[no-any-return]


def repeated(kernel: Any, count: int, threads: int, told: tuple[Any, ...] = ()) -> Callable[..., int]:
    """`over` on so many threads, as a function of the first arguments of the kernel, which are of the same types in every call.

    So it is asked once whether threads can share the kernel, and the job is described once. `told` comes behind them.
    """
    alone = *told, 0, count
    if min(threads, count) < 2:
        return lambda *given: kernel(*given, *alone) or 0
    threads, described = min(threads, count), None

    def call(*given: Any) -> int:
        nonlocal described
        if state.inside:
            return kernel(*given, *alone) or 0
        known = described
        if known is None or known[0] is not pool.team:  # in a forked child there is another one
            found = launched(kernel, (*given, *told), count, threads)
            if found is None:
                return kernel(*given, *alone) or 0
            described = pool.team, *pool.team.job(told, count, min(count, SHARES * threads), threads - 1)
            return found
        if pool.helpers < threads - 1:
            pool.start(threads - 1)
        return kernel(*given, *known[1]) or 0

    return call


def sharing(kernel: Any, told: tuple[Any, ...], count: int, work: int) -> Callable[..., object]:
    """The same on as many threads as `work` bytes are worth and are wanted at the time of a call."""
    if not is_worth(work):
        return repeated(kernel, count, 1, told)
    calls: dict[int | None, Callable[..., int]] = {}

    def call(*given: Any) -> int:
        found = calls.get(chosen)
        if found is None:
            threads = get_num_threads()
            found = calls[threads] = repeated(kernel, count, threads, told)
        return found(*given)

    return call


def native() -> Any:
    """The module `team`; None before kernels are loaded, and with them Numba."""
    global found
    if found is None and "windowgrad.kernels.runtime.jit" in sys.modules:
        with put_off(), loading:
            from windowgrad.kernels.runtime import team

            found = team
    return found


def get_num_threads() -> int:
    """How many threads a large call uses: as set, else by WINDOWGRAD_NUM_THREADS, else one per CPU this process may use."""
    global chosen
    if chosen is None:
        chosen = from_environment(VARIABLE, available_cpus(), 1, MOST_THREADS)
    return chosen


def may_watch() -> bool:
    """Whether each thread may have a CPU for itself, so that watching takes none from those that compute."""
    return get_num_threads() <= cpus()


def set_num_threads(count: int) -> None:
    """Use at most `count` threads from the next call on. The results are the same bits for every count."""
    global chosen
    chosen = checked("count", count, 1, MOST_THREADS)
    if pool.team is not None:
        pool.team.watch(may_watch())


@cache
def cpus() -> int:
    return available_cpus()


def available_cpus() -> int:
    if hasattr(os, "process_cpu_count"):  # Python 3.13
        return os.process_cpu_count() or 1
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def from_environment(name: str, default: int, least: int, most: int | None = None) -> int:
    """The integer in the environment variable `name`; unset or empty: the default."""
    text = os.environ.get(name, "").strip()
    if not text:
        return default
    try:
        number = int(text)
    except ValueError:
        raise OptionError(f"environment variable {name}={show(text)}: must be an integer") from None
    return checked(f"environment variable {name}", number, least, most)


def checked(name: str, value: object, least: int, most: int | None) -> int:
    number = as_int(name, value, least=-(2**63))  # whether it is an integer; its range is this function's to judge
    if number < least or (most is not None and number > most):
        wanted = f"must be at least {least}" if most is None else f"must be from {least} to {most}"
        raise OptionError(f"{name}={show(number)}: {wanted}")
    return number


def forget_helpers() -> None:
    """In a forked child: the helpers stayed behind, and a lock may have been held there."""
    global pool
    pool = Pool()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=forget_helpers)
