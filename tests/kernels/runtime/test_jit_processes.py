"""Compiled kernels from process to process: kept for the next one, never half written, and nothing a fork waits for."""

import os
import signal
import subprocess
import sys

import pytest

KERNELS = """
import os, signal, sys
import numpy as np
from windowgrad.kernels.runtime import jit

@jit.helper
def square(v):
    return v * v

@jit.kernel
def energy(x):
    total = x.dtype.type(0)
    for i in range(x.size):
        total += square(x[i])
    return total

HITS = lambda: sum(energy.stats.cache_hits.values())
F4, F8 = np.arange(4, dtype=np.float32), np.arange(4.0)
"""


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """A cache of its own for each test, which the processes it starts inherit."""
    monkeypatch.setenv("WINDOWGRAD_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


def start(code):
    command = [sys.executable, "-W", "error", "-c", KERNELS + code]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def script(code, expected=0):
    process = start(code)
    printed, _ = process.communicate(timeout=60)
    assert process.returncode == expected, printed
    return printed


def files(folder):
    return sorted(folder.glob("kernels-*/*"))


def test_a_kernel_compiled_in_one_process_is_loaded_in_the_next_and_others_still_compile_there(folder):
    assert script("print(energy(F8), HITS())") == "14.0 0\n"
    (kept,) = files(folder)  # the helper is part of the kernel, and not kept by itself
    assert kept.suffix == ".kernel"
    assert script("print(energy(F8), HITS(), energy(F4), HITS(), 'scipy.linalg' in sys.modules)").startswith("14.0 1 14.0 1")
    assert len(files(folder)) == 2


def test_processes_that_compile_at_the_same_time_leave_a_cache_that_all_can_use(folder):
    """In opposite order: each saves a signature while the other one saves the other."""
    orders = ["print(energy(F4), energy(F8))", "print(energy(F8), energy(F4))"]
    processes = [start(order) for order in orders]
    for process in processes:
        assert process.communicate(timeout=60)[0] == "14.0 14.0\n"
        assert process.returncode == 0
    assert [path.suffix for path in files(folder)] == [".kernel"] * 2
    assert script("print(energy(F4), energy(F8), HITS())") == "14.0 14.0 2\n"


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
@pytest.mark.parametrize("moment", ["jit.pack", "os.link", "os.replace"])
def test_a_process_killed_while_it_compiles_leaves_the_next_one_in_order(folder, moment):
    """Before the file is written, before it has a name, and before it is moved into place."""
    kill = "def kill(*_, **__): os.kill(os.getpid(), signal.SIGKILL)\n"
    script(f"{kill}{moment} = kill\nenergy(F8)", expected=-signal.SIGKILL)
    assert not [path for path in files(folder) if path.suffix == ".kernel"]
    assert script("print(energy(F8), HITS())") == "14.0 0\n"
    assert [path.suffix for path in files(folder)].count(".kernel") == 1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_child_forked_while_another_thread_compiles_can_compile():
    code = """
import threading, time, warnings
warnings.simplefilter("ignore")    # newer Pythons warn of fork with threads, which is what is tested
held = threading.Event()
def compile_for_a_while():
    with jit.global_compiler_lock:
        held.set()
        time.sleep(0.1)
compiling = threading.Thread(target=compile_for_a_while)
compiling.start()
held.wait()
child = os.fork()
if child == 0:
    signal.alarm(30)
    os._exit(0 if energy(F8) == 14 else 1)
assert os.waitpid(child, 0)[1] == 0
compiling.join()
print(energy(F8))
"""
    assert script(code) == "14.0\n"


def test_with_the_jit_switched_off_kernels_are_plain_functions(monkeypatch):
    monkeypatch.setenv("NUMBA_DISABLE_JIT", "1")
    assert script("HITS = None\nprint(energy(F8), type(energy).__name__)") == "14.0 function\n"


def test_threads_and_buffers_do_not_load_numba():
    code = "import sys, windowgrad.kernels.runtime.threads, windowgrad.kernels.runtime.buffers; print('numba' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"
