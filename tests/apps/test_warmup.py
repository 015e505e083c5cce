"""`windowgrad warmup`, run as a user runs it, each time with a cache of its own."""

import gc
import importlib
import io
import json
import os
import pkgutil
import shutil
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from numba.core.dispatcher import Dispatcher

from support.paths import BENCHMARKS
from windowgrad import kernels
from windowgrad.errors import OptionError
from windowgrad.kernels.runtime.cache import user_cache
from windowgrad.kernels.runtime.jit import KernelCache
from windowgrad.ops import OPS
from windowgrad.warmup import steps, workers

COMMAND = [sys.executable, "-c", "from windowgrad.cli import main; main()", "warmup"]
FIRST_CALLS = f"""
import sys
sys.path.insert(0, {str(BENCHMARKS)!r})
import numpy as np, windowgrad as wg
from cold_start import calls
wg.set_num_threads(2)
for first in calls("float32"):
    names = {{"np": np, "wg": wg}}
    exec(first.setup, names)
    exec(first.call, names)
    print(first.call)
"""
"""The calls of `benchmarks/cold_start.py`, which are those of every operator and rule."""
WITHOUT_FAMILY = {
    "sharp_smooth_max_pool": "smooth_max_pool2d(x, 3, 2, 1, beta=beta)",
    "max_unpool": "max_unpool2d",
    "pad": "pad(x, (1, 2))",
    "extend": "pad(x, (1, 2), 'reflect')",
    "unpad": "unpad",
}
"""Operators that the table names no public function of, and how they are called."""
CALL = "import numpy as np, windowgrad as wg; print(wg.max_pool2d(np.arange(16, dtype=np.int8).reshape(4, 4), 2).tolist())"
PART = "from windowgrad.warmup import workers; print(set(workers.failures('int8', 'max_pool')))"
"""A part of a warmup, and what is said of its failures."""


def environment(folder):
    return os.environ | {"WINDOWGRAD_CACHE_DIR": str(folder), "COLUMNS": "80"}


def warmup(folder, *arguments):
    return subprocess.run([*COMMAND, *arguments], capture_output=True, text=True, env=environment(folder), timeout=300)


def seeded(folder):
    """How many kernels the folder has: some of those that other tests have compiled, so that not all are compiled anew."""
    root = user_cache()
    found = [path for number, path in enumerate(sorted(root.rglob("*.kernel"))) if number % 4]
    for path in found:
        (folder / path.parent.name).mkdir(exist_ok=True)
        shutil.copyfile(path, folder / path.parent.name / path.name)
    return len(found)


def test_kernels_are_compiled_once_and_a_later_process_compiles_nothing(tmp_path):
    before = seeded(tmp_path)
    first = warmup(tmp_path, "--dtype", "float32")
    assert (first.returncode, first.stderr) == (0, "")
    assert "compiled " in first.stdout
    assert str(tmp_path) in first.stdout
    kept = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.kernel")}
    assert f"compiled {len(kept) - before} kernels" in first.stdout
    again = warmup(tmp_path, "--dtype", "float32")
    assert "nothing to compile" in again.stdout
    small = (
        "import numpy as np, windowgrad as wg\nx = np.ones((2, 9, 9), np.float32)\n"
        "wg.max_pool2d(x, 2); wg.avg_pool2d(x, 3, 1, 1); wg.smooth_max_pool2d(x, 2, beta=2.0)\n"
        "wg.max_pool2d(x, 3, return_indices=True); wg.global_avg_pool2d(x)"
    )
    for code in (small, FIRST_CALLS):
        done = subprocess.run([sys.executable, "-c", code], env=environment(tmp_path), check=True, stdout=-1, text=True)
        assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.kernel")} == kept
    for name, op in OPS.items():
        families = [family.name for family in op.facts.families] or [WITHOUT_FAMILY[name]]
        assert [family for family in families if f"wg.{family}" not in done.stdout] == [], name


@pytest.mark.parametrize("name", ["float12", "complex64", "object", ""])
def test_a_dtype_that_has_no_kernels_is_refused_by_its_name(tmp_path, name):
    result = warmup(tmp_path, "--dtype", name)
    wanted = "must be bool, int8 to int64, uint8 to uint64, float16, float32 or float64"
    assert (result.returncode, result.stderr) == (2, f"windowgrad: dtype={name!r}: {wanted}\n")
    assert not list(tmp_path.iterdir())


def test_a_folder_that_cannot_be_written_is_said_in_one_line(tmp_path):
    (tmp_path / "file").touch()  # no folder can be made below a file, not even by root
    result = warmup(tmp_path / "file", "--dtype", "int8")
    assert result.returncode == 2
    assert result.stderr.startswith("windowgrad: warmup: compiled kernels cannot be kept for the next run: ")
    assert result.stderr.endswith("; WINDOWGRAD_CACHE_DIR can name another folder\n")
    assert result.stderr.count("\n") == 1


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
@pytest.mark.usefixtures("ctrl_c")
@pytest.mark.parametrize(("how", "status"), [(signal.SIGINT, 130), (signal.SIGKILL, -signal.SIGKILL)])
def test_stopped_halfway_it_leaves_a_cache_that_the_next_process_can_use(tmp_path, how, status):
    with subprocess.Popen([*COMMAND, "--dtype", "int8"], env=environment(tmp_path), stdout=-1, stderr=-1) as process:
        while not list(tmp_path.rglob("*.kernel")):
            assert process.poll() is None
            time.sleep(0.01)
        process.send_signal(how)
        process.communicate(timeout=60)
    assert process.returncode == status
    programs = {CALL: "[[5, 7], [13, 15]]\n"}
    if how is signal.SIGKILL:  # nobody cleaned up
        programs[PART] = "{''}\n"
    for program, said in programs.items():
        found = subprocess.run(
            [sys.executable, "-W", "error", "-c", program], env=environment(tmp_path), capture_output=True, text=True
        )
        assert (found.stdout, found.stderr) == (said, "")


@pytest.mark.slow
def test_every_kernel_there_is_is_compiled():
    for dtype, part in (*(("float32", part) for part in steps.parts(np.dtype(np.float32))), ("float16", "lp_pool")):
        assert set(workers.failures(dtype, part)) == {""}, (dtype, part)
    for module in pkgutil.walk_packages(kernels.__path__, f"{kernels.__name__}."):
        importlib.import_module(module.name)
    made = [each for each in gc.get_objects() if issubclass(type(each), Dispatcher)]  # by its type: some objects warn of a look
    found = [each for each in made if isinstance(each._cache, KernelCache)]
    ours = [each for each in found if (each.py_func.__module__ or "").startswith(f"{kernels.__name__}.")]
    assert len(ours) > 30
    assert [each.py_func.__qualname__ for each in ours if not each.overloads] == []


PARTS = [workers.Part("int8", "first", 2), workers.Part("int8", "second", 1), workers.Part("int8", "third", 1)]
WORKER = (
    "import json, sys\nfor line in sys.stdin:\n  for _ in range(2 if 'first' in line else 1): print(json.dumps({}), flush=True)"
)


def test_each_step_of_each_part_is_done_once_by_some_worker(monkeypatch):
    monkeypatch.setattr(workers, "PROGRAM", WORKER.format("''"))
    assert sorted(workers.done(PARTS, 2)) == sorted([PARTS[0], *PARTS])


def test_a_step_that_fails_is_said(monkeypatch):
    monkeypatch.setattr(workers, "PROGRAM", WORKER.format("'no room'"))
    with pytest.raises(OptionError, match=r"^warmup: no room$"):
        list(workers.done(PARTS, 2))


@pytest.mark.parametrize(
    ("program", "end"),
    [
        ("import sys; sys.exit('no luck')", "1: no luck"),
        ("import os, sys; sys.stdin.readline(); os.abort()", f"{-signal.SIGABRT}: .*"),
        ("import sys; sys.stdin.readline(); print('half', end='', flush=True)", "0: no message"),
    ],
)
def test_a_worker_that_ends_is_an_error_and_not_a_wait_for_ever(monkeypatch, program, end):
    monkeypatch.setattr(workers, "PROGRAM", program)
    with pytest.raises(OptionError, match=f"^warmup: a process ended with status {end}"):
        list(workers.done(PARTS, 2))


def test_workers_end_with_the_loop_that_asks_them(monkeypatch):
    started, real = [], subprocess.Popen

    def start(*arguments, **options):
        started.append(real(*arguments, **options))
        return started[-1]

    monkeypatch.setattr(workers, "PROGRAM", WORKER.format("''"))
    monkeypatch.setattr(subprocess, "Popen", start)
    for _ in workers.done(PARTS, 2):
        break
    assert len(started) == 2
    assert all(process.returncode is not None for process in started)


def test_what_numpy_warns_of_is_no_failure_and_what_cannot_be_kept_is(monkeypatch):
    def divide():
        return np.ones(1) / np.zeros(1)

    def warn():
        workers.warnings.warn("compiled kernels cannot be kept for the next run: why", RuntimeWarning, stacklevel=2)

    def fail():
        raise ValueError("why")

    todo = {"op": [("divide", divide), ("warn", warn), ("fail", fail)]}
    monkeypatch.setattr(workers, "parts_of", lambda dtype: todo)
    answers = io.StringIO()
    workers.serve(io.StringIO("int8 op\n"), answers)
    assert [json.loads(line) for line in answers.getvalue().splitlines()] == [
        "",
        "compiled kernels cannot be kept for the next run: why",
        "fail of int8: ValueError: why",
    ]
